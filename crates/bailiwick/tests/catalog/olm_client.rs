//! OLM's own client library, in Go, gets the same answers from our server as from `opm serve`.

use std::io::{BufRead as _, BufReader};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use bailiwick_testkit::{Program, tools};

use crate::program::command;

/// opm makes its cache first.
const ATTEMPTS: usize = 600;
const PAUSE: Duration = Duration::from_millis(100);
/// How often opm is asked for what it tells by chance.
const ASKED_AGAIN: usize = 20;

struct Stopped(Child);

impl Drop for Stopped {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The catalogs of the shared data, or `None` with a line that says so.
fn data() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let beside = std::env::var_os("BAILIWICK_SHARED").map(PathBuf::from);
    let candidates = root.ancestors().map(|dir| dir.join("shared")).chain(beside);
    let found = candidates.map(|dir| dir.join("data/olm/golden/semver-real")).find(|dir| dir.is_dir());
    if found.is_none() {
        bailiwick_testkit::skip("shared/data/olm is not here");
    }
    found
}

fn ours(directory: &Path) -> (Stopped, String) {
    let mut child = command(directory, &["serve", "catalog", "--port", "0", "--address", "127.0.0.1"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim().rsplit(' ').next().unwrap().to_owned();
    assert!(line.starts_with("serving catalog ("), "{line:?}");
    (Stopped(child), address)
}

fn theirs(opm: &Path, directory: &Path) -> (Stopped, String) {
    let port = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
    let child = Command::new(opm)
        .args(["serve", "catalog", "--pprof-addr", "", "--termination-log", "log", "--port", &port.to_string()])
        .current_dir(directory)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let child = Stopped(child);
    for _ in 0..ATTEMPTS {
        if TcpStream::connect(("127.0.0.1", port)).is_ok() {
            return (child, format!("127.0.0.1:{port}"));
        }
        std::thread::sleep(PAUSE);
    }
    panic!("opm does not listen");
}

#[test]
fn the_client_of_olm_is_answered_as_opm_answers_it() {
    let Some(data) = data() else { return };
    let Ok(opm) = tools::find("opm") else {
        bailiwick_testkit::skip("opm is not installed (cargo xtask setup)");
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../clients/go-catalog");
    let client = match tools::build_go(&source, dir.path()) {
        Ok(client) => client,
        Err(error) => {
            bailiwick_testkit::skip(format_args!("OLM's client library cannot be built here: {error:#}"));
            return;
        }
    };
    let catalog = dir.path().join("catalog");
    std::fs::create_dir(&catalog).unwrap();
    for entry in std::fs::read_dir(data).unwrap().map(Result::unwrap) {
        let name = entry.file_name().into_string().unwrap();
        if name.ends_with(".catalog.yaml") {
            std::fs::copy(entry.path(), catalog.join(name)).unwrap();
        }
    }
    let (_ours, our_address) = ours(dir.path());
    let (_theirs, their_address) = theirs(&opm, dir.path());
    let ask = |address: &str| Program::new(&client).arg(address).timeout(Duration::from_secs(120)).run().unwrap();
    let ours = ask(&our_address);
    assert!(ours.lines().count() > 150, "{ours}");
    // Where several bundles replace one, opm tells any of them, another one each time.
    let mut theirs = vec![ask(&their_address)];
    for (number, ours) in ours.lines().enumerate() {
        while !theirs.iter().any(|theirs| theirs.lines().nth(number) == Some(ours)) {
            let said = theirs[0].lines().nth(number).unwrap_or_default();
            assert!(ours.contains("\"asked\":\"replacement of ") && theirs.len() < ASKED_AGAIN, "{ours}\nopm: {said}");
            theirs.push(ask(&their_address));
        }
    }
    assert_eq!(ours.lines().count(), theirs[0].lines().count());
}
