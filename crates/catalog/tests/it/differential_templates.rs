//! Mutated templates render to the same catalogs, or the same refusals, as with opm, on bundles in a real registry.

use std::collections::HashMap;
use std::process::Command;

use bailiwick_catalog::bundle::Migration;
use bailiwick_catalog::fbc::{Catalog, Output, write_catalog};
use bailiwick_catalog::oci::build_directory;
use bailiwick_catalog::reference::ImageReference;
use bailiwick_catalog::render::{Allowed, Renderer};
use bailiwick_catalog::template::{TemplateKind, render_template};
use rand::Rng as _;
use rand::rngs::StdRng;

use crate::differential::cases;
use crate::{paths, registry};

/// opm pulls every image again for every template.
const CASES: usize = 25;

/// A semver template with some of the images, in some of the lists, with some of the options; sometimes wrong.
fn template(images: &[String], rng: &mut StdRng) -> String {
    let mut text = String::new();
    let schema = if rng.random_bool(0.05) { "olm.semvers" } else { "olm.semver" };
    let key = |rng: &mut StdRng, name: &str| {
        if rng.random_bool(0.3) { name.to_owned() } else { format!("{}{}", name[..1].to_uppercase(), &name[1..]) }
    };
    text.push_str(&format!("{}: {schema}\n", key(rng, "schema")));
    for option in ["generateMajorChannels", "generateMinorChannels"] {
        if rng.random_bool(0.6) {
            text.push_str(&format!("{}: {}\n", key(rng, option), rng.random_bool(0.7)));
        }
    }
    if rng.random_bool(0.4) {
        let kind = ["major", "minor", "patch", ""][rng.random_range(0..4)];
        text.push_str(&format!("defaultChannelTypePreference: {kind:?}\n"));
    }
    if rng.random_bool(0.05) {
        text.push_str("unknown: true\n");
    }
    for list in ["candidate", "fast", "stable"] {
        if rng.random_bool(0.4) {
            continue;
        }
        text.push_str(&format!("{}:\n  bundles:\n", key(rng, list)));
        for _ in 0..rng.random_range(1..5) {
            let image = &images[rng.random_range(0..images.len())];
            text.push_str(&format!("  - image: {image}\n"));
        }
    }
    text
}

#[test]
fn mutated_templates_render_as_opm_renders_them() {
    let (Some(data), Some(opm)) = (paths::data(), paths::opm()) else { return };
    let Some(server) = registry::start() else { return };
    let cache = tempfile::tempdir().unwrap();
    let mut images = registry::images(cache.path());
    // Mostly one package, and one bundle each that does not fit to it.
    let mut names = Vec::new();
    for package in ["foo", "foo", "foo", "bld", "other"] {
        let folder = data.join("golden/templates-synthetic/bundles").join(package);
        let Ok(versions) = std::fs::read_dir(&folder) else { continue };
        let mut versions: Vec<_> = versions.map(|it| it.unwrap().path()).filter(|it| it.is_dir()).collect();
        versions.sort();
        for version in versions.into_iter().take(if package == "foo" { 12 } else { 2 }) {
            let tag = format!("v{}", version.file_name().unwrap().to_str().unwrap().replace('+', "_"));
            let name = format!("127.0.0.1:{}/test/{package}:{tag}", server.port);
            if !names.contains(&name) {
                let image = build_directory(&version, &registry::bundle_labels(&version)).unwrap();
                images.push(&image, &ImageReference::parse(&name).unwrap(), &[tag]).unwrap();
            }
            names.push(name);
        }
    }
    let mut known: HashMap<String, Catalog> = HashMap::new();
    let home = registry::opm_home();
    let (cases, mut rng) = cases(CASES);
    let mut rendered = 0;
    for number in 0..cases {
        let text = template(&names, &mut rng);
        let mut bundles = |image: &str| {
            if let Some(catalog) = known.get(image) {
                return Ok(catalog.clone());
            }
            let mut renderer = Renderer {
                images: &mut images,
                allowed: Allowed::BundleImages,
                migration: Migration::None,
                image_template: None,
            };
            let catalog = renderer.render(&[image.to_owned()])?;
            known.insert(image.to_owned(), catalog.clone());
            Ok(catalog)
        };
        let ours = render_template(TemplateKind::Semver, &text, &mut bundles);
        let path = home.path().join("template.yaml");
        std::fs::write(&path, &text).unwrap();
        let output = Command::new(&opm)
            .env("HOME", home.path())
            .args(["alpha", "render-template", "semver", "--use-http", "-o", "yaml"])
            .arg(&path)
            .output()
            .unwrap();
        match ours {
            Ok(ours) => {
                let error = String::from_utf8_lossy(&output.stderr);
                assert!(output.status.success(), "template {number}:\n{text}\nopm: {error}");
                let theirs = String::from_utf8(output.stdout).unwrap();
                assert_eq!(write_catalog(&ours.catalog, Output::Yaml), theirs, "template {number}:\n{text}");
                rendered += 1;
            }
            Err(ours) => {
                let theirs = String::from_utf8_lossy(&output.stderr);
                assert!(!output.status.success(), "template {number}:\n{text}\nours: {ours}");
                assert!(theirs.contains(&ours), "template {number}:\n{text}\nours: {ours}\nopm: {theirs}");
            }
        }
    }
    assert!(rendered > cases / 10, "only {rendered} of {cases} templates rendered");
}
