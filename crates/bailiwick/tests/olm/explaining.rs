//! `bailiwick catalog explain` of what one has on a control plane.

use std::process::Command;

use anyhow::Result;

use crate::made_up::{Made, publish};
use crate::plane::{Plane, catalog_source, condition, subscription};

/// What the command says, and whether it calls for somebody.
fn explain(plane: &Plane, arguments: &[&str]) -> Result<(i32, String)> {
    let output = Command::new(env!("CARGO_BIN_EXE_bailiwick"))
        .args(["catalog", "explain", "--kubeconfig"])
        .arg(plane.server.kubeconfig())
        .args(arguments)
        .output()?;
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    Ok((output.status.code().unwrap_or(-1), said))
}

#[test]
fn a_subscription_is_followed_to_where_it_hangs() -> Result<()> {
    let images = tempfile::tempdir()?;
    let bundles = [Made::new("gadget", "1.0.0"), Made::new("app", "1.0.0").requires("base", ">=1.0.0")];
    let image = publish(images.path(), "c", &bundles)?;
    let plane = Plane::start(images.path())?;
    let of = |name: &str| explain(&plane, &[&format!("subscription/{name}"), "-n", "operators"]);

    let (code, said) = of("gadget")?;
    assert!(code == 1 && said.contains("there is no Subscription gadget in namespace operators"), "{said}");

    plane.apply(&subscription("operators", "gadget", "made-up", ", installPlanApproval: Manual"))?;
    plane.until_object(("operators", "subscription", "gadget"), "unhealthy", |sub| {
        condition(sub, "CatalogSourcesUnhealthy").is_some_and(|it| it["status"] == "True")
    })?;
    let (code, said) = of("gadget")?;
    assert!(code == 1 && said.contains("because targeted catalogsource olm/made-up missing"), "{said}");

    plane.apply(&catalog_source("olm", "made-up", &image))?;
    let sub = plane.until_object(("operators", "subscription", "gadget"), "a plan", |sub| {
        condition(sub, "InstallPlanPending").is_some_and(|it| it["reason"] == "RequiresApproval")
    })?;
    let plan = sub["status"]["installPlanRef"]["name"].as_str().unwrap_or_default();
    let (code, said) = of("gadget")?;
    let approve =
        format!(r#"kubectl patch installplan {plan} -n operators --type merge -p '{{"spec":{{"approved":true}}}}'"#);
    assert!(code == 1 && said.contains(&approve), "{said}");

    let approved = r#"{"spec":{"approved":true}}"#;
    plane.kubectl(&["patch", "installplan", plan, "-n", "operators", "--type", "merge", "-p", approved])?;
    plane.until_phase("operators", "gadget.v1.0.0", "Installing", "DeploymentsNotServed")?;
    plane.until_object(("operators", "subscription", "gadget"), "settled", |sub| {
        sub["status"]["state"] == "AtLatestKnown"
    })?;
    let (code, said) = of("gadget")?;
    let annotate = "kubectl annotate operatorgroup global-operators -n operators bailiwick.dev/workloads=elsewhere";
    assert!(code == 1 && said.contains(annotate), "{said}");
    plane.runs_elsewhere("operators", "global-operators")?;
    plane.until_phase("operators", "gadget.v1.0.0", "Succeeded", "InstallSucceeded")?;
    let (code, said) = of("gadget")?;
    assert_eq!((code, said.as_str()), (0, "Subscription operators/gadget has installed gadget.v1.0.0, as it should\n"));

    // The resolver's own words, line by line.
    plane.apply(&subscription("operators", "app", "made-up", ""))?;
    plane.until_object(("operators", "subscription", "app"), "refused", |sub| {
        condition(sub, "ResolutionFailed").is_some()
    })?;
    let (code, said) = of("app")?;
    assert_eq!(code, 1, "{said}");
    let lines: Vec<&str> = said.lines().map(str::trim_start).collect();
    assert!(lines.iter().any(|it| it.starts_with("because app asks for package app")), "{said}");
    assert!(lines.iter().any(|it| it.contains("app.v1.0.0 requires package base")), "{said}");
    assert!(lines.iter().any(|it| it.starts_with("to fix: ")), "{said}");

    plane.apply(
        "apiVersion: olm.operatorframework.io/v1\nkind: ClusterExtension\nmetadata: {name: gadget}\n\
         spec: {namespace: default, source: {sourceType: Catalog, catalog: {packageName: gadget}}}\n",
    )?;
    plane.until_object(("", "clusterextension", "gadget"), "refused", |it| condition(it, "Progressing").is_some())?;
    let (code, said) = explain(&plane, &["clusterextension/gadget"])?;
    assert!(code == 1 && said.contains("there is no ClusterCatalog"), "{said}");
    Ok(())
}
