//! Hostile files: catalogs and layers with bytes changed, cut, doubled and spliced. Nothing panics, nothing hangs, and
//! nothing is ever written outside the directory that a layer is unpacked into.
//!
//! `CATALOG_FUZZ_CASES` sets how many are tried, `CATALOG_SEED` where the random numbers begin; a failure prints both.

use std::io::Write as _;
use std::path::Path;

use bailiwick_catalog::bundle::{Migration, migrate, read_directory, render};
use bailiwick_catalog::fbc::load_text;
use bailiwick_catalog::model::validate_catalog;
use bailiwick_catalog::oci::{BlobCache, Credentials, Digest, Images, Registry, RegistryOptions, unpack_layer};
use bailiwick_catalog::render::{Allowed, Renderer};
use bailiwick_catalog::resolve::Snapshot;
use bailiwick_catalog::serve::{Facts, Index, open_or_build};
use bailiwick_catalog::template::{TemplateKind, convert_to_template, render_template};
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use serde_json::{Value, json};

const CASES: u64 = 3_000;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|it| it.parse().ok()).unwrap_or(default)
}

/// Bytes that parsers trip over.
const PIECES: [&[u8]; 16] = [
    b"\n---\n",
    b"&a [*a, *a]",
    b"<<: *a",
    b"\xff\xfe",
    b"\0",
    b"? ",
    b"!!binary ",
    b"{\"schema\":\"olm.package\"",
    b"1e999",
    b"\"\\ud800\"",
    b"|\n  ",
    b"[[[[[[[[",
    b"9223372036854775808",
    b"schema: olm.bundle\n",
    b"\xe2\x80\xa8",
    b"../../",
];

fn mutate(bytes: &mut Vec<u8>, rng: &mut StdRng) {
    for _ in 0..rng.random_range(1..6) {
        if bytes.is_empty() {
            return;
        }
        let at = rng.random_range(0..bytes.len());
        match rng.random_range(0..6) {
            0 => bytes[at] = rng.random(),
            1 => bytes[at] ^= 1 << rng.random_range(0..8),
            2 => bytes.truncate(at),
            3 => {
                let piece = PIECES[rng.random_range(0..PIECES.len())];
                bytes.splice(at..at, piece.iter().copied());
            }
            4 => {
                let end = (at + rng.random_range(1..200)).min(bytes.len());
                let copy = bytes[at..end].to_vec();
                bytes.splice(at..at, copy);
            }
            _ => {
                let end = (at + rng.random_range(1..200)).min(bytes.len());
                bytes.drain(at..end);
            }
        }
    }
}

const CATALOG: &str = r#"---
schema: olm.package
name: foo
defaultChannel: stable
icon: {base64data: PHN2Zy8+, mediatype: image/svg+xml}
description: "a \u00e4 text"
---
schema: olm.channel
package: foo
name: stable
entries:
- name: foo.v1.0.0
- {name: foo.v1.1.0, replaces: foo.v1.0.0, skips: [foo.v1.0.5], skipRange: "<1.1.0"}
---
{"schema": "olm.bundle", "package": "foo", "name": "foo.v1.0.0", "image": "quay.io/a/foo:v1", "properties": [
  {"type": "olm.package", "value": {"packageName": "foo", "version": "1.0.0"}},
  {"type": "olm.constraint", "value": {"all": {"constraints": [{"gvk": {"group": "g", "version": "v1", "kind": "K"}}]}}}]}
---
schema: olm.bundle
package: foo
name: foo.v1.1.0
image: quay.io/a/foo:v2
properties:
- type: olm.package
  value: {packageName: foo, version: 1.1.0, release: "2"}
- type: olm.bundle.object
  value: {data: eyJraW5kIjoiQ2x1c3RlclNlcnZpY2VWZXJzaW9uIn0=}
relatedImages:
- &image {name: op, image: quay.io/a/op:v1}
- *image
---
schema: olm.deprecations
package: foo
entries:
- reference: {schema: olm.bundle, name: foo.v1.0.0}
  message: |
    old
"#;

