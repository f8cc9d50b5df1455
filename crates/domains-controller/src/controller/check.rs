//! Runs a DomainCheck once, within its tenant's quota, and removes it when its time is over.

use std::collections::BTreeSet;
use std::time::Duration;

use bailiwick_controllers::work_queue::Outcome;
use bailiwick_domains::check::{self, Check, CheckError, Report};
use bailiwick_domains::name::DomainName;
use bailiwick_domains::plan::{Host, service};
use bailiwick_domains::quote::cut;
use bailiwick_domains::report::Style;
use http::Request;
use http::header::CONTENT_TYPE;
use jiff::Timestamp;
use kube::api::{ApiResource, DeleteParams, DynamicObject, ListParams, Preconditions};
use kube::core::GroupVersionKind;
use kube::{Api, ResourceExt};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Context;
use crate::Error;
use crate::definition::{TTL_DEFAULT_SECONDS, checks, domains};
use crate::index::Key;

/// A zone check of many slow servers takes half of it.
const CHECK_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a check may wait for its tenant's rate.
const WAIT_MAX: Duration = Duration::from_secs(600);
/// Domains whose proofs are put into one plan.
const PROOFS_MAX: usize = 16;
/// Bytes of the result that are kept; an object has a limit, and so has patience.
const RESULT_BYTES_MAX: usize = 512 * 1024;
/// Bytes of the report and of a sentence, as the definition has them.
const REPORT_BYTES_MAX: usize = 256 * 1024;
const SENTENCE_BYTES_MAX: usize = 8 * 1024;

/// What a check's object says besides the tool's arguments.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Rest {
    gateway: Option<String>,
    vantage_points: Option<Vec<String>>,
    ttl_seconds_after_finished: Option<u32>,
}

/// What is written back.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct CheckStatus {
    phase: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    start_time: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    completion_time: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    summary: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    report: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<Value>,
}

/// Why a check is not run.
struct Refusal {
    reason: &'static str,
    message: String,
}

