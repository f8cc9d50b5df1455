//! The options of create, update, patch and delete: parsed and checked, with upstream's errors.

use bailiwick_merge::apply::manager_of_user_agent;
use serde_json::Value;

use crate::field::{Error, ErrorList, Path};
use crate::query::Query;
use crate::resource::GroupKind;
use crate::status::{ApiError, ApiResult};
use crate::validation::metadata::validate_field_manager;

/// What happens to unknown and duplicate fields in a body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FieldValidation {
    Ignore,
    #[default]
    Warn,
    Strict,
}

/// Whether a write is carried out or only tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DryRun {
    #[default]
    No,
    All,
}

/// What a patch body is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchKind {
    JsonPatch,
    MergePatch,
    StrategicMergePatch,
    Apply,
}

/// Options that creates and updates share.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteOptions {
    pub dry_run: DryRun,
    pub field_manager: String,
    pub field_validation: FieldValidation,
}

/// Options of a patch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PatchOptions {
    pub write: WriteOptions,
    /// Whether an apply takes over fields of others.
    pub force: bool,
}

/// What must still be true of an object for it to be deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Preconditions {
    pub uid: Option<String>,
    pub resource_version: Option<String>,
}

/// What happens to dependents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PropagationPolicy {
    Orphan,
    Background,
    Foreground,
}

/// Options of a delete.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeleteOptions {
    pub dry_run: DryRun,
    pub grace_period_seconds: Option<i64>,
    pub preconditions: Option<Preconditions>,
    pub propagation_policy: Option<PropagationPolicy>,
    /// The old way to say `Orphan` (true) or `Background` (false).
    pub orphan_dependents: Option<bool>,
}

impl WriteOptions {
    pub fn parse_create(query: &Query) -> ApiResult<Self> {
        let mut errors = ErrorList::new();
        let options = Self::read(query, &mut errors);
        checked("CreateOptions", &errors, options)
    }

    pub fn parse_update(query: &Query) -> ApiResult<Self> {
        let mut errors = ErrorList::new();
        let options = Self::read(query, &mut errors);
        checked("UpdateOptions", &errors, options)
    }

    /// The manager that owns what this write changes: the one named, else the program that sent it.
    pub fn manager(&self, user_agent: &str) -> String {
        if !self.field_manager.is_empty() {
            return self.field_manager.clone();
        }
        manager_of_user_agent(user_agent)
    }

    fn read(query: &Query, errors: &mut ErrorList) -> Self {
        let field_manager = query.text("fieldManager");
        errors.extend(validate_field_manager(&field_manager, &Path::new("fieldManager")));
        let values: Vec<&str> = query.all("dryRun").collect();
        let dry_run = read_dry_run(&values, errors);
        let field_validation = match query.get("fieldValidation").unwrap_or_default() {
            "" => FieldValidation::default(),
            "Ignore" => FieldValidation::Ignore,
            "Warn" => FieldValidation::Warn,
            "Strict" => FieldValidation::Strict,
            other => {
                let path = Path::new("fieldValidation");
                errors.push(Error::not_supported(&path, other, &["", "Ignore", "Strict", "Warn"]));
                FieldValidation::default()
            }
        };
        Self { dry_run, field_manager, field_validation }
    }
}

impl PatchOptions {
    pub fn parse(query: &Query, kind: PatchKind) -> ApiResult<Self> {
        let force = query.flag("force");
        let mut errors = ErrorList::new();
        if kind == PatchKind::Apply {
            if query.get("fieldManager").unwrap_or_default().is_empty() {
                errors.push(Error::required(&Path::new("fieldManager"), "is required for apply patch"));
            }
        } else if force.is_some() {
            errors.push(Error::forbidden(&Path::new("force"), "may not be specified for non-apply patch"));
        }
        let write = WriteOptions::read(query, &mut errors);
        checked("PatchOptions", &errors, Self { write, force: force.unwrap_or(false) })
    }
}

impl DeleteOptions {
    /// From the query, which counts only when the request has no body.
    pub fn from_query(query: &Query) -> ApiResult<Self> {
        let grace_period_seconds = query.integer("gracePeriodSeconds")?;
        let text = |key: &str| query.get(key).filter(|value| !value.is_empty()).map(str::to_owned);
        let preconditions = Preconditions { uid: text("uid"), resource_version: text("resourceVersion") };
        let dry_run: Vec<&str> = query.all("dryRun").collect();
        Self::check(
            grace_period_seconds,
            (preconditions != Preconditions::default()).then_some(preconditions),
            query.get("propagationPolicy"),
            query.flag("orphanDependents"),
            &dry_run,
        )
    }

