//! Upstream's plugins by name: which are on by default, which there is nothing to do for here.

/// What a name of upstream's means here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// Runs unless it is switched off.
    OnByDefault,
    /// Runs if it is switched on.
    OffByDefault,
    /// About pods, nodes, volumes and the like, of which there are none: accepted, and nothing happens.
    NothingToDo,
    /// Would have something to do, and is not built.
    Unsupported,
}

const NAMES: &[(&str, Known)] = &[
    ("AlwaysAdmit", Known::NothingToDo),
    ("AlwaysDeny", Known::Unsupported),
    ("AlwaysPullImages", Known::NothingToDo),
    ("CertificateApproval", Known::OnByDefault),
    ("CertificateSigning", Known::OnByDefault),
    ("CertificateSubjectRestriction", Known::OnByDefault),
    ("ClusterTrustBundleAttest", Known::NothingToDo),
    ("DefaultIngressClass", Known::NothingToDo),
    ("DefaultStorageClass", Known::NothingToDo),
    ("DefaultTolerationSeconds", Known::NothingToDo),
    ("DenyServiceExternalIPs", Known::NothingToDo),
    ("EventRateLimit", Known::OffByDefault),
    ("ExtendedResourceToleration", Known::NothingToDo),
    ("ImagePolicyWebhook", Known::NothingToDo),
    ("JobValidation", Known::NothingToDo),
    ("LimitPodHardAntiAffinityTopology", Known::NothingToDo),
    ("LimitRanger", Known::NothingToDo),
    ("MutatingAdmissionPolicy", Known::OnByDefault),
    ("MutatingAdmissionWebhook", Known::OnByDefault),
    ("NamespaceAutoProvision", Known::Unsupported),
    // Part of NamespaceLifecycle.
    ("NamespaceExists", Known::NothingToDo),
    ("NamespaceLifecycle", Known::OnByDefault),
    ("NodeDeclaredFeatureValidator", Known::NothingToDo),
    ("NodeRestriction", Known::NothingToDo),
    ("OwnerReferencesPermissionEnforcement", Known::OffByDefault),
    ("PersistentVolumeClaimResize", Known::NothingToDo),
    ("PodGroupProtection", Known::NothingToDo),
    ("PodGroupWorkloadExists", Known::NothingToDo),
    ("PodNodeSelector", Known::NothingToDo),
    ("PodResizeValidator", Known::NothingToDo),
    ("PodSecurity", Known::NothingToDo),
    ("PodTolerationRestriction", Known::NothingToDo),
    ("PodTopologyLabels", Known::NothingToDo),
    ("Priority", Known::NothingToDo),
    ("ResourceQuota", Known::OnByDefault),
    ("RuntimeClass", Known::NothingToDo),
    // What it does is about pods.
    ("ServiceAccount", Known::NothingToDo),
    ("StorageObjectInUseProtection", Known::NothingToDo),
    ("TaintNodesByCondition", Known::NothingToDo),
    ("ValidatingAdmissionPolicy", Known::OnByDefault),
    ("ValidatingAdmissionWebhook", Known::OnByDefault),
];

/// What a name means; `None` when upstream has no such plugin.
pub fn known(name: &str) -> Option<Known> {
    NAMES.iter().find(|(known, _)| *known == name).map(|(_, meaning)| *meaning)
}

/// Flags that name plugins wrongly, each fault as upstream words it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.join("\n"))]
pub struct UnknownPlugins(pub Vec<String>);

/// Checks the names that `--enable-admission-plugins` and `--disable-admission-plugins` give. `own` are plugins compiled
/// in through the library.
pub fn check_names(enabled: &[String], disabled: &[String], own: &[&str]) -> Result<(), UnknownPlugins> {
    let mut faults = Vec::new();
    for (flag, names) in [("enable-admission-plugins", enabled), ("disable-admission-plugins", disabled)] {
        for name in names {
            match known(name) {
                _ if own.contains(&name.as_str()) => {}
                None => faults.push(format!("{flag} plugin {name:?} is unknown")),
                Some(Known::Unsupported) => faults.push(format!("{flag} plugin {name:?} is not built here")),
                Some(_) => {}
            }
        }
    }
    let mut both: Vec<&str> = enabled.iter().filter(|name| disabled.contains(name)).map(String::as_str).collect();
    both.sort_unstable();
    both.dedup();
    if !both.is_empty() {
        let both = both.join(" ");
        faults.push(format!("[{both}] in enable-admission-plugins and disable-admission-plugins overlapped"));
    }
    if faults.is_empty() { Ok(()) } else { Err(UnknownPlugins(faults)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_upstreams_or_ones_own() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let check = |on: &[&str], off: &[&str]| check_names(&names(on), &names(off), &["Ours"]);
        assert_eq!(check(&["NodeRestriction", "EventRateLimit", "Ours"], &["ResourceQuota"]), Ok(()));
        let faults = check(&["Foo", "ResourceQuota"], &["Bar", "ResourceQuota"]).unwrap_err().0;
        assert_eq!(
            faults,
            [
                "enable-admission-plugins plugin \"Foo\" is unknown",
                "disable-admission-plugins plugin \"Bar\" is unknown",
                "[ResourceQuota] in enable-admission-plugins and disable-admission-plugins overlapped",
            ]
        );
    }
}
