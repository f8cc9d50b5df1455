//! The API server without a socket: every request, from the network or in process, goes through [`ApiServer::handle`].
//!
//! The pipeline is plain: read what the request is about, find out who sends it, whether they may, serve it, count it.

mod audit;
mod deadline;
mod dispatch;
mod explain;
mod flow;
mod nonresource;
mod paths;
mod projects;
mod respond;
mod trace;

pub use audit::Recording;
pub use flow::FlowLimits;
pub use paths::{PathRoute, Planes};
pub use projects::{PROJECT_ADMINS, project_issuer};
pub(crate) use respond::{Answer, Exchange};

use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bailiwick_admission::webhook::calls_measured;
use bailiwick_audit::Auditor;
use bailiwick_auth::authn::bearer::{self, Bearer};
use bailiwick_auth::authn::{AuthRequest, PeerCertificates, RequestAuthenticator, TargetAudiences};
use bailiwick_auth::authz::{Attributes, ResourceTarget, Target};
use bailiwick_auth::impersonation;
use bailiwick_auth::keys::TokenKeys;
use bailiwick_flowcontrol::Seat;
use bailiwick_machinery::audit::AuditContext;
use bailiwick_machinery::status::{ApiError, ApiResult};
use bailiwick_machinery::user::UserInfo;
use bailiwick_store as store;
use bailiwick_traces::{Span, Tracer};
use bytes::Bytes;
use futures::FutureExt;
use http::header::{AUTHORIZATION, HeaderValue, STRICT_TRANSPORT_SECURITY};
use http::request::Parts;
use http::{Method, Response};
use http_body_util::{BodyExt, Limited};
use jiff::Timestamp;
use rustls::pki_types::CertificateDer;

use crate::cache::{Caches, QueueLimits};
use crate::encryption::StorageEncryption;
use crate::http::ResponseBody;
use crate::lookup::Loaded;
use crate::metrics::{Course, Metrics, Subject};
use crate::project_path::ProjectPath;
use crate::request_info::RequestInfo;
use crate::tenant::Tenant;
use crate::tenants::Tenants;
use bailiwick_machinery::query::Query;

/// The largest request body, as upstream.
pub const BODY_BYTES_MAX: usize = 3 * 1024 * 1024;

/// Where the audit event of a request says which project it was for.
const PROJECT_ANNOTATION: &str = "bailiwick.dev/project";

/// What a server is made of.
pub struct Config {
    pub authenticator: RequestAuthenticator,
    /// What records requests; nothing is recorded without it.
    pub auditor: Option<Arc<Auditor>>,
    /// The keys of the store, where it has any.
    pub encryption: Option<Arc<dyn StorageEncryption>>,
    /// How many requests run at once, and who waits.
    pub flow_limits: FlowLimits,
    /// Keys that verify our tokens, for the discovery of our issuer.
    pub token_keys: Arc<TokenKeys>,
    /// Where others find those keys, if not at [`Config::address`].
    pub jwks_uri: Option<String>,
    /// How long a request other than a watch may take.
    pub request_timeout: Duration,
    /// How much undelivered a watcher may pile up, see [`crate::http::Limits`].
    pub watch_queue: QueueLimits,
    /// Where clients reach us, as discovery tells them: `host:port`.
    pub address: String,
    /// What browsers are told about HTTPS.
    pub strict_transport_security: Option<HeaderValue>,
    /// What keeps traces of requests; none are kept without it.
    pub tracer: Option<Arc<Tracer>>,
    /// What services in this process add to `/metrics`.
    pub service_metrics: Vec<MetricsSource>,
}

/// Appends metrics in Prometheus' text form.
pub type MetricsSource = Arc<dyn Fn(&mut String) + Send + Sync>;

