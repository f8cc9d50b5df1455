//! What must hold when the storm is over.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use reqwest::Method;
use serde_json::{Value, json};

use super::client::{Attempt, Client, Request, resource_version};
use super::cluster::Cluster;
use super::families::{CHILDREN, Expected, Ownership};
use super::informer::Seen;
use super::report::Findings;
use super::workload::{All, create, read_counter};
use super::writer::{Known, Sort, Written, token_of};

/// How long controllers may take to finish: a lease to run out, a namespace's grace, and the work itself.
const CONTROLLERS_DONE: Duration = Duration::from_secs(120);
/// Written as a Secret; must not be found in etcd's files.
const SECRET_MARK: &str = "chaos-secret-mark-7f3a9c";
/// Written as a ConfigMap; must be found, or the search would prove nothing.
const PLAIN_MARK: &str = "chaos-plain-mark-7f3a9c";

/// Compares what everybody was told with what is there, at each server.
pub async fn all(cluster: &Arc<Cluster>, findings: &Arc<Findings>, all: All) -> Result<()> {
    let client = cluster.client(11)?;
    for sort in Sort::ALL {
        let mut states = Vec::new();
        for server in &cluster.servers {
            states.push(list(&client, &server.url, sort.collection()).await?);
        }
        if states.windows(2).any(|pair| pair[0].1 != pair[1].1) {
            findings.violation(format!("the servers do not agree on {sort:?}s"));
        }
        let Some((_, objects)) = states.first() else { continue };
        all.written
            .iter()
            .filter(|written| written.sort == sort)
            .for_each(|written| writes(written, objects, findings));
        let seen: Vec<&Seen> = all.seen.iter().filter(|seen| seen.sort == sort).collect();
        informers(&seen, &all.written, sort, objects, findings);
    }
    let count = read_counter(&client).await?;
    let (least, most) = (all.counted.acknowledged, all.counted.acknowledged + all.counted.uncertain);
    if !(least..=most).contains(&count) {
        findings.violation(format!("the counter is {count}, it must be between {least} and {most}"));
    }
    findings.note(format!("shared counter: {least} acknowledged increments, {count} counted, at most | {most}"));
    controllers(&client, &all.expected, findings).await;
    leadership(&client, findings).await;
    Ok(())
}

/// Names with version and token, and the list's version.
type Objects = BTreeMap<String, (u64, String)>;

