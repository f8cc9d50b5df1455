//! In whose name operators are installed: the service account of an OperatorGroup or of a ClusterExtension can do no more
//! than it may do itself.

use anyhow::Result;
use serde_json::Value;

use crate::made_up::{Made, publish};
use crate::plane::{Plane, condition, offering, subscription};

fn may_everything(plane: &Plane, namespace: &str) -> Result<String> {
    let account = format!("--serviceaccount={namespace}:installer");
    plane.kubectl(&["create", "clusterrolebinding", "installer", "--clusterrole=cluster-admin", &account])
}

#[test]
fn an_operator_groups_service_account_limits_what_is_installed() -> Result<()> {
    let (plane, _images) = offering(&[Made::new("gadget", "1.0.0")])?;
    plane.kubectl(&["create", "namespace", "team"])?;
    plane.kubectl(&["create", "serviceaccount", "installer", "-n", "team"])?;
    plane.apply(
        "apiVersion: operators.coreos.com/v1\nkind: OperatorGroup\nmetadata: {name: og, namespace: team}\n\
         spec: {targetNamespaces: [team], serviceAccountName: installer}\n",
    )?;
    plane.apply(&subscription("team", "gadget", "made-up", ""))?;
    let mut failed = Value::Null;
    plane.until("a plan that failed", || {
        let plans = plane.list("team", "installplan")?;
        failed = plans.into_iter().find(|plan| plan["status"]["phase"] == "Failed").unwrap_or_default();
        Ok(!failed.is_null())
    })?;
    let message = failed["status"]["message"].as_str().unwrap_or_default();
    assert!(message.contains("system:serviceaccount:team:installer") && message.contains("cannot patch"), "{message}");
    assert!(message.ends_with("everything was put back"), "{message}");
    assert!(plane.get("", "crd", "gadgets.example.com")?.is_none());
    // With the right to do it, the plan is made anew.
    may_everything(&plane, "team")?;
    let name = failed["metadata"]["name"].as_str().unwrap_or_default();
    plane.kubectl(&["delete", "installplan", name, "-n", "team"])?;
    plane.until_phase("team", "gadget.v1.0.0", "Installing", "DeploymentsNotServed")?;
    Ok(())
}

#[test]
fn an_extensions_service_account_limits_what_is_installed() -> Result<()> {
    let images = tempfile::tempdir()?;
    let image = publish(images.path(), "c", &[Made::new("gadget", "1.0.0")])?;
    let plane = Plane::start(images.path())?;
    plane.kubectl(&["create", "serviceaccount", "installer", "-n", "operators"])?;
    plane.apply(&format!(
        "apiVersion: olm.operatorframework.io/v1\nkind: ClusterCatalog\nmetadata: {{name: made-up}}\n\
         spec: {{source: {{type: Image, image: {{ref: '{image}'}}}}}}\n---\n\
         apiVersion: olm.operatorframework.io/v1\nkind: ClusterExtension\nmetadata: {{name: gadget}}\n\
         spec:\n  namespace: operators\n  serviceAccount: {{name: installer}}\n  \
         source: {{sourceType: Catalog, catalog: {{packageName: gadget}}}}\n"
    ))?;
    let object = plane.until_object(("", "clusterextension", "gadget"), "refused", |it| {
        condition(it, "Progressing").is_some_and(|it| it["message"].to_string().contains("cannot patch"))
    })?;
    let message = condition(&object, "Progressing").expect("a condition")["message"].to_string();
    assert!(message.contains("system:serviceaccount:operators:installer"), "{message}");
    assert!(plane.get("", "crd", "gadgets.example.com")?.is_none());
    may_everything(&plane, "operators")?;
    plane.until_object(("", "clusterextension", "gadget"), "installed", |it| {
        it["status"]["install"]["bundle"]["version"] == "1.0.0"
    })?;
    Ok(())
}
