//! From request bytes to an object of the expected type.

use bailiwick_machinery::custom::CustomType;
use bailiwick_machinery::field::{Error, Path};
use bailiwick_machinery::media::{self, MediaType};
use bailiwick_machinery::object;
use bailiwick_machinery::resource::{GroupKind, GroupVersion, go_name};
use bailiwick_machinery::sensitivity::{CONCEALED, Sensitivity};
use bailiwick_machinery::status::{ApiError, ApiResult};
use bailiwick_machinery::write_options::{DeleteOptions, FieldValidation};
use bailiwick_machinery::yaml;
use bailiwick_schema::decode::{self, Decoded};
use bailiwick_schema::protobuf;
use bailiwick_schema::structural::{self, MalformedFields, PruneOptions, Root, UnknownFields};
use bailiwick_schema::types::{Type, Types};
use bytes::Bytes;
use serde_json::Value;

use super::request::Request;

/// What a body must be.
pub struct Expected<'a> {
    pub group: &'a str,
    pub version: &'a str,
    pub kind: &'a str,
    pub native: Option<&'static Type>,
    pub custom: Option<&'a CustomType>,
    pub sensitivity: Sensitivity,
}

impl<'a> Expected<'a> {
    /// The kind the request's path takes: the resource's own, or the subresource's where that has one.
    pub fn of(rq: &'a Request<'_>) -> Self {
        let resource = &rq.served.resource;
        match rq.subresource().and_then(|subresource| subresource.kind.as_ref()) {
            Some(kind) => Self {
                group: &kind.group,
                version: &kind.version,
                kind: &kind.kind,
                native: Types::native().by_gvk(&kind.group, &kind.version, &kind.kind),
                custom: None,
                sensitivity: rq.sensitivity(),
            },
            None => Self {
                group: &resource.group,
                version: &resource.version,
                kind: &resource.kind,
                native: resource.native,
                custom: resource.custom.as_deref(),
                sensitivity: rq.sensitivity(),
            },
        }
    }

    fn is_scale(&self) -> bool {
        (self.group, self.kind) == ("autoscaling", "Scale")
    }

    pub fn api_version(&self) -> String {
        GroupVersion::new(self.group, self.version).to_string()
    }
}

/// The text for a kind that nobody serves.
pub fn not_registered(kind: &str, api_version: &str) -> String {
    format!(
        "no kind {kind:?} is registered for version {api_version:?} in scheme \"pkg/api/legacyscheme/scheme.go:30\""
    )
}

/// Before what is wrong with a YAML document, each on a line of its own.
const YAML_ERRORS: &str = "yaml: unmarshal errors:\n  ";

/// The refusal of a body that is no Scale. Only custom resources have one here, and upstream knows no kinds there.
fn no_scale() -> ApiError {
    ApiError::bad_request("no kind is registered for the type v1.Scale in scheme \"custom resources\"")
}

/// Decodes the body as the object the path takes. Unknown and duplicate fields become warnings or, if asked for, an error.
pub fn decode_object(rq: &Request<'_>, body: &Bytes, validation: FieldValidation) -> ApiResult<Value> {
    let media = media::body_type(rq.content_type(), rq.origin())?;
    let decoded = decode_as(&Expected::of(rq), media, body)?;
    let value = settle(rq, decoded, &Expected::of(rq), validation)?;
    rq.audit.request_object(&value, || match media {
        MediaType::Json => body.clone(),
        MediaType::Yaml | MediaType::Protobuf => json_bytes(&value),
    });
    Ok(value)
}

fn json_bytes(value: &Value) -> Bytes {
    serde_json::to_vec(value).map(Bytes::from).unwrap_or_default()
}

/// Applies field validation and checks that the object is of the expected kind.
pub fn settle(
    rq: &Request<'_>,
    decoded: Decoded,
    expected: &Expected<'_>,
    validation: FieldValidation,
) -> ApiResult<Value> {
    let Decoded { mut value, strict } = decoded;
    match validation {
        FieldValidation::Ignore => {}
        FieldValidation::Warn => strict.iter().for_each(|warning| match warning.strip_prefix(YAML_ERRORS) {
            Some(errors) => errors.split("\n  ").for_each(|error| rq.warn(error)),
            None => rq.warn(warning.as_str()),
        }),
        FieldValidation::Strict if strict.is_empty() => {}
        FieldValidation::Strict if expected.is_scale() => return Err(no_scale()),
        FieldValidation::Strict => {
            let text = format!("strict decoding error: {}", strict.join(", "));
            return Err(cannot_handle(expected.kind, expected.version, expected, &text));
        }
    }
    if let Some(object) = value.as_object_mut() {
        object.insert("kind".into(), expected.kind.into());
        object.insert("apiVersion".into(), expected.api_version().into());
    }
    Ok(value)
}

