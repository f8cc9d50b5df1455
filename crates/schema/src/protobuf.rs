//! Kubernetes protobuf by table: JSON values to and from the bytes that upstream's generated marshalers write.
//!
//! Objects travel in an envelope (`k8s\0` and a `runtime.Unknown`) that carries `apiVersion` and `kind`, which the
//! messages themselves leave out. Lists can be put together from items that are encoded already, and watch events from
//! encoded objects, so that each object is encoded once.

mod decode;
mod encode;
#[cfg(test)]
mod tests;
pub(crate) mod wire;

use serde_json::Value;

use crate::types::{FieldType, Type, Types};
use wire::{Reader, WireType};

/// What every Kubernetes protobuf body begins with.
pub const PREFIX: &[u8; 4] = b"k8s\0";

/// The number of the metadata field in every object and list message.
const METADATA: u32 = 1;
/// The number of the items field in every list message.
const ITEMS: u32 = 2;

/// Why bytes are not the expected message, or a value cannot be one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtobufError {
    #[error("empty data")]
    EmptyData,
    #[error("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")]
    NoPrefix,
    #[error("empty body")]
    EmptyBody,
    #[error("unexpected EOF")]
    UnexpectedEof,
    #[error("proto: integer overflow")]
    IntegerOverflow,
    #[error("proto: negative length found during unmarshaling")]
    NegativeLength,
    #[error("proto: {message}: wiretype end group for non-group")]
    EndGroup { message: &'static str },
    #[error("proto: {message}: illegal tag {number} (wire type {tag})")]
    IllegalTag { message: &'static str, number: i32, tag: u64 },
    #[error("proto: wrong wireType = {wire_type} for field {field}")]
    WrongWireType { wire_type: u8, field: String },
    #[error("proto: illegal wireType {0}")]
    IllegalWireType(u8),
    #[error("proto: unexpected end of group")]
    UnexpectedEndOfGroup,
    #[error("proto: {0} nests too deeply")]
    TooDeep(&'static str),
    #[error("proto: exceeded max number of objects")]
    TooManyObjects,
    /// Raw JSON inside a message is not JSON.
    #[error("proto: field {field}: {error}")]
    Json { field: String, error: String },
    /// The value handed in for encoding does not fit the type.
    #[error("{field}: not a value of type {expected}")]
    Shape { field: &'static str, expected: String },
    /// The type has no protobuf form; upstream answers 406.
    #[error(
        "object *{0} does not implement the protobuf marshalling interface and cannot be encoded to a protobuf message"
    )]
    NotMarshalable(&'static str),
}

/// What the envelope says about the message inside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Envelope<'a> {
    pub api_version: String,
    pub kind: String,
    pub raw: &'a [u8],
    pub content_encoding: String,
    pub content_type: String,
}

impl Type {
    /// Whether upstream has a protobuf message for this type; a `Table` has none.
    pub fn has_protobuf(&self) -> bool {
        !self.wire_order.is_empty()
    }
}

/// Encodes the bare message of a value; `apiVersion` and `kind` are left out.
pub fn encode(ty: &'static Type, value: &Value) -> Result<Vec<u8>, ProtobufError> {
    if !ty.has_protobuf() {
        return Err(ProtobufError::NotMarshalable(ty.go_name));
    }
    let mut out = Vec::with_capacity(512);
    encode::message(ty, value, &mut out)?;
    Ok(out)
}

/// Encodes an object with its envelope, `apiVersion` and `kind` taken from the object.
pub fn encode_object(ty: &'static Type, object: &Value) -> Result<Vec<u8>, ProtobufError> {
    let text = |key: &str| object.get(key).and_then(Value::as_str).unwrap_or_default();
    Ok(wrap(text("apiVersion"), text("kind"), &encode(ty, object)?))
}

/// Puts a bare message into the envelope.
pub fn wrap(api_version: &str, kind: &str, message: &[u8]) -> Vec<u8> {
    let mut out = envelope_head(api_version, kind, message.len());
    out.extend_from_slice(message);
    envelope_tail(&mut out);
    out
}

fn envelope_head(api_version: &str, kind: &str, message_len: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(message_len + api_version.len() + kind.len() + 32);
    out.extend_from_slice(PREFIX);
    wire::put_message(&mut out, 1, |out| {
        wire::put_bytes(out, 1, api_version.as_bytes());
        wire::put_bytes(out, 2, kind.as_bytes());
    });
    wire::put_tag(&mut out, 2, WireType::Bytes);
    wire::put_varint(&mut out, message_len as u64);
    out
}

fn envelope_tail(out: &mut Vec<u8>) {
    wire::put_bytes(out, 3, b"");
    wire::put_bytes(out, 4, b"");
}

/// Builds a list, in its envelope, from the messages of its items.
pub fn encode_list<'a>(
    api_version: &str,
    kind: &str,
    list_meta: &Value,
    items: impl Iterator<Item = &'a [u8]> + Clone,
) -> Result<Vec<u8>, ProtobufError> {
    let mut metadata = Vec::with_capacity(64);
    let list_meta = if list_meta.is_null() { &Value::Object(Default::default()) } else { list_meta };
    encode::message(Types::native().list_meta(), list_meta, &mut metadata)?;
    let items_len: usize = items.clone().map(|item| wire::bytes_len(ITEMS, item.len())).sum();
    let message_len = wire::bytes_len(METADATA, metadata.len()) + items_len;
    let mut out = envelope_head(api_version, kind, message_len);
    wire::put_bytes(&mut out, METADATA, &metadata);
    for item in items {
        wire::put_bytes(&mut out, ITEMS, item);
    }
    envelope_tail(&mut out);
    Ok(out)
}