impl Context {
    /// Works on one check, and says when to come back.
    pub(super) async fn check(&self, key: &Key) -> Result<Outcome, Error> {
        let Some(object) = self.read(&checks(), key).await? else {
            self.index().checks.remove(key);
            return Ok(Outcome::Done);
        };
        if object.metadata.deletion_timestamp.is_some() {
            return Ok(Outcome::Done);
        }
        let status: CheckStatus = serde_json::from_value(object.data["status"].clone()).unwrap_or_default();
        let rest: Rest = serde_json::from_value(object.data["spec"].clone()).unwrap_or_default();
        if let Some(ended) = status.completion_time {
            return self.remove_in_time(key, &object, &rest, ended).await;
        }
        let now = self.now();
        let mut status = CheckStatus { start_time: Some(status.start_time.unwrap_or(now)), ..status };
        let mut check = match self.admit(key, &object) {
            Ok(check) => check,
            Err(refusal) => {
                let tool = tool_of(&object);
                self.options.metrics.refused(tool, refusal.reason);
                return self.finish(key, &object, &rest, status, Err(refusal)).await;
            }
        };
        if let Err(wait) = self.take_turn(key, now) {
            let waited = now.duration_since(object.creation_timestamp().map_or(now, |time| time.0));
            if Duration::try_from(waited).unwrap_or_default() + wait > WAIT_MAX {
                self.options.metrics.refused(check.tool(), "QuotaExceeded");
                let message = format!("{} has had more checks run than its quota allows", key.tenant());
                let refusal = Refusal { reason: "QuotaExceeded", message };
                return self.finish(key, &object, &rest, status, Err(refusal)).await;
            }
            if status.phase != "Pending" {
                let per_minute = self.options.checks_per_minute;
                status.phase = "Pending".to_owned();
                status.reason = Some("QuotaExceeded".to_owned());
                status.message =
                    Some(format!("{} may have {per_minute} checks run in a minute; this one waits", key.tenant()));
                self.write_check(key, &object, &status).await?;
            }
            return Ok(Outcome::After(wait));
        }
        if status.phase != "Running" {
            status =
                CheckStatus { phase: "Running".to_owned(), start_time: status.start_time, ..CheckStatus::default() };
            self.write_check(key, &object, &status).await?;
        }
        if let (Check::Plan { objects, .. }, Some(gateway)) = (&mut check, &rest.gateway) {
            match self.gateway(key, gateway).await {
                Ok(found) => *objects = found,
                Err(message) => {
                    let refusal = Refusal { reason: "GatewayNotFound", message };
                    return self.finish(key, &object, &rest, status, Err(refusal)).await;
                }
            }
            // The names that a Gateway brings are names that are asked about.
            if let Err(refusal) = self.opted_in(&check) {
                self.options.metrics.refused(check.tool(), refusal.reason);
                return self.finish(key, &object, &rest, status, Err(refusal)).await;
            }
        }
        let domains = self.domains_of(key, &check).await;
        if let Check::Plan { objects, .. } = &mut check {
            objects.extend(domains);
        }
        let begin = tokio::time::Instant::now();
        let remote = self.agents.chosen(rest.vantage_points.as_deref());
        let running = check::run(&check, &self.toolbox, &remote);
        let outcome = match tokio::time::timeout(CHECK_TIMEOUT, running).await {
            Ok(Ok(report)) => Ok(report),
            Ok(Err(CheckError::Arguments(message))) => Err(Refusal { reason: "InvalidRequest", message }),
            Ok(Err(CheckError::Failed(message))) => Err(Refusal { reason: "Failed", message }),
            Err(_) => {
                let message = format!("it took longer than {} seconds", CHECK_TIMEOUT.as_secs());
                Err(Refusal { reason: "Timeout", message })
            }
        };
        let word = if outcome.is_ok() { "succeeded" } else { "failed" };
        self.options.metrics.checked(check.tool(), word, begin.elapsed().as_secs_f64());
        self.finish(key, &object, &rest, status, outcome).await
    }

    /// Whether a check may run at all.
    fn admit(&self, key: &Key, object: &DynamicObject) -> Result<Check, Refusal> {
        let check: Check = serde_json::from_value(object.data["spec"].clone())
            .map_err(|error| Refusal { reason: "InvalidRequest", message: error.to_string() })?;
        let most = self.options.checks_per_tenant_max;
        if self.index().checks.is_beyond(key, most) {
            let message =
                format!("{} has {most} checks already: delete some, or wait until they are removed", key.tenant());
            return Err(Refusal { reason: "QuotaExceeded", message });
        }
        if let Some(address) = check.private_resolver().filter(|_| !self.options.roots.private_addresses) {
            let message = format!("{address} is not a public address and is not asked");
            return Err(Refusal { reason: "InvalidRequest", message });
        }
        self.opted_in(&check)?;
        Ok(check)
    }

    /// Refuses a check of a name whose owner asked not to be looked at, whoever brings the name.
    fn opted_in(&self, check: &Check) -> Result<(), Refusal> {
        match hosts_of(check).iter().find_map(|host| self.opt_out.covers(&host.base)) {
            Some(listed) => Err(Refusal { reason: "OptedOut", message: opted_out(&listed) }),
            None => Ok(()),
        }
    }

    /// The Domains of the check's own namespace that planned names are in: a plan has their proofs too. One that cannot be read
    /// is left out, as the records are good without it.
    async fn domains_of(&self, key: &Key, check: &Check) -> Vec<Value> {
        if !matches!(check, Check::Plan { .. }) {
            return Vec::new();
        }
        let mut claims: BTreeSet<Key> = BTreeSet::new();
        for host in hosts_of(check) {
            claims.extend(self.index().claims_above(&host.base, key));
        }
        let mut objects = Vec::new();
        for claim in claims.iter().take(PROOFS_MAX) {
            match self.read(&domains(), claim).await {
                Ok(found) => objects.extend(found.map(|object| json!(object))),
                Err(error) => tracing::debug!(%error, ?claim, "a plan is made without its proof"),
            }
        }
        objects
    }