#[test]
fn mutated_catalogs_never_panic() {
    let (cases, seed) = (number("CATALOG_FUZZ_CASES", CASES), number("CATALOG_SEED", 11));
    let mut loaded = 0;
    for case in 0..cases {
        let mut rng = StdRng::seed_from_u64(seed.wrapping_add(case));
        let mut bytes = CATALOG.as_bytes().to_vec();
        mutate(&mut bytes, &mut rng);
        let outcome = std::panic::catch_unwind(|| {
            let dir = tempfile::tempdir().unwrap();
            std::fs::write(dir.path().join("catalog.yaml"), &bytes).unwrap();
            let from_files = bailiwick_catalog::fbc::load(dir.path());
            if let Ok(text) = std::str::from_utf8(&bytes) {
                let from_text = load_text(text);
                assert_eq!(from_text.is_ok(), from_files.is_ok(), "text and file differ");
            }
            let catalog = from_files.ok()?;
            let _ = validate_catalog(&catalog);
            let _ = Snapshot::of_catalog(&catalog);
            Some(())
        });
        let Ok(outcome) = outcome else {
            panic!("case {case} of seed {seed} panicked on:\n{}", String::from_utf8_lossy(&bytes));
        };
        loaded += u64::from(outcome.is_some());
    }
    assert!(loaded > cases / 20, "only {loaded} of {cases} could be loaded: the changes are too coarse");
}

/// A layer with files, folders and links, compressed in one of the ways that layers are.
fn layer(rng: &mut StdRng) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    let names =
        ["configs/a.yaml", "configs/sub/b.yaml", "configs/.wh.a.yaml", "configs/link", "configs/link/c", "configs"];
    for _ in 0..rng.random_range(1..6) {
        let name = names[rng.random_range(0..names.len())];
        let mut header = tar::Header::new_gnu();
        let kind = [tar::EntryType::Regular, tar::EntryType::Directory, tar::EntryType::Symlink, tar::EntryType::Link];
        let kind = kind[rng.random_range(0..kind.len())];
        header.set_entry_type(kind);
        header.set_mode(0o644);
        header.set_size(if kind == tar::EntryType::Regular { 5 } else { 0 });
        let target = ["../../outside", "/etc/passwd", "a.yaml", "sub/../../x"][rng.random_range(0..4)];
        let _ = header.set_link_name(target);
        header.set_path(name).unwrap();
        header.set_cksum();
        let content: &[u8] = if kind == tar::EntryType::Regular { b"a: b\n" } else { b"" };
        builder.append(&header, content).unwrap();
    }
    builder.into_inner().unwrap()
}

fn files_below(root: &Path) -> usize {
    let entries = std::fs::read_dir(root).unwrap().map(|it| it.unwrap().path());
    entries.map(|path| if path.is_dir() && !path.is_symlink() { 1 + files_below(&path) } else { 1 }).sum()
}

#[test]
fn mutated_layers_stay_in_their_directory() {
    let (cases, seed) = (number("CATALOG_FUZZ_CASES", CASES), number("CATALOG_SEED", 13));
    for case in 0..cases {
        let mut rng = StdRng::seed_from_u64(seed.wrapping_add(case));
        let mut bytes = layer(&mut rng);
        // Half of the time the archive is changed, else its compressed form.
        if rng.random_bool(0.5) {
            mutate(&mut bytes, &mut rng);
        }
        let compressed = match rng.random_range(0..3) {
            0 => None,
            1 => {
                let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
                encoder.write_all(&bytes).unwrap();
                Some(encoder.finish().unwrap())
            }
            _ => Some(zstd(&bytes)),
        };
        if let Some(compressed) = compressed {
            bytes = compressed;
            if rng.random_bool(0.5) {
                mutate(&mut bytes, &mut rng);
            }
        }
        let around = tempfile::tempdir().unwrap();
        let root = around.path().join("root");
        std::fs::create_dir(&root).unwrap();
        let outcome = std::panic::catch_unwind(|| {
            let _ = unpack_layer(bytes.as_slice(), bytes.len() as u64, &root, &|_| true);
        });
        assert!(outcome.is_ok(), "case {case} of seed {seed} panicked");
        assert_eq!(files_below(around.path()), 1 + files_below(&root), "case {case} of seed {seed} wrote outside");
    }
}

