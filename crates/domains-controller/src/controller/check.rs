//! Runs a DomainCheck once, or again and again, within its tenant's quota, and removes it when its time is over.

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
use kube::api::{DynamicObject, ListParams};
use kube::{Api, ResourceExt};
use ring::digest;
use serde_json::{Value, json};

use super::domain::ANNOUNCE_AGAIN;
use super::gateways::CLAIMS_WAIT;
use super::{Context, RESCAN_ANNOTATION};
use crate::Error;
use crate::check_status::{CheckSpec, CheckStatus, Owned, Story};
use crate::definition::{checks, domains};
use crate::events::{About, enqueue};
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

/// Why a check is not run.
struct Refusal {
    reason: &'static str,
    message: String,
}

impl Refusal {
    fn new(reason: &'static str, message: impl Into<String>) -> Self {
        Self { reason, message: message.into() }
    }
}

/// What a run came to, and what it was about.
struct Run {
    outcome: Result<Report, Refusal>,
    /// The digest of the Gateway and its routes, where there are some.
    service: Option<String>,
    owned: Owned,
}

impl Run {
    fn refused(refusal: Refusal) -> Self {
        Self { outcome: Err(refusal), service: None, owned: Owned::Claimed }
    }
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
        let spec: CheckSpec = serde_json::from_value(object.data["spec"].clone()).unwrap_or_default();
        // What could not be told the last time comes first.
        let status = self.announce_check(key, &object, status).await?;
        if spec.repeats().is_some() && !self.knows_claims(&self.hosts_meant(key, &object, &spec).await?, key).await? {
            return Ok(Outcome::After(CLAIMS_WAIT));
        }
        if let Some(ended) = status.completion_time {
            if spec.repeats().is_none() {
                return self.remove_in_time(key, &object, &spec, ended).await;
            }
            let due = self.due_at(key, &object, &spec, &status).await?;
            let wait = Duration::try_from(due.duration_since(self.now())).unwrap_or_default();
            if !wait.is_zero() {
                return Ok(Outcome::After(if status.unannounced.is_empty() { wait } else { wait.min(ANNOUNCE_AGAIN) }));
            }
        }
        let now = self.now();
        let is_first = status.completion_time.is_none();
        let start = status.start_time.filter(|_| is_first).unwrap_or(now);
        let mut check = match self.admit(key, &object) {
            Ok(check) => check,
            Err(refusal) => {
                let tool = tool_of(&object);
                self.options.metrics.refused(tool, refusal.reason);
                return self.finish(key, &object, &spec, status.before_run(start), Run::refused(refusal)).await;
            }
        };
        if let Err(wait) = self.take_turn(key, now) {
            if !is_first {
                return Ok(Outcome::After(wait));
            }
            let waited = now.duration_since(object.creation_timestamp().map_or(now, |time| time.0));
            if Duration::try_from(waited).unwrap_or_default() + wait > WAIT_MAX {
                self.options.metrics.refused(check.tool(), "QuotaExceeded");
                let message = format!("{} has had more checks run than its quota allows", key.tenant());
                let run = Run::refused(Refusal::new("QuotaExceeded", message));
                return self.finish(key, &object, &spec, status.before_run(start), run).await;
            }
            if status.phase != "Pending" {
                let per_minute = self.options.checks_per_minute;
                let mut waiting = status.before_run(start);
                waiting.phase = "Pending".to_owned();
                waiting.reason = Some("QuotaExceeded".to_owned());
                waiting.message =
                    Some(format!("{} may have {per_minute} checks run in a minute; this one waits", key.tenant()));
                self.write_check(key, &object, &waiting).await?;
            }
            return Ok(Outcome::After(wait));
        }
        // While it is run again, what was found before stays.
        if is_first && status.phase != "Running" {
            let running = CheckStatus { phase: "Running".to_owned(), ..status.clone().before_run(start) };
            self.write_check(key, &object, &running).await?;
        }
        let run = self.run_check(key, &spec, &mut check).await;
        self.finish(key, &object, &spec, status.before_run(start), run).await
    }

    /// The hosts that a check is to be about, claimed or not.
    async fn hosts_meant(&self, key: &Key, object: &DynamicObject, spec: &CheckSpec) -> Result<Vec<Host>, Error> {
        let check: Result<Check, _> = serde_json::from_value(object.data["spec"].clone());
        let mut hosts = check.map(|check| hosts_of(&check)).unwrap_or_default();
        if let Some(gateway) = &spec.gateway {
            hosts.extend(service::hosts(&self.service(key, gateway).await?));
        }
        Ok(hosts)
    }

    /// When a check that was run is due again.
    async fn due_at(
        &self,
        key: &Key,
        object: &DynamicObject,
        spec: &CheckSpec,
        status: &CheckStatus,
    ) -> Result<Timestamp, Error> {
        let check: Result<Check, _> = serde_json::from_value(object.data["spec"].clone());
        let service = match check {
            Ok(mut check) => self.assemble(key, spec, &mut check).await?,
            Err(_) => None,
        };
        Ok(status.due_at(object.annotations().get(RESCAN_ANNOTATION), service.as_ref(), self.now()))
    }

    /// Puts into a plan what it is made of: a Gateway and its routes, and the Domains of the namespace. Gives the digest of that
    /// where there is a Gateway.
    async fn assemble(&self, key: &Key, spec: &CheckSpec, check: &mut Check) -> Result<Option<String>, Error> {
        if let (Check::Plan { objects, .. }, Some(gateway)) = (&mut *check, &spec.gateway) {
            *objects = self.service(key, gateway).await?;
            if spec.repeats().is_some() {
                service::retain_hosts(objects, |host| self.is_claimed(host, key));
            }
        }
        if let Check::History { name, objects, .. } = &mut *check {
            *objects = self.domain_named(key, name).await?;
        }
        let domains = self.domains_of(key, check).await;
        let Check::Plan { objects, .. } = check else { return Ok(None) };
        objects.extend(domains);
        Ok(spec.gateway.as_ref().map(|_| digest(objects)))
    }

    /// Runs a check that may be run.
    async fn run_check(&self, key: &Key, spec: &CheckSpec, check: &mut Check) -> Run {
        let tool = check.tool();
        let service = match self.assemble(key, spec, check).await {
            Ok(service) => service,
            Err(error) => return Run::refused(Refusal::new("GatewayNotFound", error.to_string())),
        };
        let (owned, allowed) = match spec.repeats() {
            None => (Owned::Claimed, Ok(())),
            Some(_) => self.repeatable(key, check),
        };
        let allowed = allowed.and_then(|()| match (&*check, &spec.gateway) {
            (Check::History { name, objects, .. }, _) if objects.is_empty() => {
                let message = format!(
                    "there is no Domain for {name} in {}: what is not watched over has no history",
                    key.namespace
                );
                Err(Refusal::new("NotClaimed", message))
            }
            (Check::Plan { objects, .. }, Some(gateway)) if !service::name_a_service(objects) => {
                let message = format!("there is no Gateway {gateway} in {}", key.namespace);
                Err(Refusal::new("GatewayNotFound", message))
            }
            // The names that a Gateway brings are names that are asked about.
            _ => self.opted_in(check),
        });
        if let Err(refusal) = allowed {
            self.options.metrics.refused(tool, refusal.reason);
            return Run { outcome: Err(refusal), service, owned };
        }
        let begin = tokio::time::Instant::now();
        let remote = self.agents.chosen(spec.vantage_points.as_deref());
        let running = check::run(check, &self.toolbox, &remote);
        let outcome = match tokio::time::timeout(CHECK_TIMEOUT, running).await {
            Ok(Ok(report)) => Ok(report),
            Ok(Err(CheckError::Arguments(message))) => Err(Refusal::new("InvalidRequest", message)),
            Ok(Err(CheckError::Failed(message))) => Err(Refusal::new("Failed", message)),
            Err(_) => {
                let message = format!("it took longer than {} seconds", CHECK_TIMEOUT.as_secs());
                Err(Refusal::new("Timeout", message))
            }
        };
        let word = if outcome.is_ok() { "succeeded" } else { "failed" };
        self.options.metrics.checked(tool, word, begin.elapsed().as_secs_f64());
        Run { outcome, service, owned }
    }

    /// Whether a check may be repeated: nobody's names are looked at again and again but those that its namespace claims.
    fn repeatable(&self, key: &Key, check: &Check) -> (Owned, Result<(), Refusal>) {
        let hosts = hosts_of(check);
        if hosts.is_empty() {
            let message = "it names no host: only the names of its own Domains are looked at again and again";
            return (Owned::Claimed, Err(Refusal::new("NotClaimed", message)));
        }
        if let Some(host) = hosts.iter().find(|host| !self.is_claimed(host, key)) {
            let message = format!(
                "{host} is in no Domain of {}: only the names of its own Domains are looked at again and again",
                key.namespace
            );
            return (Owned::Claimed, Err(Refusal::new("NotClaimed", message)));
        }
        let index = self.index();
        let is_proved = |claim: &Key| index.get(claim).is_some_and(|known| known.holds);
        let all = hosts.iter().all(|host| index.claims_above(&host.base, key).iter().any(is_proved));
        (if all { Owned::Proved } else { Owned::Claimed }, Ok(()))
    }

    /// Whether a check may run at all.
    fn admit(&self, key: &Key, object: &DynamicObject) -> Result<Check, Refusal> {
        let check: Check = serde_json::from_value(object.data["spec"].clone())
            .map_err(|error| Refusal::new("InvalidRequest", error.to_string()))?;
        let most = self.options.checks_per_tenant_max;
        if self.index().checks.is_beyond(key, most) {
            let message =
                format!("{} has {most} checks already: delete some, or wait until they are removed", key.tenant());
            return Err(Refusal::new("QuotaExceeded", message));
        }
        if let Some(address) = check.private_resolver().filter(|_| !self.options.roots.private_addresses) {
            let message = format!("{address} is not a public address and is not asked");
            return Err(Refusal::new("InvalidRequest", message));
        }
        self.opted_in(&check)?;
        Ok(check)
    }

    /// Refuses a check of a name whose owner asked not to be looked at, whoever brings the name.
    fn opted_in(&self, check: &Check) -> Result<(), Refusal> {
        match hosts_of(check).iter().find_map(|host| self.opt_out.covers(&host.base)) {
            Some(listed) => Err(Refusal::new("OptedOut", opted_out(&listed))),
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

    /// The Domain of the check's own namespace for a name; the one that has proved it, where there are several.
    async fn domain_named(&self, key: &Key, name: &str) -> Result<Vec<Value>, Error> {
        let Ok(name) = DomainName::parse(name) else { return Ok(Vec::new()) };
        let api: Api<DynamicObject> = Api::namespaced_with(self.client(&key.plane), &key.namespace, &domains());
        let named = ListParams::default().fields(&format!("spec.name={name}"));
        let mut objects: Vec<Value> = api.list(&named).await?.items.into_iter().map(|object| json!(object)).collect();
        let is_proved = |object: &Value| {
            object.pointer("/status/verification/standing/state").and_then(Value::as_str) == Some("proved")
        };
        objects.sort_by_key(|object| !is_proved(object));
        objects.truncate(1);
        Ok(objects)
    }

    fn take_turn(&self, key: &Key, now: Timestamp) -> Result<(), Duration> {
        self.rates.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take(&key.tenant(), now)
    }

    /// Writes what a run came to, tells what is new, and says when to come back.
    async fn finish(
        &self,
        key: &Key,
        object: &DynamicObject,
        spec: &CheckSpec,
        mut status: CheckStatus,
        run: Run,
    ) -> Result<Outcome, Error> {
        let now = self.now();
        status.completion_time = Some(now);
        let mut notices = Vec::new();
        match run.outcome {
            Ok(report) => {
                status.phase = "Succeeded".to_owned();
                status.summary = Some(cut(report.summary(), SENTENCE_BYTES_MAX));
                status.report = Some(cut(report.text(Style::Plain), REPORT_BYTES_MAX));
                match result(&report) {
                    Ok(value) => status.result = Some(value),
                    Err(message) => (status.reason, status.message) = (Some("ResultTooLong".to_owned()), Some(message)),
                }
                if let Some(outlook) = report.outlook() {
                    let story = if matches!(report, Report::Analyses { .. }) { Story::Plan } else { Story::Health };
                    notices = status.take(&outlook, story, &subject(object, spec), now);
                }
            }
            Err(Refusal { reason, message }) => {
                status.phase = "Failed".to_owned();
                status.reason = Some(reason.to_owned());
                let message = cut(message, SENTENCE_BYTES_MAX);
                status.take_failure(reason, &message, now);
                status.summary = Some(message.clone());
                status.message = Some(message);
            }
        }
        let Some(calm) = spec.repeats() else {
            self.write_check(key, object, &status).await?;
            return Ok(Outcome::After(spec.time_to_live()));
        };
        status.obeyed(object.annotations().get(RESCAN_ANNOTATION), now);
        status.observed_service = run.service.or(status.observed_service);
        status.plan_next(calm, run.owned, now);
        enqueue(&mut status.unannounced, object, &notices, now);
        self.write_check(key, object, &status).await?;
        let status = self.announce_check(key, object, status).await?;
        let wait = status.next_run.map(|next| next.duration_since(self.now()));
        let wait = wait.and_then(|wait| Duration::try_from(wait).ok()).unwrap_or_default();
        Ok(Outcome::After(if status.unannounced.is_empty() { wait } else { wait.min(ANNOUNCE_AGAIN) }))
    }

    /// Writes the events that wait in a status, and strikes those off that are written.
    async fn announce_check(
        &self,
        key: &Key,
        object: &DynamicObject,
        mut status: CheckStatus,
    ) -> Result<CheckStatus, Error> {
        if !status.unannounced.is_empty() {
            let about = About::owner(object, "DomainCheck");
            if self.tell(key, &about, &mut status.unannounced).await > 0 {
                self.write_check(key, object, &status).await?;
            }
        }
        Ok(status)
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
        spec: &CheckSpec,
        ended: Timestamp,
    ) -> Result<Outcome, Error> {
        let age = Duration::try_from(self.now().duration_since(ended)).unwrap_or_default();
        let left = spec.time_to_live().saturating_sub(age);
        if !left.is_zero() {
            return Ok(Outcome::After(left));
        }
        self.delete_check(key, object).await?;
        Ok(Outcome::Done)
    }
}

/// What a check is about, as events say it.
fn subject(object: &DynamicObject, spec: &CheckSpec) -> String {
    match (&spec.gateway, object.data.pointer("/spec/name").and_then(Value::as_str)) {
        (Some(gateway), _) => format!("the Gateway {gateway}"),
        (None, Some(name)) => name.to_owned(),
        (None, None) => object.name_any(),
    }
}

/// What is planned, in a form that can be compared: names, addresses and proofs, and nothing that others write beside them.
fn digest(objects: &[Value]) -> String {
    let wishes = service::wishes(objects).map_err(|error| error.to_string());
    let (problem, proofs) = (wishes.as_ref().err(), service::proofs(objects));
    let text = json!({"wishes": wishes.as_ref().ok(), "problem": problem, "proofs": proofs}).to_string();
    let digest = digest::digest(&digest::SHA256, text.as_bytes());
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The names that a check asks about, those that objects bring among them.
fn hosts_of(check: &Check) -> Vec<Host> {
    let named = check.names().into_iter().filter_map(|name| Host::parse(name).ok());
    let of_objects = match check {
        Check::Plan { objects, .. } => service::hosts(objects),
        _ => Vec::new(),
    };
    named.chain(of_objects).collect()
}

pub(super) fn opted_out(listed: &DomainName) -> String {
    format!("{listed} is on the opt-out list: its owner asked not to be looked at")
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
