//! Upgrades that fail end with what was there before: the old version is back, the new one says why it failed, and a newer
//! one can take its place.

use anyhow::Result;
use bailiwick_catalog::fbc::{Output, load_text, write_catalog};
use serde_json::{Value, json};

use crate::front::Front;
use crate::made_up::{Made, catalog_text, definition, definition_with, publish, publish_text};
use crate::plane::{Plane, catalog_source, condition, offering, subscription};

/// A version that watches its own namespace only, which its OperatorGroup does not ask for.
fn unsupported(version: &str) -> Made {
    Made::new("gadget", version).says("installModes", json!([{"type": "OwnNamespace", "supported": true}]))
}

/// A version whose operator is another image.
pub fn with_image(version: &str, image: &str) -> Made {
    let mut made = Made::new("gadget", version);
    let pod = &mut made.csv["spec"]["install"]["spec"]["deployments"][0]["spec"]["template"]["spec"];
    pod["containers"][0]["image"] = image.into();
    made
}

pub fn settings(level: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"level": level}})
}

/// A catalog in which 2.0.1 takes the place of the first version, without the second.
fn passing_over([first, second]: [Made; 2]) -> Result<String> {
    let mut catalog = load_text(&catalog_text(&[first, second, Made::new("gadget", "2.0.1")])?)?;
    for entry in catalog.channels[0].entries.iter_mut().filter(|entry| entry.name == "gadget.v2.0.1") {
        entry.replaces = "gadget.v1.0.0".to_owned();
        entry.skips = vec!["gadget.v2.0.0".to_owned()];
    }
    Ok(write_catalog(&catalog, Output::Json))
}

/// The first version of the catalog runs on another cluster.
pub fn runs_away(plane: &Plane, front: &Front) -> Result<()> {
    front.is_target_of(plane, "team")?;
    plane.apply(&subscription("team", "gadget", "made-up", ""))?;
    plane.until_phase("team", "gadget.v1.0.0", "Installing", "InstallWaiting")?;
    front.runs("team", "gadget-operator")?;
    plane.until_phase("team", "gadget.v1.0.0", "Succeeded", "InstallSucceeded")?;
    Ok(())
}

/// What a failed upgrade from one version to another must look like.
pub fn is_back(plane: &Plane, namespace: &str, (old, new): (&str, &str), reason: &str) -> Result<()> {
    let failed = plane.until_object((namespace, "csv", new), "rolled back", |csv| {
        csv["metadata"]["annotations"]["bailiwick.dev/rolled-back-to"] == old
            && csv["metadata"]["finalizers"].as_array().is_none_or(Vec::is_empty)
    })?;
    assert_eq!((&failed["status"]["phase"], &failed["status"]["reason"]), (&json!("Failed"), &json!(reason)));
    let message = failed["status"]["message"].as_str().unwrap_or_default();
    assert!(message.contains(&format!("rolled back to {old}")), "{message}");
    plane.until_object((namespace, "csv", old), "back", |csv| {
        let status = &csv["status"];
        status["phase"] == "Succeeded"
            || (status["phase"] == "Installing"
                && matches!(status["reason"].as_str(), Some("DeploymentsNotServed" | "InstallWaiting")))
    })?;
    let sub = plane.until_object((namespace, "subscription", "gadget"), "what is installed", |sub| {
        sub["status"]["installedCSV"] == old && condition(sub, "InstallPlanFailed").is_some()
    })?;
    assert_eq!((&sub["status"]["state"], &sub["status"]["currentCSV"]), (&json!("UpgradeFailed"), &json!(old)));
    let said = condition(&sub, "InstallPlanFailed").expect("a condition")["message"].to_string();
    assert!(said.contains(new) && said.contains(&format!("rolled back to {old}")), "{said}");
    let plan = sub["status"]["installPlanRef"]["name"].as_str().expect("a plan").to_owned();
    let plan = plane.get(namespace, "installplan", &plan)?.expect("the plan");
    assert_eq!(
        (&plan["status"]["phase"], &plan["spec"]["clusterServiceVersionNames"]),
        (&json!("Failed"), &json!([new]))
    );
    let left = format!("olm.owner={new}");
    let kinds = "clusterrole,clusterrolebinding,serviceaccount,configmap";
    assert_eq!(plane.kubectl(&["get", kinds, "-n", namespace, "-l", &left, "-o", "name"])?, "", "of {new}");
    let secrets = plane.kubectl(&["get", "secrets", "-n", namespace, "-o", "name"])?;
    assert!(!secrets.contains("before-"), "{secrets}");
    Ok(())
}