/// The index lies in a directory that others may write to, or on a disk that forgets.
#[test]
fn mutated_indexes_are_refused_or_read_in_part() {
    let dir = tempfile::tempdir().unwrap();
    let catalog = dir.path().join("catalog");
    std::fs::create_dir(&catalog).unwrap();
    std::fs::write(catalog.join("catalog.yaml"), CATALOG.replace("release: \"2\"", "x: \"2\"")).unwrap();
    let path = dir.path().join("whole.index");
    open_or_build(&catalog, &path).unwrap();
    let whole = std::fs::read(&path).unwrap();
    let (cases, seed) = (number("CATALOG_FUZZ_CASES", CASES), number("CATALOG_SEED", 17));
    let mut opened = 0;
    for case in 0..cases {
        let mut rng = StdRng::seed_from_u64(seed.wrapping_add(case));
        let mut bytes = whole.clone();
        // Its parts are found from its end, so that only changes which keep its length get far.
        for _ in 0..rng.random_range(1..8) {
            let at = rng.random_range(0..bytes.len());
            bytes[at] = rng.random();
        }
        if rng.random_bool(0.1) {
            mutate(&mut bytes, &mut rng);
        }
        let path = dir.path().join("mutated.index");
        std::fs::write(&path, &bytes).unwrap();
        let outcome = std::panic::catch_unwind(|| {
            let index = Index::open(&path).ok()?;
            for (name, _) in index.packages() {
                let package = index.describe_package(name);
                for channel in package.iter().flat_map(|it| &it.channels) {
                    let _ = index.channel_versions(name, &channel.name);
                    let _ = index.describe_bundle(name, &channel.name, &channel.csv_name);
                }
            }
            let _ = index.model(Facts::Images);
            let _ = Snapshot::of_index(&index);
            Some(())
        });
        let Ok(outcome) = outcome else { panic!("case {case} of seed {seed} panicked") };
        opened += u64::from(outcome.is_some());
    }
    assert!(opened > cases / 20, "only {opened} of {cases} could be opened");
}

/// A frame of zstd whose blocks are not compressed: what a decoder must understand, without an encoder.
fn zstd(data: &[u8]) -> Vec<u8> {
    const BLOCK_BYTES: usize = 1 << 16;
    // No checksum and a content size of eight bytes, in a single segment.
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0xe0];
    frame.extend_from_slice(&(data.len() as u64).to_le_bytes());
    let mut blocks = data.chunks(BLOCK_BYTES).peekable();
    if blocks.peek().is_none() {
        frame.extend_from_slice(&[1, 0, 0]);
    }
    while let Some(block) = blocks.next() {
        let is_last = u32::from(blocks.peek().is_none());
        let header = u32::try_from(block.len()).unwrap() << 3 | is_last;
        frame.extend_from_slice(&header.to_le_bytes()[..3]);
        frame.extend_from_slice(block);
    }
    frame
}

/// A catalog image as a layout: for several architectures behind an index of their own, its layer compressed by zstd.
fn layout(root: &Path) -> Vec<std::path::PathBuf> {
    let mut builder = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_size(CATALOG.len() as u64);
    header.set_mode(0o644);
    header.set_path("configs/catalog.yaml").unwrap();
    header.set_cksum();
    builder.append(&header, CATALOG.as_bytes()).unwrap();
    let layer = zstd(&builder.into_inner().unwrap());
    let blobs = root.join("blobs/sha256");
    std::fs::create_dir_all(&blobs).unwrap();
    let mut written = Vec::new();
    let mut blob = |kind: &str, data: &[u8]| {
        let digest = Digest::of(data);
        let path = blobs.join(digest.hex());
        std::fs::write(&path, data).unwrap();
        written.push(path);
        json!({"mediaType": format!("application/vnd.oci.image.{kind}"), "digest": digest.to_string(), "size": data.len()})
    };
    let config = json!({"config": {"Labels": {"operators.operatorframework.io.index.configs.v1": "/configs"}}});
    let config = blob("config.v1+json", config.to_string().as_bytes());
    let layer = blob("layer.v1.tar+zstd", &layer);
    let manifest = |config: &Value, layer: &Value| json!({"schemaVersion": 2, "config": config, "layers": [layer]});
    let ours = blob("manifest.v1+json", manifest(&config, &layer).to_string().as_bytes());
    // Another one, of which nothing is there.
    let absent = json!({"digest": Digest::of(b"absent").to_string(), "size": 6});
    let other = blob("manifest.v1+json", manifest(&absent, &absent).to_string().as_bytes());
    let with = |descriptor: &Value, architecture: &str| {
        let mut descriptor = descriptor.clone();
        descriptor["platform"] = json!({"os": "linux", "architecture": architecture});
        descriptor
    };
    let platforms = json!({"schemaVersion": 2, "manifests": [with(&other, "s390x"), with(&ours, "amd64")]});
    let platforms = blob("index.v1+json", platforms.to_string().as_bytes());
    std::fs::write(root.join("oci-layout"), "{\"imageLayoutVersion\": \"1.0.0\"}").unwrap();
    let index = json!({"schemaVersion": 2, "manifests": [platforms]});
    std::fs::write(root.join("index.json"), index.to_string()).unwrap();
    written.push(root.join("index.json"));
    written
}

