//! Subscriptions to the end: installing, approving, upgrading, depending, uninstalling.

use anyhow::Result;
use serde_json::json;

use crate::made_up::Made;
use crate::plane::{condition, offering, subscription};

#[test]
fn an_operator_is_installed_and_says_that_nothing_runs_it() -> Result<()> {
    let (plane, _images) = offering(&[Made::new("gadget", "1.0.0")])?;
    plane.apply(&subscription("operators", "gadget", "made-up", ", channel: stable"))?;
    let csv = plane.until_phase("operators", "gadget.v1.0.0", "Installing", "DeploymentsNotServed")?;
    let message = csv["status"]["message"].as_str().unwrap_or_default();
    assert!(message.contains("gadget-operator") && message.contains("bailiwick.dev/target-kubeconfig"), "{message}");
    let phases: Vec<&str> = csv["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|condition| condition["phase"].as_str())
        .collect();
    assert_eq!(phases, ["Pending", "InstallReady", "Installing", "Installing"]);
    // The definition is served, and the permissions are there.
    plane.kubectl(&["get", "gadgets", "-A"])?;
    let roles =
        plane.kubectl(&["get", "clusterrole,clusterrolebinding", "-l", "olm.owner=gadget.v1.0.0", "-o", "name"])?;
    assert_eq!(roles.lines().count(), 4, "{roles}");
    let sub = plane.until_object(("operators", "subscription", "gadget"), "settled", |sub| {
        sub["status"]["state"] == "AtLatestKnown"
    })?;
    assert_eq!(sub["status"]["installedCSV"], "gadget.v1.0.0");
    assert_eq!(condition(&sub, "CatalogSourcesUnhealthy").expect("a condition")["status"], "False");
    let plans = plane.list("operators", "installplan")?;
    assert_eq!(plans.len(), 1);
    assert_eq!(plans[0]["status"]["phase"], "Complete");
    let shown = plane.kubectl(&["get", "ip", "-n", "operators"])?;
    assert!(shown.starts_with("NAME"), "{shown}");
    assert_eq!(
        shown.lines().next().map(|it| it.split_whitespace().collect::<Vec<_>>()),
        Some(vec!["NAME", "CSV", "APPROVAL", "APPROVED"])
    );
    // Once somebody runs it, it is done.
    plane.runs_elsewhere("operators", "global-operators")?;
    let csv = plane.until_phase("operators", "gadget.v1.0.0", "Succeeded", "InstallSucceeded")?;
    assert!(csv["status"]["message"].as_str().is_some_and(|it| it.contains("run elsewhere")), "{csv}");
    let shown = plane.kubectl(&["get", "csv", "-n", "operators"])?;
    let words: Vec<Vec<&str>> = shown.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(words[0], ["NAME", "DISPLAY", "VERSION", "RELEASE", "REPLACES", "PHASE"]);
    assert_eq!(words[1], ["gadget.v1.0.0", "Gadget", "1.0.0", "Succeeded"]);
    // What was installed keeps quiet: nothing is written when nothing changes.
    let version = |kind: &str, name: &str| -> Result<String> {
        let object = plane.get("operators", kind, name)?.unwrap_or_default();
        Ok(object["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned())
    };
    plane.until("quiet", || {
        let before = (version("csv", "gadget.v1.0.0")?, version("subscription", "gadget")?);
        plane.kubectl(&["annotate", "ns", "operators", "--overwrite", "look=again"])?;
        plane.kubectl(&["annotate", "ns", "operators", "look-"])?;
        let after = (version("csv", "gadget.v1.0.0")?, version("subscription", "gadget")?);
        Ok(before == after)
    })
}

#[test]
fn approval_and_upgrades_follow_the_channel() -> Result<()> {
    let versions = ["1.0.0", "1.1.0", "1.2.0"].map(|version| Made::new("gadget", version));
    let (plane, _images) = offering(&versions)?;
    plane.runs_elsewhere("operators", "global-operators")?;
    let more = ", channel: stable, startingCSV: gadget.v1.0.0, installPlanApproval: Manual";
    plane.apply(&subscription("operators", "gadget", "made-up", more))?;
    for (version, before) in [("1.0.0", None), ("1.1.0", Some("1.0.0")), ("1.2.0", Some("1.1.0"))] {
        let csv = format!("gadget.v{version}");
        let mut name = String::new();
        plane.until(&format!("a plan for {csv}"), || {
            let plans = plane.list("operators", "installplan")?;
            let plan = plans.iter().find(|plan| {
                plan["spec"]["clusterServiceVersionNames"] == json!([csv])
                    && plan["status"]["phase"] == "RequiresApproval"
            });
            name = plan.and_then(|plan| plan["metadata"]["name"].as_str()).unwrap_or_default().to_owned();
            Ok(!name.is_empty())
        })?;
        let sub = plane.until_object(("operators", "subscription", "gadget"), "pending", |sub| {
            condition(sub, "InstallPlanPending").is_some_and(|it| it["reason"] == "RequiresApproval")
        })?;
        assert_eq!(sub["status"]["installPlanRef"]["name"], name.as_str());
        assert!(plane.get("operators", "csv", &csv)?.is_none(), "nothing is installed before it is approved");
        plane.kubectl(&[
            "patch",
            "ip",
            &name,
            "-n",
            "operators",
            "--type=merge",
            "-p",
            r#"{"spec":{"approved":true}}"#,
        ])?;
        let made = plane.until_phase("operators", &csv, "Succeeded", "InstallSucceeded")?;
        if let Some(before) = before {
            assert_eq!(made["spec"]["replaces"], format!("gadget.v{before}"));
            plane.until("the old version is gone", || {
                Ok(plane.get("operators", "csv", &format!("gadget.v{before}"))?.is_none())
            })?;
            let selector = format!("olm.owner=gadget.v{before}");
            let left = plane.kubectl(&["get", "clusterrole", "-l", &selector, "-o", "name"])?;
            assert_eq!(left, "", "permissions of the old version go with it");
        }
    }
    Ok(())
}

#[test]
fn dependencies_are_installed_and_subscribed_to() -> Result<()> {
    let bundles =
        [Made::new("base", "1.0.0"), Made::new("base", "2.0.0"), Made::new("app", "0.1.0").requires("base", "<2.0.0")];
    let (plane, _images) = offering(&bundles)?;
    plane.runs_elsewhere("operators", "global-operators")?;
    plane.apply(&subscription("operators", "app", "made-up", ""))?;
    plane.until_phase("operators", "app.v0.1.0", "Succeeded", "InstallSucceeded")?;
    plane.until_phase("operators", "base.v1.0.0", "Succeeded", "InstallSucceeded")?;
    let made = plane.until_object(("operators", "subscription", "base-stable-made-up-olm"), "made", |_| true)?;
    assert_eq!(made["spec"]["startingCSV"], "base.v1.0.0");
    // It is not upgraded beyond what is required.
    plane.until_object(("operators", "subscription", "base-stable-made-up-olm"), "settled", |sub| {
        sub["status"]["state"] == "AtLatestKnown"
    })?;
    assert!(plane.get("operators", "csv", "base.v2.0.0")?.is_none());
    Ok(())
}

#[test]
fn removing_a_version_removes_what_it_installed_but_not_its_definitions() -> Result<()> {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"a": "b"}});
    let (plane, _images) = offering(&[Made::new("gadget", "1.0.0").with(map)])?;
    plane.runs_elsewhere("operators", "global-operators")?;
    plane.apply(&subscription("operators", "gadget", "made-up", ""))?;
    plane.until_phase("operators", "gadget.v1.0.0", "Succeeded", "InstallSucceeded")?;
    plane.kubectl(&["get", "configmap", "settings", "-n", "operators"])?;
    plane.apply(
        "apiVersion: example.com/v1\nkind: Gadget\nmetadata: {name: mine, namespace: default}\nspec: {size: 1}\n",
    )?;
    plane.kubectl(&["delete", "subscription", "gadget", "-n", "operators"])?;
    assert!(plane.get("operators", "csv", "gadget.v1.0.0")?.is_some(), "a Subscription is not the operator");
    plane.kubectl(&["delete", "csv", "gadget.v1.0.0", "-n", "operators", "--timeout=60s"])?;
    plane.until("everything is gone", || {
        let roles =
            plane.kubectl(&["get", "clusterrole,clusterrolebinding", "-l", "olm.owner=gadget.v1.0.0", "-o", "name"])?;
        let rest = plane.kubectl(&[
            "get",
            "configmap,sa,role",
            "-n",
            "operators",
            "-l",
            "olm.owner=gadget.v1.0.0",
            "-o",
            "name",
        ])?;
        Ok(roles.is_empty() && rest.is_empty())
    })?;
    plane.kubectl(&["get", "gadget", "mine", "-n", "default"])?;
    Ok(())
}

