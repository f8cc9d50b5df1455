//! From a resource request to the handler of its verb.

use std::sync::Arc;

use bailiwick_admission::AnnotationLevel;
use bailiwick_machinery::audit::Level;
use bailiwick_machinery::resource::{Scope, Storage};
use bailiwick_machinery::status::{ApiError, ApiResult, Details};
use bailiwick_machinery::user::UserInfo;
use bytes::Bytes;
use http::Method;
use http::request::Parts;

use super::ApiServer;
use super::respond::{Answer, Exchange};
use crate::handlers::request::{Reply, Request};
use crate::handlers::{create, delete, delete_collection, get, list, patch, review, token, update, watch};
use crate::registry::Served;
use crate::request_info::RequestInfo;
use crate::tenant::Tenant;
use bailiwick_machinery::query::Query;

impl ApiServer {
    #[allow(clippy::too_many_arguments, reason = "the parts of a request, each once")]
    pub(super) async fn dispatch(
        self: &Arc<Self>,
        tenant: &Arc<Tenant>,
        parts: &Parts,
        query: &Query,
        info: &RequestInfo,
        user: &UserInfo,
        body: Bytes,
        exchange: &mut Exchange,
    ) -> ApiResult<Answer> {
        let registry = tenant.registry.load();
        let Some(served) = registry.get(&info.group, &info.version, &info.resource) else {
            let native = info.prefix == "api" || registry.is_native_group(&info.group);
            return if native { Err(ApiError::unknown_path()) } else { Ok(Answer::page_not_found()) };
        };
        if served.resource.custom.is_some() {
            if !is_custom_path(served, info) {
                return Ok(Answer::page_not_found());
            }
            check_custom_route(served, info)?;
        } else if parts.method == Method::HEAD {
            return Err(method_not_allowed());
        } else {
            check_route(served, info)?;
        }
        let rq = Request::new(self, tenant, info, query, &parts.headers, served, user, &exchange.audit);
        if let Some(warning) = served.resource.custom.as_ref().and_then(|custom| custom.deprecation_warning.as_ref()) {
            rq.warn(warning.as_str());
        }
        let outcome = route(&rq, body).await;
        for annotation in rq.notes.take_annotations() {
            if annotation.level == AnnotationLevel::Metadata || exchange.audit.wants(Level::Request) {
                exchange.audit.annotate(annotation.key, annotation.value);
            }
        }
        exchange.warnings = rq.notes.take_warnings();
        outcome.map(Answer::from)
    }
}

async fn route(rq: &Request<'_>, body: Bytes) -> ApiResult<Reply> {
    let resource = &rq.served.resource;
    if let (Some(_), Some(subresource)) = (&resource.custom, rq.subresource()) {
        if !subresource.verbs.contains(&rq.info.verb) {
            return Err(not_supported(rq.served, rq.info));
        }
    } else if let Some(subresource) = rq.subresource() {
        if !subresource.verbs.contains(&rq.info.verb) {
            return Err(method_not_allowed());
        }
        if subresource.name == "token" {
            return token::create(rq, body).await;
        }
    } else if !resource.verbs.contains(&rq.info.verb) && resource.custom.is_none() {
        return Err(method_not_allowed());
    }
    if resource.storage == Storage::Virtual {
        return review::create(rq, body).await;
    }
    match rq.info.verb {
        "get" => get::get(rq).await,
        "list" => list::list(rq).await,
        "watch" => watch::watch(rq).await,
        "create" => create::create(rq, body).await,
        "update" => update::update(rq, body).await,
        "patch" => patch::patch(rq, body).await,
        "delete" => delete::delete(rq, body).await,
        "deletecollection" => delete_collection::delete_collection(rq, body).await,
        _ if resource.custom.is_some() => Err(not_supported(rq.served, rq.info)),
        _ => Err(method_not_allowed()),
    }
}

/// Whether there is anything under the path of a custom resource: a namespace only where there is one, and none only to
/// read all.
fn is_custom_path(served: &Served, info: &RequestInfo) -> bool {
    match served.resource.scope {
        Scope::Cluster => info.namespace.is_empty(),
        Scope::Namespaced => !info.namespace.is_empty() || matches!(info.verb, "list" | "watch"),
    }
}

fn check_custom_route(served: &Served, info: &RequestInfo) -> ApiResult<()> {
    let known = info.subresource.is_empty() || served.resource.subresource(&info.subresource).is_some();
    if !known || !info.rest.is_empty() {
        return Err(ApiError::not_found(&served.group_resource, &info.name));
    }
    if info.name.is_empty() && matches!(info.verb, "update" | "patch") {
        return Err(method_not_allowed());
    }
    Ok(())
}

/// The refusal of a verb that custom resources do not have.
fn not_supported(served: &Served, info: &RequestInfo) -> ApiError {
    let resource = &served.group_resource;
    let verb = if info.verb == "options" { "" } else { info.verb };
    let text = format!("{verb} is not supported on resources of kind {:?}", resource.to_string());
    let details = Details { group: resource.group.clone(), kind: resource.resource.clone(), ..Details::default() };
    ApiError::new(405, "MethodNotAllowed", text).with_details(details)
}

/// Whether the path fits the resource: a namespace where there is one, and nothing below what exists.
fn check_route(served: &Served, info: &RequestInfo) -> ApiResult<()> {
    let resource = &served.resource;
    let is_namespaces = resource.group.is_empty() && resource.plural == "namespaces";
    let fits = match resource.scope {
        Scope::Cluster => info.namespace.is_empty() || (is_namespaces && info.namespace == info.name),
        Scope::Namespaced => !info.namespace.is_empty() || info.name.is_empty(),
    };
    let fits = fits && (resource.storage != Storage::Virtual || info.name.is_empty());
    let known = info.subresource.is_empty() || resource.subresource(&info.subresource).is_some();
    if !fits || !known || !info.rest.is_empty() {
        return Err(ApiError::unknown_path());
    }
    // Collections take POST and DELETE, objects take the rest; all namespaces at once can only be read.
    let whole_cluster = resource.scope == Scope::Namespaced && info.namespace.is_empty();
    let wrong_place = match info.verb {
        "create" => !info.name.is_empty() && info.subresource.is_empty() || whole_cluster,
        "deletecollection" => whole_cluster,
        "update" | "patch" => info.name.is_empty(),
        _ => false,
    };
    if wrong_place { Err(method_not_allowed()) } else { Ok(()) }
}

pub(super) fn method_not_allowed() -> ApiError {
    let mut error =
        ApiError::new(405, "MethodNotAllowed", "the server does not allow this method on the requested resource");
    error.details = Some(Box::default());
    error
}
