//! The options of a write as reviews and expressions show them: an object, made only for those who look.

use bailiwick_machinery::query::Query;
use bailiwick_machinery::write_options::{DeleteOptions, DryRun, PropagationPolicy};
use serde_json::{Map, Value};

/// What the client asked for besides the object itself.
#[derive(Clone, Copy, Debug)]
pub enum OperationOptions<'a> {
    /// CreateOptions, from the query. Patches that create have them too.
    Create(&'a Query),
    /// UpdateOptions, from the query. Patches have them too.
    Update(&'a Query),
    /// DeleteOptions, from the body or the query.
    Delete(&'a DeleteOptions),
}

const API_VERSION: &str = "meta.k8s.io/v1";

impl OperationOptions<'_> {
    /// The options as an object.
    pub fn to_value(self) -> Value {
        match self {
            Self::Create(query) => written("CreateOptions", query),
            Self::Update(query) => written("UpdateOptions", query),
            Self::Delete(options) => deleted(options),
        }
    }
}

fn typed(kind: &str) -> Map<String, Value> {
    let mut fields = Map::new();
    fields.insert("kind".into(), kind.into());
    fields.insert("apiVersion".into(), API_VERSION.into());
    fields
}

fn written(kind: &str, query: &Query) -> Value {
    let mut fields = typed(kind);
    let dry_run: Vec<&str> = query.all("dryRun").collect();
    if !dry_run.is_empty() {
        fields.insert("dryRun".into(), dry_run.into());
    }
    for name in ["fieldManager", "fieldValidation"] {
        if let Some(text) = query.get(name).filter(|text| !text.is_empty()) {
            fields.insert(name.into(), text.into());
        }
    }
    Value::Object(fields)
}

fn deleted(options: &DeleteOptions) -> Value {
    let mut fields = typed("DeleteOptions");
    if let Some(seconds) = options.grace_period_seconds {
        fields.insert("gracePeriodSeconds".into(), seconds.into());
    }
    if let Some(preconditions) = &options.preconditions {
        let mut members = Map::new();
        if let Some(uid) = &preconditions.uid {
            members.insert("uid".into(), uid.as_str().into());
        }
        if let Some(version) = &preconditions.resource_version {
            members.insert("resourceVersion".into(), version.as_str().into());
        }
        fields.insert("preconditions".into(), Value::Object(members));
    }
    if let Some(orphan) = options.orphan_dependents {
        fields.insert("orphanDependents".into(), orphan.into());
    }
    if let Some(policy) = options.propagation_policy {
        let policy = match policy {
            PropagationPolicy::Orphan => "Orphan",
            PropagationPolicy::Background => "Background",
            PropagationPolicy::Foreground => "Foreground",
        };
        fields.insert("propagationPolicy".into(), policy.into());
    }
    if options.dry_run == DryRun::All {
        fields.insert("dryRun".into(), vec!["All"].into());
    }
    Value::Object(fields)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn options_show_what_the_client_said_and_nothing_else() {
        let query = Query::parse("dryRun=All&fieldManager=me&fieldValidation=Strict&pretty=1");
        assert_eq!(
            OperationOptions::Update(&query).to_value(),
            json!({"kind": "UpdateOptions", "apiVersion": "meta.k8s.io/v1", "dryRun": ["All"], "fieldManager": "me",
                   "fieldValidation": "Strict"})
        );
        assert_eq!(
            OperationOptions::Create(&Query::default()).to_value(),
            json!({"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"})
        );
        let options = DeleteOptions { propagation_policy: Some(PropagationPolicy::Orphan), ..DeleteOptions::default() };
        assert_eq!(
            OperationOptions::Delete(&options).to_value(),
            json!({"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1", "propagationPolicy": "Orphan"})
        );
    }
}
