//! Layers, good and hostile.

use std::io::Write;

use proptest::prelude::*;

use super::*;

fn layer(entries: &[(&str, &[u8])]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (path, data) in entries {
        let mut header = tar::Header::new_gnu();
        header.set_size(data.len() as u64);
        header.set_mode(0o644);
        // Written directly, since the library refuses what we want to test.
        let name = header.as_gnu_mut().unwrap();
        name.name[..path.len()].copy_from_slice(path.as_bytes());
        header.set_cksum();
        builder.append(&header, *data).unwrap();
    }
    builder.into_inner().unwrap()
}

fn link(kind: tar::EntryType, path: &str, to: &str) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(kind);
    header.set_size(0);
    let fields = header.as_gnu_mut().unwrap();
    fields.name[..path.len()].copy_from_slice(path.as_bytes());
    fields.linkname[..to.len()].copy_from_slice(to.as_bytes());
    header.set_cksum();
    builder.append(&header, &[][..]).unwrap();
    builder.into_inner().unwrap()
}

fn gzip(data: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

fn apply(root: &Path, data: &[u8]) -> Result<(), UnpackError> {
    unpack_layer(data, data.len() as u64, root, &|_| true)
}

#[test]
fn later_layers_change_and_remove() {
    let dir = tempfile::tempdir().unwrap();
    apply(dir.path(), &gzip(&layer(&[("configs/a.yaml", b"1"), ("configs/b.yaml", b"2"), ("old/x", b"3")]))).unwrap();
    apply(dir.path(), &layer(&[("configs/a.yaml", b"4"), ("configs/.wh.b.yaml", b""), ("old/.wh..wh..opq", b"")]))
        .unwrap();
    assert_eq!(std::fs::read(dir.path().join("configs/a.yaml")).unwrap(), b"4");
    assert!(!dir.path().join("configs/b.yaml").exists());
    assert!(!dir.path().join("old/x").exists());
}

#[test]
fn only_what_is_wanted_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let data = layer(&[("configs/a", b"1"), ("bin/opm", b"2")]);
    unpack_layer(data.as_slice(), 10, dir.path(), &|path| path.starts_with("configs")).unwrap();
    assert!(dir.path().join("configs/a").exists() && !dir.path().join("bin").exists());
}

#[test]
fn paths_and_links_stay_inside() {
    let outside = tempfile::tempdir().unwrap();
    let dir = tempfile::tempdir_in(outside.path()).unwrap();
    assert!(matches!(apply(dir.path(), &layer(&[("../evil", b"x")])), Err(UnpackError::Escape(_))));
    assert!(matches!(apply(dir.path(), &layer(&[("a/../../evil", b"x")])), Err(UnpackError::Escape(_))));
    apply(dir.path(), &layer(&[("/absolute", b"x")])).unwrap();
    assert!(dir.path().join("absolute").exists());
    for to in ["/etc", "../..", "a/../../b"] {
        let data = link(tar::EntryType::Symlink, "l", to);
        assert!(matches!(apply(dir.path(), &data), Err(UnpackError::Escape(_))), "{to}");
    }
    apply(dir.path(), &link(tar::EntryType::Symlink, "inside", "absolute")).unwrap();
    let through = apply(dir.path(), &layer(&[("inside/x", b"y")]));
    assert!(matches!(through, Err(UnpackError::ThroughLink(_))));
    assert!(matches!(apply(dir.path(), &link(tar::EntryType::Link, "h", "../evil")), Err(UnpackError::Escape(_))));
    assert!(matches!(apply(dir.path(), &link(tar::EntryType::Char, "dev", "")), Err(UnpackError::Device(_))));
    assert!(!outside.path().join("evil").exists());
}

#[test]
fn a_gigabyte_of_zeros_is_refused_early() {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    let mut header = tar::Header::new_gnu();
    header.set_path("zeros").unwrap();
    header.set_size(700 * 1024 * 1024);
    header.set_cksum();
    encoder.write_all(header.as_bytes()).unwrap();
    let zeros = vec![0u8; 1024 * 1024];
    for _ in 0..64 {
        encoder.write_all(&zeros).unwrap();
    }
    let data = encoder.finish().unwrap();
    let dir = tempfile::tempdir().unwrap();
    assert!(matches!(apply(dir.path(), &data), Err(UnpackError::TooLarge(_))));
}

#[test]
fn cut_layers_are_refused() {
    let data = gzip(&layer(&[("a", &[7; 5000])]));
    let dir = tempfile::tempdir().unwrap();
    assert!(matches!(apply(dir.path(), &data[..data.len() / 2]), Err(UnpackError::Read(_))));
}

proptest! {
    #[test]
    fn no_layer_panics_or_escapes(data in prop::collection::vec(any::<u8>(), 0..1200)) {
        let outside = tempfile::tempdir().unwrap();
        let dir = outside.path().join("root");
        std::fs::create_dir(&dir).unwrap();
        let _ = apply(&dir, &data);
        prop_assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 1);
    }
}
