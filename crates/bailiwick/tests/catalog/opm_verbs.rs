//! The verbs that scripts know from opm: the same files and the same output as the real one makes, and a word on what to
//! use instead of those that are gone.

use std::path::{Path, PathBuf};
use std::process::Command;

use bailiwick_testkit::tools;

use crate::program::{VALID, catalog, files};

/// opm in a directory: whether it succeeded, and what it printed.
fn opm(directory: &Path, arguments: &[&str]) -> Option<(bool, String)> {
    let Ok(program) = tools::find("opm") else {
        bailiwick_testkit::skip("opm is not installed (cargo xtask setup)");
        return None;
    };
    let output = Command::new(program).args(arguments).current_dir(directory).output().unwrap();
    Some((output.status.success(), String::from_utf8(output.stdout).unwrap()))
}

/// Texts that encoders treat specially, and numbers that are no integers.
const ODD: &str = "---
schema: custom.schema
package: foo
name: a<&>b
list: []
empty: {}
number: 1e21
text: \"two\\nlines \\u2028 \\\"quoted\\\"\"
---
Schema: olm.bundle
Package: foo
Name: foo.v1.2.0
Image: quay.io/test/foo@sha256:0000000000000000000000000000000000000000000000000000000000000000
";

#[test]
fn catalogs_become_the_templates_that_opm_makes_of_them() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("catalog.yaml"), format!("{VALID}{ODD}")).unwrap();
    std::fs::write(dir.path().join("empty.yaml"), "").unwrap();
    for kind in ["basic", "substitutes"] {
        for form in ["json", "yaml"] {
            for file in ["catalog.yaml", "empty.yaml"] {
                let arguments = ["alpha", "convert-template", kind, file, "-o", form];
                let ours = catalog(dir.path(), &arguments).printed();
                let Some(theirs) = opm(dir.path(), &arguments) else { return };
                assert_eq!((true, ours), theirs, "{arguments:?}");
            }
        }
    }
    // What comes out is a template, whose images are then looked for.
    let template = catalog(dir.path(), &["alpha", "convert-template", "basic", "catalog.yaml"]).printed();
    std::fs::write(dir.path().join("template.json"), template).unwrap();
    let refusal = catalog(dir.path(), &["render-template", "template.json"]).refused();
    assert!(refusal.contains("quay.io/test/foo:v1.0.0") && refusal.contains("in template.json"), "{refusal}");
    std::fs::write(dir.path().join("broken.yaml"), "schema: a\n---\nname: [\n").unwrap();
    let refusal = catalog(dir.path(), &["alpha", "convert-template", "basic", "broken.yaml"]).refused();
    assert!(refusal.contains("in broken.yaml, line "), "{refusal}");
}

#[test]
fn init_prints_the_package_with_the_flags_of_opm() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("README.md"), "# Foo\n\nIt <does> \"things\".\n").unwrap();
    std::fs::write(dir.path().join("icon.png"), b"\x89PNG\r\n\x1a\n\x00\x01").unwrap();
    std::fs::write(dir.path().join("icon.svg"), "<svg xmlns='http://www.w3.org/2000/svg'/>").unwrap();
    for arguments in [
        &["init", "foo", "-c", "stable"][..],
        &["init", "foo", "-c", "stable", "-o", "yaml"],
        &["init", "foo", "--default-channel", "stable", "-d", "README.md", "-i", "icon.png"],
        &["init", "foo", "-d", "README.md"],
        &["init", "foo", "--description", "README.md", "--icon", "icon.png", "--output", "yaml"],
        &["init", "foo", "-o", "json"],
    ] {
        let ours = catalog(dir.path(), arguments).printed();
        if let Some(theirs) = opm(dir.path(), arguments) {
            assert_eq!((true, ours), theirs, "{arguments:?}");
        }
    }
    // Most icons of operators are SVG, which opm does not know.
    let printed = catalog(dir.path(), &["init", "foo", "-i", "icon.svg"]).printed();
    assert!(printed.contains("\"mediatype\": \"image/svg+xml\""), "{printed}");
    let refusal = catalog(dir.path(), &["init", "foo", "-i", "README.md"]).refused();
    assert!(refusal.contains("README.md") && refusal.contains("not an image"), "{refusal}");
    let refusal = catalog(dir.path(), &["init", "foo", "-c", "a", "-d", "nope.md"]).refused();
    assert!(refusal.contains("open description file") && refusal.contains("nope.md"), "{refusal}");
    // Nothing of that is the workflow of a repository, which is this.
    assert_eq!(files(dir.path()), ["README.md", "icon.png", "icon.svg"]);
    catalog(dir.path(), &["init", "foo", "--owner", "alice", "-d", "repository"]).printed();
    assert!(files(dir.path()).contains(&"repository/foo/veneer.yaml".to_owned()));
    catalog(dir.path(), &["init", "bar"]).printed();
    assert!(files(dir.path()).contains(&"bar/veneer.yaml".to_owned()));
}

