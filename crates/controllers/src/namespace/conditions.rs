//! What a namespace's status says about its deletion, in upstream's words: clients parse them.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{NamespaceCondition, NamespaceStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// A condition as it reads while all is well: type, reason, message.
type AllWell = (&'static str, &'static str, &'static str);

const DISCOVERY: AllWell =
    ("NamespaceDeletionDiscoveryFailure", "ResourcesDiscovered", "All resources successfully discovered");
const PARSING: AllWell =
    ("NamespaceDeletionGroupVersionParsingFailure", "ParsedGroupVersions", "All legacy kube types successfully parsed");
const CONTENT: AllWell = (
    "NamespaceDeletionContentFailure",
    "ContentDeleted",
    "All content successfully deleted, may be waiting on finalization",
);
const REMAINING: AllWell = ("NamespaceContentRemaining", "ContentRemoved", "All content successfully removed");
const FINALIZERS: AllWell =
    ("NamespaceFinalizersRemaining", "ContentHasNoFinalizers", "All content-preserving finalizers finished");

/// What a pass over a namespace found.
#[derive(Debug, Default)]
pub(super) struct Findings {
    /// Group-versions whose types are unknown.
    pub undiscovered: Vec<String>,
    /// What failed while deleting.
    pub failures: Vec<String>,
    /// Objects left, by `resource.group`.
    pub remaining: BTreeMap<String, usize>,
    /// Objects left, by the finalizer they have.
    pub finalizers: BTreeMap<String, usize>,
}

impl Findings {
    pub fn is_empty(&self) -> bool {
        self.undiscovered.is_empty() && self.failures.is_empty() && self.remaining.is_empty()
    }

    /// Writes the findings into `status`; tells whether that changed it.
    pub fn write(&self, status: &mut NamespaceStatus, now: Timestamp) -> bool {
        let wanted = [
            (DISCOVERY, self.discovery()),
            (PARSING, None),
            (CONTENT, self.content()),
            (REMAINING, self.content_remaining()),
            (FINALIZERS, self.finalizers_remaining()),
        ];
        let conditions = status.conditions.get_or_insert_default();
        let mut changed = false;
        for ((kind, reason, message), problem) in wanted {
            let (state, reason, message) = match problem {
                Some((reason, message)) => ("True", reason, message),
                None => ("False", reason, message.to_owned()),
            };
            changed |= set(conditions, kind, state, reason, message, now);
        }
        changed
    }

    fn discovery(&self) -> Option<(&'static str, String)> {
        if self.undiscovered.is_empty() {
            return None;
        }
        let stale: Vec<String> =
            self.undiscovered.iter().map(|gv| format!("{gv}: stale GroupVersion discovery: {gv}")).collect();
        let message = format!(
            "Discovery failed for some groups, {} failing: unable to retrieve the complete list of server APIs: {}",
            stale.len(),
            stale.join(", ")
        );
        Some(("DiscoveryFailed", message))
    }

    fn content(&self) -> Option<(&'static str, String)> {
        if self.failures.is_empty() {
            return None;
        }
        let mut failures = self.failures.clone();
        failures.sort();
        let message =
            format!("Failed to delete all resource types, {} remaining: {}", failures.len(), failures.join(", "));
        Some(("ContentDeletionFailed", message))
    }

    fn content_remaining(&self) -> Option<(&'static str, String)> {
        let listed = listed(&self.remaining, |resource, count| format!("{resource} has {count} resource instances"))?;
        Some(("SomeResourcesRemain", format!("Some resources are remaining: {listed}")))
    }

    fn finalizers_remaining(&self) -> Option<(&'static str, String)> {
        let listed = listed(&self.finalizers, |finalizer, count| format!("{finalizer} in {count} resource instances"))?;
        Some(("SomeFinalizersRemain", format!("Some content in the namespace has finalizers remaining: {listed}")))
    }
}

fn listed(counts: &BTreeMap<String, usize>, show: impl Fn(&str, usize) -> String) -> Option<String> {
    let mut shown: Vec<String> = counts.iter().map(|(name, count)| show(name, *count)).collect();
    shown.sort();
    Some(shown.join(", ")).filter(|text| !text.is_empty())
}

fn set(
    conditions: &mut Vec<NamespaceCondition>,
    kind: &str,
    state: &str,
    reason: &str,
    message: String,
    now: Timestamp,
) -> bool {
    let Some(known) = conditions.iter_mut().find(|known| known.type_ == kind) else {
        conditions.push(NamespaceCondition {
            type_: kind.to_owned(),
            status: state.to_owned(),
            reason: Some(reason.to_owned()),
            message: Some(message),
            last_transition_time: Some(Time(now)),
        });
        return true;
    };
    if known.status == state && known.reason.as_deref() == Some(reason) && known.message.as_ref() == Some(&message) {
        return false;
    }
    if known.status != state {
        known.last_transition_time = Some(Time(now));
    }
    known.status = state.to_owned();
    known.reason = Some(reason.to_owned());
    known.message = Some(message);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn condition<'a>(status: &'a NamespaceStatus, kind: &str) -> &'a NamespaceCondition {
        status.conditions.iter().flatten().find(|condition| condition.type_ == kind).unwrap()
    }

    #[test]
    fn an_empty_namespace_has_five_conditions_that_say_all_is_well() {
        let mut status = NamespaceStatus::default();
        assert!(Findings::default().write(&mut status, Timestamp::UNIX_EPOCH));
        let conditions = status.conditions.clone().unwrap();
        assert_eq!(conditions.len(), 5);
        assert!(conditions.iter().all(|condition| condition.status == "False"));
        assert!(!Findings::default().write(&mut status, Timestamp::now()), "nothing changed");
    }

    #[test]
    fn what_is_left_is_counted_by_type_and_by_finalizer() {
        let mut findings = Findings::default();
        findings.remaining.insert("configmaps.".to_owned(), 2);
        findings.remaining.insert("leases.coordination.k8s.io".to_owned(), 1);
        findings.finalizers.insert("example.com/hold".to_owned(), 3);
        let mut status = NamespaceStatus::default();
        findings.write(&mut status, Timestamp::UNIX_EPOCH);
        let message = |kind| condition(&status, kind).message.clone().unwrap();
        assert_eq!(
            message("NamespaceContentRemaining"),
            "Some resources are remaining: configmaps. has 2 resource instances, \
             leases.coordination.k8s.io has 1 resource instances"
        );
        assert_eq!(
            message("NamespaceFinalizersRemaining"),
            "Some content in the namespace has finalizers remaining: example.com/hold in 3 resource instances"
        );
        assert_eq!(condition(&status, "NamespaceDeletionContentFailure").status, "False");
    }

    #[test]
    fn the_transition_time_moves_with_the_status_only() {
        let mut status = NamespaceStatus::default();
        let mut findings = Findings { failures: vec!["one".to_owned()], ..Findings::default() };
        findings.write(&mut status, Timestamp::UNIX_EPOCH);
        findings.failures.push("another".to_owned());
        assert!(findings.write(&mut status, Timestamp::now()));
        let condition = condition(&status, "NamespaceDeletionContentFailure");
        assert_eq!(
            condition.message.as_deref(),
            Some("Failed to delete all resource types, 2 remaining: another, one")
        );
        assert_eq!(condition.last_transition_time, Some(Time(Timestamp::UNIX_EPOCH)));
    }
}
