//! OLM v1: ClusterCatalogs and ClusterExtensions.

use anyhow::Result;
use serde_json::json;

use crate::made_up::{Made, catalog_text, definition, publish, publish_text};
use crate::plane::{Plane, condition};

pub fn cluster_catalog(name: &str, image: &str, more: &str) -> String {
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

/// What was brought for an extension moves with it, when its upgrade needs that; what somebody made stays theirs.
#[test]
fn dependencies_move_with_the_upgrade_that_needs_them() -> Result<()> {
    let images = tempfile::tempdir()?;
    let base = ["1.0.0", "2.0.0", "2.1.0"].map(|version| Made::new("base", version));
    let first = [base[0].clone(), Made::new("app", "1.0.0").requires("base", ">=1.0.0")];
    let image = publish(images.path(), "c", &first)?;
    let plane = Plane::start(images.path())?;
    plane.apply(&cluster_catalog("made-up", &image, "").replace("'}}", "', pollIntervalMinutes: 1}}"))?;
    plane.apply(&extension("app", "{packageName: app}"))?;
    let installed = |name: &str, version: &str| {
        plane.until_object(("", "clusterextension", name), version, |it| {
            it["status"]["install"]["bundle"]["version"] == version
        })
    };
    installed("app", "1.0.0")?;
    installed("base", "1.0.0")?;
    let second = [&first[..], &base[1..2], &[Made::new("app", "2.0.0").requires("base", ">=2.0.0 <2.1.0")]].concat();
    // The same catalog from another image, which is looked at now and not in a minute.
    let image = publish(images.path(), "d", &[&second[..], &base[2..]].concat())?;
    plane.apply(&cluster_catalog("made-up", &image, ""))?;
    installed("app", "2.0.0")?;
    let moved = installed("base", "2.0.0")?;
    assert_eq!(moved["spec"]["source"]["catalog"]["version"], "2.0.0");
    assert_eq!(moved["metadata"]["annotations"]["bailiwick.dev/required-by"], "app");

    // Whoever takes the pin into their own hands keeps it.
    plane.kubectl(&["annotate", "clusterextension", "base", "bailiwick.dev/required-by-"])?;
    let third = [&second[..], &base[2..], &[Made::new("app", "3.0.0").requires("base", ">=2.1.0")]].concat();
    let image = publish(images.path(), "e", &third)?;
    plane.apply(&cluster_catalog("made-up", &image, ""))?;
    plane.apply(&extension("app", "{packageName: app, version: '3.x'}"))?;
    let refused = plane.until_object(("", "clusterextension", "app"), "refused", |it| {
        condition(it, "Progressing").is_some_and(|it| it["message"].to_string().contains("base"))
    })?;
    assert_eq!(refused["status"]["install"]["bundle"]["version"], "2.0.0");
    assert_eq!(
        plane.get("", "clusterextension", "base")?.expect("there")["spec"]["source"]["catalog"]["version"],
        "2.0.0"
    );
    Ok(())
}

#[test]
fn catalogs_are_chosen_by_label_and_can_be_taken_away() -> Result<()> {
    let images = tempfile::tempdir()?;
    let old = publish(images.path(), "old", &[Made::new("gadget", "1.0.0"), Made::new("gadget", "1.1.0")])?;
    let new = publish(images.path(), "new", &[Made::new("gadget", "3.0.0")])?;
    let plane = Plane::start(images.path())?;
    plane.apply(&cluster_catalog("old", &old, "").replace("name: old", "name: old, labels: {tier: gold}"))?;
    plane.apply(&cluster_catalog("new", &new, ", priority: 5"))?;
    for name in ["old", "new"] {
        plane.until_object(("", "clustercatalog", name), "serving", |it| {
            condition(it, "Serving").is_some_and(|it| it["status"] == "True")
        })?;
    }
    let gold = "selector: {matchLabels: {tier: gold}}";
    plane.apply(&extension("gadget", &format!("{{packageName: gadget, version: '1.1.0', {gold}}}")))?;
    let at = |version: &str| {
        plane.until_object(("", "clusterextension", "gadget"), version, |it| {
            it["status"]["install"]["bundle"]["version"] == version
                && condition(it, "Progressing").is_some_and(|it| it["reason"] == "Succeeded")
        })
    };
    at("1.1.0")?;
    // Backwards is no edge of the catalog, but the user's own risk.
    let own_risk = format!("{{packageName: gadget, version: '1.0.0', upgradeConstraintPolicy: SelfCertified, {gold}}}");
    plane.apply(&extension("gadget", &own_risk))?;
    at("1.0.0")?;
    // The other catalog gets the label, and with it the higher priority counts.
    let any = format!("{{packageName: gadget, upgradeConstraintPolicy: SelfCertified, {gold}}}");
    plane.apply(&extension("gadget", &any))?;
    at("1.1.0")?;
    plane.kubectl(&["label", "clustercatalog", "new", "tier=gold"])?;
    at("3.0.0")?;

    // What it serves, and that it stops.
    let catalog = plane.get("", "clustercatalog", "new")?.expect("there");
    let base = catalog["status"]["urls"]["base"].as_str().expect("an address").to_owned();
    let all = reqwest::blocking::get(format!("{base}/api/v1/all"))?;
    assert!(all.status().is_success());
    assert!(all.text()?.contains("gadget.v3.0.0"));
    let bundles = reqwest::blocking::get(format!("{base}/api/v1/metas?schema=olm.bundle&package=gadget"))?.text()?;
    assert!(bundles.contains("gadget.v3.0.0") && !bundles.contains("olm.channel"), "{bundles}");
    let patch = json!({"spec": {"availabilityMode": "Unavailable"}}).to_string();
    plane.kubectl(&["patch", "clustercatalog", "new", "--type=merge", "-p", &patch])?;
    let gone = plane.until_object(("", "clustercatalog", "new"), "unavailable", |it| {
        condition(it, "Serving").is_some_and(|it| it["reason"] == "UserSpecifiedUnavailable")
    })?;
    assert!(gone["status"]["urls"].is_null(), "{gone}");
    assert!(!reqwest::blocking::get(format!("{base}/api/v1/all")).is_ok_and(|it| it.status().is_success()));
    Ok(())
}

#[test]
fn an_extension_watches_the_namespace_of_its_configuration() -> Result<()> {
    let images = tempfile::tempdir()?;
    let modes = json!([{"type": "SingleNamespace", "supported": true}]);
    let image = publish(images.path(), "c", &[Made::new("gadget", "1.0.0").says("installModes", modes)])?;
    let plane = Plane::start(images.path())?;
    plane.apply(&cluster_catalog("made-up", &image, ""))?;
    plane.apply(&extension("gadget", "{packageName: gadget}"))?;
    let refused = plane.until_object(("", "clusterextension", "gadget"), "refused", |it| {
        condition(it, "Progressing").is_some_and(|it| it["message"].to_string().contains("watchNamespace"))
    })?;
    assert!(refused["status"]["install"].is_null(), "{refused}");
    plane.kubectl(&["create", "namespace", "watched"])?;
    let patch =
        json!({"spec": {"config": {"configType": "Inline", "inline": {"watchNamespace": "watched"}}}}).to_string();
    plane.kubectl(&["patch", "clusterextension", "gadget", "--type=merge", "-p", &patch])?;
    plane.until_object(("", "clusterextension", "gadget"), "installed", |it| {
        it["status"]["install"]["bundle"]["version"] == "1.0.0"
    })?;
    let roles = |namespace: &str| plane.kubectl(&["get", "role", "-n", namespace, "-o", "name"]);
    assert!(roles("watched")?.contains("gadget"));
    // Another one is watched instead.
    plane.kubectl(&["create", "namespace", "other"])?;
    let patch = patch.replace("watched", "other");
    plane.kubectl(&["patch", "clusterextension", "gadget", "--type=merge", "-p", &patch])?;
    plane.until("the operator watches the other namespace", || {
        Ok(roles("other")?.contains("gadget") && roles("watched")?.is_empty())
    })
}

#[test]
fn an_installed_extension_is_kept_as_its_catalog_has_it() -> Result<()> {
    let images = tempfile::tempdir()?;
    let image = publish(images.path(), "c", &[Made::new("gadget", "1.0.0")])?;
    let plane = Plane::start(images.path())?;
    plane.apply(&cluster_catalog("made-up", &image, ""))?;
    plane.apply(&extension("gadget", "{packageName: gadget}"))?;
    let object = plane.until_object(("", "clusterextension", "gadget"), "installed", |it| {
        condition(it, "Progressing").is_some_and(|it| it["reason"] == "Succeeded")
    })?;
    assert_eq!(condition(&object, "Deprecated").expect("a condition")["status"], "False");
    // What goes missing comes back; whatever happens to the extension leads to a look at it.
    let roles =
        || plane.kubectl(&["get", "clusterrole", "-l", "olm.operatorframework.io/owner-name=gadget", "-o", "name"]);
    let before = roles()?;
    plane.kubectl(&["delete", before.lines().next().expect("a role")])?;
    plane.kubectl(&["annotate", "clusterextension", "gadget", "look=now"])?;
    plane.until("the role is there again", || Ok(roles()? == before))?;
    // The bundle has another content by the same name, and its package is given up.
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"a": "b"}});
    let deprecated = json!({"schema": "olm.deprecations", "package": "gadget", "entries": [
        {"reference": {"schema": "olm.package"}, "message": "gadgets are given up"}]});
    let text = format!("{}\n{deprecated}", catalog_text(&[Made::new("gadget", "1.0.0").with(map)])?);
    let image = publish_text(images.path(), "d", &text)?;
    plane.apply(&cluster_catalog("made-up", &image, ""))?;
    plane.until("the new object", || Ok(plane.get("operators", "configmap", "settings")?.is_some()))?;
    let object = plane.until_object(("", "clusterextension", "gadget"), "deprecated", |it| {
        condition(it, "PackageDeprecated").is_some_and(|it| it["status"] == "True")
    })?;
    assert_eq!(condition(&object, "PackageDeprecated").expect("a condition")["message"], "gadgets are given up");
    // Nothing is written when nothing changes.
    let version = || -> Result<String> {
        let object = plane.get("", "clusterextension", "gadget")?.unwrap_or_default();
        Ok(object["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned())
    };
    plane.until("quiet", || {
        let before = version()?;
        plane.kubectl(&["annotate", "crd", "gadgets.example.com", "--overwrite", "look=again"])?;
        plane.kubectl(&["annotate", "crd", "gadgets.example.com", "look-"])?;
        Ok(version()? == before)
    })
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
