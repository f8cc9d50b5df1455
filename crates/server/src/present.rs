//! Stored custom resources in the version they are asked for: converted, and pruned and defaulted by the schema of now.
//!
//! Objects written since the definition last changed are already what their version shows, so that the common case is a
//! look at the first bytes.

use std::ops::Range;
use std::sync::Arc;

use bailiwick_machinery::custom::CustomType;
use bailiwick_machinery::object;
use bailiwick_machinery::resource::GroupVersion;
use bailiwick_machinery::status::{ApiError, ApiResult};
use bailiwick_schema::structural::{self, PruneOptions, Root, Schema, UnknownFields};
use bailiwick_store::{KeyValue, Revision};
use serde_json::Value;

use crate::cache::{Event, EventType, Filter, Object, Snapshot, encode_for_storage};
use crate::registry::Served;

/// Whoever reads is not told what was left out.
const READING: PruneOptions = PruneOptions { root: Root::Resource, unknown_fields: UnknownFields::Ignore };

/// How many objects one call to a conversion webhook converts at most: no webhook is asked to convert a whole list of
/// any length within its timeout.
const CONVERSION_OBJECTS_MAX: usize = 500;
/// How many stored bytes one such call carries, unless a single object has more: far below the limit on answers, even if
/// conversion makes objects longer.
const CONVERSION_BYTES_MAX: usize = 4 * 1024 * 1024;

impl Served {
    /// Whether the stored bytes are what this version shows.
    pub(crate) fn shows_as_stored(&self, object: &Object) -> bool {
        let Some(custom) = &self.resource.custom else { return true };
        // An object without a revision has just been made by a dry run.
        let fresh = object.revision.0 > custom.since || object.revision == Revision::default();
        fresh && self.is_in_this_version(object)
    }

    /// Whether the stored tree is what this version shows, conversions of native types included.
    pub(crate) fn is_shown_as_stored(&self, object: &Object) -> bool {
        self.resource.strategy.stored_as_served() && self.shows_as_stored(object)
    }

    /// An object of this version in another version or group of the same resource.
    pub(crate) async fn convert_to(&self, to: &Served, mut object: Value) -> ApiResult<Value> {
        if let Some(custom) = &to.resource.custom {
            let mut converted = convert_one(custom, object, &to.resource.group_version()).await?;
            prune(&mut converted, custom.schema());
            return Ok(converted);
        }
        self.resource.strategy.to_storage(&mut object);
        to.resource.strategy.from_storage(&mut object);
        if let Some(fields) = object.as_object_mut() {
            fields.insert("apiVersion".into(), to.api_version.as_str().into());
        }
        Ok(object)
    }

    fn is_in_this_version(&self, object: &Object) -> bool {
        object.stored_json().starts_with(self.stored_head.as_bytes())
    }

    /// Whether showing this object in this version takes a call to a conversion webhook.
    pub(crate) fn needs_webhook(&self, object: &Object) -> bool {
        self.resource.custom.as_ref().is_some_and(|custom| custom.converter.is_some())
            && !self.is_in_this_version(object)
    }

    /// The object as this version shows it; `None` when that is how it is stored. Objects that need a webhook must have
    /// been through [`Served::present_all`].
    pub(crate) fn present(&self, object: &Object) -> ApiResult<Option<Object>> {
        if self.shows_as_stored(object) {
            return Ok(None);
        }
        let mut value = object.to_value().map_err(ApiError::internal)?;
        self.normalise(&mut value);
        self.presented(object, &value).map(Some)
    }

    /// The selectable fields of an object as this version shows them; `None` where that is how they are stored, or where
    /// only a webhook can tell.
    pub(crate) fn shown_fields(&self, object: &Object) -> Option<Vec<String>> {
        if self.shows_as_stored(object) || self.needs_webhook(object) {
            return None;
        }
        let indexed = &self.cache.as_ref()?.selectable_fields;
        let mut value = object.to_value().ok()?;
        self.normalise(&mut value);
        Some(indexed.iter().map(|field| field.value(&value).into_owned()).collect())
    }

