//! A disk without room: writes are refused before anything is written, reads go on, and with room again so do writes.

use anyhow::{Result, ensure};

use super::place::{Outcome, Place, Server};

/// The size of each object, and how many are tried before the disk must be full.
const OBJECT_BYTES: usize = 200_000;
const OBJECTS_MAX: usize = 200;

/// Writes until refused for want of space; the names of what was acknowledged are added to `acknowledged`.
fn fill(server: &Server, acknowledged: &mut Vec<String>) -> Result<()> {
    for _ in 0..OBJECTS_MAX {
        let name = format!("m{}", acknowledged.len());
        let (status, body) = server.create(&name, OBJECT_BYTES)?;
        match status.as_u16() {
            201 => acknowledged.push(name),
            507 => {
                ensure!(body["reason"] == "InsufficientStorage", "{body}");
                ensure!(body["message"].as_str().is_some_and(|text| text.contains("out of space")), "{body}");
                return Ok(());
            }
            _ => anyhow::bail!("{status} {body}"),
        }
    }
    anyhow::bail!("the disk does not become full")
}

#[test]
fn a_full_disk_refuses_writes_keeps_everything_and_recovers() -> Result<()> {
    let Some(mut place) = Place::with_mounts()? else {
        return Ok(());
    };
    place.run("mount -t tmpfs -o size=16m tmpfs disk")?;
    place.run("dd if=/dev/zero of=disk/first bs=1M count=3 && dd if=/dev/zero of=disk/second bs=1M count=3")?;
    let server = place.serve("")?.serving()?;
    let mut acknowledged = Vec::new();
    fill(&server, &mut acknowledged)?;
    ensure!(!acknowledged.is_empty(), "nothing was written at all");
    server.expect_all(&acknowledged)?;
    ensure!(server.get("/readyz")?.0 == 200, "reads go on, so the server stays in service");
    ensure!(server.log().contains("no space for a commit"), "the log says so: {}", server.log());

    // With room again writes go on, without a restart.
    place.run("rm disk/first")?;
    let before = acknowledged.len();
    fill(&server, &mut acknowledged)?;
    ensure!(acknowledged.len() > before, "there was room again");

    // Killed on a full disk, it may not start for want of space, but then says so and leaves everything as it is.
    server.kill()?;
    match place.serve("")? {
        Outcome::Serving(server) => {
            server.expect_all(&acknowledged)?;
            server.kill()?;
        }
        Outcome::Ended { code, said } => {
            ensure!(code == 1 && said.contains("No space left on device"), "{code}: {said}");
        }
    }
    place.run("rm disk/second")?;
    let server = place.serve("")?.serving()?;
    server.expect_all(&acknowledged)?;
    ensure!(server.create("after", 10)?.0 == 201);
    server.terminate()
}
