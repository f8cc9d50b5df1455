//! What a request is about, read from its method, path and query once: the one place that knows the URL layout.
//!
//! Mirrors upstream's RequestInfo, so that verbs, subresources and the namespace quirks mean the same to authorization,
//! metrics and the handlers. Pure: any bytes in, a [`RequestInfo`] out.

use bailiwick_machinery::query::Query;
use bailiwick_machinery::selector::fields::FieldSelector;
use bailiwick_machinery::strategy::{NameKind, any_path_segment_name};
use percent_encoding::percent_decode_str;

/// What a request asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestInfo {
    /// Whether the path addresses API resources (as opposed to discovery, health and the like).
    pub is_resource: bool,
    /// The Kubernetes verb for resources, the lower-case HTTP method otherwise.
    pub verb: &'static str,
    /// `api` or `apis`; empty for non-resource paths.
    pub prefix: &'static str,
    pub group: String,
    pub version: String,
    pub namespace: String,
    pub resource: String,
    pub subresource: String,
    pub name: String,
    /// The one object that a list or watch selects by its name, see [`RequestInfo::meant_name`].
    pub selected_name: String,
    /// Path segments after the subresource.
    pub rest: Vec<String>,
    /// The path as authorization sees it for non-resource requests.
    pub path: String,
}

/// Subresources of namespaces, which a path puts where other types have a resource.
const NAMESPACE_SUBRESOURCES: &[&str] = &["status", "finalize"];

impl RequestInfo {
    pub fn parse(method: &http::Method, path: &str, query: &Query) -> Self {
        let mut info = Self { verb: http_verb(method), path: path.to_owned(), ..Self::default() };
        let mut parts = path_segments(path).into_iter().peekable();
        let prefix = parts.next().unwrap_or_default();
        let (group, version) = match prefix.as_str() {
            "api" => (Some(String::new()), parts.next()),
            "apis" => (parts.next(), parts.next()),
            _ => return info,
        };
        let (Some(group), Some(version), true) = (group, version, parts.peek().is_some()) else { return info };
        info.is_resource = true;
        info.prefix = if prefix == "api" { "api" } else { "apis" };
        info.group = group;
        info.version = version;
        // The deprecated way to ask for a watch.
        let watch_prefix = parts.next_if_eq("watch").is_some() && parts.peek().is_some();
        info.take_resource(parts.collect());
        info.verb = if watch_prefix { "watch" } else { info.resource_verb(method, query) };
        if info.name.is_empty() && matches!(info.verb, "list" | "watch") {
            info.selected_name = selected_name(query).unwrap_or_default();
        }
        info
    }

    /// The name of the one object that the request is about, as authorization and audit take it; empty if it is not about one.
    pub fn meant_name(&self) -> &str {
        if self.name.is_empty() { &self.selected_name } else { &self.name }
    }

    fn take_resource(&mut self, mut parts: Vec<String>) {
        if let [first, namespace, rest @ ..] = parts.as_slice()
            && first == "namespaces"
        {
            self.namespace = namespace.clone();
            // Under a namespace the next segment is a resource, unless it is a subresource of the namespace itself.
            if rest.first().is_some_and(|next| !NAMESPACE_SUBRESOURCES.contains(&next.as_str())) {
                parts.drain(..2);
            }
        }
        let mut parts = parts.into_iter();
        self.resource = parts.next().unwrap_or_default();
        self.name = parts.next().unwrap_or_default();
        self.subresource = parts.next().unwrap_or_default();
        self.rest = parts.collect();
    }

    fn resource_verb(&self, method: &http::Method, query: &Query) -> &'static str {
        let collection = self.name.is_empty();
        match method.as_str() {
            "POST" => "create",
            "GET" | "HEAD" if !collection => "get",
            "GET" | "HEAD" if query.flag("watch") == Some(true) => "watch",
            "GET" | "HEAD" => "list",
            "PUT" => "update",
            "PATCH" => "patch",
            "DELETE" if collection => "deletecollection",
            "DELETE" => "delete",
            _ => http_verb(method),
        }
    }
}

