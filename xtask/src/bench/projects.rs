//! `cargo xtask bench --projects N`: what many project control planes cost. Each gets a namespace and ten objects of its own;
//! then latency with few and with many projects, memory when idle, watches in a thousand of them and a restart.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures::StreamExt;
use reqwest::{Client, Method, Response};
use serde_json::{Value, json};

use crate::conformance::servers::{self, Running};

const GROUP: &str = "/apis/resourcemanager.miloapis.com/v1alpha1";
const VERSION: &str = "resourcemanager.miloapis.com/v1alpha1";
/// Objects of each project, besides its namespace.
const OBJECTS: usize = 10;
/// Requests under way at the same time.
const CONCURRENCY: usize = 32;
/// Requests per measurement of latency.
const REQUESTS: usize = 2000;
/// Projects that get a watch.
const WATCHES: u32 = 1000;
/// After this long without a request a control plane has been let go; the server looks every fifteen seconds.
const IDLE: Duration = Duration::from_secs(80);

struct Admin {
    client: Client,
    base: String,
}

impl Admin {
    fn new(base: &str) -> Result<Self> {
        let client = Client::builder().danger_accept_invalid_certs(true).no_proxy().build()?;
        Ok(Self { client, base: base.to_owned() })
    }

    async fn send(&self, method: Method, path: &str, body: Option<Value>) -> Result<Response> {
        let mut request = self.client.request(method, format!("{}{path}", self.base)).bearer_auth("admin-token");
        if let Some(body) = body {
            request = request.json(&body);
        }
        Ok(request.send().await?)
    }

    async fn create(&self, collection: &str, object: Value) -> Result<()> {
        let response = self.send(Method::POST, collection, Some(object)).await?;
        let status = response.status();
        let text = response.text().await?;
        ensure!(status.as_u16() == 201, "{collection}: {status} {text}");
        Ok(())
    }

    /// A project with what the measurement puts into each.
    async fn project(&self, name: &str) -> Result<()> {
        let spec = json!({"ownerRef": {"kind": "Organization", "name": "bench"}});
        let project = json!({"apiVersion": VERSION, "kind": "Project", "metadata": {"name": name}, "spec": spec});
        self.create(&format!("{GROUP}/projects"), project).await?;
        self.create(&format!("/projects/{name}/api/v1/namespaces"), json!({"metadata": {"name": "own"}})).await?;
        for number in 0..OBJECTS {
            let map = json!({"metadata": {"name": format!("m{number}")}, "data": {"filler": "x".repeat(200)}});
            self.create(&format!("/projects/{name}/api/v1/namespaces/own/configmaps"), map).await?;
        }
        Ok(())
    }
}

/// Measures and prints.
pub fn run(binary: &Path, projects: u32) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let running = servers::start_control_plane(binary, &[])?;
    let admin = Admin::new(running.server.base())?;
    runtime.block_on(async {
        let organization = json!({"apiVersion": VERSION, "kind": "Organization", "metadata": {"name": "bench"}});
        admin.create(&format!("{GROUP}/organizations"), organization).await?;
        println!("empty server: {} MiB", rss_mib(&running)?);
        admin.project("p0").await?;
        println!("1 project: {}", latency(&admin, "p0").await?);
        let began = Instant::now();
        let mut created = futures::stream::iter(1..projects)
            .map(|number| {
                let admin = &admin;
                async move { admin.project(&format!("p{number}")).await }
            })
            .buffer_unordered(CONCURRENCY);
        let (mut count, mut at) = (1, Instant::now());
        while let Some(result) = created.next().await {
            result?;
            count += 1;
            if count % 1000 == 0 {
                println!(
                    "{count} projects: {:.0} projects/s, {} MiB",
                    1000.0 / at.elapsed().as_secs_f64(),
                    rss_mib(&running)?
                );
                at = Instant::now();
            }
        }
        let took = began.elapsed();
        let rate = f64::from(projects) / took.as_secs_f64();
        println!("{projects} projects with a namespace and {OBJECTS} objects each in {took:.1?}: {rate:.0} projects/s");
        println!("{projects} projects: {}", latency(&admin, &format!("p{}", projects / 2)).await?);
        tokio::time::sleep(IDLE).await;
        println!("all idle: {} MiB", rss_mib(&running)?);
        println!("first request to an idle project: {}", first_requests(&admin, projects).await?);
        let watches = watch(&admin, projects.min(WATCHES)).await?;
        println!("{} watches in as many projects: {} MiB", watches.len(), rss_mib(&running)?);
        drop(watches);
        anyhow::Ok(())
    })?;
    let began = Instant::now();
    let running = running.restart_bailiwick(binary)?;
    println!("restart after a kill: ready in {:.2?}", began.elapsed());
    let admin = Admin::new(running.server.base())?;
    runtime.block_on(async {
        println!("after the restart: {}", latency(&admin, &format!("p{}", projects / 2)).await?);
        tokio::time::sleep(IDLE).await;
        println!("idle after the restart: {} MiB", rss_mib(&running)?);
        Ok(())
    })
}

async fn latency(admin: &Admin, project: &str) -> Result<String> {
    let path = format!("/projects/{project}/api/v1/namespaces/own/configmaps/m1");
    let (mut gets, mut puts) = (Vec::new(), Vec::new());
    for number in 0..REQUESTS {
        let began = Instant::now();
        let found: Value = admin.send(Method::GET, &path, None).await?.json().await?;
        gets.push(began.elapsed());
        if number % 10 == 0 {
            let mut changed = found;
            changed["data"]["filler"] = format!("{number}").into();
            let began = Instant::now();
            let status = admin.send(Method::PUT, &path, Some(changed)).await?.status();
            puts.push(began.elapsed());
            ensure!(status.is_success(), "PUT {path}: {status}");
        }
    }
    Ok(format!("GET {}, PUT {}", shown(gets), shown(puts)))
}

async fn first_requests(admin: &Admin, projects: u32) -> Result<String> {
    let mut times = Vec::new();
    for number in 0..projects.min(100) {
        let began = Instant::now();
        let path = format!("/projects/p{number}/api/v1/namespaces/own/configmaps/m1");
        ensure!(admin.send(Method::GET, &path, None).await?.status().is_success());
        times.push(began.elapsed());
    }
    Ok(shown(times))
}

async fn watch(admin: &Admin, projects: u32) -> Result<Vec<Response>> {
    let mut open = Vec::new();
    for number in 0..projects {
        let path = format!("/projects/p{number}/api/v1/configmaps?watch=1");
        open.push(admin.send(Method::GET, &path, None).await?);
    }
    Ok(open)
}

fn shown(mut times: Vec<Duration>) -> String {
    times.sort();
    let at = |part: f64| {
        let index = ((times.len() as f64 * part) as usize).min(times.len().saturating_sub(1));
        times.get(index).copied().unwrap_or_default()
    };
    format!("p50 {:.2?} p99 {:.2?}", at(0.5), at(0.99))
}

fn rss_mib(running: &Running) -> Result<f64> {
    Ok(super::rss_mib(*running.pids().first().context("a process")?).round())
}
