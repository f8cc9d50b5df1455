//! Paths that are not API resources: discovery, version, health, metrics, OpenAPI and the token issuer's documents.

use std::sync::Arc;

use bailiwick_auth::oidc_discovery;
use bailiwick_flowcontrol::Dump;
use bailiwick_machinery::media::{self, Answer as Shape};
use bailiwick_machinery::origin::Origin;
use bailiwick_machinery::status::{ApiError, ApiResult};
use bailiwick_machinery::user::UserInfo;
use http::Method;
use http::header::{ACCEPT, CACHE_CONTROL, ETAG, IF_NONE_MATCH, USER_AGENT, VARY};
use http::request::Parts;
use serde_json::{Value, json};
use sha2::{Digest, Sha512};

use super::dispatch::method_not_allowed;
use super::paths::{Handler, PathRoute};
use super::respond::Answer;
use super::{ApiServer, FlowLimits};
use crate::across;
use crate::discovery::{self, AggregatedVersion, Sources};
use crate::encode::{Layout, encode_value};
use crate::health::{self, Endpoint};
use crate::http::ResponseBody;
use crate::metrics::Exposition;
use crate::openapi;
use crate::request_info::RequestInfo;
use crate::tenant::Tenant;
use bailiwick_machinery::query::Query;

impl ApiServer {
    pub(super) async fn nonresource(
        self: &Arc<Self>,
        tenant: &Tenant,
        parts: &Parts,
        query: &Query,
        info: &RequestInfo,
        user: &UserInfo,
    ) -> ApiResult<Answer> {
        let path = info.path.as_str();
        let is_root = tenant.project.is_none();
        let Some(route) = PathRoute::of(path, is_root) else { return Ok(Answer::page_not_found()) };
        match route.handler {
            Handler::Index => json_answer(&json!({"paths": paths(tenant)}), Layout::Pretty),
            Handler::Version | Handler::Metrics | Handler::Explain if !reads(parts) && !path.ends_with('/') => {
                Err(method_not_allowed())
            }
            Handler::Version => json_answer(&discovery::version(), Layout::Pretty),
            Handler::Metrics => Ok(self.metrics_answer(parts)),
            Handler::Explain => json_answer(&self.explain(tenant, query, user).await?, Layout::Compact),
            // Others can only discover an issuer that is a URL.
            Handler::KeySet if issuer_is_url(tenant) => self.key_set(),
            Handler::IssuerDocument if issuer_is_url(tenant) => self.issuer_document(tenant),
            Handler::KeySet | Handler::IssuerDocument => Ok(Answer::page_not_found()),
            Handler::EncryptionStatus | Handler::Reencrypt => self.encryption_answer(parts, route.handler).await,
            Handler::FlowDump => match (Dump::of_path(path), &self.config.flow_limits) {
                (Some(dump), FlowLimits::Fair(control)) => Ok(Answer::text(200, control.dump(dump))),
                _ => Ok(Answer::page_not_found()),
            },
            Handler::AcrossProjects => match across::answer(self, &parts.method, path, query).await {
                Some(answer) => answer,
                None => Ok(Answer::page_not_found()),
            },
            Handler::Health => match Endpoint::of_path(path) {
                Some((endpoint, single)) => {
                    let (status, text) = health::answer(self, endpoint, single, query).await;
                    Ok(Answer::text(status, text))
                }
                None => Ok(Answer::page_not_found()),
            },
            Handler::OpenApi => Ok(openapi::answer(tenant, parts, path).await?.unwrap_or_else(Answer::page_not_found)),
            Handler::Discovery => self.discovery_answer(tenant, parts, query, path),
        }
    }

    fn metrics_answer(&self, parts: &Parts) -> Answer {
        let accept = parts.headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let form = Exposition::negotiate(accept);
        let mut text = self.metrics.encode(&self.caches);
        self.root.admission.encode_metrics(&mut text);
        if let Some(tenants) = &self.tenants {
            crate::metrics::append_tenant_metrics(&mut text, tenants.len());
        }
        if let Some(auditor) = &self.config.auditor {
            super::audit::append_metrics(&mut text, auditor);
        }
        if let FlowLimits::Fair(control) = &self.config.flow_limits {
            control.write_metrics(&mut text);
        }
        if let Some(aggregator) = &self.root().aggregation {
            aggregator.write_metrics(&mut text);
        }
        self.config.service_metrics.iter().for_each(|append| append(&mut text));
        Answer::new(200, form.content_type(), ResponseBody::full(form.document(&text)))
    }

    /// Rewriting the store under its first key: started by POST, followed by GET.
    async fn encryption_answer(&self, parts: &Parts, handler: Handler) -> ApiResult<Answer> {
        let Some(encryption) = &self.config.encryption else { return Ok(Answer::page_not_found()) };
        match (handler, &parts.method) {
            (Handler::Reencrypt, &Method::POST) => encryption.reencrypt().await.map_err(ApiError::internal)?,
            (Handler::EncryptionStatus, &Method::GET) => {}
            _ => return Err(method_not_allowed()),
        }
        json_answer(&encryption.progress(), Layout::Compact)
    }

    fn key_set(&self) -> ApiResult<Answer> {
        let keys = oidc_discovery::key_set(&self.config.token_keys.load().keys).map_err(ApiError::internal)?;
        let body = serde_json::to_vec(&keys).map_err(ApiError::internal)?;
        Ok(Answer::new(200, "application/jwk-set+json", ResponseBody::full(body))
            .header(CACHE_CONTROL, "public, max-age=3600"))
    }