/// The name that the field selector insists on, if it is one.
fn selected_name(query: &Query) -> Option<String> {
    let selector = FieldSelector::parse(query.get("fieldSelector")?).ok()?;
    let name = selector.exact_name()?;
    any_path_segment_name(name, NameKind::Full).is_empty().then(|| name.to_owned())
}

fn http_verb(method: &http::Method) -> &'static str {
    match method.as_str() {
        "GET" => "get",
        "HEAD" => "head",
        "POST" => "post",
        "PUT" => "put",
        "PATCH" => "patch",
        "DELETE" => "delete",
        "OPTIONS" => "options",
        "CONNECT" => "connect",
        "TRACE" => "trace",
        _ => "unknown",
    }
}

/// The decoded path split at its slashes, as Go sees it: what an escape hides counts like what stands there openly.
fn path_segments(path: &str) -> Vec<String> {
    let decoded = percent_decode_str(path).decode_utf8_lossy();
    decoded.trim_matches('/').split('/').map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(method: &str, uri: &str, expected: &str) {
        let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
        let method = http::Method::from_bytes(method.as_bytes()).expect("a method");
        let info = RequestInfo::parse(&method, path, &Query::parse(query));
        let seen = if info.is_resource {
            format!(
                "{} {}/{} ns={} {}/{} {}",
                info.verb, info.group, info.version, info.namespace, info.resource, info.name, info.subresource
            )
        } else {
            format!("{} {}", info.verb, info.path)
        };
        assert_eq!(seen.trim_end(), expected, "{method} {uri}");
    }

    #[test]
    fn reads_verbs_and_names_from_paths() {
        check("GET", "/api/v1/namespaces", "list /v1 ns= namespaces/");
        check("GET", "/api/v1/namespaces/a", "get /v1 ns=a namespaces/a");
        check("PUT", "/api/v1/namespaces/a/finalize", "update /v1 ns=a namespaces/a finalize");
        check("GET", "/api/v1/namespaces/a/configmaps", "list /v1 ns=a configmaps/");
        check("GET", "/api/v1/namespaces/a/configmaps?watch=1", "watch /v1 ns=a configmaps/");
        check("GET", "/api/v1/configmaps?watch=false", "list /v1 ns= configmaps/");
        check("DELETE", "/api/v1/namespaces/a/configmaps", "deletecollection /v1 ns=a configmaps/");
        check("POST", "/api/v1/namespaces/a/serviceaccounts/d/token", "create /v1 ns=a serviceaccounts/d token");
        check("PATCH", "/apis/g.io/v1/things/x/status", "patch g.io/v1 ns= things/x status");
        check("GET", "/apis", "get /apis");
        check("GET", "/apis/g.io/v1", "get /apis/g.io/v1");
        check("GET", "/healthz", "get /healthz");
        check("GET", "/api/v1/namespaces//configmaps", "list /v1 ns= configmaps/");
        check("GET", "/api/v1/watch/namespaces/a/configmaps", "watch /v1 ns=a configmaps/");
    }

    #[test]
    fn a_list_of_one_name_is_about_that_name() {
        let meant = |uri: &str| {
            let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
            RequestInfo::parse(&http::Method::GET, path, &Query::parse(query)).meant_name().to_owned()
        };
        assert_eq!(meant("/api/v1/configmaps?fieldSelector=metadata.name%3Dx"), "x");
        assert_eq!(meant("/api/v1/configmaps?watch=1&fieldSelector=metadata.name%3Dx,a%3Db"), "x");
        assert_eq!(meant("/api/v1/configmaps?fieldSelector=metadata.name!%3Dx"), "");
        assert_eq!(meant("/api/v1/configmaps?fieldSelector=metadata.name%3D.."), "");
        assert_eq!(meant("/api/v1/namespaces/a/configmaps/y?fieldSelector=metadata.name%3Dx"), "y");
    }

    proptest! {
        #[test]
        fn any_path_and_query_parse(path in "\\PC{0,80}", query in "\\PC{0,80}") {
            RequestInfo::parse(&http::Method::GET, &path, &Query::parse(&query));
        }
    }
}
