//! Keeping `metadata.managedFields` right: after every write, each changed field belongs to whoever wrote it.

use std::borrow::Cow;
use std::sync::LazyLock;

use bailiwick_schema::decode::zero;
use bailiwick_schema::time::{Instant, Precision};
use bailiwick_schema::types::FieldType;
use serde_json::{Value, json};

use super::compare::{Comparison, compare};
use super::conflict::{Conflict, Conflicts, ManagerId, Operation};
use super::entries::{self, Entry, Origin};
use super::error::{TypeErrors, UpdateError};
use super::managers;
use super::path::Path;
use super::reconcile::reconcile;
use super::set::FieldSet;
use super::stored_fields;
use super::types::{At, TypeRef};

/// How objects look in other versions than the one of the request.
pub trait VersionConverter {
    /// The types of a version; `None` if there is no such version, whose managers are then forgotten.
    fn types(&self, api_version: &str) -> Option<TypeRef<'_>>;

    /// The object in another version. The text of an error is shown to clients that apply.
    fn convert(&self, object: &Value, api_version: &str) -> Result<Value, String>;
}

/// For kinds with a single version.
pub struct NoOtherVersions;

impl VersionConverter for NoOtherVersions {
    fn types(&self, _api_version: &str) -> Option<TypeRef<'_>> {
        None
    }

    fn convert(&self, _object: &Value, api_version: &str) -> Result<Value, String> {
        Err(format!("request to convert to an invalid group/version: {api_version}"))
    }
}

/// The fields that an endpoint resets, by version: nobody comes to own them there.
#[derive(Clone, Debug, Default)]
pub struct ResetFields(Vec<(String, FieldSet<'static>)>);

impl ResetFields {
    /// An endpoint that takes all fields.
    pub const NONE: Self = Self(Vec::new());

    /// The fields reset in one version, as paths of names: `[&["status"]]`.
    pub fn of(api_version: &str, paths: &[&[&str]]) -> Self {
        Self::NONE.and(api_version, paths)
    }

    /// The same with the fields of another version.
    pub fn and(mut self, api_version: &str, paths: &[&[&str]]) -> Self {
        self.0.push((api_version.to_owned(), FieldSet::of(paths.iter().map(|path| Path::fields(path)))));
        self
    }

    pub(super) fn of_version(&self, api_version: &str) -> Option<&FieldSet<'static>> {
        self.0.iter().find(|(version, _)| version == api_version).map(|(_, fields)| fields)
    }
}

/// What to do about conflicts when applying.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Force {
    No,
    /// Take the fields from whoever owns them.
    Yes,
}

/// Field management of one endpoint: a kind in one version, or a subresource of it.
pub struct FieldManager<'a> {
    pub types: TypeRef<'a>,
    /// `v1` or `group/version`.
    pub api_version: &'a str,
    pub kind: &'a str,
    /// `status` and so on; empty for the object itself.
    pub subresource: &'a str,
    pub reset: &'a ResetFields,
    pub converter: &'a dyn VersionConverter,
}

/// Fields that the server or the name of the object decide; nobody manages them.
pub(super) static UNMANAGED: LazyLock<FieldSet<'static>> = LazyLock::new(|| {
    let metadata = [
        "name",
        "namespace",
        "creationTimestamp",
        "selfLink",
        "uid",
        "clusterName",
        "generation",
        "managedFields",
        "resourceVersion",
    ];
    let paths = [&["apiVersion"][..], &["kind"], &["metadata"]].into_iter().map(Path::fields);
    FieldSet::of(paths.chain(metadata.iter().map(|name| Path::fields(&["metadata", name]))))
});

