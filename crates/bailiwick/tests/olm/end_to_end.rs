//! `bailiwick catalog test --layer e2e`: a platform is installed and upgraded on control planes that live as long as the
//! command does, and what would have hurt its users is found there.

use std::path::Path;

use anyhow::{Context, Result};
use bailiwick_testkit::Program;
use serde_json::json;

use crate::made_up::{Made, catalog_text, definition, definition_with};
use crate::walkthrough::data;

/// A platform whose operators are in one channel.
fn platform(packages: &[&str], channel: &str) -> String {
    let operators: String =
        packages.iter().map(|package| format!("  - {{package: {package}, channel: {channel}}}\n")).collect();
    format!(
        "apiVersion: catalog.bailiwick.dev/v1alpha1\nkind: Platform\nmetadata: {{name: made-up}}\nspec:\n  operators:\n{operators}"
    )
}

/// Runs the layer on bundles of one channel; what it prints, whether it succeeds or not.
fn run(directory: &Path, bundles: &[Made], channel: &str) -> Result<Result<String, String>> {
    let mut packages: Vec<&str> = bundles.iter().map(|bundle| bundle.package.as_str()).collect();
    packages.dedup();
    std::fs::write(directory.join("platform.yaml"), platform(&packages, channel))?;
    let catalog = directory.join("catalog");
    std::fs::create_dir_all(&catalog)?;
    std::fs::write(
        catalog.join("catalog.json"),
        catalog_text(bundles)?.replace("\"stable\"", &format!("{channel:?}")),
    )?;
    let ran = Program::new(env!("CARGO_BIN_EXE_bailiwick"))
        .args(["catalog", "test", "platform.yaml", "catalog", "--layer", "e2e"])
        .args(["--junit", "junit.xml", "--markdown", "report.md"])
        .current_dir(directory)
        .timeout(std::time::Duration::from_secs(300))
        .run();
    Ok(ran.map_err(|error| format!("{error:#}")))
}

fn sample(package: &str, spec: serde_json::Value) -> serde_json::Value {
    json!([{"apiVersion": "example.com/v1", "kind": crate::made_up::kind_of(package), "metadata": {"name": "sample"},
        "spec": spec}])
}

fn gadget(version: &str) -> Made {
    Made::new("gadget", version).with_samples(&sample("gadget", json!({"size": 1})))
}

/// The words of the line about a check.
fn line(report: &str, operator: &str, check: &str) -> Option<String> {
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let found = report.lines().map(words).find(|it| it.len() == 4 && it[..3] == ["e2e", operator, check]);
    found.map(|words| words[3].clone())
}

#[test]
fn a_platform_is_installed_and_upgraded_along_every_edge() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let own_namespace = json!([{"type": "OwnNamespace", "supported": true}]);
    let bundles = [
        gadget("1.0.0"),
        gadget("1.1.0"),
        gadget("1.2.0"),
        Made::new("base", "1.0.0").says("installModes", own_namespace),
        Made::new("app", "0.1.0").requires("gadget", ">=1.0.0"),
    ];
    let report = run(directory.path(), &bundles, "stable")?.map_err(anyhow::Error::msg)?;
    for (operator, check, verdict) in [
        ("gadget", "install", "passed"),
        ("gadget", "samples", "passed"),
        ("gadget", "upgrades", "passed"),
        ("base", "install", "passed"),
        ("base", "upgrades", "skipped"),
        ("app", "install", "passed"),
    ] {
        assert_eq!(line(&report, operator, check).as_deref(), Some(verdict), "{operator}/{check}\n{report}");
    }
    let junit = std::fs::read_to_string(directory.path().join("junit.xml"))?;
    assert!(junit.contains("<testsuite name=\"e2e\""), "{junit}");
    let markdown = std::fs::read_to_string(directory.path().join("report.md"))?;
    assert!(markdown.contains("e2e"), "{markdown}");
    Ok(())
}