    /// The objects as this version shows them. Those that need the conversion webhook go there in batches, one after
    /// another.
    pub(crate) async fn present_all(&self, mut objects: Vec<Arc<Object>>) -> ApiResult<Vec<Arc<Object>>> {
        let waiting: Vec<usize> = (0..objects.len()).filter(|at| self.needs_webhook(&objects[*at])).collect();
        let converter = self.resource.custom.as_ref().and_then(|custom| custom.converter.as_ref());
        let (Some(converter), false) = (converter, waiting.is_empty()) else { return Ok(objects) };
        let stored = |object: &Object| {
            // Without its revision, which upstream's webhooks are not told either.
            let mut value = serde_json::from_slice(object.stored_json()).map_err(ApiError::internal)?;
            self.read(&mut value);
            Ok(value)
        };
        let to = self.resource.group_version();
        for batch in batches(waiting.iter().map(|at| objects[*at].stored_json().len())) {
            let batch = &waiting[batch];
            let values: Vec<Value> = batch.iter().map(|at| stored(&objects[*at])).collect::<ApiResult<_>>()?;
            let converted = converter.convert(values, &to).await?;
            for (at, mut value) in batch.iter().zip(converted) {
                prune(&mut value, self.resource.custom.as_ref().and_then(|custom| custom.schema()));
                objects[*at] = Arc::new(self.presented(&objects[*at], &value)?);
            }
        }
        Ok(objects)
    }

    /// The objects a watch begins with, as this version shows them. Where some need a webhook, those that the filter
    /// leaves out for sure are not among them.
    pub(crate) async fn present_snapshot(&self, mut snapshot: Snapshot, filter: &Filter) -> ApiResult<Snapshot> {
        if snapshot.objects.values().any(|object| self.needs_webhook(object)) {
            let wanted = snapshot.objects.values().filter(|object| filter.matches(object));
            let presented = self.present_all(wanted.cloned().collect()).await?;
            snapshot.objects = presented.into_iter().map(|object| (object.key().clone(), object)).collect();
        }
        Ok(snapshot)
    }

    /// Whether showing a change takes a call to a conversion webhook.
    pub(crate) fn event_needs_webhook(&self, event: &Event) -> bool {
        self.needs_webhook(&event.object) || event.previous.as_ref().is_some_and(|object| self.needs_webhook(object))
    }

    /// Changes as this version shows them.
    pub(crate) async fn present_events(
        &self,
        events: Vec<(EventType, Arc<Event>)>,
    ) -> ApiResult<Vec<(EventType, Arc<Event>)>> {
        let states = |event: &Event| std::iter::once(event.object.clone()).chain(event.previous.clone());
        let objects = events.iter().flat_map(|(_, event)| states(event)).collect();
        let mut presented = self.present_all(objects).await?.into_iter();
        let mut next = || presented.next().ok_or_else(|| ApiError::internal("an event was not converted"));
        let mut converted = Vec::with_capacity(events.len());
        for (event_type, event) in events {
            let object = next()?;
            let previous = event.previous.is_some().then(&mut next).transpose()?;
            converted.push((event_type, Arc::new(Event::new(object, previous, event.deleted))));
        }
        Ok(converted)
    }

    /// The object as a tree in this version.
    pub(crate) async fn present_value(&self, object: &Arc<Object>) -> ApiResult<Value> {
        if self.needs_webhook(object) {
            let presented = self.present_all(vec![object.clone()]).await?;
            let presented = presented.first().ok_or_else(|| ApiError::internal("nothing was converted"))?;
            return presented.to_value().map_err(ApiError::internal);
        }
        let mut value = object.to_value().map_err(ApiError::internal)?;
        if !self.shows_as_stored(object) {
            self.normalise(&mut value);
        }
        self.resource.strategy.from_storage(&mut value);
        Ok(value)
    }

