//! Projects on several servers that share an etcd, and the commands that make them, with the real program.

use std::io::{BufRead, BufReader};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use bailiwick_testkit::{ADMIN_TOKEN, Controllers, Etcd, Program, Server, tools};
use reqwest::blocking::{Client, Response};
use serde_json::{Value, json};

use crate::platform::{DEADLINE, GROUP, typed};

const BINARY: &str = env!("CARGO_BIN_EXE_bailiwick");
/// Within which a project made at one server is there at another.
const SAME_SECOND: Duration = Duration::from_secs(1);

/// A server, and a client of it.
struct Node {
    server: Server,
    client: Client,
}

impl Node {
    fn of(server: Server) -> Result<Self> {
        let client = Client::builder().use_rustls_tls().danger_accept_invalid_certs(true).timeout(DEADLINE).build()?;
        Ok(Self { server, client })
    }

    fn send(&self, token: &str, method: &str, path: &str, body: &Value) -> Result<Response> {
        let url = format!("{}{path}", self.server.url());
        let request = self.client.request(method.parse()?, url).bearer_auth(token);
        Ok(if body.is_null() { request.send()? } else { request.json(body).send()? })
    }

    fn status(&self, token: &str, path: &str) -> Result<u16> {
        Ok(self.send(token, "GET", path, &Value::Null)?.status().as_u16())
    }

    fn create(&self, collection: &str, object: Value) -> Result<Value> {
        let answer = self.send(ADMIN_TOKEN, "POST", collection, &typed(collection, object))?;
        let (status, value) = (answer.status().as_u16(), answer.json::<Value>()?);
        ensure!(status == 201, "{collection}: {status} {value}");
        Ok(value)
    }

    fn project(&self, name: &str) -> Result<()> {
        let spec = json!({"ownerRef": {"kind": "Organization", "name": "acme"}});
        self.create(&format!("{GROUP}/projects"), json!({"metadata": {"name": name}, "spec": spec})).map(drop)
    }

