//! Images of catalogs and bundles: pulled without Docker, kept by digest, unpacked where nothing of them is run.
//!
//! Names and credentials come from objects that tenants write. Helpers of Docker configurations are therefore never run,
//! layouts on this machine are read only below directories that the operator named, and addresses are judged before they
//! are called.
//!
//! What is kept does not grow without end: the index of a catalog goes when another takes its place, and what nobody has
//! asked for in a month goes with time.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bailiwick_catalog::bundle::{BundleContent, read_directory};
use bailiwick_catalog::oci::{
    BlobCache, Credentials, Digest, Guard, Images, Registry, RegistryOptions, Transport, remove_older, touch,
};
use bailiwick_catalog::reference::ImageReference;
use bailiwick_catalog::render::{CONFIGS_LABEL, ImageSource, Unpacked};
use bailiwick_catalog::serve::{Fingerprint, Index, build_index};
use serde_json::{Value, json};

use crate::error::Error;

/// How long blobs and indexes that nobody asks for are kept.
const UNUSED_MAX: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// How images are pulled.
#[derive(Clone, Debug)]
pub struct PullOptions {
    /// Judges the addresses of registries and of other servers of catalogs.
    pub guard: Guard,
    /// Registries, as `host:port`, that are spoken to without TLS and may be anywhere. Those of the loopback interface
    /// are always spoken to without TLS.
    pub insecure_registries: Vec<String>,
    /// Directories below which image layouts (`oci:<directory>[:<tag>]`) may be read.
    pub layouts: Vec<PathBuf>,
    /// The certificate authority of registries, as PEM, besides those of the machine.
    pub registry_ca: Option<Vec<u8>>,
}

impl PullOptions {
    /// From registries with TLS, where the guard lets us go.
    pub fn new(guard: Guard) -> Self {
        Self { guard, insecure_registries: Vec::new(), layouts: Vec::new(), registry_ca: None }
    }
}

/// Pulls images.
pub(crate) struct Puller {
    options: PullOptions,
    directory: PathBuf,
}

/// A catalog that was pulled.
pub(crate) struct PulledCatalog {
    pub index: Index,
    pub digest: String,
}

impl Puller {
    /// Keeps what it pulls below a directory.
    pub fn new(options: PullOptions, directory: &Path) -> Arc<Self> {
        Arc::new(Self { options, directory: directory.to_owned() })
    }

    /// Judges the addresses of a server that is named as `host:port`; those that the operator named may be anywhere.
    pub fn guard(&self, authority: &str) -> Guard {
        match self.options.insecure_registries.iter().any(|it| it == authority) {
            true => self.options.guard.vouching_for(host_of(authority)),
            false => self.options.guard.clone(),
        }
    }

    /// The index of a catalog image. What `known` is the digest of need not be pulled again and gives `None`.
    pub async fn catalog(
        self: &Arc<Self>,
        image: &str,
        secrets: &[String],
        known: Option<String>,
    ) -> Result<Option<PulledCatalog>, Error> {
        let (this, image, secrets) = (self.clone(), image.to_owned(), secrets.to_vec());
        blocking(move || this.catalog_now(&image, &secrets, known.as_deref())).await
    }

    /// The content of a bundle image.
    pub async fn bundle(self: &Arc<Self>, image: &str, secrets: &[String]) -> Result<BundleContent, Error> {
        let (this, image, secrets) = (self.clone(), image.to_owned(), secrets.to_vec());
        blocking(move || {
            let transport = this.transport(&image)?;
            let unpacked = this.images(&transport, &secrets)?.unpack(&image)?;
            read_directory(unpacked.directory.path()).map_err(|error| format!("{image}: {error}"))
        })
        .await
    }

    /// An index of catalog documents that were made here, kept by their content.
    pub async fn index_of_text(self: &Arc<Self>, text: String) -> Result<PulledCatalog, Error> {
        let this = self.clone();
        blocking(move || {
            let digest = Digest::of(text.as_bytes());
            let path = this.index_path(&digest.to_string());
            if let Some(index) = this.open_index(&path) {
                return Ok(PulledCatalog { index, digest: digest.to_string() });
            }
            let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
            std::fs::write(directory.path().join("catalog.json"), text).map_err(|error| error.to_string())?;
            let index = build(directory.path(), &path)?;
            Ok(PulledCatalog { index, digest: digest.to_string() })
        })
        .await
    }

