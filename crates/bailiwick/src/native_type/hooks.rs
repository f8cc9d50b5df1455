//! The caller's functions as rules of the generic handler: they run after those of the schema, on objects read as the
//! caller's type.

use std::sync::Arc;

use bailiwick_machinery::field::{self, Error, ErrorList};
use bailiwick_machinery::strategy::{Context, Generation, NameValidator, Strategy};
use serde_json::{Map, Value};

use super::Hookable;

type Change<T> = Box<dyn Fn(&mut T) + Send + Sync>;
type Prepare<T> = Box<dyn Fn(&Context<'_>, &mut T) + Send + Sync>;
type PrepareUpdate<T> = Box<dyn Fn(&Context<'_>, &mut T, &T) + Send + Sync>;
type Validate<T> = Box<dyn Fn(&Context<'_>, &T) -> ErrorList + Send + Sync>;
type ValidateUpdate<T> = Box<dyn Fn(&Context<'_>, &T, &T) -> ErrorList + Send + Sync>;
type Warnings<T> = Box<dyn Fn(&T) -> Vec<String> + Send + Sync>;
type Ttl<T> = Box<dyn Fn(&T) -> Option<u64> + Send + Sync>;

/// The caller's functions, as far as there are any.
pub struct Hooks<T> {
    pub default: Option<Change<T>>,
    pub prepare_for_create: Option<Prepare<T>>,
    pub prepare_for_update: Option<PrepareUpdate<T>>,
    pub validate: Option<Validate<T>>,
    pub validate_update: Option<ValidateUpdate<T>>,
    pub validate_status: Option<ValidateUpdate<T>>,
    pub warnings: Option<Warnings<T>>,
    pub name_validator: Option<NameValidator>,
    pub ttl_seconds: Option<Ttl<T>>,
}

impl<T> Default for Hooks<T> {
    fn default() -> Self {
        Self {
            default: None,
            prepare_for_create: None,
            prepare_for_update: None,
            validate: None,
            validate_update: None,
            validate_status: None,
            warnings: None,
            name_validator: None,
            ttl_seconds: None,
        }
    }
}

/// Which path rules are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    Object,
    Status,
}

/// The rules of the schema, then the caller's.
pub struct Hooked<T> {
    rules: Arc<dyn Strategy>,
    hooks: Arc<Hooks<T>>,
    path: Path,
}

impl<T: Hookable> Hooked<T> {
    pub fn new(rules: Arc<dyn Strategy>, hooks: Arc<Hooks<T>>, path: Path) -> Self {
        Self { rules, hooks, path }
    }

    /// What the caller's rules find in objects that the schema's found nothing in.
    fn check(&self, cx: &Context<'_>, object: &Value, old: Option<&Value>) -> ErrorList {
        let hooks = &self.hooks;
        let on_update = match self.path {
            Path::Object => hooks.validate_update.as_ref(),
            Path::Status => hooks.validate_status.as_ref(),
        };
        let on_object = hooks.validate.as_ref().filter(|_| self.path == Path::Object);
        if on_object.is_none() && (on_update.is_none() || old.is_none()) {
            return ErrorList::new();
        }
        let typed = match T::deserialize(object) {
            Ok(typed) => typed,
            Err(error) => return vec![Error::invalid(&field::Path::root(), Value::Null, error.to_string())],
        };
        let mut errors = on_object.map(|check| check(cx, &typed)).unwrap_or_default();
        if let (Some(check), Some(old)) = (on_update, old) {
            match T::deserialize(old) {
                Ok(old) => errors.extend(check(cx, &typed, &old)),
                // Stored by an older program. Holding that against the change would make it impossible to repair.
                Err(error) => tracing::debug!(%error, "the stored object cannot be read; the change is not compared"),
            }
        }
        errors
    }

    fn warn(&self, object: &Value) -> Vec<String> {
        match (&self.hooks.warnings, T::deserialize(object)) {
            (Some(warnings), Ok(typed)) => warnings(&typed),
            _ => Vec::new(),
        }
    }
}

impl<T: Hookable> Strategy for Hooked<T> {
    fn default(&self, object: &mut Value) {
        self.rules.default(object);
        if let Some(hook) = &self.hooks.default {
            change(object, hook);
        }
    }

    fn prepare_for_create(&self, cx: &Context<'_>, object: &mut Value) {
        self.rules.prepare_for_create(cx, object);
        if let (Some(hook), Path::Object) = (&self.hooks.prepare_for_create, self.path) {
            change(object, |typed: &mut T| hook(cx, typed));
        }
    }

    fn validate(&self, cx: &Context<'_>, object: &Value) -> ErrorList {
        let mut errors = self.rules.validate(cx, object);
        if errors.is_empty() {
            errors.extend(self.check(cx, object, None));
        }
        errors
    }

    fn warnings_on_create(&self, object: &Value) -> Vec<String> {
        let mut warnings = self.rules.warnings_on_create(object);
        warnings.extend(self.warn(object));
        warnings
    }

    fn prepare_for_update(&self, cx: &Context<'_>, object: &mut Value, old: &Value) {
        self.rules.prepare_for_update(cx, object, old);
        let (Some(hook), Path::Object) = (&self.hooks.prepare_for_update, self.path) else { return };
        if let Ok(old) = T::deserialize(old) {
            change(object, |typed: &mut T| hook(cx, typed, &old));
        }
    }

    fn validate_update(&self, cx: &Context<'_>, object: &Value, old: &Value) -> ErrorList {
        let mut errors = self.rules.validate_update(cx, object, old);
        if errors.is_empty() {
            errors.extend(self.check(cx, object, Some(old)));
        }
        errors
    }

    fn warnings_on_update(&self, object: &Value, old: &Value) -> Vec<String> {
        let mut warnings = self.rules.warnings_on_update(object, old);
        warnings.extend(self.warn(object));
        warnings
    }

    fn name_validator(&self) -> NameValidator {
        self.hooks.name_validator.unwrap_or_else(|| self.rules.name_validator())
    }

    fn reset_fields(&self) -> &'static [&'static [&'static str]] {
        self.rules.reset_fields()
    }

    fn generation(&self) -> Generation {
        self.rules.generation()
    }

    fn allow_create_on_update(&self) -> bool {
        self.rules.allow_create_on_update()
    }

    fn allow_unconditional_update(&self) -> bool {
        self.rules.allow_unconditional_update()
    }

    fn canonicalize(&self, object: &mut Value) {
        self.rules.canonicalize(object);
    }

    fn follows_propagation_policy(&self, object: &Value) -> bool {
        self.rules.follows_propagation_policy(object)
    }

    fn mark_deleting(&self, cx: &Context<'_>, object: &mut Value) {
        self.rules.mark_deleting(cx, object);
    }

    fn removable(&self, object: &Value) -> bool {
        self.rules.removable(object)
    }

    fn stored_as_served(&self) -> bool {
        self.rules.stored_as_served()
    }

    fn to_storage(&self, object: &mut Value) {
        self.rules.to_storage(object);
    }

    fn from_storage(&self, object: &mut Value) {
        self.rules.from_storage(object);
    }

    fn returns_deleted_object(&self) -> bool {
        self.rules.returns_deleted_object()
    }

    fn ttl_seconds(&self, object: &Value) -> Option<u64> {
        match (&self.hooks.ttl_seconds, T::deserialize(object)) {
            (Some(ttl), Ok(typed)) => ttl(&typed),
            _ => self.rules.ttl_seconds(object),
        }
    }
}

/// Metadata that a hook may change.
const HOOKS_METADATA: [&str; 4] = ["annotations", "finalizers", "labels", "ownerReferences"];

/// Lets a hook change the object. An object that `T` cannot read stays as it is: validation refuses it.
fn change<T: Hookable>(object: &mut Value, hook: impl FnOnce(&mut T)) {
    let Ok(mut typed) = T::deserialize(&*object) else { return };
    let Ok(Value::Object(before)) = serde_json::to_value(&typed) else { return };
    hook(&mut typed);
    let Ok(Value::Object(after)) = serde_json::to_value(&typed) else { return };
    let Value::Object(fields) = object else { return };
    for (name, value) in changed(&before, &after) {
        match (name, value, before.get(name)) {
            ("apiVersion" | "kind", ..) => {}
            ("metadata", Some(Value::Object(new)), Some(Value::Object(old))) => {
                let Some(Value::Object(metadata)) = fields.get_mut("metadata") else { continue };
                for (name, value) in changed(old, new).filter(|(name, _)| HOOKS_METADATA.contains(name)) {
                    put(metadata, name, old.get(name), value);
                }
            }
            ("metadata", ..) => {}
            (_, value, old) => put(fields, name, old, value),
        }
    }
}

/// The members that differ, each with its new value; `None` for those that are gone or null.
fn changed<'a>(
    before: &'a Map<String, Value>,
    after: &'a Map<String, Value>,
) -> impl Iterator<Item = (&'a str, Option<&'a Value>)> {
    let gone = before.keys().filter(|name| !after.contains_key(*name)).map(|name| (name.as_str(), None));
    let new = after.iter().filter(|(name, value)| before.get(*name).unwrap_or(&Value::Null) != *value);
    new.map(|(name, value)| (name.as_str(), Some(value).filter(|value| !value.is_null()))).chain(gone)
}

/// Puts a changed value in its place. Members that `T` does not know stay.
fn put(fields: &mut Map<String, Value>, name: &str, before: Option<&Value>, after: Option<&Value>) {
    match (before, after, fields.get_mut(name)) {
        (_, None, _) => drop(fields.remove(name)),
        (Some(Value::Object(before)), Some(Value::Object(after)), Some(Value::Object(stored))) => {
            for (name, value) in changed(before, after) {
                put(stored, name, before.get(name), value);
            }
        }
        (_, Some(after), _) => drop(fields.insert(name.to_owned(), after.clone())),
    }
}
