//! Which control plane a path addresses: the root one, or a project's under one of its two prefixes.

/// The short prefix: `/projects/<name>/…`.
pub const SHORT: &str = "/projects/";
/// The long prefix, Milo's: `…/projects/<name>/control-plane/…`.
pub const LONG: &str = "/apis/resourcemanager.miloapis.com/v1alpha1/projects/";
/// What ends the long prefix.
const LONG_END: &str = "/control-plane";

/// A path, divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProjectPath<'a> {
    /// The project's name as the path has it; `None` for the root.
    pub project: Option<&'a str>,
    /// The path within the control plane, with its slash.
    pub rest: &'a str,
}

impl<'a> ProjectPath<'a> {
    /// Divides a path. What is not exactly one of the prefixes is a path of the root, which serves nothing there: no
    /// escapes, doubled slashes or dots lead into a project.
    pub fn of(path: &'a str) -> Self {
        let root = Self { project: None, rest: path };
        // Nearly all paths of the root end here.
        if let Some(after) = path.strip_prefix(SHORT) {
            return match split_name(after) {
                Some((project, rest)) => Self { project: Some(project), rest },
                None => root,
            };
        }
        let Some((name, rest)) = path.strip_prefix(LONG).and_then(split_name) else { return root };
        match rest.strip_prefix(LONG_END) {
            Some("") => Self { project: Some(name), rest: "/" },
            Some(rest) if rest.starts_with('/') => Self { project: Some(name), rest },
            _ => root,
        }
    }
}

fn split_name(after: &str) -> Option<(&str, &str)> {
    let (name, rest) = match after.find('/') {
        Some(slash) => after.split_at(slash),
        None => (after, "/"),
    };
    // All projects at once are the root's to read.
    (!name.is_empty() && name != "*").then_some((name, rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(path: &str, project: Option<&str>, rest: &str) {
        assert_eq!(ProjectPath::of(path), ProjectPath { project, rest }, "{path}");
    }

    #[test]
    fn both_prefixes_lead_into_a_project() {
        check("/projects/p1/api/v1/namespaces", Some("p1"), "/api/v1/namespaces");
        check("/projects/p1", Some("p1"), "/");
        check("/projects/p1/", Some("p1"), "/");
        let long = "/apis/resourcemanager.miloapis.com/v1alpha1/projects/p1/control-plane";
        check(&format!("{long}/apis"), Some("p1"), "/apis");
        check(long, Some("p1"), "/");
    }

    #[test]
    fn everything_else_is_the_roots() {
        for path in [
            "/",
            "/api/v1/namespaces",
            "/projects",
            "/projects/",
            "/projects//api",
            "/projects/*/api/v1/namespaces",
            "//projects/p1/api",
            "/%70rojects/p1/api",
            "/apis/resourcemanager.miloapis.com/v1alpha1/projects/p1",
            "/apis/resourcemanager.miloapis.com/v1alpha1/projects/p1/status",
            "/apis/resourcemanager.miloapis.com/v1alpha1/projects/p1/control-planes",
            "/apis/resourcemanager.miloapis.com/v1alpha1/projects//control-plane/api",
            "/apis/resourcemanager.miloapis.com/v1alpha1/projects/p1%2fcontrol-plane/api",
        ] {
            check(path, None, path);
        }
    }

    #[test]
    fn a_prefix_counts_once() {
        check("/projects/p1/projects/p2/api", Some("p1"), "/projects/p2/api");
        check("/projects/../api", Some(".."), "/api");
    }

    proptest! {
        #[test]
        fn any_path_divides(path in "/\\PC{0,80}") {
            let divided = ProjectPath::of(&path);
            prop_assert!(divided.rest.starts_with('/'));
        }
    }
}
