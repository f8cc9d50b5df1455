//! Which rule of a policy a request falls under. Pure, and borrows everything it looks at.

use bailiwick_machinery::audit::Level;
use bailiwick_machinery::user::UserInfo;

use crate::event::Stage;
use crate::policy::Policy;

/// A rule of a policy. Empty lists match everything.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    pub level: Level,
    pub users: Vec<String>,
    pub user_groups: Vec<String>,
    pub verbs: Vec<String>,
    pub resources: Vec<GroupResources>,
    pub namespaces: Vec<String>,
    pub non_resource_urls: Vec<String>,
    pub omit_stages: StageSet,
    pub omit_managed_fields: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct GroupResources {
    pub group: String,
    pub resources: Vec<String>,
    pub resource_names: Vec<String>,
}

/// A set of stages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StageSet(u8);

impl StageSet {
    pub fn contains(self, stage: Stage) -> bool {
        self.0 & stage.bit() != 0
    }

    pub(crate) fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl FromIterator<Stage> for StageSet {
    fn from_iter<I: IntoIterator<Item = Stage>>(stages: I) -> Self {
        Self(stages.into_iter().fold(0, |bits, stage| bits | stage.bit()))
    }
}

/// What a policy says about one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestRules {
    pub level: Level,
    pub omit_stages: StageSet,
    pub omit_managed_fields: bool,
}

/// A request as a policy sees it. For paths that are no resources all but the path is empty.
#[derive(Clone, Copy, Debug, Default)]
pub struct Subject<'a> {
    /// Nobody when authentication failed.
    pub user: Option<&'a UserInfo>,
    pub verb: &'a str,
    pub is_resource: bool,
    pub group: &'a str,
    pub resource: &'a str,
    pub subresource: &'a str,
    pub namespace: &'a str,
    pub name: &'a str,
    pub path: &'a str,
}

impl Policy {
    /// How much of a request is recorded. Requests that no rule matches are not.
    pub fn evaluate(&self, subject: &Subject<'_>) -> RequestRules {
        match self.rules.iter().find(|rule| rule.matches(subject)) {
            Some(rule) => RequestRules {
                level: rule.level,
                omit_stages: rule.omit_stages,
                omit_managed_fields: rule.omit_managed_fields,
            },
            None => RequestRules { level: Level::None, omit_stages: StageSet::default(), omit_managed_fields: false },
        }
    }
}

impl Rule {
    fn matches(&self, subject: &Subject<'_>) -> bool {
        let user = || subject.user.is_some_and(|user| self.users.contains(&user.name));
        let group = || subject.user.is_some_and(|user| user.groups.iter().any(|g| self.user_groups.contains(g)));
        if (!self.users.is_empty() && !user())
            || (!self.user_groups.is_empty() && !group())
            || (!self.verbs.is_empty() && !has(&self.verbs, subject.verb))
        {
            return false;
        }
        if !self.namespaces.is_empty() || !self.resources.is_empty() {
            return subject.is_resource
                && (self.namespaces.is_empty() || has(&self.namespaces, subject.namespace))
                && (self.resources.is_empty() || self.resources.iter().any(|resources| resources.matches(subject)));
        }
        if !self.non_resource_urls.is_empty() {
            return !subject.is_resource && self.non_resource_urls.iter().any(|url| url_matches(url, subject.path));
        }
        true
    }
}

impl GroupResources {
    fn matches(&self, subject: &Subject<'_>) -> bool {
        if self.group != subject.group && self.group != "*" {
            return false;
        }
        if self.resources.is_empty() {
            return true;
        }
        if !self.resource_names.is_empty() && !has(&self.resource_names, subject.name) {
            return false;
        }
        self.resources.iter().any(|wanted| resource_matches(wanted, subject.resource, subject.subresource))
    }
}

/// `pods`, `pods/log`, `*`, `*/scale` and `pods/*`, which stands for the resource and everything below it.
fn resource_matches(wanted: &str, resource: &str, subresource: &str) -> bool {
    if wanted == "*" {
        return true;
    }
    match wanted.split_once('/') {
        None => subresource.is_empty() && wanted == resource,
        Some((of, "*")) if of == resource => true,
        Some((of, sub)) => !subresource.is_empty() && sub == subresource && (of == resource || of == "*"),
    }
}

