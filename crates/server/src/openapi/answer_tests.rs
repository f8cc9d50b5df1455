//! The HTTP manners of the OpenAPI paths, as kube-apiserver v1.36 has them.

use std::sync::Arc;

use http::Request;
use http::request::Parts;
use http_body_util::BodyExt;

use super::OpenApi;
use super::tests::registry;
use crate::registry::Registry;
use crate::server::Answer;

const RBAC: &str = "/openapi/v3/apis/rbac.authorization.k8s.io/v1";
const V3_PROTOBUF_WITH_AT: &str = "application/com.github.proto-openapi.spec.v3@v1.0+protobuf";

struct Server {
    openapi: OpenApi,
    registry: Arc<Registry>,
}

impl Server {
    fn new() -> Self {
        Self { openapi: OpenApi::default(), registry: registry() }
    }

    async fn get(&self, url: &str, headers: &[(&str, &str)]) -> Answer {
        self.try_get(url, headers).await.expect("an OpenAPI path")
    }

    async fn try_get(&self, url: &str, headers: &[(&str, &str)]) -> Option<Answer> {
        let mut request = Request::get(url);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (parts, ()): (Parts, ()) = request.body(()).expect("a request").into_parts();
        self.openapi.answer(&self.registry, &Default::default(), &parts, parts.uri.path()).await.expect("no failure")
    }
}

fn header<'a>(answer: &'a Answer, name: &str) -> Option<&'a str> {
    answer.headers.iter().find(|(found, _)| found.as_str() == name).and_then(|(_, value)| value.to_str().ok())
}

async fn body(answer: Answer) -> Vec<u8> {
    answer.body.collect().await.expect("nothing breaks off").to_bytes().to_vec()
}

#[tokio::test]
async fn the_client_chooses_the_encoding() {
    let server = Server::new();
    let json = "application/json";
    let protobuf = "application/com.github.proto-openapi.spec.v3.v1.0+protobuf";
    for (accept, expected) in [
        ("", json),
        ("*/*", json),
        ("application/*", json),
        (protobuf, protobuf),
        (V3_PROTOBUF_WITH_AT, protobuf),
        ("application/json;q=0.5, application/com.github.proto-openapi.spec.v3@v1.0+protobuf", protobuf),
    ] {
        let answer = server.get(RBAC, &[("accept", accept)]).await;
        assert_eq!((answer.status, answer.content_type.as_bytes()), (200, expected.as_bytes()), "{accept}");
    }
    for accept in ["text/html", "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"] {
        let answer = server.get(RBAC, &[("accept", accept)]).await;
        assert_eq!((answer.status, header(&answer, "vary")), (406, Some("Accept")), "{accept}");
    }
}

#[tokio::test]
async fn the_index_leads_to_documents_that_may_be_kept_for_ever() {
    let server = Server::new();
    let index: serde_json::Value =
        serde_json::from_slice(&body(server.get("/openapi/v3", &[]).await).await).expect("the index is JSON");
    let url = index["paths"]["apis/rbac.authorization.k8s.io/v1"]["serverRelativeURL"].as_str().expect("an address");
    let answer = server.get(url, &[]).await;
    assert_eq!(answer.status, 200);
    assert_eq!(header(&answer, "cache-control"), Some("public, immutable"));
    assert!(header(&answer, "expires").is_some_and(|expires| expires.ends_with(" UTC")));

    let stale = server.get(&format!("{RBAC}?hash=ABC"), &[]).await;
    assert_eq!((stale.status, header(&stale, "location")), (301, Some(url)));
    assert_eq!(header(&server.get(RBAC, &[]).await, "cache-control"), None);
}

#[tokio::test]
async fn what_the_client_has_is_not_sent_again() {
    let server = Server::new();
    for path in [RBAC, "/openapi/v2"] {
        let first = server.get(path, &[]).await;
        let etag = header(&first, "etag").expect("an entity tag").to_owned();
        for known in [etag.clone(), format!("W/{etag}"), format!("\"other\", {etag}")] {
            assert_eq!(server.get(path, &[("if-none-match", &known)]).await.status, 304, "{known}");
        }
        assert_eq!(server.get(path, &[("if-none-match", "\"other\"")]).await.status, 200);
        let modified = header(&first, "last-modified").expect("a time").to_owned();
        assert_eq!(server.get(path, &[("if-modified-since", &modified)]).await.status, 304);
        let long_ago = [("if-modified-since", "Thu, 01 Jan 1970 00:00:00 GMT")];
        assert_eq!(server.get(path, &long_ago).await.status, 200);
    }
}

#[tokio::test]
async fn compressed_answers_unpack_to_the_plain_ones() {
    let server = Server::new();
    let packed = server.get("/openapi/v2", &[("accept-encoding", "br, gzip")]).await;
    assert_eq!(header(&packed, "content-encoding"), Some("gzip"));
    let packed = body(packed).await;
    let mut unpacked = Vec::new();
    std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(packed.as_slice()), &mut unpacked).expect("gzip");
    assert_eq!(unpacked, body(server.get("/openapi/v2", &[]).await).await);
}

#[tokio::test]
async fn documents_change_with_what_is_served() {
    let mut server = Server::new();
    let before = header(&server.get("/openapi/v2", &[]).await, "etag").map(str::to_owned);
    let known = header(&server.get("/openapi/v3", &[]).await, "last-modified").expect("a time").to_owned();
    assert_eq!(server.get("/openapi/v3", &[("if-modified-since", &known)]).await.status, 304);
    let without_rbac = bailiwick_api::native_resources().into_iter().filter(|r| !r.group.starts_with("rbac")).collect();
    server.registry = Arc::new(Registry::new(&crate::registry::TenantId::root(), without_rbac));
    assert_eq!(server.get(RBAC, &[]).await.status, 404);
    // Within the same second, too.
    assert_eq!(server.get("/openapi/v3", &[("if-modified-since", &known)]).await.status, 200);
    assert_ne!(header(&server.get("/openapi/v2", &[]).await, "etag").map(str::to_owned), before);
}

#[tokio::test]
async fn other_paths_are_not_ours() {
    let server = Server::new();
    for path in ["/openapi", "/openapi/v2/", "/openapi/v4", "/version"] {
        assert!(server.try_get(path, &[]).await.is_none(), "{path}");
    }
    for name in
        ["", "api/v2", "apis/", "apis/nosuch", "apis/nosuch/v1", "apis//v1", "apis/rbac.authorization.k8s.io/v2"]
    {
        assert_eq!(server.get(&format!("/openapi/v3/{name}"), &[]).await.status, 404, "{name}");
    }
}
