//! How the program is run: it stops without failing anybody, its parts work apart and take turns, it reads a configuration
//! file and finds what is wrong with its surroundings.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bailiwick_testkit::{Controllers, Etcd, Program, Server};
use futures::StreamExt;
use http_body_util::BodyExt;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, ServiceAccount};
use kube::api::{DeleteParams, PostParams, WatchParams};
use kube::runtime::wait::{await_condition, conditions};
use kube::{Api, Client};
use serde_json::{Value, json};

const BINARY: &str = env!("CARGO_BIN_EXE_bailiwick");
/// Far more than anything here takes; only a bug runs into it.
const DEADLINE: Duration = Duration::from_secs(120);

async fn in_time<T>(work: impl Future<Output = T>) -> Result<T> {
    tokio::time::timeout(DEADLINE, work).await.context("it takes too long")
}

#[tokio::test(flavor = "multi_thread")]
async fn told_to_end_it_ends_watches_and_exits_well() -> Result<()> {
    let mut server = Server::start(BINARY)?;
    let maps: Api<ConfigMap> = Api::namespaced(server.client().await?, "default");
    let mut events = maps.watch(&WatchParams::default(), "0").await?.boxed();
    maps.create(&PostParams::default(), &serde_json::from_value(json!({"metadata": {"name": "seen"}}))?).await?;
    in_time(events.next()).await?.context("the watch sees the object")??;
    let ending = tokio::task::spawn_blocking(move || server.terminate());
    while let Some(event) = in_time(events.next()).await? {
        event.context("a watch ends between events, not within one")?;
    }
    let status = in_time(ending).await???;
    ensure!(status.success(), "it ended with {status}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn before_it_ends_it_says_so_and_goes_on_serving() -> Result<()> {
    let mut server = Server::start_with(BINARY, &["--shutdown-delay-duration", "3s"])?;
    let client = server.client().await?;
    let ready = |path: &'static str| {
        let client = client.clone();
        async move { client.request_text(http::Request::get(path).body(Vec::new())?).await.map_err(anyhow::Error::from) }
    };
    assert_eq!(ready("/readyz").await?, "ok");
    let ending = tokio::task::spawn_blocking(move || server.terminate());
    in_time(async { while ready("/readyz").await.is_ok() {} }).await?;
    assert_eq!(ready("/livez").await?, "ok", "others are still served");
    ensure!(in_time(ending).await???.success());
    Ok(())
}

async fn leader(client: &Client) -> Result<String> {
    let leases: Api<Lease> = Api::namespaced(client.clone(), "kube-system");
    let held = |lease: Option<&Lease>| {
        let holder = lease.and_then(|lease| lease.spec.as_ref()?.holder_identity.as_deref());
        holder.is_some_and(|holder| !holder.is_empty())
    };
    let lease = in_time(await_condition(leases, "bailiwick-controllers", held)).await??;
    Ok(lease.and_then(|lease| lease.spec?.holder_identity).unwrap_or_default())
}

/// Makes a namespace, waits for its service account, and deletes it: two controllers at work.
async fn namespace_lives_and_dies(client: &Client, name: &str) -> Result<()> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let namespace = serde_json::from_value(json!({"metadata": {"name": name}}))?;
    let uid = namespaces.create(&PostParams::default(), &namespace).await?.metadata.uid.unwrap_or_default();
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), name);
    let exists = |account: Option<&ServiceAccount>| account.is_some();
    in_time(await_condition(accounts, "default", exists)).await??;
    namespaces.delete(name, &DeleteParams::default()).await?;
    in_time(await_condition(namespaces, name, conditions::is_deleted(&uid))).await??;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn controllers_elsewhere_take_turns() -> Result<()> {
    let server = Server::start_with(BINARY, &["--no-controllers"])?;
    let client = server.client().await?;
    let first = Controllers::start(BINARY, &server)?;
    let first_name = leader(&client).await?;
    namespace_lives_and_dies(&client, "first").await?;
    let second = Controllers::start(BINARY, &server)?;
    first.terminate()?;
    namespace_lives_and_dies(&client, "second").await?;
    let second_name = leader(&client).await?;
    assert_ne!(first_name, second_name);
    second.terminate()
}

#[tokio::test(flavor = "multi_thread")]
async fn of_several_servers_on_etcd_one_runs_the_controllers() -> Result<()> {
    let Some(etcd) = Etcd::start()? else { return Ok(()) };
    let mut first = Server::start_with(BINARY, &["--etcd-servers", etcd.url()])?;
    let leader_of_one = leader(&first.client().await?).await?;
    let second = Server::start_with(BINARY, &["--etcd-servers", etcd.url()])?;
    let client = second.client().await?;
    namespace_lives_and_dies(&client, "first").await?;
    assert_eq!(leader(&client).await?, leader_of_one, "the second waits");
    ensure!(first.terminate()?.success());
    namespace_lives_and_dies(&client, "second").await?;
    assert_ne!(leader(&client).await?, leader_of_one);
    Ok(())
}

