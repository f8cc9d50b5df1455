//! `/openapi/v2` and `/openapi/v3`: documents built when first asked for and kept compressed.
//!
//! [`document`] turns descriptors into documents, [`cache`] keeps their bytes; here are the HTTP manners: negotiation,
//! entity tags, and addresses by content hash that clients may cache for ever.

#[cfg(test)]
mod answer_tests;
mod cache;
mod document;
mod names;
mod operation;
mod parameters;
mod paths;
#[cfg(test)]
mod tests;

pub use cache::OpenApi;

use std::sync::Arc;

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
use crate::server::{Answer, ApiServer};
use cache::Stored;
use document::Encoding;

const JSON: &str = "application/json";
const TEXT: &str = "text/plain; charset=utf-8";
const V2_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
const V3_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v3.v1.0+protobuf";

impl ApiServer {
    /// The answer to an OpenAPI path; `None` for other paths.
    pub(crate) fn openapi_answer(&self, parts: &Parts, path: &str) -> ApiResult<Option<Answer>> {
        self.openapi.answer(&self.registry.load_full(), parts, path)
    }
}

impl OpenApi {
    fn answer(&self, registry: &Arc<Registry>, parts: &Parts, path: &str) -> ApiResult<Option<Answer>> {
        if path == "/openapi/v2" {
            let Some(encoding) = negotiate(parts, V2_PROTOBUF) else { return Ok(Some(not_acceptable())) };
            let content_type = if encoding == Encoding::Json { JSON } else { V2_PROTOBUF };
            return content(parts, &self.v2(registry, encoding)?, encoding, content_type).map(Some);
        }
        if path == "/openapi/v3" {
            return index(parts, &self.index(registry)?).map(Some);
        }
        let Some(name) = path.strip_prefix("/openapi/v3/") else { return Ok(None) };
        let Some(encoding) = negotiate(parts, V3_PROTOBUF) else { return Ok(Some(not_acceptable())) };
        let Some(stored) = self.v3(registry, name, encoding)? else { return Ok(Some(empty(404))) };
        let content_type = if encoding == Encoding::Json { JSON } else { V3_PROTOBUF };
        let query = Query::parse(parts.uri.query().unwrap_or_default());
        match query.get("hash").filter(|hash| !hash.is_empty()) {
            None => content(parts, &stored, encoding, content_type).map(Some),
            Some(hash) if hash == &*stored.hash => {
                let answer = content(parts, &stored, encoding, content_type)?;
                Ok(Some(answer.header(CACHE_CONTROL, "public, immutable").header(EXPIRES, &in_a_year())))
            }
            Some(_) => Ok(Some(
                Answer::new(301, content_type, ResponseBody::empty())
                    .header(LOCATION, &address(name, &stored.hash))
                    .header(ETAG, &format!("\"{}\"", stored.hash))
                    .header(VARY, "Accept"),
            )),
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

/// A document, or that the client has it already.
fn content(parts: &Parts, stored: &Stored, encoding: Encoding, content_type: &'static str) -> ApiResult<Answer> {
    let etag = format!("\"{}\"", stored.hash);
    let known = match text(parts, &IF_NONE_MATCH) {
        Some(tags) => names_tag(tags, &etag),
        None => unchanged_since(parts, stored),
    };
    let answer = match known {
        true => Answer::new(304, content_type, ResponseBody::empty()),
        false => whole(parts, stored, encoding, content_type)?.header(LAST_MODIFIED, &http_date(stored.modified)),
    };
    Ok(answer.header(ETAG, &etag).header(VARY, "Accept, Accept-Encoding"))
}

fn whole(parts: &Parts, stored: &Stored, encoding: Encoding, content_type: &'static str) -> ApiResult<Answer> {
    let packed = stored.packed(encoding);
    let takes_gzip = text(parts, &ACCEPT_ENCODING)
        .is_some_and(|encodings| encodings.split(',').any(|e| e.trim().split(';').next() == Some("gzip")));
    // What is stored goes out as it is where compression is worth it. Answers above the limit are compressed on the way
    // out, so the compressed form must stay below.
    if takes_gzip && packed.len >= GZIP_BYTES_MIN && packed.gzip.len() < GZIP_BYTES_MIN {
        return Ok(
            Answer::new(200, content_type, ResponseBody::full(packed.gzip.clone())).header(CONTENT_ENCODING, "gzip")
        );
    }
    Ok(Answer::new(200, content_type, ResponseBody::full(packed.unpack()?)))
}

/// The index. Upstream's answer has no entity tag and is called plain text; clients depend on neither.
fn index(parts: &Parts, stored: &Stored) -> ApiResult<Answer> {
    let answer = match unchanged_since(parts, stored) {
        true => Answer::new(304, TEXT, ResponseBody::empty()),
        false => Answer::new(200, TEXT, ResponseBody::full(stored.packed(Encoding::Json).unpack()?)),
    };
    Ok(answer.header(LAST_MODIFIED, &http_date(stored.modified)))
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

fn unchanged_since(parts: &Parts, stored: &Stored) -> bool {
    text(parts, &IF_MODIFIED_SINCE)
        .and_then(|since| rfc2822::DateTimeParser::new().parse_timestamp(since).ok())
        .is_some_and(|since| stored.modified.as_second() <= since.as_second())
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
