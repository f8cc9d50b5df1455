//! The gRPC and HTTP servers of catalogs, one on a loopback port for each, as OLM has one pod for each. A catalog that is
//! replaced keeps its port.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, PoisonError};

use bailiwick_catalog::serve::{CatalogServer, Index, serve};
use tokio::task::AbortHandle;

use crate::catalogs::CatalogKey;
use crate::error::Error;

/// See the module.
#[derive(Default)]
pub(crate) struct ServedCatalogs(Mutex<HashMap<CatalogKey, Served>>);

struct Served {
    listener: TcpListener,
    address: SocketAddr,
    task: AbortHandle,
}

impl Drop for Served {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl ServedCatalogs {
    /// Serves an index for a catalog, instead of the one before; says where.
    pub fn serve(&self, key: &CatalogKey, index: Arc<Index>) -> Result<SocketAddr, Error> {
        let io = |error| Error::Io { what: format!("serving catalog {key}"), error };
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let listener = match all.get(key) {
            Some(served) => served.listener.try_clone().map_err(io)?,
            None => TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(io)?,
        };
        let address = listener.local_addr().map_err(io)?;
        listener.set_nonblocking(true).map_err(io)?;
        let accepting = tokio::net::TcpListener::from_std(listener.try_clone().map_err(io)?).map_err(io)?;
        let server = CatalogServer::new(index);
        let task = tokio::spawn(async move {
            if let Err(error) = serve(server, accepting, std::future::pending()).await {
                tracing::warn!(%error, "a catalog is not served any more");
            }
        });
        all.insert(key.clone(), Served { listener, address, task: task.abort_handle() });
        Ok(address)
    }

    pub fn address(&self, key: &CatalogKey) -> Option<SocketAddr> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(key).map(|served| served.address)
    }

    pub fn stop(&self, key: &CatalogKey) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }
}
