//! OperatorGroups: which namespaces they select, and that two that share one do not provide the same API. What operators and
//! catalogs have to say about upgrades: conditions, deprecations, priorities.

use anyhow::Result;
use serde_json::{Value, json};

use crate::made_up::{Made, catalog_text, publish, publish_text};
use crate::plane::{Plane, catalog_source, condition, offering, subscription};

fn group(namespace: &str, spec: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Namespace\nmetadata: {{name: {namespace}, labels: {{of: {namespace}}}}}\n---\n\
         apiVersion: operators.coreos.com/v1\nkind: OperatorGroup\nmetadata: {{name: group, namespace: {namespace}, \
         annotations: {{bailiwick.dev/workloads: elsewhere}}}}\nspec: {spec}\n"
    )
}

#[test]
fn groups_that_share_a_namespace_do_not_provide_the_same_api() -> Result<()> {
    let (plane, _images) = offering(&[Made::new("gadget", "1.0.0"), Made::new("widget", "1.0.0")])?;
    // Chosen by label, and by name; both watch the first.
    plane.apply(&group("first", "{targetNamespaces: [first]}"))?;
    plane.apply(&group(
        "second",
        "{selector: {matchExpressions: [{key: of, operator: In, values: [first, second]}]}}",
    ))?;
    plane.apply(&subscription("first", "gadget", "made-up", ""))?;
    plane.until_phase("first", "gadget.v1.0.0", "Succeeded", "InstallSucceeded")?;
    let noted = plane.until_object(("first", "operatorgroup", "group"), "its APIs", |it| {
        it["metadata"]["annotations"]["olm.providedAPIs"] == "Gadget.v1.example.com"
    })?;
    assert_eq!(noted["status"]["namespaces"], json!(["first"]));
    let selected = plane.until_object(("second", "operatorgroup", "group"), "its namespaces", |it| {
        it["status"]["namespaces"] == json!(["first", "second"])
    })?;
    assert!(selected["metadata"]["annotations"]["olm.providedAPIs"].is_null());

    plane.apply(&subscription("second", "gadget", "made-up", ""))?;
    plane.apply(&subscription("second", "widget", "made-up", ""))?;
    let csv = plane.until_phase("second", "gadget.v1.0.0", "Failed", "InterOperatorGroupOwnerConflict")?;
    assert_eq!(csv["status"]["message"], "intersecting operatorgroups provide the same apis");
    // Another API is nobody else's.
    plane.until_phase("second", "widget.v1.0.0", "Succeeded", "InstallSucceeded")?;
    plane.until_object(("second", "operatorgroup", "group"), "its APIs", |it| {
        it["metadata"]["annotations"]["olm.providedAPIs"] == "Widget.v1.example.com"
    })?;
    assert_eq!(plane.get("first", "csv", "gadget.v1.0.0")?.expect("there")["status"]["phase"], "Succeeded");

    // Once the first is gone the second may.
    plane.kubectl(&["delete", "subscription/gadget", "csv/gadget.v1.0.0", "-n", "first"])?;
    plane.until_phase("second", "gadget.v1.0.0", "Succeeded", "InstallSucceeded")?;
    plane.until_object(("first", "operatorgroup", "group"), "no APIs", |it| {
        it["metadata"]["annotations"]["olm.providedAPIs"] == ""
    })?;
    Ok(())
}

#[test]
fn an_operator_can_hold_back_its_own_upgrade() -> Result<()> {
    let images = tempfile::tempdir()?;
    let image = publish(images.path(), "c", &[Made::new("gadget", "1.0.0")])?;
    let plane = Plane::start(images.path())?;
    plane.runs_elsewhere("operators", "global-operators")?;
    let source = catalog_source("olm", "made-up", &image)
        .replace("publisher: Nobody", "updateStrategy: {registryPoll: {interval: 1s}}");
    plane.apply(&source)?;
    plane.apply(&subscription("operators", "gadget", "made-up", ""))?;
    plane.until_phase("operators", "gadget.v1.0.0", "Succeeded", "InstallSucceeded")?;
    plane.apply(
        "apiVersion: operators.coreos.com/v2\nkind: OperatorCondition\nmetadata: {name: gadget.v1.0.0, namespace: operators}\n\
         spec: {conditions: [{type: Upgradeable, status: 'False', reason: Busy, message: is migrating, \
         lastTransitionTime: '2026-01-01T00:00:00Z'}]}\n",
    )?;
    publish(images.path(), "c", &[Made::new("gadget", "1.0.0"), Made::new("gadget", "1.1.0")])?;
    let held = plane.until_phase("operators", "gadget.v1.1.0", "Pending", "OperatorConditionNotUpgradeable")?;
    assert!(held["status"]["message"].as_str().is_some_and(|it| it.contains("is migrating")), "{held}");
    assert!(plane.get("operators", "csv", "gadget.v1.0.0")?.is_some());
    // The administrator has the last word.
    let overrides = json!({"spec": {"overrides": [{"type": "Upgradeable", "status": "True", "reason": "x", "message": "go",
        "lastTransitionTime": "2026-01-01T00:00:00Z"}]}});
    let patch = overrides.to_string();
    plane.kubectl(&["patch", "operatorcondition", "gadget.v1.0.0", "-n", "operators", "--type=merge", "-p", &patch])?;
    plane.until_phase("operators", "gadget.v1.1.0", "Succeeded", "InstallSucceeded")?;
    Ok(())
}

