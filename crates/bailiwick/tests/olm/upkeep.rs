//! What is installed on a cluster stays as it should be: what goes missing is installed again, what is configured anew is
//! changed, and a cluster that does not answer for a while loses nothing.

use anyhow::Result;
use serde_json::{Value, json};

use crate::front::Front;
use crate::made_up::{Made, publish};
use crate::plane::{Plane, catalog_source, offering, subscription};

/// Whether an operator's deployment has an environment variable with a value.
fn has_env(deployment: &Value, name: &str, value: &str) -> bool {
    let env = deployment["spec"]["template"]["spec"]["containers"][0]["env"].as_array();
    env.is_some_and(|env| env.contains(&json!({"name": name, "value": value})))
}

#[test]
fn a_deployment_that_is_deleted_is_installed_again() -> Result<()> {
    let (plane, _images) = offering(&[Made::new("gadget", "1.0.0")])?;
    let front = Front::start()?;
    front.is_target_of(&plane, "team")?;
    plane.apply(&subscription("team", "gadget", "made-up", ""))?;
    plane.until_phase("team", "gadget.v1.0.0", "Installing", "InstallWaiting")?;
    front.runs("team", "gadget-operator")?;
    plane.until_phase("team", "gadget.v1.0.0", "Succeeded", "InstallSucceeded")?;
    front.away.kubectl(&["delete", "deployment", "gadget-operator", "-n", "team"])?;
    // Whatever happens in the namespace leads to a look at it.
    plane.kubectl(&["annotate", "ns", "team", "look=now"])?;
    plane.until("the deployment is there again", || Ok(front.deployment("team", "gadget-operator")?.is_some()))?;
    let csv = plane.until_phase("team", "gadget.v1.0.0", "Installing", "InstallWaiting")?;
    let phases: Vec<String> = csv["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|it| format!("{}/{}", it["phase"].as_str().unwrap_or_default(), it["reason"].as_str().unwrap_or_default()))
        .collect();
    let course = [
        "Succeeded/InstallSucceeded",
        "Failed/ComponentUnhealthy",
        "Pending/NeedsReinstall",
        "InstallReady/AllRequirementsMet",
        "Installing/InstallSucceeded",
        "Installing/InstallWaiting",
    ];
    assert!(phases.ends_with(&course.map(str::to_owned)), "{phases:?}");
    front.runs("team", "gadget-operator")?;
    plane.until_phase("team", "gadget.v1.0.0", "Succeeded", "InstallSucceeded")?;
    Ok(())
}

#[test]
fn a_subscriptions_configuration_reaches_the_deployment_when_it_changes() -> Result<()> {
    let (plane, _images) = offering(&[Made::new("gadget", "1.0.0")])?;
    let front = Front::start()?;
    front.is_target_of(&plane, "team")?;
    let with_level = |level: &str| {
        subscription("team", "gadget", "made-up", &format!(", config: {{env: [{{name: LEVEL, value: {level}}}]}}"))
    };
    plane.apply(&with_level("quiet"))?;
    plane.until_phase("team", "gadget.v1.0.0", "Installing", "InstallWaiting")?;
    let has = |level: &str| -> Result<bool> {
        Ok(front.deployment("team", "gadget-operator")?.is_some_and(|it| has_env(&it, "LEVEL", level)))
    };
    assert!(has("quiet")?);
    // While it is being installed, and once it is.
    plane.apply(&with_level("loud"))?;
    plane.until("the deployment is changed", || has("loud"))?;
    plane.until("it runs", || {
        front.runs("team", "gadget-operator")?;
        let csv = plane.get("team", "csv", "gadget.v1.0.0")?.unwrap_or_default();
        Ok(csv["status"]["phase"] == "Succeeded")
    })?;
    plane.apply(&with_level("louder"))?;
    plane.until("the deployment is changed again", || has("louder"))?;
    Ok(())
}

#[test]
fn a_plan_outlasts_the_troubles_of_its_cluster() -> Result<()> {
    let images = tempfile::tempdir()?;
    let image = publish(images.path(), "c", &[Made::new("gadget", "1.0.0")])?;
    let plane = Plane::start(images.path())?;
    let front = Front::start()?;
    front.breaks("clusterroles", 503);
    plane.apply(&catalog_source("olm", "made-up", &image))?;
    front.is_target_of(&plane, "team")?;
    plane.apply(&subscription("team", "gadget", "made-up", ""))?;
    let mut plan = Value::Null;
    plane.until("a plan that waits", || {
        plan = plane.list("team", "installplan")?.into_iter().next().unwrap_or_default();
        Ok(plan["status"]["message"].as_str().is_some_and(|it| it.contains("out of order: clusterroles")))
    })?;
    assert_eq!(plan["status"]["phase"], "Installing", "{plan}");
    assert!(plan["status"]["message"].as_str().is_some_and(|it| it.ends_with("everything was put back")), "{plan}");
    front.works_again();
    plane.until_phase("team", "gadget.v1.0.0", "Installing", "InstallWaiting")?;
    let plans = plane.list("team", "installplan")?;
    assert_eq!(plans.len(), 1, "it is the same plan");
    assert_eq!(plans[0]["metadata"]["name"], plan["metadata"]["name"]);
    plane.until("the plan is complete", || {
        Ok(plane.list("team", "installplan")?.iter().all(|plan| plan["status"]["phase"] == "Complete"))
    })
}