#[test]
fn a_version_that_fails_leaves_the_one_before_it_as_it_was() -> Result<()> {
    let first = Made::new("gadget", "1.0.0").with(settings("first"));
    let second = unsupported("2.0.0").defines(definition("gadget", &["v1", "v2"])).with(settings("second"));
    let (plane, images) = offering(&[first.clone(), second.clone()])?;
    plane.runs_elsewhere("operators", "global-operators")?;
    plane.apply(&subscription("operators", "gadget", "made-up", ", startingCSV: gadget.v1.0.0"))?;
    let versions = ("gadget.v1.0.0", "gadget.v2.0.0");
    is_back(&plane, "operators", versions, "UnsupportedOperatorGroup")?;
    plane.until_phase("operators", "gadget.v1.0.0", "Succeeded", "InstallSucceeded")?;
    let map = plane.get("operators", "configmap", "settings")?.expect("the settings");
    assert_eq!(map["data"]["level"], "first", "{map}");
    assert_eq!(map["metadata"]["labels"]["olm.owner"], "gadget.v1.0.0");
    let crd = plane.get("", "crd", "gadgets.example.com")?.expect("the definition");
    assert_eq!(crd["spec"]["versions"].as_array().map(Vec::len), Some(1), "{crd}");
    let roles = plane.kubectl(&["get", "clusterrole", "-l", "olm.owner=gadget.v1.0.0", "-o", "name"])?;
    assert_eq!(roles.lines().count(), 2, "{roles}");

    // Whoever deletes the plan wants it tried again, and it fails again.
    let sub = plane.get("operators", "subscription", "gadget")?.expect("it is there");
    let plan = sub["status"]["installPlanRef"]["name"].as_str().expect("a plan").to_owned();
    plane.kubectl(&["delete", "installplan", &plan, "-n", "operators"])?;
    plane.until_object(("operators", "subscription", "gadget"), "another plan", |sub| {
        sub["status"]["installPlanRef"]["name"] != plan.as_str() && condition(sub, "InstallPlanFailed").is_some()
    })?;
    is_back(&plane, "operators", versions, "UnsupportedOperatorGroup")?;

    // A version that passes over the one that failed is installed, and what failed goes.
    let fixed = publish_text(images.path(), "fixed", &passing_over([first, second])?)?;
    plane.apply(&catalog_source("olm", "made-up", &fixed))?;
    plane.until_phase("operators", "gadget.v2.0.1", "Succeeded", "InstallSucceeded")?;
    plane.until("both are gone", || {
        let old = plane.get("operators", "csv", "gadget.v1.0.0")?;
        Ok(old.is_none() && plane.get("operators", "csv", "gadget.v2.0.0")?.is_none())
    })?;
    let sub = plane.until_object(("operators", "subscription", "gadget"), "settled", |sub| {
        sub["status"]["state"] == "AtLatestKnown" && sub["status"]["installedCSV"] == "gadget.v2.0.1"
    })?;
    assert!(condition(&sub, "InstallPlanFailed").is_none(), "{sub}");
    Ok(())
}

#[test]
fn a_cluster_that_refuses_the_new_deployment_keeps_the_old_one() -> Result<()> {
    let second = with_image("2.0.0", "example.com/manager:2");
    let (plane, images) = offering(&[Made::new("gadget", "1.0.0")])?;
    let front = Front::start()?;
    front.away.apply(
        "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicy\nmetadata: {name: images}\n\
         spec:\n  matchConstraints:\n    resourceRules:\n    - apiGroups: [apps.example.com]\n      apiVersions: [v1]\n      \
         operations: [CREATE, UPDATE]\n      resources: [deployments]\n  validations:\n  \
         - expression: object.spec.template.spec.containers.all(c, c.image != 'example.com/manager:2')\n    \
         message: not this image\n---\n\
         apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicyBinding\nmetadata: {name: images}\n\
         spec: {policyName: images, validationActions: [Deny]}\n",
    )?;
    runs_away(&plane, &front)?;

    let upgrade = publish(images.path(), "more", &[Made::new("gadget", "1.0.0"), second])?;
    plane.apply(&catalog_source("olm", "made-up", &upgrade))?;
    is_back(&plane, "team", ("gadget.v1.0.0", "gadget.v2.0.0"), "InstallComponentFailedNoRetry")?;
    let failed = plane.get("team", "csv", "gadget.v2.0.0")?.expect("it says why");
    assert!(failed["status"]["message"].to_string().contains("not this image"), "{failed}");
    let deployment = front.deployment("team", "gadget-operator")?.expect("the deployment");
    assert_eq!(deployment["metadata"]["labels"]["olm.owner"], "gadget.v1.0.0");
    let image = &deployment["spec"]["template"]["spec"]["containers"][0]["image"];
    assert_eq!(image, "example.com/manager:1");
    assert_eq!(front.away.kubectl(&["get", "clusterrole", "-l", "olm.owner=gadget.v2.0.0", "-o", "name"])?, "");
    plane.until_phase("team", "gadget.v1.0.0", "Succeeded", "InstallSucceeded")?;
    Ok(())
}