fn contents(root: &Path) -> Vec<(String, String)> {
    let read = |path: String| (path.clone(), std::fs::read_to_string(root.join(&path)).unwrap());
    files(root).into_iter().map(read).collect()
}

#[test]
fn migrate_writes_the_directory_that_opm_writes() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("in")).unwrap();
    let other = VALID.replace("foo", "bar");
    let rest = "---\nschema: custom.schema\nanything: [1, 2]\n";
    std::fs::write(dir.path().join("in/catalog.yaml"), format!("{VALID}{other}{rest}")).unwrap();
    for form in ["json", "yaml"] {
        let (ours, theirs) = (format!("ours-{form}/deep"), format!("theirs-{form}/deep"));
        catalog(dir.path(), &["migrate", "in", &ours, "-o", form]).printed();
        assert_eq!(files(&dir.path().join(&ours)).len(), 3);
        if opm(dir.path(), &["migrate", "in", &theirs, "-o", form]).is_some_and(|it| it.0) {
            assert_eq!(contents(&dir.path().join(&ours)), contents(&dir.path().join(&theirs)));
        }
        catalog(dir.path(), &["validate", &ours]).printed();
    }
    let before = files(dir.path());
    let refusal = catalog(dir.path(), &["migrate", "in", "ours-json/deep"]).refused();
    assert!(refusal.contains("must be empty"), "{refusal}");
    // A name that would lead out of the directory.
    std::fs::create_dir(dir.path().join("evil")).unwrap();
    let evil = "schema: custom.schema\npackage: ../evil\nname: x\n";
    std::fs::write(dir.path().join("evil/catalog.yaml"), evil).unwrap();
    let refusal = catalog(dir.path(), &["migrate", "evil", "out"]).refused();
    assert!(refusal.contains("../evil"), "{refusal}");
    let mut expected = [before, vec!["evil/catalog.yaml".to_owned()]].concat();
    expected.sort();
    assert_eq!(files(dir.path()), expected);
}

fn write_manifests(folder: &Path) {
    std::fs::create_dir_all(folder).unwrap();
    let csv = "apiVersion: operators.coreos.com/v1alpha1\nkind: ClusterServiceVersion\nmetadata:\n  name: foo.v1.0.0\n\
               spec:\n  displayName: Foo\n  version: 1.0.0\n";
    std::fs::write(folder.join("foo.clusterserviceversion.yaml"), csv).unwrap();
    std::fs::write(folder.join("map.yaml"), "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: map}\n").unwrap();
}

