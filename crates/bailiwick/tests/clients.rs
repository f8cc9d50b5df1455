//! Client programs in other languages against the real server: client-go informers and the Python client under churn. The
//! programs are in `clients/` at the root of the repository and say there what they hold the server to.
//! `BAILIWICK_CHURN_SECONDS` makes them churn for longer than the few seconds that every run can afford.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use bailiwick_testkit::{Program, Server, tools};

/// How long programs churn when nobody says otherwise.
const CHURN_SECONDS: u64 = 8;
/// What a program may take besides its churn: starting, and waiting for watches that back off before they resume.
const SLACK: Duration = Duration::from_secs(150);

#[test]
fn client_go_informers_see_every_write_once_and_in_order_with_watch_list() -> Result<()> {
    go_informer("true")
}

#[test]
fn client_go_informers_see_every_write_once_and_in_order_with_list_and_watch() -> Result<()> {
    go_informer("false")
}

#[test]
fn the_go_program_notices_missed_and_repeated_events() -> Result<()> {
    let tests = Program::new("go").args(["test", "-trimpath", "-buildvcs=false", "."]);
    tests
        .current_dir(clients().join("go-informer"))
        .env("CGO_ENABLED", "0")
        .env("GOWORK", "off")
        .timeout(tools::BUILD_TIMEOUT)
        .run()
        .map(drop)
}

#[test]
fn the_python_client_works() -> Result<()> {
    let server = Server::start(env!("CARGO_BIN_EXE_bailiwick"))?;
    python("behaviours.py")?.arg(server.kubeconfig()).timeout(SLACK).run().map(drop)
}

#[test]
fn python_watches_see_every_write_once_and_in_order() -> Result<()> {
    let server = Server::start(env!("CARGO_BIN_EXE_bailiwick"))?;
    let churn = churn();
    let program = python("churn.py")?.arg(server.kubeconfig()).arg(churn.as_secs().to_string());
    println!("{}", program.timeout(churn + SLACK).run()?);
    Ok(())
}

#[test]
fn a_controller_runtime_controller_reconciles_custom_resources() -> Result<()> {
    let output = Path::new(env!("CARGO_TARGET_TMPDIR")).join("controller-runtime");
    std::fs::create_dir_all(&output)?;
    let program = tools::build_go(&clients().join("go-controller"), &output)?;
    let server = Server::start(env!("CARGO_BIN_EXE_bailiwick"))?;
    let printed = Program::new(program).arg("--kubeconfig").arg(server.kubeconfig()).timeout(SLACK).run()?;
    println!("{printed}");
    Ok(())
}

fn go_informer(watch_list: &str) -> Result<()> {
    let output = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("watch-list-{watch_list}"));
    std::fs::create_dir_all(&output)?;
    let program = tools::build_go(&clients().join("go-informer"), &output)?;
    let server = Server::start(env!("CARGO_BIN_EXE_bailiwick"))?;
    let churn = churn();
    let printed = Program::new(program)
        .arg("--kubeconfig")
        .arg(server.kubeconfig())
        .arg(format!("--duration={}s", churn.as_secs()))
        .env("KUBE_FEATURE_WatchListClient", watch_list)
        .timeout(churn + SLACK)
        .run()?;
    println!("{printed}");
    Ok(())
}

fn python(script: &str) -> Result<Program> {
    let directory = clients().join("python");
    let python = tools::python(&directory.join("requirements.txt"))?;
    Ok(Program::new(python).arg(directory.join(script)))
}

fn clients() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../clients")
}

fn churn() -> Duration {
    let seconds = std::env::var("BAILIWICK_CHURN_SECONDS").ok().and_then(|text| text.parse().ok());
    Duration::from_secs(seconds.unwrap_or(CHURN_SECONDS))
}