#[test]
fn regressions_that_only_an_installation_shows_are_found() -> Result<()> {
    let directory = tempfile::tempdir()?;
    // An object that the API refuses, in the version that users would get.
    let refused =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "Not_A_Name"}, "data": {"a": "b"}});
    // An upgrade that takes away the version that objects are stored in.
    let mut second = Made::new("widget", "2.0.0").defines(definition("widget", &["v2"]));
    second.csv["spec"]["customresourcedefinitions"]["owned"][0]["version"] = "v2".into();
    // A sample that its own definition refuses.
    let strict = json!({"type": "object", "properties": {"spec": {"type": "object", "required": ["color"],
        "properties": {"size": {"type": "integer"}, "color": {"type": "string"}}}}});
    let thing = Made::new("thing", "1.0.0")
        .defines(definition_with("thing", &["v1"], &strict))
        .with_samples(&sample("thing", json!({"size": 1})));
    let bundles = [
        gadget("1.0.0"),
        gadget("1.1.0").with(refused),
        Made::new("widget", "1.0.0").with_samples(&sample("widget", json!({"size": 1}))),
        second,
        thing,
    ];
    let report = run(directory.path(), &bundles, "stable")?.err().context("nothing was found")?;
    for (operator, check, verdict) in [
        ("gadget", "install", "FAILED"),
        ("gadget", "upgrades", "FAILED"),
        ("widget", "install", "passed"),
        ("widget", "upgrades", "FAILED"),
        ("thing", "install", "passed"),
        ("thing", "samples", "FAILED"),
    ] {
        assert_eq!(line(&report, operator, check).as_deref(), Some(verdict), "{operator}/{check}\n{report}");
    }
    for detail in ["Not_A_Name", "gadget.v1.0.0 → gadget.v1.1.0", "widget.v1.0.0 → widget.v2.0.0", "spec.color"] {
        assert!(report.contains(detail), "{detail}\n{report}");
    }
    // Who takes candidates expects that.
    let report = run(directory.path(), &bundles, "candidate")?.map_err(anyhow::Error::msg)?;
    assert_eq!(line(&report, "widget", "upgrades").as_deref(), Some("warning"), "{report}");
    Ok(())
}

const PLATFORM: &str = r#"
apiVersion: catalog.bailiwick.dev/v1alpha1
kind: Platform
metadata:
  name: dbaas
spec:
  operators:
  - package: cert-manager
  - {package: percona-postgresql-operator, channel: stable-v1, versions: ">=1.3.0 <2.0.0"}
  - {package: percona-server-mongodb-operator, channel: stable-v1}
  - {package: percona-xtradb-cluster-operator, channel: stable-v1, versions: ">=1.19.0"}
  - {package: rabbitmq-cluster-operator, channel: stable-v2, versions: "<2.2.0"}
  - {package: rabbitmq-messaging-topology-operator, channel: stable-v1.19}
  # Their samples lack fields that are required.
  accepted: [cert-manager/samples, rabbitmq-messaging-topology-operator/samples]
"#;

#[test]
fn six_real_operators_go_through_all_layers() -> Result<()> {
    let Some(data) = data() else { return Ok(()) };
    let directory = tempfile::tempdir()?;
    std::fs::write(directory.path().join("platform.yaml"), PLATFORM)?;
    let catalog = directory.path().join("catalog");
    std::fs::create_dir(&catalog)?;
    let packages = PLATFORM.lines().filter_map(|line| line.split("package: ").nth(1));
    let packages: Vec<String> = packages
        .map(|package| package.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '-').collect())
        .collect();
    assert_eq!(packages.len(), 6);
    for package in &packages {
        let file = format!("{package}.catalog.yaml");
        std::fs::copy(data.join("golden/semver-real").join(&file), catalog.join(&file))?;
    }
    let report = Program::new(env!("CARGO_BIN_EXE_bailiwick"))
        .args(["catalog", "test", "platform.yaml", "catalog", "--previous", "catalog", "--bundles"])
        .arg(data.join("bundles"))
        .current_dir(directory.path())
        .timeout(std::time::Duration::from_secs(600))
        .run()?;
    for operator in &packages {
        // It brings a Service, which only clusters serve.
        let needs_cluster = operator == "rabbitmq-messaging-topology-operator";
        let has_upgrades = !needs_cluster && operator != "cert-manager";
        let is_accepted = PLATFORM.contains(&format!("{operator}/samples"));
        let samples = if is_accepted { "warning" } else { "passed" };
        let unless = |skipped: bool| if skipped { "skipped" } else { "passed" };
        let mut expected = vec![
            ("sanity", "manifests", "passed"),
            ("sanity", "csv", "passed"),
            ("integration", "upgrade-paths", "passed"),
            ("interoperability", "crd-compatibility", "passed"),
            ("interoperability", "samples", samples),
            ("e2e", "install", unless(needs_cluster)),
            ("e2e", "upgrades", unless(!has_upgrades)),
        ];
        if !needs_cluster {
            expected.push(("e2e", "samples", samples));
        }
        for (layer, check, verdict) in expected {
            let is_it = |row: &str| row.split_whitespace().eq([layer, operator.as_str(), check, verdict]);
            assert!(report.lines().any(is_it), "{layer}: {check} of {operator} is not {verdict}:\n{report}");
        }
    }
    Ok(())
}
