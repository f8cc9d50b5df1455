//! Members of documents with slots for names. What documents say about the paths of two custom resources differs in names
//! only, so it is made once for each shape, which costs next to nothing to fill for a thousand resources.

use bailiwick_schema::openapi::gnostic;
use serde_json::{Value, json};

/// Names that fill the slots; in the order of [`slot`].
pub(super) struct Names(pub [String; SLOTS]);

const SLOTS: usize = 8;

/// Slots are characters of Unicode's private use area, which no text and no name has.
pub(super) mod slot {
    pub(super) const FIRST: char = '\u{E000}';
    pub const GROUP: &str = "\u{E000}";
    pub const VERSION: &str = "\u{E001}";
    pub const PLURAL: &str = "\u{E002}";
    pub const KIND: &str = "\u{E003}";
    /// The definitions' names.
    pub const OBJECT: &str = "\u{E004}";
    pub const LIST: &str = "\u{E005}";
    pub const TAG: &str = "\u{E006}";
    /// Group and version inside operation ids.
    pub const GROUP_VERSION: &str = "\u{E007}";
}

/// Members of one section of a document.
pub(super) struct Template {
    /// As JSON, cut at the slots: a text and the slot after it.
    json: Vec<(Box<str>, Option<usize>)>,
    /// The same as values.
    members: Vec<(String, Value)>,
}

impl Template {
    pub(super) fn new(members: Vec<(String, Value)>) -> Self {
        let texts: Vec<String> = members.iter().map(|(name, value)| format!("{}:{value}", json!(name))).collect();
        Self { json: cut(&texts.join(",")), members }
    }

    /// As members of a JSON object.
    pub(super) fn json(&self, names: &Names) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.json.iter().map(|(text, _)| text.len() + 24).sum());
        for (text, slot) in &self.json {
            out.extend_from_slice(text.as_bytes());
            if let Some(name) = slot.and_then(|slot| names.0.get(slot)) {
                out.extend_from_slice(name.as_bytes());
            }
        }
        out
    }

    /// As entries of a protobuf map.
    pub(super) fn protobuf(&self, names: &Names, number: u32, kind: &gnostic::Kind) -> Vec<u8> {
        let mut out = Vec::new();
        for (name, value) in &self.members {
            gnostic::put_entry(&mut out, number, kind, &filled(name, names), &filled_value(value, names));
        }
        out
    }
}

/// Whether a text has slots.
pub(super) fn has_slots(text: &str) -> bool {
    text.chars().any(|letter| slot_of(letter).is_some())
}

fn slot_of(letter: char) -> Option<usize> {
    let slot = (letter as usize).checked_sub(slot::FIRST as usize)?;
    (slot < SLOTS).then_some(slot)
}

fn cut(text: &str) -> Vec<(Box<str>, Option<usize>)> {
    text.split_inclusive(|letter| slot_of(letter).is_some())
        .map(|part| {
            let slot = part.chars().next_back().and_then(slot_of);
            let text = if slot.is_some() { part.trim_end_matches(|letter| slot_of(letter).is_some()) } else { part };
            (text.into(), slot)
        })
        .collect()
}

fn filled(text: &str, names: &Names) -> String {
    let mut out = String::with_capacity(text.len() + 24);
    for letter in text.chars() {
        match slot_of(letter).and_then(|slot| names.0.get(slot)) {
            Some(name) => out.push_str(name),
            None => out.push(letter),
        }
    }
    out
}

fn filled_value(value: &Value, names: &Names) -> Value {
    match value {
        Value::String(text) => filled(text, names).into(),
        Value::Array(items) => items.iter().map(|item| filled_value(item, names)).collect(),
        Value::Object(entries) => {
            entries.iter().map(|(name, value)| (name.clone(), filled_value(value, names))).collect()
        }
        other => other.clone(),
    }
}
