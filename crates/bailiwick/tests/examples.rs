//! The examples of the composition library, run as their readers would and used with the real kubectl: what is left out
//! is gone, what is added works, and everything ends well when told to.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use bailiwick_testkit::{Program, tools};
use tempfile::TempDir;

/// A running example.
struct Example {
    process: Child,
    directory: TempDir,
    kubectl: PathBuf,
}

impl Example {
    fn start(name: &str) -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let mut process = Command::new(built(name)?)
            .arg(directory.path().join("data"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut ready = String::new();
        let stdout = process.stdout.take().context("invariant: stdout is piped")?;
        BufReader::new(stdout).read_line(&mut ready)?;
        ensure!(ready.starts_with("ready at https://"), "{name} is not ready: {ready:?}");
        Ok(Self { process, directory, kubectl: tools::find("kubectl-1.36")? })
    }

    fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        Program::new(&self.kubectl)
            .args(arguments)
            .arg("--kubeconfig")
            .arg(self.directory.path().join("data/admin.kubeconfig"))
            .env("HOME", self.directory.path())
            .run()
    }

    /// What kubectl says when it fails, as it must.
    fn refused(&self, arguments: &[&str]) -> Result<String> {
        match self.kubectl(arguments) {
            Ok(printed) => bail!("{arguments:?} succeeded: {printed}"),
            Err(error) => Ok(error.to_string()),
        }
    }

    fn apply(&self, object: serde_json::Value) -> Result<String> {
        let file = self.directory.path().join("object.json");
        std::fs::write(&file, object.to_string())?;
        self.kubectl(&["apply", "--filename", &file.display().to_string()])
    }

    /// Ends it as an operator does; it must end well.
    fn stop(mut self) -> Result<()> {
        let id = self.process.id().to_string();
        Program::new("kill").args(["-TERM", &id]).run()?;
        let status = self.process.wait()?;
        ensure!(status.success(), "it ended with {status}");
        Ok(())
    }
}

