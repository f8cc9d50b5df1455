//! The first steps of somebody new: nothing there yet, names that are wrong, and a repository that grows.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use bailiwick_testkit::tools;

use crate::program::{VALID, catalog, command, files};

#[test]
fn what_is_not_there_is_said_by_name() {
    let dir = tempfile::tempdir().unwrap();
    for arguments in [
        &["validate", "nope"][..],
        &["list", "packages", "./nope"],
        &["render", "./nope"],
        &["render-graph", "./nope"],
        &["diff", "./nope", "./nope"],
        &["verify", "./nope"],
        &["resolve", "./nope", "--want", "foo"],
        &["explain", "./nope", "--want", "foo"],
        &["build", "nope", "--layout", "layout"],
        &["build-bundle", "nope", "--layout", "layout"],
        &["serve", "./nope"],
        &["generate", "dockerfile", "nope"],
        &["render-template", "nope.yaml"],
        &["render-template", "semver", "nope.yaml"],
        &["update", "-d", "nope"],
        &["add", "nope", "quay.io/x/y:v1"],
        &["test", "nope.yaml", "nope"],
    ] {
        let refusal = catalog(dir.path(), arguments).refused();
        assert!(refusal.contains("nope"), "{arguments:?}: {refusal}");
        let says_so = ["No such file", "no such", "there is no", "not a directory", "no directory"];
        assert!(
            says_so.iter().any(|it| refusal.contains(it)),
            "{arguments:?} does not say that it is not there: {refusal}"
        );
        assert_eq!(files(dir.path()), Vec::<String>::new(), "{arguments:?}");
    }
}

#[test]
fn names_that_cannot_be_are_refused_with_the_form_they_have() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["Foo", "../foo", "foo bar", "", "foo.bar", "fö"] {
        let refusal = catalog(dir.path(), &["init", name]).refused();
        assert!(refusal.contains("lower-case letters, digits and dashes"), "{name:?}: {refusal}");
    }
    assert_eq!(files(dir.path()), Vec::<String>::new());
    catalog(dir.path(), &["init", "foo"]).printed();
    let before = files(dir.path());
    for image in ["", "quay.io/x y", "quay.io/UPPER/x:v1", "quay.io/x:bad tag"] {
        let refusal = catalog(dir.path(), &["add", "foo", image]).refused();
        assert!(refusal.contains("image") || refusal.contains("reference"), "{image:?}: {refusal}");
    }
    let refusal = catalog(dir.path(), &["init", "foo"]).refused();
    assert!(refusal.contains("bailiwick catalog add foo <image>"), "{refusal}");
    let refusal = catalog(dir.path(), &["add", "bar", "quay.io/x/y:v1"]).refused();
    assert!(refusal.contains("bailiwick catalog init bar"), "{refusal}");
    assert_eq!(files(dir.path()), before);
}

#[test]
fn a_folder_that_was_only_started_says_what_comes_next() {
    let dir = tempfile::tempdir().unwrap();
    let refusal = catalog(dir.path(), &["update"]).refused();
    assert!(refusal.contains("bailiwick catalog init <operator>"), "{refusal}");
    let ready = catalog(dir.path(), &["init", "bar", "-d", "elsewhere"]).printed();
    assert!(ready.contains("`bailiwick catalog add bar <image> -d elsewhere`"), "{ready}");
    catalog(dir.path(), &["init", "foo", "--owner", "alice"]).printed();
    let run = catalog(dir.path(), &["update"]);
    assert_eq!(run.code, 1);
    assert!(run.stderr.contains("bailiwick catalog add foo <image>"), "{}", run.stderr);
    // What is there so far is a catalog without packages.
    assert_eq!(catalog(dir.path(), &["validate", "."]).printed(), "");
    assert_eq!(catalog(dir.path(), &["list", "packages", "."]).printed().lines().count(), 1);
}