/// One frame of a watch stream: the length in four bytes, then an event holding an object in its envelope.
pub fn watch_frame(event_type: &str, object: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(object.len() + event_type.len() + 24);
    out.extend_from_slice(&[0; 4]);
    wire::put_bytes(&mut out, 1, event_type.as_bytes());
    wire::put_tag(&mut out, 2, WireType::Bytes);
    wire::put_varint(&mut out, wire::bytes_len(1, object.len()) as u64);
    wire::put_bytes(&mut out, 1, object);
    // A frame above 4 GiB cannot arise from objects bounded by the request size limit.
    let length = u32::try_from(out.len() - 4).unwrap_or(u32::MAX);
    if let Some(head) = out.first_chunk_mut::<4>() {
        *head = length.to_be_bytes();
    }
    out
}

/// Reads the envelope of a request body.
pub fn unwrap(data: &[u8]) -> Result<Envelope<'_>, ProtobufError> {
    if data.is_empty() {
        return Err(ProtobufError::EmptyData);
    }
    let body = data.strip_prefix(PREFIX).ok_or(ProtobufError::NoPrefix)?;
    if body.is_empty() {
        return Err(ProtobufError::EmptyBody);
    }
    let mut envelope = Envelope {
        api_version: String::new(),
        kind: String::new(),
        raw: &[],
        content_encoding: String::new(),
        content_type: String::new(),
    };
    let mut reader = Reader::new(body, "Unknown");
    while let Some(tag) = reader.tag()? {
        match tag.number {
            1 => {
                let mut type_meta = Reader::new(reader.bytes(tag, "TypeMeta")?, "TypeMeta");
                while let Some(tag) = type_meta.tag()? {
                    match tag.number {
                        1 => envelope.api_version = text(type_meta.bytes(tag, "APIVersion")?),
                        2 => envelope.kind = text(type_meta.bytes(tag, "Kind")?),
                        _ => type_meta.skip(tag)?,
                    }
                }
            }
            2 => envelope.raw = reader.bytes(tag, "Raw")?,
            3 => envelope.content_encoding = text(reader.bytes(tag, "ContentEncoding")?),
            4 => envelope.content_type = text(reader.bytes(tag, "ContentType")?),
            _ => reader.skip(tag)?,
        }
    }
    Ok(envelope)
}

/// Decodes a bare message into the form `decode::decode` gives, without `apiVersion` and `kind`.
pub fn decode(ty: &'static Type, message: &[u8]) -> Result<Value, ProtobufError> {
    if !ty.has_protobuf() {
        return Err(ProtobufError::NotMarshalable(ty.go_name));
    }
    decode::message(ty, message)
}

/// Decodes the object inside an envelope, which names its `apiVersion` and `kind`.
pub fn decode_object(ty: &'static Type, envelope: &Envelope<'_>) -> Result<Value, ProtobufError> {
    let mut object = decode(ty, envelope.raw)?;
    if let Value::Object(map) = &mut object {
        for (key, value) in [("apiVersion", &envelope.api_version), ("kind", &envelope.kind)] {
            if !value.is_empty() {
                map.insert(key.to_owned(), Value::String(value.clone()));
            }
        }
    }
    Ok(object)
}

fn text(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => String::from_utf8_lossy(bytes).into_owned(),
    }
}

fn shape(field: &'static str, ty: FieldType) -> ProtobufError {
    ProtobufError::Shape { field, expected: format!("{ty:?}") }
}
