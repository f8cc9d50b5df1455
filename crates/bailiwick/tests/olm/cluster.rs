//! A real cluster's API server, upstream's with etcd: operators are installed there as a whole, from here by a kubeconfig
//! in a Secret, or by `bailiwick olm` beside it. There is no kubelet; the test says that the deployments run.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use bailiwick_testkit::{Program, tools};
use base64::Engine as _;
use serde_json::{Value, json};

use crate::made_up::{Made, publish};
use crate::plane::{catalog_source, condition, offering, subscription};

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// A program that ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// kube-apiserver with its etcd.
pub struct Cluster {
    _processes: Vec<Running>,
    directory: tempfile::TempDir,
    kubectl: PathBuf,
}

fn free_ports<const N: usize>() -> Result<[u16; N]> {
    let listeners: Vec<_> = (0..N).map(|_| std::net::TcpListener::bind(("127.0.0.1", 0))).collect::<Result<_, _>>()?;
    let mut ports = [0; N];
    for (port, listener) in ports.iter_mut().zip(&listeners) {
        *port = listener.local_addr()?.port();
    }
    Ok(ports)
}

impl Cluster {
    /// `None`, with a line that says so, where upstream's programs are not installed.
    pub fn start() -> Result<Option<Self>> {
        let (Ok(etcd), Ok(apiserver)) = (tools::find("etcd"), tools::find("kube-apiserver")) else {
            bailiwick_testkit::skip("etcd and kube-apiserver are not installed: cargo xtask setup --peers");
            return Ok(None);
        };
        let directory = tempfile::tempdir()?;
        let at = |name: &str| directory.path().join(name);
        let [client, peer, secure] = free_ports()?;
        let (client, peer) = (format!("http://127.0.0.1:{client}"), format!("http://127.0.0.1:{peer}"));
        let etcd = Command::new(etcd)
            .arg("--data-dir")
            .arg(at("etcd"))
            .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
            .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
            .args(["--initial-cluster", &format!("default={peer}"), "--log-level", "error"])
            .stdout(Stdio::null())
            .stderr(File::create(at("etcd.log"))?)
            .spawn()?;
        let etcd = Running(etcd);
        std::fs::write(at("tokens.csv"), "admin-token,admin,admin-uid,system:masters\n")?;
        let key = rcgen::KeyPair::generate()?;
        std::fs::write(at("sa.key"), key.serialize_pem())?;
        std::fs::write(at("sa.pub"), key.public_key_pem())?;
        let apiserver = Command::new(apiserver)
            .current_dir(directory.path())
            .args(["--etcd-servers", &client, "--bind-address", "127.0.0.1"])
            .args(["--secure-port", &secure.to_string(), "--cert-dir", "certs"])
            .args(["--advertise-address", "192.0.2.1", "--endpoint-reconciler-type", "none"])
            .args(["--service-cluster-ip-range", "10.0.0.0/24", "--authorization-mode", "RBAC"])
            .args(["--token-auth-file", "tokens.csv", "--service-account-issuer", "https://kubernetes.default.svc"])
            .args(["--service-account-key-file", "sa.pub", "--service-account-signing-key-file", "sa.key"])
            .stdout(Stdio::null())
            .stderr(File::create(at("apiserver.log"))?)
            .spawn()?;
        let apiserver = Running(apiserver);
        let cluster = Self { _processes: vec![apiserver, etcd], kubectl: tools::find("kubectl-1.36")?, directory };
        let authority = cluster.directory.path().join("certs/apiserver.crt");
        cluster.until("the certificate", || Ok(authority.is_file()))?;
        let authority = base64::engine::general_purpose::STANDARD.encode(std::fs::read(authority)?);
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": format!("https://127.0.0.1:{secure}"),
                "certificate-authority-data": authority}}],
            "users": [{"name": "u", "user": {"token": "admin-token"}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        });
        std::fs::write(cluster.kubeconfig(), kubeconfig.to_string())?;
        cluster.until("ready", || Ok(cluster.kubectl(&["get", "--raw", "/readyz"])?.trim() == "ok"))?;
        cluster.until("the first namespace", || Ok(cluster.kubectl(&["get", "ns", "default"]).is_ok()))?;
        Ok(Some(cluster))
    }

    pub fn kubeconfig(&self) -> PathBuf {
        self.directory.path().join("kubeconfig")
    }

    pub fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        Program::new(&self.kubectl)
            .arg("--kubeconfig")
            .arg(self.kubeconfig())
            .args(arguments)
            .env("HOME", self.directory.path())
            .run()
    }

    pub fn apply(&self, manifest: &str) -> Result<String> {
        let path = self.directory.path().join("manifest.yaml");
        std::fs::write(&path, manifest)?;
        self.kubectl(&["apply", "-f", path.to_str().context("a path")?])
    }

    fn json(&self, arguments: &[&str]) -> Result<Value> {
        Ok(serde_json::from_str(&self.kubectl(&[arguments, &["-o", "json"]].concat())?)?)
    }

    fn until(&self, what: &str, mut holds: impl FnMut() -> Result<bool>) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let last = holds();
            if matches!(last, Ok(true)) {
                return Ok(());
            }
            if Instant::now() > deadline {
                let log = std::fs::read_to_string(self.directory.path().join("apiserver.log")).unwrap_or_default();
                let end: Vec<&str> = log.lines().rev().take(20).collect();
                bail!("never came about: {what} ({last:?})\n{}", end.join("\n"));
            }
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// Says of a deployment what its controller would once its pods run.
    fn runs(&self, namespace: &str, name: &str) -> Result<()> {
        let status = json!({"status": {"observedGeneration": 1, "conditions": [
            {"type": "Available", "status": "True", "reason": "MinimumReplicasAvailable", "message": "it runs"}]}});
        let patch = status.to_string();
        self.kubectl(&[
            "patch",
            "deployment",
            name,
            "-n",
            namespace,
            "--subresource=status",
            "--type=merge",
            "-p",
            &patch,
        ])?;
        Ok(())
    }
}

