//! `metadata.managedFields`: reading entries, and writing them back in upstream's order.
//!
//! The fields of an entry are decoded when they are first needed, and an entry that did not change is written back as it
//! was read.

use std::borrow::Cow;

use bailiwick_schema::time::{Precision, parse};
use serde_json::{Map, Value};

use super::conflict::{ManagerId, Operation};
use super::set::FieldSet;

/// One manager and its fields.
pub(super) struct Entry<'a> {
    pub(super) id: ManagerId<'a>,
    pub(super) time: Option<Cow<'a, str>>,
    fields: Fields<'a>,
}

enum Fields<'a> {
    /// Written by this server and not looked at yet.
    Stored {
        entry: &'a Value,
    },
    Decoded {
        set: FieldSet<'a>,
        entry: Option<&'a Value>,
    },
}

static NO_FIELDS: Value = Value::Null;

impl<'a> Entry<'a> {
    pub(super) fn new(id: ManagerId<'a>, time: Option<Cow<'a, str>>, set: FieldSet<'a>) -> Self {
        Self { id, time, fields: Fields::Decoded { set, entry: None } }
    }

    /// The fields of the manager.
    pub(super) fn set(&mut self) -> Result<&FieldSet<'a>, String> {
        self.decoded().map(|(set, _)| &*set)
    }

    /// The fields, and the entry they were read from as long as they have not changed.
    fn decoded(&mut self) -> Result<(&mut FieldSet<'a>, &mut Option<&'a Value>), String> {
        if let Fields::Stored { entry } = self.fields {
            let set = FieldSet::from_value(entry.get("fieldsV1").unwrap_or(&NO_FIELDS));
            let set = set.map_err(|error| format!("error decoding set: {error}"))?;
            self.fields = Fields::Decoded { set, entry: Some(entry) };
        }
        match &mut self.fields {
            Fields::Decoded { set, entry } => Ok((set, entry)),
            Fields::Stored { .. } => Err("invariant: fields were just decoded".to_owned()),
        }
    }

    /// Changes the fields; `change` says whether it did.
    pub(super) fn change(&mut self, change: impl FnOnce(&mut FieldSet<'a>) -> bool) -> Result<(), String> {
        let (set, entry) = self.decoded()?;
        if change(set) {
            *entry = None;
        }
        Ok(())
    }

    /// The fields, leaving none behind.
    pub(super) fn take(&mut self) -> Result<FieldSet<'a>, String> {
        let mut taken = FieldSet::default();
        self.change(|set| {
            taken = std::mem::take(set);
            true
        })?;
        Ok(taken)
    }

    /// Gives the entry to another manager.
    pub(super) fn rename(&mut self, id: ManagerId<'a>, time: Option<Cow<'a, str>>) -> Result<(), String> {
        *self.decoded()?.1 = None;
        self.id = id;
        self.time = time;
        Ok(())
    }

    pub(super) fn set_time(&mut self, time: Cow<'a, str>) -> Result<(), String> {
        let id = self.id.clone();
        self.rename(id, Some(time))
    }

    /// The value of `fieldsV1` as it was read; `None` once it was decoded.
    pub(super) fn stored_fields(&self) -> Option<&'a Value> {
        match self.fields {
            Fields::Stored { entry } => entry.get("fieldsV1"),
            Fields::Decoded { .. } => None,
        }
    }

    /// Whether the entry is what was read.
    pub(super) fn is_as_stored(&self) -> bool {
        matches!(self.fields, Fields::Stored { .. } | Fields::Decoded { entry: Some(_), .. })
    }

    /// What upstream sorts by; no time is the beginning of time.
    pub(super) fn unix_seconds(&self) -> i64 {
        unix_seconds(self.time.as_deref())
    }

    fn sort_key(&self) -> SortKey<'_> {
        (self.id.operation.as_str(), self.unix_seconds(), &self.id.manager, &self.id.api_version, &self.id.subresource)
    }

    pub(super) fn into_value(self) -> Value {
        let set = match self.fields {
            Fields::Stored { entry } | Fields::Decoded { entry: Some(entry), .. } => return entry.clone(),
            Fields::Decoded { set, entry: None } => set,
        };
        let mut out = Map::new();
        let mut text = |name: &str, value: Cow<'_, str>| {
            if !value.is_empty() {
                out.insert(name.to_owned(), Value::String(value.into_owned()));
            }
        };
        text("manager", self.id.manager);
        text("operation", Cow::Borrowed(self.id.operation.as_str()));
        text("apiVersion", self.id.api_version);
        text("subresource", self.id.subresource);
        text("time", self.time.unwrap_or_default());
        text("fieldsType", Cow::Borrowed("FieldsV1"));
        out.insert("fieldsV1".to_owned(), set.to_value());
        Value::Object(out)
    }
}