#[test]
fn a_namespace_with_operators_can_be_deleted() -> Result<()> {
    let (plane, _images) = offering(&[Made::new("gadget", "1.0.0")])?;
    plane.kubectl(&["create", "namespace", "team"])?;
    plane.apply("apiVersion: operators.coreos.com/v1\nkind: OperatorGroup\nmetadata: {name: og, namespace: team}\nspec: {targetNamespaces: [team]}\n")?;
    plane.apply(&subscription("team", "gadget", "made-up", ""))?;
    plane.until_phase("team", "gadget.v1.0.0", "Installing", "DeploymentsNotServed")?;
    plane.kubectl(&["delete", "namespace", "team", "--timeout=60s"])?;
    let roles = plane.kubectl(&["get", "clusterrole", "-l", "olm.owner=gadget.v1.0.0", "-o", "name"])?;
    assert_eq!(roles, "");
    Ok(())
}

#[test]
fn those_who_have_a_namespace_have_the_operators_kinds_in_it() -> Result<()> {
    let (plane, _images) = offering(&[Made::new("gadget", "1.0.0")])?;
    plane.kubectl(&["create", "namespace", "team"])?;
    for (user, role) in [("ann", "admin"), ("ed", "edit"), ("vi", "view")] {
        let (role, user) = (format!("--clusterrole={role}"), format!("--user={user}"));
        plane.kubectl(&["create", "rolebinding", &user[7..], "-n", "team", &role, &user])?;
    }
    plane.apply(&subscription("operators", "gadget", "made-up", ""))?;
    plane.until_phase("operators", "gadget.v1.0.0", "Installing", "DeploymentsNotServed")?;
    let can = |user: &str, verb: &str, what: &str| {
        let may = plane.kubectl(&["auth", "can-i", verb, what, "-n", "team", "--as", user]);
        may.is_ok_and(|said| said.trim() == "yes")
    };
    plane.until("the roles have come together", || Ok(can("vi", "list", "gadgets.example.com")))?;
    plane.until("an administrator may create", || Ok(can("ann", "create", "gadgets.example.com")))?;
    plane.until("an editor may delete", || Ok(can("ed", "delete", "gadgets.example.com")))?;
    assert!(!can("vi", "create", "gadgets.example.com") && !can("eve", "list", "gadgets.example.com"));
    let gadget = "apiVersion: example.com/v1\nkind: Gadget\nmetadata: {name: mine, namespace: team}\nspec: {size: 1}\n";
    let file = tempfile::NamedTempFile::new()?;
    std::fs::write(file.path(), gadget)?;
    plane.kubectl(&["create", "--as", "ann", "-f", file.path().to_str().expect("a path")])?;
    // They are the definition's, and stay as long as there can be objects.
    let role = plane.get("", "clusterrole", "gadgets.example.com-v1-crdview")?.expect("it is there");
    assert_eq!(role["metadata"]["ownerReferences"][0]["kind"], "CustomResourceDefinition");
    plane.kubectl(&["delete", "subscription", "gadget", "-n", "operators"])?;
    plane.kubectl(&["delete", "csv", "gadget.v1.0.0", "-n", "operators", "--timeout=60s"])?;
    assert!(can("ann", "create", "gadgets.example.com"));
    plane.kubectl(&["delete", "crd", "gadgets.example.com", "--timeout=60s"])?;
    plane.until("the roles are gone", || Ok(plane.get("", "clusterrole", "gadgets.example.com-v1-admin")?.is_none()))
}

