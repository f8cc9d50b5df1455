//! Sample custom resources: those that ClusterServiceVersions carry, tried on definitions as the API server would.

use bailiwick_schema::field::Path;
use bailiwick_schema::structural;
use bailiwick_schema::structural::rules::Rules;
use serde_json::Value;

use super::crd::schemas;
use crate::bundle::Csv;
use crate::fbc::Fields;

/// Where a ClusterServiceVersion has its samples.
const EXAMPLES: &str = "alm-examples";
/// What the rules of one object may cost, as in the API server.
const RULE_BUDGET: i64 = 10_000_000;

/// The samples among the manifests of a bundle.
pub(super) fn samples(objects: &[Value]) -> Result<Vec<Value>, String> {
    let Some(text) = objects.iter().find_map(Csv::new).and_then(|csv| csv.annotation(EXAMPLES)) else {
        return Ok(Vec::new());
    };
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    match serde_json::from_str(text) {
        Ok(Value::Array(samples)) => Ok(samples),
        Ok(_) => Err(format!("the annotation {EXAMPLES} is not a list")),
        Err(error) => Err(format!("the annotation {EXAMPLES} is not JSON: {error}")),
    }
}

/// How an object fares with a definition.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Outcome {
    /// Why it is refused.
    pub(super) errors: Vec<String>,
    /// Fields that the definition does not know and that are dropped.
    pub(super) dropped: Vec<String>,
}

/// Whether an object is of the kind that a definition defines.
pub(super) fn is_of(crd: &Value, object: &Value) -> bool {
    let fields = Fields::of(object);
    let spec = Fields::of(crd.get("spec").unwrap_or(&Value::Null));
    let group = fields.text("apiVersion");
    let group = group.split_once('/').map_or("", |(group, _)| group);
    group == spec.text("group") && fields.text("kind") == Fields::of(spec.get("names")).text("kind")
}

/// Tries an object on the version of a definition that it names: defaulted, pruned, validated, its rules run.
pub(super) fn try_sample(crd: &Value, object: &Value) -> Outcome {
    let api_version = Fields::of(object).text("apiVersion");
    let version = api_version.split_once('/').map_or("", |(_, version)| version);
    let all = schemas(crd);
    let Some((_, schema)) = all.iter().find(|(name, _)| name == version) else {
        let known: Vec<&str> = all.iter().map(|(name, _)| name.as_str()).collect();
        let error = format!("version {version} is not defined, only {}", known.join(", "));
        return Outcome { errors: vec![error], dropped: Vec::new() };
    };
    let schema = match structural::compile(schema) {
        Ok(schema) => schema,
        Err(error) => return Outcome { errors: vec![error.to_string()], dropped: Vec::new() },
    };
    let mut object = object.clone();
    let options = structural::PruneOptions {
        root: structural::Root::Resource,
        unknown_fields: structural::UnknownFields::Report,
    };
    let dropped = structural::prune(&mut object, &schema, options);
    structural::default(&mut object, &schema);
    let path = Path::root();
    let mut errors = structural::validate(&object, &schema, &path);
    errors.extend(structural::validate_list_types(&object, &schema, &path));
    if errors.is_empty() {
        let mut budget = RULE_BUDGET;
        errors = Rules::new(schema).validate(&path, &object, None, &mut budget).errors;
    }
    Outcome { errors: errors.iter().map(ToString::to_string).collect(), dropped }
}
