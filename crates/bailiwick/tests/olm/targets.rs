//! Installing to another control plane whose kubeconfig is in a Secret.

use anyhow::{Context, Result};

use crate::made_up::{Made, publish};
use crate::plane::{Plane, catalog_source, offering, subscription};

#[test]
fn everything_goes_to_the_cluster_of_the_secret() -> Result<()> {
    let images = tempfile::tempdir()?;
    let image = publish(images.path(), "c", &[Made::new("gadget", "1.0.0"), Made::new("gadget", "1.1.0")])?;
    let plane = Plane::start(images.path())?;
    let away = Plane::start_with(&[])?;
    plane.apply(&catalog_source("olm", "made-up", &image))?;
    plane.kubectl(&["create", "namespace", "team"])?;
    let kubeconfig = away.server.kubeconfig();
    let file = format!("--from-file=kubeconfig={}", kubeconfig.to_str().context("a path")?);
    plane.apply(
        "apiVersion: operators.coreos.com/v1\nkind: OperatorGroup\n\
         metadata: {name: og, namespace: team, annotations: {bailiwick.dev/target-kubeconfig: away}}\nspec: {}\n",
    )?;
    plane.apply(&subscription("team", "gadget", "made-up", ", startingCSV: gadget.v1.0.0"))?;
    // The plan says what it waits for.
    plane.until("a plan that waits for the Secret", || {
        let plans = plane.list("team", "installplan")?;
        Ok(plans.first().is_some_and(|plan| {
            plan["status"]["message"].as_str().is_some_and(|message| message.contains("Secret team/away"))
        }))
    })?;
    plane.kubectl(&["create", "secret", "generic", "away", "-n", "team", &file])?;
    let csv = plane.until_phase("team", "gadget.v1.1.0", "Installing", "DeploymentsNotServed")?;
    assert!(csv["status"]["message"].as_str().is_some_and(|it| it.contains("the cluster of Secret away")), "{csv}");
    // The definitions and permissions are there and not here.
    away.kubectl(&["get", "gadgets", "-A"])?;
    away.kubectl(&["get", "serviceaccount", "gadget", "-n", "team"])?;
    assert!(plane.kubectl(&["get", "gadgets", "-A"]).is_err());
    plane.until("the old version is gone there", || {
        Ok(away.kubectl(&["get", "clusterrole", "-l", "olm.owner=gadget.v1.0.0", "-o", "name"])?.is_empty())
    })?;
    plane.kubectl(&["delete", "subscription", "gadget", "-n", "team"])?;
    plane.kubectl(&["delete", "csv", "gadget.v1.1.0", "-n", "team", "--timeout=60s"])?;
    assert_eq!(away.kubectl(&["get", "clusterrole", "-l", "olm.owner=gadget.v1.1.0", "-o", "name"])?, "");
    away.kubectl(&["get", "gadgets", "-A"])?;
    Ok(())
}

#[test]
fn a_kubeconfig_cannot_name_files_of_the_server() -> Result<()> {
    let (plane, _images) = offering(&[Made::new("gadget", "1.0.0")])?;
    plane.kubectl(&["create", "namespace", "team"])?;
    plane.apply(
        "apiVersion: v1\nkind: Secret\nmetadata: {name: away, namespace: team}\nstringData:\n  kubeconfig: |\n    \
         clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]\n    \
         users: [{name: u, user: {tokenFile: /etc/passwd}}]\n    contexts: [{name: x, context: {cluster: c, user: u}}]\n",
    )?;
    plane.apply(
        "apiVersion: operators.coreos.com/v1\nkind: OperatorGroup\n\
         metadata: {name: og, namespace: team, annotations: {bailiwick.dev/target-kubeconfig: away}}\nspec: {}\n",
    )?;
    plane.apply(&subscription("team", "gadget", "made-up", ""))?;
    plane.until("a refusal", || {
        let plans = plane.list("team", "installplan")?;
        Ok(plans.first().is_some_and(|plan| {
            plan["status"]["message"].as_str().is_some_and(|it| it.contains("files cannot be named here"))
        }))
    })
}