    /// From a decoded body: a `DeleteOptions` of any group version.
    pub fn from_body(body: &Value) -> ApiResult<Self> {
        let Value::Object(fields) = body else {
            return Err(cannot_unmarshal(body, "value of type v1.DeleteOptions"));
        };
        let kind = typed(body, "kind", "string", Value::as_str)?.unwrap_or_default();
        let version = typed(body, "apiVersion", "string", Value::as_str)?.unwrap_or_default();
        if !matches!(kind, "" | "DeleteOptions") {
            return Err(ApiError::bad_request(format!(
                "no kind {kind:?} is registered for version {version:?} in scheme \"pkg/runtime/scheme.go:111\""
            )));
        }
        let grace_period_seconds = typed(body, "gracePeriodSeconds", "int64", Value::as_i64)?;
        let policy = typed(body, "propagationPolicy", "v1.DeletionPropagation", Value::as_str)?;
        let orphan = typed(body, "orphanDependents", "bool", Value::as_bool)?;
        let dry_run = match typed(body, "dryRun", "[]string", Value::as_array)? {
            None => Vec::new(),
            Some(list) => list
                .iter()
                .map(|v| {
                    v.as_str().ok_or_else(|| cannot_unmarshal(v, "Go struct field DeleteOptions.dryRun of type string"))
                })
                .collect::<ApiResult<Vec<&str>>>()?,
        };
        let preconditions = match fields.get("preconditions").filter(|v| !v.is_null()) {
            None => None,
            Some(conditions @ Value::Object(_)) => Some(Preconditions {
                uid: nested(conditions, "uid", "types.UID")?,
                resource_version: nested(conditions, "resourceVersion", "string")?,
            }),
            Some(other) => {
                let what = "Go struct field DeleteOptions.preconditions of type v1.Preconditions";
                return Err(cannot_unmarshal(other, what));
            }
        };
        Self::check(grace_period_seconds, preconditions, policy, orphan, &dry_run)
    }

    /// Fails unless the preconditions hold for an object about to be deleted; the text is the detail of a conflict about
    /// the object's kind.
    pub fn check_preconditions(&self, uid: &str, resource_version: &str) -> Result<(), String> {
        let Some(conditions) = &self.preconditions else { return Ok(()) };
        if let Some(wanted) = conditions.uid.as_deref().filter(|wanted| *wanted != uid) {
            return Err(format!(
                "the UID in the precondition ({wanted}) does not match the UID in record ({uid}). The object might have been deleted and then recreated"
            ));
        }
        if let Some(wanted) = conditions.resource_version.as_deref().filter(|wanted| *wanted != resource_version) {
            return Err(format!(
                "the ResourceVersion in the precondition ({wanted}) does not match the ResourceVersion in record ({resource_version}). The object might have been modified"
            ));
        }
        Ok(())
    }

    fn check(
        grace_period_seconds: Option<i64>,
        preconditions: Option<Preconditions>,
        policy: Option<&str>,
        orphan_dependents: Option<bool>,
        dry_run: &[&str],
    ) -> ApiResult<Self> {
        let path = Path::new("propagationPolicy");
        let mut errors = ErrorList::new();
        if let (Some(policy), Some(_)) = (policy, orphan_dependents) {
            let text = "orphanDependents and deletionPropagation cannot be both set";
            errors.push(Error::invalid(&path, policy, text));
        }
        let propagation_policy = match policy {
            None => None,
            Some("Orphan") => Some(PropagationPolicy::Orphan),
            Some("Background") => Some(PropagationPolicy::Background),
            Some("Foreground") => Some(PropagationPolicy::Foreground),
            Some(other) => {
                errors.push(Error::not_supported(&path, other, &["Foreground", "Background", "Orphan", "nil"]));
                None
            }
        };
        let dry_run = read_dry_run(dry_run, &mut errors);
        let options = Self { dry_run, grace_period_seconds, preconditions, propagation_policy, orphan_dependents };
        checked("DeleteOptions", &errors, options)
    }
}

fn checked<T>(kind: &str, errors: &ErrorList, options: T) -> ApiResult<T> {
    if errors.is_empty() {
        return Ok(options);
    }
    let kind = GroupKind { group: "meta.k8s.io".into(), kind: kind.into() };
    Err(ApiError::invalid(&kind, "", errors))
}

fn read_dry_run(values: &[&str], errors: &mut ErrorList) -> DryRun {
    if values.iter().any(|value| *value != "All") {
        let shown: Value = values.iter().copied().collect();
        errors.push(Error::not_supported(&Path::new("dryRun"), shown, &["All"]));
    }
    if values.is_empty() { DryRun::No } else { DryRun::All }
}

/// A field of the body; a value of another type fails as Go's decoder does.
fn typed<'a, T>(
    body: &'a Value,
    field: &str,
    go_type: &str,
    read: impl Fn(&'a Value) -> Option<T>,
) -> ApiResult<Option<T>> {
    match body.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => read(value).map(Some).ok_or_else(|| {
            cannot_unmarshal(value, &format!("Go struct field DeleteOptions.{field} of type {go_type}"))
        }),
    }
}

