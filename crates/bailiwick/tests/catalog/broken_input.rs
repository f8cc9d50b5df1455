//! Broken input of every kind is refused by every command that reads it, with the file and line or the digest named, and
//! nothing is half-written.

use std::io::Write as _;
use std::path::Path;

use bailiwick_catalog::oci::{Digest, Image, Layout};
use serde_json::json;

use crate::program::{VALID, catalog, files};

/// The commands that read a catalog directory, each with what it would write.
const READERS: [&[&str]; 12] = [
    &["validate", "broken"],
    &["render", "broken"],
    &["list", "packages", "broken"],
    &["render-graph", "broken"],
    &["diff", "broken", "broken"],
    &["explain", "broken", "--want", "foo"],
    &["build", "broken", "--layout", "layout"],
    &["serve", "broken", "--cache-dir", "cache", "--cache-only"],
    &["list", "channels", "broken", "--cache-dir", "cache"],
    &["verify", "broken"],
    &["test", "platform.yaml", "broken"],
    &["migrate", "broken", "migrated"],
];

const PLATFORM: &str = "apiVersion: catalog.bailiwick.dev/v1alpha1\nkind: Platform\nmetadata: {name: p}\n\
                        spec: {operators: [{package: foo}]}\n";
/// What is there before a command runs.
const THERE: [&str; 2] = ["broken/catalog.yaml", "platform.yaml"];

/// Every reader refuses the catalog and says all of `said`; the directory is as it was.
#[track_caller]
fn all_refuse(content: &[u8], said: &[&str]) {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("broken")).unwrap();
    std::fs::write(dir.path().join("broken/catalog.yaml"), content).unwrap();
    std::fs::write(dir.path().join("platform.yaml"), PLATFORM).unwrap();
    for arguments in READERS {
        let refusal = catalog(dir.path(), arguments).refused();
        for part in said {
            assert!(refusal.contains(part), "{arguments:?} does not say {part:?}: {refusal}");
        }
        assert_eq!(files(dir.path()), THERE, "{arguments:?}");
    }
}

#[test]
fn duplicate_keys() {
    let text = VALID.replace("name: stable\nentries:", "name: stable\nname: fast\nentries:");
    all_refuse(text.as_bytes(), &["key \"name\" already set in map", "broken/catalog.yaml, line 9"]);
    let json = b"{\"schema\": \"olm.package\",\n\"name\": \"a\",\n\"name\": \"b\"}";
    all_refuse(json, &["already set in map", "broken/catalog.yaml, line 3"]);
}

#[test]
fn bytes_that_are_no_text() {
    let mut bytes = VALID.as_bytes().to_vec();
    let at = VALID.find("quay.io/test/foo:v1.1.0").unwrap();
    bytes[at] = 0xff;
    all_refuse(&bytes, &["not UTF-8", "broken/catalog.yaml, line 25"]);
}

#[test]
fn text_that_ends_too_early() {
    all_refuse(b"{\"schema\": \"olm.package\",\n \"name\": \"fo", &["broken/catalog.yaml, line"]);
    all_refuse(b"schema: olm.package\nname: \"foo\n", &["broken/catalog.yaml, line"]);
    all_refuse(b"schema: olm.package\nname: [foo\n", &["broken/catalog.yaml, line"]);
}

#[test]
fn files_that_never_end() {
    let dir = tempfile::tempdir().unwrap();
    for folder in ["broken", "bundle/manifests", "bundle/metadata"] {
        std::fs::create_dir_all(dir.path().join(folder)).unwrap();
    }
    std::fs::write(dir.path().join("platform.yaml"), PLATFORM).unwrap();
    for link in ["broken/catalog.yaml", "bundle/manifests/csv.yaml"] {
        std::os::unix::fs::symlink("/dev/zero", dir.path().join(link)).unwrap();
    }
    for arguments in READERS {
        let refusal = catalog(dir.path(), arguments).refused();
        let said = "broken/catalog.yaml is neither a file nor a directory";
        assert!(refusal.contains(said), "{arguments:?}: {refusal}");
    }
    let refusal = catalog(dir.path(), &["render", "bundle"]).refused();
    assert!(refusal.contains("bundle/manifests/csv.yaml is neither a file nor a directory"), "{refusal}");
}

