//! Whether a request belongs to a FlowSchema: one of its rules names both the caller and what is asked.

use bailiwick_machinery::user::UserInfo;

use crate::spec::{Distinguisher, FlowSchemaSpec, NonResourceRule, ResourceRule, Rules, Subject};

const ALL: &str = "*";
const SERVICE_ACCOUNT_PREFIX: &str = "system:serviceaccount:";

/// What flow control wants to know of a request.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    pub user: &'a UserInfo,
    /// The project that is asked; empty for the root.
    pub project: &'a str,
    pub verb: &'a str,
    pub target: Target<'a>,
}

#[derive(Clone, Copy, Debug)]
pub enum Target<'a> {
    /// An empty namespace means the whole cluster.
    Resource {
        group: &'a str,
        resource: &'a str,
        subresource: &'a str,
        namespace: &'a str,
    },
    Path(&'a str),
}

impl<'a> Request<'a> {
    /// What tells this request's flow from others of the same schema: a user, or a namespace with the project it is in, whose
    /// neighbours have namespaces of the same names.
    pub fn distinguisher(&self, by: Option<Distinguisher>) -> (&'a str, &'a str) {
        match (by, self.target) {
            (None, _) => ("", ""),
            (Some(Distinguisher::ByUser), _) => ("", &self.user.name),
            (Some(Distinguisher::ByNamespace), Target::Path(_)) => (self.project, ""),
            (Some(Distinguisher::ByNamespace), Target::Resource { namespace, .. }) => (self.project, namespace),
        }
    }
}

/// Whether the request belongs to the schema.
pub fn matches(schema: &FlowSchemaSpec, request: &Request<'_>) -> bool {
    schema.rules.iter().any(|rules| matches_rules(rules, request))
}

fn matches_rules(rules: &Rules, request: &Request<'_>) -> bool {
    rules.subjects.iter().any(|subject| matches_subject(subject, request.user))
        && match request.target {
            Target::Resource { group, resource, subresource, namespace } => rules.resource_rules.iter().any(|rule| {
                contains(&rule.verbs, request.verb)
                    && contains(&rule.api_groups, group)
                    && contains_resource(&rule.resources, resource, subresource)
                    && matches_namespace(rule, namespace)
            }),
            Target::Path(path) => rules
                .non_resource_rules
                .iter()
                .any(|rule| contains(&rule.verbs, request.verb) && matches_path(rule, path)),
        }
}

fn matches_subject(subject: &Subject, user: &UserInfo) -> bool {
    match subject {
        Subject::User { user: wanted } => wanted.name == ALL || wanted.name == user.name,
        Subject::Group { group } => group.name == ALL || user.in_group(&group.name),
        Subject::ServiceAccount { service_account } => {
            let account = user.name.strip_prefix(SERVICE_ACCOUNT_PREFIX).and_then(|rest| rest.split_once(':'));
            account.is_some_and(|(namespace, name)| {
                namespace == service_account.namespace && (service_account.name == ALL || name == service_account.name)
            })
        }
    }
}

fn matches_namespace(rule: &ResourceRule, namespace: &str) -> bool {
    if namespace.is_empty() { rule.cluster_scope } else { contains(&rule.namespaces, namespace) }
}

/// A rule's path covers itself and everything below it, with or without a closing star.
fn matches_path(rule: &NonResourceRule, path: &str) -> bool {
    rule.urls.iter().any(|url| {
        let prefix = url.strip_suffix('*').unwrap_or(url);
        let prefix = prefix.strip_suffix('/').unwrap_or(prefix);
        url == ALL || url == path || path.strip_prefix(prefix).is_some_and(|rest| rest.starts_with('/'))
    })
}

/// A star counts only alone, which validation sees to.
fn contains(list: &[String], wanted: &str) -> bool {
    matches!(list, [only] if only == ALL) || list.iter().any(|item| item == wanted)
}

fn contains_resource(list: &[String], resource: &str, subresource: &str) -> bool {
    if subresource.is_empty() {
        return contains(list, resource);
    }
    matches!(list, [only] if only == ALL)
        || list.iter().any(|item| {
            item.strip_prefix(resource).and_then(|rest| rest.strip_prefix('/')).is_some_and(|rest| rest == subresource)
        })
}

#[cfg(test)]
mod tests;
