//! Secrets: bytes by key, with a type that says which keys must be there. `stringData` is a way to write, never to read.

use bailiwick_machinery::field::{Error, ErrorList, Path};
use bailiwick_machinery::resource::SelectableField;
use bailiwick_machinery::sensitivity::CONCEALED;
use bailiwick_machinery::strategy::NameValidator;
use bailiwick_machinery::table::Column;
use bailiwick_machinery::validation::{names, validate_core_finalizers};
use bailiwick_machinery::{Context, Resource, Scope, Strategy, object};
use bailiwick_schema::decode::check_syntax;
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use jiff::Timestamp;
use k8s_openapi::api::core::v1 as core;
use serde_json::{Map, Value, json};

use crate::columns::{Printer, age, age_column, description, name_column};
use crate::configmap::{MAX_DATA_SIZE, decoded_size, validate_frozen};
use crate::descriptor::Named;
use crate::field_errors::{immutable, invalid_each, shown_string};
use crate::fields::{map, put, set_default, text};

mod tls_pair;

/// The annotation that ties a token secret to its service account.
pub const SERVICE_ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";

/// `secrets`.
pub fn resources() -> Vec<Resource> {
    let named = Named { group: "", version: "v1", kind: "Secret", plural: "secrets" };
    vec![Resource {
        selectable_fields: vec![SelectableField::at("type")],
        ..named.stored(Scope::Namespaced, Secret, Printer::new(columns, cells))
    }]
}

struct Secret;

impl Strategy for Secret {
    fn default(&self, object: &mut Value) {
        merge_string_data(object);
        if text(object, "type").is_empty() {
            put(object, "type", json!("Opaque"));
        }
    }

    fn validate(&self, _cx: &Context<'_>, object: &Value) -> ErrorList {
        let mut errors = validate_core_finalizers(object);
        let path = Path::new("data");
        let empty = Map::new();
        let data = map(object, "data").unwrap_or(&empty);
        let mut size = 0;
        for (key, value) in data {
            errors.extend(invalid_each(&path.key(key), key, names::config_map_key(key)));
            size += decoded_size(value);
        }
        if size > MAX_DATA_SIZE {
            errors.push(Error::too_long(&path, MAX_DATA_SIZE));
        }
        errors.extend(validate_type(object, data, &path));
        errors
    }

    fn warnings_on_create(&self, object: &Value) -> Vec<String> {
        if text(object, "type") != "kubernetes.io/tls" {
            return Vec::new();
        }
        let bytes = |key| map(object, "data").and_then(|data| decoded(data.get(key)?)).unwrap_or_default();
        tls_pair::check(&bytes("tls.crt"), &bytes("tls.key")).err().map(|error| error.to_string()).into_iter().collect()
    }

    fn validate_update(&self, cx: &Context<'_>, object: &Value, old: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        errors.extend(immutable(&Path::new("type"), object.get("type"), old.get("type"), shown_string));
        errors.extend(validate_frozen(object, old, &["data"]));
        errors.extend(self.validate(cx, object));
        errors
    }

    fn warnings_on_update(&self, object: &Value, _old: &Value) -> Vec<String> {
        self.warnings_on_create(object)
    }

    fn name_validator(&self) -> NameValidator {
        names::name_is_dns_subdomain
    }
}

/// Moves `stringData` into `data`, where it wins over what is there.
fn merge_string_data(object: &mut Value) {
    let Some(strings) = object.as_object_mut().and_then(|fields| fields.remove("stringData")) else { return };
    let Value::Object(strings) = strings else { return };
    if strings.is_empty() {
        return;
    }
    set_default(object, "data", || json!({}));
    if let Some(data) = object.get_mut("data").and_then(Value::as_object_mut) {
        for (key, value) in strings {
            data.insert(key, json!(BASE64.encode(value.as_str().unwrap_or_default())));
        }
    }
}

/// The keys, or the annotation, that the type of a secret calls for.
fn validate_type(object: &Value, data: &Map<String, Value>, path: &Path) -> ErrorList {
    let missing = |keys: &[&str]| -> ErrorList {
        let absent = keys.iter().filter(|key| !data.contains_key(**key));
        absent.map(|key| Error::required(&path.key(key), "")).collect()
    };
    match text(object, "type") {
        "kubernetes.io/service-account-token" => {
            if object::str_at(object, &["metadata", "annotations", SERVICE_ACCOUNT_NAME]).is_empty() {
                let path = Path::new("metadata").child("annotations").key(SERVICE_ACCOUNT_NAME);
                return vec![Error::required(&path, "")];
            }
            Vec::new()
        }
        "kubernetes.io/dockercfg" => validate_docker_config(data, ".dockercfg", path),
        "kubernetes.io/dockerconfigjson" => validate_docker_config(data, ".dockerconfigjson", path),
        "kubernetes.io/basic-auth" => match missing(&["username", "password"]) {
            // One of the two is enough.
            both if both.len() == 2 => both,
            _ => Vec::new(),
        },
        "kubernetes.io/ssh-auth" => match data.get("ssh-privatekey") {
            Some(key) if decoded_size(key) > 0 => Vec::new(),
            _ => vec![Error::required(&path.key("ssh-privatekey"), "")],
        },
        "kubernetes.io/tls" => missing(&["tls.crt", "tls.key"]),
        _ => Vec::new(),
    }
}

fn validate_docker_config(data: &Map<String, Value>, key: &str, path: &Path) -> ErrorList {
    let path = path.key(key);
    let Some(config) = data.get(key) else { return vec![Error::required(&path, "")] };
    match check_json_object(&decoded(config).unwrap_or_default()) {
        Ok(()) => Vec::new(),
        Err(complaint) => vec![Error::invalid(&path, CONCEALED, complaint)],
    }
}

/// Checks that bytes are one JSON object, or null, which Go takes for an empty one. Errors are in Go's words.
fn check_json_object(bytes: &[u8]) -> Result<(), String> {
    check_syntax(bytes).map_err(|error| error.to_string())?;
    let kind = match bytes.iter().find(|byte| !byte.is_ascii_whitespace()) {
        Some(b'{' | b'n') => return Ok(()),
        Some(b'[') => "array",
        Some(b'"') => "string",
        Some(b't' | b'f') => "bool",
        _ => "number",
    };
    Err(format!("json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}"))
}

fn decoded(value: &Value) -> Option<Vec<u8>> {
    BASE64.decode(value.as_str()?).ok()
}

fn columns() -> Vec<Column> {
    vec![
        name_column(),
        Column::new("Type", "string", &description::<core::Secret>("type")),
        Column::new("Data", "string", &description::<core::Secret>("data")),
        age_column(),
    ]
}

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let keys = map(object, "data").map_or(0, Map::len);
    vec![json!(object::name(object)), json!(text(object, "type")), json!(keys), age(object, now)]
}

#[cfg(test)]
mod tests;
