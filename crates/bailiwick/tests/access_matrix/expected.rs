//! Who may do what, from kube-apiserver's recorded default roles, by the plainest reading of the rules.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};

use super::routes::{About, Route};

/// Somebody who sends requests.
pub struct Caller {
    pub name: String,
    pub groups: Vec<String>,
    /// Project (empty for the root), namespace (empty for the whole of it) and role.
    pub roles: Vec<(&'static str, &'static str, &'static str)>,
}

impl Caller {
    /// Whether the door of a project is open: the root's administrators may use all projects, and a project's own bindings
    /// let in whom they name. The root has no door.
    fn enters(&self, project: &str) -> bool {
        project.is_empty() || self.administers() || self.roles.iter().any(|(of, _, _)| *of == project)
    }

    fn administers(&self) -> bool {
        self.roles.contains(&("", "", "cluster-admin"))
    }
}

/// Rules by role.
pub struct Roles {
    rules: BTreeMap<String, Vec<Value>>,
    /// Role and groups of the recorded cluster role bindings.
    bindings: Vec<(String, Vec<String>)>,
}

impl Roles {
    /// What kube-apiserver has, with the aggregated roles put together.
    pub fn recorded() -> Self {
        let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance/golden/rbac-defaults.jsonl");
        let text = std::fs::read_to_string(golden).unwrap();
        let bodies: Vec<Value> =
            text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["body"].clone()).collect();
        let mut roles: Vec<Value> = bodies.iter().filter(|body| body["kind"] == "ClusterRole").cloned().collect();
        roles.push(view_of_widgets());
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let mut rules: BTreeMap<String, Vec<Value>> =
            roles.iter().map(|role| (name(role), list(&role["rules"]))).collect();
        // From the least to the greatest, as each gathers the one before.
        for aggregated in ["view", "edit", "admin"] {
            let label = format!("rbac.authorization.k8s.io/aggregate-to-{aggregated}");
            let gathered = roles.iter().filter(|role| role["metadata"]["labels"][&label] == "true").map(name);
            let gathered: Vec<Value> = gathered.flat_map(|role| rules[&role].clone()).collect();
            rules.insert(aggregated.to_owned(), gathered);
        }
        let bindings = bodies.iter().filter(|body| body["kind"] == "ClusterRoleBinding").map(|binding| {
            let subjects = list(&binding["subjects"]);
            let groups = subjects.iter().filter(|subject| subject["kind"] == "Group");
            let role = binding["roleRef"]["name"].as_str().unwrap().to_owned();
            (role, groups.map(|group| group["name"].as_str().unwrap().to_owned()).collect())
        });
        Self { bindings: bindings.collect(), rules }
    }

    pub fn allow(&self, caller: &Caller, route: &Route) -> bool {
        if !caller.enters(route.project) {
            return false;
        }
        let by_group =
            self.bindings.iter().filter(|(_, groups)| groups.iter().any(|group| caller.groups.contains(group)));
        let namespace = match &route.about {
            About::Resource { namespace, .. } => *namespace,
            About::Path { .. } => "",
        };
        let here = |(project, scope, _): &&(&str, &str, &str)| {
            *project == route.project && (scope.is_empty() || *scope == namespace)
        };
        let held = caller.roles.iter().filter(here).map(|(_, _, role)| *role);
        // Who administers the root administers every project, until the project shuts them out.
        let held = held.chain(caller.administers().then_some("cluster-admin"));
        let roles = held.chain(by_group.map(|(role, _)| role.as_str()));
        let rules = roles.flat_map(|role| &self.rules[role]);
        rules.into_iter().any(|rule| allows(rule, &route.about))
    }
}

fn name(role: &Value) -> String {
    role["metadata"]["name"].as_str().unwrap().to_owned()
}

fn allows(rule: &Value, about: &About) -> bool {
    let has = |field: &str, wanted: &str| {
        rule[field].as_array().is_some_and(|items| items.iter().any(|item| item == "*" || item == wanted))
    };
    match about {
        About::Resource { verb, group, resource, subresource, name, .. } => {
            let full = if subresource.is_empty() { resource.clone() } else { format!("{resource}/{subresource}") };
            let named = rule.get("resourceNames").is_none() || has("resourceNames", name);
            has("verbs", verb) && has("apiGroups", group) && has("resources", &full) && named
        }
        About::Path { verb, path } => {
            let covers = |url: &Value| {
                let url = url.as_str().unwrap();
                url == path || url.strip_suffix('*').is_some_and(|prefix| path.starts_with(prefix))
            };
            has("verbs", verb) && rule["nonResourceURLs"].as_array().is_some_and(|urls| urls.iter().any(covers))
        }
    }
}

/// What kube-apiserver says to somebody who may not, or the door of a project to a stranger.
pub fn refusal(caller: &Caller, route: &Route) -> String {
    let user = &caller.name;
    if !caller.enters(route.project) {
        // The same whatever is asked, and whether the project exists or not.
        let project = route.project;
        return format!(
            "projects.resourcemanager.miloapis.com \"{project}\" is forbidden: User \"{user}\" cannot use resource \
             \"projects\" in API group \"resourcemanager.miloapis.com\" at the cluster scope"
        );
    }
    match &route.about {
        About::Path { verb, path } => format!("forbidden: User \"{user}\" cannot {verb} path \"{path}\""),
        About::Resource { verb, group, resource, subresource, namespace, name } => {
            let mut what = resource.clone();
            if !group.is_empty() {
                what = format!("{what}.{group}");
            }
            if !name.is_empty() {
                what = format!("{what} \"{name}\"");
            }
            let full = if subresource.is_empty() { resource.clone() } else { format!("{resource}/{subresource}") };
            let place = match *namespace {
                "" => "at the cluster scope".to_owned(),
                namespace => format!("in the namespace \"{namespace}\""),
            };
            format!(
                "{what} is forbidden: User \"{user}\" cannot {verb} resource \"{full}\" in API group \"{group}\" {place}"
            )
        }
    }
}

/// A type of our own with every subresource.
pub fn definition() -> Value {
    json!({
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "subresources": {
                    "status": {},
                    "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
                },
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            }],
        },
    })
}

/// A role by which viewers see widgets.
pub fn view_of_widgets() -> Value {
    json!({
        "metadata": {"name": "view-widgets", "labels": {"rbac.authorization.k8s.io/aggregate-to-view": "true"}},
        "rules": [{"verbs": ["get", "list", "watch"], "apiGroups": ["example.com"], "resources": ["widgets"]}],
    })
}