impl FieldManager<'_> {
    /// Sets the managers of a new object. On error it has none; the write goes on.
    pub fn create(&self, new: &mut Value, manager: &str, now: Instant) -> Result<(), UpdateError> {
        self.update(&self.empty_object(), new, manager, now)
    }

    /// Sets the managers of an object that is about to replace `live`. On error it has none; the write goes on.
    pub fn update(&self, live: &Value, new: &mut Value, manager: &str, now: Instant) -> Result<(), UpdateError> {
        let Some(metadata) = new.get_mut("metadata").and_then(Value::as_object_mut) else { return Ok(()) };
        let given = metadata.remove("managedFields");
        let managed = self.tracked(live, new, given, manager, now)?;
        if let (Some(metadata), Some(managed)) = (new.get_mut("metadata").and_then(Value::as_object_mut), managed) {
            metadata.insert("managedFields".to_owned(), managed);
        }
        Ok(())
    }

    fn tracked(
        &self,
        live: &Value,
        new: &Value,
        given: Option<Value>,
        manager: &str,
        now: Instant,
    ) -> Result<Option<Value>, UpdateError> {
        let stored = managed_fields(live);
        let is_echo = given.as_ref().is_some_and(|given| Some(given) == stored);
        let (echo, given) = if is_echo { (given, None) } else { (None, given) };
        let mut origin = Origin::Store;
        let from_store = || entries::decode(stored, Origin::Store).unwrap_or_default();
        let entries = if !self.subresource.is_empty() || is_echo {
            from_store()
        } else if entries::is_reset(given.as_ref()) {
            Vec::new()
        } else {
            match entries::decode(given.as_ref(), Origin::Client) {
                Ok(entries) if !entries.is_empty() => {
                    origin = Origin::Client;
                    entries
                }
                _ => from_store(),
            }
        };
        // An object whose managers were forgotten has none until it is applied again.
        if entries.is_empty() && has_uid(live) {
            return Ok(None);
        }

        let mut comparison = compare(self.types, live, new)?;
        let is_simple = origin == Origin::Store
            && (1..managers::MAX_UPDATE_MANAGERS).contains(&entries.len())
            && entries.iter().all(|entry| entry.id.api_version == self.api_version && self.is_current(entry));
        if is_simple {
            drop(entries);
            let list = echo.or_else(|| stored.cloned());
            return Ok(self.edited(list, comparison, manager, now));
        }
        let entries = self.after_update(live, new, &mut comparison, entries, manager, now)?;
        Ok(entries::encode(entries))
    }

    /// Whether an entry needs no change to fit the schema.
    fn is_current(&self, entry: &Entry<'_>) -> bool {
        let fields = || entry.stored_fields().and_then(Value::as_object);
        !self.types.may_change() || fields().is_some_and(|fields| stored_fields::fit(fields, self.types))
    }

    /// The stored entries after a write by `manager`, with only the fields touched that it changed.
    fn edited(
        &self,
        list: Option<Value>,
        mut comparison: Comparison<'_>,
        manager: &str,
        now: Instant,
    ) -> Option<Value> {
        let Some(Value::Array(mut list)) = list else { return None };
        if let Some(reset) = self.reset.of_version(self.api_version) {
            comparison.exclude(reset);
        }
        let Comparison { mut removed, modified: mut own, added } = comparison;
        own.add(added);
        own.subtract(&UNMANAGED);
        removed.subtract(&UNMANAGED);
        if own.is_empty() && removed.is_empty() {
            return Some(Value::Array(list));
        }
        let id = self.id(manager, Operation::Update);
        let mut is_known = false;
        for entry in &mut list {
            let is_own = entries::is_of(entry, &id);
            let Some(Value::Object(fields)) = entry.get_mut("fieldsV1") else { continue };
            stored_fields::subtract(fields, &removed);
            if !is_own {
                stored_fields::subtract(fields, &own);
            } else if !own.is_empty() {
                is_known = true;
                stored_fields::add(fields, &own);
                entry["time"] = Value::String(now.format(Precision::Seconds));
            }
        }
        list.retain(|entry| entry["fieldsV1"].as_object().is_none_or(|fields| !fields.is_empty()));
        if !own.is_empty() {
            if !is_known {
                let time = Some(Cow::Owned(now.format(Precision::Seconds)));
                list.push(Entry::new(id, time, own).into_value());
            }
            entries::sort_values(&mut list);
        }
        (!list.is_empty()).then_some(Value::Array(list))
    }

    /// The entries after a write by `manager`.
    pub(super) fn after_update<'a>(
        &self,
        live: &Value,
        new: &Value,
        comparison: &mut Comparison<'a>,
        mut entries: Vec<Entry<'a>>,
        manager: &str,
        now: Instant,
    ) -> Result<Vec<Entry<'a>>, UpdateError> {
        if let Some(reset) = self.reset.of_version(self.api_version) {
            comparison.exclude(reset);
        }
        self.reconcile(&mut entries)?;
        self.supersede(live, new, comparison, &mut entries, None, Force::Yes).map_err(|error| match error {
            Superseding::Conflict(conflicts) => UpdateError::ManagedFields(conflicts.to_string()),
            Superseding::Update(error) => error,
        })?;
        let mut own = std::mem::take(&mut comparison.modified);
        own.add(std::mem::take(&mut comparison.added));
        own.subtract(&UNMANAGED);
        if !own.is_empty() {
            let id = self.id(manager, Operation::Update);
            let time = Cow::Owned(now.format(Precision::Seconds));
            match entries.iter_mut().find(|entry| entry.id == id) {
                Some(entry) => {
                    entry.change(|set| set.add(own)).map_err(UpdateError::ManagedFields)?;
                    entry.set_time(time).map_err(UpdateError::ManagedFields)?;
                }
                None => entries.push(Entry::new(id.into_owned(), Some(time), own)),
            }
        }
        managers::cap(&mut entries).map_err(UpdateError::ManagedFields)?;
        Ok(entries)
    }

    pub(super) fn id<'m>(&'m self, manager: &'m str, operation: Operation) -> ManagerId<'m> {
        ManagerId {
            manager: Cow::Borrowed(if manager.is_empty() { UNKNOWN_MANAGER } else { manager }),
            operation,
            api_version: Cow::Borrowed(self.api_version),
            subresource: Cow::Borrowed(self.subresource),
        }
    }

    /// Fits recorded fields to the schema of today, and forgets those of versions there are no more.
    pub(super) fn reconcile(&self, entries: &mut Vec<Entry<'_>>) -> Result<(), UpdateError> {
        let mut result = Ok(());
        entries.retain_mut(|entry| {
            let Some(types) = self.types_of(&entry.id.api_version) else { return false };
            if let Err(error) = entry.change(|set| reconcile(set, types)) {
                result = Err(UpdateError::ManagedFields(error));
            }
            true
        });
        result
    }

    pub(super) fn types_of(&self, api_version: &str) -> Option<TypeRef<'_>> {
        if api_version == self.api_version { Some(self.types) } else { self.converter.types(api_version) }
    }

    /// Takes the fields that changed from everybody but `applier`, unless that is a conflict.
    pub(super) fn supersede(
        &self,
        live: &Value,
        new: &Value,
        comparison: &Comparison<'_>,
        entries: &mut Vec<Entry<'_>>,
        applier: Option<&ManagerId<'_>>,
        force: Force,
    ) -> Result<(), Superseding> {
        let others = |entry: &Entry<'_>| applier.is_none_or(|applier| entry.id != *applier);
        let mut conflicts = Vec::new();
        let mut versions: Vec<&str> = vec![self.api_version];
        let foreign: Vec<String> = entries
            .iter()
            .filter(|entry| others(entry) && entry.id.api_version != self.api_version)
            .map(|entry| entry.id.api_version.to_string())
            .collect();
        versions.extend(foreign.iter().map(String::as_str));
        versions.dedup();
        for (i, version) in versions.iter().enumerate() {
            if versions.iter().take(i).any(|known| known == version) {
                continue;
            }
            let mut of_version = |comparison: &Comparison<'_>| -> Result<(), UpdateError> {
                for entry in entries.iter_mut().filter(|entry| others(entry) && entry.id.api_version == *version) {
                    let id = &entry.id.clone();
                    entry
                        .change(|set| lose(set, comparison, id, force, &mut conflicts))
                        .map_err(UpdateError::ManagedFields)?;
                }
                Ok(())
            };
            if *version == self.api_version {
                of_version(comparison)?;
                continue;
            }
            let Some(types) = self.converter.types(version) else { continue };
            let convert = |object| self.converter.convert(object, version).map_err(UpdateError::Convert);
            let (live, new) = (convert(live)?, convert(new)?);
            let mut comparison = compare(types, &live, &new).map_err(UpdateError::from)?;
            if let Some(reset) = self.reset.of_version(version) {
                comparison.exclude(reset);
            }
            of_version(&comparison)?;
        }
        if !conflicts.is_empty() {
            conflicts.sort_by_cached_key(|conflict: &Conflict| conflict.manager.sort_text());
            return Err(Superseding::Conflict(Conflicts(conflicts)));
        }
        let mut result = Ok(());
        entries.retain_mut(|entry| match entry.set() {
            Ok(set) => !set.is_empty(),
            Err(error) => {
                result = Err(Superseding::Update(UpdateError::ManagedFields(error)));
                true
            }
        });
        result
    }

    /// The object before it is created.
    pub(super) fn empty_object(&self) -> Value {
        match self.types.0 {
            At::Struct(ty) => {
                let mut object = zero(FieldType::Struct(ty));
                if let Some(fields) = object.as_object_mut() {
                    fields.insert("apiVersion".to_owned(), self.api_version.into());
                    fields.insert("kind".to_owned(), self.kind.into());
                }
                object
            }
            _ => json!({"apiVersion": self.api_version, "kind": self.kind}),
        }
    }
}