fn load_layout(root: &Path, cache: &Path) -> Result<bailiwick_catalog::fbc::Catalog, String> {
    let registry = Registry::new(&RegistryOptions::default(), Credentials::default()).unwrap();
    let mut images = Images::new(registry, BlobCache::new(cache));
    let mut renderer = Renderer {
        images: &mut images,
        allowed: Allowed::Catalogs,
        migration: Migration::None,
        image_template: None,
        warnings: Vec::new(),
    };
    renderer.render(&[format!("oci:{}", root.display())])
}

#[test]
fn an_image_for_several_architectures_in_layers_of_zstd_is_read() {
    let dir = tempfile::tempdir().unwrap();
    layout(dir.path());
    let catalog = load_layout(dir.path(), dir.path()).unwrap();
    assert_eq!(catalog.packages[0].name, "foo");
    assert_eq!(catalog.bundles.len(), 2);
}

/// Manifests, indexes, configurations and layers of which each may be anything; the digests are made to fit again half
/// of the time, so that changes get further than to the check of them.
#[test]
fn mutated_images_never_panic() {
    let (cases, seed) = (number("CATALOG_FUZZ_CASES", CASES) / 4, number("CATALOG_SEED", 19));
    let mut loaded = 0;
    for case in 0..cases {
        let mut rng = StdRng::seed_from_u64(seed.wrapping_add(case));
        let dir = tempfile::tempdir().unwrap();
        let parts = layout(dir.path());
        let at = rng.random_range(0..parts.len());
        let before = std::fs::read(&parts[at]).unwrap();
        let mut after = before.clone();
        mutate(&mut after, &mut rng);
        std::fs::write(&parts[at], &after).unwrap();
        if rng.random_bool(0.5) {
            rename_blobs(dir.path(), Digest::of(&before), Digest::of(&after));
        }
        let outcome = std::panic::catch_unwind(|| load_layout(dir.path(), dir.path()).is_ok());
        let Ok(outcome) = outcome else { panic!("case {case} of seed {seed} panicked: {:?}", parts[at]) };
        loaded += u64::from(outcome);
    }
    assert!(loaded > 0 && loaded < cases, "{loaded} of {cases} could be loaded");
}

/// Lets everything that names a blob name its new content, up to the index.
fn rename_blobs(root: &Path, from: Digest, to: Digest) {
    let mut renames = vec![(from, to)];
    let blobs = root.join("blobs/sha256");
    while let Some((from, to)) = renames.pop() {
        let old = blobs.join(from.hex());
        if old.is_file() {
            std::fs::rename(&old, blobs.join(to.hex())).unwrap();
        }
        let index = root.join("index.json");
        let named: Vec<_> =
            std::fs::read_dir(&blobs).unwrap().map(|it| it.unwrap().path()).chain([index.clone()]).collect();
        for path in named {
            let Ok(text) = std::fs::read_to_string(&path) else { continue };
            if !text.contains(from.hex()) {
                continue;
            }
            let changed = text.replace(from.hex(), to.hex());
            if path != index {
                renames.push((Digest::of(text.as_bytes()), Digest::of(changed.as_bytes())));
            }
            std::fs::write(&path, changed).unwrap();
        }
    }
}

const CSV: &str = r#"apiVersion: operators.coreos.com/v1alpha1
kind: ClusterServiceVersion
metadata:
  name: foo.v1.0.0
  annotations: {olm.properties: '[{"type": "x", "value": {"a": 1}}]', alm-examples: '[]'}
spec:
  displayName: Foo
  version: 1.0.0
  relatedImages: [{name: op, image: "quay.io/a/op:v1"}]
  customresourcedefinitions:
    owned: [{name: foos.example.com, version: v1, kind: Foo}]
    required: [{name: bars.example.com, version: v1, kind: Bar}]
  install: {strategy: deployment, spec: {deployments: [{name: foo, spec: {template: {spec: {containers: [{image: x}]}}}}]}}
"#;
const CRD: &str = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: foos.example.com}\n\
                   spec: {group: example.com, names: {kind: Foo, plural: foos}, versions: [{name: v1, served: true}]}\n";
const ANNOTATIONS: &str = "annotations:\n  operators.operatorframework.io.bundle.package.v1: foo\n  \
                           operators.operatorframework.io.bundle.channels.v1: stable\n";
const DEPENDENCIES: &str = "dependencies:\n- {type: olm.package, value: {packageName: bar, version: '>=1.0.0'}}\n\
                            - {type: olm.gvk, value: {group: g, kind: K, version: v1}}\n";