/// The catalog with everything deprecated, and an icon.
fn deprecated(bundles: &[Made]) -> Result<String> {
    let deprecations = json!({"schema": "olm.deprecations", "package": "gadget", "entries": [
        {"reference": {"schema": "olm.package"}, "message": "no more gadgets"},
        {"reference": {"schema": "olm.channel", "name": "stable"}, "message": "not so stable"},
        {"reference": {"schema": "olm.bundle", "name": "gadget.v1.0.0"}, "message": "has a hole"},
    ]});
    Ok(format!("{}\n{deprecations}\n", catalog_text(bundles)?))
}

#[test]
fn deprecations_are_told_also_of_catalogs_that_somebody_else_serves() -> Result<()> {
    let images = tempfile::tempdir()?;
    let bundle =
        Made::new("gadget", "1.0.0").says("icon", json!([{"base64data": "PHN2Zy8+", "mediatype": "image/svg+xml"}]));
    let image = publish_text(images.path(), "c", &deprecated(&[bundle])?)?;
    let layouts = images.path().to_str().expect("a path");
    let plane = Plane::start_with(&["--with", "olm", "--olm-layout-dir", layouts, "--olm-allow-cidrs", "127.0.0.1"])?;
    plane.apply(&catalog_source("olm", "first", &image))?;
    let ready = |it: &Value| it["status"]["connectionState"]["lastObservedState"] == "READY";
    let first = plane.until_object(("olm", "catalogsource", "first"), "ready", ready)?;
    let address = first["status"]["connectionState"]["address"].as_str().expect("an address").to_owned();
    plane.apply(&format!(
        "apiVersion: operators.coreos.com/v1alpha1\nkind: CatalogSource\nmetadata: {{name: second, namespace: olm}}\n\
         spec: {{sourceType: grpc, address: '{address}', displayName: Remote}}\n"
    ))?;
    plane.until_object(("olm", "catalogsource", "second"), "ready", ready)?;
    plane.runs_elsewhere("operators", "global-operators")?;
    plane.apply(&subscription("operators", "gadget", "second", ""))?;
    let told = plane.until_object(("operators", "subscription", "gadget"), "deprecations", |it| {
        condition(it, "BundleDeprecated").is_some()
    })?;
    for (kind, message) in [
        ("PackageDeprecated", "no more gadgets"),
        ("ChannelDeprecated", "not so stable"),
        ("BundleDeprecated", "has a hole"),
        ("Deprecated", "no more gadgets; not so stable; has a hole"),
    ] {
        assert_eq!(condition(&told, kind).expect("a condition")["message"], message, "{kind}");
    }
    // What users see of the package, from either.
    let manifests = plane.list("olm", "packagemanifest")?;
    assert_eq!(manifests.len(), 2, "{manifests:?}");
    for manifest in &manifests {
        assert_eq!(manifest["status"]["deprecation"]["message"], "no more gadgets", "{manifest}");
    }
    let icon = "/apis/packages.operators.coreos.com/v1/namespaces/olm/packagemanifests/gadget/icon";
    assert_eq!(plane.kubectl(&["get", "--raw", icon])?, "<svg/>");
    Ok(())
}

/// Both catalogs have what is required; the one with the higher priority is asked first, whatever it is called.
#[test]
fn the_catalog_of_the_highest_priority_is_asked_first() -> Result<()> {
    let images = tempfile::tempdir()?;
    let app = publish(images.path(), "app", &[Made::new("app", "1.0.0").requires("base", ">=1.0.0")])?;
    let low = publish(images.path(), "low", &[Made::new("base", "1.0.0")])?;
    let high = publish(images.path(), "high", &[Made::new("base", "2.0.0")])?;
    let plane = Plane::start(images.path())?;
    plane.runs_elsewhere("operators", "global-operators")?;
    for (name, image, priority) in [("a-low", &low, -5), ("m-app", &app, 0), ("z-high", &high, 7)] {
        let source = catalog_source("olm", name, image).replace("publisher: Nobody", &format!("priority: {priority}"));
        plane.apply(&source)?;
        plane.until_object(("olm", "catalogsource", name), "ready", |it| {
            it["status"]["connectionState"]["lastObservedState"] == "READY"
        })?;
    }
    plane.apply(&subscription("operators", "app", "m-app", ""))?;
    plane.until_phase("operators", "app.v1.0.0", "Succeeded", "InstallSucceeded")?;
    let subscriptions = plane.list("operators", "subscription")?;
    let base = subscriptions.iter().find(|it| it["spec"]["name"] == "base").expect("a subscription");
    assert_eq!((&base["spec"]["source"], &base["status"]["installedCSV"]), (&json!("z-high"), &json!("base.v2.0.0")));
    Ok(())
}