    fn take_turn(&self, key: &Key, now: Timestamp) -> Result<(), Duration> {
        self.rates.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take(&key.tenant(), now)
    }

    /// A Gateway of the check's own namespace, with its routes: nobody plans with objects that they may not see.
    async fn gateway(&self, key: &Key, name: &str) -> Result<Vec<Value>, String> {
        let api = |kind: &str, plural: &str| -> Api<DynamicObject> {
            let kind = GroupVersionKind::gvk("gateway.networking.k8s.io", "v1", kind);
            let resource = ApiResource::from_gvk_with_plural(&kind, plural);
            Api::namespaced_with(self.client(&key.plane), &key.namespace, &resource)
        };
        let gateway = api("Gateway", "gateways").get_opt(name).await.map_err(|error| error.to_string())?;
        let gateway = gateway.ok_or_else(|| format!("there is no Gateway {name} in {}", key.namespace))?;
        // Routes are a type of their own that a server may lack.
        let routes = api("HTTPRoute", "httproutes").list(&ListParams::default()).await.map(|list| list.items);
        let mut objects = vec![gateway];
        objects.extend(routes.unwrap_or_default());
        for object in &mut objects {
            let is_gateway = object.data.pointer("/spec/listeners").is_some();
            let kind = if is_gateway { "Gateway" } else { "HTTPRoute" };
            object.types = Some(kube::core::TypeMeta {
                api_version: "gateway.networking.k8s.io/v1".to_owned(),
                kind: kind.to_owned(),
            });
        }
        Ok(objects.iter().map(|object| json!(object)).collect())
    }

    async fn finish(
        &self,
        key: &Key,
        object: &DynamicObject,
        rest: &Rest,
        status: CheckStatus,
        outcome: Result<Report, Refusal>,
    ) -> Result<Outcome, Error> {
        let now = self.now();
        let mut status =
            CheckStatus { completion_time: Some(now), start_time: status.start_time, ..CheckStatus::default() };
        match outcome {
            Ok(report) => {
                status.phase = "Succeeded".to_owned();
                status.summary = Some(cut(report.summary(), SENTENCE_BYTES_MAX));
                status.report = Some(cut(report.text(Style::Plain), REPORT_BYTES_MAX));
                match result(&report) {
                    Ok(value) => status.result = Some(value),
                    Err(message) => (status.reason, status.message) = (Some("ResultTooLong".to_owned()), Some(message)),
                }
            }
            Err(Refusal { reason, message }) => {
                status.phase = "Failed".to_owned();
                status.reason = Some(reason.to_owned());
                let message = cut(message, SENTENCE_BYTES_MAX);
                status.summary = Some(message.clone());
                status.message = Some(message);
            }
        }
        self.write_check(key, object, &status).await?;
        Ok(Outcome::After(time_to_live(rest)))
    }