#[test]
fn bundles_are_generated_as_opm_generates_them() {
    for arguments in [
        &["-d", "manifests", "-p", "foo", "-c", "stable,beta", "-e", "stable"][..],
        &["--directory", "./manifests/", "--package", "foo", "--channels", "1.0"],
        &["-d", "manifests", "-p", "foo", "-c", "stable", "-u", "out/bundle", "--base-image", "quay.io/x/y:v1"],
    ] {
        let made = |run: &dyn Fn(&Path, &[&str]) -> bool| {
            let dir = tempfile::tempdir().unwrap();
            write_manifests(&dir.path().join("manifests"));
            run(dir.path(), &[&["alpha", "bundle", "generate"], arguments].concat()).then(|| contents(dir.path()))
        };
        let ours = made(&|dir, arguments| catalog(dir, arguments).code == 0).unwrap();
        assert!(ours.iter().any(|(path, _)| path == "bundle.Dockerfile"));
        if let Some(theirs) = made(&|dir, arguments| opm(dir, arguments).is_some_and(|it| it.0)) {
            assert_eq!(ours, theirs, "{arguments:?}");
        }
    }
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("manifests")).unwrap();
    let generate = ["alpha", "bundle", "generate", "-d", "manifests", "-p", "foo", "-c", "a"];
    let refusal = catalog(dir.path(), &generate).refused();
    assert!(refusal.contains("contains no yaml files"), "{refusal}");
    write_manifests(&dir.path().join("manifests"));
    let refusal = catalog(dir.path(), &generate[..5]).refused();
    assert!(refusal.contains("--channels and --package are needed"), "{refusal}");
}

#[test]
fn bundles_are_built_unpacked_and_validated_without_docker() {
    let dir = tempfile::tempdir().unwrap();
    write_manifests(&dir.path().join("manifests"));
    let build = ["alpha", "bundle", "build", "-d", "manifests", "-t", "quay.io/me/foo:v1", "-p", "foo", "-c", "stable"];
    let refusal = catalog(dir.path(), &build).refused();
    assert!(refusal.contains("--layout <dir> or --push"), "{refusal}");
    catalog(dir.path(), &[&build[..], &["--layout", "layout"]].concat()).printed();
    let rendered = catalog(dir.path(), &["render", "oci:layout"]).printed();
    assert!(rendered.contains("\"name\": \"foo.v1.0.0\"") && rendered.contains("\"package\": \"foo\""), "{rendered}");
    let refusal = catalog(dir.path(), &[&build[..], &["-c", "other", "--layout", "l"]].concat());
    assert_eq!(refusal.code, 2, "channels were given twice");
    let other: Vec<&str> = build.iter().map(|it| if *it == "stable" { "other" } else { it }).collect();
    let refusal = catalog(dir.path(), &[&other[..], &["--layout", "l"]].concat()).refused();
    assert!(refusal.contains("instead of \"stable\"") && refusal.contains("--overwrite"), "{refusal}");
    catalog(dir.path(), &[&other[..], &["--layout", "l", "--overwrite"]].concat()).printed();

    catalog(dir.path(), &["alpha", "bundle", "unpack", "oci:layout", "-o", "unpacked"]).printed();
    let unpacked = files(&dir.path().join("unpacked"));
    assert_eq!(
        unpacked,
        ["manifests/foo.clusterserviceversion.yaml", "manifests/map.yaml", "metadata/annotations.yaml"]
    );
    catalog(dir.path(), &["alpha", "bundle", "validate", "-t", "oci:layout"]).printed();

    // opm would leave the file out without a word.
    std::fs::write(dir.path().join("manifests/map.yaml"), "kind: ConfigMap\ndata: [\n").unwrap();
    let run = catalog(dir.path(), &[&build[..], &["--layout", "broken", "--overwrite"]].concat());
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(run.stderr.contains("manifests/map.yaml, line ") && run.stderr.contains("left out"), "{}", run.stderr);
    for arguments in [
        &["alpha", "bundle", "validate", "-t", "oci:broken"][..],
        &["alpha", "bundle", "unpack", "oci:broken", "-o", "x"],
    ] {
        let refusal = catalog(dir.path(), arguments).refused();
        assert!(refusal.contains("manifests/map.yaml, line "), "{refusal}");
    }
    assert!(!dir.path().join("x").exists());
    catalog(dir.path(), &["alpha", "bundle", "unpack", "oci:broken", "-o", "x", "--skip-validation"]).printed();
    assert!(catalog(dir.path(), &["alpha", "bundle", "extract", "-m", "x"]).refused().contains("unpack"));
}

