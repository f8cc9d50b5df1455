//! Applying a configuration: merge it in, take out what it no longer says, and find conflicts.

use std::borrow::Cow;

use bailiwick_schema::time::{Instant, Precision};
use serde_json::Value;

use super::compare::compare;
use super::conflict::Operation;
use super::entries::{self, Entry, Origin};
use super::error::ApplyError;
use super::field_manager::{FieldManager, Force, Superseding, UNMANAGED, managed_fields};
use super::last_applied;
use super::member::field_set;
use super::merging::merge_configuration;
use super::set::FieldSet;
use super::validation::{Duplicates, validate};
use super::value::same;

/// The outcome of applying a configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Applied {
    /// The object to write, with its `managedFields`; still to be decoded, defaulted and validated like any other.
    pub object: Value,
    /// Whether the object already was what the configuration says. Its managers may still have changed.
    pub is_unchanged: bool,
}

/// The manager of the fields an object had before it was first applied.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

impl FieldManager<'_> {
    /// Applies a configuration to the live object, or creates one.
    pub fn apply(
        &self,
        live: Option<&Value>,
        config: &Value,
        manager: &str,
        force: Force,
        now: Instant,
    ) -> Result<Applied, ApplyError> {
        self.check_kind(config)?;
        let empty;
        let live = match live {
            Some(live) => live,
            None => {
                empty = self.empty_object();
                &empty
            }
        };
        let applied = match self.apply_once(live, config, manager, force, now) {
            // kubectl took over from its client-side apply: what that applied last is its own to change.
            Err(ApplyError::Conflict(conflicts)) if manager == last_applied::MANAGER => {
                match last_applied::without_own_fields(self, live, conflicts) {
                    Some(conflicts) => Err(ApplyError::Conflict(conflicts)),
                    None => self.apply_once(live, config, manager, Force::Yes, now),
                }
            }
            result => result,
        };
        let mut applied = applied?;
        if manager == last_applied::MANAGER {
            last_applied::refresh(&mut applied.object, config);
        }
        Ok(applied)
    }

    fn check_kind(&self, config: &Value) -> Result<(), ApplyError> {
        let text = |name: &str| config.get(name).and_then(Value::as_str).unwrap_or_default();
        let (api_version, kind) = (text("apiVersion"), text("kind"));
        if api_version == self.api_version && kind == self.kind {
            return Ok(());
        }
        Err(ApplyError::BadRequest(format!("invalid object type: {}", gvk(api_version, kind))))
    }

    fn apply_once(
        &self,
        live: &Value,
        config: &Value,
        manager: &str,
        force: Force,
        now: Instant,
    ) -> Result<Applied, ApplyError> {
        let mut entries = entries::decode(managed_fields(live), Origin::Store)
            .map_err(|error| ApplyError::Unforeseen(format!("failed to decode managed fields: {error}")))?;
        let before;
        if entries.is_empty() {
            before = self.empty_object();
            let fail = |error: String| {
                ApplyError::Unforeseen(format!("failed to create manager for existing fields: {error}"))
            };
            let mut comparison = compare(self.types, &before, live).map_err(|errors| fail(errors.to_string()))?;
            entries = self
                .after_update(&before, live, &mut comparison, entries, BEFORE_FIRST_APPLY, now)
                .map_err(|error| fail(error.to_string()))?;
        }
        if managed_fields(config).is_some_and(Value::is_array) {
            return Err(ApplyError::BadRequest("metadata.managedFields must be nil".to_owned()));
        }
        self.validate(config, Duplicates::Refused, "patch")?;
        self.validate(live, Duplicates::Allowed, "live")?;

        self.reconcile(&mut entries).map_err(|error| ApplyError::Unforeseen(error.to_string()))?;
        let merged = merge_configuration(self.types, live, config)
            .map_err(|errors| ApplyError::Unforeseen(format!("failed to merge config: {errors}")))?;
        let mut own = field_set(self.types, config);
        let reset = self.reset.of_version(self.api_version);
        if let Some(reset) = reset {
            own.subtract_with_children(reset);
        }
        let id = self.id(manager, Operation::Apply);
        let at = entries.iter().position(|entry| entry.id == id);
        let mut last = at.map(|at| entries.remove(at));
        if same(live, &merged) && self.is_settled(last.as_mut(), &own, &entries) {
            return Ok(Applied { object: live.clone(), is_unchanged: true });
        }
        let object = self
            .prune(merged, last.as_mut(), &own, &mut entries)
            .map_err(|error| ApplyError::Unforeseen(format!("failed to prune fields: {error}")))?;

        let mut comparison = compare(self.types, live, &object)
            .map_err(|errors| ApplyError::Unforeseen(format!("failed to compare objects: {errors}")))?;
        if let Some(reset) = reset {
            comparison.exclude(reset);
        }
        self.supersede(live, &object, &comparison, &mut entries, Some(&id), force).map_err(|error| match error {
            Superseding::Conflict(conflicts) => ApplyError::Conflict(conflicts),
            Superseding::Update(error) => ApplyError::Unforeseen(error.to_string()),
        })?;

        let is_unchanged = same(live, &object);
        own.subtract(&UNMANAGED);
        if !own.is_empty() {
            // Nothing changed means that nothing happened now.
            let time = if is_unchanged {
                last.as_ref().and_then(|entry| entry.time.clone())
            } else {
                Some(Cow::Owned(now.format(Precision::Seconds)))
            };
            entries.push(Entry::new(id.into_owned(), time, own));
        }
        let managed = entries::encode(entries);
        let mut object = if is_unchanged { live.clone() } else { object };
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            match managed {
                Some(managed) => metadata.insert("managedFields".to_owned(), managed),
                None => metadata.remove("managedFields"),
            };
        }
        Ok(Applied { object, is_unchanged })
    }

    /// Whether the managers of an object that already is as configured are too: what most applies of a controller find.
    fn is_settled(&self, last: Option<&mut Entry<'_>>, own: &FieldSet<'_>, others: &[Entry<'_>]) -> bool {
        let Some(last) = last else { return false };
        let is_stored = |entry: &Entry<'_>| entry.is_as_stored() && entry.id.api_version == self.api_version;
        is_stored(last)
            && others.iter().all(is_stored)
            && last.set().is_ok_and(|last| *last == own.difference(&UNMANAGED))
    }

    fn validate(&self, object: &Value, duplicates: Duplicates, which: &str) -> Result<(), ApplyError> {
        validate(self.types, object, duplicates).map_err(|errors| {
            let text = |name: &str| {
                let value = object.get("metadata").and_then(|metadata| metadata.get(name));
                value.and_then(Value::as_str).unwrap_or_default()
            };
            let (namespace, name, gvk) = (text("namespace"), text("name"), gvk(self.api_version, self.kind));
            ApplyError::Unforeseen(format!(
                "failed to create typed {which} object ({namespace}/{name}; {gvk}): {errors}"
            ))
        })
    }
}

/// As Go prints group, version and kind: `apps/v1, Kind=Deployment`, `/v1, Kind=ConfigMap`.
fn gvk(api_version: &str, kind: &str) -> String {
    match api_version.matches('/').count() {
        0 => format!("/{api_version}, Kind={kind}"),
        1 => format!("{api_version}, Kind={kind}"),
        // No group and version at all.
        _ => "/, Kind=".to_owned(),
    }
}
