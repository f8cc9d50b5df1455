//! A server that ends in the middle of an installation, of an upgrade or of going back brings it to its end once it is there
//! again. The cluster that it installs to keeps it waiting for an answer, so that the moment is the same each time.

use anyhow::Result;
use hyper::Method;
use serde_json::{Value, json};

use crate::extensions::cluster_catalog;
use crate::front::Front;
use crate::made_up::{Made, definition, publish};
use crate::plane::{Plane, catalog_source, condition, offering, subscription};
use crate::rollback::{is_back, runs_away, settings, with_image};

/// How a server ends.
#[derive(Clone, Copy)]
enum End {
    Terminated,
    Killed,
}

/// Ends the server while it waits for the cluster, and starts it again.
fn ends_while_waiting(plane: &mut Plane, front: &Front, end: End) -> Result<()> {
    plane.until("it waits for the cluster", || Ok(front.is_awaited()))?;
    match end {
        End::Terminated => assert!(plane.server.terminate()?.success()),
        End::Killed => plane.server.kill(),
    }
    front.works_again();
    plane.server.restart()
}

fn level(front: &Front) -> Result<Value> {
    let map = front.away.get("team", "configmap", "settings")?.unwrap_or_default();
    Ok(map["data"]["level"].clone())
}

fn versions_defined(front: &Front) -> Result<usize> {
    let crd = front.away.get("", "crd", "gadgets.example.com")?.unwrap_or_default();
    Ok(crd["spec"]["versions"].as_array().map_or(0, Vec::len))
}

/// What is named `before-…` is for upgrades that are under way.
fn nothing_is_kept(plane: &Plane) -> Result<()> {
    let secrets = plane.kubectl(&["get", "secrets", "-n", "team", "-o", "name"])?;
    assert!(!secrets.contains("before-"), "{secrets}");
    Ok(())
}

/// A version that watches all namespaces only, which its OperatorGroup does not ask for.
fn fails() -> Made {
    let all = json!([{"type": "AllNamespaces", "supported": true}]);
    let made = Made::new("gadget", "2.0.0").says("installModes", all);
    made.defines(definition("gadget", &["v1", "v2"])).with(settings("second"))
}

fn first() -> Made {
    Made::new("gadget", "1.0.0").with(settings("first"))
}

/// A version with another definition, other settings, and objects that the first does not have, a Secret last.
fn second_with_more() -> Made {
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "keys"}});
    let added = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "added"}});
    let made = Made::new("gadget", "2.0.0").defines(definition("gadget", &["v1", "v2"]));
    made.with(settings("second")).with(added).with(secret)
}

#[test]
fn an_installation_and_an_upgrade_go_on_where_they_were() -> Result<()> {
    let (mut plane, images) = offering(&[first()])?;
    let front = Front::start()?;
    front.holds(Method::PATCH, "configmaps");
    front.is_target_of(&plane, "team")?;
    plane.apply(&subscription("team", "gadget", "made-up", ""))?;
    ends_while_waiting(&mut plane, &front, End::Terminated)?;
    plane.until_phase("team", "gadget.v1.0.0", "Installing", "InstallWaiting")?;
    assert_eq!(level(&front)?, "first");
    front.runs("team", "gadget-operator")?;
    plane.until_phase("team", "gadget.v1.0.0", "Succeeded", "InstallSucceeded")?;
    nothing_is_kept(&plane)?;

    let second = with_image("2.0.0", "example.com/manager:2").with(settings("second"));
    front.holds(Method::PATCH, "configmaps");
    let upgrade = publish(images.path(), "more", &[first(), second])?;
    plane.apply(&catalog_source("olm", "made-up", &upgrade))?;
    ends_while_waiting(&mut plane, &front, End::Killed)?;
    plane.until_phase("team", "gadget.v2.0.0", "Installing", "InstallWaiting")?;
    assert_eq!(level(&front)?, "second");
    front.runs("team", "gadget-operator")?;
    plane.until_phase("team", "gadget.v2.0.0", "Succeeded", "InstallSucceeded")?;
    plane.until("the old version is gone", || Ok(plane.get("team", "csv", "gadget.v1.0.0")?.is_none()))?;
    nothing_is_kept(&plane)?;
    let plans = plane.list("team", "installplan")?;
    assert!(plans.len() == 2 && plans.iter().all(|plan| plan["status"]["phase"] == "Complete"), "{plans:?}");
    Ok(())
}

