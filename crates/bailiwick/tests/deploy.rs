//! What `deploy/` ships is right: alert rules pass promtool and their own tests, systemd has nothing to say about the unit,
//! and dashboard and alerts ask only for metrics that a server has.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use bailiwick_testkit::{Program, Server, tools};
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::PostParams;
use serde_json::json;

fn deploy(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(name)
}

#[test]
fn alert_rules_pass_promtool_and_their_tests() -> Result<()> {
    let Ok(promtool) = tools::find("promtool") else {
        bailiwick_testkit::skip("promtool is not installed: cargo xtask setup, on Debian");
        return Ok(());
    };
    Program::new(&promtool).args(["check", "rules"]).arg(deploy("prometheus-alerts.yaml")).run()?;
    Program::new(&promtool).args(["test", "rules"]).arg(deploy("prometheus-alerts.test.yaml")).run().map(drop)
}

#[test]
fn systemd_understands_all_of_the_unit() -> Result<()> {
    let unit = std::fs::read_to_string(deploy("bailiwick.service"))?;
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("bailiwick.service");
    // It looks whether the program is there, and complains about keys it does not know without failing.
    std::fs::write(&path, unit.replace("/usr/local/bin/bailiwick", env!("CARGO_BIN_EXE_bailiwick")))?;
    let verified = match std::process::Command::new("systemd-analyze").arg("verify").arg(&path).output() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            bailiwick_testkit::skip("systemd-analyze is not installed: it comes with systemd");
            return Ok(());
        }
        verified => verified?,
    };
    let said = String::from_utf8_lossy(&verified.stderr);
    assert!(verified.status.success() && !said.contains("bailiwick.service"), "{}: {said}", verified.status);
    Ok(())
}

#[test]
fn findings_of_the_doctor_do_not_keep_the_unit_from_starting() -> Result<()> {
    let unit = std::fs::read_to_string(deploy("bailiwick.service"))?;
    let before: Vec<&str> = unit.lines().filter_map(|line| line.strip_prefix("ExecStartPre=")).collect();
    assert!(!before.is_empty() && before.iter().all(|command| command.starts_with('-')), "{before:?}");
    Ok(())
}

/// The names of metrics in a text.
fn metrics_in(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_lowercase() && c != '_' && !c.is_ascii_digit());
    let families = ["apiserver_", "process_", "leader_election_", "workqueue_"];
    words.filter(|word| families.iter().any(|family| word.starts_with(family))).map(str::to_owned).collect()
}

#[tokio::test]
async fn dashboard_and_alerts_ask_for_metrics_that_there_are() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let policy = directory.path().join("policy.yaml");
    std::fs::write(&policy, "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n")?;
    let (policy, log) = (policy.display().to_string(), directory.path().join("audit.log").display().to_string());
    let server = Server::start_with(
        env!("CARGO_BIN_EXE_bailiwick"),
        &["--audit-policy-file", &policy, "--audit-log-path", &log],
    )?;
    let client = server.client().await?;
    call_a_webhook(&client).await?;
    let request = http::Request::get("/metrics").body(Vec::new())?;
    let text = client.request_text(request).await.context(server.log())?;
    let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
    let served: BTreeSet<&str> = types.collect();
    for file in ["grafana-dashboard.json", "prometheus-alerts.yaml"] {
        let asked = metrics_in(&std::fs::read_to_string(deploy(file))?);
        assert!(asked.len() > 5, "{file}: {asked:?}");
        for name in asked {
            // Histograms and counters are declared without their suffixes.
            let base = name.trim_end_matches("_bucket").trim_end_matches("_total");
            assert!(
                served.contains(name.as_str()) || served.contains(base),
                "{file} asks for {name}; there are {served:?}"
            );
        }
    }
    Ok(())
}

#[test]
fn the_example_configuration_has_only_flags_that_there_are() -> Result<()> {
    let config = deploy("config.yaml");
    let printed =
        Program::new(env!("CARGO_BIN_EXE_bailiwick")).args(["serve", "--help", "--config"]).arg(config).run()?;
    assert!(printed.contains("--shutdown-delay-duration"), "{printed}");
    Ok(())
}

/// Makes a write that a webhook is asked about, which does not answer and is passed over: its metrics are there once they
/// count something.
async fn call_a_webhook(client: &kube::Client) -> Result<()> {
    let webhook = json!({"metadata": {"name": "silent"}, "webhooks": [{
        "name": "silent.example.com", "failurePolicy": "Ignore", "sideEffects": "None", "admissionReviewVersions": ["v1"],
        "clientConfig": {"url": "https://127.0.0.1:1/"},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}],
    }]});
    let webhooks: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
    webhooks.create(&PostParams::default(), &serde_json::from_value(webhook)?).await?;
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    maps.create(&PostParams::default(), &serde_json::from_value(json!({"metadata": {"name": "asked"}}))?).await?;
    Ok(())
}
