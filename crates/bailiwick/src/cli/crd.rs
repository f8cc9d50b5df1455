//! `bailiwick crd`: tools for CustomResourceDefinitions that need no server of ours, only a kubeconfig.

use std::path::PathBuf;

use anyhow::{Context, bail};
use kube::api::{DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::ApiResource;
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

use crate::cli::kubeconfig;

/// Objects read at a time.
const PAGE_SIZE: u32 = 500;
/// How often an object that others change at the same time is tried again.
const CONFLICT_RETRIES: usize = 10;
/// Objects between two lines of progress.
const PROGRESS_EVERY: usize = 1000;

#[derive(clap::Subcommand)]
pub enum Command {
    /// Write every object of a definition anew, so that all are stored in its storage version, and say so in its status.
    ///
    /// Run it after the storage version of a definition has changed and before an old version is removed: a version can
    /// only go once status.storedVersions no longer names it. Safe to interrupt and to repeat.
    Migrate(Migrate),
}

#[derive(clap::Args)]
pub struct Migrate {
    /// The server and the credentials to use.
    #[arg(long, env = "KUBECONFIG")]
    kubeconfig: PathBuf,
    /// The definitions to migrate, such as widgets.example.com; all that need it if none is named.
    names: Vec<String>,
}

pub fn run(command: Command) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start")?;
    match command {
        Command::Migrate(args) => runtime.block_on(migrate(args)),
    }
}

fn definitions(client: &Client) -> Api<DynamicObject> {
    let resource = ApiResource {
        group: "apiextensions.k8s.io".into(),
        version: "v1".into(),
        api_version: "apiextensions.k8s.io/v1".into(),
        kind: "CustomResourceDefinition".into(),
        plural: "customresourcedefinitions".into(),
    };
    Api::all_with(client.clone(), &resource)
}

async fn migrate(args: Migrate) -> anyhow::Result<()> {
    let client = kubeconfig::client(&args.kubeconfig).await?;
    let api = definitions(&client);
    let chosen = match args.names.as_slice() {
        [] => api.list(&ListParams::default()).await.context("cannot list definitions")?.items,
        names => {
            let mut chosen = Vec::new();
            for name in names {
                chosen.push(api.get(name).await.with_context(|| format!("definition {name}"))?);
            }
            chosen
        }
    };
    let mut migrated = 0;
    for definition in chosen {
        let stored = definition.data["status"]["storedVersions"].as_array().cloned().unwrap_or_default();
        let Some(storage) = storage_version(&definition) else { continue };
        if stored.len() <= 1 && args.names.is_empty() {
            continue;
        }
        let count = rewrite(&client, &definition, &storage).await?;
        finish(&api, &definition, &storage).await?;
        migrated += 1;
        println!("{}: {count} objects are stored as {storage}", definition.name_any());
    }
    if migrated == 0 {
        println!("every definition has a single stored version; there is nothing to migrate");
    }
    Ok(())
}

fn storage_version(definition: &DynamicObject) -> Option<String> {
    let versions = definition.data["spec"]["versions"].as_array()?;
    Some(versions.iter().find(|version| version["storage"] == true)?["name"].as_str()?.to_owned())
}

/// Writes every object back as it is; the server stores it in the storage version.
async fn rewrite(client: &Client, definition: &DynamicObject, storage: &str) -> anyhow::Result<usize> {
    let spec = &definition.data["spec"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let served = |version: &&Value| version["served"] == true;
    let versions = spec["versions"].as_array().cloned().unwrap_or_default();
    let named = |version: &&Value| version["name"] == storage;
    let Some(version) = versions.iter().filter(served).find(named).or_else(|| versions.iter().find(served)) else {
        bail!("{} serves no version, so its objects cannot be read", definition.name_any());
    };
    let (group, version) = (text(&spec["group"]), text(&version["name"]));
    let resource = ApiResource {
        api_version: format!("{group}/{version}"),
        group,
        version,
        kind: text(&spec["names"]["kind"]),
        plural: text(&spec["names"]["plural"]),
    };
    let all: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let mut params = ListParams::default().limit(PAGE_SIZE);
    let mut count = 0;
    loop {
        let page = all.list(&params).await.context("cannot list objects")?;
        for object in page.items {
            let api = match object.namespace() {
                Some(namespace) => Api::namespaced_with(client.clone(), &namespace, &resource),
                None => all.clone(),
            };
            write_back(&api, object).await?;
            count += 1;
            if count % PROGRESS_EVERY == 0 {
                eprintln!("{}: {count} objects written", definition.name_any());
            }
        }
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = ListParams::default().limit(PAGE_SIZE).continue_token(&token),
            None => return Ok(count),
        }
    }
}

async fn write_back(api: &Api<DynamicObject>, mut object: DynamicObject) -> anyhow::Result<()> {
    let name = object.name_any();
    for _ in 0..CONFLICT_RETRIES {
        match api.replace(&name, &PostParams::default(), &object).await {
            Err(kube::Error::Api(status)) if status.is_conflict() => match api.get_opt(&name).await? {
                Some(newer) => object = newer,
                None => return Ok(()),
            },
            // Gone is as good as migrated.
            Err(kube::Error::Api(status)) if status.is_not_found() => return Ok(()),
            other => return other.map(drop).with_context(|| format!("cannot write {name}")),
        }
    }
    bail!("{name} keeps changing; run the migration again")
}

/// Says in the status that nothing is stored in other versions any more.
async fn finish(api: &Api<DynamicObject>, definition: &DynamicObject, storage: &str) -> anyhow::Result<()> {
    let name = definition.name_any();
    let now = api.get(&name).await?;
    if storage_version(&now).as_deref() != Some(storage) {
        bail!("the storage version of {name} changed meanwhile; run the migration again");
    }
    let patch = json!({
        "metadata": {"resourceVersion": now.resource_version()}, "status": {"storedVersions": [storage]},
    });
    api.patch_status(&name, &PatchParams::default(), &Patch::Merge(&patch)).await.context("cannot write the status")?;
    Ok(())
}
