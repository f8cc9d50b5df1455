//! `/healthz`, `/livez` and `/readyz` with their named checks.

use crate::server::ApiServer;
use bailiwick_machinery::query::Query;

/// Which question is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endpoint {
    Healthz,
    Livez,
    Readyz,
}

impl Endpoint {
    fn name(self) -> &'static str {
        match self {
            Self::Healthz => "healthz",
            Self::Livez => "livez",
            Self::Readyz => "readyz",
        }
    }

    /// The endpoint and the single check, if the path names one.
    pub fn of_path(path: &str) -> Option<(Self, &str)> {
        [Self::Healthz, Self::Livez, Self::Readyz].into_iter().find_map(|endpoint| {
            let rest = path.strip_prefix('/')?.strip_prefix(endpoint.name())?;
            match rest.strip_prefix('/') {
                Some(check) => Some((endpoint, check)),
                None => rest.is_empty().then_some((endpoint, "")),
            }
        })
    }

    /// The checks behind this endpoint. The store is called `etcd` whatever the engine: that is the name probes exclude by.
    pub fn checks(self) -> &'static [&'static str] {
        match self {
            Self::Healthz | Self::Livez => &["ping", "log", "etcd", "cache-feed"],
            Self::Readyz => &["ping", "log", "etcd", "cache-feed", "shutdown"],
        }
    }
}

/// The check of key services for encryption at rest, where there are any.
const KEY_SERVICES: &str = "kms-providers";

/// A plain-text answer: status and text.
pub async fn answer(server: &ApiServer, endpoint: Endpoint, single: &str, query: &Query) -> (u16, String) {
    let mut checks = endpoint.checks().to_vec();
    if server.config.encryption.as_ref().is_some_and(|encryption| encryption.has_key_services()) {
        checks.push(KEY_SERVICES);
    }
    if !single.is_empty() {
        if !checks.contains(&single) {
            return (404, "404 page not found\n".to_owned());
        }
        return match run(server, single).await {
            Ok(()) => (200, "ok".to_owned()),
            Err(reason) => (500, format!("internal server error: {reason}\n")),
        };
    }
    let excluded: Vec<&str> = query.all("exclude").collect();
    let mut report = String::new();
    let mut failed = Vec::new();
    for check in &checks {
        if excluded.contains(check) {
            report.push_str(&format!("[+]{check} excluded: ok\n"));
            continue;
        }
        match run(server, check).await {
            Ok(()) => report.push_str(&format!("[+]{check} ok\n")),
            Err(reason) => {
                tracing::warn!(check, reason, "health check failed");
                failed.push(*check);
                report.push_str(&format!("[-]{check} failed: reason withheld\n"));
            }
        }
    }
    for unknown in excluded.iter().filter(|name| !checks.contains(name)) {
        report.push_str(&format!("warn: some health checks cannot be excluded: no matches for {unknown:?}\n"));
    }
    let name = endpoint.name();
    if !failed.is_empty() {
        return (500, format!("{report}{name} check failed\n"));
    }
    if query.get("verbose").is_some() {
        (200, format!("{report}{name} check passed\n"))
    } else {
        (200, "ok".to_owned())
    }
}

async fn run(server: &ApiServer, check: &str) -> Result<(), String> {
    match check {
        "etcd" => server.caches.store().revision().await.map(drop).map_err(|error| error.to_string()),
        "cache-feed" => {
            let waited = tokio::time::timeout(std::time::Duration::from_secs(2), server.caches.wait_current()).await;
            match waited {
                Ok(Ok(_)) => Ok(()),
                Ok(Err(error)) => Err(error.to_string()),
                Err(_) => Err("caches do not follow the store".to_owned()),
            }
        }
        KEY_SERVICES => match &server.config.encryption {
            Some(encryption) => encryption.health().await,
            None => Ok(()),
        },
        "shutdown" if server.is_shutting_down() => Err("process is shutting down".to_owned()),
        _ => Ok(()),
    }
}