/// The API server: what all control planes share, and the control planes.
pub struct ApiServer {
    /// The control plane at `/`.
    pub(crate) root: Arc<Tenant>,
    /// Those of projects; `None` where there are none.
    pub(crate) tenants: Option<Tenants>,
    pub(crate) caches: Arc<Caches>,
    pub(crate) config: Config,
    pub(crate) metrics: Arc<Metrics>,
    shutting_down: AtomicBool,
}

/// What is known of the connection a request came by.
pub struct Connection {
    pub peer: Option<SocketAddr>,
    certificates: PeerCertificates,
    /// For in-process callers, who need no credentials.
    trusted: Option<Arc<UserInfo>>,
}

impl Connection {
    pub fn new(peer: Option<SocketAddr>, chain: Vec<CertificateDer<'static>>) -> Self {
        Self { peer, certificates: PeerCertificates::new(chain), trusted: None }
    }

    /// A connection within this process that acts as `user`.
    pub fn in_process(user: UserInfo) -> Self {
        Self { peer: None, certificates: PeerCertificates::new(Vec::new()), trusted: Some(Arc::new(user)) }
    }
}

impl ApiServer {
    pub fn new(root: Arc<Tenant>, tenants: Option<Tenants>, caches: Arc<Caches>, config: Config) -> Arc<Self> {
        let metrics = Arc::new(Metrics::new());
        Arc::new(Self { root, tenants, caches, config, metrics, shutting_down: AtomicBool::new(false) })
    }

    /// The control plane at `/`.
    pub fn root(&self) -> &Arc<Tenant> {
        &self.root
    }

    /// What is stored, as this server sees it.
    pub fn caches(&self) -> &Arc<Caches> {
        &self.caches
    }

    /// Fails `/readyz`, so that load balancers look for others. Everything else goes on.
    pub fn announce_shutdown(&self) {
        self.shutting_down.store(true, Ordering::Release);
    }

    /// Fails `/readyz` and ends all watches, so that connections can drain.
    pub fn begin_shutdown(&self) {
        self.announce_shutdown();
        self.caches.close_watchers();
        if let Some(aggregator) = &self.root().aggregation {
            aggregator.close();
        }
    }

    pub(crate) fn is_shutting_down(&self) -> bool {
        self.shutting_down.load(Ordering::Acquire)
    }

