//! An explanation in sentences.

use std::fmt::Write;

use bailiwick_auth::authz::PolicyRule;
use bailiwick_auth::authz::explain::{Explanation, Grant, Miss, ObjectRef, Verdict};

/// What was asked.
#[derive(Debug, Default)]
pub struct Question {
    /// The sender if `None`.
    pub user: Option<String>,
    pub groups: Vec<String>,
    pub verb: String,
    pub path: String,
    pub group: String,
    pub resource: String,
    pub subresource: String,
    pub namespace: String,
    pub name: String,
}

impl Question {
    fn action(&self) -> String {
        if !self.path.is_empty() {
            return format!("{} {}", self.verb, self.path);
        }
        let mut action = format!("{} {}", self.verb, self.resource);
        if !self.group.is_empty() {
            let _ = write!(action, ".{}", self.group);
        }
        if !self.subresource.is_empty() {
            let _ = write!(action, "/{}", self.subresource);
        }
        if !self.name.is_empty() {
            let _ = write!(action, " {:?}", self.name);
        }
        match self.namespace.as_str() {
            "" => action.push_str(" in the whole cluster"),
            namespace => {
                let _ = write!(action, " in namespace {namespace:?}");
            }
        }
        action
    }
}

/// The whole answer, line by line.
pub fn text(question: &Question, explanation: &Explanation) -> String {
    let who = question.user.as_deref().unwrap_or("you");
    let action = question.action();
    let mut out = match explanation.allowed {
        true => format!("yes: {who} may {action}\n"),
        false => format!("no: {who} may not {action}\n"),
    };
    for step in &explanation.steps {
        let verdict = match step.verdict {
            Verdict::Allow => "allows it",
            Verdict::Deny => "refuses it",
            Verdict::NoOpinion => "does not allow it",
        };
        let _ = write!(out, "\n{} {verdict}", step.authorizer);
        match (&step.grant, step.reason.as_str()) {
            (Some(grant), _) => {
                let _ = write!(out, ":\n  {}\n  by the rule {}", given(grant), rule(&grant.rule));
            }
            (None, "") => {}
            (None, reason) => {
                let _ = write!(out, ": {reason}");
            }
        }
        out.push('\n');
        if !step.misses.is_empty() {
            out.push_str("nearest to allowing it:\n");
        }
        for miss in &step.misses {
            let _ = writeln!(out, "- {}", describe(miss, question));
        }
        if step.verdict == Verdict::NoOpinion && step.authorizer == "RBAC" && step.misses.is_empty() {
            let _ = writeln!(out, "no role that is stored would allow it");
        }
    }
    out
}

fn object(object: &ObjectRef) -> String {
    match object.namespace.as_str() {
        "" => format!("{} {:?}", object.kind, object.name),
        namespace => format!("{} {:?} of namespace {namespace:?}", object.kind, object.name),
    }
}

fn given(grant: &Grant) -> String {
    format!("{} gives {} to {}", object(&grant.binding), object(&grant.role), grant.subject)
}

fn rule(rule: &PolicyRule) -> String {
    let list = |items: &[String]| {
        let shown: Vec<&str> = items.iter().map(|item| if item.is_empty() { "\"\"" } else { item }).collect();
        shown.join(", ")
    };
    if !rule.non_resource_urls.is_empty() {
        return format!("{} on {}", list(&rule.verbs), list(&rule.non_resource_urls));
    }
    let mut text =
        format!("{} on {} of API group {}", list(&rule.verbs), list(&rule.resources), list(&rule.api_groups));
    if !rule.resource_names.is_empty() {
        let _ = write!(text, ", only named {}", list(&rule.resource_names));
    }
    text
}

fn describe(miss: &Miss, question: &Question) -> String {
    let but = |grant: &Grant, what: String| format!("{}, but {what}: {}", given(grant), rule(&grant.rule));
    match miss {
        Miss::Role { binding, subject, role } => {
            format!("{} names {subject}, but {} does not exist", object(binding), object(role))
        }
        Miss::Verb { grant } => but(grant, format!("not the verb {}", question.verb)),
        Miss::ResourceName { grant } => but(
            grant,
            match question.name.as_str() {
                "" => "only objects of certain names".to_owned(),
                name => format!("not the name {name:?}"),
            },
        ),
        Miss::Subresource { grant } => but(
            grant,
            match question.subresource.as_str() {
                "" => "only a subresource".to_owned(),
                subresource => format!("not the subresource {subresource}"),
            },
        ),
        Miss::ApiGroup { grant } => but(grant, format!("not the API group {:?}", question.group)),
        Miss::Namespace { grant } => but(grant, "in another namespace".to_owned()),
        Miss::Binding { role } => {
            let by = if role.namespace.is_empty() && question.namespace.is_empty() {
                "a ClusterRoleBinding"
            } else {
                "a RoleBinding there"
            };
            format!(
                "{} would allow it; nothing binds {} to it (needs {by})",
                object(role),
                question.user.as_deref().unwrap_or("you")
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use bailiwick_auth::authz::explain::Step;

    use super::*;

    fn grant() -> Grant {
        Grant {
            binding: ObjectRef { kind: "RoleBinding".into(), namespace: "a".into(), name: "b".into() },
            subject: "User \"alice\"".into(),
            role: ObjectRef { kind: "ClusterRole".into(), namespace: String::new(), name: "reader".into() },
            rule: PolicyRule::on_resources(&["get", "list"], &[""], &["configmaps"]),
        }
    }

    fn question(verb: &str) -> Question {
        Question {
            user: Some("alice".into()),
            verb: verb.into(),
            resource: "configmaps".into(),
            namespace: "a".into(),
            ..Question::default()
        }
    }

    #[test]
    fn an_allowed_request_names_binding_role_and_rule() {
        let step = Step {
            authorizer: "RBAC".into(),
            verdict: Verdict::Allow,
            reason: "RBAC: allowed".into(),
            grant: Some(grant()),
            misses: Vec::new(),
        };
        let explanation = Explanation { allowed: true, reason: String::new(), steps: vec![step] };
        assert_eq!(
            text(&question("get"), &explanation),
            "yes: alice may get configmaps in namespace \"a\"\n\nRBAC allows it:\n  RoleBinding \"b\" of namespace \"a\" gives \
             ClusterRole \"reader\" to User \"alice\"\n  by the rule get, list on configmaps of API group \"\"\n"
        );
    }

    #[test]
    fn a_refused_request_says_what_is_missing() {
        let step = Step {
            authorizer: "RBAC".into(),
            verdict: Verdict::NoOpinion,
            reason: String::new(),
            grant: None,
            misses: vec![Miss::Verb { grant: grant() }],
        };
        let explanation = Explanation { allowed: false, reason: String::new(), steps: vec![step] };
        let text = text(&question("delete"), &explanation);
        assert!(text.starts_with("no: alice may not delete configmaps in namespace \"a\"\n"), "{text}");
        assert!(text.contains("but not the verb delete: get, list on configmaps"), "{text}");
    }
}
