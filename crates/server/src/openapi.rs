//! `/openapi/v2` and `/openapi/v3`: documents built when first asked for and kept compressed.
//!
//! [`document`] describes native resources, [`custom`] custom ones, [`assemble`] makes documents of both and [`cache`] keeps
//! them; here are the HTTP manners: negotiation, entity tags, and addresses by content hash that clients may cache for ever.

#[cfg(test)]
mod answer_tests;
mod assemble;
mod body;
mod cache;
mod custom;
mod custom_paths;
#[cfg(test)]
mod custom_tests;
mod document;
mod merged;
mod names;
mod operation;
mod parameters;
mod paths;
mod piece;
mod shared;
mod template;
#[cfg(test)]
mod tests;

pub use body::DocumentBody;
pub use cache::OpenApi;

use std::sync::Arc;

use bailiwick_aggregation::Table;
use bailiwick_machinery::media::parse_accept;
use bailiwick_machinery::query::Query;
use bailiwick_machinery::status::ApiResult;
use http::header::{
    ACCEPT, ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, ETAG, EXPIRES, HeaderName, IF_MODIFIED_SINCE,
    IF_NONE_MATCH, LAST_MODIFIED, LOCATION, VARY,
};
use http::request::Parts;
use jiff::fmt::rfc2822;
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp};

use crate::encode::gzip::GZIP_BYTES_MIN;
use crate::http::ResponseBody;
use crate::registry::Registry;
use crate::server::Answer;
use crate::tenant::Tenant;
use cache::{Index, Key, Stored};
use document::Encoding;
use merged::{Converted, MergedV2};
use piece::Rendered;

const JSON: &str = "application/json";
const TEXT: &str = "text/plain; charset=utf-8";
const V2_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
const V3_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v3.v1.0+protobuf";

/// The answer to an OpenAPI path; `None` for other paths.
pub(crate) async fn answer(tenant: &Tenant, parts: &Parts, path: &str) -> ApiResult<Option<Answer>> {
    if !path.starts_with("/openapi/") {
        return Ok(None);
    }
    let nothing = Table::default();
    let table = tenant.aggregation.as_ref().map(|aggregator| aggregator.current_table());
    let (documents, registry) = tenant.openapi();
    documents.answer(&registry, table.as_deref().unwrap_or(&nothing), parts, path).await
}

impl OpenApi {
    async fn answer(
        &self,
        registry: &Arc<Registry>,
        table: &Table,
        parts: &Parts,
        path: &str,
    ) -> ApiResult<Option<Answer>> {
        if path == "/openapi/v3" {
            return Ok(Some(index(parts, &self.merged_index(registry, table).await?)));
        }
        let (key, protobuf) = match path.strip_prefix("/openapi/v3/") {
            Some(name) => (Key::V3(name.to_owned()), V3_PROTOBUF),
            None if path == "/openapi/v2" => (Key::V2, V2_PROTOBUF),
            None => return Ok(None),
        };
        let Some(encoding) = negotiate(parts, protobuf) else { return Ok(Some(not_acceptable())) };
        let Some(document) = self.document(registry, table, key.clone()).await? else { return Ok(Some(empty(404))) };
        let stored = document.stored();
        let content_type = if encoding == Encoding::Json { JSON } else { protobuf };
        let query = Query::parse(parts.uri.query().unwrap_or_default());
        let wanted = query.get("hash").filter(|hash| !hash.is_empty());
        if let (Key::V3(name), Some(hash)) = (&key, wanted)
            && hash != &*stored.hash
        {
            let elsewhere = Answer::new(301, content_type, ResponseBody::empty())
                .header(LOCATION, &address(name, &stored.hash))
                .header(ETAG, &entity_tag(stored))
                .header(VARY, "Accept");
            return Ok(Some(elsewhere));
        }
        let for_ever = key != Key::V2 && wanted.is_some();
        let answer = match is_known(parts, stored) {
            true => Answer::new(304, content_type, ResponseBody::empty()),
            false => {
                let body = whole(parts, self.bytes_of(registry, &document, key, encoding).await?, content_type);
                body.header(LAST_MODIFIED, &http_date(stored.modified))
            }
        };
        let answer = answer.header(ETAG, &entity_tag(stored)).header(VARY, "Accept, Accept-Encoding");
        Ok(Some(match for_ever {
            true => answer.header(CACHE_CONTROL, "public, immutable").header(EXPIRES, &in_a_year()),
            false => answer,
        }))
    }
}

/// Where a document comes from.
enum Source {
    Own(Arc<Stored>),
    Merged(MergedV2),
    Converted(Converted),
}

impl Source {
    fn stored(&self) -> &Arc<Stored> {
        match self {
            Self::Own(stored) => stored,
            Self::Merged(merged) => &merged.stored,
            Self::Converted(converted) => &converted.stored,
        }
    }
}

