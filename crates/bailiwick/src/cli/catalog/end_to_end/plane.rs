//! A throw-away control plane with OLM's kinds, and what is done on it, by its API.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use bailiwick::machinery::UserInfo;
use bailiwick::{ControlPlane, OlmOptions, Running};
use bailiwick_catalog::fbc::{Catalog, Output, write_catalog};
use bailiwick_catalog::oci::{BuildOptions, Layout, build_catalog};
use bailiwick_catalog::platform::Journey;
use kube::ResourceExt;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams};
use kube::discovery::{Scope, oneshot};
use serde_json::{Value, json};

/// How long nothing may change before something is taken for stuck.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK_INTERVAL: Duration = Duration::from_millis(50);
const CATALOG_NAMESPACE: &str = "olm";
const OPERATORS_NAMESPACE: &str = "operators";
const MANAGER: &str = "bailiwick-catalog-test";

/// Why an operator is not installed.
#[derive(Clone, Debug)]
pub enum Hindrance {
    /// Something is wrong with it.
    Fault(String),
    /// It asks for APIs that every cluster has and no control plane, so that nothing can be said here.
    NeedsCluster(String),
}

impl Hindrance {
    /// The same, told with more.
    pub fn told(self, with: impl FnOnce(String) -> String) -> Self {
        match self {
            Hindrance::Fault(fault) => Hindrance::Fault(with(fault)),
            needs => needs,
        }
    }
}

impl From<String> for Hindrance {
    fn from(fault: String) -> Self {
        Hindrance::Fault(fault)
    }
}

/// Where an operator is installed and what it watches.
#[derive(Clone, Debug)]
pub struct Home {
    pub namespace: String,
    /// The one namespace that it watches; all if there is none.
    watched: Option<String>,
}

impl Home {
    pub fn everywhere() -> Self {
        Self { namespace: OPERATORS_NAMESPACE.to_owned(), watched: None }
    }

    pub fn own(package: &str) -> Self {
        let namespace = name("own", package);
        Self { watched: Some(namespace.clone()), namespace }
    }

    pub fn watching_another(package: &str) -> Self {
        Self { namespace: name("own", package), watched: Some(name("watched", package)) }
    }

    /// Where its objects are.
    fn objects(&self) -> &str {
        self.watched.as_deref().unwrap_or(&self.namespace)
    }
}

/// A name for a namespace.
fn name(prefix: &str, package: &str) -> String {
    /// Of namespaces.
    const MAX: usize = 63;
    let name: String = format!("{prefix}-{package}").chars().take(MAX).collect();
    name.trim_end_matches('-').to_owned()
}

/// See the module.
pub struct Plane {
    running: Running,
    client: kube::Client,
    layouts: tempfile::TempDir,
    _data: tempfile::TempDir,
}

fn kind(group: &str, version: &str, kind: &str, plural: &str) -> ApiResource {
    let gvk = GroupVersionKind::gvk(group, version, kind);
    ApiResource::from_gvk_with_plural(&gvk, plural)
}

fn olm(name: &str) -> ApiResource {
    let version = if name == "OperatorGroup" { "v1" } else { "v1alpha1" };
    kind("operators.coreos.com", version, name, &format!("{}s", name.to_lowercase()))
}

