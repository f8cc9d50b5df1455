//! What cannot be installed is explained, and leaves nothing behind.

use anyhow::Result;
use bailiwick_catalog::fbc::{Output, write_catalog};
use serde_json::json;

use crate::made_up::{Made, catalog_text, definition, definition_with, publish, publish_text};
use crate::plane::{Plane, catalog_source, condition, offering, subscription};

#[test]
fn what_cannot_be_resolved_is_told_in_plain_words() -> Result<()> {
    let bundles = [Made::new("app", "0.1.0").requires("base", ">=1.0.0"), Made::new("gadget", "1.0.0")];
    let (plane, images) = offering(&bundles)?;
    plane.apply(&subscription("operators", "app", "made-up", ""))?;
    let sub = plane.until_object(("operators", "subscription", "app"), "refused", |sub| {
        condition(sub, "ResolutionFailed").is_some()
    })?;
    let failed = condition(&sub, "ResolutionFailed").expect("a condition");
    assert_eq!((&failed["status"], &failed["reason"]), (&json!("True"), &json!("ConstraintsNotSatisfiable")));
    let message = failed["message"].as_str().unwrap_or_default();
    assert!(message.contains("app.v0.1.0") && message.contains("base"), "{message}");
    let events = plane.kubectl(&["get", "events", "-n", "operators", "-o", "jsonpath={.items[*].reason}"])?;
    assert!(events.contains("ResolutionFailed"), "{events}");
    // Others need not wait for it.
    plane.apply(&subscription("operators", "gadget", "made-up", ""))?;
    plane.until_phase("operators", "gadget.v1.0.0", "Installing", "DeploymentsNotServed")?;
    // What was missing comes with another catalog.
    let more = publish(images.path(), "more", &[Made::new("base", "1.5.0")])?;
    plane.apply(&catalog_source("olm", "more", &more))?;
    plane.until_phase("operators", "app.v0.1.0", "Installing", "DeploymentsNotServed")?;
    let sub = plane.get("operators", "subscription", "app")?.expect("it is there");
    assert!(condition(&sub, "ResolutionFailed").is_none(), "{sub}");
    Ok(())
}

#[test]
fn a_bundle_that_cannot_be_pulled_holds_up_its_own_subscription_only() -> Result<()> {
    let images = tempfile::tempdir()?;
    let bundles = [Made::new("base", "1.0.0"), Made::new("app", "0.1.0").requires("base", ">=1.0.0")];
    let text = catalog_text(&bundles)?;
    // The manifests of one bundle are in an image that nobody has.
    let mut catalog = bailiwick_catalog::fbc::load_text(&text)?;
    for bundle in catalog.bundles.iter_mut().filter(|bundle| bundle.package == "base") {
        bundle.image = "127.0.0.1:1/no/such:latest".to_owned();
    }
    let text = write_catalog(&catalog, Output::Json);
    let broken = publish_text(images.path(), "broken", &text)?;
    let whole = publish(images.path(), "whole", &[Made::new("gadget", "1.0.0")])?;
    let plane = Plane::start(images.path())?;
    plane.apply(&catalog_source("olm", "broken", &broken))?;
    plane.apply(&catalog_source("olm", "whole", &whole))?;
    plane.apply(&subscription("operators", "app", "broken", ""))?;
    let failed = |name: &str| {
        plane.until_object(("operators", "subscription", name), "unpacking failed", |sub| {
            condition(sub, "BundleUnpackFailed").is_some_and(|it| it["message"].to_string().contains("base.v1.0.0"))
        })
    };
    failed("app")?;
    // They are resolved together, and do not wait for each other.
    plane.apply(&subscription("operators", "gadget", "whole", ""))?;
    plane.until_phase("operators", "gadget.v1.0.0", "Installing", "DeploymentsNotServed")?;
    let sub = plane.get("operators", "subscription", "gadget")?.expect("it is there");
    assert!(condition(&sub, "BundleUnpackFailed").is_none(), "{sub}");
    let sub = failed("app")?;
    assert!(condition(&sub, "BundleUnpacking").is_none(), "{sub}");
    assert!(plane.get("operators", "csv", "app.v0.1.0")?.is_none());
    Ok(())
}

