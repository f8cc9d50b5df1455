//! One pass over a namespace that is being deleted.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::{Api, ResourceExt};

use super::Namespaces;
use super::conditions::Findings;
use crate::discovery::{ResourceType, Scope};
use crate::error::{Error, is_conflict, is_not_found, status};
use crate::header::Header;
use crate::requests::{delete_collection, ignore_not_found, objects};
use crate::work_queue::Outcome;

/// In a namespace's `spec.finalizers`: it is not empty yet.
const FINALIZER: &str = "kubernetes";
/// Types emptied at the same time.
const TYPES_AT_ONCE: usize = 4;
/// Objects left are read in pages of this size; only their finalizers are counted.
const PAGE_SIZE: u32 = 500;
/// When to look again at a namespace whose content waits for finalizers. Their removal is seen on the watches; this is
/// for types that cannot be watched.
const RECHECK: Duration = Duration::from_secs(60);

/// What is left of a type in a namespace.
#[derive(Default)]
struct Left {
    objects: usize,
    finalizers: BTreeMap<String, usize>,
}

impl Namespaces {
    pub(crate) async fn delete(&self, name: &str) -> Result<Outcome, Error> {
        let api: Api<Namespace> = Api::all(self.client.clone());
        let Some(namespace) = api.get_opt(name).await? else { return Ok(Outcome::Done) };
        if namespace.metadata.deletion_timestamp.is_none() || !is_ours(&namespace) {
            return Ok(Outcome::Done);
        }
        let findings = self.empty(name).await?;
        if findings.is_empty() {
            finalize(&api, namespace).await?;
            tracing::info!(namespace = name, "emptied");
            return Ok(Outcome::Done);
        }
        report(&api, namespace, &findings).await?;
        let failed = findings.undiscovered.iter().chain(&findings.failures).next().is_some();
        if failed {
            let problems = [findings.undiscovered, findings.failures].concat();
            return Err(Error::Incomplete(problems.join(", ")));
        }
        Ok(Outcome::After(RECHECK))
    }

    /// Deletes what is in the namespace and finds out what is left.
    async fn empty(&self, namespace: &str) -> Result<Findings, Error> {
        let catalog = self.discovery.refresh().await?;
        let mut findings = Findings { undiscovered: catalog.stale.clone(), ..Findings::default() };
        let is_ours = |found: &Arc<ResourceType>| found.scope == Scope::Namespaced && found.supports(&["delete"]);
        let types: Vec<Arc<ResourceType>> = catalog.types.iter().filter(|&found| is_ours(found)).cloned().collect();
        let emptied = types.into_iter().map(|resource| async move {
            let result = self.empty_type(&resource, namespace).await;
            (resource, result)
        });
        let mut emptied = futures::stream::iter(emptied).buffer_unordered(TYPES_AT_ONCE);
        while let Some((resource, result)) = emptied.next().await {
            match result {
                Err(error) => findings.failures.push(error.to_string()),
                Ok(left) if left.objects == 0 => {}
                Ok(left) => {
                    if left.finalizers.is_empty() {
                        findings.failures.push(format!(
                            "unexpected items still remain in namespace: {namespace} for gvr: {}/{}, Resource={}",
                            resource.api.group, resource.api.version, resource.api.plural
                        ));
                    }
                    findings.remaining.insert(format!("{}.{}", resource.api.plural, resource.api.group), left.objects);
                    for (finalizer, count) in left.finalizers {
                        *findings.finalizers.entry(finalizer).or_insert(0) += count;
                    }
                }
            }
        }
        Ok(findings)
    }

    async fn empty_type(&self, resource: &ResourceType, namespace: &str) -> Result<Left, Error> {
        let api = objects(&self.client, resource, namespace);
        let can_list = resource.supports(&["list"]);
        // Most namespaces have no objects of most types.
        if can_list && is_empty(&api).await? {
            return Ok(Left::default());
        }
        if resource.supports(&["deletecollection"]) {
            match delete_collection(&self.client, resource, namespace).await {
                Err(error) if !is_unsupported(&error) => return Err(error.into()),
                _ => {}
            }
        } else if can_list {
            delete_each(&api).await?;
        }
        if can_list { left(&api).await } else { Ok(Left::default()) }
    }
}

fn is_ours(namespace: &Namespace) -> bool {
    let finalizers = namespace.spec.as_ref().and_then(|spec| spec.finalizers.as_ref());
    finalizers.is_some_and(|finalizers| finalizers.iter().any(|found| found == FINALIZER))
}

async fn is_empty(api: &Api<Header>) -> Result<bool, Error> {
    match api.list(&ListParams::default().limit(1)).await {
        Ok(page) => Ok(page.items.is_empty()),
        Err(error) if is_unsupported(&error) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

async fn delete_each(api: &Api<Header>) -> Result<(), Error> {
    for object in api.list(&ListParams::default()).await? {
        ignore_not_found(api.delete(&object.name_any(), &DeleteParams::background()).await)?;
    }
    Ok(())
}

async fn left(api: &Api<Header>) -> Result<Left, Error> {
    let mut left = Left::default();
    let mut params = ListParams::default().limit(PAGE_SIZE);
    loop {
        let page = api.list(&params).await?;
        left.objects += page.items.len();
        for finalizer in page.items.iter().flat_map(|object| object.finalizers()) {
            *left.finalizers.entry(finalizer.clone()).or_insert(0) += 1;
        }
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params.continue_token = Some(token),
            None => return Ok(left),
        }
    }
}

/// A type can go away between discovery and the request.
fn is_unsupported(error: &kube::Error) -> bool {
    is_not_found(error) || status(error).is_some_and(|status| status.code == 405)
}

async fn report(api: &Api<Namespace>, mut namespace: Namespace, findings: &Findings) -> Result<(), Error> {
    let name = namespace.name_any();
    let status = namespace.status.get_or_insert_default();
    let mut changed = findings.write(status, Timestamp::now());
    if status.phase.as_deref() != Some("Terminating") {
        status.phase = Some("Terminating".to_owned());
        changed = true;
    }
    if !changed {
        return Ok(());
    }
    match api.replace_status(&name, &PostParams::default(), &namespace).await {
        // The conditions are an account for people; the next pass writes them anew.
        Err(error) if is_conflict(&error) => Err(Error::Changed(name)),
        result => ignore_not_found(result),
    }
}

/// Lets the namespace go, as far as we are concerned.
async fn finalize(api: &Api<Namespace>, mut namespace: Namespace) -> Result<(), Error> {
    let name = namespace.name_any();
    namespace.status = None;
    if let Some(finalizers) = namespace.spec.as_mut().and_then(|spec| spec.finalizers.as_mut()) {
        finalizers.retain(|found| found != FINALIZER);
    }
    ignore_not_found(api.replace_subresource("finalize", &name, &PostParams::default(), &namespace).await)
}
