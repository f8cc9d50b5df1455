//! Whether the server behind an APIService can be used, found out as upstream does: where is it, and does it answer for
//! the group version it is registered for. Several attempts run at once and one success is enough.

use std::borrow::Cow;
use std::time::Duration;

use bailiwick_webhook::services::ServiceError;
use http::header::HeaderMap;
use tokio::task::JoinSet;

use crate::call::{self, AGGREGATOR};
use crate::route::{Route, Unreachable};

/// Attempts that are made at once: behind one name there may be several servers.
const ATTEMPTS: usize = 5;
/// How long an attempt may take.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(5);

/// The status of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConditionStatus {
    True,
    False,
    Unknown,
}

impl ConditionStatus {
    pub fn parse(text: &str) -> Self {
        match text {
            "True" => Self::True,
            "False" => Self::False,
            _ => Self::Unknown,
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

/// The condition `Available`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    pub status: ConditionStatus,
    pub reason: Cow<'static, str>,
    pub message: String,
}

impl Condition {
    fn unavailable(reason: &'static str, message: String) -> Self {
        Self { status: ConditionStatus::False, reason: reason.into(), message }
    }

    fn passed() -> Self {
        Self { status: ConditionStatus::True, reason: "Passed".into(), message: "all checks passed".into() }
    }
}

/// Looks whether the server behind a route can be used. `None` if it cannot be told because of how it is configured,
/// which upstream leaves without a condition.
pub(crate) async fn check(route: &Route) -> Option<Condition> {
    let service = &route.remote().service;
    let backend = match route.backend().await {
        Ok(backend) => backend,
        Err(Unreachable::Service(error)) => {
            let (name, namespace) = (&service.name, &service.namespace);
            return Some(match error {
                ServiceError::NotFound(_) => {
                    Condition::unavailable("ServiceNotFound", format!("service/{name} in {namespace:?} is not present"))
                }
                ServiceError::NoPort(_) => Condition::unavailable(
                    "ServicePortError",
                    format!("service/{name} in {namespace:?} is not listening on port {}", service.port),
                ),
                ServiceError::NoEndpoints(_) => Condition::unavailable(
                    "EndpointsNotFound",
                    format!("cannot find endpointslices for service/{name} in {namespace:?}"),
                ),
                ServiceError::Unusable(reason) => Condition {
                    status: ConditionStatus::Unknown,
                    reason: "ServiceAccessError".into(),
                    message: format!("service/{name} in {namespace:?} cannot be checked due to: {reason}"),
                },
            });
        }
        Err(Unreachable::Transport(_)) => return None,
    };
    let path = route.service().path();
    let mut attempts = JoinSet::new();
    for attempt in 0..ATTEMPTS {
        // The next one may be another of several.
        let backend = match attempt {
            0 => backend.clone(),
            _ => route.backend().await.unwrap_or_else(|_| backend.clone()),
        };
        let path = path.clone();
        attempts.spawn(async move {
            let head = call::head(&backend, &path, &AGGREGATOR, HeaderMap::new());
            (format!("{}{path}", backend.base()), tokio::time::timeout(ATTEMPT_TIMEOUT, head).await)
        });
    }
    let mut last = String::new();
    while let Some(outcome) = attempts.join_next().await {
        let (url, outcome) = match outcome {
            Ok(outcome) => outcome,
            Err(failed) => {
                last = failed.to_string();
                continue;
            }
        };
        last = match outcome {
            Ok(Ok(status)) if status.is_success() => return Some(Condition::passed()),
            Ok(Ok(status)) => {
                let bad = format!("bad status from {url}: {}", status.as_u16());
                format!("failing or missing response from {url}: {bad}")
            }
            Ok(Err(error)) => format!("failing or missing response from {url}: Get {url:?}: {error}"),
            Err(_) => format!(
                "failing or missing response from {url}: Get {url:?}: context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
            ),
        };
    }
    Some(Condition::unavailable("FailedDiscoveryCheck", last))
}
