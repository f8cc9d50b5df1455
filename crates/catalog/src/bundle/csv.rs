//! What catalogs read from a ClusterServiceVersion.

use serde_json::Value;

use super::apis::ApiKey;
use crate::fbc::{Bundle, DocumentReader, Fields, Icon, RelatedImage, decode_icon, parse_lenient};
use crate::go::{Dialect, append_json};
use crate::property;

const KIND: &str = "ClusterServiceVersion";
const SUBSTITUTES_FOR: &str = "olm.substitutesFor";

/// A ClusterServiceVersion.
#[derive(Clone, Copy, Debug)]
pub struct Csv<'v>(&'v Value);

impl<'v> Csv<'v> {
    /// Looks at an object.
    pub fn new(object: &'v Value) -> Option<Self> {
        (object.get("kind").and_then(Value::as_str) == Some(KIND)).then_some(Csv(object))
    }

    pub fn name(&self) -> &'v str {
        self.0.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default()
    }

    pub fn annotation(&self, key: &str) -> Option<&'v str> {
        self.0.get("metadata")?.get("annotations")?.get(key)?.as_str()
    }

    /// A field of the spec; null when it is not there.
    pub fn spec(&self, field: &str) -> &'v Value {
        static NULL: Value = Value::Null;
        self.0.get("spec").and_then(|spec| spec.get(field)).unwrap_or(&NULL)
    }

    pub fn metadata(&self, field: &str) -> &'v Value {
        static NULL: Value = Value::Null;
        self.0.get("metadata").and_then(|metadata| metadata.get(field)).unwrap_or(&NULL)
    }

    /// Its version; empty when there is none.
    pub fn version(&self) -> Result<String, String> {
        match self.spec("version") {
            Value::Null => Ok(String::new()),
            Value::String(text) => Ok(text.clone()),
            other => Err(mismatch(other, "string")),
        }
    }

    /// Its release, which may be written as a number.
    pub fn release(&self) -> Result<String, String> {
        match self.spec("release") {
            Value::Null => Ok(String::new()),
            Value::String(text) => Ok(text.clone()),
            Value::Number(number) => Ok(number.to_string()),
            _ => Err("release field must be a string or number".to_owned()),
        }
    }

    pub fn description(&self) -> Option<&'v str> {
        self.spec("description").as_str().filter(|text| !text.is_empty())
    }

    pub fn first_icon(&self) -> Option<Icon> {
        let icon = decode_icon(&Fields::of(self.spec("icon").as_array()?.first()?));
        Some(Icon { data: Some(icon.data.unwrap_or_default()), ..icon })
    }

    /// `customresourcedefinitions` or `apiservicedefinitions`, owned or required.
    pub(super) fn definitions(&self, section: &str, list: &str) -> Vec<Definition> {
        let list = Fields::of(self.spec(section)).list(list);
        let read = |definition: &Value| {
            let fields = Fields::of(definition);
            Definition {
                group: fields.text("group"),
                kind: fields.text("kind"),
                name: fields.text("name"),
                version: fields.text("version"),
            }
        };
        list.iter().map(read).collect()
    }

    pub(super) fn related_images(&self) -> Vec<RelatedImage> {
        let list = self.spec("relatedImages").as_array().map_or(&[][..], Vec::as_slice);
        let read = |image: &Value| {
            let fields = Fields::of(image);
            RelatedImage { name: fields.text("name"), image: fields.text("image") }
        };
        list.iter().map(read).collect()
    }

    /// Images of the containers of its deployments.
    pub(crate) fn operator_images(&self) -> Vec<String> {
        let install = Fields::of(self.spec("install"));
        if install.text("strategy") != "deployment" {
            return Vec::new();
        }
        let strategy = Fields::of(install.get("spec"));
        let mut images = Vec::new();
        for deployment in strategy.list("deployments") {
            let spec = Fields::of(Fields::of(deployment).get("spec"));
            let template = Fields::of(spec.get("template"));
            let pod = Fields::of(template.get("spec"));
            for container in pod.list("containers").iter().chain(pod.list("initContainers")) {
                images.push(Fields::of(container).text("image"));
            }
        }
        images.sort();
        images.dedup();
        images
    }
}

/// An API that a ClusterServiceVersion owns or requires.
pub(super) struct Definition {
    pub(super) group: String,
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) version: String,
}

impl Definition {
    /// The key of a custom resource, whose name is `plural.group`.
    pub(super) fn custom_resource(self) -> Result<ApiKey, String> {
        let Some((plural, group)) = self.name.split_once('.') else {
            return Err(format!("couldn't parse plural.group from crd name: {}", self.name));
        };
        Ok(ApiKey { group: group.to_owned(), version: self.version, kind: self.kind, plural: plural.to_owned() })
    }

    /// The key of an aggregated API.
    pub(super) fn api_service(self) -> ApiKey {
        ApiKey { group: self.group, version: self.version, kind: self.kind, plural: self.name }
    }
}

fn mismatch(value: &Value, wanted: &str) -> String {
    let found = match value {
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::Array(_) => "array",
        _ => "object",
    };
    format!("json: cannot unmarshal {found} into Go value of type {wanted}")
}

/// A manifest as compact JSON: JSON as it is, YAML converted.
pub(crate) fn manifest_json(data: Vec<u8>) -> Result<String, String> {
    if data.trim_ascii_start().starts_with(b"{") {
        return String::from_utf8(data).map_err(|_| "the text is not UTF-8".to_owned());
    }
    let mut reader = DocumentReader::new(data.as_slice());
    let value = match reader.next_document().map_err(|error| error.to_string())? {
        Some(document) => parse_lenient(&document)?,
        None => Value::Null,
    };
    let mut out = String::new();
    append_json(&mut out, &value, Dialect::Manifest);
    Ok(out)
}

/// Whether a manifest is a ClusterServiceVersion.
pub(crate) fn is_csv(json: &str) -> bool {
    #[derive(serde::Deserialize)]
    struct Kind<'a> {
        #[serde(borrow, default)]
        kind: std::borrow::Cow<'a, str>,
    }
    json.contains(KIND) && serde_json::from_str::<Kind>(json).is_ok_and(|it| it.kind == KIND)
}

/// Whether a bundle says in the old way that it stands in for another one.
pub(crate) fn substitutes_another(bundle: &Bundle) -> bool {
    let annotation = |object: &Value, pointer: &str| {
        object
            .pointer(pointer)
            .and_then(|map| map.get(SUBSTITUTES_FOR))
            .and_then(Value::as_str)
            .is_some_and(|it| !it.is_empty())
    };
    if let Ok(csv) = serde_json::from_str::<Value>(&bundle.csv_json) {
        return annotation(&csv, "/metadata/annotations");
    }
    bundle
        .properties
        .iter()
        .filter(|property| property.kind == property::CSV_METADATA_TYPE)
        .filter_map(|property| serde_json::from_str::<Value>(&property.value).ok())
        .any(|metadata| annotation(&metadata, "/annotations"))
}