fn bundle() -> Made {
    let hook = json!({
        "type": "ValidatingAdmissionWebhook", "generateName": "vgadget.example.com", "deploymentName": "gadget-operator",
        "containerPort": 443, "targetPort": 9443, "admissionReviewVersions": ["v1"], "sideEffects": "None",
        "rules": [{"apiGroups": ["example.com"], "apiVersions": ["v1"], "operations": ["CREATE"],
            "resources": ["gadgets"]}],
    });
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "metrics"},
        "spec": {"selector": {"app": "gadget"}, "ports": [{"port": 8443}]}});
    Made::new("gadget", "1.0.0").says("webhookdefinitions", json!([hook])).with(service)
}

/// Everything of the bundle is on the cluster, as OLM would have put it there.
fn has_everything(cluster: &Cluster, namespace: &str) -> Result<()> {
    cluster.kubectl(&["get", "gadgets", "-A"])?;
    cluster.kubectl(&["get", "service", "metrics", "gadget-operator-service", "-n", namespace])?;
    let deployment = cluster.json(&["get", "deployment", "gadget-operator", "-n", namespace])?;
    let pod = &deployment["spec"]["template"]["spec"];
    assert_eq!(pod["serviceAccountName"], "gadget");
    let volumes = pod["volumes"].as_array().context("volumes")?;
    assert!(volumes.iter().any(|it| it["secret"]["secretName"] == "gadget-operator-service-cert"), "{volumes:?}");
    cluster.kubectl(&["get", "secret", "gadget-operator-service-cert", "-n", namespace])?;
    let hooks = cluster.json(&["get", "validatingwebhookconfigurations", "-l", "olm.owner=gadget.v1.0.0"])?;
    let hook = &hooks["items"][0]["webhooks"][0];
    assert_eq!(hook["clientConfig"]["service"]["name"], "gadget-operator-service", "{hooks}");
    assert!(hook["clientConfig"]["caBundle"].is_string());
    Ok(())
}