fn url_matches(wanted: &str, path: &str) -> bool {
    wanted == path || wanted.strip_suffix('*').is_some_and(|prefix| path.starts_with(prefix.trim_end_matches('*')))
}

fn has(list: &[String], value: &str) -> bool {
    list.iter().any(|entry| entry == value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(rules: &str) -> Policy {
        Policy::parse(&format!("apiVersion: audit.k8s.io/v1\nkind: Policy\n{rules}")).expect("a policy")
    }

    fn resource<'a>(resource: &'a str, subresource: &'a str) -> Subject<'a> {
        Subject {
            verb: "get",
            is_resource: true,
            resource,
            subresource,
            namespace: "ns",
            name: "x",
            ..Subject::default()
        }
    }

    #[test]
    fn the_first_matching_rule_decides() {
        let policy = policy(
            "rules: [{level: None, verbs: [watch]}, {level: Request, resources: [{resources: [secrets]}]}, {level: Metadata}]",
        );
        let level = |subject| policy.evaluate(&subject).level;
        assert_eq!(level(Subject { verb: "watch", ..resource("secrets", "") }), Level::None);
        assert_eq!(level(resource("secrets", "")), Level::Request);
        assert_eq!(level(resource("configmaps", "")), Level::Metadata);
        assert_eq!(level(Subject { path: "/version", ..Subject::default() }), Level::Metadata);
    }

    #[test]
    fn subresources_match_only_where_named() {
        let matches = |wanted: &str, subject: Subject<'_>| {
            let rules = format!("rules: [{{level: Metadata, resources: [{{resources: ['{wanted}']}}]}}]");
            policy(&rules).evaluate(&subject).level == Level::Metadata
        };
        assert!(matches("pods", resource("pods", "")));
        assert!(!matches("pods", resource("pods", "status")));
        assert!(matches("pods/status", resource("pods", "status")));
        assert!(matches("pods/*", resource("pods", "status")) && matches("pods/*", resource("pods", "")));
        assert!(matches("*/status", resource("pods", "status")) && !matches("*/status", resource("pods", "")));
        assert!(matches("*", resource("pods", "status")));
    }

    #[test]
    fn users_groups_names_namespaces_and_paths_narrow_a_rule() {
        let user = UserInfo { name: "ann".into(), groups: vec!["dev".into()], ..UserInfo::default() };
        let matches = |rule: &str, subject: Subject<'_>| {
            policy(&format!("rules: [{{level: Metadata, {rule}}}]")).evaluate(&subject).level == Level::Metadata
        };
        let known = Subject { user: Some(&user), ..resource("pods", "") };
        assert!(matches("users: [ann]", known) && !matches("users: [ann]", resource("pods", "")));
        assert!(matches("userGroups: [dev]", known) && !matches("userGroups: [ops]", known));
        assert!(matches("namespaces: [ns]", known) && !matches("namespaces: ['']", known));
        assert!(matches("resources: [{resources: [pods], resourceNames: [x]}]", known));
        assert!(!matches("resources: [{resources: [pods], resourceNames: [other]}]", known));
        assert!(!matches("resources: [{group: apps}]", known) && matches("resources: [{group: '*'}]", known));
        let path = Subject { path: "/healthz/etcd", ..Subject::default() };
        assert!(matches("nonResourceURLs: ['/healthz*']", path) && matches("nonResourceURLs: ['*']", path));
        assert!(!matches("nonResourceURLs: [/healthz]", path) && !matches("nonResourceURLs: ['*']", known));
    }

    #[test]
    fn stages_add_up_and_managed_fields_are_overridden() {
        let policy = policy(
            "omitStages: [RequestReceived]\nomitManagedFields: true\nrules: [{level: Request, verbs: [get], omitStages: [Panic], \
             omitManagedFields: false}, {level: Request}]",
        );
        let got = policy.evaluate(&resource("pods", ""));
        assert!(got.omit_stages.contains(Stage::RequestReceived) && got.omit_stages.contains(Stage::Panic));
        assert!(!got.omit_managed_fields);
        assert!(policy.evaluate(&Subject { verb: "list", ..resource("pods", "") }).omit_managed_fields);
    }
}
