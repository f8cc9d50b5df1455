//! Templates and bundles render to the bytes that opm wrote.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use bailiwick_catalog::bundle::{Migration, migrate, read_directory, render};
use bailiwick_catalog::fbc::{Catalog, Output, load_text, write_catalog};
use bailiwick_catalog::graph::{GraphOptions, mermaid};
use bailiwick_catalog::model::validate_catalog;
use bailiwick_catalog::template::{TemplateKind, render_template};
use bailiwick_catalog::{dockerfile, list};

use crate::paths;

/// `127.0.0.1:5055/test/<package>:v<version>` stands for a folder.
pub fn folder_of(image: &str, roots: &[PathBuf]) -> PathBuf {
    let rest = image.strip_prefix("127.0.0.1:5055/test/").expect(image);
    let (package, version) = rest.split_once(":v").expect(image);
    let found = roots.iter().map(|root| root.join(package).join(version)).find(|dir| dir.is_dir());
    found.unwrap_or_else(|| panic!("no folder for {image}"))
}

fn render_text(text: &str, roots: &[PathBuf], migration: Migration) -> Result<String, String> {
    let mut bundles = |image: &str| {
        let content = read_directory(&folder_of(image, roots)).map_err(|error| error.to_string())?;
        let mut catalog = Catalog { bundles: vec![render(&content, image)?], ..Catalog::default() };
        migrate(&mut catalog, migration)?;
        Ok(catalog)
    };
    let kind = TemplateKind::detect(text).unwrap_or(TemplateKind::Semver);
    let rendered = render_template(kind, text, &mut bundles)?;
    Ok(write_catalog(&rendered.catalog, Output::Yaml))
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn files(folder: &Path, ending: &str) -> BTreeMap<String, PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let named = entries.filter_map(|path| {
        let name = path.file_name()?.to_str()?.strip_suffix(ending)?.to_owned();
        Some((name, path))
    });
    named.collect()
}

fn assert_same_text(found: &str, expected: &str, name: &str) {
    if found == expected {
        return;
    }
    for (i, (a, b)) in found.lines().zip(expected.lines()).enumerate() {
        assert_eq!(a, b, "{name}, line {}", i + 1);
    }
    panic!("{name}: {} lines instead of {}", found.lines().count(), expected.lines().count());
}

#[test]
fn synthetic_templates() {
    let Some(data) = paths::data() else { return };
    let folder = data.join("golden/templates-synthetic");
    let roots = [folder.join("bundles")];
    let templates = files(&folder, ".template.yaml");
    assert!(templates.len() >= 12);
    for (name, path) in templates {
        let result = render_text(&read(&path), &roots, Migration::None);
        let expected = folder.join(format!("{name}.expected.yaml"));
        if expected.is_file() {
            assert_same_text(&result.unwrap(), &read(&expected), &name);
        } else {
            let expected = read(&folder.join(format!("{name}.expected-error.txt")));
            assert_eq!(format!("Error: rendering template: {}", result.unwrap_err()), expected.trim_end(), "{name}");
        }
    }
}

#[test]
fn templates_of_real_packages() {
    let Some(data) = paths::data() else { return };
    let folder = data.join("golden/semver-real");
    let roots = [data.join("bundles")];
    let templates = files(&folder, ".veneer.yaml");
    assert!(templates.len() >= 17);
    for (name, path) in templates {
        let found = render_text(&read(&path), &roots, Migration::BundleObjectToCsvMetadata).unwrap();
        let expected = read(&folder.join(format!("{name}.catalog.yaml")));
        assert_same_text(&found, &expected, &name);
        let again = write_catalog(&load_text(&found).unwrap(), Output::Yaml);
        assert_same_text(&again, &expected, &name);
    }
}

/// All packages of the data as one catalog, as the commands' goldens were made.
pub fn whole_catalog(data: &Path) -> Catalog {
    let mut catalog = Catalog::default();
    for package in std::fs::read_dir(data.join("bundles")).unwrap() {
        let package = package.unwrap().file_name().into_string().unwrap();
        let mut versions: Vec<String> = std::fs::read_dir(data.join("bundles").join(&package))
            .unwrap()
            .map(|entry| entry.unwrap())
            .filter(|entry| entry.file_type().unwrap().is_dir())
            .map(|entry| entry.file_name().into_string().unwrap())
            .collect();
        versions.sort();
        let golden = data.join(format!("golden/semver-real/{package}.veneer.yaml"));
        let text = if golden.is_file() {
            read(&golden)
        } else {
            let images: Vec<String> = versions
                .iter()
                .map(|version| format!("  - Image: 127.0.0.1:5055/test/{package}:v{version}\n"))
                .collect();
            format!(
                "Schema: olm.semver\nGenerateMajorChannels: true\nGenerateMinorChannels: true\nStable:\n  Bundles:\n{}",
                images.concat()
            )
        };
        let found = render_text(&text, &[data.join("bundles")], Migration::BundleObjectToCsvMetadata).unwrap();
        catalog.merge(load_text(&found).unwrap());
    }
    catalog
}

#[test]
fn commands() {
    let Some(data) = paths::data() else { return };
    let golden = |name: &str| read(&data.join("golden/commands").join(name));
    let catalog = whole_catalog(&data);
    let model = validate_catalog(&catalog).unwrap();
    assert_same_text(&list::packages(&model), &golden("list-packages.txt"), "list packages");
    let channels = golden("list-channels.txt");
    let package = |table: &str| {
        let names: std::collections::BTreeSet<String> =
            table.lines().skip(1).filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect();
        if names.len() == 1 { names.into_iter().next() } else { None }
    };
    assert_same_text(&list::channels(&model, package(&channels).as_deref()).unwrap(), &channels, "list channels");
    let bundles = golden("list-bundles.txt");
    assert_same_text(&list::bundles(&model, package(&bundles).as_deref()).unwrap(), &bundles, "list bundles");
    let graph = golden("render-graph.mermaid");
    let drawn: Vec<&str> = graph.lines().filter_map(|line| line.strip_prefix("  %% package ")).collect();
    let only = match drawn.as_slice() {
        [one] => Some(one.trim_matches('"').to_owned()),
        _ => None,
    };
    let options = GraphOptions { package: only, ..GraphOptions::default() };
    assert_same_text(&mermaid(&catalog, &options).unwrap(), &graph, "render-graph");
    let image = dockerfile::DEFAULT_IMAGE;
    let found = dockerfile::dockerfile("catalog", image, image, &BTreeMap::new());
    assert_same_text(&found, &golden("catalog.Dockerfile"), "generate dockerfile");
}
