//! The routes of a server, from its discovery: every verb of every resource and subresource, and every other path.

use serde_json::{Value, json};

use super::{MINE, Plane, master};

/// A request and what authorization must take it for.
pub struct Route {
    pub method: &'static str,
    pub uri: String,
    pub body: Option<Value>,
    pub about: About,
}

/// What a request is about.
pub enum About {
    Resource {
        verb: String,
        group: String,
        resource: String,
        subresource: String,
        namespace: &'static str,
        name: &'static str,
    },
    Path(String),
}

/// An object that does not exist, so that nothing happens to those that do.
const NAME: &str = "no-such-thing";

pub async fn discover(plane: &Plane) -> Vec<Route> {
    let get = async |path: &str| plane.send(&master(), "GET", path, None).await.body;
    let mut versions = vec![("/api/v1".to_owned(), String::new())];
    for group in get("/apis").await["groups"].as_array().unwrap() {
        let name = group["name"].as_str().unwrap();
        for version in group["versions"].as_array().unwrap() {
            versions.push((format!("/apis/{}", version["groupVersion"].as_str().unwrap()), name.to_owned()));
        }
    }
    let mut routes = Vec::new();
    for (base, group) in versions {
        let list = get(&base).await;
        for resource in list["resources"].as_array().unwrap() {
            for verb in resource["verbs"].as_array().unwrap() {
                routes.extend(of_verb(&base, &group, resource, verb.as_str().unwrap()));
            }
        }
    }
    for path in get("/").await["paths"].as_array().unwrap() {
        let path = path.as_str().unwrap().to_owned();
        routes.push(Route { method: "GET", uri: path.clone(), body: None, about: About::Path(path) });
    }
    let explain = "/auth/explain".to_owned();
    routes.push(Route { method: "GET", uri: explain.clone(), body: None, about: About::Path(explain) });
    routes
}

/// The requests by which a verb reaches a resource: in a namespace, and for lists also in all of them.
fn of_verb(base: &str, group: &str, resource: &Value, verb: &str) -> Vec<Route> {
    let full = resource["name"].as_str().unwrap();
    let (plural, subresource) = full.split_once('/').unwrap_or((full, ""));
    let is_namespaces = group.is_empty() && plural == "namespaces";
    let scopes: &[&'static str] = match (resource["namespaced"].as_bool().unwrap(), verb) {
        (true, "list" | "watch") => &[MINE, ""],
        (true, _) => &[MINE],
        (false, _) => &[""],
    };
    let one = |namespace: &'static str| {
        let on_collection = matches!(verb, "list" | "watch" | "deletecollection");
        let named = !(on_collection || (verb == "create" && subresource.is_empty()));
        let (method, query) = match verb {
            "get" => ("GET", ""),
            "list" => ("GET", "?limit=1"),
            "watch" => ("GET", "?watch=true&timeoutSeconds=1"),
            "create" => ("POST", "?dryRun=All"),
            "update" => ("PUT", "?dryRun=All"),
            "patch" => ("PATCH", "?dryRun=All"),
            "delete" | "deletecollection" => ("DELETE", "?dryRun=All"),
            other => panic!("discovery has the verb {other}, which this test does not know"),
        };
        let mut uri = base.to_owned();
        if !namespace.is_empty() {
            uri.push_str(&format!("/namespaces/{namespace}"));
        }
        uri.push_str(&format!("/{plural}"));
        if named {
            uri.push_str(&format!("/{NAME}"));
        }
        if !subresource.is_empty() {
            uri.push_str(&format!("/{subresource}"));
        }
        uri.push_str(query);
        let body = matches!(method, "POST" | "PUT" | "PATCH").then(|| json!({"metadata": {"name": NAME}}));
        let about = About::Resource {
            verb: verb.to_owned(),
            group: group.to_owned(),
            resource: plural.to_owned(),
            subresource: subresource.to_owned(),
            // A namespace is in itself.
            namespace: if is_namespaces && named { NAME } else { namespace },
            name: if named { NAME } else { "" },
        };
        Route { method, uri, body, about }
    };
    scopes.iter().map(|namespace| one(namespace)).collect()
}
