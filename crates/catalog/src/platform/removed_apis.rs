//! APIs that Kubernetes once served and no longer does, with the version that dropped them: manifests that use them cannot
//! be installed there.

use crate::version::Version;

/// Group, version, kinds (all if there are none), and the minor version of Kubernetes 1 without them.
const REMOVED: &[(&str, &str, &[&str], u64)] = &[
    (
        "admissionregistration.k8s.io",
        "v1beta1",
        &["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"],
        22,
    ),
    ("apiextensions.k8s.io", "v1beta1", &[], 22),
    ("apiregistration.k8s.io", "v1beta1", &[], 22),
    ("apps", "v1beta1", &[], 16),
    ("apps", "v1beta2", &[], 16),
    ("authentication.k8s.io", "v1beta1", &["TokenReview"], 22),
    ("authorization.k8s.io", "v1beta1", &[], 22),
    ("autoscaling", "v2beta1", &[], 25),
    ("autoscaling", "v2beta2", &[], 26),
    ("batch", "v1beta1", &["CronJob"], 25),
    ("certificates.k8s.io", "v1beta1", &["CertificateSigningRequest"], 22),
    ("coordination.k8s.io", "v1beta1", &["Lease"], 22),
    ("discovery.k8s.io", "v1beta1", &[], 25),
    ("events.k8s.io", "v1beta1", &[], 25),
    ("extensions", "v1beta1", &["Ingress"], 22),
    ("extensions", "v1beta1", &[], 16),
    ("flowcontrol.apiserver.k8s.io", "v1beta1", &[], 26),
    ("flowcontrol.apiserver.k8s.io", "v1beta2", &[], 29),
    ("flowcontrol.apiserver.k8s.io", "v1beta3", &[], 32),
    ("networking.k8s.io", "v1beta1", &["Ingress", "IngressClass"], 22),
    ("node.k8s.io", "v1beta1", &[], 25),
    ("policy", "v1beta1", &[], 25),
    ("rbac.authorization.k8s.io", "v1alpha1", &[], 22),
    ("rbac.authorization.k8s.io", "v1beta1", &[], 22),
    ("scheduling.k8s.io", "v1beta1", &["PriorityClass"], 22),
    ("storage.k8s.io", "v1beta1", &["CSIDriver", "CSINode", "StorageClass", "VolumeAttachment"], 22),
    ("storage.k8s.io", "v1beta1", &["CSIStorageCapacity"], 27),
];

/// The minor version of Kubernetes that dropped an API, if one of `versions` is without it.
pub(super) fn removed_in(group: &str, version: &str, kind: &str, versions: &[Version]) -> Option<u64> {
    let known = REMOVED.iter().find(|(its_group, its_version, kinds, _)| {
        (*its_group, *its_version) == (group, version) && (kinds.is_empty() || kinds.contains(&kind))
    });
    let removed = known.map(|(.., minor)| *minor)?;
    versions.iter().any(|it| it.major > 1 || it.minor >= removed).then_some(removed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_platform_is_without_counts() {
        let versions = |texts: &[&str]| texts.iter().map(|it| Version::parse_tolerant(it).unwrap()).collect::<Vec<_>>();
        let removed = |kind, texts: &[&str]| removed_in("extensions", "v1beta1", kind, &versions(texts));
        assert_eq!(removed("Ingress", &["1.21"]), None);
        assert_eq!(removed("Ingress", &["1.21", "1.36"]), Some(22));
        assert_eq!(removed("Deployment", &["1.21"]), Some(16));
        assert_eq!(removed_in("apps", "v1", "Deployment", &versions(&["1.36"])), None);
    }
}
