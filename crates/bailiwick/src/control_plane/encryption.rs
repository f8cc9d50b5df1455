//! What is encrypted at rest: the options, and the store that they put before the one that keeps objects.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bailiwick_encryption::{ConfigError, EncryptedStore, EncryptionConfig, Keyring, LocalKey, first_sealed};
use bailiwick_server::StorageEncryption;
use bailiwick_store::Store;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::{Error, StoreOptions};

/// What is encrypted at rest, and with which keys.
#[derive(Clone, Debug, Default)]
pub struct EncryptionOptions {
    /// An EncryptionConfiguration. Without one secrets in the embedded store are encrypted with a key of our own, in the
    /// data directory; in etcd nothing is.
    pub provider_config: Option<PathBuf>,
    pub reload: Reload,
}

/// Whether a changed configuration takes effect without a restart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reload {
    #[default]
    Never,
    Automatic,
}

/// How often a configuration is looked at for changes, as upstream.
const RELOAD_INTERVAL: Duration = Duration::from_secs(60);

/// The store as the server sees it, and the hand on its keys.
pub(super) struct Encrypted {
    pub store: Arc<dyn Store>,
    pub control: Option<Arc<Control>>,
    pub reloading: Option<Reloading>,
}

/// The task that follows the configuration; ends when dropped.
pub(super) struct Reloading(JoinHandle<()>);

impl Drop for Reloading {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl EncryptionOptions {
    /// Puts encryption before `store`. A store whose values another key sealed is refused where that key is missing: with a
    /// fresh one everything would seem well until somebody reads a secret.
    pub(super) async fn wrap(
        &self,
        store: Arc<dyn Store>,
        kind: &StoreOptions,
        data_dir: &Path,
    ) -> Result<Encrypted, Error> {
        let source = match (&self.provider_config, kind) {
            (Some(path), _) => Source::File(path.clone()),
            (None, StoreOptions::Embedded(_)) => Source::Local(data_dir.to_owned()),
            (None, StoreOptions::Etcd(_)) => return Ok(Encrypted { store, control: None, reloading: None }),
        };
        if let Source::Local(data_dir) = &source
            && let key = LocalKey::of(data_dir)
            && !key.exists()
            && let Some(sealed) = first_sealed(store.as_ref()).await?
        {
            return Err(Error::KeyMissing {
                path: key.path().to_owned(),
                sealed: String::from_utf8_lossy(&sealed).into_owned(),
            });
        }
        let text = source.text()?;
        let encrypted = EncryptedStore::new(store, source.keyring()?).await;
        let control = Arc::new(Control { store: encrypted.clone(), source, seen: tokio::sync::Mutex::new(text) });
        let reloading = (self.reload == Reload::Automatic).then(|| {
            let control = control.clone();
            Reloading(tokio::spawn(async move {
                loop {
                    tokio::time::sleep(RELOAD_INTERVAL).await;
                    if let Err(error) = control.reload().await {
                        tracing::error!(%error, "the encryption configuration was not reloaded");
                    }
                }
            }))
        });
        Ok(Encrypted { store: encrypted, control: Some(control), reloading })
    }
}

/// Where keys come from.
enum Source {
    File(PathBuf),
    /// The data directory.
    Local(PathBuf),
}

impl Source {
    fn config(&self) -> Result<EncryptionConfig, ConfigError> {
        match self {
            Self::File(path) => EncryptionConfig::load(path),
            Self::Local(data_dir) => LocalKey::of(data_dir).ensure(),
        }
    }

    fn keyring(&self) -> Result<Keyring, ConfigError> {
        Keyring::new(&self.config()?)
    }

    /// The file as it is, to tell whether it changed.
    fn text(&self) -> Result<Vec<u8>, ConfigError> {
        self.config()?;
        let path = match self {
            Self::File(path) => path.clone(),
            Self::Local(data_dir) => LocalKey::of(data_dir).path().to_owned(),
        };
        std::fs::read(&path).map_err(|source| ConfigError::Io { path: path.display().to_string(), source })
    }
}

/// The hand on the keys of a running server.
pub(super) struct Control {
    store: Arc<EncryptedStore>,
    source: Source,
    seen: tokio::sync::Mutex<Vec<u8>>,
}

impl Control {
    /// Takes up a changed configuration.
    async fn reload(&self) -> Result<(), ConfigError> {
        let mut seen = self.seen.lock().await;
        let text = self.source.text()?;
        if text != *seen {
            self.store.replace_keyring(self.source.keyring()?).await;
            *seen = text;
            tracing::info!("the encryption configuration was reloaded");
        }
        Ok(())
    }
}

#[async_trait]
impl StorageEncryption for Control {
    async fn health(&self) -> Result<(), String> {
        self.store.health().await
    }

    fn has_key_services(&self) -> bool {
        self.store.has_key_services()
    }

    async fn reencrypt(&self) -> Result<(), String> {
        self.reload().await.map_err(|error| error.to_string())?;
        self.store.ask_key_services().await;
        self.store.start_reencryption();
        Ok(())
    }

    fn progress(&self) -> Value {
        let progress = self.store.reencryption();
        json!({
            "running": progress.running,
            "examined": progress.examined,
            "rewritten": progress.rewritten,
            "failed": progress.failed,
        })
    }
}