fn nested(conditions: &Value, field: &str, go_type: &str) -> ApiResult<Option<String>> {
    match conditions.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(other) => {
            let what = format!("Go struct field Preconditions.preconditions.{field} of type {go_type}");
            Err(cannot_unmarshal(other, &what))
        }
    }
}

fn cannot_unmarshal(value: &Value, what: &str) -> ApiError {
    let found = match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    ApiError::bad_request(format!("json: cannot unmarshal {found} into {what}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn creates_read_their_options() {
        let options = WriteOptions::parse_create(&Query::parse("dryRun=All&fieldManager=me&fieldValidation=Strict"));
        let expected = WriteOptions {
            dry_run: DryRun::All,
            field_manager: "me".into(),
            field_validation: FieldValidation::Strict,
        };
        assert_eq!(options, Ok(expected));
        assert_eq!(WriteOptions::parse_update(&Query::default()), Ok(WriteOptions::default()));
    }

    /// As kube-apiserver 1.36.4 answers.
    #[test]
    fn bad_write_options_are_all_named() {
        let query = format!("dryRun=x&fieldManager={}&fieldValidation=Foo", "a".repeat(130));
        assert_eq!(
            WriteOptions::parse_create(&Query::parse(&query)).unwrap_err().message,
            "CreateOptions.meta.k8s.io \"\" is invalid: [fieldManager: Too long: may not be more than 128 bytes, dryRun: \
             Unsupported value: [\"x\"]: supported values: \"All\", fieldValidation: Unsupported value: \"Foo\": supported \
             values: \"\", \"Ignore\", \"Strict\", \"Warn\"]"
        );
    }

    #[test]
    fn apply_needs_a_manager_and_only_apply_has_force() {
        let parse = |query: &str, kind| PatchOptions::parse(&Query::parse(query), kind);
        assert_eq!(
            parse("", PatchKind::Apply).unwrap_err().message,
            "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is required for apply patch"
        );
        assert_eq!(
            parse("force=false", PatchKind::MergePatch).unwrap_err().message,
            "PatchOptions.meta.k8s.io \"\" is invalid: force: Forbidden: may not be specified for non-apply patch"
        );
        assert!(parse("fieldManager=me&force=true", PatchKind::Apply).unwrap().force);
    }

    #[test]
    fn managers_default_to_the_program() {
        let options = WriteOptions::default();
        assert_eq!(options.manager("kubectl/v1.36 (linux)"), "kubectl");
        assert_eq!(options.manager("a\u{7}b"), "ab");
        assert_eq!(options.manager(&"x".repeat(200)).len(), 128);
        assert_eq!(WriteOptions { field_manager: "me".into(), ..options }.manager("kubectl"), "me");
    }

    #[test]
    fn deletes_read_query_or_body() {
        let from_query = DeleteOptions::from_query(&Query::parse(
            "gracePeriodSeconds=3&propagationPolicy=Orphan&dryRun=All&uid=u&resourceVersion=5",
        ));
        let from_body = DeleteOptions::from_body(&json!({
            "kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 3, "propagationPolicy": "Orphan",
            "dryRun": ["All"], "preconditions": {"uid": "u", "resourceVersion": "5"},
        }));
        assert_eq!(from_query, from_body);
        let options = from_body.unwrap();
        assert_eq!(options.propagation_policy, Some(PropagationPolicy::Orphan));
        assert_eq!(options.check_preconditions("u", "5"), Ok(()));
        assert_eq!(
            options.check_preconditions("u", "6").unwrap_err(),
            "the ResourceVersion in the precondition (5) does not match the ResourceVersion in record (6). The object might have been modified"
        );
        assert_eq!(DeleteOptions::from_body(&json!({})), Ok(DeleteOptions::default()));
    }

    #[test]
    fn bad_deletes_are_refused() {
        let message = |query: &str| DeleteOptions::from_query(&Query::parse(query)).unwrap_err().message;
        assert_eq!(
            message("propagationPolicy=Foo"),
            "DeleteOptions.meta.k8s.io \"\" is invalid: propagationPolicy: Unsupported value: \"Foo\": supported values: \
             \"Foreground\", \"Background\", \"Orphan\", \"nil\""
        );
        assert_eq!(
            message("propagationPolicy=Orphan&orphanDependents=true"),
            "DeleteOptions.meta.k8s.io \"\" is invalid: propagationPolicy: Invalid value: \"Orphan\": orphanDependents and \
             deletionPropagation cannot be both set"
        );
        let message = |body: Value| DeleteOptions::from_body(&body).unwrap_err().message;
        assert_eq!(
            message(json!({"propagationPolicy": 1})),
            "json: cannot unmarshal number into Go struct field DeleteOptions.propagationPolicy of type v1.DeletionPropagation"
        );
        assert_eq!(
            message(json!({"kind": "Foo", "apiVersion": "v1"})),
            "no kind \"Foo\" is registered for version \"v1\" in scheme \"pkg/runtime/scheme.go:111\""
        );
    }
}
