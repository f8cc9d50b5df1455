//! Checking the expressions of a policy against the types of the objects they will see. The warnings are upstream's texts.

use std::sync::Arc;

use bailiwick_cel::admission::{self, Composition, variables};
use bailiwick_cel::{DeclType, Env, Type, library};
use serde_json::{Value, json};

/// A kind of object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Kind {
    pub group: String,
    pub version: String,
    pub kind: String,
}

impl Kind {
    /// From a `paramKind`.
    pub fn of_param(kind: &Value) -> Option<Self> {
        let api_version = kind["apiVersion"].as_str()?;
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        Some(Self { group: group.to_owned(), version: version.to_owned(), kind: kind["kind"].as_str()?.to_owned() })
    }
}

/// As Go prints it.
impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}, Kind={}", self.group, self.version, self.kind)
    }
}

/// A kind and what is known of its type; nothing means that it is dynamic.
pub(super) struct CheckedType {
    pub kind: Kind,
    pub decl: Option<Arc<DeclType>>,
}

fn list<'a>(holder: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> {
    holder[field].as_array().into_iter().flatten()
}

/// The resources that rules name as group, version and plural. Rules with wildcards for groups or versions name none,
/// and subresources are not looked at.
pub(super) fn named_resources(spec: &Value) -> Vec<(String, String, String)> {
    let mut named = Vec::new();
    for rule in list(&spec["matchConstraints"], "resourceRules") {
        let sorted = |field: &str| {
            let mut words: Vec<&str> = list(rule, field).filter_map(Value::as_str).collect();
            words.sort_unstable();
            words
        };
        let (groups, versions) = (sorted("apiGroups"), sorted("apiVersions"));
        if groups.iter().chain(&versions).any(|word| word.contains('*')) {
            continue;
        }
        let resources: Vec<&str> = sorted("resources").into_iter().filter(|word| !word.contains(['*', '/'])).collect();
        for group in &groups {
            for version in &versions {
                let resources = resources.iter();
                named.extend(resources.map(|r| ((*group).to_owned(), (*version).to_owned(), (*r).to_owned())));
            }
        }
    }
    named
}

/// The `expressionWarnings` of a policy. `params` is there if the policy has a parameter kind, with its type if known.
pub(super) fn check(spec: &Value, types: &[CheckedType], params: Option<&Option<Arc<DeclType>>>) -> Vec<Value> {
    let environments: Vec<(&Kind, Env)> = types.iter().map(|ty| (&ty.kind, environment(spec, ty, params))).collect();
    let mut warnings = Vec::new();
    for (index, validation) in list(spec, "validations").enumerate() {
        for field in ["expression", "messageExpression"] {
            let Some(expression) = validation[field].as_str().filter(|text| !text.is_empty()) else { continue };
            let found: Vec<String> = environments
                .iter()
                .filter_map(|(kind, env)| env.compile(expression).err().map(|issues| format!("{kind}: {issues}\n")))
                .collect();
            if !found.is_empty() {
                let field = format!("spec.validations[{index}].{field}");
                warnings.push(json!({"fieldRef": field, "warning": found.join("\n")}));
            }
        }
    }
    warnings
}

/// What expressions see if objects are of this type.
fn environment(spec: &Value, ty: &CheckedType, params: Option<&Option<Arc<DeclType>>>) -> Env {
    let typed =
        |decl: Option<&Arc<DeclType>>, name: &str| decl.and_then(|decl| decl.cel_type(name)).unwrap_or(Type::Dyn);
    let object = typed(ty.decl.as_ref(), &ty.kind.kind);
    let mut builder = admission::base()
        .variable(variables::OBJECT, object.clone())
        .variable(variables::OLD_OBJECT, object)
        .variable(variables::AUTHORIZER, library::authorizer_type());
    if let Some(params) = params {
        let kind = spec["paramKind"]["kind"].as_str().unwrap_or_default();
        builder = builder.variable(variables::PARAMS, typed(params.as_ref(), kind));
    }
    let plain = builder.build();
    let mut composition = Composition::new();
    for variable in list(spec, "variables") {
        let text = |field: &str| variable[field].as_str().unwrap_or_default();
        let compiled = composition.extend(&plain).compile(text("expression"));
        composition.declare_type(text("name"), compiled.map_or(Type::Dyn, |checked| checked.output_type().clone()));
    }
    composition.extend(&plain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy_status::declare::declare;

    fn configmaps() -> CheckedType {
        let schemas = json!({
            "Meta": {"type": "object", "properties": {"name": {"type": "string"}, "generateName": {"type": "string"},
                     "creationTimestamp": {"allOf": [{"$ref": "#/components/schemas/Time"}]}}},
            "Time": {"type": "string", "format": "date-time"},
            "ConfigMap": {"type": "object", "properties": {
                "apiVersion": {"type": "string"}, "kind": {"type": "string"},
                "metadata": {"$ref": "#/components/schemas/Meta"}, "immutable": {"type": "boolean"},
                "self": {"$ref": "#/components/schemas/ConfigMap"},
                "data": {"type": "object", "additionalProperties": {"type": "string"}}}},
        });
        let kind = Kind { group: String::new(), version: "v1".to_owned(), kind: "ConfigMap".to_owned() };
        CheckedType { kind, decl: declare(&schemas["ConfigMap"], &schemas) }
    }

    fn warnings(spec: &Value) -> Vec<String> {
        let warnings = check(spec, &[configmaps()], None);
        warnings.iter().map(|w| format!("{}: {}", w["fieldRef"], w["warning"].as_str().unwrap_or_default())).collect()
    }

    #[test]
    fn fields_that_the_type_does_not_have_are_warned_about() {
        let spec = json!({"validations": [
            {"expression": "object.data.a == 'x' && object.metadata.creationTimestamp < timestamp('2030-01-01T00:00:00Z')"},
            {"expression": "object.nope == 1", "messageExpression": "object.immutable"},
            {"expression": "variables.x == 1"},
        ], "variables": [{"name": "x", "expression": "object.data['a']"}]});
        assert_eq!(
            warnings(&spec),
            [
                "\"spec.validations[1].expression\": /v1, Kind=ConfigMap: ERROR: <input>:1:7: undefined field 'nope'\n | object.nope == 1\n | ......^\n",
                "\"spec.validations[2].expression\": /v1, Kind=ConfigMap: ERROR: <input>:1:13: found no matching overload for '_==_' applied to '(string, int)'\n | variables.x == 1\n | ............^\n",
            ]
        );
    }

    #[test]
    fn rules_with_wildcards_name_no_types() {
        let rule = |groups: Value, resources: Value| json!({"matchConstraints": {"resourceRules": [{"apiGroups": groups, "apiVersions": ["v1"], "resources": resources}]}});
        assert!(named_resources(&rule(json!(["*"]), json!(["pods"]))).is_empty());
        let named = named_resources(&rule(json!(["b", ""]), json!(["pods/status", "*", "pods"])));
        assert_eq!(named.iter().map(|(g, _, r)| format!("{g}:{r}")).collect::<Vec<_>>(), [":pods", "b:pods"]);
    }
}