impl Drop for Example {
    fn drop(&mut self) {
        // Nothing to be done about a process that is already gone.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The compiled example. `cargo test` has built it; a run of this file alone may not have.
fn built(name: &str) -> Result<PathBuf> {
    let programs = Path::new(env!("CARGO_BIN_EXE_bailiwick")).parent().context("the binary is in a directory")?;
    let path = programs.join("examples").join(name);
    if !path.is_file() {
        let mut build = Program::new(env!("CARGO")).args(["build", "--package", "bailiwick", "--examples"]);
        if programs.ends_with("release") {
            build = build.arg("--release");
        }
        build.timeout(Duration::from_secs(1800)).run()?;
    }
    Ok(path)
}

fn resources(example: &Example) -> Result<Vec<String>> {
    let listed = example.kubectl(&["api-resources", "--no-headers", "--output=name"])?;
    Ok(listed.lines().map(str::to_owned).collect())
}

#[test]
fn core_serves_the_core_group_and_nothing_else() -> Result<()> {
    let core = Example::start("core")?;
    assert_eq!(resources(&core)?, ["configmaps", "namespaces", "resourcequotas", "secrets", "serviceaccounts"]);
    assert_eq!(core.kubectl(&["get", "--raw", "/apis"])?.matches("\"name\"").count(), 0, "no named groups");
    let documents = core.kubectl(&["get", "--raw", "/openapi/v3"])?;
    assert!(documents.contains("api/v1") && !documents.contains("rbac.authorization.k8s.io"), "{documents}");
    core.kubectl(&["create", "configmap", "kept", "--from-literal=a=b"])?;
    assert_eq!(core.kubectl(&["get", "configmap", "kept", "--output=jsonpath={.data.a}"])?, "b");
    let refused = core.refused(&["get", "--raw", "/apis/rbac.authorization.k8s.io/v1/roles"])?;
    assert!(refused.contains("NotFound") || refused.contains("could not find"), "{refused}");
    core.stop()
}

#[test]
fn hyper_mini_runs_controllers_and_a_service_of_its_own() -> Result<()> {
    let mini = Example::start("hyper_mini")?;
    mini.kubectl(&["create", "namespace", "guests"])?;
    mini.kubectl(&["wait", "serviceaccount/default", "--namespace=guests", "--for=create", "--timeout=60s"])?;
    mini.kubectl(&["label", "namespace", "guests", "greet=yes"])?;
    mini.kubectl(&["wait", "configmap/greeting", "--namespace=guests", "--for=create", "--timeout=60s"])?;
    let text = ["get", "configmap", "greeting", "--namespace=guests", "--output=jsonpath={.data.text}"];
    assert_eq!(mini.kubectl(&text)?, "Hello, guests");
    mini.kubectl(&["delete", "namespace", "guests", "--timeout=60s"])?;
    mini.stop()
}

#[test]
fn a_native_type_of_ones_own_has_schema_rules_and_columns() -> Result<()> {
    let library = Example::start("custom_native_type")?;
    let shelf = |boards: serde_json::Value, room: &str| {
        let mut shelf = serde_json::json!({"apiVersion": "library.example.com/v1", "kind": "Bookshelf",
            "metadata": {"name": "oak", "namespace": "default"}, "spec": {"boards": boards}});
        if !room.is_empty() {
            shelf["spec"]["room"] = room.into();
        }
        shelf
    };
    let explained = library.kubectl(&["explain", "bookshelf.spec.boards"])?;
    assert!(explained.contains("How many boards it has."), "{explained}");
    let warned = library.apply(shelf(3.into(), ""))?;
    assert!(warned.contains("nobody will find a shelf without a room"), "{warned}");
    library.apply(shelf(4.into(), "attic"))?;
    let table = library.kubectl(&["get", "bs"])?;
    let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows, [["NAME", "BOARDS", "SPACE"], ["oak", "4", "120"]]);
    for (boards, complaint) in [
        (0.into(), "spec.boards: Invalid value: 0: a shelf has at least one board"),
        (2.into(), "spec.boards: Forbidden: boards cannot be taken away"),
        ("many".into(), "must be of type integer"),
    ] {
        let refused = library.apply(shelf(boards, "attic")).map(drop).map_err(|error| error.to_string());
        assert!(refused.as_ref().is_err_and(|text| text.contains(complaint)), "{refused:?}");
    }
    let chosen = library.kubectl(&["get", "bs", "--field-selector=spec.room=attic", "--output=name"])?;
    assert_eq!(chosen, "bookshelf.library.example.com/oak\n");
    let status = r#"{"status":{"books":7}}"#;
    library.kubectl(&["patch", "bs", "oak", "--subresource=status", "--type=merge", "--patch", status])?;
    assert_eq!(library.kubectl(&["get", "bs", "oak", "--output=jsonpath={.status.books}"])?, "7");
    assert!(!resources(&library)?.iter().any(|name| name.starts_with("customresourcedefinitions")));
    library.stop()
}

#[test]
fn what_is_left_out_is_gone_and_the_rest_copes() -> Result<()> {
    let plain = Example::start("no_crds_no_rbac")?;
    let served = resources(&plain)?;
    for gone in ["apiextensions.k8s.io", "rbac.authorization.k8s.io", "apiregistration.k8s.io", "miloapis.com"] {
        assert!(!served.iter().any(|name| name.ends_with(gone)), "{gone} is among {served:?}");
        assert!(!plain.kubectl(&["get", "--raw", "/openapi/v2"])?.contains(&format!("/apis/{gone}/")), "{gone}");
    }
    assert_eq!(plain.kubectl(&["auth", "can-i", "delete", "secrets"])?.trim(), "yes");
    plain.kubectl(&["create", "namespace", "short-lived"])?;
    plain.kubectl(&["create", "configmap", "inside", "--namespace=short-lived"])?;
    plain.kubectl(&["delete", "namespace", "short-lived", "--timeout=60s"])?;
    plain.stop()
}
