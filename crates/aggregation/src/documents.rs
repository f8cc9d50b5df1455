//! What the server behind an APIService says about itself: its part of discovery and its OpenAPI documents, as they were
//! last fetched.

use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::{ArcSwap, ArcSwapOption};

use crate::discovery::ApiVersionDiscovery;
use crate::openapi::Spec;

/// Whether a part of discovery is what its server says now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    Current,
    /// The server cannot be asked.
    Stale,
}

impl Freshness {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Current => "Current",
            Self::Stale => "Stale",
        }
    }
}

/// What is known of a remote group version.
pub struct Discovered {
    pub version: Arc<ApiVersionDiscovery>,
    pub freshness: Freshness,
}

/// The documents of one APIService. Read by requests, replaced by its keeper.
pub struct Documents {
    discovered: ArcSwap<Discovered>,
    /// The version 3 documents by name, with the addresses of their present content.
    openapi_v3: ArcSwap<BTreeMap<String, String>>,
    openapi_v2: ArcSwapOption<Spec>,
    /// The version 3 document, made of that of version 2 for a server that has none itself.
    converted_v3: ArcSwapOption<Spec>,
}

impl Default for Documents {
    fn default() -> Self {
        let nothing = Discovered { version: Arc::default(), freshness: Freshness::Stale };
        Self {
            discovered: ArcSwap::from_pointee(nothing),
            openapi_v3: ArcSwap::default(),
            openapi_v2: ArcSwapOption::empty(),
            converted_v3: ArcSwapOption::empty(),
        }
    }
}

impl Documents {
    /// What the server serves of the group version.
    pub fn discovered(&self) -> Arc<Discovered> {
        self.discovered.load_full()
    }

    /// Its version 3 documents: names and addresses.
    pub fn openapi_v3(&self) -> Arc<BTreeMap<String, String>> {
        self.openapi_v3.load_full()
    }

    /// The version 2 document, as far as it is about the group version.
    pub fn openapi_v2(&self) -> Option<Arc<Spec>> {
        self.openapi_v2.load_full()
    }

    /// The version 3 document that we made ourselves, if we had to.
    pub fn converted_v3(&self) -> Option<Arc<Spec>> {
        self.converted_v3.load_full()
    }

    pub(crate) fn set_discovered(&self, version: Arc<ApiVersionDiscovery>, freshness: Freshness) {
        self.discovered.store(Arc::new(Discovered { version, freshness }));
    }

    /// Says that the server cannot be asked; what it said before stays.
    pub(crate) fn set_stale(&self) {
        let before = self.discovered.load();
        if before.freshness == Freshness::Current {
            self.set_discovered(before.version.clone(), Freshness::Stale);
        }
    }

    pub(crate) fn set_openapi_v3(&self, paths: BTreeMap<String, String>) {
        if **self.openapi_v3.load() != paths {
            self.openapi_v3.store(Arc::new(paths));
        }
    }

    pub(crate) fn set_openapi_v2(&self, spec: Option<Arc<Spec>>) {
        self.openapi_v2.store(spec);
    }

    pub(crate) fn set_converted_v3(&self, spec: Option<Arc<Spec>>) {
        self.converted_v3.store(spec);
    }
}