    /// The index of a catalog that is nobody's any more goes. Whoever has it open can go on reading.
    pub fn forget_index(&self, digest: &str) {
        let path = self.index_path(digest);
        if let Err(error) = std::fs::remove_file(&path)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            tracing::warn!(%error, path = %path.display(), "an index that is not needed any more stays");
        }
    }

    /// What nobody has asked for in a while goes: bundles are pulled once, and catalogs are replaced while we are away.
    pub async fn remove_unused(self: &Arc<Self>) -> Result<(), Error> {
        let this = self.clone();
        let removing = move || {
            let before = SystemTime::now() - UNUSED_MAX;
            let of_indexes = remove_older(&this.directory.join("indexes"), before);
            let of_blobs = BlobCache::new(&this.directory).remove_unused(before);
            of_indexes.and(of_blobs).map_err(|error| error.to_string())
        };
        blocking(removing).await
    }

    fn open_index(&self, path: &Path) -> Option<Index> {
        let index = Index::open(path).ok()?;
        touch(path);
        Some(index)
    }

    fn index_path(&self, digest: &str) -> PathBuf {
        let hex = digest.rsplit(':').next().unwrap_or(digest);
        self.directory.join("indexes").join(format!("{hex}.index"))
    }

    fn catalog_now(
        &self,
        image: &str,
        secrets: &[String],
        known: Option<&str>,
    ) -> Result<Option<PulledCatalog>, String> {
        let transport = self.transport(image)?;
        let mut images = self.images(&transport, secrets)?;
        let digest = match &transport {
            Transport::Registry(reference) => images.resolve(reference).map_err(|error| error.to_string())?,
            Transport::Layout(root, tag) => {
                let index = std::fs::read(root.join("index.json")).map_err(|error| format!("{image}: {error}"))?;
                let tag = tag.clone().unwrap_or_default();
                Digest::of(&[index.as_slice(), tag.as_bytes()].concat()).to_string()
            }
        };
        if known == Some(digest.as_str()) {
            return Ok(None);
        }
        let path = self.index_path(&digest);
        if let Some(index) = self.open_index(&path) {
            return Ok(Some(PulledCatalog { index, digest }));
        }
        let Unpacked { directory, labels } = images.unpack(image)?;
        let configs = labels
            .get(CONFIGS_LABEL)
            .ok_or_else(|| format!("{image} is no file-based catalog: the label {CONFIGS_LABEL} is missing"))?;
        let root = bailiwick_catalog::render::inside(directory.path(), configs)?;
        let index = build(&root, &path)?;
        Ok(Some(PulledCatalog { index, digest }))
    }

    fn transport(&self, image: &str) -> Result<Transport, String> {
        let transport = Transport::parse(image).map_err(|error| format!("{image}: {error}"))?;
        if let Transport::Layout(root, _) = &transport {
            let root = root.canonicalize().map_err(|error| format!("{image}: {error}"))?;
            let allowed = |directory: &PathBuf| directory.canonicalize().is_ok_and(|it| root.starts_with(it));
            if !self.options.layouts.iter().any(allowed) {
                return Err(format!("{image}: image layouts of this machine may not be read from there"));
            }
        }
        Ok(transport)
    }

    fn images(&self, transport: &Transport, secrets: &[String]) -> Result<Images, String> {
        let (plain_http, guard) = match transport {
            Transport::Registry(reference) => (self.is_insecure(reference), self.guard(&reference.domain)),
            Transport::Layout(..) => (false, self.options.guard.clone()),
        };
        let options = RegistryOptions {
            plain_http,
            ca: self.options.registry_ca.clone(),
            guard: Some(guard),
            ..RegistryOptions::default()
        };
        let credentials = credentials(secrets);
        let registry = Registry::new(&options, credentials).map_err(|error| error.to_string())?;
        Ok(Images::new(registry, BlobCache::new(&self.directory)))
    }

    fn is_insecure(&self, reference: &ImageReference) -> bool {
        let host = host_of(&reference.domain);
        let is_loopback = host == "localhost"
            || host.trim_matches(['[', ']']).parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback());
        is_loopback || self.options.insecure_registries.contains(&reference.domain)
    }
}

/// The host of `host:port`.
fn host_of(authority: &str) -> &str {
    let (host, port) = authority.rsplit_once(':').unwrap_or((authority, ""));
    match port.bytes().all(|byte| byte.is_ascii_digit()) {
        true => host,
        // The last colon was one of an IPv6 address.
        false => authority,
    }
}

fn build(root: &Path, path: &Path) -> Result<Index, String> {
    let fingerprint = Fingerprint::of(root).map_err(|error| error.to_string())?;
    build_index(root, path, fingerprint).map_err(|error| error.to_string())?;
    Index::open(path).map_err(|error| error.to_string())
}

