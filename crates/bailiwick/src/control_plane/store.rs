//! Where objects are kept: the options, and the store they open.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bailiwick_store::Store;
use bailiwick_store::embedded::{self, EmbeddedStore};
use bailiwick_store::etcd::{self, EtcdStore};

use super::Error;

/// Where objects are kept.
#[derive(Clone, Debug)]
pub enum StoreOptions {
    /// In the data directory, by this process alone.
    Embedded(embedded::Options),
    /// In an etcd cluster, shared with other servers.
    Etcd(etcd::Options),
}

/// An opened store, and the embedded engine's own handle where it is one.
pub(super) struct Opened {
    pub store: Arc<dyn Store>,
    pub embedded: Option<Arc<EmbeddedStore>>,
}

/// How long another server on the same store may take to learn of a change; upstream's figure for namespaces.
const SHARED_SETTLE_TIME: Duration = Duration::from_secs(5);
/// How long requests of this server that were let in before a change may still write.
const OWN_SETTLE_TIME: Duration = Duration::from_millis(100);

impl StoreOptions {
    /// How long after a deletion began others may still write into what is deleted.
    pub(super) fn settle_time(&self) -> Duration {
        match self {
            StoreOptions::Embedded(_) => OWN_SETTLE_TIME,
            StoreOptions::Etcd(_) => SHARED_SETTLE_TIME,
        }
    }

    pub(super) async fn open(&self, data_dir: &Path) -> Result<Opened, Error> {
        match self {
            StoreOptions::Embedded(options) => {
                let (dir, options) = (data_dir.join("store"), options.clone());
                let opened = tokio::task::spawn_blocking(move || EmbeddedStore::open(dir, options)).await;
                let store = opened.map_err(|error| bailiwick_store::Error::Unavailable(error.to_string()))??;
                Ok(Opened { store: store.clone(), embedded: Some(store) })
            }
            StoreOptions::Etcd(options) => {
                Ok(Opened { store: Arc::new(EtcdStore::connect(options.clone()).await?), embedded: None })
            }
        }
    }
}

/// What to do about a store that cannot be opened.
pub(super) fn advice(error: &bailiwick_store::Error) -> &'static str {
    match error {
        bailiwick_store::Error::Corrupt(_) => {
            "\nNothing was changed. If the disk can be trusted again, put a backup into a new data directory \
             (bailiwick snapshot restore FILE --data-dir DIR) and move this one aside; `bailiwick doctor` looks at the disk."
        }
        bailiwick_store::Error::NoSpace(_) => "\nNothing was changed. Make room on that disk and start again.",
        _ => "",
    }
}