#[test]
fn the_flags_of_opm_are_understood_before_the_verb() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("c")).unwrap();
    std::fs::write(dir.path().join("c/catalog.yaml"), VALID).unwrap();
    for arguments in [
        &["--use-http", "render", "c"][..],
        &["--skip-tls-verify", "--use-http", "alpha", "list", "packages", "c"],
        &["alpha", "--skip-tls-verify", "list", "packages", "c"],
        &["alpha", "list", "--use-http", "packages", "c"],
        &["render", "--skip-tls", "c"],
        &["generate", "dockerfile", "c", "--use-http"],
    ] {
        catalog(dir.path(), arguments).printed();
        let _ = std::fs::remove_file(dir.path().join("c.Dockerfile"));
    }
    // They reach those who pull: nobody speaks TLS there.
    let reference = format!("{}/a/b:v1", plain_server());
    let with = catalog(dir.path(), &["--use-http", "render", &reference]).refused();
    let after = catalog(dir.path(), &["render", "--use-http", &reference]).refused();
    assert_eq!(with, after);
    assert!(with.contains("404"), "{with}");
}

/// A server that knows nothing, without TLS; it ends with the test.
fn plain_server() -> std::net::SocketAddr {
    use std::io::{Read as _, Write as _};
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { continue };
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        }
    });
    address
}

#[test]
fn what_is_gone_says_what_to_use() {
    let dir = tempfile::tempdir().unwrap();
    for (arguments, instead) in [
        (&["index", "add", "--bundles", "quay.io/x/y:v1", "--tag", "z"][..], "bailiwick catalog add"),
        (&["index", "prune", "-f", "x"], "catalog validate"),
        (&["index"], "bailiwick catalog init"),
        (&["registry", "serve", "--help"], "bailiwick catalog serve"),
        (&["registry", "add", "-b", "x"], "bailiwick catalog add"),
    ] {
        let refusal = catalog(dir.path(), arguments).refused();
        assert!(refusal.contains("sqlite") && refusal.contains(instead), "{arguments:?}: {refusal}");
    }
    let printed = catalog(dir.path(), &["version"]).printed();
    assert!(
        printed.starts_with("Version: version.Version{OpmVersion:\"v1.") && printed.ends_with("\"}\n"),
        "{printed}"
    );
}

#[test]
fn the_graph_of_a_package_that_is_not_there_is_empty_and_says_so() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("catalog.yaml"), VALID).unwrap();
    let run = catalog(dir.path(), &["render-graph", ".", "-p", "nobody"]);
    assert!(run.stderr.contains("has no package \"nobody\""), "{}", run.stderr);
    if let Some(theirs) = opm(dir.path(), &["alpha", "render-graph", ".", "-p", "nobody"]) {
        assert_eq!((run.code == 0, run.stdout), theirs);
    }
    let run = catalog(dir.path(), &["render-graph", ".", "-p", "foo"]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
}

/// An argument with bytes that are no text, which must not become another file's name.
#[test]
fn names_that_are_no_text_are_refused() {
    use std::os::unix::ffi::OsStrExt;
    let dir = tempfile::tempdir().unwrap();
    let name = std::ffi::OsStr::from_bytes(b"caf\xe9");
    std::fs::create_dir(dir.path().join("caf\u{fffd}")).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_bailiwick"))
        .args(["catalog", "validate"])
        .arg(name)
        .current_dir(dir.path())
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("not UTF-8") && said.contains("caf"), "{said}");
}