#[test]
fn what_is_refused_after_a_restart_goes_back_as_a_whole() -> Result<()> {
    let (mut plane, images) = offering(&[first()])?;
    let front = Front::start()?;
    runs_away(&plane, &front)?;

    front.holds(Method::PATCH, "secrets");
    let upgrade = publish(images.path(), "more", &[first(), second_with_more()])?;
    plane.apply(&catalog_source("olm", "made-up", &upgrade))?;
    plane.until("it waits for the cluster", || Ok(front.is_awaited()))?;
    assert_eq!((level(&front)?, versions_defined(&front)?), (json!("second"), 2));
    plane.server.kill();
    front.breaks("secrets", 403);
    plane.server.restart()?;
    let sub = plane.until_object(("team", "subscription", "gadget"), "failed", |sub| {
        condition(sub, "InstallPlanFailed").is_some()
    })?;
    let said = condition(&sub, "InstallPlanFailed").expect("a condition")["message"].to_string();
    assert!(said.contains("Secret keys") && said.contains("everything was put back"), "{said}");
    assert_eq!((level(&front)?, versions_defined(&front)?), (json!("first"), 1));
    assert!(front.away.get("team", "configmap", "added")?.is_none());
    assert!(plane.get("team", "csv", "gadget.v2.0.0")?.is_none());
    let old = plane.until_phase("team", "gadget.v1.0.0", "Succeeded", "InstallSucceeded")?;
    let phases = old["status"]["conditions"].as_array().expect("conditions");
    assert!(phases.iter().all(|it| it["phase"] != "Replacing"), "it never left: {old}");
    nothing_is_kept(&plane)
}

#[test]
fn an_extension_that_is_refused_after_a_restart_goes_back_as_a_whole() -> Result<()> {
    let images = tempfile::tempdir()?;
    let mut plane = Plane::start(images.path())?;
    let front = Front::start()?;
    front.is_target_of(&plane, "team")?;
    front.away.kubectl(&["create", "namespace", "team"])?;
    let offer = |plane: &Plane, name: &str, bundles: &[Made]| -> Result<String> {
        plane.apply(&cluster_catalog("made-up", &publish(images.path(), name, bundles)?, ""))
    };
    offer(&plane, "c", &[first()])?;
    plane.apply(
        "apiVersion: olm.operatorframework.io/v1\nkind: ClusterExtension\n\
         metadata: {name: gadget, annotations: {bailiwick.dev/target-kubeconfig: away}}\n\
         spec: {namespace: team, source: {sourceType: Catalog, catalog: {packageName: gadget}}}\n",
    )?;
    let extension = ("", "clusterextension", "gadget");
    plane.until_object(extension, "installed", |it| it["status"]["install"]["bundle"]["version"] == "1.0.0")?;

    front.holds(Method::PATCH, "secrets");
    offer(&plane, "more", &[first(), second_with_more()])?;
    plane.until("it waits for the cluster", || Ok(front.is_awaited()))?;
    assert_eq!((level(&front)?, versions_defined(&front)?), (json!("second"), 2));
    plane.server.kill();
    front.breaks("secrets", 403);
    plane.server.restart()?;
    let refused = plane.until_object(extension, "put back", |it| {
        let said = condition(it, "Progressing").map(|it| it["message"].to_string()).unwrap_or_default();
        said.contains("Secret keys") && said.contains("everything was put back")
    })?;
    assert_eq!(refused["status"]["install"]["bundle"]["version"], "1.0.0", "{refused}");
    assert_eq!((level(&front)?, versions_defined(&front)?), (json!("first"), 1));
    assert!(front.away.get("team", "configmap", "added")?.is_none());
    front.works_again();
    plane.until_object(extension, "upgraded", |it| it["status"]["install"]["bundle"]["version"] == "2.0.0")?;
    assert_eq!((level(&front)?, versions_defined(&front)?), (json!("second"), 2));
    let secrets = plane.kubectl(&["get", "secrets", "-n", "olm", "-o", "name"])?;
    assert!(!secrets.contains("before-"), "{secrets}");
    Ok(())
}

#[test]
fn going_back_goes_on_where_it_was() -> Result<()> {
    let (mut plane, images) = offering(&[first()])?;
    let front = Front::start()?;
    runs_away(&plane, &front)?;
    let upgrade = publish(images.path(), "more", &[first(), fails()])?;
    front.holds(Method::PUT, "customresourcedefinitions");
    plane.apply(&catalog_source("olm", "made-up", &upgrade))?;
    for end in [End::Killed, End::Terminated] {
        if matches!(end, End::Terminated) {
            // Once more.
            let sub = plane.get("team", "subscription", "gadget")?.expect("it is there");
            let plan = sub["status"]["installPlanRef"]["name"].as_str().expect("a plan").to_owned();
            front.holds(Method::PUT, "customresourcedefinitions");
            plane.kubectl(&["delete", "installplan", &plan, "-n", "team"])?;
        }
        // The settings are back already, the definition is not.
        plane.until("it waits for the cluster", || Ok(front.is_awaited()))?;
        assert_eq!((level(&front)?, versions_defined(&front)?), (json!("first"), 2));
        ends_while_waiting(&mut plane, &front, end)?;
        is_back(&plane, "team", ("gadget.v1.0.0", "gadget.v2.0.0"), "UnsupportedOperatorGroup")?;
        let failed = plane.get("team", "csv", "gadget.v2.0.0")?.expect("it says why");
        let message = failed["status"]["message"].as_str().unwrap_or_default();
        assert!(message.ends_with("rolled back to gadget.v1.0.0: everything was put back"), "{message}");
        assert_eq!((level(&front)?, versions_defined(&front)?), (json!("first"), 1));
        front.runs("team", "gadget-operator")?;
        plane.until_phase("team", "gadget.v1.0.0", "Succeeded", "InstallSucceeded")?;
    }
    Ok(())
}

