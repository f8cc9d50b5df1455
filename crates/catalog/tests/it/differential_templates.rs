//! Mutated templates render to the same catalogs, or the same refusals, as with opm, on bundles in a real registry.

use std::collections::HashMap;
use std::path::Path;
use std::process::Command;

use bailiwick_catalog::bundle::Migration;
use bailiwick_catalog::fbc::{Catalog, Output, write_catalog};
use bailiwick_catalog::oci::build_directory;
use bailiwick_catalog::reference::ImageReference;
use bailiwick_catalog::render::{Allowed, Renderer};
use bailiwick_catalog::template::{TemplateKind, render_template};
use rand::Rng as _;
use rand::rngs::StdRng;
use serde_json::{Value, json};

use crate::batch::{self, CRASHED, Verdict, ask, refusal, unordered};
use crate::{mutation, paths, registry};

/// opm pulls every image again for every template.
const CASES: u64 = 40;
/// Both say it in words of their own.
const NOT_PULLED: &str = "failed to pull image";

/// Bundle images in a registry.
struct Images {
    names: Vec<String>,
    rendered: HashMap<String, Catalog>,
    /// One that is not there.
    nobody: String,
}

impl Images {
    /// Pushes the synthetic bundles: mostly one package, and a few that do not fit to it.
    fn push(bundles: &Path, port: u16) -> Self {
        let cache = tempfile::tempdir().unwrap();
        let mut images = registry::images(cache.path());
        let mut names = Vec::new();
        let mut rendered = HashMap::new();
        for package in ["foo", "bld", "other", "dup", "dep"] {
            let mut versions: Vec<_> =
                std::fs::read_dir(bundles.join(package)).unwrap().map(|it| it.unwrap()).collect();
            versions.sort_by_key(std::fs::DirEntry::file_name);
            for version in versions.iter().filter(|it| it.path().is_dir()) {
                let tag = format!("v{}", version.file_name().to_str().unwrap().replace('+', "_"));
                let name = format!("127.0.0.1:{port}/test/{package}:{tag}");
                let image = build_directory(&version.path(), &registry::bundle_labels(&version.path())).unwrap();
                images.push(&image, &ImageReference::parse(&name).unwrap(), &[tag]).unwrap();
                let mut renderer = Renderer {
                    images: &mut images,
                    allowed: Allowed::BundleImages,
                    migration: Migration::None,
                    image_template: None,
                    warnings: Vec::new(),
                };
                rendered.insert(name.clone(), renderer.render(std::slice::from_ref(&name)).unwrap());
                // So that most templates are of one package.
                names.extend(std::iter::repeat_n(name, if package == "foo" { 4 } else { 1 }));
            }
        }
        Images { names, rendered, nobody: format!("127.0.0.1:{port}/test/nobody:v1") }
    }

    fn any(&self, rng: &mut StdRng) -> String {
        if rng.random_bool(0.02) {
            return self.nobody.clone();
        }
        self.names[rng.random_range(0..self.names.len())].clone()
    }

    fn render(&self, image: &str) -> Result<Catalog, String> {
        let known = self.rendered.get(image).cloned();
        known.ok_or_else(|| format!("render reference \"{image}\": {NOT_PULLED}"))
    }

    /// Images elsewhere would be looked for in the network.
    fn keep_local(&self, value: &mut Value, is_image: bool) {
        match value {
            Value::String(text) if is_image && !text.is_empty() && !text.starts_with("127.0.0.1") => {
                text.clone_from(&self.nobody);
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.keep_local(item, is_image)),
            Value::Object(fields) => {
                let is_substitution = fields.keys().any(|key| key.eq_ignore_ascii_case("base"));
                for (key, value) in fields {
                    let names_one = key.eq_ignore_ascii_case("image");
                    self.keep_local(value, names_one || (is_substitution && key.eq_ignore_ascii_case("name")));
                }
            }
            _ => {}
        }
    }
}

/// A semver template with some of the images, in some of the lists, with some of the options.
fn semver(images: &Images, rng: &mut StdRng) -> Value {
    let capital = rng.random_bool(0.3);
    let key =
        |name: &str| if capital { format!("{}{}", name[..1].to_uppercase(), &name[1..]) } else { name.to_owned() };
    let mut fields = serde_json::Map::new();
    fields.insert(key("schema"), json!("olm.semver"));
    for option in ["generateMajorChannels", "generateMinorChannels"] {
        if rng.random_bool(0.6) {
            fields.insert(key(option), json!(rng.random_bool(0.7)));
        }
    }
    if rng.random_bool(0.3) {
        let kind = ["major", "minor", "patch", ""][rng.random_range(0..4)];
        fields.insert(key("defaultChannelTypePreference"), json!(kind));
    }
    for list in ["candidate", "fast", "stable"] {
        if rng.random_bool(0.6) {
            let listed: Vec<Value> =
                (0..rng.random_range(1..5)).map(|_| json!({key("image"): images.any(rng)})).collect();
            fields.insert(key(list), json!({key("bundles"): listed}));
        }
    }
    Value::Object(fields)
}

