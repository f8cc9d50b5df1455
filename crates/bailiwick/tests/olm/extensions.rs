//! OLM v1: ClusterCatalogs and ClusterExtensions.

use anyhow::Result;
use serde_json::json;

use crate::made_up::{Made, definition, publish};
use crate::plane::{Plane, condition};

fn cluster_catalog(name: &str, image: &str, more: &str) -> String {
    format!(
        "apiVersion: olm.operatorframework.io/v1\nkind: ClusterCatalog\nmetadata: {{name: {name}}}\n\
         spec: {{source: {{type: Image, image: {{ref: '{image}'}}}}{more}}}\n"
    )
}

fn extension(name: &str, catalog: &str) -> String {
    format!(
        "apiVersion: olm.operatorframework.io/v1\nkind: ClusterExtension\nmetadata: {{name: {name}}}\n\
         spec: {{namespace: operators, source: {{sourceType: Catalog, catalog: {catalog}}}}}\n"
    )
}

#[test]
fn an_extension_is_installed_upgraded_and_removed_as_a_whole() -> Result<()> {
    let images = tempfile::tempdir()?;
    let bundles = ["1.0.0", "1.1.0", "2.0.0"].map(|version| Made::new("gadget", version));
    let image = publish(images.path(), "c", &bundles)?;
    let plane = Plane::start(images.path())?;
    plane.apply(&cluster_catalog("made-up", &image, ""))?;
    let catalog = plane.until_object(("", "clustercatalog", "made-up"), "serving", |it| {
        condition(it, "Serving").is_some_and(|it| it["status"] == "True")
    })?;
    assert!(catalog["status"]["urls"]["base"].as_str().is_some_and(|it| it.ends_with("/catalogs/made-up")));
    let shown = plane.kubectl(&["get", "clustercatalog"])?;
    assert_eq!(
        shown.lines().next().map(|it| it.split_whitespace().collect::<Vec<_>>()),
        Some(vec!["NAME", "LASTUNPACKED", "SERVING", "AGE"])
    );
    plane.apply(&extension("gadget", "{packageName: gadget, version: '1.0.0'}"))?;
    let installed = |version: &str| {
        plane.until_object(("", "clusterextension", "gadget"), version, |it| {
            it["status"]["install"]["bundle"]["version"] == version
                && condition(it, "Progressing").is_some_and(|it| it["reason"] == "Succeeded")
        })
    };
    let object = installed("1.0.0")?;
    assert_eq!(condition(&object, "Installed").expect("a condition")["status"], "True");
    let available = condition(&object, "Available").expect("a condition");
    assert_eq!((&available["status"], &available["reason"]), (&json!("False"), &json!("DeploymentsNotServed")));
    plane.kubectl(&["get", "gadgets", "-A"])?;
    let words = plane.kubectl(&["get", "clusterextension"])?;
    let words: Vec<&str> = words.lines().nth(1).unwrap_or_default().split_whitespace().collect();
    assert_eq!(words[..5], ["gadget", "gadget.v1.0.0", "1.0.0", "True", "True"]);
    let change = |version: &str| {
        let patch = json!({"spec": {"source": {"catalog": {"version": version}}}}).to_string();
        plane.kubectl(&["patch", "clusterextension", "gadget", "--type=merge", "-p", &patch])
    };
    change("1.x")?;
    installed("1.1.0")?;
    let roles =
        plane.kubectl(&["get", "clusterrole", "-l", "olm.operatorframework.io/owner-name=gadget", "-o", "name"])?;
    assert!(roles.lines().all(|name| name.contains("gadget.v1.1.0")) && !roles.is_empty(), "{roles}");
    // Nothing leads there.
    change("9.x")?;
    let object = plane.until_object(("", "clusterextension", "gadget"), "refused", |it| {
        condition(it, "Progressing").is_some_and(|it| it["reason"] == "Retrying")
    })?;
    let message = condition(&object, "Progressing").expect("a condition")["message"].to_string();
    assert!(message.contains("no bundle of package gadget fits"), "{message}");
    assert_eq!(object["status"]["install"]["bundle"]["version"], "1.1.0");
    plane.kubectl(&["delete", "clusterextension", "gadget", "--timeout=60s"])?;
    plane.until("everything is gone", || {
        let roles =
            plane.kubectl(&["get", "clusterrole", "-l", "olm.operatorframework.io/owner-name=gadget", "-o", "name"])?;
        Ok(roles.is_empty() && plane.get("", "crd", "gadgets.example.com")?.is_none())
    })
}

#[test]
fn dependencies_become_extensions() -> Result<()> {
    let images = tempfile::tempdir()?;
    let bundles = [Made::new("base", "1.0.0"), Made::new("app", "0.1.0").requires("base", ">=1.0.0")];
    let image = publish(images.path(), "c", &bundles)?;
    let plane = Plane::start(images.path())?;
    plane.apply(&cluster_catalog("made-up", &image, ""))?;
    plane.apply(&extension("app", "{packageName: app}"))?;
    for (name, version) in [("base", "1.0.0"), ("app", "0.1.0")] {
        plane.until_object(("", "clusterextension", name), version, |it| {
            it["status"]["install"]["bundle"]["version"] == version
        })?;
    }
    let base = plane.get("", "clusterextension", "base")?.expect("made");
    assert_eq!(base["metadata"]["annotations"]["bailiwick.dev/required-by"], "app");
    Ok(())
}

#[test]
fn changes_that_could_break_objects_are_refused_unless_allowed() -> Result<()> {
    let images = tempfile::tempdir()?;
    let mut narrower = definition("gadget", &["v1"]);
    let fields = narrower["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
        .as_object_mut();
    fields.expect("fields").remove("color");
    let bundles = [Made::new("gadget", "1.0.0"), Made::new("gadget", "1.1.0").defines(narrower)];
    let image = publish(images.path(), "c", &bundles)?;
    let plane = Plane::start(images.path())?;
    plane.apply(&cluster_catalog("made-up", &image, ", priority: 5"))?;
    plane.apply(&extension("gadget", "{packageName: gadget, version: 1.0.0, channels: [stable]}"))?;
    plane.until_object(("", "clusterextension", "gadget"), "installed", |it| {
        it["status"]["install"]["bundle"]["version"] == "1.0.0"
    })?;
    plane.apply(&extension("gadget", "{packageName: gadget, version: 1.x, channels: [stable]}"))?;
    let object = plane.until_object(("", "clusterextension", "gadget"), "refused", |it| {
        condition(it, "Progressing").is_some_and(|it| it["reason"] == "Retrying")
    })?;
    let message = condition(&object, "Progressing").expect("a condition")["message"].to_string();
    assert!(message.contains("failed upgrade safety validation") && message.contains("color"), "{message}");
    let patch = json!({"spec": {"install": {"preflight": {"crdUpgradeSafety": {"enforcement": "None"}}}}}).to_string();
    plane.kubectl(&["patch", "clusterextension", "gadget", "--type=merge", "-p", &patch])?;
    plane.until_object(("", "clusterextension", "gadget"), "upgraded", |it| {
        it["status"]["install"]["bundle"]["version"] == "1.1.0"
    })?;
    let refused = plane.kubectl(&[
        "patch",
        "clusterextension",
        "gadget",
        "--type=merge",
        "-p",
        r#"{"spec":{"namespace":"other"}}"#,
    ]);
    assert!(format!("{:#}", refused.expect_err("immutable")).contains("namespace is immutable"));
    Ok(())
}