/// From now on what does not follow a rule is refused of one of OLM's kinds: nobody gets further than that.
fn refuses(plane: &Plane, resource: &str, rule: &str) -> Result<()> {
    plane.apply(&format!(
        "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicy\nmetadata: {{name: no-further}}\n\
         spec:\n  matchConstraints:\n    resourceRules:\n    - apiGroups: [operators.coreos.com]\n      apiVersions: ['*']\n      \
         operations: [UPDATE]\n      resources: [{resource}]\n  validations:\n  - expression: \"{rule}\"\n    message: not yet\n---\n\
         apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicyBinding\nmetadata: {{name: no-further}}\n\
         spec: {{policyName: no-further, validationActions: [Deny]}}\n"
    ))?;
    Ok(())
}

fn refuses_no_more(plane: &Plane) -> Result<()> {
    plane.kubectl(&["delete", "validatingadmissionpolicybinding", "no-further"])?;
    Ok(())
}

/// The plan is there before the Subscription can say so, and a dependency's Subscription before it has a status.
#[test]
fn a_plan_that_its_subscriptions_do_not_know_of_is_taken_up() -> Result<()> {
    let gadget = Made::new("gadget", "1.0.0").requires("base", ">=1.0.0");
    let (mut plane, _images) = offering(&[Made::new("base", "1.0.0"), gadget])?;
    plane.runs_elsewhere("operators", "global-operators")?;
    refuses(&plane, "subscriptions/status", "!has(object.status) || !has(object.status.installPlanRef)")?;
    plane.apply(&subscription("operators", "gadget", "made-up", ""))?;
    let dependency = ("operators", "subscription", "base-stable-made-up-olm");
    plane.until_object(dependency, "made", |_| true)?;
    plane.server.kill();
    plane.server.restart()?;
    refuses_no_more(&plane)?;
    let is_there = |csv: &'static str| {
        move |sub: &Value| sub["status"]["installedCSV"] == csv && sub["status"]["state"] == "AtLatestKnown"
    };
    plane.until_object(dependency, "at its version", is_there("base.v1.0.0"))?;
    let own = ("operators", "subscription", "gadget");
    let sub = plane.until_object(own, "at its version", is_there("gadget.v1.0.0"))?;
    let plans = plane.list("operators", "installplan")?;
    assert_eq!(plans.len(), 1, "{plans:?}");
    assert_eq!(sub["status"]["installPlanRef"]["name"], plans[0]["metadata"]["name"]);
    Ok(())
}

/// The second of two versions that go back together is marked last; here that is refused for a while.
#[test]
fn what_goes_back_together_is_told_as_put_back_when_it_took_two_servers() -> Result<()> {
    let old = [Made::new("base", "1.0.0"), Made::new("gadget", "1.0.0").requires("base", "<2.0.0")];
    let own = json!([{"type": "OwnNamespace", "supported": true}]);
    let new = Made::new("gadget", "2.0.0").says("installModes", own).requires("base", ">=2.0.0");
    let (mut plane, images) = offering(&old)?;
    let rule = "object.metadata.name != 'gadget.v2.0.0' || \
                !('bailiwick.dev/rolled-back-to' in object.metadata.annotations)";
    refuses(&plane, "clusterserviceversions", rule)?;
    plane.runs_elsewhere("operators", "global-operators")?;
    plane.apply(&subscription("operators", "gadget", "made-up", ""))?;
    plane.until_phase("operators", "gadget.v1.0.0", "Succeeded", "InstallSucceeded")?;
    let [base, gadget] = old;
    let upgrade = publish(images.path(), "more", &[base, Made::new("base", "2.0.0"), gadget, new])?;
    plane.apply(&catalog_source("olm", "made-up", &upgrade))?;
    plane.until_object(("operators", "csv", "base.v2.0.0"), "rolled back", |csv| {
        csv["metadata"]["annotations"]["bailiwick.dev/rolled-back-to"] == "base.v1.0.0"
            && csv["metadata"]["finalizers"].as_array().is_none_or(Vec::is_empty)
    })?;
    plane.server.kill();
    plane.server.restart()?;
    refuses_no_more(&plane)?;
    let failed = plane.until_object(("operators", "csv", "gadget.v2.0.0"), "rolled back", |csv| {
        csv["metadata"]["annotations"]["bailiwick.dev/rolled-back-to"] == "gadget.v1.0.0"
    })?;
    let message = failed["status"]["message"].as_str().unwrap_or_default();
    assert!(message.ends_with("rolled back to gadget.v1.0.0: everything was put back"), "{message}");
    for version in ["gadget.v1.0.0", "base.v1.0.0"] {
        plane.until_phase("operators", version, "Succeeded", "InstallSucceeded")?;
    }
    Ok(())
}
