//! Whether rules cover others, and what they leave uncovered: the arithmetic behind escalation checks and the
//! reconciliation of default roles.

use std::collections::BTreeSet;

use super::PolicyRule;
use super::rule::path_matches;
use crate::go_format::quoted_list;

/// The most single permissions a set of rules may amount to if it is to be compared. The product of a rule's lists can be
/// astronomic within the size of one request; the largest role known has some hundred.
const PERMISSIONS_MAX: usize = 100_000;

/// The rules amount to more permissions than can be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the rules amount to more than {PERMISSIONS_MAX} single permissions")]
pub struct TooMany;

/// What `owned` does not cover of `wanted`, as rules of one permission each; nothing if it covers all.
pub fn uncovered<O: AsRef<PolicyRule>, W: AsRef<PolicyRule>>(
    owned: &[O],
    wanted: &[W],
) -> Result<Vec<PolicyRule>, TooMany> {
    let counts = wanted.iter().map(|rule| permissions(rule.as_ref()));
    if counts.fold(0, usize::saturating_add) > PERMISSIONS_MAX {
        return Err(TooMany);
    }
    let mut missing = Vec::new();
    for rule in wanted {
        for_each_permission(rule.as_ref(), |permission| {
            if !owned.iter().any(|owned| covers(owned.as_ref(), &permission)) {
                missing.push(permission.to_rule());
            }
        });
    }
    Ok(missing)
}

/// How many single permissions a rule amounts to.
fn permissions(rule: &PolicyRule) -> usize {
    let verbs = rule.verbs.len();
    let on_resources = verbs
        .saturating_mul(rule.api_groups.len())
        .saturating_mul(rule.resources.len())
        .saturating_mul(rule.resource_names.len().max(1));
    on_resources.saturating_add(verbs.saturating_mul(rule.non_resource_urls.len()))
}

/// One verb on one thing.
enum Permission<'a> {
    Resource { verb: &'a str, group: &'a str, resource: &'a str, name: Option<&'a str> },
    Path { verb: &'a str, path: &'a str },
}

impl Permission<'_> {
    fn to_rule(&self) -> PolicyRule {
        match self {
            Self::Resource { verb, group, resource, name } => PolicyRule {
                resource_names: name.iter().map(|name| (*name).to_owned()).collect(),
                ..PolicyRule::on_resources(&[verb], &[group], &[resource])
            },
            Self::Path { verb, path } => PolicyRule::on_paths(&[verb], &[path]),
        }
    }
}

fn for_each_permission<'a>(rule: &'a PolicyRule, mut visit: impl FnMut(Permission<'a>)) {
    for group in &rule.api_groups {
        for resource in &rule.resources {
            for verb in &rule.verbs {
                if rule.resource_names.is_empty() {
                    visit(Permission::Resource { verb, group, resource, name: None });
                }
                for name in &rule.resource_names {
                    visit(Permission::Resource { verb, group, resource, name: Some(name) });
                }
            }
        }
    }
    for path in &rule.non_resource_urls {
        for verb in &rule.verbs {
            visit(Permission::Path { verb, path });
        }
    }
}

fn covers(owned: &PolicyRule, permission: &Permission<'_>) -> bool {
    let has = |list: &[String], text: &str| list.iter().any(|item| item == "*" || item == text);
    match permission {
        Permission::Resource { verb, group, resource, name } => {
            has(&owned.verbs, verb)
                && has(&owned.api_groups, group)
                && covers_resource(&owned.resources, resource)
                && match name {
                    None => owned.resource_names.is_empty(),
                    Some(name) => {
                        owned.resource_names.is_empty() || owned.resource_names.iter().any(|owned| owned == name)
                    }
                }
        }
        Permission::Path { verb, path } => {
            has(&owned.verbs, verb)
                && owned.resource_names.is_empty()
                && owned.non_resource_urls.iter().any(|owned| path_matches(owned, path))
        }
    }
}

fn covers_resource(owned: &[String], resource: &str) -> bool {
    let under = resource.split_once('/').map(|(_, subresource)| subresource);
    owned.iter().any(|owned| {
        owned == "*"
            || owned == resource
            || under.is_some_and(|under| owned.strip_prefix("*/").is_some_and(|owned| owned == under))
    })
}

/// Rules that each name one resource, with the verbs of those on the same resource put together; others stay as they are.
pub fn compact(rules: Vec<PolicyRule>) -> Vec<PolicyRule> {
    let mut compacted: Vec<PolicyRule> = Vec::with_capacity(rules.len());
    for rule in rules {
        let is_simple = rule.api_groups.len() == 1
            && rule.resources.len() == 1
            && rule.resource_names.len() <= 1
            && rule.non_resource_urls.is_empty();
        let same = |other: &&mut PolicyRule| {
            is_simple
                && other.api_groups == rule.api_groups
                && other.resources == rule.resources
                && other.resource_names == rule.resource_names
                && other.non_resource_urls.is_empty()
        };
        match compacted.iter_mut().rev().find(same) {
            Some(other) => other.verbs.extend(rule.verbs),
            None => compacted.push(rule),
        }
    }
    compacted
}