#[test]
fn bombs_of_aliases_and_of_depth() {
    let mut bomb = String::from("schema: x\na0: &a0 [x, x, x, x, x, x, x, x, x]\n");
    for level in 1..9 {
        let before = format!("*a{}", level - 1);
        bomb.push_str(&format!("a{level}: &a{level} [{}]\n", [before.as_str(); 9].join(", ")));
    }
    all_refuse(bomb.as_bytes(), &["excessive aliasing", "broken/catalog.yaml, line 1"]);
    let deep = format!("schema: x\nd: {}{}\n", "[".repeat(5000), "]".repeat(5000));
    all_refuse(deep.as_bytes(), &["recursion limit exceeded", "broken/catalog.yaml, line"]);
    let deep = format!("{{\"schema\": \"x\", \"d\": {}{}}}", "[".repeat(5000), "]".repeat(5000));
    all_refuse(deep.as_bytes(), &["broken/catalog.yaml, line 1"]);
}

/// `render`, `render-graph`, `diff` and `migrate` show catalogs as they are, `verify` looks at bundles only and `test` has
/// a report; those that need the graph refuse it.
#[test]
fn graphs_that_go_in_circles() {
    let cycle = VALID.replace("- name: foo.v1.0.0\n", "- name: foo.v1.0.0\n  replaces: foo.v1.1.0\n");
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("broken")).unwrap();
    std::fs::write(dir.path().join("broken/catalog.yaml"), cycle).unwrap();
    std::fs::write(dir.path().join("platform.yaml"), PLATFORM).unwrap();
    let shows = ["render", "render-graph", "diff", "migrate", "verify", "test"];
    for arguments in READERS.iter().filter(|it| !shows.contains(&it[0])) {
        let refusal = catalog(dir.path(), arguments).refused();
        assert!(refusal.contains("no channel head found in graph"), "{arguments:?}: {refusal}");
        assert!(refusal.contains("\"stable\"") && refusal.contains("\"foo\""), "{arguments:?}: {refusal}");
        assert_eq!(files(dir.path()), THERE, "{arguments:?}");
    }
    for arguments in [&["render", "broken"][..], &["render-graph", "broken"], &["render-graph", "broken", "-o", "svg"]]
    {
        assert!(!catalog(dir.path(), arguments).printed().is_empty());
    }
    let behind_a_head = VALID.replace(
        "- name: foo.v1.0.0\n- name: foo.v1.1.0\n  replaces: foo.v1.0.0\n",
        "- name: foo.v1.0.0\n  replaces: foo.v1.0.0\n- name: foo.v1.1.0\n  replaces: foo.v1.0.0\n",
    );
    std::fs::write(dir.path().join("broken/catalog.yaml"), behind_a_head).unwrap();
    let refusal = catalog(dir.path(), &["validate", "broken"]).refused();
    assert!(
        refusal.contains("detected cycle in replaces chain of upgrade graph: foo.v1.0.0 -> foo.v1.0.0"),
        "{refusal}"
    );
}

/// Every command that reads a template refuses it and says all of `said`; the repository is as it was.
#[track_caller]
fn template_is_refused(content: &[u8], said: &[&str]) {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(dir.path().join("repository/foo")).unwrap();
    std::fs::write(dir.path().join("repository/foo/veneer.yaml"), content).unwrap();
    let before = files(dir.path());
    for arguments in [
        &["render-template", "repository/foo/veneer.yaml"][..],
        &["render-template", "semver", "repository/foo/veneer.yaml"],
        &["alpha", "render-veneer", "semver", "repository/foo/veneer.yaml"],
        &["add", "foo", "quay.io/test/foo:v1", "-d", "repository"],
        &["update", "-d", "repository"],
    ] {
        let run = catalog(dir.path(), arguments);
        assert_eq!(run.code, 1, "{arguments:?}");
        for part in said.iter().chain(&["repository/foo/veneer.yaml"]) {
            assert!(run.stderr.contains(part), "{arguments:?} does not say {part:?}: {}", run.stderr);
        }
        assert_eq!(files(dir.path()), before, "{arguments:?}");
    }
}

#[test]
fn templates_that_cannot_be_read() {
    template_is_refused(b"Schema: olm.semver\nStable: [\n", &["line "]);
    template_is_refused(b"Schema: olm.semver\nStable:\n  Bundles:\n  - Image: \xff\n", &["not UTF-8", "line 4"]);
    template_is_refused(b"{\"schema\": \"olm.semver\",\n \"stab", &["line "]);
}