#[test]
fn folders_with_odd_names_and_no_content() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["empty", "with space", "ünïcode", "-dash", "a:b"] {
        std::fs::create_dir(dir.path().join(name)).unwrap();
        if name != "empty" {
            std::fs::write(dir.path().join(name).join("catalog.yaml"), VALID).unwrap();
        }
        let path = format!("./{name}");
        assert_eq!(catalog(dir.path(), &["validate", &path]).printed(), "");
        let lines = catalog(dir.path(), &["list", "bundles", &path]).printed().lines().count();
        assert_eq!(lines, if name == "empty" { 1 } else { 3 }, "{name}");
        let layout = dir.path().join("layout").join(name).display().to_string();
        catalog(dir.path(), &["build", &path, "--layout", &layout]).printed();
    }
}

#[test]
fn what_would_do_nothing_or_contradicts_itself_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("good")).unwrap();
    std::fs::write(dir.path().join("good/catalog.yaml"), VALID).unwrap();
    let said = |arguments: &[&str], expected: &str| {
        let refusal = catalog(dir.path(), arguments).refused();
        assert!(refusal.contains(expected), "{arguments:?}: {refusal}");
    };
    said(&["build", "good"], "--layout <dir> or --push");
    said(&["build", "good", "--push"], "--tag");
    said(&["build", "good", "--layout", "l", "--release", "1.0"], "vX.Y.Z");
    said(&["build", "good", "--layout", "l", "--release", "v1.0.0", "--tag", "quay.io/a/b:main"], "--release");
    said(&["resolve", "good"], "--want <package>");
    said(&["resolve", "good", "--want", "@1"], "package[:channel][@range]");
    said(&["resolve", "good", "--want", "nobody"], "nobody");
    said(&["resolve", "good", "--want", "foo", "--installed", "foo.v9"], "foo.v9");
    said(&["list", "channels", "good", "nobody"], "nobody");
    said(&["list", "packages", "good", "foo"], "foo");
    said(&["serve", "good", "--cache-enforce-integrity"], "--cache-dir");
    said(&["render-template", "composite", "x"], "basic semver substitutes");
    said(&["generate", "dockerfile", "good", "--builder-image", "scratch"], "scratch");
    assert_eq!(files(dir.path()), ["good/catalog.yaml"]);
}

/// A registry of its own, with one bundle; `None` with a line that says so.
struct Registry {
    child: Child,
    port: u16,
    _storage: tempfile::TempDir,
}