/// How far the text of entries is to be trusted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// Written by this server: entries that do not change need not be decoded.
    Store,
    /// Sent by a client, in any form.
    Client,
}

/// Reads `managedFields`; of entries with the same identity the last counts.
pub(super) fn decode(list: Option<&Value>, origin: Origin) -> Result<Vec<Entry<'_>>, String> {
    let list = match list {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Array(list)) => list,
        Some(_) => return Err("managedFields is not a list".to_owned()),
    };
    let mut entries: Vec<Entry<'_>> = Vec::with_capacity(list.len() + 1);
    for (i, value) in list.iter().enumerate() {
        let mut entry = decode_entry(i, value)?;
        if origin == Origin::Client {
            entry.change(|_| true)?;
        }
        match entries.iter_mut().find(|known| known.id == entry.id) {
            Some(known) => *known = entry,
            None => entries.push(entry),
        }
    }
    Ok(entries)
}

fn decode_entry(i: usize, value: &Value) -> Result<Entry<'_>, String> {
    let text = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default();
    let operation = match text("operation") {
        "Apply" => Operation::Apply,
        "Update" => Operation::Update,
        _ => return Err("operation must be `Apply` or `Update`".to_owned()),
    };
    if text("apiVersion").is_empty() {
        return Err("apiVersion must not be empty".to_owned());
    }
    match text("fieldsType") {
        "FieldsV1" => {}
        "" => return Err(format!("missing fieldsType in managed fields entry {i}")),
        other => {
            let other = bailiwick_schema::decode::go_quote(other);
            return Err(format!("invalid fieldsType {other} in managed fields entry {i}"));
        }
    }
    let id = ManagerId {
        manager: Cow::Borrowed(text("manager")),
        operation,
        api_version: Cow::Borrowed(text("apiVersion")),
        subresource: Cow::Borrowed(text("subresource")),
    };
    let time = value.get("time").and_then(Value::as_str).map(Cow::Borrowed);
    Ok(Entry { id, time, fields: Fields::Stored { entry: value } })
}

/// Writes `managedFields`; `None` when there is nothing to write.
pub(super) fn encode(mut entries: Vec<Entry<'_>>) -> Option<Value> {
    if entries.is_empty() {
        return None;
    }
    if entries.len() > 1 {
        entries.sort_by(|a, b| a.sort_key().cmp(&b.sort_key()));
    }
    Some(entries.into_iter().map(Entry::into_value).collect())
}

/// Operation, time, manager, version, subresource: the order upstream writes entries in.
type SortKey<'a> = (&'a str, i64, &'a str, &'a str, &'a str);

fn unix_seconds(time: Option<&str>) -> i64 {
    time.and_then(|time| parse(time, Precision::Seconds).ok()).map_or(0, |time| time.unix_seconds)
}

/// Brings entries into the order [`encode`] writes them in.
pub(super) fn sort_values(list: &mut [Value]) {
    fn key(entry: &Value) -> SortKey<'_> {
        let text = |name: &str| entry.get(name).and_then(Value::as_str);
        let or_empty = |name: &str| text(name).unwrap_or_default();
        let seconds = unix_seconds(text("time"));
        (or_empty("operation"), seconds, or_empty("manager"), or_empty("apiVersion"), or_empty("subresource"))
    }
    list.sort_by(|a, b| key(a).cmp(&key(b)));
}

/// Whether an entry is that of a manager.
pub(super) fn is_of(entry: &Value, id: &ManagerId<'_>) -> bool {
    let text = |name: &str| entry.get(name).and_then(Value::as_str).unwrap_or_default();
    text("manager") == id.manager
        && text("operation") == id.operation.as_str()
        && text("subresource") == id.subresource
        && text("apiVersion") == id.api_version
}

/// Whether a client asks to forget all managers: an empty list, or one entry that says nothing.
pub(super) fn is_reset(list: Option<&Value>) -> bool {
    match list {
        Some(Value::Array(list)) => match list.as_slice() {
            [] => true,
            [Value::Object(only)] => only.iter().all(|(name, value)| match value {
                Value::Null => true,
                Value::String(text) => text.is_empty() && name != "time",
                _ => false,
            }),
            [Value::Null] => true,
            _ => false,
        },
        _ => false,
    }
}

/// Whether `managedFields` can be read. Mutating admission may have spoiled them, in which case they are put back.
pub fn validate_managed_fields(list: &Value) -> Result<(), String> {
    let mut entries = decode(Some(list), Origin::Store)?;
    entries.iter_mut().try_for_each(|entry| entry.set().map(|_| ()))
}