#[test]
fn a_missing_catalog_or_package_is_named() -> Result<()> {
    let images = tempfile::tempdir()?;
    let image = publish(images.path(), "c", &[Made::new("gadget", "1.0.0")])?;
    let plane = Plane::start(images.path())?;
    plane.apply(&subscription("operators", "gadget", "made-up", ""))?;
    let sub = plane.until_object(("operators", "subscription", "gadget"), "unhealthy", |sub| {
        condition(sub, "CatalogSourcesUnhealthy").is_some_and(|it| it["status"] == "True")
    })?;
    let unhealthy = condition(&sub, "CatalogSourcesUnhealthy").expect("a condition");
    assert_eq!(unhealthy["message"], "targeted catalogsource olm/made-up missing");
    plane.apply(&catalog_source("olm", "made-up", &image))?;
    plane.until_phase("operators", "gadget.v1.0.0", "Installing", "DeploymentsNotServed")?;
    plane.apply(&subscription("operators", "nonesuch", "made-up", ""))?;
    let sub = plane.until_object(("operators", "subscription", "nonesuch"), "refused", |sub| {
        condition(sub, "ResolutionFailed").is_some()
    })?;
    let message = condition(&sub, "ResolutionFailed").expect("a condition")["message"].to_string();
    assert!(message.contains("nonesuch"), "{message}");
    Ok(())
}

#[test]
fn an_upgrade_that_would_lose_objects_is_refused() -> Result<()> {
    let images = tempfile::tempdir()?;
    let strict = json!({"type": "object", "properties": {"spec": {"type": "object", "required": ["color"],
        "properties": {"size": {"type": "integer"}, "color": {"type": "string"}}}}});
    let bundles = [
        Made::new("gadget", "1.0.0"),
        Made::new("gadget", "2.0.0").defines(definition("gadget", &["v2"])),
        Made::new("widget", "1.0.0"),
        Made::new("widget", "2.0.0").defines(definition_with("widget", &["v1"], &strict)),
    ];
    // In the second, the owned version must be there for the bundle to be one.
    let bundles = bundles.map(|mut made| {
        if made.name() == "gadget.v2.0.0" {
            made.csv["spec"]["customresourcedefinitions"]["owned"][0]["version"] = "v2".into();
        }
        made
    });
    let image = publish(images.path(), "c", &bundles)?;
    let plane = Plane::start(images.path())?;
    plane.apply(&catalog_source("olm", "made-up", &image))?;
    plane.apply("apiVersion: v1\nkind: Namespace\nmetadata: {name: team}\n---\napiVersion: operators.coreos.com/v1\nkind: OperatorGroup\nmetadata: {name: og, namespace: team, annotations: {bailiwick.dev/workloads: elsewhere}}\nspec: {}\n")?;
    // A widget that only the first version allows.
    let more = ", startingCSV: widget.v1.0.0, installPlanApproval: Manual";
    plane.apply(&subscription("team", "widget", "made-up", more))?;
    let approve = |csv: &str| {
        plane.until(&format!("a plan for {csv}"), || {
            let plans = plane.list("team", "installplan")?;
            let plan = plans.iter().find(|plan| plan["spec"]["clusterServiceVersionNames"] == json!([csv]));
            let Some(name) = plan.and_then(|plan| plan["metadata"]["name"].as_str()) else { return Ok(false) };
            plane.kubectl(&[
                "patch",
                "ip",
                name,
                "-n",
                "team",
                "--type=merge",
                "-p",
                r#"{"spec":{"approved":true}}"#,
            ])?;
            Ok(true)
        })
    };
    approve("widget.v1.0.0")?;
    plane.until_phase("team", "widget.v1.0.0", "Succeeded", "InstallSucceeded")?;
    plane.apply(
        "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: plain, namespace: team}\nspec: {size: 1}\n",
    )?;
    approve("widget.v2.0.0")?;
    let failed = |package: &str| {
        plane.until_object(("team", "subscription", package), "failed", |sub| {
            condition(sub, "InstallPlanFailed").is_some()
        })
    };
    let sub = failed("widget")?;
    let message = condition(&sub, "InstallPlanFailed").expect("a condition")["message"].to_string();
    assert!(message.contains("updated validation is too restrictive") && message.contains("team/plain"), "{message}");
    assert_eq!(sub["status"]["installedCSV"], "widget.v1.0.0");
    assert_eq!(sub["status"]["state"], "UpgradeFailed");

    plane.apply(&subscription("team", "gadget", "made-up", ", startingCSV: gadget.v1.0.0"))?;
    let sub = failed("gadget")?;
    let message = condition(&sub, "InstallPlanFailed").expect("a condition")["message"].to_string();
    assert!(message.contains("removes version v1 that is listed as a stored version"), "{message}");
    plane.until_phase("team", "gadget.v1.0.0", "Succeeded", "InstallSucceeded")?;
    assert!(plane.get("team", "csv", "gadget.v2.0.0")?.is_none());
    plane.kubectl(&["get", "gadgets.v1.example.com", "-n", "team"])?;
    Ok(())
}