    /// An object of this version in the form it is stored in.
    pub(crate) async fn storage_value(&self, object: &Value) -> ApiResult<Option<Value>> {
        let strategy = &self.resource.strategy;
        if !strategy.stored_as_served() {
            let mut stored = object.clone();
            strategy.to_storage(&mut stored);
            return Ok(Some(stored));
        }
        let Some(custom) =
            self.resource.custom.as_ref().filter(|custom| custom.storage.version != self.resource.version)
        else {
            return Ok(None);
        };
        let mut stored = convert_one(custom, object.clone(), &custom.storage).await?;
        let schema = custom.schema_of(&custom.storage.version);
        prune(&mut stored, schema);
        if let Some(schema) = schema {
            // Readers would fill them in otherwise, and need not if they are there.
            structural::default(&mut stored, schema);
        }
        Ok(Some(stored))
    }

    /// A stored object as this version shows it, where that needs no webhook.
    fn normalise(&self, value: &mut Value) {
        self.read(value);
        if object::str_at(value, &["apiVersion"]) == self.api_version {
            return;
        }
        if let Some(fields) = value.as_object_mut() {
            fields.insert("apiVersion".into(), self.api_version.as_str().into());
        }
        prune(value, self.resource.custom.as_ref().and_then(|custom| custom.schema()));
    }

    /// Drops what the schema of the version an object is stored in no longer knows, and fills in its defaults.
    fn read(&self, value: &mut Value) {
        let Some(custom) = &self.resource.custom else { return };
        let api_version = object::str_at(value, &["apiVersion"]);
        let schema = match api_version == self.api_version {
            true => custom.schema(),
            false => custom.schema_of(api_version.rsplit('/').next().unwrap_or_default()),
        };
        let Some(schema) = schema else { return };
        if !custom.preserve_unknown_fields {
            prune(value, Some(schema));
        }
        structural::default(value, schema);
    }

    fn presented(&self, object: &Object, value: &Value) -> ApiResult<Object> {
        let spec = self.cache.as_ref().ok_or_else(|| ApiError::internal("the resource is not stored"))?;
        let kv = KeyValue {
            key: object.key().clone(),
            value: encode_for_storage(value).into(),
            create_revision: object.revision,
            mod_revision: object.revision,
        };
        Object::parse(&kv, spec.layout(), &spec.selectable_fields).map_err(ApiError::internal)
    }
}

/// Which of the objects of these sizes go into one call each.
fn batches(sizes: impl Iterator<Item = usize>) -> Vec<Range<usize>> {
    let mut batches: Vec<Range<usize>> = Vec::new();
    let mut bytes = 0;
    for (at, size) in sizes.enumerate() {
        bytes += size;
        match batches.last_mut() {
            Some(batch) if batch.len() < CONVERSION_OBJECTS_MAX && bytes <= CONVERSION_BYTES_MAX => batch.end += 1,
            _ => {
                batches.push(at..at + 1);
                bytes = size;
            }
        }
    }
    batches
}

/// Drops what a version does not know.
fn prune(value: &mut Value, schema: Option<&Arc<Schema>>) {
    if let Some(schema) = schema {
        structural::prune(value, schema, READING);
        structural::drop_nulls(value, schema);
    }
}

async fn convert_one(custom: &CustomType, mut object: Value, to: &GroupVersion) -> ApiResult<Value> {
    match &custom.converter {
        None => {
            if let Some(fields) = object.as_object_mut() {
                fields.insert("apiVersion".into(), to.to_string().into());
            }
            Ok(object)
        }
        Some(converter) => {
            let converted = converter.convert(vec![object], to).await?;
            converted.into_iter().next().ok_or_else(|| ApiError::internal("nothing was converted"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_converts_neither_too_many_objects_nor_too_many_bytes() {
        let calls = |sizes: &[usize]| batches(sizes.iter().copied()).iter().map(Range::len).collect::<Vec<_>>();
        assert!(calls(&[]).is_empty());
        assert_eq!(calls(&[1; 3]), [3]);
        assert_eq!(calls(&[1; 2 * CONVERSION_OBJECTS_MAX + 1]), [CONVERSION_OBJECTS_MAX, CONVERSION_OBJECTS_MAX, 1]);
        // An object that is too large by itself still goes, alone.
        let large = CONVERSION_BYTES_MAX;
        assert_eq!(calls(&[1, large, 1, large / 2, large + 1, 1]), [1, 1, 2, 1, 1]);
    }
}
