//! Requests as SubjectAccessReviews put them.

use bailiwick_machinery::selector::fields::{self, FieldSelector};
use bailiwick_machinery::selector::labels::{LabelSelector, Operator};
use serde_json::{Map, Value, json};

use super::super::{Attributes, ResourceTarget, Target};

/// The version of SubjectAccessReview a webhook understands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    V1,
    V1beta1,
}

impl Version {
    pub fn parse(version: &str) -> Option<Self> {
        match version {
            "v1" => Some(Self::V1),
            "v1beta1" => Some(Self::V1beta1),
            _ => None,
        }
    }

    /// The review to send about a spec in v1.
    pub(super) fn review(self, spec: &Value) -> Value {
        let (version, spec) = match self {
            Self::V1 => ("v1", spec.clone()),
            Self::V1beta1 => ("v1beta1", with_group(spec)),
        };
        json!({
            "kind": "SubjectAccessReview", "apiVersion": format!("authorization.k8s.io/{version}"), "metadata": {},
            "spec": spec, "status": {"allowed": false},
        })
    }
}

/// v1beta1 calls the groups `group`.
fn with_group(spec: &Value) -> Value {
    let fields = spec.as_object().into_iter().flatten();
    let renamed = |name: &String| if name == "groups" { "group".to_owned() } else { name.clone() };
    fields.map(|(name, value)| (renamed(name), value.clone())).collect::<Map<String, Value>>().into()
}

/// The spec of a review about a request, in v1. What is empty is left out.
pub(super) fn spec(attributes: &Attributes<'_>) -> Value {
    let user = attributes.user;
    let mut spec = Map::new();
    match &attributes.target {
        Target::Resource(target) => drop(spec.insert("resourceAttributes".into(), resource(attributes.verb, target))),
        Target::Path(path) => {
            let parts = texts([("path", *path), ("verb", attributes.verb)]);
            spec.insert("nonResourceAttributes".into(), parts.into());
        }
    }
    spec.extend(texts([("user", &user.name)]));
    if !user.groups.is_empty() {
        spec.insert("groups".into(), user.groups.as_slice().into());
    }
    if !user.extra.is_empty() {
        let extra = user.extra.iter().map(|(key, values)| (key.clone(), values.as_slice().into()));
        spec.insert("extra".into(), extra.collect::<Map<String, Value>>().into());
    }
    spec.extend(texts([("uid", &user.uid)]));
    spec.into()
}

fn texts<const N: usize>(fields: [(&str, &str); N]) -> Map<String, Value> {
    let said = fields.into_iter().filter(|(_, value)| !value.is_empty());
    said.map(|(field, value)| (field.to_owned(), value.into())).collect()
}

fn resource(verb: &str, target: &ResourceTarget<'_>) -> Value {
    let mut attributes = texts([
        ("namespace", target.namespace),
        ("verb", verb),
        ("group", target.group),
        ("version", target.version),
        ("resource", target.resource),
        ("subresource", target.subresource),
        ("name", target.name),
    ]);
    for (field, requirements) in [
        ("fieldSelector", field_requirements(target.field_selector)),
        ("labelSelector", label_requirements(target.label_selector)),
    ] {
        if !requirements.is_empty() {
            attributes.insert(field.into(), json!({"requirements": requirements}));
        }
    }
    attributes.into()
}

/// A selector that cannot be read says nothing: without it the question is only broader.
fn field_requirements(selector: &str) -> Vec<Value> {
    if selector.is_empty() {
        return Vec::new();
    }
    let parsed = FieldSelector::parse(selector).unwrap_or_default();
    let shown = |requirement: &fields::Requirement| {
        let operator = match requirement.operator {
            fields::Operator::Equals => "In",
            fields::Operator::NotEquals => "NotIn",
        };
        json!({"key": requirement.field, "operator": operator, "values": [requirement.value]})
    };
    parsed.requirements().iter().map(shown).collect()
}

fn label_requirements(selector: &str) -> Vec<Value> {
    if selector.is_empty() {
        return Vec::new();
    }
    let Ok(parsed) = LabelSelector::parse(selector) else { return Vec::new() };
    let mut all = Vec::new();
    for requirement in parsed.requirements() {
        let operator = match requirement.operator() {
            Operator::Equals | Operator::DoubleEquals | Operator::In => "In",
            Operator::NotEquals | Operator::NotIn => "NotIn",
            Operator::Exists => "Exists",
            Operator::DoesNotExist => "DoesNotExist",
            Operator::GreaterThan | Operator::LessThan => continue,
        };
        let mut shown = json!({"key": requirement.key(), "operator": operator});
        if !requirement.values().is_empty() {
            shown["values"] = requirement.values().into();
        }
        all.push(shown);
    }
    all
}

/// The length of what the author of a request chooses freely.
pub(super) fn attributes_len(attributes: &Attributes<'_>) -> usize {
    let rest = match &attributes.target {
        Target::Path(path) => path.len(),
        Target::Resource(target) => {
            let parts = [
                target.namespace,
                target.group,
                target.version,
                target.resource,
                target.subresource,
                target.name,
                target.field_selector,
                target.label_selector,
            ];
            parts.iter().map(|part| part.len()).sum()
        }
    };
    attributes.verb.len() + rest
}

#[cfg(test)]
mod tests {
    use bailiwick_machinery::UserInfo;

    use super::*;

    #[test]
    fn a_request_is_described_as_upstream_describes_it() {
        let mut user =
            UserInfo { name: "jane".into(), uid: "7".into(), groups: vec!["g".into()], ..UserInfo::default() };
        user.extra.insert("scopes".into(), vec!["a".into()]);
        let target = ResourceTarget {
            group: "apps",
            version: "v1",
            resource: "deployments",
            namespace: "ns",
            field_selector: "metadata.name=x,a!=b",
            label_selector: "k in (v,w),!gone,here",
            ..ResourceTarget::default()
        };
        let attributes = Attributes { user: &user, verb: "list", target: Target::Resource(target) };
        let spec = spec(&attributes);
        let expected = json!({
            "resourceAttributes": {
                "namespace": "ns", "verb": "list", "group": "apps", "version": "v1", "resource": "deployments",
                "fieldSelector": {"requirements": [
                    {"key": "a", "operator": "NotIn", "values": ["b"]},
                    {"key": "metadata.name", "operator": "In", "values": ["x"]},
                ]},
                "labelSelector": {"requirements": [
                    {"key": "gone", "operator": "DoesNotExist"},
                    {"key": "here", "operator": "Exists"},
                    {"key": "k", "operator": "In", "values": ["v", "w"]},
                ]},
            },
            "user": "jane", "groups": ["g"], "extra": {"scopes": ["a"]}, "uid": "7",
        });
        assert_eq!(spec, expected);
        assert_eq!(Version::V1beta1.review(&spec)["spec"]["group"], json!(["g"]));
        assert_eq!(Version::V1.review(&spec)["apiVersion"], "authorization.k8s.io/v1");
    }
}