    /// Serves one request. Never fails: what goes wrong becomes a Status.
    pub async fn handle<B>(
        self: &Arc<Self>,
        request: http::Request<B>,
        connection: Arc<Connection>,
    ) -> Response<ResponseBody>
    where
        B: http_body::Body + Send + 'static,
        B::Data: Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let started = Instant::now();
        let (parts, body) = request.into_parts();
        let query = Query::parse(parts.uri.query().unwrap_or_default());
        let path = ProjectPath::of(parts.uri.path());
        let info = RequestInfo::parse(&parts.method, path.rest, &query);
        let mut exchange = respond::Exchange::new(&parts, self.config.auditor.as_ref());
        let serving =
            AssertUnwindSafe(self.serve(&parts, path.project, &query, &info, body, &connection, &mut exchange));
        let outcome = match serving.catch_unwind().await {
            Ok(outcome) => outcome,
            Err(_) => {
                self.metrics.panics.inc();
                tracing::error!(path = parts.uri.path(), "a request panicked");
                exchange.panicked().await;
                Err(ApiError::internal("the server could not serve the request"))
            }
        };
        let span = exchange.span.take();
        let subject = self.subject(exchange.tenant.as_ref().unwrap_or(&self.root), &info, &query, &parts.method);
        let course = Course { subject, started, waited: exchange.waited };
        let mut response = exchange.finish(outcome, &parts, &query, &self.metrics.panics).await;
        trace::end(span, &parts, &response);
        if let Some(value) = &self.config.strict_transport_security {
            response.headers_mut().insert(STRICT_TRANSPORT_SECURITY, value.clone());
        }
        self.metrics.answered(course, response)
    }

    #[allow(clippy::too_many_arguments, reason = "the parts of a request, each once")]
    async fn serve<B>(
        self: &Arc<Self>,
        parts: &Parts,
        project: Option<&str>,
        query: &Query,
        info: &RequestInfo,
        body: B,
        connection: &Connection,
        exchange: &mut respond::Exchange,
    ) -> ApiResult<respond::Answer>
    where
        B: http_body::Body + Send + 'static,
        B::Data: Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        // Our own last write to roles, namespaces and accounts counts for the very next request.
        match tokio::time::timeout(self.config.request_timeout, self.caches.wait_decisive()).await {
            Ok(current) => current.map_err(|error| store_error(&error))?,
            Err(_) => return Err(request_timeout()),
        }
        if bearer_of(parts) == Bearer::ExtraSpace {
            exchange.warnings.push(bearer::EXTRA_SPACE_WARNING.to_owned());
        }
        let deadline = deadline::of(query, info, self.config.request_timeout);
        let authenticated = match (deadline, project) {
            (Err(refusal), _) => Err(refusal),
            (Ok(allowed), None) => {
                self.authenticate(parts, connection).await.map(|user| (Caller::OfRoot(user), allowed))
            }
            (Ok(allowed), Some(name)) => {
                let visitor = self.authenticate_visitor(name, parts, connection).await;
                visitor.map(|who| (Caller::Visits(name, who), allowed))
            }
        };
        let (caller, allowed) = match authenticated {
            Ok(known) => known,
            Err(refusal) => {
                exchange.span = trace::begin(self.config.tracer.as_ref(), parts, None);
                exchange.identified(self, parts, info, connection, audit::Sender::Unknown).await?;
                return Err(refusal);
            }
        };
        exchange.span = trace::begin(self.config.tracer.as_ref(), parts, Some(caller.user()));
        exchange.identified(self, parts, info, connection, audit::Sender::Known(caller.user())).await?;
        let (entered, user, counted) = match caller {
            Caller::OfRoot(user) => (None, user, None),
            Caller::Visits(name, visitor) => {
                exchange.audit.annotate(PROJECT_ANNOTATION, name.to_owned());
                let counted = visitor.counted(name);
                let (tenant, user) = self.enter(name, visitor).await?;
                exchange.tenant = Some(tenant.clone());
                (Some(tenant), user, Some(counted))
            }
        };
        let tenant = entered.as_ref().unwrap_or(&self.root);
        let user = self.impersonate(tenant, parts, user, info, query, &exchange.audit).await?;
        let counted = counted.as_ref().unwrap_or(&user);
        let queued = Instant::now();
        let admitted = self.admit(tenant, counted, info, query, exchange).await;
        exchange.waited = queued.elapsed();
        let mut seat = match admitted {
            Ok(seat) => seat,
            Err(refused) => return Ok(refused),
        };
        let turn = seat.as_mut().and_then(Seat::take_turn);
        let mutating = !matches!(info.verb, "get" | "list" | "watch" | "head" | "options");
        let _inflight = self.metrics.begin(mutating);
        let traced = exchange.span.as_ref().map(Span::context);
        let (done, calling) = {
            // Pinned, so that what is around it does not carry it along: each would double the size of the future.
            let work = pin!(async {
                self.authorize(tenant, &attributes(&user, info, query), &exchange.audit).await?;
                if let Some(route) = tenant.route_elsewhere(info) {
                    return self.pass_on(tenant, &route, parts, info, &user, body, connection, exchange).await;
                }
                let body = if mutating { read_body(body).await? } else { Bytes::new() };
                match info.is_resource {
                    true => self.dispatch(tenant, parts, query, info, &user, body, exchange).await,
                    false => self.nonresource(tenant, parts, query, info, &user).await,
                }
            });
            let work = pin!(tokio::time::timeout(allowed, trace::within(traced, work)));
            calls_measured(flow::computing(turn, work)).await
        };
        exchange.waited += calling;
        match done {
            Ok(answer) => answer.map(|mut answer| {
                exchange.seat = seat.and_then(|seat| answer.body.hold(seat));
                answer
            }),
            Err(_) => Err(request_timeout()),
        }
    }

    async fn authenticate(&self, parts: &Parts, connection: &Connection) -> ApiResult<Arc<UserInfo>> {
        if let Some(user) = &connection.trusted {
            return Ok(user.clone());
        }
        let bearer_token = match bearer_of(parts) {
            Bearer::Token(token) => Some(token),
            Bearer::Absent | Bearer::ExtraSpace => None,
        };
        let request = AuthRequest {
            bearer_token,
            peer: Some(&connection.certificates).filter(|certificates| !certificates.is_empty()),
            headers: Some(&parts.headers),
            path: parts.uri.path(),
            audiences: TargetAudiences::Server,
            now: Timestamp::now(),
        };
        // Some tokens have to be asked about elsewhere, and nobody there knows how long our client waits.
        let ask = async || {
            let asking = self.config.authenticator.authenticate(&request);
            tokio::time::timeout(self.config.request_timeout, asking).await.map_err(|_| request_timeout())
        };
        let complete = self.root.lookup.is_complete();
        let mut authenticated = ask().await?;
        if authenticated.is_err() && !complete && self.root.loaded_missed().await? == Loaded::More {
            authenticated = ask().await?;
        }
        match authenticated {
            Ok(authentication) => Ok(authentication.user),
            Err(error) => {
                tracing::debug!(%error, "authentication failed");
                Err(ApiError::unauthorized())
            }
        }
    }

    async fn impersonate(
        &self,
        tenant: &Tenant,
        parts: &Parts,
        user: Arc<UserInfo>,
        info: &RequestInfo,
        query: &Query,
        audit: &AuditContext,
    ) -> ApiResult<Arc<UserInfo>> {
        if !parts.headers.keys().any(|name| name.as_str().starts_with("impersonate-")) {
            return Ok(user);
        }
        let headers = parts.headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
        let Some(wanted) = impersonation::requested(headers)? else { return Ok(user) };
        let attributes = attributes(&user, info, query);
        let granted = impersonation::authorize(&tenant.authorizers, &attributes, &wanted).await?;
        let user = Arc::new(granted.user);
        audit.impersonated(&user, granted.constraint);
        Ok(user)
    }

    /// Whether the request may go on; the audit log learns the decision and its reason.
    async fn authorize(&self, tenant: &Tenant, attributes: &Attributes<'_>, audit: &AuditContext) -> ApiResult<()> {
        let decision = tenant.authorizers.authorize(attributes).await;
        if audit.is_on() {
            if decision.error().is_some() {
                audit.annotate("authorization.k8s.io/reason", "internal error");
            } else {
                let word = if decision.is_allowed() { "allow" } else { "forbid" };
                audit.annotate("authorization.k8s.io/decision", word);
                audit.annotate("authorization.k8s.io/reason", decision.reason().to_owned());
            }
        }
        decision.require(attributes)
    }

    /// What a request counts as in metrics: only known resources become labels, so that clients cannot make up new ones.
    fn subject(&self, tenant: &Tenant, info: &RequestInfo, query: &Query, method: &Method) -> Subject {
        let registry = tenant.registry.load();
        let served = registry.get(&info.group, &info.version, &info.resource).filter(|_| info.is_resource);
        // What projects define could be anything, and any number of names.
        let served = served.filter(|served| tenant.project.is_none() || served.is_built_in());
        let verb = match info.verb {
            "get" if info.is_resource => "GET",
            "list" => "LIST",
            "watch" => "WATCH",
            "create" => "POST",
            "update" => "PUT",
            "patch" => "PATCH",
            "delete" => "DELETE",
            "deletecollection" => "DELETECOLLECTION",
            _ => match *method {
                Method::GET => "GET",
                Method::HEAD => "HEAD",
                Method::POST => "POST",
                Method::PUT => "PUT",
                Method::PATCH => "PATCH",
                Method::DELETE => "DELETE",
                _ => "other",
            },
        };
        let dry_run = match query.get("dryRun").unwrap_or_default() {
            "" => "",
            "All" => "All",
            _ => "invalid",
        };
        let scope = match served {
            None => "",
            Some(_) if !info.name.is_empty() || info.verb == "create" => "resource",
            Some(served) if served.resource.namespaced() && !info.namespace.is_empty() => "namespace",
            Some(_) => "cluster",
        };
        match served {
            Some(served) => {
                let known = served.resource.subresource(&info.subresource).is_some();
                Subject {
                    verb,
                    dry_run,
                    group: served.labels.group.clone(),
                    version: served.labels.version.clone(),
                    resource: served.labels.resource.clone(),
                    subresource: if known { info.subresource.as_str().into() } else { served.labels.none.clone() },
                    scope,
                }
            }
            None => {
                let none: Arc<str> = "".into();
                Subject {
                    verb,
                    dry_run,
                    group: none.clone(),
                    version: none.clone(),
                    resource: none.clone(),
                    subresource: none,
                    scope,
                }
            }
        }
    }
}