/// What opm reads without a word: the output is opm's, with a warning; the workflow, which opm does not have, refuses it.
#[test]
fn templates_with_keys_twice() {
    let dir = tempfile::tempdir().unwrap();
    write_bundle(&dir.path().join("bundle"), MAP);
    catalog(dir.path(), &["build-bundle", "bundle", "--layout", "layout"]).printed();
    std::fs::create_dir_all(dir.path().join("repository/foo")).unwrap();
    let path = "repository/foo/veneer.yaml";
    let list = "Stable:\n  Bundles:\n  - Image: oci:layout\n";
    let entries = "entries:\n- {schema: olm.bundle, image: 'oci:layout'}\n";
    for (text, said) in [
        (format!("schema: olm.template.basic\n{entries}{entries}"), "key \"entries\" already set in map"),
        (format!("Schema: olm.semver\n{list}{}", list.to_lowercase()), "\"Stable\" and \"stable\""),
    ] {
        std::fs::write(dir.path().join(path), text).unwrap();
        let run = catalog(dir.path(), &["render-template", path]);
        assert_eq!(run.code, 0, "{}", run.stderr);
        assert!(run.stdout.contains("foo.v1.0.0"), "{}", run.stdout);
        assert!(run.stderr.contains("warning: ") && run.stderr.contains(path), "{}", run.stderr);
        assert!(run.stderr.contains(said), "{}", run.stderr);
        let run = catalog(dir.path(), &["update", "-d", "repository"]);
        assert_eq!(run.code, 1);
        assert!(run.stderr.contains(said) && run.stderr.contains(path), "{}", run.stderr);
        assert!(!dir.path().join("repository/foo/catalog.yaml").exists());
    }
}

const MAP: &[u8] = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: map}\n";

fn write_bundle(folder: &Path, map: &[u8]) {
    std::fs::create_dir_all(folder.join("manifests")).unwrap();
    std::fs::create_dir_all(folder.join("metadata")).unwrap();
    let csv = "apiVersion: operators.coreos.com/v1alpha1\nkind: ClusterServiceVersion\nmetadata:\n  name: foo.v1.0.0\n\
               spec:\n  displayName: Foo\n  version: 1.0.0\n  installModes: [{type: AllNamespaces, supported: true}]\n  \
               install: {strategy: deployment, spec: {deployments: [{name: foo, spec: {selector: {matchLabels: {a: b}}, \
               template: {metadata: {labels: {a: b}}, spec: {containers: [{name: foo, image: 'quay.io/x/y:v1'}]}}}}]}}\n";
    std::fs::write(folder.join("manifests/foo.clusterserviceversion.yaml"), csv).unwrap();
    std::fs::write(folder.join("manifests/map.yaml"), map).unwrap();
    std::fs::write(
        folder.join("metadata/annotations.yaml"),
        "annotations:\n  operators.operatorframework.io.bundle.mediatype.v1: registry+v1\n  \
         operators.operatorframework.io.bundle.manifests.v1: manifests/\n  \
         operators.operatorframework.io.bundle.metadata.v1: metadata/\n  \
         operators.operatorframework.io.bundle.package.v1: foo\n  \
         operators.operatorframework.io.bundle.channels.v1: stable\n",
    )
    .unwrap();
}

