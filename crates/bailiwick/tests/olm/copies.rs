//! ClusterServiceVersions are shown where their operators watch, and nowhere else.

use anyhow::Result;

use crate::made_up::Made;
use crate::plane::{offering, subscription};

#[test]
fn a_version_is_copied_to_the_namespaces_that_its_operator_watches() -> Result<()> {
    let (plane, _images) = offering(&[Made::new("gadget", "1.0.0")])?;
    for namespace in ["home", "near", "far"] {
        plane.kubectl(&["create", "namespace", namespace])?;
    }
    let group = |names: &str| {
        plane.apply(&format!(
            "apiVersion: operators.coreos.com/v1\nkind: OperatorGroup\n\
             metadata: {{name: og, namespace: home, annotations: {{bailiwick.dev/workloads: elsewhere}}}}\n\
             spec: {{targetNamespaces: {names}}}\n"
        ))
    };
    group("[home, near]")?;
    plane.apply(&subscription("home", "gadget", "made-up", ""))?;
    let csv = ("gadget.v1.0.0", "csv");
    plane.until_phase("home", csv.0, "Succeeded", "InstallSucceeded")?;
    let copy = plane.until_phase("near", csv.0, "Succeeded", "Copied")?;
    assert_eq!(copy["status"]["message"], "The operator is running in home but is managing this namespace");
    assert_eq!(copy["metadata"]["labels"]["olm.copiedFrom"], "home");
    assert!(plane.get("far", csv.1, csv.0)?.is_none());
    let role = |namespace: &str| {
        plane.kubectl(&["get", "role", "-n", namespace, "-l", "olm.owner=gadget.v1.0.0", "-o", "name"])
    };
    assert_eq!((role("near")?.lines().count(), role("far")?.lines().count()), (1, 0));
    // A copy is what its original is, whoever writes to it.
    plane.kubectl(&["label", "csv", csv.0, "-n", "near", "mine=true"])?;
    plane.until_object(("near", csv.1, csv.0), "made good", |it| it["metadata"]["labels"]["mine"].is_null())?;
    // The group changes, and copies and permissions follow.
    group("[home, far]")?;
    plane.until_phase("far", csv.0, "Succeeded", "Copied")?;
    plane.until("the copy is gone", || Ok(plane.get("near", csv.1, csv.0)?.is_none()))?;
    plane.until_phase("home", csv.0, "Succeeded", "InstallSucceeded")?;
    assert_eq!((role("near")?.lines().count(), role("far")?.lines().count()), (0, 1));
    plane.kubectl(&["delete", "subscription", "gadget", "-n", "home"])?;
    plane.kubectl(&["delete", "csv", csv.0, "-n", "home", "--timeout=60s"])?;
    plane.until("the copy goes with the original", || Ok(plane.get("far", csv.1, csv.0)?.is_none()))
}