impl Drop for Registry {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Registry {
    fn start() -> Option<Self> {
        let installed = tools::find("docker-registry").ok();
        let system = Some(PathBuf::from("/usr/bin/docker-registry")).filter(|path| path.is_file());
        let Some(program) = installed.or(system) else {
            bailiwick_testkit::skip("docker-registry is not installed (cargo xtask setup)");
            return None;
        };
        let storage = tempfile::tempdir().unwrap();
        let port = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
        let config = format!(
            "version: 0.1\nstorage:\n  filesystem:\n    rootdirectory: {}\nhttp:\n  addr: 127.0.0.1:{port}\n",
            storage.path().join("data").display()
        );
        std::fs::write(storage.path().join("config.yml"), config).unwrap();
        let mut child = std::process::Command::new(program)
            .arg("serve")
            .arg(storage.path().join("config.yml"))
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut log = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        assert!(log.any(|line| line.contains("listening on")), "the registry does not start");
        std::thread::spawn(move || log.for_each(drop));
        Some(Registry { child, port, _storage: storage })
    }
}

fn write_bundle(folder: &Path, version: &str) {
    let write = |path: &str, text: String| {
        let path = folder.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write(
        "metadata/annotations.yaml",
        "annotations:\n  operators.operatorframework.io.bundle.mediatype.v1: registry+v1\n  \
         operators.operatorframework.io.bundle.manifests.v1: manifests/\n  \
         operators.operatorframework.io.bundle.metadata.v1: metadata/\n  \
         operators.operatorframework.io.bundle.package.v1: foo\n  \
         operators.operatorframework.io.bundle.channels.v1: stable\n"
            .to_owned(),
    );
    write(
        "manifests/foo.clusterserviceversion.yaml",
        format!(
            "apiVersion: operators.coreos.com/v1alpha1\nkind: ClusterServiceVersion\nmetadata:\n  name: foo.v{version}\n\
             spec:\n  displayName: Foo\n  version: {version}\n"
        ),
    );
}

#[test]
fn a_repository_of_hundreds_of_operators_is_updated_where_it_changed() {
    let Some(registry) = Registry::start() else { return };
    let dir = tempfile::tempdir().unwrap();
    let image = |version: &str| format!("127.0.0.1:{}/test/foo:v{version}", registry.port);
    for version in ["1.0.0", "1.1.0"] {
        write_bundle(&dir.path().join("bundle").join(version), version);
        let folder = format!("bundle/{version}");
        catalog(dir.path(), &["build-bundle", &folder, "--tag", &image(version), "--push", "--use-http"]).printed();
    }
    let repository = dir.path().join("repository");
    for number in 0..200 {
        let folder = repository.join(format!("operator-{number:03}"));
        std::fs::create_dir_all(&folder).unwrap();
        let text = format!("Schema: olm.semver\nStable:\n  Bundles:\n  - Image: {}\n", image("1.0.0"));
        std::fs::write(folder.join("veneer.yaml"), text).unwrap();
    }
    let update = ["update", "-d", "repository", "--use-http"];
    let printed = catalog(dir.path(), &update).printed();
    assert!(printed.ends_with("200 rendered, 0 current, 0 failed\n"), "{printed}");
    assert_eq!(catalog(dir.path(), &update).printed(), "0 rendered, 200 current, 0 failed\n");
    let add = ["add", "operator-007", &image("1.1.0"), "-d", "repository", "--use-http"];
    catalog(dir.path(), &add).printed();
    let rendered = std::fs::read_to_string(repository.join("operator-007/catalog.yaml")).unwrap();
    assert!(rendered.contains("replaces: foo.v1.0.0") && rendered.contains("name: foo.v1.1.0"), "{rendered}");
    assert!(catalog(dir.path(), &add).refused().contains("is in the Stable list already"));
    assert_eq!(catalog(dir.path(), &update).printed(), "0 rendered, 200 current, 0 failed\n");
    // Somebody edits one template by hand, wrongly, and then a rendered catalog.
    let template = repository.join("operator-008/veneer.yaml");
    let good = std::fs::read_to_string(&template).unwrap();
    std::fs::write(&template, format!("{good}oops: true\n")).unwrap();
    std::fs::write(repository.join("operator-009/catalog.yaml"), "schema: x\n").unwrap();
    let before = std::fs::read(repository.join("operator-008/catalog.yaml")).unwrap();
    let run = catalog(dir.path(), &update);
    assert_eq!((run.code, run.stdout.as_str()), (1, "rendered operator-009\n1 rendered, 198 current, 1 failed\n"));
    assert!(
        run.stderr.contains("failed operator-008") && run.stderr.contains("unknown field \"oops\""),
        "{}",
        run.stderr
    );
    assert_eq!(std::fs::read(repository.join("operator-008/catalog.yaml")).unwrap(), before);
    std::fs::write(&template, good).unwrap();

    let mut watching = command(dir.path(), &["update", "-d", "repository", "--use-http", "--watch"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(watching.stdout.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.any(|line| line == "watching repository"));
    let text = std::fs::read_to_string(&template).unwrap();
    std::fs::write(&template, format!("{text}  - Image: {}\n", image("1.1.0"))).unwrap();
    assert_eq!(lines.next().as_deref(), Some("rendered operator-008"));
    watching.kill().unwrap();
    watching.wait().unwrap();
    let leftover = files(&repository).into_iter().find(|path| path.ends_with(".part"));
    assert_eq!(leftover, None);
}
