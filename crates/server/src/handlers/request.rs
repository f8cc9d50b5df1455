//! What a handler gets and gives back.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bailiwick_admission::Notes;
use bailiwick_machinery::audit::AuditContext;
use bailiwick_machinery::custom::ScalePaths;
use bailiwick_machinery::list_options::ListOptions;
use bailiwick_machinery::media::{self, MetaVersion, Negotiated, Transform};
use bailiwick_machinery::origin::Origin;
use bailiwick_machinery::resource::{Subresource, go_name};
use bailiwick_machinery::sensitivity::Sensitivity;
use bailiwick_machinery::status::{ApiError, ApiResult};
use bailiwick_machinery::strategy::{Context, Strategy};
use bailiwick_machinery::user::UserInfo;
use bailiwick_store as store;
use http::HeaderMap;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderValue, USER_AGENT};
use jiff::Timestamp;

use super::scale;
use crate::cache::{CacheSpec, Filter, Object, ResourceCache};
use crate::encode::{Encoder, IncludeObject, Layout, Shape};
use crate::http::ResponseBody;
use crate::registry::Served;
use crate::request_info::RequestInfo;
use crate::server::ApiServer;
use crate::tenant::Tenant;
use bailiwick_machinery::query::Query;

/// How long a write may take in all, webhooks included, as upstream.
const WRITE_TIMEOUT_MAX: Duration = Duration::from_secs(34);

/// A request about a resource, authenticated and authorized.
pub struct Request<'a> {
    pub server: &'a Arc<ApiServer>,
    /// The control plane it is for.
    pub tenant: &'a Arc<Tenant>,
    pub info: &'a RequestInfo,
    pub query: &'a Query,
    pub headers: &'a HeaderMap,
    pub served: &'a Arc<Served>,
    pub user: &'a UserInfo,
    pub now: Timestamp,
    /// What the request leaves for the audit log: annotate what happens to it here.
    pub audit: &'a AuditContext,
    /// When the client has its answer at the latest.
    pub deadline: Instant,
    /// What admission leaves: warnings for the answer, annotations for the audit event.
    pub notes: Notes,
}

/// The refusal of tables for answers that are not stored objects.
const ONLY_WHOLE_OBJECTS: &str = "only the following media types are accepted: application/json, application/yaml, \
                                  application/vnd.kubernetes.protobuf";

/// Whether the answer is made up for the request: a review, a token.
fn rq_is_unstored(rq: &Request<'_>) -> bool {
    rq.served.cache.is_none() || rq.info.subresource == "token"
}

/// An answer before compression and common headers.
pub struct Reply {
    pub status: u16,
    pub content_type: &'static str,
    pub body: ResponseBody,
}

impl Reply {
    pub fn new(status: u16, content_type: &'static str, body: ResponseBody) -> Self {
        Self { status, content_type, body }
    }
}

impl<'a> Request<'a> {
    #[allow(clippy::too_many_arguments, reason = "the parts of a request, each once")]
    pub fn new(
        server: &'a Arc<ApiServer>,
        tenant: &'a Arc<Tenant>,
        info: &'a RequestInfo,
        query: &'a Query,
        headers: &'a HeaderMap,
        served: &'a Arc<Served>,
        user: &'a UserInfo,
        audit: &'a AuditContext,
    ) -> Self {
        Self {
            server,
            tenant,
            info,
            query,
            headers,
            served,
            user,
            now: Timestamp::now(),
            deadline: Instant::now() + server.config.request_timeout.min(WRITE_TIMEOUT_MAX),
            audit,
            notes: Notes::default(),
        }
    }

    /// Sends advice to the client along with the answer.
    pub fn warn(&self, warning: impl Into<String>) {
        self.notes.warn(warning);
    }

