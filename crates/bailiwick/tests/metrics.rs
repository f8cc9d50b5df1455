//! `/metrics` as scrapers read it: promtool finds nothing wrong with the text form, OpenMetrics is for those who ask for it, and
//! what lasts is counted when it is over.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bailiwick_testkit::{Controllers, Program, Server, tools};
use futures::StreamExt;
use http::header::{ACCEPT, CONTENT_TYPE};
use http_body_util::BodyExt;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{PostParams, WatchParams};
use kube::client::Body;
use kube::{Api, Client};
use serde_json::json;

const BINARY: &str = env!("CARGO_BIN_EXE_bailiwick");
/// Far more than anything here takes; only a bug runs into it.
const DEADLINE: Duration = Duration::from_secs(120);
/// Between two questions of the same kind.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// What Prometheus sends.
const PROMETHEUS: &str = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.2";

/// What a scraper that accepts so much is given, and what it is called.
async fn scrape(client: &Client, accept: &str) -> Result<(String, String)> {
    let request = http::Request::get("/metrics").header(ACCEPT, accept).body(Body::empty())?;
    let response = client.send(request).await?;
    let kind = response.headers().get(CONTENT_TYPE).context("a type")?.to_str()?.to_owned();
    Ok((kind, String::from_utf8(response.into_body().collect().await?.to_bytes().to_vec())?))
}

/// The types of all families by name.
fn types(text: &str) -> BTreeMap<&str, &str> {
    text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' ')).collect()
}

/// The family of a sample, if the text describes it.
fn described<'a>(types: &BTreeMap<&'a str, &'a str>, sample: &str) -> bool {
    let name = sample.split(['{', ' ']).next().unwrap_or_default();
    let base = |suffix: &str| name.strip_suffix(suffix).is_some_and(|base| types.get(base) == Some(&"histogram"));
    types.contains_key(name) || ["_bucket", "_sum", "_count"].into_iter().any(base)
}

#[tokio::test(flavor = "multi_thread")]
async fn every_sample_of_the_text_form_has_its_type_under_the_name_that_scrapers_look_for() -> Result<()> {
    let server = Server::start(BINARY)?;
    let client = server.client().await?;
    let (kind, text) = scrape(&client, "*/*").await?;
    ensure!(kind.starts_with("text/plain; version=0.0.4;"), "{kind}");
    let types = types(&text);
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        ensure!(described(&types, line), "nobody says what {line} is");
    }
    for (name, kind) in [
        ("apiserver_request_total", "counter"),
        ("apiserver_watch_events_total", "counter"),
        ("apiserver_longrunning_requests", "gauge"),
        ("apiserver_request_sli_duration_seconds", "histogram"),
        ("apiserver_response_sizes", "histogram"),
    ] {
        ensure!(types.get(name) == Some(&kind), "{name}: {types:?}");
    }
    let comments = text.lines().filter(|line| line.starts_with('#'));
    let unknown: Vec<_> =
        comments.filter(|line| !line.starts_with("# HELP ") && !line.starts_with("# TYPE ")).collect();
    ensure!(unknown.is_empty(), "OpenMetrics' own comments: {unknown:?}");
    check_with_promtool(&text)
}

