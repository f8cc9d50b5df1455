//! What a ClusterServiceVersion needs to be there: definitions it owns and requires, APIs, service accounts, a version of
//! Kubernetes.

use bailiwick_catalog::version::Version;
use kube::ResourceExt;
use kube::api::DynamicObject;
use serde_json::{Value, json};

use crate::api_services;
use crate::crds::is_established;
use crate::error::Error;
use crate::kinds::{API_SERVICE, CRD};
use crate::object::{list, text};
use crate::permissions;
use crate::target::Target;

/// Whether everything is there, and what is said about each part.
pub(super) async fn check(target: &Target, csv: &DynamicObject) -> Result<(bool, Vec<Value>), Error> {
    let namespace = csv.namespace().unwrap_or_default();
    let mut met = true;
    let mut statuses = vec![requirement(
        ("operators.coreos.com", "v1alpha1", "ClusterServiceVersion", &csv.name_any()),
        "Present",
        "CSV minKubeVersion",
    )];
    if let Some(minimum) = Some(text(&csv.data, "/spec/minKubeVersion")).filter(|minimum| !minimum.is_empty()) {
        let server = target.own.apiserver_version().await?.git_version;
        let (ok, message) = kube_version(minimum, &server);
        met &= ok;
        let subject = ("operators.coreos.com", "v1alpha1", "ClusterServiceVersion", csv.name_any());
        let status = if ok { "Present" } else { "PresentNotSatisfied" };
        statuses = vec![requirement((subject.0, subject.1, subject.2, &subject.3), status, &message)];
    }
    let definitions = CRD.all(&target.own);
    for list_name in ["owned", "required"] {
        for described in list(&csv.data, &format!("/spec/customresourcedefinitions/{list_name}")) {
            let name = text(described, "/name");
            let subject = ("apiextensions.k8s.io", "v1", "CustomResourceDefinition", name);
            let (status, message) = match definitions.get_opt(name).await? {
                None => ("NotPresent", "CRD is not present"),
                Some(found) => {
                    let wanted = text(described, "/version");
                    let versions = list(&found.data, "/spec/versions");
                    let served = versions.iter().any(|it| text(it, "/name") == wanted && it["served"] == true);
                    match (served, is_established(&found)) {
                        (false, _) => ("NotPresent", "CRD version not served"),
                        (true, true) => ("Present", "CRD is present and Established condition is true"),
                        (true, false) => (
                            "PresentNotAvailable",
                            "CRD is present but the Established condition is False (not available)",
                        ),
                    }
                }
            };
            met &= status == "Present";
            statuses.push(requirement(subject, status, message));
        }
    }
    for described in list(&csv.data, "/spec/apiservicedefinitions/required") {
        let name = api_services::name_of(described);
        let found = API_SERVICE.all(&target.own).get_opt(&name).await?;
        let (status, message) = match found {
            None => ("NotPresent", "APIService is not present"),
            Some(service) if api_services::is_available(&service) => ("Present", "APIService is available"),
            Some(_) => ("NotPresent", "APIService is not available"),
        };
        met &= status == "Present";
        statuses.push(requirement(("apiregistration.k8s.io", "v1", "APIService", &name), status, message));
    }
    for native in list(&csv.data, "/spec/nativeAPIs") {
        let (group, version, kind) = (text(native, "/group"), text(native, "/version"), text(native, "/kind"));
        let (status, message) = match target.serves(group, version, kind).await? {
            true => ("Present", "Native API exists"),
            false => ("NotPresent", "Native API does not exist"),
        };
        met &= status == "Present";
        statuses.push(requirement((group, version, kind, ""), status, message));
    }
    let whole = serde_json::to_value(csv).unwrap_or_default();
    let accounts = crate::kinds::Kind { group: "", version: "v1", kind: "ServiceAccount", plural: "serviceaccounts" };
    if target.serves("", "v1", "ServiceAccount").await? {
        for account in permissions::accounts(&whole) {
            let (status, message) = match accounts.within(&target.own, &namespace).get_opt(account).await? {
                Some(_) => ("Present", ""),
                None => ("NotPresent", "Service account does not exist"),
            };
            met &= status == "Present";
            statuses.push(requirement(("", "v1", "ServiceAccount", account), status, message));
        }
    }
    Ok((met, statuses))
}

fn requirement(subject: (&str, &str, &str, &str), status: &str, message: &str) -> Value {
    let (group, version, kind, name) = subject;
    json!({"group": group, "version": version, "kind": kind, "name": name, "status": status, "message": message})
}

fn kube_version(minimum: &str, server: &str) -> (bool, String) {
    let parse = |text: &str| Version::parse(text.trim_start_matches('v')).ok();
    match (parse(minimum), parse(server)) {
        (None, _) => (false, "CSV version parsing error".to_owned()),
        (_, None) => (false, "Server version parsing error".to_owned()),
        (Some(wanted), Some(mut have)) => {
            // A build of the version counts as the version.
            have.pre.clear();
            match wanted.compare(&have).is_gt() {
                true => (
                    false,
                    format!("CSV version requirement not met: minKubeVersion ({minimum}) > server version ({server})"),
                ),
                false => (true, format!("CSV minKubeVersion ({minimum}) less than server version ({server})")),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_kubernetes_are_compared() {
        assert!(kube_version("1.20.0", "v1.36.4+bailiwick").0);
        assert!(kube_version("1.36.0", "v1.36.0-rc.1").0);
        let (ok, message) = kube_version("1.99.0", "v1.36.4");
        assert!(!ok);
        assert_eq!(message, "CSV version requirement not met: minKubeVersion (1.99.0) > server version (v1.36.4)");
        assert_eq!(kube_version("soon", "v1.36.4").1, "CSV version parsing error");
    }
}
