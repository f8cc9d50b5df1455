//! Content negotiation: which media type and which shape an answer has, and what a body is.
//!
//! Pure functions on header strings. Two layers refuse requests upstream, with different texts: the router of native
//! resources, which knows only exact media types, and the handlers; both are reproduced.

use crate::origin::Origin;
use crate::status::{ApiError, ApiResult, Details};
use crate::write_options::PatchKind;

/// Clauses read from one Accept header; more are ignored. Sorting them is quadratic, as upstream's order is not a
/// consistent one and must be reproduced by the same algorithm.
const MAX_CLAUSES: usize = 64;

const JSON: &str = "application/json";
const YAML: &str = "application/yaml";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const BODIES: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";
const STREAMS: &str = "application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch";

/// How objects are encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MediaType {
    Json,
    Yaml,
    Protobuf,
}

impl MediaType {
    const ALL: [Self; 3] = [Self::Json, Self::Yaml, Self::Protobuf];

    /// As headers write it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Json => JSON,
            Self::Yaml => YAML,
            Self::Protobuf => PROTOBUF,
        }
    }

    /// The Content-Type of a watch in this encoding. YAML has no stream.
    pub fn stream_content_type(self) -> &'static str {
        match self {
            Self::Protobuf => "application/vnd.kubernetes.protobuf;stream=watch",
            _ => JSON,
        }
    }

    fn from_parts(kind: &str, subtype: &str) -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(move |media| {
            let own = media.as_str().strip_prefix("application/").unwrap_or_default();
            (kind == "*" && subtype == "*") || (kind == "application" && (subtype == own || subtype == "*"))
        })
    }
}

/// A version of `meta.k8s.io`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetaVersion {
    V1,
    V1beta1,
}

impl MetaVersion {
    /// As `apiVersion` fields write it.
    pub fn api_version(self) -> &'static str {
        match self {
            Self::V1 => "meta.k8s.io/v1",
            Self::V1beta1 => "meta.k8s.io/v1beta1",
        }
    }
}

/// What becomes of the object before it is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transform {
    None,
    Table(MetaVersion),
    PartialObjectMetadata(MetaVersion),
    PartialObjectMetadataList(MetaVersion),
}

/// What was agreed on with the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Negotiated {
    pub media: MediaType,
    pub transform: Transform,
    /// Whether the Accept header itself asks for indented output; see also [`wants_pretty`].
    pub pretty: bool,
}

/// What kind of answer a request gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// One object.
    Object,
    /// A collection, from a path that can also be watched.
    List,
    /// A stream of events.
    Watch,
}

/// One clause of an Accept header.
#[derive(Clone, Debug, PartialEq)]
pub struct Clause<'a> {
    pub kind: &'a str,
    pub subtype: &'a str,
    pub quality: f32,
    pub params: Vec<(&'a str, &'a str)>,
}

impl<'a> Clause<'a> {
    /// The last value of a parameter.
    pub fn param(&self, name: &str) -> Option<&'a str> {
        self.params.iter().rev().find(|(key, _)| *key == name).map(|(_, value)| *value)
    }
}

/// The clauses of an Accept header, most wanted first.
pub fn parse_accept(header: &str) -> Vec<Clause<'_>> {
    let mut clauses: Vec<Clause<'_>> = Vec::new();
    for clause in header.split(',').filter_map(parse_clause).take(MAX_CLAUSES) {
        clauses.push(clause);
        let mut i = clauses.len() - 1;
        while i > 0 && clauses.get(i).zip(clauses.get(i - 1)).is_some_and(|(this, before)| precedes(this, before)) {
            clauses.swap(i, i - 1);
            i -= 1;
        }
    }
    clauses
}

/// Chooses how a resource answers, from the Accept header (empty when absent).
pub fn negotiate(accept: &str, origin: Origin, answer: Answer) -> ApiResult<Negotiated> {
    if origin == Origin::Native && !accept.is_empty() && !routable(accept) {
        let streams = if answer == Answer::Object { String::new() } else { format!(", {STREAMS}") };
        let text = format!("406: Not Acceptable\n\nAvailable representations: {BODIES}{streams}");
        return Err(ApiError::not_acceptable(text).with_details(Details::default()));
    }
    let refused = |list: &str| ApiError::not_acceptable(format!("only the following media types are accepted: {list}"));
    let negotiated = if accept.is_empty() {
        Negotiated { media: MediaType::Json, transform: Transform::None, pretty: false }
    } else {
        first_acceptable(accept, |media, transform| match transform {
            // Custom resources have no protobuf of their own, but their metadata has.
            Transform::None => origin == Origin::Native || media != MediaType::Protobuf,
            Transform::Table(_) => media != MediaType::Protobuf,
            Transform::PartialObjectMetadata(_) | Transform::PartialObjectMetadataList(_) => true,
        })
        .ok_or_else(|| refused(BODIES))?
    };
    if answer == Answer::Watch && negotiated.media == MediaType::Yaml {
        return Err(refused(STREAMS));
    }
    Ok(negotiated)
}

/// Chooses how a Status is sent. `None` when nothing fits: then upstream sends JSON, indented by two.
pub fn negotiate_status(accept: &str) -> Option<Negotiated> {
    if accept.is_empty() {
        return Some(Negotiated { media: MediaType::Json, transform: Transform::None, pretty: false });
    }
    first_acceptable(accept, |_, transform| transform == Transform::None)
}

/// Whether a person seems to be reading: the `pretty` parameter decides, else the program.
pub fn wants_pretty(pretty: Option<&str>, user_agent: &str) -> bool {
    match pretty.filter(|value| !value.is_empty()) {
        Some(value) => matches!(value, "1" | "t" | "T" | "true" | "TRUE" | "True"),
        None => ["curl", "Wget", "Mozilla/5.0"].iter().any(|program| user_agent.starts_with(program)),
    }
}

