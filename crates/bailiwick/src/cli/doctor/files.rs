//! What is in the data directory: who may read it, how long certificates last, whether the clock agrees with it.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use bailiwick_auth::pki::certificate_end_seconds;
use jiff::Timestamp;

use super::{Finding, Verdict};

/// Permission bits of everybody but the owner.
const OTHERS: u32 = 0o077;
/// Bits of everybody but the owner that let them change something.
const OTHERS_WRITE: u32 = 0o022;
const DAY_SECONDS: i64 = 24 * 3600;
/// Our own certificates are renewed two months before they end; one that is nearer to its end is not being renewed.
const CERTIFICATE_DAYS_MIN: i64 = 30;
/// How far the clock may be behind the newest file before something is wrong with it.
const CLOCK_SECONDS_MAX: i64 = 60;
/// How many files are looked at for their times.
const FILES_MAX: usize = 10_000;

pub fn data_directory(path: &Path) -> Finding {
    let found = |verdict, detail: String| Finding::new("data directory", verdict, detail);
    match std::fs::metadata(path) {
        Ok(data) if data.is_dir() => {
            let probe = path.join(format!(".doctor-{}", std::process::id()));
            let written = std::fs::write(&probe, b"").and_then(|()| std::fs::remove_file(&probe));
            match written {
                Ok(()) => found(Verdict::Ok, path.display().to_string()),
                Err(error) => found(Verdict::Failed, format!("{} cannot be written to: {error}", path.display())),
            }
        }
        Ok(_) => found(Verdict::Failed, format!("{} is not a directory", path.display())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            found(Verdict::Skipped, format!("{} does not exist yet; the first start makes it", path.display()))
        }
        Err(error) => found(Verdict::Failed, format!("{}: {error}", path.display())),
    }
}

/// Nobody else may read keys, or change anything.
pub fn permissions(data_dir: &Path) -> Option<Finding> {
    if !data_dir.is_dir() {
        return None;
    }
    let mut exposed = Vec::new();
    for (path, data) in walk(data_dir) {
        let mode = data.mode();
        let is_secret = path.extension().is_some_and(|extension| extension == "key" || extension == "kubeconfig")
            || path.file_name().is_some_and(|name| name == "encryption.yaml");
        if mode & OTHERS_WRITE != 0 || (is_secret && mode & OTHERS != 0) {
            exposed.push(format!("{} ({:o})", path.display(), mode & 0o777));
        }
    }
    Some(match exposed.as_slice() {
        [] => Finding::new("permissions", Verdict::Ok, "keys are readable by their owner only"),
        [first, rest @ ..] => {
            let more = if rest.is_empty() { String::new() } else { format!(" and {} more", rest.len()) };
            let detail = format!("others may read or change {first}{more}; chmod go-rwx them");
            Finding::new("permissions", Verdict::Failed, detail)
        }
    })
}

/// How long each certificate still lasts.
pub fn certificates(data_dir: &Path, now: Timestamp) -> Vec<Finding> {
    let places = [data_dir.join("pki"), data_dir.to_owned()];
    let files = places.iter().flat_map(|place| std::fs::read_dir(place).into_iter().flatten().flatten());
    let mut paths: Vec<PathBuf> = files.map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "crt"));
    paths.sort();
    paths.iter().map(|path| certificate(path, now)).collect()
}

fn certificate(path: &Path, now: Timestamp) -> Finding {
    let name = path.file_name().unwrap_or_default().display();
    let found = |verdict, detail: String| Finding::new(format!("certificate {name}"), verdict, detail);
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) => return found(Verdict::Failed, format!("{}: {error}", path.display())),
    };
    let Some(end) = certificate_end_seconds(&text) else {
        return found(Verdict::Failed, format!("{} is not a certificate", path.display()));
    };
    let days = (end - now.as_second()).div_euclid(DAY_SECONDS);
    match days {
        ..0 if is_renewed(path) => {
            found(Verdict::Warning, format!("ended {} days ago; renewed at the next start", -days))
        }
        ..0 => found(Verdict::Failed, format!("ended {} days ago", -days)),
        0..CERTIFICATE_DAYS_MIN => found(Verdict::Warning, format!("ends in {days} days")),
        _ => found(Verdict::Ok, format!("{days} days left")),
    }
}