/// The logins of Docker configurations, and nothing else of them: what else they can say runs programs.
fn credentials(secrets: &[String]) -> Credentials {
    let mut logins = serde_json::Map::new();
    for secret in secrets {
        let Ok(Value::Object(mut config)) = serde_json::from_str(secret) else { continue };
        // The older form has nothing around the logins.
        let auths = match config.remove("auths") {
            Some(Value::Object(auths)) => auths,
            Some(_) => continue,
            None => config,
        };
        for (registry, login) in auths {
            logins.entry(registry).or_insert(login);
        }
    }
    Credentials::from_text(&json!({"auths": logins}).to_string()).unwrap_or_default()
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T, String> + Send + 'static) -> Result<T, Error> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result.map_err(Error::Other),
        Err(error) => Err(Error::Other(format!("pulling ended early: {error}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn puller(layouts: Vec<PathBuf>) -> Arc<Puller> {
        let guard = Guard::new(|address| if address.is_loopback() { Err("loopback".to_owned()) } else { Ok(()) });
        let options =
            PullOptions { layouts, insecure_registries: vec!["registry:5000".into()], ..PullOptions::new(guard) };
        Puller::new(options, Path::new("/nowhere"))
    }

    #[test]
    fn layouts_are_read_only_where_the_operator_said() {
        let directory = tempfile::tempdir().unwrap();
        let inside = directory.path().join("a");
        std::fs::create_dir(&inside).unwrap();
        let image = format!("oci:{}:v1", inside.display());
        assert!(puller(vec![directory.path().to_owned()]).transport(&image).is_ok());
        assert!(puller(Vec::new()).transport(&image).is_err());
        let outside = format!("oci:{}/a/../../..", directory.path().display());
        assert!(puller(vec![directory.path().to_owned()]).transport(&outside).is_err());
    }

    #[tokio::test]
    async fn what_nobody_asks_for_goes() {
        let directory = tempfile::tempdir().unwrap();
        let puller = Puller::new(PullOptions::new(Guard::new(|_| Ok(()))), directory.path());
        let catalog = |name: &str| {
            let bundle = format!("{name}.v1.0.0");
            let version = json!({"type": "olm.package", "value": {"packageName": name, "version": "1.0.0"}});
            let documents = [
                json!({"schema": "olm.package", "name": name, "defaultChannel": "c"}),
                json!({"schema": "olm.channel", "package": name, "name": "c", "entries": [{"name": bundle}]}),
                json!({"schema": "olm.bundle", "package": name, "name": bundle, "image": "example.com/a:1",
                    "properties": [version]}),
            ];
            documents.map(|document| document.to_string()).join("\n")
        };
        let old = puller.index_of_text(catalog("a")).await.unwrap().digest;
        let replaced = puller.index_of_text(catalog("b")).await.unwrap().digest;
        let kept = puller.index_of_text(catalog("c")).await.unwrap().digest;
        let long_ago = SystemTime::now() - 2 * UNUSED_MAX;
        for digest in [&old, &kept] {
            let file = std::fs::File::options().write(true).open(puller.index_path(digest)).unwrap();
            file.set_modified(long_ago).unwrap();
        }
        // It is asked for again.
        puller.index_of_text(catalog("c")).await.unwrap();
        puller.forget_index(&replaced);
        puller.forget_index(&replaced);
        puller.remove_unused().await.unwrap();
        let is_there = [&old, &replaced, &kept].map(|digest| puller.index_path(digest).exists());
        assert_eq!(is_there, [false, false, true]);
    }

    #[test]
    fn loopback_registries_need_no_tls() {
        let puller = puller(Vec::new());
        let insecure = |name: &str| puller.is_insecure(&ImageReference::parse(name).unwrap());
        assert!(insecure("127.0.0.1:5000/a") && insecure("localhost:5000/a") && insecure("registry:5000/a"));
        assert!(!insecure("quay.io/a/b") && !insecure("registry:5001/a"));
    }

    #[test]
    fn only_the_registries_that_the_operator_named_may_be_anywhere() {
        let puller = puller(Vec::new());
        let here = std::net::IpAddr::from([127, 0, 0, 1]);
        assert!(puller.guard("registry:5000").check("registry", here).is_ok());
        assert!(puller.guard("registry:22").check("registry", here).is_err());
        assert!(puller.guard("registry:5000").check("elsewhere", here).is_err());
    }

    #[test]
    fn helpers_of_docker_configurations_are_left_out() {
        let secret = r#"{"auths": {"quay.io": {"auth": "YTpi"}}, "credsStore": "evil", "credHelpers": {"x": "evil"}}"#;
        let text = format!("{:?}", credentials(&[secret.to_owned()]));
        assert!(text.contains("quay.io") && !text.contains("evil"), "{text}");
    }
}