/// Takes whatever is sent to it over gRPC, without looking.
async fn collector() -> Result<(String, tokio::sync::mpsc::Receiver<Vec<u8>>)> {
    let (taken, received) = tokio::sync::mpsc::channel(16);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?.to_string();
    tokio::spawn(async move {
        while let Ok((connection, _)) = listener.accept().await {
            let taken = taken.clone();
            let service = hyper::service::service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
                let taken = taken.clone();
                async move {
                    let body = request.into_body().collect().await?.to_bytes();
                    let _ = taken.send(body.to_vec()).await;
                    let ok =
                        hyper::Response::builder().header("content-type", "application/grpc").header("grpc-status", 0);
                    Ok::<_, anyhow::Error>(ok.body(http_body_util::Empty::<bytes::Bytes>::new())?)
                }
            });
            let serving = hyper::server::conn::http2::Builder::new(hyper_util::rt::TokioExecutor::new())
                .serve_connection(hyper_util::rt::TokioIo::new(connection), service);
            tokio::spawn(serving);
        }
    });
    Ok((address, received))
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_of_a_trace_are_sent_to_the_collector() -> Result<()> {
    let (address, mut received) = collector().await?;
    let directory = tempfile::tempdir()?;
    let config = directory.path().join("tracing.yaml");
    let text = "apiVersion: apiserver.config.k8s.io/v1\nkind: TracingConfiguration\n";
    std::fs::write(&config, format!("{text}endpoint: {address}\n"))?;
    let server = Server::start_with(BINARY, &["--tracing-config-file", &config.display().to_string()])?;
    let client = server.client().await?;
    client.request_text(http::Request::get("/api/v1/untraced").body(Vec::new())?).await.unwrap_err();
    let traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let traced = http::Request::get("/api/v1/namespaces/default").header("traceparent", traceparent);
    client.request_text(traced.body(Vec::new())?).await?;
    let sent = in_time(received.recv()).await?.context("the collector got spans")?;
    let has = |part: &[u8]| sent.windows(part.len()).any(|window| window == part);
    assert!(has(b"KubernetesAPI") && has(b"/api/v1/namespaces/default"));
    assert!(has(&[0x4b, 0xf9, 0x2f, 0x35, 0x77, 0xb3, 0x4d, 0xa6]), "the trace goes on");
    assert!(!has(b"untraced"), "nothing is sampled by chance");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_left_out_by_flags_is_gone() -> Result<()> {
    let server =
        Server::start_with(BINARY, &["--without=crds,rbac,events", "--runtime-config=coordination.k8s.io/v1=false"])?;
    let client = server.client().await?;
    let groups: Vec<String> = client.list_api_groups().await?.groups.into_iter().map(|group| group.name).collect();
    for gone in ["apiextensions.k8s.io", "rbac.authorization.k8s.io", "events.k8s.io", "coordination.k8s.io"] {
        assert!(!groups.iter().any(|group| group == gone), "{gone} is among {groups:?}");
    }
    let core = client.list_core_api_resources("v1").await?.resources;
    assert!(!core.iter().any(|resource| resource.name == "events"));
    namespace_lives_and_dies(&client, "still-works").await
}

#[test]
fn flags_can_come_from_a_file_and_mistakes_in_it_are_named() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let config = directory.path().join("config.yaml");
    std::fs::write(&config, "without: [crds]\nlog-format: json\nno-controllers: true\n")?;
    let server = Server::start_with(BINARY, &["--config", &config.display().to_string()])?;
    let log = server.log();
    let first: Value = serde_json::from_str(log.lines().next().unwrap_or("{}")).context(log.clone())?;
    assert!(first.is_object(), "logs are JSON: {log}");
    std::fs::write(&config, "lisen: 127.0.0.1:0\n")?;
    let refused = Program::new(BINARY).args(["serve", "--config"]).arg(&config).run();
    let text = refused.err().context("it was accepted")?.to_string();
    assert!(text.contains("lisen: `bailiwick serve` has no flag of this name; did you mean listen?"), "{text}");
    Ok(())
}

fn doctor(data_dir: &Path, listen: &str) -> (bool, Vec<Value>) {
    let output = Command::new(BINARY)
        .args(["doctor", "--output=json", "--listen", listen, "--data-dir"])
        .arg(data_dir)
        .output()
        .expect("doctor runs");
    let findings = serde_json::from_slice(&output.stdout).expect("findings are JSON");
    (output.status.success(), findings)
}

#[test]
fn doctor_finds_a_healthy_server_healthy_and_an_ill_one_ill() -> Result<()> {
    let mut server = Server::start(BINARY)?;
    let address = server.url().trim_start_matches("https://").to_owned();
    let (healthy, findings) = doctor(&server.data_dir(), &address);
    assert!(healthy, "{findings:#?}");
    let verdict = |findings: &[Value], check: &str| {
        let found = findings.iter().find(|finding| finding["check"] == check);
        found.map(|finding| finding["verdict"].as_str().unwrap_or_default().to_owned())
    };
    for check in ["data directory", "certificate ca.crt", "port", "kubeconfig", "store"] {
        assert_eq!(verdict(&findings, check).as_deref(), Some("ok"), "{check}: {findings:#?}");
    }
    server.terminate()?;
    std::fs::write(server.data_dir().join("pki/ca.crt"), "no certificate")?;
    let (healthy, findings) = doctor(&server.data_dir(), &address);
    assert!(!healthy);
    assert_eq!(verdict(&findings, "certificate ca.crt").as_deref(), Some("failed"), "{findings:#?}");
    assert_eq!(verdict(&findings, "kubeconfig").as_deref(), Some("skipped"), "nobody answers: {findings:#?}");
    Ok(())
}

#[test]
fn completions_and_the_manual_name_every_subcommand() -> Result<()> {
    for form in ["bash", "zsh", "fish", "man"] {
        let text = Program::new(BINARY).args(["completions", form]).run()?;
        for subcommand in ["serve", "doctor", "snapshot"] {
            let named = text.contains(subcommand) || text.contains(&subcommand.to_uppercase());
            assert!(named, "{form} does not know {subcommand}");
        }
    }
    Ok(())
}
