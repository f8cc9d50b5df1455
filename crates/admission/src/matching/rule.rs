//! One rule: operations on resources of groups and versions.

use serde_json::Value;

use crate::attributes::{Attributes, Operation, ResourceRef};

/// One rule of a webhook or policy, compiled.
#[derive(Debug)]
pub struct Rule {
    operations: Box<[Term<Operation>]>,
    groups: Box<[Term<Box<str>>]>,
    versions: Box<[Term<Box<str>>]>,
    resources: Box<[ResourceTerm]>,
    scope: Scope,
    /// Empty for objects of any name.
    names: Box<[Box<str>]>,
}

/// A resource and a subresource.
type ResourceTerm = (Term<Box<str>>, Term<Box<str>>);

#[derive(Debug)]
enum Term<T> {
    Any,
    Only(T),
}

#[derive(Clone, Copy, Debug)]
enum Scope {
    Any,
    Cluster,
    Namespaced,
    /// Not a word we know.
    None,
}

fn texts<'a>(rule: &'a Value, field: &str) -> impl Iterator<Item = &'a str> {
    rule.get(field).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

fn term(text: &str) -> Term<Box<str>> {
    if text == "*" { Term::Any } else { Term::Only(text.into()) }
}

impl Term<Box<str>> {
    fn covers(&self, text: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Only(only) => **only == *text,
        }
    }
}

impl Rule {
    /// From a RuleWithOperations or NamedRuleWithOperations.
    pub fn from_value(rule: &Value) -> Self {
        let operation = |text: &str| match text {
            "*" => Some(Term::Any),
            "CREATE" => Some(Term::Only(Operation::Create)),
            "UPDATE" => Some(Term::Only(Operation::Update)),
            "DELETE" => Some(Term::Only(Operation::Delete)),
            "CONNECT" => Some(Term::Only(Operation::Connect)),
            _ => None,
        };
        let resource = |text: &str| match text.split_once('/') {
            Some((resource, sub)) => (term(resource), term(sub)),
            None => (term(text), Term::Only("".into())),
        };
        Self {
            operations: texts(rule, "operations").filter_map(operation).collect(),
            groups: texts(rule, "apiGroups").map(term).collect(),
            versions: texts(rule, "apiVersions").map(term).collect(),
            resources: texts(rule, "resources").map(resource).collect(),
            scope: match rule.get("scope").and_then(Value::as_str) {
                None | Some("*") => Scope::Any,
                Some("Cluster") => Scope::Cluster,
                Some("Namespaced") => Scope::Namespaced,
                Some(_) => Scope::None,
            },
            names: texts(rule, "resourceNames").map(Box::from).collect(),
        }
    }

    pub(super) fn concerns(&self, operation: Operation) -> bool {
        self.operations.iter().any(|term| match term {
            Term::Any => true,
            Term::Only(only) => *only == operation,
        })
    }

    /// Whether the rule is about the request, were it about `resource`.
    pub(super) fn matches(&self, attributes: &Attributes<'_>, resource: ResourceRef<'_>) -> bool {
        self.resources
            .iter()
            .any(|(plural, sub)| plural.covers(resource.resource) && sub.covers(attributes.subresource))
            && self.concerns(attributes.operation)
            && self.groups.iter().any(|group| group.covers(resource.group))
            && self.versions.iter().any(|version| version.covers(resource.version))
            && self.in_scope(attributes, resource)
            && (self.names.is_empty() || self.names.iter().any(|name| **name == *attributes.name))
    }

    /// Namespaces are themselves cluster-scoped, although their requests name a namespace.
    fn in_scope(&self, attributes: &Attributes<'_>, resource: ResourceRef<'_>) -> bool {
        let namespaces = ResourceRef { group: "", version: "v1", resource: "namespaces" };
        let namespaced = resource != namespaces && !attributes.namespace.is_empty();
        match self.scope {
            Scope::Any => true,
            Scope::Namespaced => namespaced,
            Scope::Cluster => !namespaced,
            Scope::None => false,
        }
    }
}
