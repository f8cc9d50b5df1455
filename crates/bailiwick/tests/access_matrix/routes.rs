//! The routes of a control plane: every verb of every resource and subresource from its discovery, and every other path
//! from the table by which the server finds what answers.

use bailiwick_server::{PathRoute, Planes};
use serde_json::{Value, json};

use super::{MINE, Plane, master};

/// A request and what authorization must take it for.
pub struct Route {
    /// The project it leads into; empty for the root.
    pub project: &'static str,
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
    Path {
        verb: String,
        path: String,
    },
}

/// An object that does not exist, so that nothing happens to those that do.
const NAME: &str = "no-such-thing";

/// All routes of the root, or of a project below one of its prefixes.
pub async fn discover(plane: &Plane, project: &'static str, prefix: &str) -> Vec<Route> {
    let get = async |path: &str| plane.send(&master(), "GET", &format!("{prefix}{path}"), None).await.body;
    let mut versions = vec![("/api/v1".to_owned(), String::new())];
    for group in get("/apis").await["groups"].as_array().unwrap() {
        let name = group["name"].as_str().unwrap();
        for version in group["versions"].as_array().unwrap() {
            versions.push((format!("/apis/{}", version["groupVersion"].as_str().unwrap()), name.to_owned()));
        }
    }
    let mut routes = Vec::new();
    for (base, group) in &versions {
        let list = get(base).await;
        for resource in list["resources"].as_array().unwrap() {
            for verb in resource["verbs"].as_array().unwrap() {
                routes.extend(of_verb(base, group, resource, verb.as_str().unwrap()));
            }
        }
    }
    let documents = get("/openapi/v3").await["paths"].as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert!(documents.len() > versions.len(), "{documents:?}");
    let of_plane = |route: &&PathRoute| project.is_empty() || route.planes == Planes::All;
    let mut paths: Vec<(&'static str, String)> = Vec::new();
    for route in PathRoute::all().iter().filter(of_plane) {
        let filled = fill(route.pattern, &documents);
        paths.extend(route.methods.iter().flat_map(|method| filled.iter().map(|path| (*method, path.clone()))));
    }
    // What the server tells of itself is among what its table has.
    for path in get("/").await["paths"].as_array().unwrap() {
        paths.push(("GET", path.as_str().unwrap().to_owned()));
    }
    paths.sort();
    paths.dedup();
    routes.extend(paths.into_iter().map(|(method, path)| {
        let about = About::Path { verb: method.to_lowercase(), path: path.clone() };
        Route { project: "", method, uri: path, body: None, about }
    }));
    for route in &mut routes {
        route.project = project;
        route.uri.insert_str(0, prefix);
    }
    routes
}

/// The paths of a pattern. A pattern with a new kind of part must be given its examples here.
fn fill(pattern: &str, documents: &[String]) -> Vec<String> {
    let Some((before, rest)) = pattern.split_once('{') else { return vec![pattern.to_owned()] };
    let (part, after) = rest.split_once('}').expect("a part ends");
    let fixed = |parts: &[&str]| parts.iter().map(|part| (*part).to_owned()).collect::<Vec<_>>();
    let parts: Vec<String> = match part {
        "check..." => fixed(&["ping", "etcd", "no-such-check"]),
        "document..." => documents.to_vec(),
        "dump" => fixed(&["dump_priority_levels", "dump_queues", "dump_nothing"]),
        "organization" => fixed(&["acme", "no-such-organization"]),
        "collection..." => fixed(&["metadata", "api/v1/secrets", "apis/example.com/v1/namespaces/mine/widgets"]),
        // Groups and versions are told by `/`, these are those that are not there.
        "group" => fixed(&["no-such-group"]),
        "version" => fixed(&["v0"]),
        other => panic!("this test does not know what to put for {{{other}}} of {pattern}"),
    };
    let filled = parts.iter().map(|part| format!("{before}{part}{after}"));
    filled.flat_map(|path| fill(&path, documents)).collect()
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
        Route { project: "", method, uri, body, about }
    };
    scopes.iter().map(|namespace| one(namespace)).collect()
}
