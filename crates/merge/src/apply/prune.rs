//! Taking out of an object what its applier no longer says.
//!
//! A field goes if the applier set it last time, does not set it this time, and nobody else owns it. Removing an entry of
//! a list takes what lies below it along, so what others own there is put back, and so is what nobody owns.

use std::borrow::Cow;

use serde_json::Value;

use super::entries::Entry;
use super::field_manager::FieldManager;
use super::member::field_set;
use super::removal::remove_items;
use super::set::FieldSet;

impl FieldManager<'_> {
    /// The merged object without what the applier owned last and does not own now.
    pub(super) fn prune(
        &self,
        merged: Value,
        last: Option<&mut Entry<'_>>,
        own: &FieldSet<'_>,
        others: &mut [Entry<'_>],
    ) -> Result<Value, String> {
        let Some(last) = last else { return Ok(merged) };
        let version = last.id.api_version.to_string();
        let last = last.set()?;
        if last.is_empty() || (version == self.api_version && last.is_subset(own)) {
            return Ok(merged);
        }
        let Some(types) = self.types_of(&version) else { return Ok(merged) };
        let in_last_version = self.convert(&merged, self.api_version, &version)?;
        let last = last.with_named_parents(types);
        let pruned = remove_items(types, &in_last_version, &last);
        let (pruned, pruned_version) = self.with_owned(&in_last_version, pruned, &version, own, others)?;

        let pruned = self.convert(&pruned, &pruned_version, &version)?;
        let kept = field_set(types, &pruned).with_named_parents(types);
        let mut gone = field_set(types, &in_last_version).with_named_parents(types);
        gone.subtract(&kept);
        let result = remove_items(types, &in_last_version, &gone.intersection(&last));
        Ok(self.convert(&result, &version, self.api_version)?.into_owned())
    }

    /// Puts back what anybody owns, version by version; beginning with the version the object is in, because conversion
    /// may need what was taken out. The object ends in the version it was looked at last.
    fn with_owned(
        &self,
        merged: &Value,
        pruned: Value,
        version: &str,
        own: &FieldSet<'_>,
        others: &mut [Entry<'_>],
    ) -> Result<(Value, String), String> {
        let mut owned: Vec<(String, FieldSet<'_>)> = vec![(self.api_version.to_owned(), own.clone())];
        for entry in others {
            let set = entry.set()?.clone();
            let api_version = entry.id.api_version.to_string();
            match owned.iter_mut().find(|(known, _)| *known == api_version) {
                Some((_, known)) => {
                    known.add(set);
                }
                None => owned.push((api_version, set)),
            }
        }
        owned.sort_by_key(|(known, _)| known != version);

        let (mut merged, mut pruned, mut at) = (Cow::Borrowed(merged), pruned, version.to_owned());
        for (next, owned) in owned {
            let Some(types) = self.types_of(&next) else { continue };
            merged = Cow::Owned(self.convert(&merged, &at, &next)?.into_owned());
            let before = self.convert(&pruned, &at, &next)?;
            let mut gone = field_set(types, &merged).with_named_parents(types);
            gone.subtract(&field_set(types, &before).with_named_parents(types));
            gone.subtract(&owned.with_named_parents(types));
            pruned = remove_items(types, &merged, &gone);
            at = next;
        }
        Ok((pruned, at))
    }

    fn convert<'v>(&self, object: &'v Value, from: &str, to: &str) -> Result<Cow<'v, Value>, String> {
        if from == to { Ok(Cow::Borrowed(object)) } else { self.converter.convert(object, to).map(Cow::Owned) }
    }
}