/// opm leaves such files out without a word: so do `render` and the others, with a word; `test` fails.
#[test]
fn bundles_with_files_that_cannot_be_read() {
    let twice = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: map}\ndata: {a: b}\ndata: {a: c}\n";
    for (map, said) in [
        (&b"apiVersion: v1\nkind: [\n"[..], "manifests/map.yaml, line "),
        (
            b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: \xff}\n",
            "manifests/map.yaml, line 3: the text is not UTF-8",
        ),
        (twice, "manifests/map.yaml, line 5: "),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let at = |path: &str| dir.path().join(path);
        write_bundle(&at("bundles/foo/1.0.0"), MAP);
        catalog(dir.path(), &["build-bundle", "bundles/foo/1.0.0", "--layout", "layout"]).printed();
        catalog(dir.path(), &["init", "foo", "-d", "repository"]).printed();
        let add = catalog(dir.path(), &["add", "foo", "oci:layout", "-d", "repository"]);
        assert_eq!((add.code, add.stderr.as_str()), (0, ""));
        std::fs::write(at("platform.yaml"), PLATFORM).unwrap();
        let test = ["test", "platform.yaml", "repository", "--layer", "sanity", "--bundles", "bundles"];
        let good = catalog(dir.path(), &test);
        assert_eq!(good.code, 0, "{}{}", good.stdout, good.stderr);

        std::fs::write(at("bundles/foo/1.0.0/manifests/map.yaml"), map).unwrap();
        let told = |arguments: &[&str]| {
            let run = catalog(dir.path(), arguments);
            assert_eq!(run.code, 0, "{arguments:?}: {}", run.stderr);
            assert!(run.stderr.contains("warning: ") && run.stderr.contains(said), "{arguments:?}: {}", run.stderr);
        };
        told(&["render", "bundles/foo/1.0.0"]);
        told(&["build-bundle", "bundles/foo/1.0.0", "--layout", "broken"]);
        told(&["render", "oci:broken"]);
        std::fs::create_dir(at("other")).unwrap();
        std::fs::write(at("other/veneer.yaml"), "schema: olm.semver\nstable: {bundles: [{image: 'oci:broken'}]}\n")
            .unwrap();
        told(&["render-template", "other/veneer.yaml"]);
        told(&["update", "-d", "."]);
        let report = catalog(dir.path(), &test);
        assert_eq!(report.code, 1, "{}", report.stdout);
        assert!(report.stdout.contains(said), "{}", report.stdout);
    }
    // Without the rest nothing is left of a bundle, and opm does not say why.
    let dir = tempfile::tempdir().unwrap();
    write_bundle(&dir.path().join("bundle"), MAP);
    std::fs::write(dir.path().join("bundle/manifests/foo.clusterserviceversion.yaml"), b"kind: [\n").unwrap();
    for arguments in [&["render", "bundle"][..], &["build-bundle", "bundle", "--layout", "layout"]] {
        let refusal = catalog(dir.path(), arguments).refused();
        assert!(refusal.contains("no csv in bundle"), "{refusal}");
        assert!(refusal.contains("manifests/foo.clusterserviceversion.yaml, line "), "{refusal}");
        assert!(!dir.path().join("layout").exists());
    }
    write_bundle(&dir.path().join("bundle"), MAP);
    std::fs::write(dir.path().join("bundle/metadata/annotations.yaml"), b"annotations: {\n").unwrap();
    let refusal = catalog(dir.path(), &["render", "bundle"]).refused();
    assert!(refusal.contains("metadata/annotations.yaml, line "), "{refusal}");
}

#[test]
fn platforms_that_cannot_be_read() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("good")).unwrap();
    std::fs::write(dir.path().join("good/catalog.yaml"), VALID).unwrap();
    for (content, said) in [
        (&b"apiVersion: [\n"[..], "line "),
        (b"kind: Platform\nkind: Platform\n", "line 2: key \"kind\" already set in map"),
        (b"kind: Platform\nx: \xff\n", "line 2: the text is not UTF-8"),
    ] {
        std::fs::write(dir.path().join("platform.yaml"), content).unwrap();
        let refusal = catalog(dir.path(), &["test", "platform.yaml", "good"]).refused();
        assert!(refusal.contains(said) && refusal.contains("platform.yaml"), "{refusal}");
    }
}

fn tar_of(name: &str, content: &[u8]) -> Vec<u8> {
    let mut header = tar::Header::new_gnu();
    header.set_size(content.len() as u64);
    header.set_mode(0o644);
    // Written directly, since the library refuses what we want to test.
    header.as_gnu_mut().unwrap().name[..name.len()].copy_from_slice(name.as_bytes());
    header.set_cksum();
    let mut builder = tar::Builder::new(Vec::new());
    builder.append(&header, content).unwrap();
    builder.into_inner().unwrap()
}

