//! EventRateLimit, off by default: no more Events per second than a configuration file allows for the server, a
//! namespace, a user or a source. Control planes share what is the server's; namespaces, users and sources are each one's
//! own.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use async_trait::async_trait;
use bailiwick_machinery::ApiError;
use bailiwick_machinery::field::{Error, ErrorList, Path};
use bailiwick_machinery::object::str_at;
use bailiwick_machinery::status::ApiResult;
use serde_json::Value;

use crate::attributes::{Attributes, DryRun, Operation};
use crate::cel_request::aggregate;
use crate::chain::{Effects, Lookup, Phase, Plugin};

/// Buckets remembered per limit that does not say how many.
const DEFAULT_CACHE_SIZE: usize = 4096;

/// The plugin.
pub struct EventRateLimit {
    limits: Vec<Limit>,
}

struct Limit {
    kind: LimitKind,
    qps: f64,
    burst: f64,
    cache_size: usize,
    buckets: Arc<Mutex<Buckets>>,
}

/// What shares a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LimitKind {
    Server,
    Namespace,
    User,
    SourceAndObject,
}

impl LimitKind {
    const NAMES: [&'static str; 4] = ["Namespace", "Server", "SourceAndObject", "User"];

    fn parse(text: &str) -> Option<Self> {
        match text {
            "Server" => Some(Self::Server),
            "Namespace" => Some(Self::Namespace),
            "User" => Some(Self::User),
            "SourceAndObject" => Some(Self::SourceAndObject),
            _ => None,
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Server => "Server",
            Self::Namespace => "Namespace",
            Self::User => "User",
            Self::SourceAndObject => "SourceAndObject",
        }
    }

    fn key(self, attributes: &Attributes<'_>) -> String {
        match self {
            Self::Server => String::new(),
            Self::Namespace => attributes.namespace.to_owned(),
            Self::User => attributes.user.name.clone(),
            Self::SourceAndObject => {
                let Some(event) = attributes.object.as_deref() else { return String::new() };
                let source = ["component", "host"].map(|field| str_at(event, &["source", field]));
                let object = ["kind", "namespace", "name", "uid", "apiVersion"];
                let object = object.map(|field| str_at(event, &["involvedObject", field]));
                source.into_iter().chain(object).collect()
            }
        }
    }
}

/// Token buckets by key, the least recently used of which is forgotten when there are too many.
#[derive(Default)]
struct Buckets {
    by_key: HashMap<String, Bucket>,
    by_use: BTreeMap<u64, String>,
    uses: u64,
}

struct Bucket {
    tokens: f64,
    filled: Instant,
    used: u64,
}

impl Limit {
    /// Takes a token from the bucket of `key`, if there is one.
    fn accept(&self, key: &str, now: Instant) -> bool {
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        let buckets = &mut *buckets;
        buckets.uses += 1;
        let used = buckets.uses;
        let bucket = match buckets.by_key.get_mut(key) {
            Some(bucket) => {
                buckets.by_use.remove(&bucket.used);
                bucket
            }
            None => {
                if buckets.by_key.len() >= self.cache_size
                    && let Some((_, oldest)) = buckets.by_use.pop_first()
                {
                    buckets.by_key.remove(&oldest);
                }
                buckets.by_key.entry(key.to_owned()).or_insert(Bucket { tokens: self.burst, filled: now, used })
            }
        };
        bucket.used = used;
        buckets.by_use.insert(used, key.to_owned());
        let elapsed = now.saturating_duration_since(bucket.filled).as_secs_f64();
        bucket.tokens = (bucket.tokens + elapsed * self.qps).min(self.burst);
        bucket.filled = now;
        let has_token = bucket.tokens >= 1.0;
        if has_token {
            bucket.tokens -= 1.0;
        }
        has_token
    }
}

impl EventRateLimit {
    /// From a Configuration of eventratelimit.admission.k8s.io, which must name limits.
    pub fn from_configuration(configuration: Option<&Value>) -> Result<Self, String> {
        let given = configuration.and_then(|configuration| configuration.get("limits")?.as_array());
        let given = given.map(Vec::as_slice).unwrap_or_default();
        let path = Path::new("limits");
        let mut errors = ErrorList::new();
        if given.is_empty() {
            errors.push(Error::invalid(&path, Value::Null, "must not be empty"));
        }
        let mut limits = Vec::new();
        for (index, limit) in given.iter().enumerate() {
            let path = path.index(index);
            let number = |field: &str| limit.get(field).and_then(Value::as_i64).unwrap_or_default();
            let name = limit.get("type").and_then(Value::as_str).unwrap_or_default();
            let kind = LimitKind::parse(name);
            if kind.is_none() {
                errors.push(Error::not_supported(&path.child("type"), name, &LimitKind::NAMES));
            }
            for field in ["burst", "qps"] {
                if number(field) <= 0 {
                    errors.push(Error::invalid(&path.child(field), number(field), "must be positive"));
                }
            }
            if kind != Some(LimitKind::Server) && number("cacheSize") < 0 {
                errors.push(Error::invalid(&path.child("cacheSize"), number("cacheSize"), "must not be negative"));
            }
            limits.extend(kind.map(|kind| Limit {
                kind,
                qps: number("qps") as f64,
                burst: number("burst") as f64,
                cache_size: usize::try_from(number("cacheSize")).ok().filter(|n| *n > 0).unwrap_or(DEFAULT_CACHE_SIZE),
                buckets: Arc::default(),
            }));
        }
        if errors.is_empty() {
            return Ok(Self { limits });
        }
        Err(aggregate(errors.iter().map(ToString::to_string).collect()))
    }

