//! CatalogSources and PackageManifests, as kubectl shows them.

use anyhow::Result;
use serde_json::Value;

use crate::made_up::{Made, catalog_text, publish};
use crate::plane::{Plane, catalog_source, offering};

fn ready(object: &Value) -> bool {
    object["status"]["connectionState"]["lastObservedState"] == "READY"
}

#[test]
fn a_catalog_and_its_packages_are_shown() -> Result<()> {
    let (plane, images) = offering(&[Made::new("gadget", "1.0.0"), Made::new("gadget", "1.1.0")])?;
    let source = plane.until_object(("olm", "catalogsource", "made-up"), "ready", ready)?;
    assert_eq!(source["status"]["registryService"]["protocol"], "grpc");
    let shown = plane.kubectl(&["get", "catalogsource", "-n", "olm"])?;
    let words: Vec<Vec<&str>> = shown.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(words[0], ["NAME", "DISPLAY", "TYPE", "PUBLISHER", "AGE"]);
    assert_eq!(words[1][..5], ["made-up", "Made", "Up", "grpc", "Nobody"]);
    assert_eq!(
        plane.kubectl(&["get", "catsrc", "-n", "olm", "-o", "name"])?,
        "catalogsource.operators.coreos.com/made-up\n"
    );

    plane.until("package manifests", || {
        Ok(plane.kubectl(&["get", "packagemanifest", "-n", "olm"])?.contains("gadget"))
    })?;
    let shown = plane.kubectl(&["get", "packagemanifest", "-n", "olm"])?;
    let words: Vec<Vec<&str>> = shown.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(words[0], ["NAME", "CATALOG", "AGE"]);
    assert_eq!(words[1][..3], ["gadget", "Made", "Up"]);
    // Those of the global namespace are everybody's.
    let manifest = plane.get("default", "packagemanifest", "gadget")?.expect("a manifest");
    assert_eq!(manifest["metadata"]["namespace"], "default");
    assert_eq!(manifest["status"]["defaultChannel"], "stable");
    assert_eq!(manifest["status"]["channels"][0]["currentCSV"], "gadget.v1.1.0");
    assert_eq!(manifest["status"]["channels"][0]["currentCSVDesc"]["version"], "1.1.0");
    assert_eq!(manifest["status"]["channels"][0]["entries"].as_array().map(Vec::len), Some(2));
    assert_eq!(manifest["metadata"]["labels"]["operatorframework.io/os.linux"], "supported");
    for (selector, expected) in [("catalog=made-up", "gadget"), ("catalog=other", "No resources found")] {
        let shown = plane.kubectl(&["get", "packagemanifest", "-n", "olm", "-l", selector, "-o", "name"])?;
        assert_eq!(shown.contains("gadget"), expected == "gadget", "{selector}: {shown}");
    }
    let refused = plane.kubectl(&["delete", "packagemanifest", "gadget", "-n", "olm"]).expect_err("read-only");
    assert!(format!("{refused:#}").to_lowercase().contains("method"), "{refused:#}");

    // A catalog of another namespace is that namespace's alone.
    plane.kubectl(&["create", "namespace", "team"])?;
    let own = publish(images.path(), "team", &[Made::new("widget", "0.1.0")])?;
    plane.apply(&catalog_source("team", "own", &own))?;
    plane.until_object(("team", "catalogsource", "own"), "ready", ready)?;
    let names = |namespace: &str| plane.kubectl(&["get", "packagemanifest", "-n", namespace, "-o", "name"]);
    assert_eq!(names("team")?.lines().count(), 2);
    assert_eq!(names("default")?.lines().count(), 1);
    plane.kubectl(&["delete", "catalogsource", "own", "-n", "team"])?;
    plane.until("the packages are gone", || Ok(names("team")?.lines().count() == 1))?;
    let explained = plane.kubectl(&["explain", "packagemanifest.status.channels"])?;
    assert!(explained.contains("The channels with their newest versions."), "{explained}");
    Ok(())
}

#[test]
fn what_is_wrong_with_a_catalog_is_in_its_status() -> Result<()> {
    let images = tempfile::tempdir()?;
    let plane = Plane::start(images.path())?;
    plane.apply(&catalog_source("olm", "nothing", ""))?;
    let status = |name: &str, reason: &str| {
        plane.until_object(("olm", "catalogsource", name), reason, |it| it["status"]["reason"] == reason)
    };
    let source = status("nothing", "SpecInvalidError")?;
    assert_eq!(source["status"]["message"], "image and address unset: at least one must be set for sourcetype: grpc");
    // Files of the server's machine are not to be had.
    plane.apply(&catalog_source("olm", "outside", "oci:/etc:latest"))?;
    let source = status("outside", "RegistryServerError")?;
    assert_eq!(source["status"]["connectionState"]["lastObservedState"], "TRANSIENT_FAILURE");
    plane.apply(&catalog_source("olm", "missing", "127.0.0.1:1/no/such:latest"))?;
    let source = status("missing", "RegistryServerError")?;
    assert!(source["status"]["message"].as_str().is_some_and(|it| it.contains("127.0.0.1:1/no/such")), "{source}");
    // It works as soon as it can.
    let image = publish(images.path(), "late", &[Made::new("gadget", "1.0.0")])?;
    plane.apply(&catalog_source("olm", "missing", &image))?;
    let source = plane.until_object(("olm", "catalogsource", "missing"), "ready", ready)?;
    assert!(source["status"]["message"].is_null(), "{source}");
    Ok(())
}

