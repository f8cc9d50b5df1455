//! Protobuf without schemas: encodes hand-written messages for requests, and turns answers into a tree of field numbers and
//! values that can be masked and compared. Two different byte strings give two different trees, but for what is masked.

use anyhow::{Context, Result, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::case::ManagedFields;

/// The four bytes in front of every Kubernetes protobuf object.
const MAGIC: &[u8] = b"k8s\0";
/// No Kubernetes type has a field number near this; larger ones mean that the bytes are not a message.
const MAX_FIELD_NUMBER: u64 = 512;
/// Deeper nesting than any served type has; guards the recursion.
const MAX_DEPTH: u32 = 40;

/// Encodes `[[field, value], …]` with the Kubernetes envelope in front. Numbers are varints, strings are bytes, lists are
/// messages, booleans are varints.
pub fn encode_enveloped(message: &Value) -> Result<Vec<u8>> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend(encode(message)?);
    Ok(bytes)
}

fn encode(message: &Value) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    for pair in message.as_array().context("a message is a list of [field, value]")? {
        let (Some(field), Some(value)) = (pair.get(0).and_then(Value::as_u64), pair.get(1)) else {
            bail!("not a [field, value] pair: {pair}");
        };
        match value {
            Value::Number(number) => {
                put_varint(&mut bytes, field << 3);
                put_varint(&mut bytes, number.as_i64().context("integers only")? as u64);
            }
            Value::Bool(flag) => {
                put_varint(&mut bytes, field << 3);
                put_varint(&mut bytes, u64::from(*flag));
            }
            Value::String(text) => put_bytes(&mut bytes, field, text.as_bytes()),
            Value::Array(_) => put_bytes(&mut bytes, field, &encode(value)?),
            other => bail!("cannot encode {other}"),
        }
    }
    Ok(bytes)
}

fn put_bytes(bytes: &mut Vec<u8>, field: u64, content: &[u8]) {
    put_varint(bytes, field << 3 | 2);
    put_varint(bytes, content.len() as u64);
    bytes.extend_from_slice(content);
}