#[test]
fn a_plan_that_fails_half_way_is_undone() -> Result<()> {
    let images = tempfile::tempdir()?;
    let wrong = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "Not_A_Name"}});
    let changed = definition("gadget", &["v1", "v2"]);
    let bundles = [
        Made::new("gadget", "1.0.0"),
        Made::new("gadget", "2.0.0").defines(changed).with(wrong.clone()),
        Made::new("widget", "1.0.0").with(wrong),
    ];
    let image = publish(images.path(), "c", &bundles)?;
    let plane = Plane::start(images.path())?;
    plane.apply(&catalog_source("olm", "made-up", &image))?;
    plane.runs_elsewhere("operators", "global-operators")?;
    plane.apply(&subscription("operators", "widget", "made-up", ""))?;
    let failed = |package: &str| {
        plane.until_object(("operators", "subscription", package), "failed", |sub| {
            condition(sub, "InstallPlanFailed").is_some()
        })
    };
    let sub = failed("widget")?;
    let message = condition(&sub, "InstallPlanFailed").expect("a condition")["message"].to_string();
    assert!(message.contains("Not_A_Name") && message.contains("everything was put back"), "{message}");
    plane.until("nothing is left", || {
        let there = plane.get("operators", "crd", "widgets.example.com")?.is_some();
        let roles = plane.kubectl(&["get", "clusterrole", "-l", "olm.owner=widget.v1.0.0", "-o", "name"])?;
        Ok(!there && roles.is_empty() && plane.get("operators", "csv", "widget.v1.0.0")?.is_none())
    })?;
    // An upgrade goes back to what was there.
    plane.apply(&subscription("operators", "gadget", "made-up", ", startingCSV: gadget.v1.0.0"))?;
    failed("gadget")?;
    plane.until_phase("operators", "gadget.v1.0.0", "Succeeded", "InstallSucceeded")?;
    let crd = plane.get("operators", "crd", "gadgets.example.com")?.expect("the definition");
    assert_eq!(crd["spec"]["versions"].as_array().map(Vec::len), Some(1), "{crd}");
    let roles = plane.kubectl(&["get", "clusterrole", "-l", "olm.owner=gadget.v1.0.0", "-o", "name"])?;
    assert_eq!(roles.lines().count(), 2, "{roles}");
    Ok(())
}

#[test]
fn operator_groups_decide_what_can_be_installed() -> Result<()> {
    let images = tempfile::tempdir()?;
    let mut own = Made::new("gadget", "1.0.0");
    own.csv["spec"]["installModes"] = json!([{"type": "OwnNamespace", "supported": true}]);
    let image = publish(images.path(), "c", &[own])?;
    let plane = Plane::start(images.path())?;
    plane.apply(&catalog_source("olm", "made-up", &image))?;
    plane.kubectl(&["create", "namespace", "team"])?;
    plane.apply(&subscription("team", "gadget", "made-up", ""))?;
    plane.until("a plan that waits for a group", || {
        let plans = plane.list("team", "installplan")?;
        let message = plans.first().and_then(|plan| condition(plan, "Installed").cloned()).unwrap_or_default();
        Ok(message["message"] == "no operator group found that is managing this namespace")
    })?;
    let group = |spec: &str| {
        plane.apply(&format!(
            "apiVersion: operators.coreos.com/v1\nkind: OperatorGroup\nmetadata: {{name: og, namespace: team}}\nspec: {spec}\n"
        ))
    };
    group("{}")?;
    let csv = plane.until_phase("team", "gadget.v1.0.0", "Failed", "UnsupportedOperatorGroup")?;
    assert_eq!(
        csv["status"]["message"],
        "AllNamespaces InstallModeType not supported, cannot configure to watch all namespaces"
    );
    plane.kubectl(&[
        "patch",
        "og",
        "og",
        "-n",
        "team",
        "--type=merge",
        "-p",
        r#"{"spec":{"targetNamespaces":["team"]}}"#,
    ])?;
    plane.until_phase("team", "gadget.v1.0.0", "Installing", "DeploymentsNotServed")?;
    let og = plane.get("team", "og", "og")?.expect("the group");
    assert_eq!(og["status"]["namespaces"], json!(["team"]));
    plane.apply("apiVersion: operators.coreos.com/v1\nkind: OperatorGroup\nmetadata: {name: second, namespace: team}\nspec: {}\n")?;
    plane.until_phase("team", "gadget.v1.0.0", "Failed", "TooManyOperatorGroups")?;
    plane.kubectl(&["delete", "og", "second", "-n", "team"])?;
    plane.until_phase("team", "gadget.v1.0.0", "Installing", "DeploymentsNotServed")?;
    Ok(())
}