#[test]
fn serve_takes_the_flags_of_opm() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("good")).unwrap();
    std::fs::write(dir.path().join("good/catalog.yaml"), VALID).unwrap();
    // As with opm, an index that is kept is one that was made before.
    let log = dir.path().join("termination.log");
    let serve = ["serve", "good", "--cache-dir", "cache", "-t", log.to_str().unwrap(), "--debug", "--port", "0"];
    let refusal = catalog(dir.path(), &serve).refused();
    assert!(refusal.contains("integrity check failed") && refusal.contains("--cache-only"), "{refusal}");
    assert!(std::fs::read_to_string(&log).unwrap().contains("integrity check failed"));
    let pprof = ["--pprof-addr", "localhost:6060", "--pprof-capture-profiles"];
    let run = catalog(dir.path(), &[&["serve", "good", "--cache-dir", "cache", "--cache-only"], &pprof[..]].concat());
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(run.stderr.contains("not supported"), "{}", run.stderr);
    let mut served = serving(dir.path(), &serve);
    assert!(served.line().contains("serving good (1 packages, 2 bundles) on "));
    drop(served);
    std::fs::write(dir.path().join("good/more.yaml"), "schema: custom.schema\n").unwrap();
    let refusal = catalog(dir.path(), &serve).refused();
    assert!(refusal.contains("integrity check failed"), "{refusal}");
    let mut lenient = serving(dir.path(), &[&serve[..], &["--cache-enforce-integrity=false"]].concat());
    assert!(lenient.line().contains("serving good"));
}

/// A server, stopped when it is dropped.
pub struct Serving {
    child: std::process::Child,
    lines: std::io::BufReader<std::process::ChildStdout>,
}

impl Serving {
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        std::io::BufRead::read_line(&mut self.lines, &mut line).unwrap();
        line
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn serving(directory: &Path, arguments: &[&str]) -> Serving {
    let mut command = crate::program::command(directory, arguments);
    let mut child = command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::null()).spawn().unwrap();
    let lines = std::io::BufReader::new(child.stdout.take().unwrap());
    Serving { child, lines }
}

/// The commands of the design document, as it writes them.
#[test]
fn a_veneer_renders_by_its_old_name() {
    let Some(data) = data() else { return };
    let bundles = data.join("golden/templates-synthetic/bundles");
    let dir = tempfile::tempdir().unwrap();
    let mut template =
        "Schema: olm.semver\nGenerateMajorChannels: true\nGenerateMinorChannels: true\nStable:\n  Bundles:\n"
            .to_owned();
    for version in ["1.0.0", "1.0.1", "1.1.0"] {
        let layout = format!("layout-{version}");
        let bundle = bundles.join("foo").join(version);
        catalog(dir.path(), &["build-bundle", bundle.to_str().unwrap(), "--layout", &layout]).printed();
        template.push_str(&format!("  - Image: oci:{layout}\n"));
    }
    std::fs::write(dir.path().join("veneer.yaml"), template).unwrap();
    let new = catalog(dir.path(), &["render-template", "semver", "veneer.yaml", "-o", "yaml"]).printed();
    assert!(new.contains("name: stable-v1.1") && new.contains("replaces: foo.v1.0.1"), "{new}");
    for old in [
        &["alpha", "render-veneer", "semver", "veneer.yaml", "-o", "yaml"][..],
        &["alpha", "render-template", "semver", "veneer.yaml", "--output", "yaml"],
        &["render-veneer", "semver", "veneer.yaml", "-o=yaml"],
        &["alpha", "render-template", "veneer.yaml", "-o", "yaml"],
    ] {
        assert_eq!(catalog(dir.path(), old).printed(), new, "{old:?}");
    }
}

pub fn data() -> Option<PathBuf> {
    let beside = std::env::var_os("BAILIWICK_SHARED").map(PathBuf::from);
    let above = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().map(|directory| directory.join("shared"));
    let found = above.chain(beside).map(|it| it.join("data/olm")).find(|it| it.is_dir());
    if found.is_none() {
        bailiwick_testkit::skip("shared/data/olm is not here");
    }
    found
}