fn decode_as(expected: &Expected<'_>, media: MediaType, given: &[u8]) -> ApiResult<Decoded> {
    let (body, extra_strict) = match media {
        MediaType::Protobuf => return decode_protobuf(expected, given),
        MediaType::Json => (std::borrow::Cow::Borrowed(given), Vec::new()),
        MediaType::Yaml => {
            let (value, duplicates) = yaml_value(given).map_err(|text| unrecognized(expected, &text, given))?;
            let bytes = serde_json::to_vec(&value).map_err(ApiError::internal)?;
            (std::borrow::Cow::Owned(bytes), duplicates)
        }
    };
    let (found_version, found_kind) = peek_type(&body).map_err(|text| unrecognized(expected, &text, &body))?;
    if expected.custom.is_some() {
        check_custom_type(expected, &found_version, &found_kind, given)?;
    } else if (!found_kind.is_empty() && found_kind != expected.kind)
        || (!found_version.is_empty() && found_version != expected.api_version())
    {
        return Err(wrong_type(expected, &found_version, &found_kind, &body));
    }
    let result = match expected.native {
        Some(native) => decode::decode(native, &body),
        None => decode::decode_untyped(&body),
    };
    let mut decoded =
        result.map_err(|error| cannot_handle(expected.kind, expected.version, expected, &error.to_string()))?;
    coerce(expected, &mut decoded)?;
    let mut strict = extra_strict;
    strict.append(&mut decoded.strict);
    decoded.strict = strict;
    Ok(decoded)
}

/// Gives a custom resource the shape its schema asks for: metadata of the right types, no unknown fields, no nulls that
/// mean nothing. Fails if it is of another kind.
pub fn coerce(expected: &Expected<'_>, decoded: &mut Decoded) -> ApiResult<()> {
    let Some(custom) = expected.custom else { return Ok(()) };
    let kind = object::str_at(&decoded.value, &["kind"]);
    if kind != expected.kind {
        let group_kind = GroupKind { group: expected.group.to_owned(), kind: kind.to_owned() };
        let error = Error::invalid(&Path::new("kind"), kind, format!("must be {}", expected.kind));
        return Err(ApiError::invalid(&group_kind, object::name(&decoded.value), &vec![error]));
    }
    let refused = |text: String| cannot_handle(expected.kind, expected.version, expected, &text);
    let value = &mut decoded.value;
    structural::whole_floats(value);
    let mut unknown =
        structural::coerce_metadata(value, MalformedFields::Refuse).map_err(|error| refused(error.to_string()))?;
    if let Some(schema) = custom.schema() {
        if !custom.preserve_unknown_fields {
            let options = PruneOptions { root: Root::Resource, unknown_fields: UnknownFields::Report };
            unknown.extend(structural::prune(value, schema, options));
            structural::drop_nulls(value, schema);
        }
        let embedded = structural::coerce(value, schema, Root::Value, MalformedFields::Refuse);
        unknown.extend(embedded.map_err(|error| refused(error.to_string()))?);
    }
    decoded.strict.extend(unknown.into_iter().map(|path| format!("unknown field {path:?}")));
    Ok(())
}

/// A custom resource must say what it is. Another kind is refused only once it is read as far as its name.
fn check_custom_type(expected: &Expected<'_>, version: &str, kind: &str, body: &[u8]) -> ApiResult<()> {
    if kind.is_empty() {
        let text = format!("Object 'Kind' is missing in '{}'", String::from_utf8_lossy(body));
        return Err(unrecognized(expected, &text, body));
    }
    if GroupVersion::parse(version).is_none() {
        return Err(unrecognized(expected, &format!("unexpected GroupVersion string: {version}"), body));
    }
    if version != expected.api_version() {
        return Err(other_version(expected, version));
    }
    Ok(())
}

fn other_version(expected: &Expected<'_>, found: &str) -> ApiError {
    ApiError::bad_request(format!(
        "the API version in the data ({found}) does not match the expected API version ({})",
        expected.api_version()
    ))
}

fn yaml_value(body: &[u8]) -> Result<(Value, Vec<String>), String> {
    let text = std::str::from_utf8(body).map_err(|_| "yaml: invalid leading UTF-8 octet".to_owned())?;
    let decoded = yaml::decode(text).map_err(|error| error.to_string())?;
    let strict = decoded.strict_error().into_iter().collect();
    Ok((decoded.value, strict))
}

