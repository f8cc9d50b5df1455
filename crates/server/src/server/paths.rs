//! Every path that is not one of resources, in one table: what is not in it is not served, and whoever wants to know what a
//! server answers to reads it. The access tests go through it, so that a new path cannot be forgotten there.

/// A path, or many of one form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathRoute {
    /// The path, where `{name}` stands for one segment and `{name...}` for whatever follows.
    pub pattern: &'static str,
    /// The methods by which it is there to be used.
    pub methods: &'static [&'static str],
    pub planes: Planes,
    pub(super) handler: Handler,
}

/// Which control planes have a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planes {
    /// The root and every project.
    All,
    /// What belongs to the server as a whole is no part of a project.
    Root,
}

/// What answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Handler {
    Index,
    Version,
    Metrics,
    Explain,
    KeySet,
    IssuerDocument,
    EncryptionStatus,
    Reencrypt,
    FlowDump,
    AcrossProjects,
    Health,
    OpenApi,
    Discovery,
}

const GET: &[&str] = &["GET"];

const fn everywhere(pattern: &'static str, handler: Handler) -> PathRoute {
    PathRoute { pattern, methods: GET, planes: Planes::All, handler }
}

const fn at_root(pattern: &'static str, handler: Handler) -> PathRoute {
    PathRoute { pattern, methods: GET, planes: Planes::Root, handler }
}

const ROUTES: &[PathRoute] = &[
    everywhere("/", Handler::Index),
    everywhere("/version", Handler::Version),
    everywhere("/version/", Handler::Version),
    everywhere("/healthz", Handler::Health),
    everywhere("/healthz/{check...}", Handler::Health),
    everywhere("/livez", Handler::Health),
    everywhere("/livez/{check...}", Handler::Health),
    everywhere("/readyz", Handler::Health),
    everywhere("/readyz/{check...}", Handler::Health),
    everywhere("/openapi/v2", Handler::OpenApi),
    everywhere("/openapi/v3", Handler::OpenApi),
    everywhere("/openapi/v3/{document...}", Handler::OpenApi),
    everywhere("/openid/v1/jwks", Handler::KeySet),
    everywhere("/.well-known/openid-configuration", Handler::IssuerDocument),
    everywhere("/auth/explain", Handler::Explain),
    everywhere("/api", Handler::Discovery),
    everywhere("/api/{version}", Handler::Discovery),
    everywhere("/apis", Handler::Discovery),
    everywhere("/apis/{group}", Handler::Discovery),
    everywhere("/apis/{group}/{version}", Handler::Discovery),
    at_root("/metrics", Handler::Metrics),
    at_root("/debug/api_priority_and_fairness/{dump}", Handler::FlowDump),
    at_root("/encryption/status", Handler::EncryptionStatus),
    PathRoute {
        pattern: "/encryption/reencrypt",
        methods: &["POST"],
        planes: Planes::Root,
        handler: Handler::Reencrypt,
    },
    at_root("/projects/*/{collection...}", Handler::AcrossProjects),
    at_root("/organizations/{organization}/projects/*/{collection...}", Handler::AcrossProjects),
];

impl PathRoute {
    /// All there are.
    pub fn all() -> &'static [PathRoute] {
        ROUTES
    }

    /// The one that a path belongs to, on control planes of this kind. Discovery does not mind slashes around it.
    pub(super) fn of(path: &str, is_root: bool) -> Option<&'static PathRoute> {
        let there = |route: &&PathRoute| is_root || route.planes == Planes::All;
        let exact = ROUTES.iter().filter(there).find(|route| matches(route.pattern, path));
        exact.or_else(|| {
            let trimmed = path.trim_matches('/');
            let discovery = ROUTES.iter().filter(|route| route.handler == Handler::Discovery);
            discovery.into_iter().find(|route| route.pattern.strip_prefix('/').is_some_and(|it| matches(it, trimmed)))
        })
    }
}

fn matches(pattern: &str, path: &str) -> bool {
    let (mut wanted, mut given) = (pattern.split('/'), path.split('/'));
    loop {
        match (wanted.next(), given.next()) {
            (None, None) => return true,
            (Some(rest), Some(_)) if rest.ends_with("...}") => return true,
            (Some(name), Some(segment)) if name.starts_with('{') => {
                if segment.is_empty() {
                    return false;
                }
            }
            (Some(name), Some(segment)) if name == segment => {}
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &str, at_root: Option<&str>, in_project: Option<&str>) {
        let of = |is_root| PathRoute::of(path, is_root).map(|route| route.pattern);
        assert_eq!((of(true), of(false)), (at_root, in_project), "{path}");
    }

    #[test]
    fn a_path_belongs_to_one_pattern() {
        let both = |path: &str, pattern: &str| check(path, Some(pattern), Some(pattern));
        both("/", "/");
        both("/livez", "/livez");
        both("/livez/", "/livez/{check...}");
        both("/livez/etcd", "/livez/{check...}");
        both("/openapi/v3/apis/apps/v1", "/openapi/v3/{document...}");
        both("/apis/apps", "/apis/{group}");
        both("/apis/apps/", "/apis/{group}");
        both("//api//", "/api");
        both("/apis/apps/v1", "/apis/{group}/{version}");
        check("/metrics", Some("/metrics"), None);
        check("/projects/*/api/v1/secrets", Some("/projects/*/{collection...}"), None);
        let dump = "/debug/api_priority_and_fairness/{dump}";
        check("/debug/api_priority_and_fairness/dump_queues", Some(dump), None);
    }

    #[test]
    fn what_is_not_in_the_table_is_nowhere() {
        for path in
            ["/livezz", "/metrics/", "/encryption", "/apis/apps/v1/deployments/x", "/projects/p/api", "/openapi"]
        {
            check(path, None, None);
        }
    }
}
