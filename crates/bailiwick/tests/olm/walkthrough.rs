//! The design document's walk-through with real bundles and a real registry: a platform team publishes a catalog, a user
//! adds it, looks at its packages, installs a database, a monitoring and a database-management operator, and upgrades one.
//! Skipped by name where the shared data or docker-registry are not there.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use bailiwick_catalog::bundle::Migration;
use bailiwick_catalog::fbc::{Catalog, Output, write_catalog};
use bailiwick_catalog::oci::{BuildOptions, Images, build_catalog, build_directory};
use bailiwick_catalog::reference::ImageReference;
use bailiwick_catalog::render::{Allowed, Renderer};
use bailiwick_catalog::template::{TemplateKind, render_template};
use serde_json::json;

use crate::plane::{Plane, condition};
use crate::registry::{DockerRegistry, Door};

const DATABASE: (&str, &[&str]) = ("percona-server-mongodb-operator", &["1.10.0", "1.11.0", "1.12.0"]);
const MONITORING: (&str, &[&str]) = ("grafana-operator", &["5.0.0", "5.0.1"]);
/// Takes snapshots of databases by schedule, in all namespaces.
const MANAGEMENT: (&str, &[&str]) = ("snapscheduler", &["2.0.0", "2.1.0", "3.0.0"]);

pub fn data() -> Option<PathBuf> {
    let beside = std::env::var_os("BAILIWICK_SHARED").map(PathBuf::from);
    let above = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().map(|directory| directory.join("shared"));
    let found = above.chain(beside).map(|directory| directory.join("data/olm")).find(|directory| directory.is_dir());
    if found.is_none() {
        bailiwick_testkit::skip("shared/data/olm is not here");
    }
    found
}

struct Publisher {
    images: Images,
    port: u16,
    data: PathBuf,
}

impl Publisher {
    /// Pushes the bundles of a package and renders its catalog by a semver template.
    fn render(&mut self, package: &str, versions: &[&str]) -> Result<Catalog> {
        let mut template = String::from("Schema: olm.semver\nGenerateMajorChannels: true\nStable:\n  Bundles:\n");
        for version in versions {
            let folder = self.data.join("bundles").join(package).join(version);
            let text = std::fs::read_to_string(folder.join("metadata/annotations.yaml"))?;
            let annotations = bailiwick_machinery::yaml::decode(&text).map_err(|error| anyhow!("{error}"))?.value;
            let labels = annotations["annotations"].as_object().context("annotations")?.iter();
            let labels = labels.map(|(k, v)| (k.clone(), v.as_str().unwrap_or_default().to_owned())).collect();
            let image = build_directory(&folder, &BuildOptions { labels }).map_err(|error| anyhow!("{error}"))?;
            let name = format!("127.0.0.1:{}/test/{package}", self.port);
            let reference = ImageReference::parse(&name).map_err(|error| anyhow!(error))?;
            self.images.push(&image, &reference, &[format!("v{version}")])?;
            template.push_str(&format!("  - Image: {name}:v{version}\n"));
        }
        let mut bundles = |image: &str| {
            let mut renderer = Renderer {
                images: &mut self.images,
                allowed: Allowed::BundleImages,
                migration: Migration::BundleObjectToCsvMetadata,
                image_template: None,
                warnings: Vec::new(),
            };
            renderer.render(&[image.to_owned()])
        };
        let rendered = render_template(TemplateKind::Semver, &template, &mut bundles);
        Ok(rendered.map_err(|error| anyhow!("{error}"))?.catalog)
    }

    /// Pushes a catalog image with these packages under a tag and gives its name.
    fn publish(&mut self, packages: &[(&str, &[&str])]) -> Result<String> {
        let directory = tempfile::tempdir()?;
        for (package, versions) in packages {
            let folder = directory.path().join(package);
            std::fs::create_dir(&folder)?;
            let catalog = self.render(package, versions)?;
            std::fs::write(folder.join("catalog.yaml"), write_catalog(&catalog, Output::Yaml))?;
        }
        let image = build_catalog(directory.path(), &BuildOptions::default()).map_err(|error| anyhow!("{error}"))?;
        let name = format!("127.0.0.1:{}/percona/dbaas-catalog", self.port);
        let reference = ImageReference::parse(&name).map_err(|error| anyhow!(error))?;
        self.images.push(&image, &reference, &["latest".to_owned()])?;
        Ok(format!("{name}:latest"))
    }
}