/// The encoding of a body, from its Content-Type (empty when absent).
pub fn body_type(content_type: &str, origin: Origin) -> ApiResult<MediaType> {
    let media = if content_type.is_empty() { Some(MediaType::Json) } else { parse_content_type(content_type) };
    media
        .filter(|media| origin == Origin::Native || *media != MediaType::Protobuf)
        .ok_or_else(|| unknown_format(BODIES))
}

/// What a patch is, from its Content-Type.
pub fn patch_type(content_type: &str, origin: Origin) -> ApiResult<PatchKind> {
    let media = content_type.split(';').next().unwrap_or_default();
    let kind = match media {
        "application/json-patch+json" => Some(PatchKind::JsonPatch),
        "application/merge-patch+json" => Some(PatchKind::MergePatch),
        "application/strategic-merge-patch+json" => Some(PatchKind::StrategicMergePatch),
        "application/apply-patch+yaml" => Some(PatchKind::Apply),
        _ => None,
    };
    match (origin, kind) {
        (Origin::Custom, None | Some(PatchKind::StrategicMergePatch)) => Err(unknown_format(
            "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
        )),
        (Origin::Native, None) => {
            let text = "415: Unsupported Media Type";
            Err(ApiError::unsupported_media_type(text).with_details(Details::default()))
        }
        (_, Some(kind)) => Ok(kind),
    }
}

fn unknown_format(list: &str) -> ApiError {
    ApiError::unsupported_media_type(format!(
        "the body of the request was in an unknown format - accepted media types include: {list}"
    ))
}

/// Whether the router of native resources finds a route: it wants one media type named exactly, or `*/*`.
fn routable(accept: &str) -> bool {
    accept.split(',').any(|clause| {
        let media = clause.split(';').next().unwrap_or_default().trim_matches(' ');
        let known = MediaType::ALL.iter().any(|m| m.as_str() == media);
        media == "*/*" || known
    })
}

fn first_acceptable(accept: &str, allowed: impl Fn(MediaType, Transform) -> bool) -> Option<Negotiated> {
    parse_accept(accept).iter().find_map(|clause| {
        let transform = transform_of(clause)?;
        MediaType::from_parts(clause.kind, clause.subtype)
            .find(|media| streamable(clause, *media) && allowed(*media, transform))
            .map(|media| Negotiated { media, transform, pretty: clause.param("pretty") == Some("1") })
    })
}

/// The transformation a clause asks for; `None` when it asks for one we do not have.
fn transform_of(clause: &Clause<'_>) -> Option<Transform> {
    if clause.param("sv").is_some_and(|version| !matches!(version, "" | "v1")) {
        return None;
    }
    let (kind, group, version) = (clause.param("as"), clause.param("g"), clause.param("v"));
    if kind.is_none() && group.is_none() && version.is_none() {
        return Some(Transform::None);
    }
    let version = match (group, version) {
        (Some("meta.k8s.io"), Some("v1")) => MetaVersion::V1,
        (Some("meta.k8s.io"), Some("v1beta1")) => MetaVersion::V1beta1,
        _ => return None,
    };
    match kind {
        Some("Table") => Some(Transform::Table(version)),
        Some("PartialObjectMetadata") => Some(Transform::PartialObjectMetadata(version)),
        Some("PartialObjectMetadataList") => Some(Transform::PartialObjectMetadataList(version)),
        _ => None,
    }
}

fn streamable(clause: &Clause<'_>, media: MediaType) -> bool {
    match clause.param("stream") {
        None | Some("") => true,
        Some(schema) => schema == "watch" && media != MediaType::Yaml,
    }
}

fn precedes(a: &Clause<'_>, b: &Clause<'_>) -> bool {
    a.quality > b.quality || (a.kind != "*" && b.kind == "*") || (a.subtype != "*" && b.subtype == "*")
}

fn parse_clause(text: &str) -> Option<Clause<'_>> {
    let mut parts = text.trim_matches(' ').split(';');
    let media = parts.next()?;
    let (kind, subtype) = media.split_once('/').unwrap_or((media, ""));
    let kind = kind.trim_matches(' ');
    let subtype = match subtype {
        "" if kind == "*" => "*",
        "" => return None,
        subtype => subtype,
    };
    if subtype.strip_suffix('/').unwrap_or(subtype).contains('/') {
        return None;
    }
    let mut clause = Clause {
        kind,
        subtype: subtype.strip_suffix('/').unwrap_or(subtype).trim_matches(' '),
        quality: 1.0,
        params: Vec::new(),
    };
    for part in parts {
        let Some((key, value)) = part.split_once('=') else { continue };
        if value.is_empty() || value.contains('=') {
            continue;
        }
        match key.trim_matches(' ') {
            "q" => clause.quality = value.parse().unwrap_or(0.0),
            key => clause.params.push((key, value.trim_matches(' '))),
        }
    }
    Some(clause)
}

/// The media type of a Content-Type header, regardless of case and parameters; `None` for a malformed one.
fn parse_content_type(header: &str) -> Option<MediaType> {
    let mut parts = header.split(';');
    let media = parts.next()?.trim().to_ascii_lowercase();
    let mut parts = parts.peekable();
    while let Some(part) = parts.next() {
        // One semicolon may trail.
        let trailing = part.trim().is_empty() && parts.peek().is_none();
        let named = part.split_once('=').is_some_and(|(key, value)| !key.trim().is_empty() && !value.trim().is_empty());
        if !trailing && !named {
            return None;
        }
    }
    MediaType::ALL.into_iter().find(|m| m.as_str() == media)
}

#[cfg(test)]
#[path = "media_tests.rs"]
mod tests;