#[test]
fn a_version_that_does_not_come_up_is_taken_back_and_no_object_loses_a_field() -> Result<()> {
    let wider = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "size": {"type": "integer"}, "color": {"type": "string"}, "shape": {"type": "string"}}}}});
    let second = with_image("2.0.0", "example.com/manager:2").defines(definition_with("gadget", &["v1"], &wider));
    let bundles = [Made::new("gadget", "1.0.0"), second];
    let (plane, images) = offering(&bundles[..1])?;
    let front = Front::start()?;
    runs_away(&plane, &front)?;
    let upgrade = publish(images.path(), "more", &bundles)?;
    plane.apply(&catalog_source("olm", "made-up", &upgrade))?;
    plane.until_phase("team", "gadget.v2.0.0", "Installing", "InstallWaiting")?;
    plane.until_phase("team", "gadget.v1.0.0", "Replacing", "BeingReplaced")?;
    // Somebody uses what the newer definition has; the deployment does not run for longer than anybody waits.
    front.away.apply(
        "apiVersion: example.com/v1\nkind: Gadget\nmetadata: {name: mine, namespace: team}\nspec: {shape: round}\n",
    )?;
    let long_ago = r#"{"status":{"lastTransitionTime":"2020-01-01T00:00:00Z"}}"#;
    let version = ["csv", "gadget.v2.0.0", "-n", "team", "--subresource=status"];
    plane.kubectl(&[&["patch"], &version[..], &["--type=merge", "-p", long_ago]].concat())?;
    is_back(&plane, "team", ("gadget.v1.0.0", "gadget.v2.0.0"), "InstallCheckFailed")?;
    let failed = plane.get("team", "csv", "gadget.v2.0.0")?.expect("it says why");
    let message = failed["status"]["message"].as_str().unwrap_or_default();
    assert!(
        message.contains("install timeout") && message.contains(r#""team/mine" would lose spec.shape"#),
        "{message}"
    );
    let gadget = front.away.get("team", "gadget", "mine")?.expect("it is there");
    assert_eq!(gadget["spec"]["shape"], "round");
    let deployment = front.deployment("team", "gadget-operator")?.expect("the deployment");
    assert_eq!(deployment["spec"]["template"]["spec"]["containers"][0]["image"], "example.com/manager:1");
    front.runs("team", "gadget-operator")?;
    plane.until_phase("team", "gadget.v1.0.0", "Succeeded", "InstallSucceeded")?;
    Ok(())
}

#[test]
fn what_was_upgraded_together_goes_back_together() -> Result<()> {
    let first = [Made::new("base", "1.0.0"), Made::new("gadget", "1.0.0").requires("base", "<2.0.0")];
    let second = unsupported("2.0.0").requires("base", ">=2.0.0");
    let both = [first[0].clone(), Made::new("base", "2.0.0"), first[1].clone(), second];
    let (plane, images) = offering(&first)?;
    plane.runs_elsewhere("operators", "global-operators")?;
    plane.apply(&subscription("operators", "gadget", "made-up", ""))?;
    plane.until_phase("operators", "gadget.v1.0.0", "Succeeded", "InstallSucceeded")?;
    plane.until_phase("operators", "base.v1.0.0", "Succeeded", "InstallSucceeded")?;
    let upgrade = publish(images.path(), "more", &both)?;
    plane.apply(&catalog_source("olm", "made-up", &upgrade))?;
    plane.until_object(("operators", "csv", "base.v2.0.0"), "rolled back", |csv| {
        csv["metadata"]["annotations"]["bailiwick.dev/rolled-back-to"] == "base.v1.0.0"
            && csv["status"]["reason"] == "RolledBack"
    })?;
    plane.until_phase("operators", "gadget.v2.0.0", "Failed", "UnsupportedOperatorGroup")?;
    plane.until_phase("operators", "gadget.v1.0.0", "Succeeded", "InstallSucceeded")?;
    plane.until_phase("operators", "base.v1.0.0", "Succeeded", "InstallSucceeded")?;
    plane.until_object(("operators", "subscription", "base-stable-made-up-olm"), "back", |sub| {
        sub["status"]["installedCSV"] == "base.v1.0.0"
    })?;
    Ok(())
}

