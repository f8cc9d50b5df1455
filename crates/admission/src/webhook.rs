//! Admission webhooks: stored configurations as an index, and the two plugins that call what they name.
//!
//! [`WebhookIndex`] is fed with configurations as they are stored and is current with the next request. A server without
//! webhooks pays one atomic load per write.

mod call;
mod hook;
mod metrics;
mod mutating;
mod review;
#[cfg(test)]
mod tests;
mod validating;
mod waiting;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use serde_json::Value;

use crate::attributes::Operation;
use bailiwick_webhook::services::ServiceResolver;
use hook::Hook;

pub use metrics::WebhookMetrics;
pub use mutating::MutatingWebhooks;
pub use validating::ValidatingWebhooks;
pub use waiting::calls_measured;

/// The two kinds of webhooks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WebhookKind {
    Mutating,
    Validating,
}

impl WebhookKind {
    /// The kind of a resource of admissionregistration.k8s.io.
    pub fn from_plural(plural: &str) -> Option<Self> {
        match plural {
            "mutatingwebhookconfigurations" => Some(Self::Mutating),
            "validatingwebhookconfigurations" => Some(Self::Validating),
            _ => None,
        }
    }

    /// As metrics call it.
    fn metrics_type(self) -> &'static str {
        match self {
            Self::Mutating => "admit",
            Self::Validating => "validating",
        }
    }
}

/// A change of a stored configuration.
#[derive(Clone, Copy, Debug)]
pub enum ConfigurationChange<'a> {
    Stored(&'a Value),
    Deleted { name: &'a str },
}

/// All webhooks of one kind, by the names of their configurations and in these in their own order.
#[derive(Clone)]
pub struct WebhookIndex {
    inner: Arc<Inner>,
}

/// The webhooks of one configuration.
type Hooks = Arc<[Arc<Hook>]>;

struct Inner {
    kind: WebhookKind,
    /// Knows where services are that configurations name.
    services: Arc<dyn ServiceResolver>,
    configurations: Mutex<BTreeMap<Box<str>, Hooks>>,
    hooks: ArcSwap<Vec<Arc<Hook>>>,
    /// One bit for each operation that some webhook is about.
    operations: AtomicU8,
}

const OPERATIONS: [Operation; 4] = [Operation::Create, Operation::Update, Operation::Delete, Operation::Connect];

fn bit(operation: Operation) -> u8 {
    match operation {
        Operation::Create => 1,
        Operation::Update => 2,
        Operation::Delete => 4,
        Operation::Connect => 8,
    }
}

impl WebhookIndex {
    /// No webhooks yet; `services` knows where those are that configurations name as services.
    pub fn new(kind: WebhookKind, services: Arc<dyn ServiceResolver>) -> Self {
        Self {
            inner: Arc::new(Inner {
                kind,
                services,
                configurations: Mutex::default(),
                hooks: ArcSwap::default(),
                operations: AtomicU8::new(0),
            }),
        }
    }

    pub fn kind(&self) -> WebhookKind {
        self.inner.kind
    }

    /// Takes a change of the configurations. Their expressions are compiled here, once.
    pub fn apply(&self, change: ConfigurationChange<'_>) {
        let inner = &self.inner;
        let mut configurations = inner.configurations.lock().unwrap_or_else(PoisonError::into_inner);
        match change {
            ConfigurationChange::Deleted { name } => drop(configurations.remove(name)),
            ConfigurationChange::Stored(configuration) => {
                let name = bailiwick_machinery::object::name(configuration);
                configurations.insert(name.into(), Hook::all_of(configuration, inner.kind, &inner.services));
            }
        }
        let hooks: Vec<Arc<Hook>> = configurations.values().flat_map(|hooks| hooks.iter().cloned()).collect();
        let concerned = |operation: &Operation| hooks.iter().any(|hook| hook.criteria.concerns(*operation));
        let operations = OPERATIONS.into_iter().filter(concerned).fold(0, |bits, operation| bits | bit(operation));
        inner.hooks.store(Arc::new(hooks));
        inner.operations.store(operations, Ordering::Release);
    }

    /// Whether any webhook is about this operation.
    fn concerns(&self, operation: Operation) -> bool {
        self.inner.operations.load(Ordering::Acquire) & bit(operation) != 0
    }

    fn hooks(&self) -> arc_swap::Guard<Arc<Vec<Arc<Hook>>>> {
        self.inner.hooks.load()
    }
}