#[test]
fn a_platform_is_published_installed_and_upgraded() -> Result<()> {
    let Some(data) = data() else { return Ok(()) };
    let Some(registry) = DockerRegistry::start(&Door::Open)? else { return Ok(()) };
    let mut publisher = Publisher { images: registry.client(&Door::Open)?, port: registry.port, data: data.clone() };

    // Story one: the platform team publishes its catalog, with the last version of the database operator to come.
    let first = [(DATABASE.0, &DATABASE.1[..2]), MONITORING, MANAGEMENT];
    let image = publisher.publish(&first)?;
    // The registry is on this machine, which only its operator may say.
    let plane = Plane::start_with(&["--with", "olm", "--olm-allow-cidrs", "127.0.0.1"])?;

    // Using the catalog: the document's own CatalogSource.
    let manifest = std::fs::read_to_string(data.join("dbaas-catalog/dbaas-catalog.yaml"))?;
    let manifest = manifest.replace("ghcr.io/percona/dbaas-catalog:latest", &image).replace("45m", "1s");
    plane.apply(&manifest)?;
    plane.until_object(("olm", "catalogsource", "dbaas-catalog"), "ready", |it| {
        it["status"]["connectionState"]["lastObservedState"] == "READY"
    })?;
    let shown = plane.kubectl(&["get", "catalogsource", "-n", "olm"])?;
    assert!(shown.contains("DBaaS Platform Catalog") && shown.contains("DBaaS Community"), "{shown}");
    plane.until("package manifests", || Ok(plane.kubectl(&["get", "packagemanifest", "-n", "olm"]).is_ok()))?;
    let shown = plane.kubectl(&["get", "packagemanifest", "-n", "olm"])?;
    for (package, _) in first {
        assert!(
            shown.lines().any(|line| line.starts_with(package) && line.contains("DBaaS Platform Catalog")),
            "{shown}"
        );
    }

    // Story two: a user installs the operators of the platform together.
    plane.apply(
        "apiVersion: v1\nkind: Namespace\nmetadata: {name: dbaas}\n---\n\
         apiVersion: operators.coreos.com/v1\nkind: OperatorGroup\nmetadata: {name: og-single, namespace: dbaas}\n\
         spec: {targetNamespaces: [dbaas]}\n",
    )?;
    let subscribe = |namespace: &str, package: &str, channel: &str, more: &str| {
        plane.apply(&format!(
            "apiVersion: operators.coreos.com/v1alpha1\nkind: Subscription\nmetadata: {{name: {package}, namespace: {namespace}}}\n\
             spec: {{name: {package}, channel: {channel}, source: dbaas-catalog, sourceNamespace: olm{more}}}\n"
        ))
    };
    let starting = ", installPlanApproval: Automatic, startingCSV: percona-server-mongodb-operator.v1.10.0";
    subscribe("dbaas", DATABASE.0, "stable-v1", starting)?;
    subscribe("dbaas", MONITORING.0, "stable-v5", "")?;
    subscribe("operators", MANAGEMENT.0, "stable-v3", "")?;
    let installed = |namespace: &str, package: &str| -> Result<String> {
        let mut name = String::new();
        plane.until(&format!("{package} is installed"), || {
            let sub = plane.get(namespace, "subscription", package)?.unwrap_or_default();
            name = sub["status"]["installedCSV"].as_str().unwrap_or_default().to_owned();
            let csv = plane.get(namespace, "csv", &name)?.unwrap_or_default();
            Ok(!name.is_empty()
                && sub["status"]["state"] == "AtLatestKnown"
                && csv["status"]["reason"] == "DeploymentsNotServed")
        })?;
        Ok(name)
    };
    assert_eq!(installed("dbaas", MONITORING.0)?, "grafana-operator.v5.0.1");
    assert_eq!(installed("operators", MANAGEMENT.0)?, "snapscheduler.v3.0.0");
    // The head of the channel is reached through the graph, beginning where the user wanted.
    plane.until("the newest database operator of the first catalog", || {
        Ok(installed("dbaas", DATABASE.0)? == "percona-server-mongodb-operator.v1.11.0")
    })?;
    for kind in ["perconaservermongodbs", "grafanas", "snapshotschedules"] {
        plane.kubectl(&["get", kind, "-n", "dbaas"]).with_context(|| format!("{kind} is served"))?;
    }
    // Their kinds work: a cluster as the operator's own example has it.
    let csv = plane.get("dbaas", "csv", "percona-server-mongodb-operator.v1.11.0")?.context("the version")?;
    let examples: serde_json::Value =
        serde_json::from_str(csv["metadata"]["annotations"]["alm-examples"].as_str().context("examples")?)?;
    let mut example = examples[0].clone();
    example["metadata"]["namespace"] = json!("dbaas");
    plane.apply(&example.to_string())?;

    // The platform team publishes a newer version, and the user has it.
    publisher.publish(&[DATABASE, MONITORING, MANAGEMENT])?;
    plane.until("the upgrade", || Ok(installed("dbaas", DATABASE.0)? == "percona-server-mongodb-operator.v1.12.0"))?;
    plane.until("the old version is gone", || {
        Ok(plane.get("dbaas", "csv", "percona-server-mongodb-operator.v1.11.0")?.is_none())
    })?;
    let sub = plane.get("dbaas", "subscription", DATABASE.0)?.context("the subscription")?;
    assert!(condition(&sub, "ResolutionFailed").is_none(), "{sub}");
    let shown = plane.kubectl(&["get", "csv", "-n", "dbaas"])?;
    assert_eq!(shown.lines().count(), 3, "{shown}");
    let shown = plane.kubectl(&["get", "sub", "-n", "dbaas"])?;
    let header: Vec<&str> = shown.lines().next().unwrap_or_default().split_whitespace().collect();
    assert_eq!(header, ["NAME", "PACKAGE", "SOURCE", "CHANNEL"]);
    Ok(())
}
