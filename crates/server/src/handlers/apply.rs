//! PATCH with a configuration to be applied: server-side apply.

use bailiwick_auth::authz::{Attributes, ResourceTarget, Target};
use bailiwick_machinery::media::Answer;
use bailiwick_machinery::status::{ApiError, ApiResult};
use bailiwick_machinery::write_options::{FieldValidation, PatchOptions};
use bailiwick_machinery::{object, yaml};
use bailiwick_merge::apply::Force;
use bailiwick_schema::decode;
use bailiwick_schema::structural::{self, MalformedFields, Root};
use bytes::Bytes;
use serde_json::Value;

use super::body::{Expected, settle};
use super::create::create_object;
use super::managed_fields::{self, Tracking};
use super::patch::check_identity;
use super::request::{Reply, Request};
use super::update::update_object;
use super::write::Run;

/// How errors of YAML begin.
const CONVERTING: &str = "error converting YAML to JSON";

/// How often a create that met an object made meanwhile, or an update that lost it, starts over.
const RACE_RETRIES: usize = 8;

/// Applies the configuration in the body to the named object, which is created if it is not there.
pub async fn apply(rq: &Request<'_>, body: Bytes, options: &PatchOptions) -> ApiResult<Reply> {
    let encoder = rq.encoder(Answer::Object)?;
    let config = Configuration::parse(&body, options)?;
    let run = Run::from(options.write.dry_run);
    for _ in 0..RACE_RETRIES {
        if rq.current(&rq.info.name).await?.is_some() || rq.subresource().is_some() {
            let applied = update_object(rq, run, Tracking::Settled, |old| config.apply_to(rq, Some(old))).await;
            match applied {
                Err(error) if error.code == 404 && rq.subresource().is_none() => continue,
                other => return rq.object_reply(200, &encoder, other?).await,
            }
        }
        let mut new = config.apply_to(rq, None)?;
        // What there is none of has no version that could have been meant.
        object::set_meta_str(&mut new, "resourceVersion", "");
        may_create(rq).await?;
        match create_object(rq, new, run, Tracking::Settled).await {
            Err(error) if error.reason == "AlreadyExists" => continue,
            other => return rq.object_reply(201, &encoder, other?.into()).await,
        }
    }
    Err(ApiError::conflict(&rq.served.group_resource, &rq.info.name, super::write::MODIFIED))
}

/// Whoever creates by other verbs must be allowed to create.
pub async fn may_create(rq: &Request<'_>) -> ApiResult<()> {
    let target = Target::Resource(ResourceTarget {
        group: &rq.info.group,
        version: &rq.info.version,
        resource: &rq.info.resource,
        subresource: &rq.info.subresource,
        namespace: &rq.info.namespace,
        name: &rq.info.name,
        field_selector: "",
        label_selector: "",
    });
    rq.tenant.authorizers.require(&Attributes { user: rq.user, verb: "create", target }).await
}

struct Configuration<'a> {
    value: Value,
    /// What strict decoding has against it.
    strict: Option<String>,
    /// The same as one warning each.
    duplicates: Vec<String>,
    options: &'a PatchOptions,
}

impl<'a> Configuration<'a> {
    fn parse(body: &[u8], options: &'a PatchOptions) -> ApiResult<Self> {
        let bad = |text: String| ApiError::bad_request(format!("error decoding YAML: {text}"));
        let text = std::str::from_utf8(body).map_err(|_| bad("yaml: invalid leading UTF-8 octet".into()))?;
        let decoded = yaml::decode(text).map_err(|error| bad(format!("{CONVERTING}: {error}")))?;
        let strict = decoded.strict_error();
        let duplicates = decoded.duplicates;
        let value = match decoded.value {
            Value::Null => Value::Object(serde_json::Map::new()),
            value @ Value::Object(_) => value,
            other => {
                let found = match other {
                    Value::String(_) => "string",
                    Value::Array(_) => "array",
                    Value::Bool(_) => "bool",
                    _ => "number",
                };
                return Err(bad(format!(
                    "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {found} into Go value of type \
                     map[string]interface {{}}"
                )));
            }
        };
        Ok(Self { value, strict, duplicates, options })
    }

    /// The object to write: the configuration merged into the live object, decoded like any other.
    fn apply_to(&self, rq: &Request<'_>, live: Option<&Value>) -> ApiResult<Value> {
        let force = if self.options.force { Force::Yes } else { Force::No };
        let manager = &self.options.write.field_manager;
        let applied = managed_fields::apply(rq, live, &self.value, manager, force)?;
        if let Some(text) = &self.strict {
            match self.options.write.field_validation {
                FieldValidation::Ignore => {}
                FieldValidation::Warn => self.duplicates.iter().for_each(|warning| rq.warn(warning)),
                FieldValidation::Strict => {
                    return Err(ApiError::bad_request(format!("error strict decoding YAML: {CONVERTING}: {text}")));
                }
            }
        }
        let expected = Expected::of(rq);
        let decoded = match expected.native {
            Some(native) => decode::decode_value(native, &applied.object),
            None => Ok(decode::Decoded { value: applied.object, strict: Vec::new() }),
        };
        let mut decoded = decoded.map_err(|error| not_convertible(&expected, &self.value, &error))?;
        if let Some(custom) = expected.custom {
            // All fields are declared, or merging had failed; nulls that are not allowed are told by validation.
            let refused = |text: String| ApiError::new(500, "", text);
            let value = &mut decoded.value;
            structural::whole_floats(value);
            structural::coerce_metadata(value, MalformedFields::Refuse).map_err(|error| refused(error.to_string()))?;
            if let Some(schema) = custom.schema() {
                structural::coerce(value, schema, Root::Value, MalformedFields::Refuse)
                    .map_err(|error| refused(error.to_string()))?;
            }
        }
        let mut value = settle(rq, decoded, &expected, FieldValidation::Ignore)?;
        let uid = object::uid(&value);
        if live.is_none() && !uid.is_empty() {
            let detail =
                format!("uid mismatch: the provided object specified uid {uid}, and no existing object was found");
            return Err(ApiError::conflict(&rq.served.group_resource, &rq.info.name, &detail));
        }
        check_identity(rq, &mut value)?;
        rq.strategy().default(&mut value);
        Ok(value)
    }
}

/// A merged object that is not of its type: all fields are declared, but a value is malformed.
fn not_convertible(expected: &Expected<'_>, config: &Value, error: &decode::DecodeError) -> ApiError {
    let (group, version, kind) = (expected.group, expected.version, expected.kind);
    let gvk = format!("{group}/{version}, Kind={kind}");
    let (namespace, name) = (object::namespace(config), object::name(config));
    let text = error.to_string();
    let base64 = if text.starts_with("illegal base64") { "error decoding from json: " } else { "" };
    let message = format!(
        "failed to convert new object ({namespace}/{name}; {gvk}) to proper version: unable to convert unstructured object \
         to {gvk}: {base64}{text}"
    );
    ApiError::new(500, "", message)
}
