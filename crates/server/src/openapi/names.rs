//! Names in documents: operation ids and tags, which generated clients turn into method names.

/// The name of a group in tags and ids: `rbac.authorization.k8s.io` is `rbacAuthorization`.
pub(super) fn group(group: &str) -> String {
    if group.is_empty() {
        return "core".to_owned();
    }
    let mut words = group.strip_suffix(".k8s.io").unwrap_or(group).split(['.', '-']);
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |name, word| name + &capitalized(word))
}

/// The tag of a group version: `rbacAuthorization_v1`.
pub(super) fn tag(group_name: &str, version: &str) -> String {
    format!("{}_{version}", group(group_name))
}

/// The middle of ids: `RbacAuthorizationV1`.
pub(super) fn group_version(group_name: &str, version: &str) -> String {
    capitalized(&group(group_name)) + &capitalized(version)
}

pub(super) fn capitalized(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters).collect()
}

/// The article before a kind.
pub(super) fn article(kind: &str) -> &'static str {
    if kind.starts_with(['A', 'E', 'I', 'O', 'U']) { "an" } else { "a" }
}