#[test]
fn mutated_bundles_never_panic() {
    let (cases, seed) = (number("CATALOG_FUZZ_CASES", CASES), number("CATALOG_SEED", 23));
    let files = [
        ("manifests/csv.yaml", CSV),
        ("manifests/crd.yaml", CRD),
        ("metadata/annotations.yaml", ANNOTATIONS),
        ("metadata/dependencies.yaml", DEPENDENCIES),
    ];
    let dir = tempfile::tempdir().unwrap();
    ["manifests", "metadata"].iter().for_each(|it| std::fs::create_dir(dir.path().join(it)).unwrap());
    let mut read = 0;
    for case in 0..cases {
        let mut rng = StdRng::seed_from_u64(seed.wrapping_add(case));
        let chosen = rng.random_range(0..files.len());
        for (at, (name, text)) in files.iter().enumerate() {
            let mut bytes = text.as_bytes().to_vec();
            if at == chosen {
                mutate(&mut bytes, &mut rng);
            }
            std::fs::write(dir.path().join(name), bytes).unwrap();
        }
        let outcome = std::panic::catch_unwind(|| {
            let content = read_directory(dir.path()).ok()?;
            let bundle = render(&content, "quay.io/a/foo:v1").ok()?;
            let mut catalog = bailiwick_catalog::fbc::Catalog { bundles: vec![bundle], ..Default::default() };
            let _ = migrate(&mut catalog, Migration::BundleObjectToCsvMetadata);
            Some(())
        });
        let Ok(outcome) = outcome else { panic!("case {case} of seed {seed} panicked: {}", files[chosen].0) };
        read += u64::from(outcome.is_some());
    }
    assert!(read > cases / 20 && read < cases, "{read} of {cases} could be read");
}

#[test]
fn mutated_templates_never_panic() {
    let (cases, seed) = (number("CATALOG_FUZZ_CASES", CASES), number("CATALOG_SEED", 29));
    let catalog = load_text(&CATALOG.replace("release: \"2\"", "x: \"2\"")).unwrap();
    let templates = [
        (
            TemplateKind::Semver,
            "Schema: olm.semver\nGenerateMajorChannels: true\ndefaultChannelTypePreference: major\n\
            Stable:\n  Bundles:\n  - Image: quay.io/a/foo:v1\n  - image: quay.io/a/foo:v2\nfast: {bundles: []}\n"
                .to_owned(),
        ),
        (
            TemplateKind::Basic,
            "schema: olm.template.basic\nentries:\n- {schema: olm.package, name: foo}\n\
            - {schema: olm.bundle, image: 'quay.io/a/foo:v1'}\n"
                .to_owned(),
        ),
        (
            TemplateKind::Substitutes,
            "schema: olm.template.substitutes\nsubstitutions: [{name: 'quay.io/a/foo:v2', base: \
            foo.v1.0.0}]\nentries:\n- {schema: olm.package, name: foo, defaultChannel: a}\n\
            - {schema: olm.channel, package: foo, name: a, entries: [{name: foo.v1.0.0}]}\n\
            - {schema: olm.bundle, package: foo, name: foo.v1.0.0, image: 'quay.io/a/foo:v1', properties: [{type: \
            olm.package, value: {packageName: foo, version: 1.0.0}}]}\n"
                .to_owned(),
        ),
    ];
    let mut rendered = 0;
    for case in 0..cases {
        let mut rng = StdRng::seed_from_u64(seed.wrapping_add(case));
        let (kind, text) = &templates[rng.random_range(0..templates.len())];
        let mut bytes = text.as_bytes().to_vec();
        mutate(&mut bytes, &mut rng);
        let outcome = std::panic::catch_unwind(|| {
            let text = bailiwick_catalog::template::text_of(bytes.clone()).ok()?;
            let _ = TemplateKind::detect(&text);
            let _ = convert_to_template(*kind, &text, bailiwick_catalog::fbc::Output::Yaml);
            let mut bundles = |image: &str| {
                let found = catalog.bundles.iter().filter(|bundle| bundle.image == image).cloned().collect();
                Ok(bailiwick_catalog::fbc::Catalog { bundles: found, ..Default::default() })
            };
            render_template(*kind, &text, &mut bundles).ok().map(|_| ())
        });
        let Ok(outcome) = outcome else {
            panic!("case {case} of seed {seed} panicked on:\n{}", String::from_utf8_lossy(&bytes));
        };
        rendered += u64::from(outcome.is_some());
    }
    assert!(rendered > cases / 50 && rendered < cases, "{rendered} of {cases} could be rendered");
}