/// The name upstream gives to managers without one.
const UNKNOWN_MANAGER: &str = "unknown";

/// Why fields could not be taken over.
pub(super) enum Superseding {
    Conflict(Conflicts),
    Update(UpdateError),
}

impl From<UpdateError> for Superseding {
    fn from(error: UpdateError) -> Self {
        Self::Update(error)
    }
}

impl From<TypeErrors> for Superseding {
    fn from(errors: TypeErrors) -> Self {
        Self::Update(errors.into())
    }
}

/// Takes the changed fields from a manager; without force, changed fields are conflicts and nothing is taken.
fn lose(
    set: &mut FieldSet<'_>,
    comparison: &Comparison<'_>,
    id: &ManagerId<'_>,
    force: Force,
    conflicts: &mut Vec<Conflict>,
) -> bool {
    if force == Force::No && (set.intersects(&comparison.modified) || set.intersects(&comparison.added)) {
        let mut lost = set.intersection(&comparison.modified);
        lost.add(set.intersection(&comparison.added));
        let manager = id.clone().into_owned();
        conflicts.extend(lost.paths().iter().map(|path| Conflict { manager: manager.clone(), path: path.to_string() }));
        return false;
    }
    let mut changed = set.subtract(&comparison.modified);
    changed |= set.subtract(&comparison.added);
    changed |= set.subtract(&comparison.removed);
    changed
}

pub(super) fn managed_fields(object: &Value) -> Option<&Value> {
    object.get("metadata")?.get("managedFields")
}

fn has_uid(object: &Value) -> bool {
    let uid = object.get("metadata").and_then(|metadata| metadata.get("uid"));
    uid.and_then(Value::as_str).is_some_and(|uid| !uid.is_empty())
}