/// Who sent a request, and where to.
enum Caller<'a> {
    OfRoot(Arc<UserInfo>),
    /// To the project of this name.
    Visits(&'a str, projects::Visitor),
}

impl Caller<'_> {
    fn user(&self) -> &Arc<UserInfo> {
        match self {
            Self::OfRoot(user) => user,
            Self::Visits(_, visitor) => &visitor.user,
        }
    }
}

fn bearer_of(parts: &Parts) -> Bearer<'_> {
    let header = parts.headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    header.map_or(Bearer::Absent, bearer::parse)
}

fn attributes<'a>(user: &'a UserInfo, info: &'a RequestInfo, query: &'a Query) -> Attributes<'a> {
    let selects = matches!(info.verb, "list" | "watch" | "deletecollection");
    let selector = |name: &str| if selects { query.get(name).unwrap_or_default() } else { "" };
    let target = if info.is_resource {
        Target::Resource(ResourceTarget {
            group: &info.group,
            version: &info.version,
            resource: &info.resource,
            subresource: &info.subresource,
            namespace: &info.namespace,
            name: info.meant_name(),
            field_selector: selector("fieldSelector"),
            label_selector: selector("labelSelector"),
        })
    } else {
        Target::Path(&info.path)
    };
    Attributes { user, verb: info.verb, target }
}