/// promtool, if it is there, can read the text and finds nothing to say against it.
fn check_with_promtool(text: &str) -> Result<()> {
    let Ok(promtool) = tools::find("promtool") else {
        bailiwick_testkit::skip("promtool is not installed: cargo xtask setup, on Debian");
        return Ok(());
    };
    let directory = tempfile::tempdir()?;
    let file = directory.path().join("metrics");
    std::fs::write(&file, text)?;
    let said = Program::new("sh").args(["-c", r#""$0" check metrics < "$1""#]).arg(&promtool).arg(&file).run()?;
    ensure!(said.is_empty(), "{said}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scraper_that_asks_for_openmetrics_gets_it() -> Result<()> {
    let server = Server::start(BINARY)?;
    let (kind, text) = scrape(&server.client().await?, PROMETHEUS).await?;
    ensure!(kind.starts_with("application/openmetrics-text; version=1.0.0;"), "{kind}");
    ensure!(text.ends_with("\n# EOF\n") && text.matches("# EOF").count() == 1, "it has one end");
    let types = types(&text);
    ensure!(types.get("apiserver_request") == Some(&"counter"), "{types:?}");
    let counted = types.iter().filter(|(name, kind)| **kind == "counter" && name.ends_with("_total"));
    ensure!(counted.count() == 0, "families of counters have no suffix: {types:?}");
    let samples = text.lines().filter(|line| !line.starts_with('#')).collect::<Vec<_>>();
    ensure!(samples.iter().any(|line| line.starts_with("apiserver_request_total{")), "samples have");
    ensure!(text.lines().all(|line| !line.trim().is_empty()), "empty lines are not allowed");
    Ok(())
}

/// The value of the only sample of a metric that has all these labels; none if there is no such sample.
fn value(text: &str, name: &str, labels: &[&str]) -> Option<f64> {
    let samples = text.lines().filter(|line| line.split(['{', ' ']).next() == Some(name));
    let mut found = samples.filter(|line| labels.iter().all(|label| line.contains(label)));
    found.next()?.rsplit_once(' ')?.1.parse().ok()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_is_open_while_it_lasts_and_a_request_when_it_is_over() -> Result<()> {
    // Controllers would watch the same.
    let server = Server::start_with(BINARY, &["--no-controllers"])?;
    let client = server.client().await?;
    let leases: Api<Lease> = Api::namespaced(client.clone(), "default");
    let mut events = leases.watch(&WatchParams::default().disable_bookmarks(), "0").await?.boxed();
    leases.create(&PostParams::default(), &serde_json::from_value(json!({"metadata": {"name": "seen"}}))?).await?;
    events.next().await.context("the watch sees the object")??;

    let watched = ["verb=\"WATCH\"", "resource=\"leases\"", "scope=\"namespace\""];
    let text = scrape(&client, "*/*").await?.1;
    assert_eq!(value(&text, "apiserver_longrunning_requests", &watched), Some(1.0));
    assert_eq!(value(&text, "apiserver_watch_events_total", &["resource=\"leases\""]), Some(1.0));
    assert_eq!(value(&text, "apiserver_request_total", &watched), None, "it has not ended");
    assert_eq!(value(&text, "apiserver_request_duration_seconds_count", &watched), None);

    drop(events);
    let ended = async {
        while value(&scrape(&client, "*/*").await?.1, "apiserver_longrunning_requests", &watched) != Some(0.0) {}
        anyhow::Ok(())
    };
    tokio::time::timeout(DEADLINE, ended).await.context("the server notices that its client went")??;
    // The scrape that saw the end may have read the counters just before it.
    let text = scrape(&client, "*/*").await?.1;
    assert_eq!(value(&text, "apiserver_request_total", &watched), Some(1.0));
    assert_eq!(value(&text, "apiserver_request_duration_seconds_count", &watched), Some(1.0));
    let bytes = value(&text, "apiserver_response_sizes_sum", &watched).context("its bytes")?;
    ensure!(bytes > 0.0, "the event was counted in");
    let listed = ["verb=\"LIST\"", "resource=\"namespaces\""];
    Api::<k8s_openapi::api::core::v1::Namespace>::all(client.clone()).list(&Default::default()).await?;
    let text = scrape(&client, "*/*").await?.1;
    let listed = value(&text, "apiserver_response_sizes_sum", &listed).context("lists are counted")?;
    ensure!(listed > 100.0, "{listed} bytes of a list of namespaces");
    Ok(())
}

/// Asks again until `attempt` succeeds; its last error when time is up.
fn eventually<T>(mut attempt: impl FnMut() -> Result<T>) -> Result<T> {
    let end = Instant::now() + DEADLINE;
    loop {
        match attempt() {
            Err(error) if Instant::now() > end => return Err(error.context("it did not happen in time")),
            Err(_) => std::thread::sleep(POLL_INTERVAL),
            done => return done,
        }
    }
}

/// Waits until controllers say that they stand so.
fn until_ready(controllers: &Controllers, standing: &str) -> Result<()> {
    eventually(|| {
        let answer = controllers.get("/readyz")?;
        ensure!(answer == (200, standing.to_owned()), "{answer:?}");
        Ok(())
    })
    .with_context(|| standing.to_owned())
}

/// The names of the queues that a text shows.
fn queues(text: &str) -> BTreeSet<&str> {
    text.lines().filter_map(|line| line.strip_prefix("workqueue_depth{name=\"")?.split('"').next()).collect()
}

#[test]
fn controllers_elsewhere_show_what_they_would_show_in_the_server() -> Result<()> {
    let server = Server::start_with(BINARY, &["--no-controllers"])?;
    let first = Controllers::start(BINARY, &server)?;
    until_ready(&first, "leading")?;
    let second = Controllers::start(BINARY, &server)?;
    until_ready(&second, "waiting")?;
    assert_eq!(first.get("/healthz")?, (200, "ok".to_owned()));
    assert_eq!(second.get("/healthz")?, (200, "ok".to_owned()));
    let leads = |controllers: &Controllers| -> Result<Option<f64>> {
        let (_, text) = controllers.get("/metrics")?;
        Ok(value(&text, "leader_election_master_status", &["name=\"bailiwick-controllers\""]))
    };
    assert_eq!((leads(&first)?, leads(&second)?), (Some(1.0), Some(0.0)));

    // A queue is shown from when it is worked on. Those of definitions are always the server's own.
    let whole = Server::start(BINARY)?;
    let runtime = tokio::runtime::Runtime::new()?;
    let client = runtime.block_on(whole.client())?;
    let text = eventually(|| {
        let (_, inside) = runtime.block_on(scrape(&client, "*/*"))?;
        let (_, outside) = first.get("/metrics")?;
        let mut expected = queues(&inside);
        expected.retain(|queue| !["definitions", "api-services"].contains(queue));
        ensure!(expected.contains("garbage-collector") && queues(&outside) == expected, "{outside}\n{inside}");
        Ok(outside)
    })?;
    check_with_promtool(&text)?;

    first.terminate()?;
    until_ready(&second, "leading")?;
    assert_eq!(leads(&second)?, Some(1.0));
    second.terminate()
}

#[test]
fn nobody_is_shown_to_other_machines() -> Result<()> {
    let server = Server::start_with(BINARY, &["--no-controllers"])?;
    let flags = ["controllers", "--metrics-bind-address", "0.0.0.0:0", "--kubeconfig"];
    let refused = Program::new(BINARY).args(flags).arg(server.kubeconfig()).run().err().context("it must not start")?;
    ensure!(refused.to_string().contains("only loopback addresses can be served at"), "{refused:#}");
    Ok(())
}