#[test]
fn an_operator_has_a_condition_that_it_may_write() -> Result<()> {
    let (plane, _images) = offering(&[Made::new("gadget", "1.0.0")])?;
    plane.apply(&subscription("operators", "gadget", "made-up", ""))?;
    plane.until_phase("operators", "gadget.v1.0.0", "Installing", "DeploymentsNotServed")?;
    let condition = plane.get("operators", "operatorcondition", "gadget.v1.0.0")?.expect("it is there");
    assert_eq!(condition["spec"]["deployments"], json!(["gadget-operator"]));
    assert_eq!(condition["spec"]["serviceAccounts"], json!(["gadget"]));
    let can = |name: &str| {
        let what = format!("operatorconditions.operators.coreos.com/{name}");
        let operator = "system:serviceaccount:operators:gadget";
        let may = plane.kubectl(&["auth", "can-i", "update", &what, "-n", "operators", "--as", operator]);
        may.is_ok_and(|said| said.trim() == "yes")
    };
    assert!(can("gadget.v1.0.0") && !can("another"));
    plane.kubectl(&["delete", "subscription", "gadget", "-n", "operators"])?;
    plane.kubectl(&["delete", "csv", "gadget.v1.0.0", "-n", "operators", "--timeout=60s"])?;
    plane.until("it goes with the version", || {
        Ok(plane.get("operators", "operatorcondition", "gadget.v1.0.0")?.is_none())
    })
}