    async fn write_check(&self, key: &Key, object: &DynamicObject, status: &CheckStatus) -> Result<(), Error> {
        let client = self.client(&key.plane);
        let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), &key.namespace, &checks());
        // The whole status, with whatever the result has in it: a merge would take what is null for absent. The uid says that
        // it is still this object.
        let patch = json!([
            {"op": "test", "path": "/metadata/uid", "value": object.uid()},
            {"op": "add", "path": "/status", "value": status},
        ]);
        let request = Request::patch(format!("{}/{}/status", api.resource_url(), key.name))
            .header(CONTENT_TYPE, "application/json-patch+json")
            .body(patch.to_string().into_bytes())
            .map_err(kube::Error::HttpError)?;
        match client.request::<Value>(request).await {
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
            other => Ok(other.map(|_| ())?),
        }
    }

    async fn remove_in_time(
        &self,
        key: &Key,
        object: &DynamicObject,
        rest: &Rest,
        ended: Timestamp,
    ) -> Result<Outcome, Error> {
        let age = Duration::try_from(self.now().duration_since(ended)).unwrap_or_default();
        let left = time_to_live(rest).saturating_sub(age);
        if !left.is_zero() {
            return Ok(Outcome::After(left));
        }
        let api: Api<DynamicObject> = Api::namespaced_with(self.client(&key.plane), &key.namespace, &checks());
        let same = Preconditions { uid: object.uid(), resource_version: None };
        let parameters = DeleteParams { preconditions: Some(same), ..DeleteParams::default() };
        match api.delete(&key.name, &parameters).await {
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(Outcome::Done),
            other => Ok(other.map(|_| Outcome::Done)?),
        }
    }
}

/// The names that a check asks about, those that objects bring among them.
fn hosts_of(check: &Check) -> Vec<Host> {
    let named = check.names().into_iter().filter_map(|name| Host::parse(name).ok());
    let of_objects = match check {
        // Objects that cannot be read are refused by the tool, with the reason.
        Check::Plan { objects, .. } if !objects.is_empty() => service::wishes(objects).unwrap_or_default(),
        _ => Vec::new(),
    };
    named.chain(of_objects.into_iter().map(|wish| wish.host)).collect()
}

pub(super) fn opted_out(listed: &DomainName) -> String {
    format!("{listed} is on the opt-out list: its owner asked not to be looked at")
}

fn time_to_live(rest: &Rest) -> Duration {
    Duration::from_secs(u64::from(rest.ttl_seconds_after_finished.unwrap_or(TTL_DEFAULT_SECONDS)))
}

/// The tool as metrics know it; a word of ours, whatever was written.
fn tool_of(object: &DynamicObject) -> &'static str {
    let check: Result<Check, _> = serde_json::from_value(object.data["spec"].clone());
    check.map_or("unknown", |check| check.tool())
}

/// The result as it is kept: whole if it can be, else without packets, else not at all.
fn result(report: &Report) -> Result<Value, String> {
    let mut value = serde_json::to_value(report).map_err(|error| error.to_string())?;
    let size = |value: &Value| serde_json::to_vec(value).map_or(usize::MAX, |bytes| bytes.len());
    if size(&value) > RESULT_BYTES_MAX {
        drop_packets(&mut value);
    }
    match size(&value) {
        bytes if bytes > RESULT_BYTES_MAX => Err(format!(
            "the result has {bytes} bytes and is not kept; the report is, and `bailiwick dns` prints it whole"
        )),
        _ => Ok(value),
    }
}

/// Levels of the results of all tools, and some more.
const DEPTH_MAX: usize = 32;

fn drop_packets(value: &mut Value) {
    fn walk(value: &mut Value, depth: usize) {
        if depth == 0 {
            return;
        }
        match value {
            Value::Object(map) => {
                // A trace calls it the one, a finding's evidence the other; digests stay.
                map.remove("wire");
                map.remove("packet");
                map.values_mut().for_each(|value| walk(value, depth - 1));
            }
            Value::Array(list) => list.iter_mut().for_each(|value| walk(value, depth - 1)),
            _ => {}
        }
    }
    walk(value, DEPTH_MAX);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_go_and_everything_else_stays() {
        let mut value = json!({
            "steps": [{"servers": [{"wire": "AAAA", "says": "ok"}]}],
            "findings": [{"evidence": [{"packet": "AAAA", "packetSha256": "12"}]}],
        });
        drop_packets(&mut value);
        let rest = json!({
            "steps": [{"servers": [{"says": "ok"}]}],
            "findings": [{"evidence": [{"packetSha256": "12"}]}],
        });
        assert_eq!(value, rest);
    }
}