#[test]
fn a_catalog_that_was_broken_and_mended_is_back() -> Result<()> {
    let images = tempfile::tempdir()?;
    let image = publish(images.path(), "c", &[Made::new("gadget", "1.0.0")])?;
    let plane = Plane::start(images.path())?;
    plane.apply(&catalog_source("olm", "made-up", &image))?;
    plane.until_object(("olm", "catalogsource", "made-up"), "ready", ready)?;
    let has_package = || Ok(plane.get("olm", "packagemanifest", "gadget")?.is_some());
    plane.until("its package is there", has_package)?;
    plane.apply(&catalog_source("olm", "made-up", ""))?;
    plane.until_object(("olm", "catalogsource", "made-up"), "refused", |it| {
        it["status"]["reason"] == "SpecInvalidError"
    })?;
    plane.until("its package is gone", || Ok(!has_package()?))?;
    // The same image again, of which nothing is new.
    plane.apply(&catalog_source("olm", "made-up", &image))?;
    plane.until_object(("olm", "catalogsource", "made-up"), "ready", ready)?;
    plane.until("its package is back", has_package)
}

#[test]
fn catalogs_come_from_addresses_and_config_maps_too() -> Result<()> {
    let images = tempfile::tempdir()?;
    let image = publish(images.path(), "first", &[Made::new("gadget", "1.0.0"), Made::new("widget", "2.0.0")])?;
    let layouts = images.path().to_str().expect("a path");
    let plane = Plane::start_with(&["--with", "olm", "--olm-layout-dir", layouts, "--olm-allow-cidrs", "127.0.0.1"])?;
    plane.apply(&catalog_source("olm", "first", &image))?;
    let first = plane.until_object(("olm", "catalogsource", "first"), "ready", ready)?;
    let address = first["status"]["connectionState"]["address"].as_str().expect("an address").to_owned();
    plane.apply(&format!(
        "apiVersion: operators.coreos.com/v1alpha1\nkind: CatalogSource\nmetadata: {{name: second, namespace: olm}}\n\
         spec: {{sourceType: grpc, address: '{address}', displayName: Remote}}\n"
    ))?;
    let second = plane.until_object(("olm", "catalogsource", "second"), "ready", ready)?;
    assert_eq!(second["status"]["connectionState"]["address"], address.as_str());
    let shown = plane.kubectl(&["get", "packagemanifest", "-n", "olm", "-l", "catalog=second"])?;
    assert!(shown.contains("gadget") && shown.contains("widget") && shown.contains("Remote"), "{shown}");

    let made = Made::new("thing", "0.1.0");
    let indented = |value: &Value| value.to_string();
    plane.apply(&format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: catalog, namespace: olm}}\ndata:\n  \
         packages: '[{{\"packageName\": \"thing\", \"channels\": [{{\"name\": \"alpha\", \"currentCSV\": \"thing.v0.1.0\"}}]}}]'\n  \
         clusterServiceVersions: '[{}]'\n  customResourceDefinitions: '[{}]'\n",
        indented(&made.csv),
        indented(&made.objects[0])
    ))?;
    plane.apply(
        "apiVersion: operators.coreos.com/v1alpha1\nkind: CatalogSource\nmetadata: {name: third, namespace: olm}\n\
         spec: {sourceType: internal, configMap: catalog}\n",
    )?;
    let third = plane.until_object(("olm", "catalogsource", "third"), "ready", ready)?;
    assert_eq!(third["status"]["configMapReference"]["name"], "catalog");
    let manifest = plane.get("olm", "packagemanifest", "thing")?.expect("a manifest");
    assert_eq!(manifest["status"]["defaultChannel"], "alpha");
    Ok(())
}

#[test]
fn a_newer_image_is_found_by_polling() -> Result<()> {
    let images = tempfile::tempdir()?;
    let image = publish(images.path(), "moving", &[Made::new("gadget", "1.0.0")])?;
    let plane = Plane::start(images.path())?;
    let source = catalog_source("olm", "moving", &image)
        .replace("publisher: Nobody", "updateStrategy: {registryPoll: {interval: 1s}}");
    plane.apply(&source)?;
    let head = || -> Result<String> {
        let manifest = plane.get("olm", "packagemanifest", "gadget")?.unwrap_or_default();
        Ok(manifest["status"]["channels"][0]["currentCSV"].as_str().unwrap_or_default().to_owned())
    };
    plane.until("the first image", || Ok(head()? == "gadget.v1.0.0"))?;
    publish(images.path(), "moving", &[Made::new("gadget", "1.0.0"), Made::new("gadget", "1.1.0")])?;
    plane.until("the second image", || Ok(head()? == "gadget.v1.1.0"))?;
    // What is broken does not take the place of what works.
    std::fs::write(images.path().join("moving/index.json"), "broken")?;
    let source = plane.until_object(("olm", "catalogsource", "moving"), "a message", |it| {
        it["status"]["reason"] == "RegistryServerError"
    })?;
    assert!(ready(&source), "{source}");
    assert!(source["status"]["latestImageRegistryPoll"].is_string());
    assert_eq!(head()?, "gadget.v1.1.0");
    Ok(())
}

#[test]
fn made_up_catalogs_are_valid() -> Result<()> {
    let text = catalog_text(&[Made::new("gadget", "1.0.0"), Made::new("gadget", "1.1.0")])?;
    let catalog = bailiwick_catalog::fbc::load_text(&text)?;
    assert!(bailiwick_catalog::model::validate_catalog(&catalog).is_ok());
    Ok(())
}
