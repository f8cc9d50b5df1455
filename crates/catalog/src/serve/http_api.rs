//! OLM v1's API of a catalog: `/api/v1/all`, and `/api/v1/metas` with `schema`, `package` and `name`. Both answer with
//! one JSON document after the other.

use std::sync::Arc;

use bytes::Bytes;
use futures::stream;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Frame, Incoming};

use super::grpc::{Body, SyncBody};
use super::index::{Index, Span};

const MEDIA_TYPE: &str = "application/jsonl";

/// Answers a request.
pub(super) fn answer(index: &Arc<Index>, etag: &str, request: &Request<Incoming>) -> Response<Body> {
    // `/catalogs/<name>` may stand before, as catalogd has it.
    let path = request.uri().path();
    let path = match path.strip_prefix("/catalogs/").and_then(|rest| rest.split_once('/')) {
        Some((_, rest)) => rest,
        None => path.trim_start_matches('/'),
    };
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return plain(StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed\n");
    }
    let spans = match path {
        "api/v1/all" => all(index),
        "api/v1/metas" => match selected(index, request.uri().query().unwrap_or_default()) {
            Ok(spans) => spans,
            Err(message) => return plain(StatusCode::BAD_REQUEST, &message),
        },
        "healthz" | "readyz" => return plain(StatusCode::OK, "ok"),
        _ => return plain(StatusCode::NOT_FOUND, "404 page not found\n"),
    };
    let known = request.headers().get(header::IF_NONE_MATCH).and_then(|it| it.to_str().ok());
    if known.is_some_and(|known| known.split(',').any(|it| it.trim() == etag)) {
        return plain(StatusCode::NOT_MODIFIED, "");
    }
    let index = index.clone();
    let frames = stream::iter(spans.into_iter().map(move |span| {
        let data = index.read(span)?;
        Ok::<_, std::io::Error>(Frame::data(Bytes::from(data)))
    }));
    // A file that cannot be read any more ends the answer early, which the length of the last line shows.
    let frames = futures::StreamExt::filter_map(frames, |frame| async { frame.ok().map(Ok) });
    let mut response = Response::new(SyncBody::new(StreamBody::new(frames)).boxed());
    if request.method() == Method::HEAD {
        response = plain(StatusCode::OK, "");
    }
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
    if let Ok(etag) = HeaderValue::from_str(etag) {
        headers.insert(header::ETAG, etag);
    }
    response
}

fn all(index: &Index) -> Vec<Span> {
    index.graph.metas.iter().map(|meta| meta.span).collect()
}

fn selected(index: &Index, query: &str) -> Result<Vec<Span>, String> {
    let (mut schema, mut package, mut name) = (String::new(), String::new(), String::new());
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        let value = value.replace('+', " ");
        let value = percent_encoding::percent_decode_str(&value)
            .decode_utf8()
            .map_err(|_| "the query is not UTF-8\n".to_owned())?
            .into_owned();
        match key {
            "schema" => schema = value,
            "package" => package = value,
            "name" => name = value,
            _ => return Err(format!("unknown parameter {key:?}: schema, package and name are known\n")),
        }
    }
    let metas = index.graph.metas.iter().filter(|meta| {
        // A package is found by its own name too.
        let owner = if meta.schema == crate::fbc::schema::PACKAGE { &meta.name } else { &meta.package };
        (schema.is_empty() || meta.schema == schema)
            && (package.is_empty() || owner == &package)
            && (name.is_empty() || meta.name == name)
    });
    Ok(metas.map(|meta| meta.span).collect())
}

fn plain(status: StatusCode, text: &str) -> Response<Body> {
    let mut response = Response::new(Full::new(Bytes::copy_from_slice(text.as_bytes())).boxed());
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}
