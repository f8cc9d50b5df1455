//! A clock that jumps, forward and back, under a running server: what has a time to live ends by the new time and never
//! early, certificates are renewed, versions go on, and nothing is lost. The clock is libfaketime's.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use bailiwick_testkit::tools;
use reqwest::Method;
use serde_json::{Value, json};

use super::place::{Place, Server, eventually};

const EVENTS: &str = "/api/v1/namespaces/default/events";
const REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
const TOKEN: &str = "/api/v1/namespaces/default/serviceaccounts/default/token";

/// A place with a clock that can be set.
struct Clock {
    place: Place,
    library: PathBuf,
}

impl Clock {
    fn new() -> Result<Option<Self>> {
        let Ok(library) = tools::find("libfaketime.so.1") else {
            bailiwick_testkit::skip("libfaketime is not installed: cargo xtask setup, on Debian");
            return Ok(None);
        };
        let clock = Self { place: Place::ordinary()?, library };
        clock.jump("+0")?;
        Ok(Some(clock))
    }

    /// Sets the server's clock so far from the real one.
    fn jump(&self, offset: &str) -> Result<()> {
        // Written whole: the server reads it at any moment.
        let path = self.place.path("clock");
        std::fs::write(path.with_extension("new"), format!("{offset}\n"))?;
        Ok(std::fs::rename(path.with_extension("new"), path)?)
    }

    fn serve(&mut self) -> Result<Server> {
        let environment = format!(
            "LD_PRELOAD={} FAKETIME_TIMESTAMP_FILE={} FAKETIME_NO_CACHE=1 FAKETIME_DONT_FAKE_MONOTONIC=1 \
             DONT_FAKE_MONOTONIC=1",
            self.library.display(),
            self.place.path("clock").display()
        );
        self.place.serve(&environment)?.serving()
    }
}

fn event(server: &Server, name: &str) -> Result<()> {
    let event = json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": name}, "type": "Normal", "reason": "Test",
        "involvedObject": {"kind": "ConfigMap", "namespace": "default", "name": "x"},
    });
    let (status, body) = server.request(Method::POST, EVENTS, Some(event))?;
    ensure!(status == 201, "{status} {body}");
    Ok(())
}

fn is_there(server: &Server, name: &str) -> Result<bool> {
    Ok(server.get(&format!("{EVENTS}/{name}"))?.0 == 200)
}

fn token(server: &Server) -> Result<String> {
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let (status, body) = server.request(Method::POST, TOKEN, Some(request))?;
    ensure!(status == 201, "{status} {body}");
    Ok(body["status"]["token"].as_str().context("no token")?.to_owned())
}

fn is_good(server: &Server, token: &str) -> Result<bool> {
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}});
    let (_, body) = server.request(Method::POST, REVIEWS, Some(review))?;
    Ok(body["status"]["authenticated"] == Value::Bool(true))
}

fn version(server: &Server, name: &str) -> Result<u64> {
    let (status, body) = server.create(name, 10)?;
    ensure!(status == 201, "{status} {body}");
    Ok(body["metadata"]["resourceVersion"].as_str().context("no version")?.parse()?)
}

#[test]
fn a_clock_that_jumps_ends_what_is_due_and_loses_nothing() -> Result<()> {
    let Some(mut clock) = Clock::new()? else { return Ok(()) };
    let server = clock.serve()?;
    eventually("there is a service account", || {
        Ok(server.get("/api/v1/namespaces/default/serviceaccounts/default")?.0 == 200)
    })?;
    let first = version(&server, "first")?;
    event(&server, "early")?;
    let early = token(&server)?;
    ensure!(is_good(&server, &early)? && is_there(&server, "early")?);

    // Forward: an hour's event and an hour's token are over.
    clock.jump("+90m")?;
    eventually("the event is gone", || Ok(!is_there(&server, "early")?))?;
    ensure!(!is_good(&server, &early)?, "an expired token is refused");
    let second = version(&server, "second")?;
    ensure!(second > first);
    event(&server, "later")?;

    // More than a year: certificates are renewed while the server runs.
    let certificate = clock.place.data_dir().join("pki/apiserver.crt");
    let before = std::fs::read(&certificate)?;
    clock.jump("+400d")?;
    eventually("the certificate is renewed", || Ok(std::fs::read(&certificate)? != before))?;
    let third = version(&server, "third")?;
    ensure!(third > second);
    event(&server, "of-the-future")?;

    // Back, to before everything: nothing ends early, and what was written is there.
    clock.jump("-2d")?;
    let fourth = version(&server, "fourth")?;
    ensure!(fourth > third, "versions never go back");
    ensure!(is_there(&server, "of-the-future")?);
    ensure!(is_good(&server, &token(&server)?)?);
    let names = ["first", "second", "third", "fourth"].map(str::to_owned);
    server.expect_all(&names)?;
    server.kill()?;

    // It also starts under a clock that is behind everything it has stored.
    let server = clock.serve()?;
    server.expect_all(&names)?;
    ensure!(is_there(&server, "of-the-future")?);
    ensure!(version(&server, "fifth")? > fourth);
    server.terminate()
}
