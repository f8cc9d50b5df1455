//! Images and what is built, compared and served of them: releases, differences, what a catalog says of its bundles.

use std::io::{Read as _, Write as _};
use std::path::Path;

use crate::opm_verbs::serving;
use crate::program::{VALID, catalog};

fn write_catalog(dir: &Path, name: &str, text: &str) {
    std::fs::create_dir(dir.join(name)).unwrap();
    std::fs::write(dir.join(name).join("catalog.yaml"), text).unwrap();
}

fn write_bundle(folder: &Path, version: &str, title: &str) {
    for part in ["manifests", "metadata"] {
        std::fs::create_dir_all(folder.join(part)).unwrap();
    }
    let csv = format!(
        "apiVersion: operators.coreos.com/v1alpha1\nkind: ClusterServiceVersion\nmetadata: {{name: foo.v{version}}}\n\
         spec: {{displayName: {title}, version: {version}}}\n"
    );
    std::fs::write(folder.join("manifests/csv.yaml"), csv).unwrap();
    let annotations = "annotations: {operators.operatorframework.io.bundle.package.v1: foo, \
                       operators.operatorframework.io.bundle.channels.v1: stable}\n";
    std::fs::write(folder.join("metadata/annotations.yaml"), annotations).unwrap();
}

#[test]
fn a_release_gets_its_tag_and_latest() {
    let dir = tempfile::tempdir().unwrap();
    write_catalog(dir.path(), "catalog", VALID);
    let release = ["build", "catalog", "--tag", "quay.io/me/platformx", "--release", "v1.2.0", "--layout", "layout"];
    let digest = catalog(dir.path(), &release).printed();
    let index: serde_json::Value =
        serde_json::from_slice(&std::fs::read(dir.path().join("layout/index.json")).unwrap()).unwrap();
    let tags: Vec<(&str, &str)> = index["manifests"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| {
            let tag = it["annotations"]["org.opencontainers.image.ref.name"].as_str().unwrap();
            (tag, it["digest"].as_str().unwrap())
        })
        .collect();
    assert_eq!(tags, [("latest", digest.trim()), ("v1.2.0", digest.trim())]);
    // The same files are the same image.
    assert_eq!(catalog(dir.path(), &release).printed(), digest);
    for tag in ["v1.2.0", "latest"] {
        let listed = catalog(dir.path(), &["list", "packages", &format!("oci:layout:{tag}")]).printed();
        assert!(listed.contains("foo"), "{listed}");
    }
    assert!(catalog(dir.path(), &["list", "packages", "oci:layout:main"]).refused().contains("main"));
}

#[test]
fn images_that_differ_are_told_apart() {
    let dir = tempfile::tempdir().unwrap();
    write_catalog(dir.path(), "old", VALID);
    write_catalog(dir.path(), "new", &VALID.replace("  replaces: foo.v1.0.0\n", "  skips: [foo.v1.0.0]\n"));
    for name in ["old", "new"] {
        catalog(dir.path(), &["build", name, "--layout", &format!("image-{name}")]).printed();
    }
    let changed = catalog(dir.path(), &["diff", "oci:image-old", "oci:image-new"]).printed();
    assert!(changed.contains("channel stable") && changed.contains("foo.v1.1.0"), "{changed}");
    assert_eq!(catalog(dir.path(), &["diff", "old", "oci:image-new"]).printed(), changed);
    let run = catalog(dir.path(), &["diff", "oci:image-old", "oci:image-new", "--exit-code"]);
    assert_eq!((run.code, run.stdout), (1, changed));
    let run = catalog(dir.path(), &["diff", "oci:image-old", "old", "--exit-code"]);
    assert_eq!(run.code, 0, "{}", run.stdout);
}

#[test]
fn a_catalog_is_verified_against_its_images() {
    let dir = tempfile::tempdir().unwrap();
    let build = |title: &str| {
        write_bundle(&dir.path().join("bundle"), "1.0.0", title);
        let _ = std::fs::remove_dir_all(dir.path().join("image"));
        catalog(dir.path(), &["build-bundle", "bundle", "--layout", "image"]).printed()
    };
    build("Foo");
    catalog(dir.path(), &["init", "foo", "-d", "repository"]).printed();
    catalog(dir.path(), &["add", "foo", "oci:image", "-d", "repository"]).printed();
    let same = catalog(dir.path(), &["verify", "repository"]).printed();
    assert!(same.contains("same      foo.v1.0.0"), "{same}");
    // What the image is called is something else since.
    build("Bar");
    let run = catalog(dir.path(), &["verify", "repository"]);
    assert_eq!(run.code, 1, "{}", run.stdout);
    assert!(run.stdout.contains("different foo.v1.0.0"), "{}", run.stdout);
    assert!(run.stdout.contains("olm.csv.metadata"), "what differs is not said: {}", run.stdout);
    assert!(run.stderr.contains("1 of 1 bundles are not what their images hold"), "{}", run.stderr);
    assert!(catalog(dir.path(), &["verify", "repository", "--package", "nobody"]).printed().starts_with("0 bundles"));
    std::fs::remove_dir_all(dir.path().join("image")).unwrap();
    let run = catalog(dir.path(), &["verify", "repository"]);
    assert_eq!(run.code, 1);
    assert!(run.stdout.contains("unknown   foo.v1.0.0"), "{}", run.stdout);
}

#[test]
fn what_is_no_catalog_is_not_listed_and_a_port_that_is_taken_is_named() {
    let dir = tempfile::tempdir().unwrap();
    write_catalog(dir.path(), "catalog", VALID);
    write_bundle(&dir.path().join("bundle"), "1.0.0", "Foo");
    catalog(dir.path(), &["build-bundle", "bundle", "--layout", "image"]).printed();
    for reference in ["bundle", "oci:image"] {
        let refusal = catalog(dir.path(), &["list", "packages", reference]).refused();
        assert_eq!(refusal.trim_end(), format!("error: cannot list non-index {reference:?}"));
    }
    let taken = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let refusal = catalog(dir.path(), &["serve", "catalog", "--address", "127.0.0.1", "--port", &port]).refused();
    assert!(refusal.contains(&format!("failed to listen: 127.0.0.1:{port}: Address already in use")), "{refusal}");
}

/// The body of what is answered to a GET.
fn get(address: &str, path: &str) -> String {
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    answer
}

#[test]
fn several_catalogs_are_served_by_one_process() {
    let dir = tempfile::tempdir().unwrap();
    write_catalog(dir.path(), "one", VALID);
    write_catalog(dir.path(), "two", &VALID.replace("foo", "bar"));
    catalog(dir.path(), &["build", "two", "--layout", "image"]).printed();
    let mut server = serving(dir.path(), &["serve", "one", "oci:image", "--port", "0", "--address", "127.0.0.1"]);
    for (reference, package, other) in [("one", "foo", "bar"), ("oci:image", "bar", "foo")] {
        let line = server.line();
        let address = line.trim().strip_prefix(&format!("serving {reference} (1 packages, 2 bundles) on ")).unwrap();
        let all = get(address, "/api/v1/all");
        assert!(all.contains(&format!("{package}.v1.1.0")) && !all.contains(&format!("{other}.v1")), "{all}");
        let metas = get(address, &format!("/api/v1/metas?schema=olm.channel&package={package}"));
        assert!(metas.contains("olm.channel") && !metas.contains("olm.bundle"), "{metas}");
    }
}