/// Rules one per line, sorted, as refusals list them.
pub fn described(rules: &[PolicyRule]) -> String {
    let lines: BTreeSet<String> = rules.iter().map(describe).collect();
    lines.into_iter().collect::<Vec<_>>().join("\n")
}

fn describe(rule: &PolicyRule) -> String {
    let lists = [
        ("APIGroups", &rule.api_groups),
        ("Resources", &rule.resources),
        ("NonResourceURLs", &rule.non_resource_urls),
        ("ResourceNames", &rule.resource_names),
        ("Verbs", &rule.verbs),
    ];
    let said: Vec<String> = lists
        .into_iter()
        .filter(|(_, list)| !list.is_empty())
        .map(|(name, list)| format!("{name}:{}", quoted_list(list)))
        .collect();
    format!("{{{}}}", said.join(", "))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn on(verbs: &[&str], groups: &[&str], resources: &[&str]) -> Arc<PolicyRule> {
        Arc::new(PolicyRule::on_resources(verbs, groups, resources))
    }

    fn named(rule: &PolicyRule, names: &[&str]) -> Arc<PolicyRule> {
        Arc::new(PolicyRule { resource_names: names.iter().map(|n| (*n).to_owned()).collect(), ..rule.clone() })
    }

    #[track_caller]
    fn check(owned: &[Arc<PolicyRule>], wanted: &[Arc<PolicyRule>], missing: &str) {
        let found = uncovered(owned, wanted).expect("few permissions");
        assert_eq!(described(&compact(found)), missing);
    }

    #[test]
    fn wildcards_cover_what_they_stand_for() {
        let all = on(&["*"], &["*"], &["*"]);
        check(std::slice::from_ref(&all), &[on(&["get"], &["", "apps"], &["a", "b/c"]), all.clone()], "");
        check(&[on(&["get"], &[""], &["*/scale"])], &[on(&["get"], &[""], &["x/scale"])], "");
        let status = r#"{APIGroups:[""], Resources:["x/status"], Verbs:["get"]}"#;
        check(&[on(&["get"], &[""], &["*/scale", "x"])], &[on(&["get"], &[""], &["x/scale", "x/status"])], status);
        // A star in what is wanted is only covered by a star.
        check(
            &[on(&["get"], &[""], &["a"])],
            &[on(&["*"], &[""], &["a"])],
            r#"{APIGroups:[""], Resources:["a"], Verbs:["*"]}"#,
        );
        check(
            &[all],
            &[Arc::new(PolicyRule::on_paths(&["get"], &["/x"]))],
            r#"{NonResourceURLs:["/x"], Verbs:["get"]}"#,
        );
    }

    #[test]
    fn names_narrow_a_rule() {
        let secrets = on(&["get"], &[""], &["secrets"]);
        check(std::slice::from_ref(&secrets), &[named(&secrets, &["a", "b"])], "");
        let missing = r#"{APIGroups:[""], Resources:["secrets"], ResourceNames:["b"], Verbs:["get"]}"#;
        check(&[named(&secrets, &["a"])], &[named(&secrets, &["a", "b"])], missing);
        check(&[named(&secrets, &["a"])], &[secrets], r#"{APIGroups:[""], Resources:["secrets"], Verbs:["get"]}"#);
    }

    #[test]
    fn paths_cover_by_prefix() {
        let rule = |paths: &[&str]| [Arc::new(PolicyRule::on_paths(&["get"], paths))];
        check(&rule(&["/apis/*"]), &rule(&["/apis/apps", "/apis/*"]), "");
        check(&rule(&["/apis/*"]), &rule(&["/apis"]), r#"{NonResourceURLs:["/apis"], Verbs:["get"]}"#);
    }

    #[test]
    fn missing_verbs_of_a_resource_are_told_together() {
        let wanted = [on(&["get", "list"], &["", "apps"], &["pods"]), on(&["watch"], &[""], &["pods"])];
        let missing = "{APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"get\" \"list\" \"watch\"]}\n\
                       {APIGroups:[\"apps\"], Resources:[\"pods\"], Verbs:[\"get\" \"list\"]}";
        check(&[], &wanted, missing);
    }

    #[test]
    fn astronomic_rules_are_not_multiplied_out() {
        let many: Vec<String> = (0..1000).map(|n| n.to_string()).collect();
        let rule =
            PolicyRule { verbs: many.clone(), api_groups: many.clone(), resources: many, ..PolicyRule::default() };
        assert_eq!(uncovered::<Arc<PolicyRule>, _>(&[], &[Arc::new(rule)]), Err(TooMany));
    }
}
