//! A disk that became read-only, as Linux makes it after an error: the server does not start and says why, and changes
//! nothing.

use anyhow::{Result, ensure};

use super::place::Place;

const CHECKSUMS: &str = "cd disk && find . -type f | sort | xargs sha256sum";

#[test]
fn a_read_only_disk_is_refused_and_left_alone() -> Result<()> {
    let Some(mut place) = Place::with_mounts()? else { return Ok(()) };
    place.run("mount -t tmpfs tmpfs disk")?;
    let server = place.serve("")?.serving()?;
    ensure!(server.create("kept", 1000)?.0 == 201);
    server.terminate()?;
    let before = place.run(CHECKSUMS)?;
    place.run("mount -o remount,ro disk")?;
    let said = place.serve("")?.refusal()?;
    ensure!(said.contains("Read-only file system"), "it says why: {said}");
    ensure!(said.contains("disk/data"), "and where: {said}");
    ensure!(place.run(CHECKSUMS)? == before, "nothing was changed");
    place.run("mount -o remount,rw disk")?;
    let server = place.serve("")?.serving()?;
    server.expect_all(&["kept".to_owned()])?;
    server.terminate()
}