async fn read_body<B>(body: B) -> ApiResult<Bytes>
where
    B: http_body::Body + Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    match Limited::new(body, BODY_BYTES_MAX).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<http_body_util::LengthLimitError>() => {
            Err(ApiError::request_entity_too_large(format!("Request entity too large: limit is {BODY_BYTES_MAX}")))
        }
        Err(error) => Err(ApiError::bad_request(format!("the request body could not be read: {error}"))),
    }
}

fn request_timeout() -> ApiError {
    ApiError::timeout("Timeout: request did not complete within the allotted timeout", 0)
}

/// A failed store operation as clients see it; the operator finds the rest in the log.
pub(crate) fn store_error(error: &store::Error) -> ApiError {
    match error {
        store::Error::Compacted { requested, compacted } => {
            ApiError::expired(format!("too old resource version: {requested} ({compacted})"))
        }
        store::Error::InvalidRequest(reason) => ApiError::bad_request(reason.clone()),
        store::Error::Transform(reason) => {
            tracing::error!(%error, "a value cannot be decrypted or encrypted");
            ApiError::internal(reason.clone())
        }
        store::Error::NoSpace(_) => {
            tracing::error!(%error, "store is out of space");
            ApiError::new(
                507,
                "InsufficientStorage",
                "the store is out of space: reads go on, writes will when there is room again",
            )
        }
        _ => {
            tracing::error!(%error, "store operation failed");
            ApiError::internal("the store did not answer")
        }
    }
}
