//! Requests that several controllers make for objects of any type, metadata only.

use futures::TryStreamExt;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{Method, Request};
use http_body_util::BodyExt;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, Preconditions};
use kube::client::Body;
use kube::core::Status;
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::discovery::{ResourceType, Scope};
use crate::error::{Error, is_conflict, is_not_found};
use crate::header::Header;

/// The answer to a collection delete is a list of what was deleted; its metadata is the least the server can send.
const METADATA_LIST: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";
/// How much of an error answer is read.
const ERROR_BODY_MAX_BYTES: usize = 64 << 10;

/// The objects of a type, in `namespace` if the type is namespaced.
pub(crate) fn objects(client: &Client, resource: &ResourceType, namespace: &str) -> Api<Header> {
    match resource.scope {
        Scope::Namespaced => Api::namespaced_with(client.clone(), namespace, &resource.api),
        Scope::Cluster => Api::all_with(client.clone(), &resource.api),
    }
}

/// How many objects of a type a namespace has. One item and the server's count of the rest is all that is asked for.
pub(crate) async fn count(client: &Client, resource: &ResourceType, namespace: &str) -> Result<i64, Error> {
    let api = objects(client, resource, namespace);
    let mut params = ListParams::default().limit(1);
    let mut total = 0;
    loop {
        let page = api.list(&params).await?;
        total += i64::try_from(page.items.len()).unwrap_or(i64::MAX);
        if let Some(rest) = page.metadata.remaining_item_count {
            return Ok(total + rest);
        }
        // The server may leave the count out; then pages are counted.
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = ListParams::default().limit(500).continue_token(&token),
            None => return Ok(total),
        }
    }
}

/// Deletes every object of a type in a namespace, leaving their dependents to the garbage collector.
pub(crate) async fn delete_collection(
    client: &Client,
    resource: &ResourceType,
    namespace: &str,
) -> Result<(), kube::Error> {
    let url = objects(client, resource, namespace).resource_url().to_owned();
    let options = serde_json::to_vec(&DeleteParams::background()).map_err(kube::Error::SerdeError)?;
    let request = Request::builder()
        .method(Method::DELETE)
        .uri(url)
        .header(ACCEPT, METADATA_LIST)
        .header(CONTENT_TYPE, "application/json")
        .body(Body::from(options))
        .map_err(kube::Error::HttpError)?;
    let response = client.send(request).await?;
    let failed = !response.status().is_success();
    let code = response.status().as_u16();
    let mut text = Vec::new();
    // The list of what was deleted can be long; it is read to the end, which is when the work is done, and not kept.
    let mut frames = response.into_body().into_data_stream();
    while let Some(frame) = frames.try_next().await? {
        if failed && text.len() < ERROR_BODY_MAX_BYTES {
            text.extend_from_slice(&frame);
        }
    }
    if !failed {
        return Ok(());
    }
    let status = serde_json::from_slice(&text)
        .unwrap_or_else(|_| Status::failure(&String::from_utf8_lossy(&text), "Unknown").with_code(code));
    Err(kube::Error::Api(Box::new(status)))
}

/// Takes `finalizer` off an object, if the object is still there and still has it.
pub(crate) async fn remove_finalizer(api: &Api<Header>, name: &str, uid: &str, finalizer: &str) -> Result<(), Error> {
    let Some(live) = api.get_opt(name).await? else { return Ok(()) };
    let finalizers = live.metadata.finalizers.unwrap_or_default();
    if live.metadata.uid.as_deref() != Some(uid) || !finalizers.iter().any(|found| found == finalizer) {
        return Ok(());
    }
    let kept: Vec<&String> = finalizers.iter().filter(|found| *found != finalizer).collect();
    let patch = json!({"metadata": {"resourceVersion": live.metadata.resource_version, "finalizers": kept}});
    ignore_not_found(api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await)
}

/// Deletes an object that is still as it was seen; [`Error::Changed`] if it is not.
pub(crate) async fn delete_as_seen<K>(api: &Api<K>, seen: &K) -> Result<(), Error>
where
    K: Resource + Clone + DeserializeOwned + std::fmt::Debug,
{
    let preconditions = Preconditions { uid: seen.uid(), resource_version: seen.resource_version() };
    let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
    match api.delete(&seen.name_any(), &params).await {
        Err(error) if is_conflict(&error) => Err(Error::Changed(seen.name_any())),
        result => ignore_not_found(result),
    }
}

pub(crate) fn ignore_not_found<T>(result: Result<T, kube::Error>) -> Result<(), Error> {
    match result {
        Err(error) if !is_not_found(&error) => Err(error.into()),
        _ => Ok(()),
    }
}
