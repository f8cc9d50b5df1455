//! The per-type rules the generic handler calls while it creates and updates: defaulting, preparation, validation.
//!
//! Hooks see whole objects as JSON values already decoded and normalised by type. They are synchronous and pure but for
//! what [`Context`] carries. The handler itself does everything that is the same for all types: metadata validation and
//! immutability, generation when spec changes, uid, timestamps, finalizers.

use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;
use serde_json::Value;

use crate::field::ErrorList;
use crate::user::UserInfo;

/// What a hook may know about the request.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    pub now: Timestamp,
    pub user: &'a UserInfo,
    /// Where advice to the client goes that is found while validating; nowhere if `None`.
    pub warnings: Option<&'a Mutex<Vec<String>>>,
}

impl Context<'_> {
    /// Sends advice to the client along with the answer.
    pub fn warn(&self, warning: String) {
        if let Some(warnings) = self.warnings {
            warnings.lock().unwrap_or_else(PoisonError::into_inner).push(warning);
        }
    }
}

/// Checks an object's name and returns what is wrong with it, as upstream words it. With [`NameKind::Prefix`] the
/// string is a `generateName`, whose end need not be valid.
pub type NameValidator = fn(name: &str, kind: NameKind) -> Vec<String>;

/// Whether a name validator looks at a whole name or at the prefix of one to be generated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameKind {
    Full,
    Prefix,
}

/// What an update changed, as `metadata.generation` sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generation {
    /// The type does not count generations.
    None,
    /// 1 on create, one more whenever `spec` changes.
    Spec,
    /// 1 on create, one more whenever anything but `metadata` and `status` changes (webhook configurations).
    AllButMetadataAndStatus,
    /// 1 on create, one more whenever anything but `metadata` changes (custom resources).
    AllButMetadata,
}

/// The rules of one type, or of one of its subresources. Every method has the default of a type without special rules.
pub trait Strategy: Send + Sync {
    /// Fills in what the client left out. Runs after decoding on create, update and patch, and must be idempotent.
    fn default(&self, _object: &mut Value) {}

    /// Clears or sets what a client may not decide on creation (typically drops `status`).
    fn prepare_for_create(&self, _cx: &Context<'_>, _object: &mut Value) {}

    /// What is wrong with a new object, besides its metadata.
    fn validate(&self, _cx: &Context<'_>, _object: &Value) -> ErrorList {
        ErrorList::new()
    }

    /// Advice to the client that creates this object, sent as Warning headers.
    fn warnings_on_create(&self, _object: &Value) -> Vec<String> {
        Vec::new()
    }

    /// Carries over from `old` what an update may not change (typically `status`; for a status strategy everything else).
    fn prepare_for_update(&self, _cx: &Context<'_>, _object: &mut Value, _old: &Value) {}

    /// What is wrong with an updated object, besides its metadata.
    fn validate_update(&self, cx: &Context<'_>, object: &Value, _old: &Value) -> ErrorList {
        self.validate(cx, object)
    }

    fn warnings_on_update(&self, _object: &Value, _old: &Value) -> Vec<String> {
        Vec::new()
    }

    /// The rule for `metadata.name`.
    fn name_validator(&self) -> NameValidator {
        crate::strategy::any_path_segment_name
    }

    /// The fields that writes through here leave as they are, whatever the client sends: nobody comes to own them.
    fn reset_fields(&self) -> &'static [&'static [&'static str]] {
        &[]
    }

    /// How `metadata.generation` moves.
    fn generation(&self) -> Generation {
        Generation::None
    }

    /// Whether PUT to a name that does not exist creates it (leases, events, RBAC).
    fn allow_create_on_update(&self) -> bool {
        false
    }

    /// Whether PUT without a resourceVersion overwrites whatever is there.
    fn allow_unconditional_update(&self) -> bool {
        true
    }

    /// Last touches after validation, when a generated name is known (namespaces label themselves with theirs). Runs on
    /// create and update.
    fn canonicalize(&self, _object: &mut Value) {}

    /// Whether deleting this object adds and drops the garbage collector's finalizers as the propagation policy says.
    fn follows_propagation_policy(&self, _object: &Value) -> bool {
        true
    }

    /// Changes an object that has just been marked as being deleted (namespaces turn `Terminating`).
    fn mark_deleting(&self, _cx: &Context<'_>, _object: &mut Value) {}

    /// Whether an object marked as being deleted, with no finalizers left in its metadata, may be removed now.
    fn removable(&self, _object: &Value) -> bool {
        true
    }

    /// Whether stored bytes can be served as they are; `false` makes the handler call the two conversions below.
    fn stored_as_served(&self) -> bool {
        true
    }

    /// From the served version to the stored form.
    fn to_storage(&self, _object: &mut Value) {}

    /// From the stored form to the served version.
    #[expect(clippy::wrong_self_convention, reason = "converts its argument, by the rules of self")]
    fn from_storage(&self, _object: &mut Value) {}

    /// Whether DELETE answers with the object that is gone instead of a Status (service accounts, quotas).
    fn returns_deleted_object(&self) -> bool {
        false
    }

    /// Seconds after which objects of this type delete themselves (events).
    fn ttl_seconds(&self, _object: &Value) -> Option<u64> {
        None
    }
}

/// A type without rules of its own.
pub struct NoRules;

impl Strategy for NoRules {}

/// The weakest rule for names: anything that can stand as one segment of a URL path.
pub fn any_path_segment_name(name: &str, kind: NameKind) -> Vec<String> {
    if kind == NameKind::Full && (name == "." || name == "..") {
        return vec![format!("may not be '{name}'")];
    }
    ["/", "%"].iter().filter(|illegal| name.contains(**illegal)).map(|c| format!("may not contain '{c}'")).collect()
}
