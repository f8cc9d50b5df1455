//! Requests for group versions that other servers serve: passed on after everything that every request goes through, with
//! bodies streamed both ways and nothing of the answer changed but what belongs to a connection.

mod body;
mod upgrade;

pub use body::ProxiedBody;

use std::sync::Arc;
use std::time::Duration;

use bailiwick_aggregation::headers::{self, Forwarded, Passage};
use bailiwick_aggregation::{Aggregator, Route, Target};
use bailiwick_machinery::status::ApiResult;
use bailiwick_machinery::user::UserInfo;
use bailiwick_webhook::{Backend, RequestBody};
use bytes::Buf;
use http::header::LOCATION;
use http::request::Parts;
use http::{HeaderMap, Version};
use http_body_util::BodyExt;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use crate::http::ResponseBody;
use crate::request_info::RequestInfo;
use crate::server::{Answer, ApiServer, Connection, Exchange};
use crate::tenant::Tenant;

/// How long another server may take for a discovery document: all clients wait for those.
const DISCOVERY_TIMEOUT: Duration = Duration::from_secs(5);
/// What Go leaves as it is in a path.
const PATH_ESCAPED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~')
    .remove(b'$')
    .remove(b'&')
    .remove(b'+')
    .remove(b',')
    .remove(b'/')
    .remove(b':')
    .remove(b';')
    .remove(b'=')
    .remove(b'@');

/// Subresources that last as long as both sides want.
const LASTING_SUBRESOURCES: &[&str] = &["attach", "exec", "proxy", "log", "portforward"];

impl Tenant {
    /// The way a request takes to another server; `None` if it is served here.
    pub(crate) fn route_elsewhere(&self, info: &RequestInfo) -> Option<Arc<Route>> {
        let table = self.aggregation.as_ref()?.table();
        if table.is_local() {
            return None;
        }
        let route = match info.path.strip_prefix("/openapi/v3/") {
            Some(document) => table.route_of_document(document),
            None if info.is_resource => table.route(&info.group, &info.version),
            None => table.route_of_path(&info.path),
        };
        route.cloned()
    }

    /// Ends when the server is about to.
    fn closing(&self) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send>> {
        match &self.aggregation {
            Some(aggregator) => Box::pin(Aggregator::closed(aggregator)),
            None => Box::pin(std::future::pending()),
        }
    }
}

impl ApiServer {
    /// Passes a request on and gives the answer as soon as its head is there.
    #[expect(clippy::too_many_arguments, reason = "everything that is known of a request goes on with it")]
    pub(crate) async fn pass_on<B>(
        &self,
        tenant: &Tenant,
        route: &Route,
        parts: &Parts,
        info: &RequestInfo,
        user: &UserInfo,
        body: B,
        connection: &Connection,
        exchange: &Exchange,
    ) -> ApiResult<Answer>
    where
        B: http_body::Body + Send + 'static,
        B::Data: Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let backend = match route.target().await {
            Target::Server(backend) => backend,
            Target::Unavailable => return Ok(Answer::text(503, "service unavailable\n")),
            Target::Broken(reason) => return Ok(Answer::text(500, format!("{reason}\n"))),
        };
        let passage = match headers::asks_for_upgrade(&parts.headers) {
            true => Passage::Upgrade,
            false => Passage::Plain,
        };
        let path = go_path(parts.uri.path());
        let headers = Forwarded {
            headers: &parts.headers,
            user,
            audit_id: exchange.audit_id(),
            peer: connection.peer.map(|peer| peer.ip()),
            path: &path,
            authority: backend.authority(),
            passage,
        }
        .to_headers();
        let body = body
            // Bytes give up their bytes without copying them.
            .map_frame(|frame| frame.map_data(|mut data| data.copy_to_bytes(data.remaining())))
            .map_err(Into::into)
            .boxed_unsync();
        let request = match request(&backend, parts, &path, headers, body) {
            Ok(request) => request,
            Err(error) => return Ok(unreachable_service(&error.to_string())),
        };
        if passage == Passage::Upgrade {
            return Ok(self.switch_protocols(tenant, &backend, request, parts).await);
        }
        let called = match is_discovery(info) {
            false => backend.request(request).await.map_err(|error| error.reason),
            true => match tokio::time::timeout(DISCOVERY_TIMEOUT, backend.request(request)).await {
                Ok(called) => called.map_err(|error| error.reason),
                Err(_) => Err("context deadline exceeded".to_owned()),
            },
        };
        let response = match called {
            Ok(response) => response,
            Err(reason) => return Ok(unreachable_service(&reason)),
        };
        if response.status().is_redirection() && response.headers().contains_key(LOCATION) {
            let text = "the backend attempted to redirect this request, which is not permitted";
            return Ok(Answer::new(502, "text/plain; charset=utf-8", ResponseBody::full(text)));
        }
        let (head, body) = response.into_parts();
        let body = match is_lasting(info) {
            true => ProxiedBody::lasting(body, tenant.closing()),
            false => ProxiedBody::brief(body, self.config.request_timeout),
        };
        let headers = headers::of_answer(head.headers, Passage::Plain);
        let body = ResponseBody::Proxied(Box::new(body));
        Ok(Answer::passed_on(head.status.as_u16(), headers, body))
    }
}

fn request(
    backend: &Backend,
    parts: &Parts,
    path: &str,
    headers: HeaderMap,
    body: RequestBody,
) -> http::Result<http::Request<RequestBody>> {
    let query = parts.uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    let uri = format!("{}{path}{query}", backend.base());
    let mut request =
        http::Request::builder().method(parts.method.clone()).uri(uri).version(Version::HTTP_11).body(body)?;
    *request.headers_mut() = headers;
    Ok(request)
}

/// A path with what it hides behind escapes in the open, as we understood it when we authorized the request: the other
/// server must not understand anything else.
fn go_path(path: &str) -> String {
    if !path.contains('%') {
        return path.to_owned();
    }
    let decoded = percent_decode_str(path).decode_utf8_lossy();
    utf8_percent_encode(&decoded, PATH_ESCAPED).to_string()
}

/// As upstream's proxy says it.
fn unreachable_service(reason: &str) -> Answer {
    Answer::text(503, format!("error trying to reach service: {reason}\n"))
}

/// Whether a request asks which resources a group version has.
fn is_discovery(info: &RequestInfo) -> bool {
    !info.is_resource && info.path.trim_matches('/').split('/').count() == 3
}

/// Whether a request goes on for as long as both sides want.
fn is_lasting(info: &RequestInfo) -> bool {
    info.verb == "watch" || LASTING_SUBRESOURCES.contains(&info.subresource.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn escapes_are_taken_out_where_they_could_mean_two_things() {
        assert_eq!(go_path("/apis/g/v1/namespaces/a%2Fb/things"), "/apis/g/v1/namespaces/a/b/things");
        assert_eq!(go_path("/apis/g/v1/things/a%20b%3Fc"), "/apis/g/v1/things/a%20b%3Fc");
        assert_eq!(go_path("/apis/g/v1/things/a:b"), "/apis/g/v1/things/a:b");
    }

    proptest! {
        #[test]
        fn any_path_stays_a_path(path in "/[ -~]{0,60}") {
            let uri: Result<http::Uri, _> = format!("https://h{}", go_path(&path).replace(['#', '?'], "")).parse();
            prop_assert!(uri.is_ok() || !path.contains('%'));
        }
    }
}