    /// What strategies may know.
    pub fn strategy_context(&self) -> Context<'_> {
        Context { now: self.now, user: self.user, warnings: Some(&self.notes.warnings) }
    }

    /// What messages about this request must not repeat.
    pub fn sensitivity(&self) -> Sensitivity {
        Sensitivity::of(&self.info.group, &self.info.resource, &self.info.subresource)
    }

    /// The rules for writes through this path: the subresource's if there is one.
    pub fn strategy(&self) -> &dyn Strategy {
        match self.subresource() {
            Some(subresource) => &*subresource.strategy,
            None => &*self.served.resource.strategy,
        }
    }

    pub fn subresource(&self) -> Option<&Subresource> {
        if self.info.subresource.is_empty() { None } else { self.served.resource.subresource(&self.info.subresource) }
    }

    pub async fn cache(&self) -> ApiResult<Arc<ResourceCache>> {
        self.server.caches.resource(self.cache_spec()?).await.map_err(|error| self.store_error(error))
    }

    pub fn cache_spec(&self) -> ApiResult<&CacheSpec> {
        self.served
            .cache
            .as_ref()
            .ok_or_else(|| ApiError::method_not_supported(&self.served.group_resource, self.info.verb))
    }

    /// The named object as of every write acknowledged before this request.
    pub async fn current(&self, name: &str) -> ApiResult<Option<Arc<Object>>> {
        self.server.caches.wait_current().await.map_err(|error| self.store_error(error))?;
        Ok(self.cache().await?.get(&self.served.key(&self.info.namespace, name)))
    }

    pub fn not_found(&self) -> ApiError {
        ApiError::not_found(&self.served.group_resource, &self.info.name)
    }

    /// A failed store operation as clients see it; the operator finds the rest in the log.
    pub fn store_error(&self, error: store::Error) -> ApiError {
        crate::server::store_error(&error)
    }

    /// Where the resource comes from.
    pub fn origin(&self) -> Origin {
        if self.served.resource.native.is_some() { Origin::Native } else { Origin::Custom }
    }

    fn header(&self, name: http::header::HeaderName) -> &str {
        self.headers.get(name).map(HeaderValue::to_str).and_then(Result::ok).unwrap_or_default()
    }

    /// The program that sent the request, as it calls itself.
    pub fn user_agent(&self) -> &str {
        self.header(USER_AGENT)
    }

    /// The Content-Type of the body; empty when absent.
    pub fn content_type(&self) -> &str {
        self.header(CONTENT_TYPE)
    }

    /// The encoder the Accept header asks for.
    pub fn encoder(&self, answer: media::Answer) -> ApiResult<Encoder> {
        let Negotiated { media, transform, pretty } = media::negotiate(self.header(ACCEPT), self.origin(), answer)?;
        let unstored = rq_is_unstored(self);
        let shape = match (transform, answer) {
            (Transform::Table(_), _) if unstored => {
                return Err(ApiError::not_acceptable(ONLY_WHOLE_OBJECTS));
            }
            (Transform::None, _) => (Shape::Whole, MetaVersion::V1),
            (Transform::Table(version), _) => (Shape::Table, version),
            (Transform::PartialObjectMetadata(version), media::Answer::Object | media::Answer::Watch)
            | (Transform::PartialObjectMetadataList(version), media::Answer::List) => (Shape::Metadata, version),
            (Transform::PartialObjectMetadata(_), media::Answer::List) => {
                let name = self.served.resource.go_name();
                return Err(ApiError::not_acceptable(format!(
                    "you requested PartialObjectMetadata, but the requested object is a list (*{name}List)"
                )));
            }
            (Transform::PartialObjectMetadataList(_), _) => {
                let name = match self.info.subresource.as_str() {
                    "token" => go_name("authentication.k8s.io", "TokenRequest"),
                    _ => self.served.resource.go_name(),
                };
                return Err(ApiError::not_acceptable(format!(
                    "you requested PartialObjectMetadataList, but the requested object is not a list (*{name})"
                )));
            }
        };
        let include = match (transform, self.query.get("includeObject")) {
            (Transform::Table(_), Some("None")) => IncludeObject::None,
            (Transform::Table(_), Some("Object")) => IncludeObject::Object,
            (Transform::Table(_), Some(other)) if !matches!(other, "" | "Metadata") => {
                return Err(ApiError::bad_request(format!(
                    "Unable to convert to Table as requested: includeObject: Invalid value: {other:?}: must be \
                     'Metadata', 'Object', 'None', or empty"
                )));
            }
            _ => IncludeObject::Metadata,
        };
        let asked = || media::wants_pretty(self.query.get("pretty"), self.header(USER_AGENT));
        let pretty = answer != media::Answer::Watch && (pretty || asked());
        let layout = if pretty { Layout::Pretty } else { Layout::Compact };
        Ok(Encoder::new(self.served.clone(), media, shape, layout, include))
    }

    /// What a list or watch lets through.
    pub fn filter(&self, options: &ListOptions) -> ApiResult<Filter> {
        Filter::of(self.served, &self.info.namespace, options)
    }

    /// One object in the negotiated form.
    pub async fn object_reply(&self, status: u16, encoder: &Encoder, mut object: Arc<Object>) -> ApiResult<Reply> {
        if let Some(scale) = self.scale_paths() {
            let scale = scale::of(self, scale, &object).await?;
            return Ok(Reply::new(status, encoder.content_type(), ResponseBody::full(encoder.scale(scale)?)));
        }
        if self.served.needs_webhook(&object) {
            object = self.served.present_all(vec![object]).await?.pop().ok_or_else(|| self.not_found())?;
        }
        self.audit.response_object(|| encoder.as_json()?.object(&object).ok());
        Ok(Reply::new(status, encoder.content_type(), ResponseBody::full(encoder.object(&object)?)))
    }

    /// Where the values of a Scale are, when the request is about one.
    pub fn scale_paths(&self) -> Option<&ScalePaths> {
        let custom = self.served.resource.custom.as_ref().filter(|_| self.info.subresource == "scale")?;
        custom.scale.as_ref()
    }
}
