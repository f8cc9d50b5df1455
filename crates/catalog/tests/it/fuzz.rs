//! Hostile files: catalogs and layers with bytes changed, cut, doubled and spliced. Nothing panics, nothing hangs, and
//! nothing is ever written outside the directory that a layer is unpacked into.
//!
//! `CATALOG_FUZZ_CASES` sets how many are tried, `CATALOG_SEED` where the random numbers begin; a failure prints both.

use std::io::Write as _;
use std::path::Path;

use bailiwick_catalog::fbc::load_text;
use bailiwick_catalog::model::validate_catalog;
use bailiwick_catalog::oci::unpack_layer;
use bailiwick_catalog::resolve::Snapshot;
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

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
        if rng.random_bool(0.5) {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            encoder.write_all(&bytes).unwrap();
            bytes = encoder.finish().unwrap();
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