#[test]
fn whoever_asks_for_it_passes_over_a_failure_as_with_olm() -> Result<()> {
    let bundles = [Made::new("gadget", "1.0.0"), unsupported("2.0.0")];
    let (plane, images) = offering(&bundles)?;
    plane.runs_elsewhere("operators", "global-operators")?;
    let strategy = r#"{"spec":{"upgradeStrategy":"TechPreviewUnsafeFailForward"}}"#;
    plane.kubectl(&["patch", "og", "global-operators", "-n", "operators", "--type=merge", "-p", strategy])?;
    plane.apply(&subscription("operators", "gadget", "made-up", ", startingCSV: gadget.v1.0.0"))?;
    let failed = plane.until_phase("operators", "gadget.v2.0.0", "Failed", "UnsupportedOperatorGroup")?;
    assert!(failed["metadata"]["annotations"]["bailiwick.dev/rolled-back-to"].is_null(), "{failed}");
    plane.until_phase("operators", "gadget.v1.0.0", "Replacing", "BeingReplaced")?;
    let [first, second] = bundles;
    let more = publish(images.path(), "more", &[first, second, Made::new("gadget", "2.0.1")])?;
    plane.apply(&catalog_source("olm", "made-up", &more))?;
    plane.until_phase("operators", "gadget.v2.0.1", "Succeeded", "InstallSucceeded")?;
    Ok(())
}

#[test]
fn an_extension_whose_upgrade_is_refused_stays_what_it_was() -> Result<()> {
    let images = tempfile::tempdir()?;
    let wrong = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "Not_A_Name"}});
    let first = Made::new("gadget", "1.0.0").with(settings("first"));
    let second = Made::new("gadget", "2.0.0").defines(definition("gadget", &["v1", "v2"]));
    let second = second.with(settings("second")).with(wrong);
    let plane = Plane::start(images.path())?;
    let offer = |image: &str| {
        plane.apply(&format!(
            "apiVersion: olm.operatorframework.io/v1\nkind: ClusterCatalog\nmetadata: {{name: made-up}}\n\
             spec: {{source: {{type: Image, image: {{ref: '{image}'}}}}}}\n"
        ))
    };
    let until = |what: &str, holds: &dyn Fn(&Value) -> bool| {
        plane.until_object(("", "clusterextension", "gadget"), what, holds)
    };
    let is_at = |object: &Value, version: &str| object["status"]["install"]["bundle"]["version"] == version;
    offer(&publish(images.path(), "c", std::slice::from_ref(&first))?)?;
    plane.apply(
        "apiVersion: olm.operatorframework.io/v1\nkind: ClusterExtension\nmetadata: {name: gadget}\n\
         spec: {namespace: operators, source: {sourceType: Catalog, catalog: {packageName: gadget}}}\n",
    )?;
    until("installed", &|it| is_at(it, "1.0.0"))?;
    offer(&publish(images.path(), "more", &[first.clone(), second.clone()])?)?;
    let refused = until("put back", &|it| {
        let progressing = condition(it, "Progressing").map(|it| it["message"].to_string()).unwrap_or_default();
        progressing.contains("Not_A_Name") && progressing.contains("everything was put back")
    })?;
    assert!(is_at(&refused, "1.0.0"), "{refused}");
    assert_eq!(condition(&refused, "Installed").expect("a condition")["status"], "True");
    // It is tried again, and put back again.
    plane.until("everything is as it was", || {
        let map = plane.get("operators", "configmap", "settings")?.unwrap_or_default();
        let crd = plane.get("", "crd", "gadgets.example.com")?.unwrap_or_default();
        let versions = crd["spec"]["versions"].as_array().map(Vec::len);
        Ok(map["data"]["level"] == "first" && versions == Some(1))
    })?;
    offer(&publish_text(images.path(), "fixed", &passing_over([first, second])?)?)?;
    until("upgraded", &|it| {
        is_at(it, "2.0.1") && condition(it, "Progressing").is_some_and(|it| it["reason"] == "Succeeded")
    })?;
    Ok(())
}