/// Whether a start makes a new certificate when this one has ended: it is one of our own, with its key beside it. An
/// authority without its key keeps a server from starting.
fn is_renewed(path: &Path) -> bool {
    let in_pki = path.parent().and_then(Path::file_name).is_some_and(|directory| directory == "pki");
    in_pki && path.with_extension("key").is_file()
}

/// A clock that is behind what it once wrote makes tokens and certificates of the past valid again.
pub fn clock(data_dir: &Path, now: Timestamp) -> Finding {
    let newest = walk(data_dir).into_iter().map(|(_, data)| data.mtime()).max();
    let behind = newest.map_or(0, |newest| newest - now.as_second());
    let shown = now.strftime("%Y-%m-%dT%H:%M:%SZ");
    if behind > CLOCK_SECONDS_MAX {
        let detail = format!("{shown} is {behind} s before the newest file in the data directory");
        return Finding::new("clock", Verdict::Failed, detail);
    }
    Finding::new("clock", Verdict::Ok, shown.to_string())
}

/// The files and directories below a directory, as many as are looked at.
fn walk(root: &Path) -> Vec<(PathBuf, std::fs::Metadata)> {
    let mut found = Vec::new();
    let mut left = vec![root.to_owned()];
    while let Some(path) = left.pop() {
        let Ok(data) = std::fs::symlink_metadata(&path) else { continue };
        if data.is_dir() {
            left.extend(std::fs::read_dir(&path).into_iter().flatten().flatten().map(|entry| entry.path()));
        }
        if !data.is_symlink() {
            found.push((path, data));
        }
        if found.len() >= FILES_MAX {
            break;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use bailiwick_auth::pki::{Pki, ServingNames};

    use super::*;

    #[test]
    fn a_key_that_others_can_read_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let key = dir.path().join("ca.key");
        std::fs::write(&key, "").unwrap();
        let set = |mode| std::fs::set_permissions(&key, std::fs::Permissions::from_mode(mode)).unwrap();
        set(0o600);
        assert_eq!(permissions(dir.path()).unwrap().verdict, Verdict::Ok);
        set(0o640);
        let found = permissions(dir.path()).unwrap();
        assert_eq!(found.verdict, Verdict::Failed);
        assert!(found.detail.contains("ca.key (640)"), "{}", found.detail);
    }

    #[test]
    fn certificates_that_near_their_end_are_found() {
        let dir = tempfile::tempdir().unwrap();
        let now = Timestamp::now();
        Pki::ensure(&dir.path().join("pki"), &ServingNames::default(), now).unwrap();
        let verdict = |days: i64| {
            let then = Timestamp::from_second(now.as_second() + days * DAY_SECONDS).unwrap();
            let found = certificates(dir.path(), then);
            found.iter().find(|finding| finding.check == "certificate apiserver.crt").unwrap().verdict
        };
        assert_eq!(verdict(0), Verdict::Ok);
        assert_eq!(verdict(345), Verdict::Warning);
        std::fs::write(dir.path().join("pki/apiserver.crt"), "nothing").unwrap();
        assert_eq!(verdict(0), Verdict::Failed);
    }

    #[test]
    fn certificates_that_have_ended_fail_unless_the_next_start_renews_them() {
        let dir = tempfile::tempdir().unwrap();
        let (now, pki) = (Timestamp::now(), dir.path().join("pki"));
        Pki::ensure(&pki, &ServingNames::default(), now).unwrap();
        std::fs::copy(pki.join("apiserver.crt"), dir.path().join("front.crt")).unwrap();
        let then = Timestamp::from_second(now.as_second() + 400 * DAY_SECONDS).unwrap();
        let found = |name: &str| {
            let check = format!("certificate {name}.crt");
            certificates(dir.path(), then).into_iter().find(|finding| finding.check == check).unwrap()
        };
        assert_eq!(found("front").verdict, Verdict::Failed, "somebody else's");
        let own = found("apiserver");
        assert_eq!(own.verdict, Verdict::Warning);
        assert!(own.detail.ends_with("renewed at the next start"), "{}", own.detail);
        Pki::ensure(&pki, &ServingNames::default(), then).unwrap();
        assert_eq!(found("apiserver").verdict, Verdict::Ok, "as was said");
    }

    #[test]
    fn a_clock_behind_the_newest_file_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let now = Timestamp::now();
        assert_eq!(clock(dir.path(), now).verdict, Verdict::Ok);
        let past = Timestamp::from_second(now.as_second() - 3600).unwrap();
        assert_eq!(clock(dir.path(), past).verdict, Verdict::Failed);
    }
}