    /// The same limits for another control plane.
    #[must_use]
    pub fn fork(&self) -> Self {
        let fork = |limit: &Limit| Limit {
            buckets: match limit.kind {
                LimitKind::Server => limit.buckets.clone(),
                LimitKind::Namespace | LimitKind::User | LimitKind::SourceAndObject => Arc::default(),
            },
            ..*limit
        };
        Self { limits: self.limits.iter().map(fork).collect() }
    }

    fn check(&self, attributes: &Attributes<'_>, now: Instant) -> ApiResult<()> {
        let mut exceeded = Vec::new();
        for limit in &self.limits {
            let key = limit.kind.key(attributes);
            if !limit.accept(&key, now) {
                exceeded.push(format!("limit reached on type {} for key {key}", limit.kind.as_str()));
            }
        }
        if exceeded.is_empty() {
            return Ok(());
        }
        Err(ApiError::new(429, "TooManyRequests", format!("Too many requests: {}", aggregate(exceeded))))
    }
}

#[async_trait]
impl Plugin for EventRateLimit {
    fn name(&self) -> &'static str {
        "EventRateLimit"
    }

    fn handles(&self, operation: Operation, phase: Phase) -> bool {
        phase == Phase::Validate && matches!(operation, Operation::Create | Operation::Update)
    }

    fn concerns(&self, attributes: &Attributes<'_>) -> bool {
        attributes.is_kind("", "Event") && attributes.dry_run == DryRun::No
    }

    async fn validate(&self, attributes: &Attributes<'_>, _: &dyn Lookup, _: &mut Effects) -> ApiResult<()> {
        self.check(attributes, Instant::now())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bailiwick_machinery::UserInfo;
    use serde_json::json;

    use super::*;
    use crate::testing::{request, resource};

    fn limit(kind: &str, cache_size: i64) -> EventRateLimit {
        let limits = json!({"limits": [{"type": kind, "qps": 1, "burst": 2, "cacheSize": cache_size}]});
        EventRateLimit::from_configuration(Some(&limits)).expect("a configuration")
    }

    fn allowed(limit: &EventRateLimit, user: &str, now: Instant) -> Result<(), String> {
        let events = resource("", "Event", "events");
        let user = UserInfo { name: user.into(), ..UserInfo::default() };
        let mut event = json!({"involvedObject": {"name": "x"}});
        let attributes = request(Operation::Create, &events, &user, "e", Some(&mut event));
        limit.check(&attributes, now).map_err(|error| error.message)
    }

    #[test]
    fn a_burst_is_allowed_and_then_only_the_rate() {
        let (limit, start) = (limit("User", 0), Instant::now());
        assert_eq!(allowed(&limit, "a", start), Ok(()));
        assert_eq!(allowed(&limit, "a", start), Ok(()));
        assert_eq!(
            allowed(&limit, "a", start),
            Err("Too many requests: limit reached on type User for key a".to_owned())
        );
        assert_eq!(allowed(&limit, "b", start), Ok(()), "others have their own");
        assert_eq!(allowed(&limit, "a", start + Duration::from_secs(1)), Ok(()));
        assert!(allowed(&limit, "a", start + Duration::from_secs(1)).is_err());
    }

    #[test]
    fn control_planes_share_the_servers_limit_and_no_other() {
        let now = Instant::now();
        let spend = |limit: &EventRateLimit| {
            assert_eq!(allowed(limit, "a", now), Ok(()));
            assert_eq!(allowed(limit, "a", now), Ok(()));
            assert!(allowed(limit, "a", now).is_err());
        };
        for kind in ["Namespace", "User", "SourceAndObject"] {
            let root = limit(kind, 0);
            spend(&root);
            spend(&root.fork());
        }
        let root = limit("Server", 0);
        spend(&root);
        assert!(allowed(&root.fork(), "b", now).is_err());
    }

    #[test]
    fn a_forgotten_bucket_starts_anew() {
        let (limit, now) = (limit("User", 1), Instant::now());
        for _ in 0..3 {
            assert_eq!(allowed(&limit, "a", now), Ok(()));
            assert_eq!(allowed(&limit, "b", now), Ok(()));
        }
    }

    #[test]
    fn configurations_must_make_sense() {
        let fault = |limits: Value| {
            EventRateLimit::from_configuration(Some(&json!({"limits": limits}))).err().expect("a fault")
        };
        assert_eq!(fault(json!([])), "limits: Invalid value: null: must not be empty");
        assert_eq!(
            fault(json!([{"type": "Other", "qps": 0, "burst": 1}])),
            "[limits[0].type: Unsupported value: \"Other\": supported values: \"Namespace\", \"Server\", \"SourceAndObject\", \
             \"User\", limits[0].qps: Invalid value: 0: must be positive]"
        );
    }
}
