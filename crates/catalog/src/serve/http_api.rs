//! OLM v1's API of a catalog: `/api/v1/all`, and `/api/v1/metas` with `schema`, `package` and `name`. Both answer with
//! one JSON document after the other.

use std::sync::Arc;

use bytes::Bytes;
use futures::stream;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Frame, Incoming};

use super::documents::Document;
use super::grpc::{Body, SyncBody};
use super::index::Index;

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
    let selected = match path {
        "api/v1/all" => Ok(Selection::default()),
        "api/v1/metas" => Selection::parse(request.uri().query().unwrap_or_default()),
        "healthz" | "readyz" => return plain(StatusCode::OK, "ok"),
        _ => return plain(StatusCode::NOT_FOUND, "404 page not found\n"),
    };
    let selection = match selected {
        Ok(selection) => selection,
        Err(message) => return plain(StatusCode::BAD_REQUEST, &message),
    };
    let known = request.headers().get(header::IF_NONE_MATCH).and_then(|it| it.to_str().ok());
    if known.is_some_and(|known| known.split(',').any(|it| it.trim() == etag)) {
        return plain(StatusCode::NOT_MODIFIED, "");
    }
    let spans = match index.select(|document| selection.has(document)) {
        Ok(spans) => spans,
        Err(error) => return plain(StatusCode::INTERNAL_SERVER_ERROR, &format!("{error}\n")),
    };
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

/// Which documents are asked for; empty texts are any.
#[derive(Default)]
struct Selection {
    schema: String,
    package: String,
    name: String,
}

impl Selection {
    fn parse(query: &str) -> Result<Self, String> {
        let mut selection = Selection::default();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = value.replace('+', " ");
            let value = percent_encoding::percent_decode_str(&value)
                .decode_utf8()
                .map_err(|_| "the query is not UTF-8\n".to_owned())?
                .into_owned();
            match key {
                "schema" => selection.schema = value,
                "package" => selection.package = value,
                "name" => selection.name = value,
                _ => return Err(format!("unknown parameter {key:?}: schema, package and name are known\n")),
            }
        }
        Ok(selection)
    }

    fn has(&self, document: &Document) -> bool {
        // A package is found by its own name too.
        let is_package = document.schema == crate::fbc::schema::PACKAGE;
        let owner = if is_package { &document.name } else { &document.package };
        let fits = |wanted: &str, found: &str| wanted.is_empty() || wanted == found;
        fits(&self.schema, &document.schema) && fits(&self.package, owner) && fits(&self.name, &document.name)
    }
}

fn plain(status: StatusCode, text: &str) -> Response<Body> {
    let mut response = Response::new(Full::new(Bytes::copy_from_slice(text.as_bytes())).boxed());
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}
