//! `bailiwick project`: projects and the kubeconfigs that lead into them.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use bailiwick_machinery::yaml;
use kube::Client;
use kube::config::Kubeconfig;
use serde_json::{Value, json};

use crate::cli::kubeconfig;

const COLLECTION: &str = "/apis/resourcemanager.miloapis.com/v1alpha1";

/// Projects: control planes of their own on one server.
///
/// Every project has its own namespaces, custom resource definitions, roles, quotas, policies and webhooks. Nothing of it is
/// seen from another. Projects belong to organizations.
///
/// Try:
///   bailiwick project create shop --organization acme
///   bailiwick project kubeconfig shop > shop.kubeconfig
///   kubectl --kubeconfig shop.kubeconfig get namespaces
#[derive(clap::Subcommand)]
#[command(verbatim_doc_comment)]
pub enum Command {
    /// Create a project, and the organization that owns it if there is none of that name.
    Create {
        name: String,
        /// The organization that owns it.
        #[arg(long)]
        organization: String,
        #[command(flatten)]
        server: Server,
    },
    /// List projects with the organizations that own them.
    List {
        #[command(flatten)]
        server: Server,
    },
    /// Print a kubeconfig whose server is the project: every kubectl command then works inside it.
    ///
    /// The credentials are those of the kubeconfig that is read. Whether they may do anything inside is for the project's own
    /// roles to say; those who may `admin` the project in the root control plane may do everything.
    Kubeconfig {
        name: String,
        /// Write it to this file, readable by its owner only, instead of printing it.
        #[arg(short, long)]
        output: Option<PathBuf>,
        #[command(flatten)]
        server: Server,
    },
}

#[derive(clap::Args)]
pub struct Server {
    /// The data directory of the server, for its admin.kubeconfig.
    #[arg(long, default_value = "./bailiwick-data")]
    data_dir: PathBuf,
    /// The server and the credentials to use, instead of the data directory's.
    #[arg(long, env = "KUBECONFIG")]
    kubeconfig: Option<PathBuf>,
}

impl Server {
    fn path(&self) -> PathBuf {
        self.kubeconfig.clone().unwrap_or_else(|| self.data_dir.join("admin.kubeconfig"))
    }

    async fn client(&self) -> anyhow::Result<Client> {
        let mut config = kubeconfig::config(&self.path()).await?;
        config.cluster_url = root_of(&config.cluster_url.to_string()).parse()?;
        Ok(Client::try_from(config)?)
    }
}

pub fn run(command: Command) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start")?;
    runtime.block_on(async {
        match command {
            Command::Create { name, organization, server } => create(&server, &name, &organization).await,
            Command::List { server } => list(&server).await,
            Command::Kubeconfig { name, output, server } => kubeconfig(&server, &name, output.as_deref()).await,
        }
    })
}

fn read(path: &Path) -> anyhow::Result<Kubeconfig> {
    Kubeconfig::read_from(path).with_context(|| path.display().to_string())
}

async fn create(server: &Server, name: &str, organization: &str) -> anyhow::Result<()> {
    let client = server.client().await?;
    let post = |plural: &str, object: Value| {
        let request = http::Request::post(format!("{COLLECTION}/{plural}")).header("content-type", "application/json");
        request.body(object.to_string().into_bytes())
    };
    let meta = |kind: &str, name: &str| json!({"apiVersion": "resourcemanager.miloapis.com/v1alpha1", "kind": kind, "metadata": {"name": name}});
    match client.request::<Value>(post("organizations", meta("Organization", organization))?).await {
        Ok(_) => println!("organization {organization} created"),
        Err(kube::Error::Api(status)) if status.is_already_exists() => {}
        Err(error) => return Err(error).context("creating the organization"),
    }
    let mut project = meta("Project", name);
    project["spec"] = json!({"ownerRef": {"kind": "Organization", "name": organization}});
    client.request::<Value>(post("projects", project)?).await.context("creating the project")?;
    println!("project {name} created; try: bailiwick project kubeconfig {name}");
    Ok(())
}