async fn list(client: &Client, server: &str, collection: &str) -> Result<(u64, Objects)> {
    for _ in 0..100 {
        if let Attempt::Answered(200, body) = client.attempt(server, &Request::get(collection)).await {
            let items = body.get("items").and_then(Value::as_array).into_iter().flatten();
            let entry = |item: &Value| {
                let name = item.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
                (name.to_owned(), (resource_version(item), token_of(item).to_owned()))
            };
            return Ok((resource_version(&body), items.map(entry).collect()));
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    anyhow::bail!("{server}{collection} cannot be listed")
}

fn writes(written: &Written, objects: &Objects, findings: &Findings) {
    for (name, known) in &written.objects {
        let found = objects.get(name);
        let holds = match known {
            Known::Is { token, version } => found == Some(&(*version, token.clone())),
            Known::Deleted => found.is_none(),
            Known::Either { before, after } => {
                let token = found.map(|(_, token)| token.clone());
                token == *before || token == *after
            }
        };
        findings.count("objects compared with what was acknowledged", 1);
        if !holds {
            findings.violation(format!("{name}: acknowledged {known:?}, found {found:?}"));
        }
    }
}

/// Every informer's cache must equal the final state, and each must have seen every event that any has seen and that
/// happened while it followed. What was acknowledged must have been seen.
fn informers(seen: &[&Seen], written: &[Written], sort: Sort, objects: &Objects, findings: &Findings) {
    let expected: BTreeMap<&String, u64> = objects.iter().map(|(name, (version, _))| (name, *version)).collect();
    let segments = || seen.iter().flat_map(|seen| seen.segments.iter());
    let union: BTreeSet<u64> = segments().flat_map(|segment| segment.events.iter().copied()).collect();
    for seen in seen {
        let cache: BTreeMap<&String, u64> = seen.objects.iter().map(|(name, version)| (name, *version)).collect();
        if cache != expected {
            let differs = |name: &&&String| cache.get(**name) != expected.get(**name);
            let names: BTreeSet<&String> = cache.keys().chain(expected.keys()).filter(differs).copied().collect();
            findings.violation(format!("{}: its cache differs from the final state in {names:?}", seen.name));
        }
        for segment in seen.segments.iter().filter(|segment| segment.to > segment.from) {
            let there_were = union.range(segment.from + 1..=segment.to).count();
            if there_were != segment.events.len() {
                let own: BTreeSet<u64> = segment.events.iter().copied().collect();
                let missed: Vec<u64> =
                    union.range(segment.from + 1..=segment.to).filter(|v| !own.contains(v)).copied().take(10).collect();
                findings.violation(format!("{}: missed events, the first at {missed:?}", seen.name));
            }
        }
    }
    let followed = |version: u64| segments().any(|segment| segment.from < version && version <= segment.to);
    for version in written.iter().filter(|written| written.sort == sort).flat_map(|written| &written.versions) {
        if !union.contains(version) && followed(*version) {
            findings.violation(format!("the acknowledged write at {version} was seen by no informer"));
        }
    }
}

/// Waits until the controllers have done their work.
async fn controllers(client: &Client, expected: &Expected, findings: &Findings) {
    let begun = Instant::now();
    let mut left: Vec<&String> = expected.gone.iter().collect();
    while !left.is_empty() && begun.elapsed() < CONTROLLERS_DONE {
        let mut still = Vec::new();
        for path in left {
            match client.send(&Request::get(path.clone())).await {
                Some(answer) if answer.status == 404 => {}
                _ => still.push(path),
            }
        }
        left = still;
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    for path in &left {
        let what = client.send(&Request::get((*path).clone())).await.map(|answer| answer.body);
        findings.violation(format!("{path} is still there: {}", what.unwrap_or_default()));
    }
    for (path, ownership) in &expected.kept {
        let Some(answer) = client.send(&Request::get(path.clone())).await else { continue };
        let owned = answer.body.pointer("/metadata/ownerReferences").is_some();
        if answer.status != 200 || owned != (*ownership == Ownership::Owned) {
            findings.violation(format!("{path} must be there and {ownership:?}: {} {}", answer.status, answer.body));
        }
    }
    findings.note(format!(
        "owners deleted with {} dependants each, namespaces deleted | {}, {}",
        CHILDREN, expected.families, expected.namespaces
    ));
    findings.note(format!("controllers were done after the end | {:.1} s", begun.elapsed().as_secs_f64()));
}

async fn leadership(client: &Client, findings: &Findings) {
    let path = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/bailiwick-controllers";
    let lease = client.send(&Request::get(path)).await.map(|answer| answer.body).unwrap_or_default();
    let transitions = lease.pointer("/spec/leaseTransitions").and_then(Value::as_u64).unwrap_or(0);
    findings.note(format!("changes of the leader of the controllers | {transitions}"));
}

/// The values of secrets must not be readable in any file of etcd, those of other objects are.
pub async fn nothing_in_the_clear(cluster: &Arc<Cluster>, findings: &Arc<Findings>) -> Result<()> {
    let client = cluster.client(13)?;
    let namespace = "/api/v1/namespaces/chaos";
    let object = |kind: &str, field: &str, mark: &str| json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": "mark"}, field: {"mark": mark}});
    let secret = create(&client, &format!("{namespace}/secrets"), object("Secret", "stringData", SECRET_MARK)).await?;
    create(&client, &format!("{namespace}/configmaps"), object("ConfigMap", "data", PLAIN_MARK)).await?;
    let encoded = secret.pointer("/data/mark").and_then(Value::as_str).context("the secret has no data")?;
    let (mut plain, mut clear) = (0, 0);
    for index in 0..cluster.etcd.len() {
        plain += count_in_files(&cluster.directory.join(format!("etcd-{index}")), PLAIN_MARK)?;
        clear += count_in_files(&cluster.directory.join(format!("etcd-{index}")), SECRET_MARK)?;
        clear += count_in_files(&cluster.directory.join(format!("etcd-{index}")), encoded)?;
    }
    if plain == 0 || clear > 0 {
        findings
            .violation(format!("in etcd's files: {clear} times the value of a secret, {plain} times another value"));
    }
    findings.note(format!("value of a Secret in etcd's files; of a ConfigMap | {clear}, {plain}"));
    Ok(())
}

fn count_in_files(directory: &Path, text: &str) -> Result<usize> {
    let mut count = 0;
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            count += count_in_files(&path, text)?;
            continue;
        }
        let bytes = std::fs::read(&path)?;
        count += bytes.windows(text.len()).filter(|window| *window == text.as_bytes()).count();
    }
    Ok(count)
}

/// A token that one server issued is good at the others.
pub async fn tokens_are_shared(cluster: &Arc<Cluster>, findings: &Arc<Findings>) -> Result<()> {
    let client = cluster.client(17)?;
    let path = "/api/v1/namespaces/chaos/serviceaccounts/default/token";
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let issued = create(&client, path, request).await?;
    let token = issued.pointer("/status/token").and_then(Value::as_str).context("no token")?.to_owned();
    for server in &cluster.servers {
        let review = json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token},
        });
        let request = Request::with_body(Method::POST, "/apis/authentication.k8s.io/v1/tokenreviews", review);
        let Attempt::Answered(_, body) = client.attempt(&server.url, &request).await else { continue };
        if body.pointer("/status/authenticated") != Some(&Value::Bool(true)) {
            findings.violation(format!("{} does not accept a token of another server: {body}", server.name));
        }
    }
    Ok(())
}