impl Plane {
    /// Starts one and waits until OLM's kinds are served.
    pub async fn start() -> anyhow::Result<Self> {
        let data = tempfile::tempdir().context("a directory for the control plane")?;
        let layouts = tempfile::tempdir().context("a directory for catalogs")?;
        let options = OlmOptions { layouts: vec![layouts.path().to_owned()], ..OlmOptions::default() };
        let running = ControlPlane::builder(data.path()).olm(options).start().await.context("the control plane")?;
        let user = UserInfo {
            name: MANAGER.to_owned(),
            groups: vec![UserInfo::MASTERS.to_owned(), UserInfo::AUTHENTICATED.to_owned()],
            ..UserInfo::default()
        };
        let client = kube::Client::new(running.local_service(user), "default");
        let plane = Self { running, client, layouts, _data: data };
        let group = plane.api(&olm("OperatorGroup"), OPERATORS_NAMESPACE);
        let deadline = Instant::now() + PATIENCE;
        while !matches!(group.get_opt("global-operators").await, Ok(Some(_))) {
            if Instant::now() > deadline {
                return Err(anyhow!("OLM's kinds are not served after {} s", PATIENCE.as_secs()));
            }
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
        let patch = json!({"metadata": {"annotations": {"bailiwick.dev/workloads": "elsewhere"}}});
        group.patch("global-operators", &PatchParams::default(), &Patch::Merge(&patch)).await?;
        Ok(plane)
    }

    pub async fn stop(self) {
        self.running.stop().await;
    }

    fn api(&self, kind: &ApiResource, namespace: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), namespace, kind)
    }

    async fn apply(&self, kind: &ApiResource, namespace: Option<&str>, object: &Value) -> anyhow::Result<()> {
        let api = match namespace {
            Some(namespace) => self.api(kind, namespace),
            None => Api::all_with(self.client.clone(), kind),
        };
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let mut object = object.clone();
        object["apiVersion"] = kind.api_version.as_str().into();
        object["kind"] = kind.kind.as_str().into();
        api.patch(name, &PatchParams::apply(MANAGER).force(), &Patch::Apply(&object)).await?;
        Ok(())
    }

    /// Puts a catalog on offer, in place of the one of this name, and waits until it can be drawn from.
    pub async fn offer(&self, name: &str, catalog: &Catalog) -> anyhow::Result<()> {
        if catalog.packages.is_empty() {
            return Ok(());
        }
        let image = self.publish(name, catalog)?;
        let source = json!({
            "metadata": {"name": name, "namespace": CATALOG_NAMESPACE},
            "spec": {"sourceType": "grpc", "image": image, "displayName": name},
        });
        let kind = olm("CatalogSource");
        self.apply(&kind, Some(CATALOG_NAMESPACE), &source).await?;
        let api = self.api(&kind, CATALOG_NAMESPACE);
        let deadline = Instant::now() + PATIENCE;
        loop {
            let status = api.get(name).await?.data["status"].clone();
            if !status["reason"].is_null() {
                return Err(anyhow!("the catalog cannot be used: {}", status["message"].as_str().unwrap_or_default()));
            }
            if status["connectionState"]["lastObservedState"] == "READY" {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(anyhow!("the catalog is not ready after {} s: {status}", PATIENCE.as_secs()));
            }
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
    }

    /// Every catalog has a layout of its own, so that another name is another image.
    fn publish(&self, name: &str, catalog: &Catalog) -> anyhow::Result<String> {
        let source = tempfile::tempdir()?;
        std::fs::write(source.path().join("catalog.json"), write_catalog(catalog, Output::Json))?;
        let image = build_catalog(source.path(), &BuildOptions::default())?;
        let layout: PathBuf = tempfile::Builder::new().prefix(name).tempdir_in(self.layouts.path())?.keep();
        Layout::new(&layout).write(&image, &["latest".to_owned()])?;
        Ok(format!("oci:{}:latest", layout.display()))
    }

    /// Subscribes to an operator, with the namespace and the group that it needs, unless a dependency has done so already.
    pub async fn subscribe(&self, home: &Home, journey: &Journey, catalog: &str) -> anyhow::Result<()> {
        let namespaces = kind("", "v1", "Namespace", "namespaces");
        if let Some(watched) = &home.watched {
            for name in [&home.namespace, watched] {
                self.apply(&namespaces, None, &json!({"metadata": {"name": name}})).await?;
            }
            let group = json!({
                "metadata": {"name": "group", "namespace": home.namespace,
                    "annotations": {"bailiwick.dev/workloads": "elsewhere"}},
                "spec": {"targetNamespaces": [watched]},
            });
            self.apply(&olm("OperatorGroup"), Some(&home.namespace), &group).await?;
        }
        if self.subscription(home, &journey.package).await?.is_some() {
            return Ok(());
        }
        let subscription = json!({
            "metadata": {"name": journey.package, "namespace": home.namespace},
            "spec": {"name": journey.package, "channel": journey.channel, "source": catalog,
                "sourceNamespace": CATALOG_NAMESPACE},
        });
        self.apply(&olm("Subscription"), Some(&home.namespace), &subscription).await
    }

    async fn subscription(&self, home: &Home, package: &str) -> anyhow::Result<Option<DynamicObject>> {
        let all = self.api(&olm("Subscription"), &home.namespace).list(&Default::default()).await?.items;
        Ok(all.into_iter().find(|it| it.data["spec"]["name"] == package))
    }

    /// Waits until a version is installed. The error says in plain words what is in its way.
    pub async fn until_installed(&self, home: &Home, package: &str, bundle: &str) -> Result<(), Hindrance> {
        let csvs = self.api(&olm("ClusterServiceVersion"), &home.namespace);
        let plain = |error: kube::Error| error.to_string();
        let mut last = Value::Null;
        let mut since = Instant::now();
        loop {
            let subscription = self.subscription(home, package).await.map_err(|error| format!("{error:#}"))?;
            let state = subscription.map(|it| it.data["status"].clone()).unwrap_or_default();
            let csv =
                csvs.get_opt(bundle).await.map_err(plain)?.map(|it| it.data["status"].clone()).unwrap_or_default();
            if csv["phase"] == "Succeeded" && state["installedCSV"] == bundle {
                return Ok(());
            }
            if csv["phase"] == "Failed" {
                let fault = format!("{bundle} fails: {}: {}", word(&csv["reason"]), word(&csv["message"]));
                return Err(fault.into());
            }
            if let Some(fault) = self.fault(home, &state).await? {
                return Err(fault.into());
            }
            if state["state"] == "AtLatestKnown" && !state["installedCSV"].is_null() && state["installedCSV"] != bundle
            {
                let settled = csvs.get_opt(word(&state["installedCSV"])).await.map_err(plain)?;
                if settled.is_some_and(|it| it.data["status"]["phase"] == "Succeeded") && since.elapsed() > SETTLE {
                    return Err(format!("{} is installed instead of {bundle}", word(&state["installedCSV"])).into());
                }
            }
            if let Some(apis) = only_native_apis_miss(&csv) {
                return Err(Hindrance::NeedsCluster(format!("{bundle} needs {apis}, which only clusters serve")));
            }
            let now = json!([state["state"], state["currentCSV"], csv["phase"], csv["reason"]]);
            if now != last {
                (last, since) = (now, Instant::now());
            }
            if since.elapsed() > PATIENCE {
                return Err(format!("{bundle} is not installed after {} s{}", PATIENCE.as_secs(), told(&csv)).into());
            }
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
    }

    /// What a Subscription, or the plan it has led to, says against it.
    async fn fault(&self, home: &Home, state: &Value) -> Result<Option<String>, String> {
        for condition in state["conditions"].as_array().into_iter().flatten().filter(|it| it["status"] == "True") {
            match word(&condition["type"]) {
                "ResolutionFailed" | "BundleUnpackFailed" => return Ok(Some(word(&condition["message"]).to_owned())),
                "InstallPlanFailed" => {
                    let plans = self.api(&olm("InstallPlan"), &home.namespace);
                    let plan = plans.get_opt(word(&state["installPlanRef"]["name"])).await;
                    let plan = plan.map_err(|error| error.to_string())?;
                    let message = plan.map(|plan| word(&plan.data["status"]["message"]).to_owned());
                    return Ok(Some(message.unwrap_or_else(|| word(&condition["message"]).to_owned())));
                }
                _ => {}
            }
        }
        Ok(None)
    }

    /// Waits until a version that was replaced is gone.
    pub async fn until_gone(&self, home: &Home, bundle: &str) -> Result<(), String> {
        let csvs = self.api(&olm("ClusterServiceVersion"), &home.namespace);
        let deadline = Instant::now() + PATIENCE;
        while csvs.get_opt(bundle).await.map_err(|error| error.to_string())?.is_some() {
            if Instant::now() > deadline {
                return Err(format!("{bundle} is still there {} s after it was replaced", PATIENCE.as_secs()));
            }
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
        Ok(())
    }

    async fn api_of(&self, object: &Value, namespace: &str) -> Result<Api<DynamicObject>, String> {
        let version = word(&object["apiVersion"]);
        let (group, version) = version.split_once('/').unwrap_or(("", version));
        let gvk = GroupVersionKind::gvk(group, version, word(&object["kind"]));
        let found = oneshot::pinned_kind(&self.client, &gvk).await;
        let (resource, capabilities) =
            found.map_err(|_| format!("{} of {} is not served", gvk.kind, word(&object["apiVersion"])))?;
        Ok(match capabilities.scope {
            Scope::Namespaced => self.api(&resource, namespace),
            Scope::Cluster => Api::all_with(self.client.clone(), &resource),
        })
    }

    /// Creates a sample object and gives what became of it. The error says why it is refused.
    pub async fn create(&self, home: &Home, sample: &Value) -> Result<Value, String> {
        let what = format!("{} {}", word(&sample["kind"]), word(&sample["metadata"]["name"]));
        let refused = |error: String| format!("sample {what}: {error}");
        let mut sample = sample.clone();
        sample["metadata"]["namespace"] = home.objects().into();
        let api = self.api_of(&sample, home.objects()).await.map_err(refused)?;
        if let Some(metadata) = sample["metadata"].as_object_mut()
            && api.resource_url().split("/namespaces/").count() == 1
        {
            metadata.remove("namespace");
        }
        let object: DynamicObject = serde_json::from_value(sample).map_err(|error| refused(error.to_string()))?;
        let made = match api.create(&PostParams::default(), &object).await {
            // Two samples of one name are two ways to write one object.
            Err(kube::Error::Api(status)) if status.is_already_exists() => api.get(&object.name_any()).await,
            other => other,
        };
        let made = made.map_err(|error| refused(api_message(&error)))?;
        serde_json::to_value(made).map_err(|error| refused(error.to_string()))
    }

    /// Reads an object and writes it as it is, as any client does that changes something else about it.
    pub async fn rewrite(&self, object: &Value) -> Result<(), String> {
        let name = word(&object["metadata"]["name"]);
        let lost = |error: String| format!("{} {name}, which was there before: {error}", word(&object["kind"]));
        let api = self.api_of(object, word(&object["metadata"]["namespace"])).await.map_err(lost)?;
        let mut present = api.get(name).await.map_err(|error| lost(api_message(&error)))?;
        present.annotations_mut().insert("bailiwick.dev/rewritten".to_owned(), "true".to_owned());
        api.replace(name, &PostParams::default(), &present).await.map_err(|error| lost(api_message(&error)))?;
        Ok(())
    }
}

/// How long something that looks like the end may still change.
const SETTLE: Duration = Duration::from_secs(20);

fn word(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn api_message(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    }
}

/// The APIs of Kubernetes that a version waits for, if it waits for nothing else.
fn only_native_apis_miss(csv: &Value) -> Option<String> {
    if word(&csv["reason"]) != "RequirementsNotMet" {
        return None;
    }
    let missing = csv["requirementStatus"].as_array()?.iter().filter(|it| it["status"] != "Present");
    let (native, others): (Vec<&Value>, Vec<&Value>) =
        missing.partition(|it| it["message"] == "Native API does not exist");
    let named = native.iter().map(|it| match word(&it["group"]) {
        "" => format!("{} of {}", word(&it["kind"]), word(&it["version"])),
        group => format!("{} of {group}/{}", word(&it["kind"]), word(&it["version"])),
    });
    (others.is_empty() && !native.is_empty()).then(|| named.collect::<Vec<_>>().join(", "))
}

/// What a version that does not come to an end says of itself.
fn told(csv: &Value) -> String {
    let mut text = match word(&csv["phase"]) {
        "" => return String::new(),
        phase => format!(": {phase}: {}: {}", word(&csv["reason"]), word(&csv["message"])),
    };
    let missing = csv["requirementStatus"].as_array().into_iter().flatten().filter(|it| it["status"] != "Present");
    for requirement in missing {
        text.push_str(&format!(
            "; {} {}: {}",
            word(&requirement["kind"]),
            word(&requirement["name"]),
            word(&requirement["message"])
        ));
    }
    text
}