fn put_varint(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push((value as u8) | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

/// What of an answer must not be compared.
#[derive(Clone, Copy)]
pub struct Masks {
    /// The present time: numbers near it are times.
    pub now_s: u64,
    /// Whether `managedFields` stay.
    pub managed_fields: ManagedFields,
}

/// The tree of an answer: an enveloped object, or the length-prefixed frames of a watch.
pub fn dump_answer(bytes: &[u8], masks: Masks) -> Value {
    if bytes.starts_with(MAGIC) || bytes.is_empty() {
        return dump_bytes(bytes, masks, 0);
    }
    let mut frames = Vec::new();
    let mut rest = bytes;
    while let Some((length, after)) = rest.split_first_chunk::<4>() {
        let length = u32::from_be_bytes(*length) as usize;
        let Some((frame, after)) = after.split_at_checked(length) else { break };
        frames.push(dump_bytes(frame, masks, 0));
        rest = after;
    }
    if rest.is_empty() { json!({ "frames": frames }) } else { json!({ "bytes": STANDARD.encode(bytes) }) }
}

fn dump_bytes(bytes: &[u8], masks: Masks, depth: u32) -> Value {
    if let Some(object) = bytes.strip_prefix(MAGIC).filter(|_| depth < MAX_DEPTH) {
        return json!({ "k8s": dump_bytes(object, masks, depth + 1) });
    }
    let text = std::str::from_utf8(bytes).ok().filter(|text| {
        // A message that starts with field 1 begins with a line feed, which text hardly ever does.
        !text.starts_with('\n') && text.chars().all(|letter| !letter.is_control() || letter == '\n' || letter == '\t')
    });
    if let Some(text) = text {
        return Value::String(text.to_owned());
    }
    match (depth < MAX_DEPTH).then(|| dump_message(bytes, masks, depth)).flatten() {
        Some(message) => message,
        None => match std::str::from_utf8(bytes) {
            Ok(text) => Value::String(text.to_owned()),
            Err(_) => json!({ "bytes": STANDARD.encode(bytes) }),
        },
    }
}

fn dump_message(bytes: &[u8], masks: Masks, depth: u32) -> Option<Value> {
    let mut fields = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let key = take_varint(&mut rest)?;
        let field = key >> 3;
        if field == 0 || field > MAX_FIELD_NUMBER {
            return None;
        }
        match key & 7 {
            0 => {
                let number = take_varint(&mut rest)?;
                let day_s = 86_400;
                let value = if number.abs_diff(masks.now_s) < day_s { json!("<time>") } else { json!(number) };
                fields.push(json!([field, value]));
            }
            1 => {
                let (number, after) = rest.split_first_chunk::<8>()?;
                fields.push(json!([field, format!("fixed64:{:x}", u64::from_le_bytes(*number))]));
                rest = after;
            }
            2 => {
                let length = usize::try_from(take_varint(&mut rest)?).ok()?;
                let (content, after) = rest.split_at_checked(length)?;
                rest = after;
                if masks.managed_fields == ManagedFields::Drop && is_managed_fields(field, content) {
                    continue;
                }
                let mut value = dump_bytes(content, masks, depth + 1);
                if (field == 6 || field == 2) && is_revision(&value) {
                    value = json!("<rv>");
                }
                fields.push(json!([field, value]));
            }
            5 => {
                let (number, after) = rest.split_first_chunk::<4>()?;
                fields.push(json!([field, format!("fixed32:{:x}", u32::from_le_bytes(*number))]));
                rest = after;
            }
            _ => return None,
        }
    }
    Some(Value::Array(fields))
}

/// `ObjectMeta.managedFields` is field 17, and each entry names its format.
fn is_managed_fields(field: u64, content: &[u8]) -> bool {
    field == 17 && content.windows(8).any(|window| window == b"FieldsV1")
}

/// `ObjectMeta.resourceVersion` is field 6, `ListMeta.resourceVersion` is field 2.
fn is_revision(value: &Value) -> bool {
    value.as_str().is_some_and(|text| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()))
}

fn take_varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (byte, after) = rest.split_first()?;
        *rest = after;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dumped(bytes: &[u8], now_s: u64, managed_fields: ManagedFields) -> Value {
        dump_answer(bytes, Masks { now_s, managed_fields })
    }

    #[test]
    fn an_encoded_message_is_dumped_as_it_was_written() {
        let message = json!([[1, [[1, "v1"], [2, "ConfigMap"]]], [2, [[1, [[1, "name"], [3, "ns"]]], [9, 300]]]]);
        let bytes = encode_enveloped(&message).unwrap();
        assert_eq!(dumped(&bytes, 1_800_000_000, ManagedFields::Drop), json!({ "k8s": message }));
    }

    #[test]
    fn times_and_revisions_are_masked_and_managed_fields_dropped_unless_compared() {
        let message = json!([[1, [[6, "123"], [8, [[1, 1_700_000_000]]], [17, [[6, "FieldsV1"], [7, 1]]]]]]);
        let bytes = encode_enveloped(&message).unwrap();
        assert_eq!(
            dumped(&bytes, 1_700_000_100, ManagedFields::Compare),
            json!({"k8s": [[1, [[6, "<rv>"], [8, [[1, "<time>"]]], [17, [[6, "FieldsV1"], [7, 1]]]]]]})
        );
        assert_eq!(
            dumped(&bytes, 1_700_000_100, ManagedFields::Drop),
            json!({"k8s": [[1, [[6, "<rv>"], [8, [[1, "<time>"]]]]]]})
        );
    }

    #[test]
    fn broken_bytes_are_kept_whole() {
        assert_eq!(dumped(&[0, 0, 0, 9, 1], 0, ManagedFields::Drop), json!({ "bytes": "AAAACQE=" }));
    }
}