fn basic(images: &Images, rng: &mut StdRng) -> Value {
    let mut entries: Vec<Value> = mutation::valid().into_iter().filter(|it| it["schema"] != "olm.bundle").collect();
    entries.extend((0..rng.random_range(0..4)).map(|_| json!({"schema": "olm.bundle", "image": images.any(rng)})));
    json!({"schema": "olm.template.basic", "entries": entries})
}

fn substitutes(images: &Images, rng: &mut StdRng) -> Value {
    let bases = ["foo.v1.0.0", "foo.v1.1.0", "foo.v1.2.0", "foo.v9"];
    let substitutions: Vec<Value> = (0..rng.random_range(0..3))
        .map(|_| json!({"name": images.any(rng), "base": bases[rng.random_range(0..bases.len())]}))
        .collect();
    json!({"schema": "olm.template.substitutes", "entries": mutation::valid(), "substitutions": substitutions})
}

fn compare(kind: TemplateKind, cases: u64, make: impl Fn(&Images, &mut StdRng) -> Value + Sync) {
    let (Some(data), Some(opm)) = (paths::data(), paths::opm()) else { return };
    let Some(server) = registry::start() else { return };
    let images = Images::push(&data.join("golden/templates-synthetic/bundles"), server.port);
    let home = registry::opm_home();
    batch::run(kind.name(), cases, |rng| {
        let mut template = make(&images, rng);
        for _ in 0..[0, 0, 1, 1, 1, 2][rng.random_range(0..6)] {
            mutation::change(&mut template, rng);
        }
        images.keep_local(&mut template, false);
        let text = mutation::written(&template, rng);
        // JSON is what opm prints if nobody asks for anything.
        let (output, flags) =
            if rng.random_bool(0.5) { (Output::Yaml, &["-o", "yaml"][..]) } else { (Output::Json, &[][..]) };
        let ours = render_template(kind, &text, &mut |image: &str| images.render(image));
        let ours = match ours {
            Ok(rendered) => Ok(write_catalog(&rendered.catalog, output)),
            Err(error) => Err(comparable(&format!("rendering template: {error}"))),
        };
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("template.yaml");
        std::fs::write(&path, &text).unwrap();
        let command = || {
            let mut command = Command::new(&opm);
            command.env("HOME", home.path()).args(["alpha", "render-template", kind.name()]);
            command.arg("--use-http").args(flags).arg(&path);
            command
        };
        let theirs = ask(command, &ours, |output| {
            let printed = String::from_utf8(output.stdout).unwrap();
            // A list that the template does not have is no list for opm, and an empty one for us.
            let printed = printed.replace("\nentries: null\n", "\nentries: []\n");
            let printed = printed.replace("\n    \"entries\": null", "\n    \"entries\": []");
            if output.status.success() { Ok(printed) } else { Err(comparable(&refusal(&output.stderr))) }
        });
        match &ours {
            Err(_) if theirs.as_ref().is_err_and(|it| it.trim_end() == CRASHED) => Verdict::Refused,
            ours if ours != &theirs => {
                let show = |it: &Result<String, String>| it.clone().unwrap_or_else(|error| error);
                Verdict::Different(format!("ours: {}\nopm:  {}\n{text}", show(ours), show(&theirs)))
            }
            Ok(_) => Verdict::Accepted,
            Err(_) => Verdict::Refused,
        }
    });
}

fn comparable(message: &str) -> String {
    match message.find(NOT_PULLED) {
        Some(at) => message[..at + NOT_PULLED.len()].to_owned(),
        None => unordered(message),
    }
}

#[test]
fn semver_templates_render_as_opm_renders_them() {
    compare(TemplateKind::Semver, CASES, semver);
}

#[test]
fn basic_templates_render_as_opm_renders_them() {
    compare(TemplateKind::Basic, CASES, basic);
}

#[test]
fn substitutes_templates_render_as_opm_renders_them() {
    compare(TemplateKind::Substitutes, CASES, substitutes);
}