fn decode_protobuf(expected: &Expected<'_>, body: &[u8]) -> ApiResult<Decoded> {
    let Some(native) = expected.native else {
        return Err(ApiError::unsupported_media_type("custom resources have no protobuf form"));
    };
    let envelope = protobuf::unwrap(body).map_err(|error| unrecognized(expected, &error.to_string(), body))?;
    let (version, kind) = (envelope.api_version.as_str(), envelope.kind.as_str());
    if (!kind.is_empty() && kind != expected.kind) || (!version.is_empty() && version != expected.api_version()) {
        return Err(wrong_type(expected, version, kind, body));
    }
    let value = protobuf::decode_object(native, &envelope)
        .map_err(|error| cannot_handle(expected.kind, expected.version, expected, &error.to_string()))?;
    Ok(Decoded { value, strict: Vec::new() })
}

/// The apiVersion and kind a JSON document claims, before anything else in it counts.
fn peek_type(body: &[u8]) -> Result<(String, String), String> {
    let meta =
        decode::interpret(body).map_err(|error| format!("couldn't get version/kind; json parse error: {error}"))?;
    Ok((meta.api_version, meta.kind))
}

/// The body is some other kind than the path takes.
fn wrong_type(expected: &Expected<'_>, version: &str, kind: &str, body: &[u8]) -> ApiError {
    if expected.is_scale() {
        return no_scale();
    }
    let kind = if kind.is_empty() { expected.kind } else { kind };
    let Some(found) = GroupVersion::parse(version) else {
        return unrecognized(expected, &format!("unexpected GroupVersion string: {version}"), body);
    };
    let api_version = if version.is_empty() { expected.api_version() } else { version.to_owned() };
    let (group, found_version) = if version.is_empty() {
        (expected.group, expected.version)
    } else {
        (found.group.as_str(), found.version.as_str())
    };
    if !is_registered(group, found_version, kind) {
        return cannot_handle(kind, found_version, expected, &not_registered(kind, &api_version));
    }
    if kind == expected.kind {
        return other_version(expected, &api_version);
    }
    let into = go_name(expected.group, expected.kind);
    let text = format!("converting ({found_version}.{kind}) to ({into}): unknown conversion");
    cannot_handle(kind, found_version, expected, &text)
}

/// Whether upstream's decoders know a kind. They know a list of anything, but not the other forms that answers may take.
fn is_registered(group: &str, version: &str, kind: &str) -> bool {
    match (group, version, kind) {
        ("", "v1", "List") => true,
        ("meta.k8s.io", _, "Table" | "PartialObjectMetadata" | "PartialObjectMetadataList") => false,
        _ => Types::native().by_gvk(group, version, kind).is_some(),
    }
}

fn cannot_handle(kind: &str, version: &str, expected: &Expected<'_>, detail: &str) -> ApiError {
    ApiError::bad_request(format!("{kind} in version {version:?} cannot be handled as a {}: {detail}", expected.kind))
}

/// How much of an unreadable body the message shows.
const SUMMARY_BYTES: usize = 30;

fn unrecognized(expected: &Expected<'_>, detail: &str, body: &[u8]) -> ApiError {
    let shown = body.get(..SUMMARY_BYTES.min(body.len())).unwrap_or_default();
    let more = if body.len() > SUMMARY_BYTES { " ..." } else { "" };
    let summary = match body.first() {
        None => "<empty>".to_owned(),
        Some(_) if expected.sensitivity.conceals() => CONCEALED.to_owned(),
        Some(b'{') => String::from_utf8_lossy(shown).into_owned(),
        Some(_) => shown.iter().map(|byte| format!("{byte:02x}")).collect(),
    };
    let summary = summary + more;
    ApiError::bad_request(format!(
        "the object provided is unrecognized (must be of type {}): {detail} ({summary})",
        expected.kind
    ))
}

/// Delete options from the body, or from the query when there is none.
pub fn decode_delete_options(rq: &Request<'_>, body: &Bytes) -> ApiResult<DeleteOptions> {
    if body.is_empty() {
        return DeleteOptions::from_query(rq.query);
    }
    let value = match media::body_type(rq.content_type(), rq.origin())? {
        MediaType::Json => {
            peek_type(body).map_err(ApiError::bad_request)?;
            serde_json::from_slice(body).map_err(|error| ApiError::bad_request(error.to_string()))?
        }
        MediaType::Yaml => yaml_value(body).map_err(ApiError::bad_request)?.0,
        MediaType::Protobuf => {
            let envelope = protobuf::unwrap(body).map_err(|error| ApiError::bad_request(error.to_string()))?;
            let native = Types::native()
                .by_gvk("", "v1", "DeleteOptions")
                .ok_or_else(|| ApiError::internal("DeleteOptions is not a known type"))?;
            protobuf::decode_object(native, &envelope).map_err(|error| ApiError::bad_request(error.to_string()))?
        }
    };
    rq.audit.request_body(|| json_bytes(&value));
    DeleteOptions::from_body(&value)
}