fn gzip(data: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

/// A catalog image with whatever layer.
fn image(layer: Vec<u8>) -> Image {
    let config = json!({"config": {"Labels": {"operators.operatorframework.io.index.configs.v1": "/configs"}}});
    let config = config.to_string().into_bytes();
    let descriptor = |kind: &str, data: &[u8]| json!({"mediaType": kind, "digest": Digest::of(data).to_string(), "size": data.len()});
    let manifest = json!({
        "schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": descriptor("application/vnd.oci.image.config.v1+json", &config),
        "layers": [descriptor("application/vnd.oci.image.layer.v1.tar+gzip", &layer)],
    });
    Image { manifest: manifest.to_string().into_bytes(), config, layer }
}

/// Every command that takes images refuses this one, names the digest, and leaves nothing behind.
#[track_caller]
fn image_is_refused(dir: &Path, digest: &str, said: &str) {
    let before = files(dir);
    for arguments in [
        &["render", "oci:layout"][..],
        &["list", "packages", "oci:layout"],
        &["diff", "oci:layout", "oci:layout"],
        &["resolve", "oci:layout", "--want", "foo"],
        &["serve", "oci:layout", "--cache-dir", "cache", "--cache-only"],
    ] {
        let refusal = catalog(dir, arguments).refused();
        assert!(refusal.contains(digest), "{arguments:?} does not name {digest}: {refusal}");
        assert!(refusal.contains(said), "{arguments:?} does not say {said:?}: {refusal}");
        assert_eq!(files(dir), before, "{arguments:?}");
    }
}

#[track_caller]
fn layer_is_refused(layer: Vec<u8>, said: &str) {
    let dir = tempfile::tempdir().unwrap();
    let image = image(layer);
    Layout::new(&dir.path().join("layout")).write(&image, &[]).unwrap();
    image_is_refused(dir.path(), &Digest::of(&image.layer).to_string(), said);
}

#[test]
fn a_whole_layer_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let image = image(gzip(&tar_of("configs/catalog.yaml", VALID.as_bytes())));
    Layout::new(&dir.path().join("layout")).write(&image, &[]).unwrap();
    assert!(catalog(dir.path(), &["list", "packages", "oci:layout"]).printed().contains("foo"));
}

#[test]
fn layers_that_end_too_early() {
    let whole = gzip(&tar_of("configs/catalog.yaml", VALID.repeat(50).as_bytes()));
    layer_is_refused(whole[..whole.len() / 2].to_vec(), "the layer cannot be read");
    let plain = tar_of("configs/catalog.yaml", &[b'x'; 5000]);
    layer_is_refused(plain[..3000].to_vec(), "the layer cannot be read");
}

#[test]
fn layers_that_leave_their_directory() {
    for name in ["../evil", "configs/../../evil", "configs/../../../../../../tmp/evil"] {
        layer_is_refused(gzip(&tar_of(name, b"x")), "leaves the image");
    }
}

#[test]
fn a_gigabyte_of_zeros() {
    let member = gzip(&vec![0; 16 << 20]);
    let mut header = tar::Header::new_gnu();
    header.set_path("configs/zeros.yaml").unwrap();
    header.set_size(1 << 30);
    header.set_cksum();
    let mut layer = gzip(header.as_bytes());
    (0..64).for_each(|_| layer.extend_from_slice(&member));
    assert!(layer.len() < 8 << 20, "{}", layer.len());
    layer_is_refused(layer, "too large");
}

#[test]
fn content_of_another_digest() {
    let dir = tempfile::tempdir().unwrap();
    let image = image(gzip(&tar_of("configs/catalog.yaml", VALID.as_bytes())));
    Layout::new(&dir.path().join("layout")).write(&image, &[]).unwrap();
    for blob in [&image.layer, &image.config, &image.manifest] {
        let digest = Digest::of(blob);
        let path = dir.path().join("layout/blobs/sha256").join(digest.hex());
        let mut changed = blob.clone();
        *changed.last_mut().unwrap() ^= 1;
        std::fs::write(&path, &changed).unwrap();
        image_is_refused(dir.path(), &digest.to_string(), "the content of");
        std::fs::write(&path, &blob[..blob.len() / 2]).unwrap();
        image_is_refused(dir.path(), &digest.to_string(), "the content of");
        std::fs::write(&path, blob).unwrap();
    }
}

#[test]
fn an_index_that_was_damaged_is_made_again_or_refused() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("good")).unwrap();
    std::fs::write(dir.path().join("good/catalog.yaml"), VALID).unwrap();
    let serve = ["serve", "good", "--cache-dir", "cache", "--cache-only"];
    catalog(dir.path(), &serve).printed();
    let list = ["list", "bundles", "good", "--cache-dir", "cache"];
    let expected = catalog(dir.path(), &list).printed();
    let index = files(&dir.path().join("cache"));
    let [index] = index.as_slice() else { panic!("{index:?}") };
    let path = dir.path().join("cache").join(index);
    let whole = std::fs::read(&path).unwrap();
    for bytes in [&whole[..whole.len() - 1], &whole[..10], b""] {
        std::fs::write(&path, bytes).unwrap();
        let strict = [&serve[..], &["--cache-enforce-integrity"]].concat();
        let refusal = catalog(dir.path(), &strict).refused();
        assert!(refusal.contains("damaged") && refusal.contains(index.as_str()), "{refusal}");
        assert_eq!(catalog(dir.path(), &list).printed(), expected);
        // Whole again. Not of the same bytes: documents are written by several threads as they come.
        catalog(dir.path(), &strict).printed();
    }
}
