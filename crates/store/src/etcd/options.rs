//! How to reach an etcd cluster and which part of its key space is ours.

use std::path::Path;
use std::time::Duration;

use crate::{Error, Result};

/// kube-apiserver waits this long for etcd at start, too; a cluster that takes longer needs an operator, not patience.
pub const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_secs(20);
/// Above the 7 s after which an etcd member itself gives up on a proposal, so that its verdict reaches the caller.
pub const DEFAULT_REQUEST_TIMEOUT: Duration = Duration::from_secs(15);
/// History kept is between one and two intervals: as kube-apiserver's `--etcd-compaction-interval`.
pub const DEFAULT_COMPACTION_INTERVAL: Duration = Duration::from_secs(300);

/// Where the cluster is and how to talk to it. etcd 3.5.8 or newer: older ones can report watch progress too early.
#[derive(Clone, Debug)]
pub struct Options {
    /// Client URLs of any number of members of one cluster. Without a scheme, `https` if [`Options::tls`] is set, else `http`.
    pub endpoints: Vec<String>,
    /// Put before every key, and never seen outside this engine. Not empty: etcd also holds the compaction marker.
    pub prefix: String,
    pub tls: Option<Tls>,
    /// How long [`super::EtcdStore::connect`] tries to reach a healthy member.
    pub connect_timeout: Duration,
    /// How long one request may take, failover to other members included.
    pub request_timeout: Duration,
    pub compaction: Compaction,
}

impl Options {
    /// Defaults for everything but the endpoints.
    pub fn new<E: Into<String>>(endpoints: impl IntoIterator<Item = E>) -> Self {
        Self {
            endpoints: endpoints.into_iter().map(Into::into).collect(),
            prefix: "/bailiwick/".into(),
            tls: None,
            connect_timeout: DEFAULT_CONNECT_TIMEOUT,
            request_timeout: DEFAULT_REQUEST_TIMEOUT,
            compaction: Compaction::Every(DEFAULT_COMPACTION_INTERVAL),
        }
    }
}

/// Whether this server takes part in compacting history on its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compaction {
    /// Somebody else does it, or nobody.
    Off,
    /// Every so often one of all servers that share the cluster forgets what is older than one interval.
    Every(Duration),
}

/// Certificates in PEM form.
#[derive(Clone, Default)]
pub struct Tls {
    /// Who may vouch for the members. `None` trusts nobody: the machine's own roots are no authority on etcd.
    pub ca: Option<Vec<u8>>,
    /// Who we are, for clusters that ask for client certificates.
    pub identity: Option<Identity>,
}

/// A client certificate with its key, in PEM form.
#[derive(Clone)]
pub struct Identity {
    pub certificate: Vec<u8>,
    pub key: Vec<u8>,
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { ca, identity } = self;
        f.debug_struct("Tls").field("ca", &ca.is_some()).field("identity", &identity.is_some()).finish()
    }
}

impl Tls {
    /// Reads the files named by `--etcd-cafile`, `--etcd-certfile` and `--etcd-keyfile`.
    pub fn read(ca: Option<&Path>, certificate: Option<&Path>, key: Option<&Path>) -> Result<Self> {
        let read = |path: &Path| {
            std::fs::read(path).map_err(|e| Error::InvalidRequest(format!("cannot read {}: {e}", path.display())))
        };
        let identity = match (certificate, key) {
            (Some(certificate), Some(key)) => Some(Identity { certificate: read(certificate)?, key: read(key)? }),
            (None, None) => None,
            _ => return Err(Error::InvalidRequest("etcd client certificate and key must be given together".into())),
        };
        Ok(Self { ca: ca.map(read).transpose()?, identity })
    }
}