    fn issuer_document(&self, tenant: &Tenant) -> ApiResult<Answer> {
        let jwks_uri = match &self.config.jwks_uri {
            Some(uri) => uri.clone(),
            None => format!("https://{}{}/openid/v1/jwks", self.config.address, tenant.path_prefix()),
        };
        let keys = self.config.token_keys.load();
        let document = oidc_discovery::discovery_document(tenant.issuer.issuer(), &jwks_uri, &keys.keys);
        Ok(json_answer(&document, Layout::Compact)?.header(CACHE_CONTROL, "public, max-age=3600"))
    }

    fn discovery_answer(&self, tenant: &Tenant, parts: &Parts, query: &Query, path: &str) -> ApiResult<Answer> {
        let registry = tenant.registry.load();
        let table = tenant.aggregation.as_ref().map(|aggregator| aggregator.table());
        let sources = Sources { registry: &registry, table: table.as_ref().map(|table| &***table) };
        let segments: Vec<&str> = path.trim_matches('/').split('/').collect();
        let accept = parts.headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
        if let ["api"] | ["apis"] = segments.as_slice()
            && let Some(version) = AggregatedVersion::negotiate(accept)
        {
            let document = discovery::aggregated_document(sources, segments == ["api"], version);
            return Ok(aggregated_answer(document.map_err(ApiError::internal)?, version, parts));
        }
        let document = match segments.as_slice() {
            ["api"] => Some(discovery::api_versions(&registry, &self.config.address)),
            ["apis"] => Some(discovery::api_group_list(sources)),
            ["api", _] | ["apis", _, _] if !reads(parts) => return Err(method_not_allowed()),
            ["api", version] => discovery::api_resource_list(&registry, "", version),
            ["apis", group] if !group.is_empty() => discovery::api_group(sources, group),
            ["apis", group, version] if !group.is_empty() => discovery::api_resource_list(&registry, group, version),
            _ => return Ok(Answer::page_not_found()),
        };
        let Some(document) = document else {
            return match segments.as_slice() {
                ["api", _] => Err(ApiError::unknown_path()),
                ["apis", group, _] if registry.is_native_group(group) => Err(ApiError::unknown_path()),
                _ => Ok(Answer::page_not_found()),
            };
        };
        let negotiated = media::negotiate(accept, Origin::Native, Shape::Object)?;
        let agent = parts.headers.get(USER_AGENT).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let pretty = negotiated.pretty || media::wants_pretty(query.get("pretty"), agent);
        let layout = if pretty { Layout::Pretty } else { Layout::Compact };
        let body = encode_value(negotiated.media, layout, &document)?;
        Ok(Answer::new(200, negotiated.media.as_str(), ResponseBody::full(body)))
    }
}

/// Whether others can discover the issuer of tokens.
fn issuer_is_url(tenant: &Tenant) -> bool {
    tenant.issuer.issuer().starts_with("https://")
}

/// Every path there is to see.
fn paths(tenant: &Tenant) -> Vec<String> {
    let registry = tenant.registry.load();
    let mut paths: Vec<String> = ["/api", "/apis", "/metrics", "/openapi/v2", "/openapi/v3", "/version"]
        .into_iter()
        .chain(["/.well-known/openid-configuration", "/openid/v1/jwks"])
        .map(str::to_owned)
        .collect();
    for (group, versions) in registry.groups() {
        let base = if group.is_empty() { "/api".to_owned() } else { format!("/apis/{group}") };
        paths.extend(versions.iter().map(|version| format!("{base}/{version}")));
        paths.push(base);
    }
    if let Some(aggregator) = &tenant.aggregation {
        for route in aggregator.table().routes() {
            let service = route.service();
            paths.extend([format!("/apis/{}", service.group), service.path()]);
        }
    }
    for (name, endpoint) in [("healthz", Endpoint::Healthz), ("livez", Endpoint::Livez), ("readyz", Endpoint::Readyz)] {
        paths.push(format!("/{name}"));
        paths.extend(endpoint.checks().iter().map(|check| format!("/{name}/{check}")));
    }
    paths.sort();
    paths.dedup();
    paths
}

fn json_answer(value: &Value, layout: Layout) -> ApiResult<Answer> {
    let mut body = match layout {
        Layout::Compact => serde_json::to_vec(value),
        Layout::Pretty => serde_json::to_vec_pretty(value),
    }
    .map_err(ApiError::internal)?;
    body.shrink_to_fit();
    Ok(Answer::new(200, "application/json", ResponseBody::full(body)))
}

fn aggregated_answer(body: Vec<u8>, version: AggregatedVersion, parts: &Parts) -> Answer {
    let etag = format!("\"{:X}\"", Sha512::digest(&body));
    let unchanged = parts.headers.get(IF_NONE_MATCH).is_some_and(|value| value.as_bytes() == etag.as_bytes());
    let answer = if unchanged {
        Answer::new(304, version.content_type(), ResponseBody::empty())
    } else {
        Answer::new(200, version.content_type(), ResponseBody::full(body))
    };
    answer.header(ETAG, &etag).header(CACHE_CONTROL, "public").header(VARY, "Accept")
}

fn reads(parts: &Parts) -> bool {
    matches!(parts.method, Method::GET | Method::HEAD)
}
