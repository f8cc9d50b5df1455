//! Parameters of policies: objects of the kind that the policy names, chosen by the binding, for each request anew.

use bailiwick_machinery::selector::LabelSelector;
use serde_json::Value;

use crate::attributes::{Attributes, KindRef};

/// The kind of a policy's parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParamKind {
    pub group: String,
    pub version: String,
    pub kind: String,
}

/// Whether parameters of a kind are in namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParamScope {
    Cluster,
    Namespaced,
}

impl ParamKind {
    /// From a `paramKind`.
    pub fn of(kind: &Value) -> Option<Self> {
        let text = |field: &str| kind.get(field).and_then(Value::as_str);
        let api_version = text("apiVersion")?;
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        Some(Self { group: group.to_owned(), version: version.to_owned(), kind: text("kind")?.to_owned() })
    }

    pub fn as_ref(&self) -> KindRef<'_> {
        KindRef { group: &self.group, version: &self.version, kind: &self.kind }
    }
}

/// As Go prints it.
impl std::fmt::Display for ParamKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}, Kind={}", self.group, self.version, self.kind)
    }
}

/// Which parameters a binding chooses.
#[derive(Debug)]
pub(super) struct ParamRef {
    name: String,
    namespace: String,
    selector: Option<Result<Option<LabelSelector>, String>>,
    required: bool,
}

impl ParamRef {
    /// From a `paramRef`.
    pub fn of(reference: &Value) -> Self {
        let text = |field: &str| reference.get(field).and_then(Value::as_str).unwrap_or_default();
        let selector = reference.get("selector").filter(|found| !found.is_null());
        Self {
            name: text("name").to_owned(),
            namespace: text("namespace").to_owned(),
            selector: selector.map(|found| LabelSelector::from_object(Some(found))),
            required: text("parameterNotFoundAction") == "Deny",
        }
    }
}

/// A policy of this kind that no request can be held against; the text is upstream's.
pub(super) fn unknown_kind(kind: &ParamKind) -> String {
    format!("failed to find resource referenced by paramKind: '{kind}'")
}

/// The parameters for a request: one `None` if the policy has none or the binding chooses none, nothing at all if there
/// are none and that is fine. Errors are upstream's texts.
pub(super) async fn collect(
    kind: Option<&ParamKind>,
    reference: Option<&ParamRef>,
    attributes: &Attributes<'_>,
) -> Result<Vec<Option<Value>>, String> {
    let (Some(kind), Some(reference)) = (kind, reference) else { return Ok(vec![None]) };
    let host = attributes.host;
    let Some(scope) = host.parameter_scope(kind) else { return Err(unknown_kind(kind)) };
    let namespace = match scope {
        ParamScope::Cluster if !reference.namespace.is_empty() => {
            return Err("paramRef.namespace must not be provided for a cluster-scoped `paramKind`".to_owned());
        }
        ParamScope::Cluster => "",
        ParamScope::Namespaced if !reference.namespace.is_empty() => &reference.namespace,
        ParamScope::Namespaced if attributes.namespace.is_empty() => {
            return Err(
                "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources".to_owned()
            );
        }
        ParamScope::Namespaced => attributes.namespace,
    };
    let found = match (&reference.selector, reference.name.as_str()) {
        (None, "") => return Err("one of name or selector must be provided".to_owned()),
        (None, name) => host.parameter(kind, namespace, name).await?.into_iter().collect(),
        (Some(_), name) if !name.is_empty() => {
            return Err("paramRef.name and paramRef.selector are mutually exclusive".to_owned());
        }
        (Some(Err(error)), _) => return Err(error.clone()),
        (Some(Ok(None)), _) => Vec::new(),
        (Some(Ok(Some(selector))), _) => host.parameters(kind, namespace, selector).await?,
    };
    if found.is_empty() && reference.required {
        return Err("no params found for policy binding with `Deny` parameterNotFoundAction".to_owned());
    }
    Ok(found.into_iter().map(Some).collect())
}
