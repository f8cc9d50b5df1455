//! Damaged files. What a crash can leave is mended silently; what it cannot is refused, by file and place, and never
//! "repaired" by throwing away what was acknowledged.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::place::Place;

/// A place with a store of some objects, whose server was killed; their names.
fn killed() -> Result<(Place, Vec<String>)> {
    let mut place = Place::ordinary()?;
    let server = place.serve("")?.serving()?;
    let names: Vec<String> = (0..30).map(|i| format!("m{i}")).collect();
    for name in &names {
        ensure!(server.create(name, 500)?.0 == 201);
    }
    server.kill()?;
    Ok((place, names))
}

/// The newest segment of the log, and where what was written to it ends.
fn newest_segment(place: &Place) -> Result<(PathBuf, usize)> {
    let entries = std::fs::read_dir(place.data_dir().join("store"))?;
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let is_segment = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("log-"));
    let path = paths.filter(is_segment).max().context("there is no log")?;
    let bytes = std::fs::read(&path)?;
    let end = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
    Ok((path, end))
}

#[test]
fn what_a_crash_leaves_after_the_last_commit_is_cut_off() -> Result<()> {
    let (mut place, names) = killed()?;
    let (path, end) = newest_segment(&place)?;
    let mut bytes = std::fs::read(&path)?;
    // The beginning of a record whose end never reached the disk.
    let begun = bytes.get(end.saturating_sub(600)..end.saturating_sub(300)).context("a short log")?.to_vec();
    let at = end.next_multiple_of(8);
    bytes.resize(bytes.len().max(at + begun.len()), 0);
    bytes[at..at + begun.len()].copy_from_slice(&begun);
    std::fs::write(&path, bytes)?;
    let server = place.serve("")?.serving()?;
    server.expect_all(&names)?;
    ensure!(server.create("after", 10)?.0 == 201);
    server.kill()?;
    let server = place.serve("")?.serving()?;
    server.expect_all(&names)?;
    server.expect_all(&["after".to_owned()])
}

#[test]
fn a_flipped_bit_in_the_log_is_refused_by_file_and_place() -> Result<()> {
    let (mut place, names) = killed()?;
    let (path, end) = newest_segment(&place)?;
    let good = std::fs::read(&path)?;
    let mut bad = good.clone();
    bad[end / 2] ^= 0x10;
    std::fs::write(&path, &bad)?;
    let said = place.serve("")?.refusal()?;
    let name = path.file_name().context("a name")?.to_string_lossy().into_owned();
    ensure!(said.contains(&name) && said.contains("damaged record at offset"), "it says where: {said}");
    ensure!(said.contains("bailiwick snapshot restore"), "and what to do: {said}");
    ensure!(std::fs::read(&path)? == bad, "what is damaged is left for inspection");
    let doctor =
        Command::new(env!("CARGO_BIN_EXE_bailiwick")).args(["doctor", "--data-dir"]).arg(place.data_dir()).output()?;
    ensure!(!doctor.status.success() && String::from_utf8_lossy(&doctor.stdout).contains(&name), "{doctor:?}");
    std::fs::write(&path, &good)?;
    place.serve("")?.serving()?.expect_all(&names)
}

#[test]
fn a_damaged_backup_is_not_restored() -> Result<()> {
    let (place, _) = killed()?;
    let bailiwick = |arguments: &[&str]| Command::new(env!("CARGO_BIN_EXE_bailiwick")).args(arguments).output();
    let (backup, data) = (place.path("backup"), place.data_dir());
    let (backup_name, data_name) = (backup.display().to_string(), data.display().to_string());
    let saved = bailiwick(&["snapshot", "save", &backup_name, "--data-dir", &data_name])?;
    ensure!(saved.status.success(), "{saved:?}");
    let mut bytes = std::fs::read(&backup)?;
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&backup, bytes)?;
    let new = place.path("new");
    let restored = bailiwick(&["snapshot", "restore", &backup_name, "--data-dir", &new.display().to_string()])?;
    ensure!(!restored.status.success(), "a damaged backup was restored");
    let said = String::from_utf8_lossy(&restored.stderr).into_owned();
    ensure!(said.contains(&backup_name), "it says which: {said}");
    let is_empty = !new.join("store").exists() || std::fs::read_dir(new.join("store"))?.next().is_none();
    ensure!(is_empty, "nothing is left behind");
    Ok(())
}