async fn list(server: &Server) -> anyhow::Result<()> {
    let request = http::Request::get(format!("{COLLECTION}/projects")).body(Vec::new())?;
    let list: Value = server.client().await?.request(request).await.context("listing projects")?;
    let text = |value: &Value| value.as_str().unwrap_or("<none>").to_owned();
    println!("{:<40} {:<30} READY", "NAME", "ORGANIZATION");
    for project in list["items"].as_array().into_iter().flatten() {
        let conditions = project["status"]["conditions"].as_array();
        let ready = conditions.and_then(|all| all.iter().find(|condition| condition["type"] == "Ready"));
        let ready = ready.map_or("Unknown".to_owned(), |condition| text(&condition["status"]));
        let organization = text(&project["spec"]["ownerRef"]["name"]);
        println!("{:<40} {organization:<30} {ready}", text(&project["metadata"]["name"]));
    }
    Ok(())
}

async fn kubeconfig(server: &Server, name: &str, output: Option<&Path>) -> anyhow::Result<()> {
    let path = server.path();
    let project = format!("/projects/{name}");
    let request = http::Request::get(format!("{project}/version")).body(Vec::new())?;
    server.client().await?.request::<Value>(request).await.with_context(|| format!("entering project {name}"))?;
    let text = yaml::encode(&inside(&serde_json::to_value(read(&path)?)?, name)?);
    let Some(output) = output else {
        print!("{text}");
        return Ok(());
    };
    // It holds a credential.
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(output)?;
    file.write_all(text.as_bytes()).with_context(|| output.display().to_string())
}

/// The root's address: a kubeconfig that leads into a project leads into another just as well.
fn root_of(url: &str) -> &str {
    let root = url.split("/projects/").next().unwrap_or(url).trim_end_matches('/');
    root.strip_suffix(COLLECTION).unwrap_or(root)
}

/// The current context of a kubeconfig, inside a project.
fn inside(config: &Value, name: &str) -> anyhow::Result<Value> {
    let named = |list: &str, name: &Value| -> anyhow::Result<Value> {
        let found = config[list].as_array().into_iter().flatten().find(|entry| entry["name"] == *name);
        found.cloned().with_context(|| format!("the kubeconfig has no {name} among its {list}"))
    };
    let context = named("contexts", &config["current-context"])?;
    let mut cluster = named("clusters", &context["context"]["cluster"])?;
    let user = named("users", &context["context"]["user"])?;
    let Some(url) = cluster["cluster"]["server"].as_str() else { bail!("the kubeconfig names no server") };
    cluster["cluster"]["server"] = format!("{}/projects/{name}", root_of(url)).into();
    cluster["name"] = name.into();
    let context = json!({"name": name, "context": {"cluster": name, "user": user["name"]}});
    Ok(json!({
        "apiVersion": "v1", "kind": "Config", "current-context": name,
        "clusters": [cluster], "contexts": [context], "users": [user],
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(url: &str) -> Value {
        json!({
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
            "clusters": [{"name": "k", "cluster": {"server": url, "certificate-authority-data": "Q0E="}}],
            "users": [{"name": "u", "user": {"token": "t"}}],
        })
    }

    #[test]
    fn the_server_becomes_the_project_and_the_credentials_stay() {
        for url in [
            "https://host:6443",
            "https://host:6443/",
            "https://host:6443/projects/other",
            "https://host:6443/apis/resourcemanager.miloapis.com/v1alpha1/projects/other/control-plane",
        ] {
            let made = inside(&config(url), "shop").expect("a kubeconfig");
            assert_eq!(made["clusters"][0]["cluster"]["server"], "https://host:6443/projects/shop", "{url}");
            assert_eq!(made["clusters"][0]["cluster"]["certificate-authority-data"], "Q0E=");
            assert_eq!(made["users"][0]["user"]["token"], "t");
        }
    }

    #[test]
    fn a_kubeconfig_without_a_current_context_is_refused() {
        let mut broken = config("https://host");
        broken["current-context"] = "none".into();
        assert!(inside(&broken, "shop").is_err());
    }
}