    fn until(&self, path: &str, wanted: u16) -> Result<()> {
        let end = Instant::now() + DEADLINE;
        loop {
            let status = self.status(ADMIN_TOKEN, path)?;
            if status == wanted {
                return Ok(());
            }
            if Instant::now() > end {
                bail!("{path} is answered with {status}, not {wanted}; the log:\n{}", self.server.log());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Two servers on one etcd, with the same keys and the same issuer.
struct Pair {
    a: Node,
    b: Node,
    _pki: tempfile::TempDir,
    _etcd: Etcd,
}

impl Pair {
    fn start(more: &[&str]) -> Result<Option<Self>> {
        let Some(etcd) = Etcd::start()? else { return Ok(None) };
        let pki = tempfile::tempdir()?;
        let directory = pki.path().display().to_string();
        let mut arguments = vec!["--etcd-servers", etcd.url(), "--pki-dir", &directory];
        arguments.extend(["--service-account-issuer", "https://issuer.example"]);
        arguments.extend(more);
        let a = Node::of(Server::start_with(BINARY, &arguments)?)?;
        let b = Node::of(Server::start_with(BINARY, &arguments)?)?;
        a.create(&format!("{GROUP}/organizations"), json!({"metadata": {"name": "acme"}}))?;
        Ok(Some(Self { a, b, _pki: pki, _etcd: etcd }))
    }
}

const MAPS: &str = "/projects/p1/api/v1/namespaces/default/configmaps";

#[test]
fn a_project_made_at_one_server_is_there_at_the_other_within_the_same_second() -> Result<()> {
    let Some(Pair { a, b, .. }) = &Pair::start(&[])? else { return Ok(()) };
    for number in 0..10 {
        let name = format!("p{number}");
        let (maker, user) = if number % 2 == 0 { (a, b) } else { (b, a) };
        maker.project(&name)?;
        let made = Instant::now();
        // Not asked until it works: the very first request finds it.
        let maps = format!("/projects/{name}/api/v1/namespaces/default/configmaps");
        user.create(&maps, json!({"metadata": {"name": "first"}, "data": {"of": name}}))?;
        ensure!(made.elapsed() < SAME_SECOND, "it took {:?}", made.elapsed());
        let read: Value = maker.send(ADMIN_TOKEN, "GET", &format!("{maps}/first"), &Value::Null)?.json()?;
        assert_eq!(read["data"]["of"], json!(name));
    }
    Ok(())
}

#[test]
fn a_definition_and_a_role_made_in_a_project_at_one_server_hold_at_the_other() -> Result<()> {
    let Some(Pair { a, b, .. }) = &Pair::start(&[])? else { return Ok(()) };
    a.project("p1")?;
    b.until(MAPS, 200)?;
    a.create(
        "/projects/p1/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        crate::platform::definition("gears", "Gear"),
    )?;
    let gears = "/projects/p1/apis/example.com/v1/namespaces/default/gears";
    b.until(gears, 200)?;
    b.create(gears, json!({"apiVersion": "example.com/v1", "kind": "Gear", "metadata": {"name": "g"}}))?;
    a.until(&format!("{gears}/g"), 200)?;
    a.create("/projects/p1/api/v1/namespaces/default/serviceaccounts", json!({"metadata": {"name": "robot"}}))?;
    let token = token_of(a, "/projects/p1", "robot")?;
    until_status(b, &token, 403).context("known, without rights")?;
    a.create(
        "/projects/p1/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings",
        json!({
            "metadata": {"name": "robot"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
            "subjects": [{"kind": "ServiceAccount", "name": "robot", "namespace": "default"}],
        }),
    )?;
    until_status(b, &token, 200).context("the role holds at the other server")
}

/// Other servers learn of accounts and roles a moment later, as with kube-apiserver.
fn until_status(node: &Node, token: &str, wanted: u16) -> Result<()> {
    let end = Instant::now() + DEADLINE;
    loop {
        let status = node.status(token, MAPS)?;
        if status == wanted {
            return Ok(());
        }
        ensure!(Instant::now() < end, "{status} instead of {wanted}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn token_of(node: &Node, plane: &str, account: &str) -> Result<String> {
    let path = format!("{plane}/api/v1/namespaces/default/serviceaccounts/{account}/token");
    let issued = node.create(&path, json!({"spec": {}}))?;
    Ok(issued["status"]["token"].as_str().context("a token")?.to_owned())
}

#[test]
fn a_token_of_one_project_is_good_there_at_both_servers_and_nowhere_else_at_either() -> Result<()> {
    let Some(Pair { a, b, .. }) = &Pair::start(&[])? else { return Ok(()) };
    a.project("p1")?;
    a.project("p2")?;
    b.create("/projects/p1/api/v1/namespaces/default/serviceaccounts", json!({"metadata": {"name": "robot"}}))?;
    let token = token_of(a, "/projects/p1", "robot")?;
    for node in [a, b] {
        until_status(node, &token, 403)?;
        assert_eq!(node.status(&token, "/projects/p2/api/v1/namespaces/default/configmaps")?, 401);
        assert_eq!(node.status(&token, "/api/v1/namespaces/default/configmaps")?, 401);
    }
    a.send(ADMIN_TOKEN, "DELETE", &format!("{GROUP}/projects/p1"), &Value::Null)?;
    for node in [b, a] {
        node.until(&format!("{GROUP}/projects/p1"), 404)?;
        assert_eq!(node.status(&token, MAPS)?, 401, "it ends with its project");
    }
    b.project("p1")?;
    b.create("/projects/p1/api/v1/namespaces/default/serviceaccounts", json!({"metadata": {"name": "robot"}}))?;
    for node in [a, b] {
        assert_eq!(node.status(&token, MAPS)?, 401, "and is not for another of its name");
    }
    Ok(())
}

#[test]
fn a_deletion_that_has_to_settle_holds_up_no_other_project() -> Result<()> {
    let Some(Pair { a, .. }) = &Pair::start(&[])? else { return Ok(()) };
    a.project("p1")?;
    a.send(ADMIN_TOKEN, "DELETE", &format!("{GROUP}/projects/p1"), &Value::Null)?;
    for name in ["p2", "p3"] {
        a.project(name)?;
        until_ready(a, name)?;
    }
    assert_eq!(a.status(ADMIN_TOKEN, &format!("{GROUP}/projects/p1"))?, 200, "the others did not wait for its end");
    a.until(&format!("{GROUP}/projects/p1"), 404)
}

fn until_ready(node: &Node, project: &str) -> Result<()> {
    let end = Instant::now() + DEADLINE;
    loop {
        let found: Value =
            node.send(ADMIN_TOKEN, "GET", &format!("{GROUP}/projects/{project}"), &Value::Null)?.json()?;
        if found["status"]["conditions"][0]["status"] == "True" {
            return Ok(());
        }
        ensure!(Instant::now() < end, "{found}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_deletion_at_one_server_ends_what_the_other_has_open() -> Result<()> {
    let Some(Pair { a, b, .. }) = &Pair::start(&[])? else { return Ok(()) };
    a.project("p1")?;
    b.create(MAPS, json!({"metadata": {"name": "kept", "finalizers": ["example.com/never"]}}))?;
    let mut watch = BufReader::new(b.send(ADMIN_TOKEN, "GET", &format!("{MAPS}?watch=true"), &Value::Null)?).lines();
    let first: Value = serde_json::from_str(&watch.next().context("an event")??)?;
    assert_eq!(first["type"], "ADDED");
    a.send(ADMIN_TOKEN, "DELETE", &format!("{GROUP}/projects/p1"), &Value::Null)?;
    // The watch ends; nothing of the removal of single objects is told, or all of it, but it ends.
    for line in watch {
        let Ok(line) = line else { break };
        let event: Value = serde_json::from_str(&line)?;
        ensure!(event["type"] != "BOOKMARK" || event["object"].is_object(), "{event}");
    }
    for node in [a, b] {
        node.until(&format!("{GROUP}/projects/p1"), 404)?;
        let answer = node.send(ADMIN_TOKEN, "POST", MAPS, &json!({"metadata": {"name": "late"}}))?;
        assert_eq!(answer.status().as_u16(), 404, "nobody writes into what is gone");
    }
    b.project("p1")?;
    let list: Value = a.send(ADMIN_TOKEN, "GET", MAPS, &Value::Null)?.json()?;
    let names: Vec<&str> =
        list["items"].as_array().into_iter().flatten().filter_map(|map| map["metadata"]["name"].as_str()).collect();
    assert_eq!(names, ["kube-root-ca.crt"], "the next of its name begins empty at both");
    Ok(())
}

#[test]
fn controllers_elsewhere_look_after_the_projects_of_both_servers() -> Result<()> {
    let Some(Pair { a, b, .. }) = &Pair::start(&["--no-controllers"])? else { return Ok(()) };
    let _controllers = Controllers::start(BINARY, &a.server)?;
    b.project("p1")?;
    b.create("/projects/p1/api/v1/namespaces", json!({"metadata": {"name": "team"}}))?;
    b.until("/projects/p1/api/v1/namespaces/team/serviceaccounts/default", 200)?;
    a.until("/projects/p1/api/v1/namespaces/team/configmaps/kube-root-ca.crt", 200)?;
    let owner = b.create(MAPS, json!({"metadata": {"name": "owner"}}))?;
    let reference = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]});
    a.create(MAPS, json!({"metadata": {"name": "owned", "ownerReferences": [reference]}}))?;
    b.send(ADMIN_TOKEN, "DELETE", &format!("{MAPS}/owner"), &Value::Null)?;
    b.until(&format!("{MAPS}/owned"), 404)?;
    b.send(ADMIN_TOKEN, "DELETE", "/projects/p1/api/v1/namespaces/team", &Value::Null)?;
    a.until("/projects/p1/api/v1/namespaces/team", 404)
}

#[test]
fn a_project_is_made_and_used_by_commands() -> Result<()> {
    let server = Server::start(BINARY)?;
    let data = server.data_dir();
    let bailiwick =
        |arguments: &[&str]| Program::new(BINARY).args(arguments).arg("--data-dir").arg(&data).env("HOME", &data).run();
    let made = bailiwick(&["project", "create", "shop", "--organization", "acme"])?;
    assert_eq!(made, "organization acme created\nproject shop created; try: bailiwick project kubeconfig shop\n");
    let second = bailiwick(&["project", "create", "blog", "--organization", "acme"])?;
    assert_eq!(second, "project blog created; try: bailiwick project kubeconfig blog\n");
    let refused = bailiwick(&["project", "create", "shop", "--organization", "acme"]).err().context("it exists")?;
    ensure!(refused.to_string().contains("already exists"), "{refused:#}");
    let listed = bailiwick(&["project", "list"])?;
    for name in ["shop", "blog"] {
        ensure!(listed.lines().any(|line| line.starts_with(name) && line.contains(" acme ")), "{listed}");
    }
    let kubeconfig = data.join("shop.kubeconfig");
    bailiwick(&["project", "kubeconfig", "shop", "--output", kubeconfig.to_str().context("a path in UTF-8")?])?;
    let kubectl = |arguments: &[&str]| {
        let program = Program::new(tools::find("kubectl-1.36")?).args(arguments).env("HOME", &data);
        program.arg("--kubeconfig").arg(&kubeconfig).run()
    };
    assert_eq!(
        kubectl(&["get", "namespaces", "-o", "name"])?,
        "namespace/default\nnamespace/kube-public\nnamespace/kube-system\n"
    );
    kubectl(&["create", "namespace", "web"])?;
    kubectl(&["create", "configmap", "settings", "--namespace", "web", "--from-literal=a=b"])?;
    let read = ["get", "configmap", "settings", "--namespace", "web", "-o", "jsonpath={.data.a}"];
    assert_eq!(kubectl(&read)?, "b");
    assert_eq!(kubectl(&["auth", "can-i", "*", "*"])?, "yes\n");
    ensure!(kubectl(&["api-resources"])?.contains("customresourcedefinitions"));
    // Printed, and read from a kubeconfig that leads into another project.
    let other = Program::new(BINARY)
        .args(["project", "kubeconfig", "blog", "--kubeconfig"])
        .arg(&kubeconfig)
        .env("HOME", &data)
        .run()?;
    ensure!(other.contains(&format!("server: {}/projects/blog", server.url())), "{other}");
    ensure!(bailiwick(&["project", "kubeconfig", "nowhere"]).is_err());
    Ok(())
}