#[test]
fn a_cluster_gets_everything_of_a_bundle() -> Result<()> {
    let Some(cluster) = Cluster::start()? else { return Ok(()) };
    let (plane, _images) = offering(&[bundle()])?;
    plane.kubectl(&["create", "namespace", "team"])?;
    let file = format!("--from-file=value={}", cluster.kubeconfig().display());
    plane.kubectl(&["create", "secret", "generic", "away", "-n", "team", &file])?;
    plane.apply(
        "apiVersion: operators.coreos.com/v1\nkind: OperatorGroup\n\
         metadata: {name: og, namespace: team, annotations: {bailiwick.dev/target-kubeconfig: away}}\n\
         spec: {targetNamespaces: [team]}\n",
    )?;
    plane.apply(&subscription("team", "gadget", "made-up", ""))?;
    let csv = plane.until_phase("team", "gadget.v1.0.0", "Installing", "InstallWaiting")?;
    assert!(csv["status"]["message"].to_string().contains("gadget-operator"), "{csv}");
    has_everything(&cluster, "team")?;
    assert!(plane.kubectl(&["get", "gadgets", "-A"]).is_err(), "nothing of it is here");
    cluster.runs("team", "gadget-operator")?;
    plane.until_phase("team", "gadget.v1.0.0", "Succeeded", "InstallSucceeded")?;
    plane.kubectl(&["delete", "subscription", "gadget", "-n", "team"])?;
    plane.kubectl(&["delete", "csv", "gadget.v1.0.0", "-n", "team", "--timeout=60s"])?;
    for kind in ["deployment,service,secret,serviceaccount", "validatingwebhookconfigurations,clusterroles"] {
        let left = cluster.kubectl(&["get", kind, "-n", "team", "-l", "olm.owner=gadget.v1.0.0", "-o", "name"])?;
        assert_eq!(left, "", "{kind}");
    }
    cluster.kubectl(&["get", "gadgets", "-A"])?;
    Ok(())
}

/// `bailiwick olm` on a cluster.
fn beside(kubeconfig: &Path, layouts: &Path, data: &Path) -> Result<Running> {
    let child = Command::new(env!("CARGO_BIN_EXE_bailiwick"))
        .args(["olm", "--kubeconfig"])
        .arg(kubeconfig)
        .arg("--olm-layout-dir")
        .arg(layouts)
        .arg("--data-dir")
        .arg(data)
        .stdin(Stdio::null())
        .stderr(File::create(data.join("log"))?)
        .spawn()?;
    Ok(Running(child))
}

#[test]
fn operators_are_installed_on_a_cluster_from_beside_it() -> Result<()> {
    let Some(cluster) = Cluster::start()? else { return Ok(()) };
    let images = tempfile::tempdir()?;
    let data = tempfile::tempdir()?;
    let image = publish(images.path(), "c", &[bundle()])?;
    let _olm = beside(&cluster.kubeconfig(), images.path(), data.path())?;
    cluster.until("OLM's kinds", || {
        Ok(cluster.kubectl(&["get", "operatorgroup", "global-operators", "-n", "operators"]).is_ok())
    })?;
    cluster.apply(&catalog_source("olm", "made-up", &image))?;
    cluster.apply(&subscription("operators", "gadget", "made-up", ""))?;
    let phase = |wanted: &str| {
        cluster.until(wanted, || {
            Ok(cluster.json(&["get", "csv", "gadget.v1.0.0", "-n", "operators"])?["status"]["phase"] == wanted)
        })
    };
    phase("Installing")?;
    cluster.until("the deployment", || {
        Ok(cluster.kubectl(&["get", "deployment", "gadget-operator", "-n", "operators"]).is_ok())
    })?;
    has_everything(&cluster, "operators")?;
    cluster.runs("operators", "gadget-operator")?;
    phase("Succeeded")?;
    let sub = cluster.json(&["get", "subscription", "gadget", "-n", "operators"])?;
    assert!(condition(&sub, "ResolutionFailed").is_none(), "{sub}");
    let lease = cluster.json(&["get", "lease", "bailiwick-olm", "-n", "kube-system"])?;
    assert!(lease["spec"]["holderIdentity"].as_str().is_some_and(|it| !it.is_empty()), "{lease}");
    Ok(())
}