impl OpenApi {
    async fn document(&self, registry: &Arc<Registry>, table: &Table, key: Key) -> ApiResult<Option<Source>> {
        match &key {
            Key::V2 => {
                if let Some(merged) = self.merged_v2(registry, table).await? {
                    return Ok(Some(Source::Merged(merged)));
                }
            }
            Key::V3(name) => {
                if let Some(converted) = self.converted(table, name) {
                    return Ok(Some(Source::Converted(converted)));
                }
            }
        }
        Ok(self.stored(registry, key).await?.map(Source::Own))
    }

    async fn bytes_of(
        &self,
        registry: &Arc<Registry>,
        document: &Source,
        key: Key,
        encoding: Encoding,
    ) -> ApiResult<Arc<Rendered>> {
        match document {
            Source::Own(stored) => self.rendered(registry, key, stored, encoding).await,
            Source::Merged(merged) => self.rendered_v2(registry, merged, encoding).await,
            Source::Converted(converted) => converted.rendered(encoding).await,
        }
    }
}

/// Where the present content of a version 3 document is.
fn address(name: &str, hash: &str) -> String {
    format!("/openapi/v3/{name}?hash={hash}")
}

/// The first encoding the client accepts; JSON when it has no wishes.
fn negotiate(parts: &Parts, protobuf: &str) -> Option<Encoding> {
    let accept = text(parts, &ACCEPT).filter(|accept| !accept.is_empty()).unwrap_or("*/*");
    // Older clients write the name with an @, which is not a valid media type.
    let with_at = protobuf.replace(".v1.0", "@v1.0");
    let offers = [(JSON, Encoding::Json), (protobuf, Encoding::Protobuf), (&with_at, Encoding::Protobuf)];
    parse_accept(accept).iter().find_map(|clause| {
        offers.iter().find_map(|(offer, encoding)| {
            let (kind, subtype) = offer.split_once('/')?;
            let matches = [(clause.kind, kind), (clause.subtype, subtype)].iter().all(|(a, b)| *a == "*" || a == b);
            matches.then_some(*encoding)
        })
    })
}

fn entity_tag(stored: &Stored) -> String {
    format!("\"{}\"", stored.hash)
}

/// Whether the client has a document already.
fn is_known(parts: &Parts, stored: &Stored) -> bool {
    match text(parts, &IF_NONE_MATCH) {
        Some(tags) => names_tag(tags, &entity_tag(stored)),
        None => unchanged_since(parts, stored.modified),
    }
}

/// A document, compressed for those who can read it where that is worth it.
fn whole(parts: &Parts, document: Arc<Rendered>, content_type: &'static str) -> Answer {
    let takes_gzip = text(parts, &ACCEPT_ENCODING)
        .is_some_and(|encodings| encodings.split(',').any(|e| e.trim().split(';').next() == Some("gzip")));
    if takes_gzip && document.len() >= GZIP_BYTES_MIN {
        let body = ResponseBody::Document(Box::new(DocumentBody::gzip(document)));
        return Answer::new(200, content_type, body).header(CONTENT_ENCODING, "gzip");
    }
    Answer::new(200, content_type, ResponseBody::Document(Box::new(DocumentBody::identity(document))))
}

/// The index. Upstream's answer has no entity tag and is called plain text; clients depend on neither.
fn index(parts: &Parts, index: &Index) -> Answer {
    let answer = match unchanged_since(parts, index.modified) {
        true => Answer::new(304, TEXT, ResponseBody::empty()),
        false => Answer::new(200, TEXT, ResponseBody::full(index.text.clone())),
    };
    answer.header(LAST_MODIFIED, &http_date(index.modified))
}

fn not_acceptable() -> Answer {
    empty(406).header(VARY, "Accept")
}

fn empty(status: u16) -> Answer {
    Answer::new(status, "", ResponseBody::empty())
}

fn text<'a>(parts: &'a Parts, name: &HeaderName) -> Option<&'a str> {
    parts.headers.get(name).and_then(|value| value.to_str().ok())
}

/// Whether a list of entity tags has this one; weak tags count.
fn names_tag(list: &str, etag: &str) -> bool {
    list.split(',').map(str::trim).any(|tag| tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == etag)
}

fn unchanged_since(parts: &Parts, modified: Timestamp) -> bool {
    text(parts, &IF_MODIFIED_SINCE)
        .and_then(|since| rfc2822::DateTimeParser::new().parse_timestamp(since).ok())
        .is_some_and(|since| modified.as_second() == since.as_second())
}

fn http_date(time: Timestamp) -> String {
    rfc2822::DateTimePrinter::new().timestamp_to_rfc9110_string(&time).unwrap_or_default()
}

/// As long as caches can be told to keep something.
fn in_a_year() -> String {
    let now = Timestamp::now().to_zoned(TimeZone::UTC);
    let then = now.checked_add(Span::new().years(1)).unwrap_or(now);
    then.strftime("%a, %d %b %Y %H:%M:%S UTC").to_string()
}
