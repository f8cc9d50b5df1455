//! The Kubernetes sample API server, built from its Go module, behind us: it keeps its objects in an etcd of its own, asks us
//! who its users are and what they may do, and kubectl does not notice that it is another server.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use bailiwick_testkit::{NOBODY_TOKEN, Program, Server, tools};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use crate::api::{Api, start};

const GROUP: &str = "wardle.example.com";
const FLUNDERS: &str = "/apis/wardle.example.com/v1alpha1/namespaces/default/flunders";

/// A program that ends with the test.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A port that was free a moment ago: these programs cannot be told to pick one and say which.
fn free_port() -> Result<u16> {
    Ok(std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// Everything that runs.
struct Stack {
    server: Server,
    api: Api,
    directory: tempfile::TempDir,
    _etcd: Process,
    _sample: Process,
}

impl Stack {
    /// Starts etcd, us and the sample server, and registers both of its versions; `None` where a program is missing.
    async fn start() -> Result<Option<Self>> {
        let (Ok(etcd), Ok(sample)) = (tools::find("etcd"), tools::find("sample-apiserver")) else {
            bailiwick_testkit::skip("etcd and sample-apiserver are not installed, run `cargo xtask setup`");
            return Ok(None);
        };
        let directory = tempfile::tempdir()?;
        let (client, peer) = (free_port()?, free_port()?);
        let etcd_url = format!("http://127.0.0.1:{client}");
        let etcd = Command::new(etcd)
            .arg("--data-dir")
            .arg(directory.path().join("etcd"))
            .args(["--listen-client-urls", &etcd_url, "--advertise-client-urls", &etcd_url])
            .args(["--listen-peer-urls", &format!("http://127.0.0.1:{peer}"), "--unsafe-no-fsync"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let etcd = Process(etcd);
        // Its certificate must be the service's: made here, as cert-manager would.
        let (key, certificate) = (directory.path().join("tls.key"), directory.path().join("tls.crt"));
        let certified = rcgen::generate_simple_self_signed(["api.wardle.svc".to_owned()])?;
        std::fs::write(&key, certified.signing_key.serialize_pem())?;
        std::fs::write(&certificate, certified.cert.pem())?;
        let port = free_port()?;
        let server = start(&["--service-endpoint", &format!("wardle/api=https://127.0.0.1:{port}")])?;
        let mut child = Command::new(sample)
            .args(["--secure-port", &port.to_string(), "--bind-address", "127.0.0.1", "--etcd-servers", &etcd_url])
            .arg("--tls-cert-file")
            .arg(&certificate)
            .arg("--tls-private-key-file")
            .arg(&key)
            .args(
                ["--kubeconfig", "--authentication-kubeconfig", "--authorization-kubeconfig"]
                    .iter()
                    .flat_map(|flag| [(*flag).to_owned(), server.kubeconfig().display().to_string()]),
            )
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()?;
        let log = child.stderr.take().context("invariant: stderr is piped")?;
        std::thread::spawn(move || {
            let print = std::env::var_os("SAMPLE_APISERVER_LOG").is_some();
            for line in BufReader::new(log).lines().map_while(Result::ok).filter(|_| print) {
                eprintln!("sample-apiserver: {line}");
            }
        });
        let sample = Process(child);
        let api = Api::admin(&server)?;
        for (version, priority) in [("v1alpha1", 15), ("v1beta1", 20)] {
            api.register(&json!({
                "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
                "metadata": {"name": format!("{version}.{GROUP}")},
                "spec": {
                    "group": GROUP, "version": version, "groupPriorityMinimum": 1000, "versionPriority": priority,
                    "service": {"namespace": "wardle", "name": "api"},
                    "caBundle": STANDARD.encode(certified.cert.pem()),
                },
            }))
            .await?;
        }
        for version in ["v1alpha1", "v1beta1"] {
            api.condition(&format!("{version}.{GROUP}"), "Passed").await?;
        }
        Ok(Some(Self { server, api, directory, _etcd: etcd, _sample: sample }))
    }

    /// What kubectl prints.
    fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        Program::new(tools::find("kubectl-1.36")?)
            .arg("--kubeconfig")
            .arg(self.server.kubeconfig())
            .arg("--cache-dir")
            .arg(self.directory.path().join("cache"))
            .args(arguments)
            .run()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_does_not_notice_another_server() -> Result<()> {
    let Some(stack) = Stack::start().await? else { return Ok(()) };
    // Who may use it is decided by our roles: its own checks ask us.
    stack
        .api
        .until("the resources", async || {
            let listed = stack.kubectl(&["api-resources", "--api-group", GROUP, "--no-headers"])?;
            Ok(listed.contains("flunders").then_some(listed))
        })
        .await?;
    let listed = stack.kubectl(&["api-resources", "--api-group", GROUP, "--no-headers"])?;
    let columns: Vec<Vec<&str>> = listed.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(
        columns,
        [
            vec!["fischers", "wardle.example.com/v1alpha1", "false", "Fischer"],
            vec!["flunders", "wardle.example.com/v1beta1", "true", "Flunder"],
        ],
        "{listed}"
    );

    let manifest = stack.directory.path().join("flunder.yaml");
    std::fs::write(
        &manifest,
        "apiVersion: wardle.example.com/v1alpha1\nkind: Flunder\nmetadata:\n  name: my-first-flunder\n  labels:\n    sample-label: 'true'\n",
    )?;
    let manifest = manifest.to_str().context("a path in UTF-8")?;
    let created = stack.kubectl(&["create", "-f", manifest])?;
    let warning = "Warning: wardle.example.com/v1alpha1 Flunder is deprecated in v1.3+, unavailable in v1.10+\n";
    assert_eq!(created, format!("{warning}flunder.wardle.example.com/my-first-flunder created\n"));
    let all = stack.kubectl(&["get", "flunders", "-A", "--no-headers"])?;
    let columns: Vec<&str> = all.split_whitespace().take(2).collect();
    assert_eq!(columns, ["default", "my-first-flunder"], "{all}");
    assert_eq!(stack.kubectl(&["get", "flunders", "-o", "name"])?, "flunder.wardle.example.com/my-first-flunder\n");
    let explained = stack.kubectl(&["explain", "flunders.spec"])?;
    assert!(explained.contains("GROUP:      wardle.example.com"), "{explained}");
    assert!(explained.contains("reference"), "{explained}");
    let label = ["label", "flunder", "my-first-flunder", "color=blue"];
    assert_eq!(stack.kubectl(&label)?, "flunder.wardle.example.com/my-first-flunder labeled\n");
    let applied = stack.kubectl(&["apply", "--server-side", "--force-conflicts", "-f", manifest])?;
    assert_eq!(applied, format!("{warning}flunder.wardle.example.com/my-first-flunder serverside-applied\n"));
    let services = stack.kubectl(&["get", "apiservice", &format!("v1alpha1.{GROUP}"), "--no-headers"])?;
    let columns: Vec<&str> = services.split_whitespace().take(3).collect();
    assert_eq!(columns, ["v1alpha1.wardle.example.com", "wardle/api", "True"]);
    let deleted = stack.kubectl(&["delete", "flunder", "my-first-flunder"])?;
    assert!(deleted.contains("\"my-first-flunder\" deleted"), "{deleted}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn watches_roles_and_namespaces_reach_through() -> Result<()> {
    let Some(stack) = Stack::start().await? else { return Ok(()) };
    let api = &stack.api;
    // A watch sees a write of the same client at once.
    let mut watch = api.get(&format!("{FLUNDERS}?watch=true")).send().await?;
    assert_eq!(watch.status(), 200);
    let flunder = json!({"apiVersion": "wardle.example.com/v1alpha1", "kind": "Flunder", "metadata": {"name": "one"}});
    api.post(FLUNDERS, &flunder).await?;
    let event = tokio::time::timeout(Duration::from_secs(60), watch.chunk()).await??.context("an event")?;
    let event: serde_json::Value = serde_json::from_slice(&event)?;
    assert_eq!((&event["type"], &event["object"]["metadata"]["name"]), (&json!("ADDED"), &json!("one")));

    // Both we and the sample server ask our roles.
    let nobody = Api::with_token(&stack.server, NOBODY_TOKEN)?;
    assert_eq!(nobody.text(FLUNDERS).await?.0, 403);
    let rules = json!([{"apiGroups": [GROUP], "resources": ["flunders"], "verbs": ["get", "list"]}]);
    let roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";
    api.post(&format!("{roles}/roles"), &json!({"metadata": {"name": "reader"}, "rules": rules})).await?;
    let binding = json!({
        "metadata": {"name": "reader"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "nobody"}],
    });
    api.post(&format!("{roles}/rolebindings"), &binding).await?;
    let seen = api.until("the sample server's consent", async || {
        // It remembers refusals for some seconds.
        let (status, text) = nobody.text(FLUNDERS).await?;
        Ok((status == 200).then_some(text))
    });
    assert!(seen.await?.contains("\"one\""));

    // Deleting a namespace empties it there too.
    api.post("/api/v1/namespaces", &json!({"metadata": {"name": "doomed"}})).await?;
    let doomed = FLUNDERS.replace("default", "doomed");
    api.until("the namespace at the sample server", async || {
        let made = api.request(reqwest::Method::POST, &doomed).json(&flunder).send().await?;
        Ok(made.status().is_success().then_some(()))
    })
    .await?;
    let deleted = api.request(reqwest::Method::DELETE, "/api/v1/namespaces/doomed").send().await?;
    assert!(deleted.status().is_success());
    api.until("the end of the namespace", async || {
        Ok((api.text("/api/v1/namespaces/doomed").await?.0 == 404).then_some(()))
    })
    .await?;
    assert_eq!(api.json(&doomed).await?["items"], json!([]));
    Ok(())
}
