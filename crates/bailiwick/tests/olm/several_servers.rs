//! Several servers on one etcd: one installs, all show what can be installed, and another goes on when the one ends.

use anyhow::Result;
use bailiwick_testkit::Etcd;

use crate::made_up::{Made, publish};
use crate::plane::{Plane, catalog_source, subscription};

#[test]
fn one_of_several_servers_installs_and_another_goes_on() -> Result<()> {
    let Some(etcd) = Etcd::start()? else { return Ok(()) };
    let images = tempfile::tempdir()?;
    let pki = tempfile::tempdir()?;
    let image = publish(images.path(), "c", &[Made::new("gadget", "1.0.0"), Made::new("widget", "1.0.0")])?;
    let (layouts, pki) = (images.path().display().to_string(), pki.path().display().to_string());
    let arguments = ["--with", "olm", "--olm-layout-dir", &layouts, "--etcd-servers", etcd.url(), "--pki-dir", &pki];
    let mut first = Plane::start_with(&arguments)?;
    let leader = |plane: &Plane| -> Result<String> {
        let holder = ["get", "lease", "bailiwick-olm", "-n", "kube-system", "-o", "jsonpath={.spec.holderIdentity}"];
        plane.kubectl(&holder)
    };
    let one = leader(&first)?;
    let second = Plane::start_with(&arguments)?;
    first.apply(&catalog_source("olm", "made-up", &image))?;
    first.apply(&subscription("operators", "gadget", "made-up", ""))?;
    first.until_phase("operators", "gadget.v1.0.0", "Installing", "DeploymentsNotServed")?;
    for plane in [&first, &second] {
        plane.until("package manifests", || {
            Ok(plane.kubectl(&["get", "packagemanifest", "-n", "olm"])?.contains("gadget"))
        })?;
    }
    assert_eq!(leader(&second)?, one, "the second waits");
    assert!(first.server.terminate()?.success());
    second.apply(&subscription("operators", "widget", "made-up", ""))?;
    second.until_phase("operators", "widget.v1.0.0", "Installing", "DeploymentsNotServed")?;
    assert_ne!(leader(&second)?, one);
    assert!(second.kubectl(&["get", "packagemanifest", "-n", "olm"])?.contains("widget"));
    Ok(())
}
