//! What documents say about one custom resource, ready to be put into them. Nothing is made until a document is asked for;
//! what was made is kept compressed for as long as the definition says the same.

use std::sync::OnceLock;

use bailiwick_machinery::Resource;
use bailiwick_machinery::custom::CustomType;
use bailiwick_machinery::status::{ApiError, ApiResult};
use bailiwick_schema::openapi::{CustomDefinition, Form, gnostic};
use sha2::{Digest, Sha256};

use super::custom_paths::{Shape, ShapePaths};
use super::document::{Encoding, put_definition};
use super::names;
use super::piece::{Packer, Piece};
use super::template::Names;

/// The part one custom resource has in documents.
pub(super) struct Custom {
    /// Of everything the part is made of: the same fingerprint is the same part.
    pub fingerprint: [u8; 32],
    /// By form and encoding.
    parts: [OnceLock<Part>; 4],
}

/// Members of a document's `paths`, definitions and shared responses.
#[derive(Clone)]
pub(super) struct Part {
    pub paths: Vec<Piece>,
    pub definitions: Vec<Piece>,
    pub responses: Vec<Piece>,
}

/// Counts up when parts are made differently from the same definition: addresses by hash are cached for ever.
const PART_VERSION: u8 = 2;

impl Custom {
    pub(super) fn new(resource: &Resource, custom: &CustomType) -> Self {
        Self { fingerprint: fingerprint(resource, custom), parts: [const { OnceLock::new() }; 4] }
    }

    /// The part in this form. Made outside any lock: two at a time may make the same, and one of them is kept.
    pub(super) fn part(
        &self,
        resource: &Resource,
        custom: &CustomType,
        form: Form,
        encoding: Encoding,
        packer: &mut Packer,
    ) -> ApiResult<&Part> {
        let at = usize::from(form == Form::V3) * 2 + usize::from(encoding == Encoding::Protobuf);
        let cell = &self.parts[at];
        match cell.get() {
            Some(part) => Ok(part),
            None => {
                let part = Part::new(resource, custom, form, encoding, packer)?;
                Ok(cell.get_or_init(|| part))
            }
        }
    }
}

impl Part {
    fn new(
        resource: &Resource,
        custom: &CustomType,
        form: Form,
        encoding: Encoding,
        packer: &mut Packer,
    ) -> ApiResult<Self> {
        let Resource { group, version, kind, list_kind, plural, .. } = resource;
        let definitions = CustomDefinition {
            group,
            version,
            kind,
            list_kind,
            plural,
            preserve_unknown_fields: custom.preserve_unknown_fields,
            selectable_fields: resource.selectable_fields.iter().map(|field| field.name.as_str()).collect(),
            schema: custom.openapi_schema(),
        }
        .render(form);
        let names = Names([
            group.clone(),
            version.clone(),
            plural.clone(),
            kind.clone(),
            definitions.object.0.clone(),
            definitions.list.0.clone(),
            names::tag(group, version),
            names::group_version(group, version),
        ]);
        let ShapePaths { paths, responses, .. } = ShapePaths::of(shape(resource), form);
        let (paths, responses) = match (encoding, form) {
            (Encoding::Json, _) => (paths.json(&names), responses.json(&names)),
            (Encoding::Protobuf, Form::V2) => {
                use gnostic::v2::{self, document};
                (paths.protobuf(&names, document::PATH, &v2::PATH_ITEM), Vec::new())
            }
            (Encoding::Protobuf, Form::V3) => {
                use gnostic::v3::{self, document};
                let responses = responses.protobuf(&names, document::ENTRY, &v3::RESPONSE_OR_REFERENCE);
                (paths.protobuf(&names, document::PATH, &v3::PATH_ITEM), responses)
            }
        };
        let mut text = Vec::new();
        for (name, definition) in [&definitions.object, &definitions.list] {
            put_definition(&mut text, form, encoding, name, definition).map_err(ApiError::internal)?;
        }
        Ok(Self {
            paths: packer.split(&paths)?,
            definitions: packer.split(&text)?,
            responses: packer.split(&responses)?,
        })
    }
}

/// Which paths a custom resource has.
pub(super) fn shape(resource: &Resource) -> Shape {
    Shape {
        namespaced: resource.namespaced(),
        status: resource.subresource("status").is_some(),
        scale: resource.subresource("scale").is_some(),
    }
}

fn fingerprint(resource: &Resource, custom: &CustomType) -> [u8; 32] {
    let mut hash = Sha256::new();
    let mut text = |text: &[u8]| {
        hash.update((text.len() as u64).to_le_bytes());
        hash.update(text);
    };
    let Resource { group, version, kind, list_kind, plural, .. } = resource;
    [group, version, kind, list_kind, plural].iter().for_each(|name| text(name.as_bytes()));
    let shape = shape(resource);
    let flags = [shape.namespaced, shape.status, shape.scale, custom.preserve_unknown_fields];
    text(&flags.map(u8::from));
    resource.selectable_fields.iter().for_each(|field| text(field.name.as_bytes()));
    text(&[PART_VERSION]);
    // Last, so that a field cannot pass for a schema.
    match custom.openapi_schema_json() {
        Some(schema) => text(schema),
        None => text(b""),
    }
    hash.finalize().into()
}
