//! A running server with OLM's kinds, and kubectl.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use bailiwick_testkit::{Program, Server, tools};
use serde_json::Value;

use crate::made_up::{Made, publish};

/// How long anything may take on a machine that does other things too.
const PATIENCE: Duration = Duration::from_secs(60);

pub struct Plane {
    pub server: Server,
    kubectl: PathBuf,
    files: tempfile::TempDir,
}

impl Plane {
    /// With image layouts below a directory.
    pub fn start(layouts: &Path) -> Result<Self> {
        let layouts = layouts.to_str().context("a path")?;
        Self::start_with(&["--with", "olm", "--olm-layout-dir", layouts])
    }

    pub fn start_with(arguments: &[&str]) -> Result<Self> {
        let server = Server::start_with(env!("CARGO_BIN_EXE_bailiwick"), arguments)?;
        let plane = Self { server, kubectl: tools::find("kubectl-1.36")?, files: tempfile::tempdir()? };
        if arguments.contains(&"olm") {
            plane.until("OLM's kinds are served", || {
                Ok(plane.kubectl(&["get", "operatorgroups", "-n", "operators", "global-operators"]).is_ok())
            })?;
        }
        Ok(plane)
    }

    pub fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        Program::new(&self.kubectl)
            .arg("--kubeconfig")
            .arg(self.server.kubeconfig())
            .args(arguments)
            .env("HOME", self.files.path())
            .run()
    }

    pub fn apply(&self, manifest: &str) -> Result<String> {
        let path = self.files.path().join("manifest.yaml");
        std::fs::write(&path, manifest)?;
        self.kubectl(&["apply", "-f", path.to_str().context("a path")?])
    }

    /// An object; `None` if it is not there.
    pub fn get(&self, namespace: &str, kind: &str, name: &str) -> Result<Option<Value>> {
        let text = self.kubectl(&["get", kind, name, "-n", namespace, "--ignore-not-found", "-o", "json"])?;
        if text.trim().is_empty() {
            return Ok(None);
        }
        Ok(Some(serde_json::from_str(&text)?))
    }

    /// All objects of a kind in a namespace.
    pub fn list(&self, namespace: &str, kind: &str) -> Result<Vec<Value>> {
        let text = self.kubectl(&["get", kind, "-n", namespace, "-o", "json"])?;
        let mut list: Value = serde_json::from_str(&text)?;
        Ok(list["items"].as_array_mut().map(std::mem::take).unwrap_or_default())
    }

    /// Waits until something holds.
    pub fn until(&self, what: &str, mut holds: impl FnMut() -> Result<bool>) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let last = holds();
            if matches!(last, Ok(true)) {
                return Ok(());
            }
            if Instant::now() > deadline {
                let olm = self.kubectl(&[
                    "get",
                    "catsrc,sub,ip,csv,og,clustercatalogs,clusterextensions",
                    "-A",
                    "-o",
                    "yaml",
                ]);
                bail!("never came about: {what} ({last:?})\n{}\n{}", olm.unwrap_or_default(), self.server.log());
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Waits until an object is there and has something.
    pub fn until_object(
        &self,
        (namespace, kind, name): (&str, &str, &str),
        what: &str,
        holds: impl Fn(&Value) -> bool,
    ) -> Result<Value> {
        let mut found = Value::Null;
        self.until(&format!("{kind} {namespace}/{name}: {what}"), || {
            found = self.get(namespace, kind, name)?.unwrap_or_default();
            Ok(!found.is_null() && holds(&found))
        })?;
        Ok(found)
    }

    /// Waits until a version has a phase and a reason.
    pub fn until_phase(&self, namespace: &str, csv: &str, phase: &str, reason: &str) -> Result<Value> {
        self.until_object((namespace, "csv", csv), &format!("{phase}/{reason}"), |csv| {
            csv["status"]["phase"] == phase && csv["status"]["reason"] == reason
        })
    }

    /// Says that the operators of a namespace run elsewhere.
    pub fn runs_elsewhere(&self, namespace: &str, group: &str) -> Result<()> {
        self.kubectl(&["annotate", "og", group, "-n", namespace, "bailiwick.dev/workloads=elsewhere"])?;
        Ok(())
    }
}

/// The condition of a type.
pub fn condition<'v>(object: &'v Value, kind: &str) -> Option<&'v Value> {
    object["status"]["conditions"].as_array()?.iter().find(|condition| condition["type"] == kind)
}

/// A server whose catalog `made-up` has these bundles, and the directory of its image, for others beside it.
pub fn offering(bundles: &[Made]) -> Result<(Plane, tempfile::TempDir)> {
    let images = tempfile::tempdir()?;
    let image = publish(images.path(), "c", bundles)?;
    let plane = Plane::start(images.path())?;
    plane.apply(&catalog_source("olm", "made-up", &image))?;
    Ok((plane, images))
}

pub fn catalog_source(namespace: &str, name: &str, image: &str) -> String {
    format!(
        "apiVersion: operators.coreos.com/v1alpha1\nkind: CatalogSource\nmetadata: {{name: {name}, namespace: {namespace}}}\n\
         spec: {{sourceType: grpc, image: '{image}', displayName: Made Up, publisher: Nobody}}\n"
    )
}

pub fn subscription(namespace: &str, package: &str, catalog: &str, more: &str) -> String {
    format!(
        "apiVersion: operators.coreos.com/v1alpha1\nkind: Subscription\nmetadata: {{name: {package}, namespace: {namespace}}}\n\
         spec: {{name: {package}, source: {catalog}, sourceNamespace: olm{more}}}\n"
    )
}
