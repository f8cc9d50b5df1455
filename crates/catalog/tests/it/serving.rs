//! The gRPC and HTTP servers, against opm's recorded answers and against opm.

use std::path::Path;
use std::process::{Command, Stdio};

use bailiwick_catalog::fbc::{Output, write_catalog};
use bailiwick_catalog::serve::messages::Bundle;
use bailiwick_catalog::serve::{CatalogServer, Index, open_or_build, serve};
use serde_json::{Value, json};

use crate::golden_render::whole_catalog;
use crate::grpc_client::Client;
use crate::paths;

const API: [&str; 3] = ["rabbitmq.com", "v1beta1", "RabbitmqCluster"];
const PACKAGE: &str = "percona-xtradb-cluster-operator";

async fn start(directory: &Path, cache: &Path) -> (Client, u16) {
    let index = open_or_build(directory, &cache.join("catalog.index")).unwrap();
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(serve(CatalogServer::new(index), listener, std::future::pending()));
    (Client::connect(port).await, port)
}

fn write_whole_catalog(data: &Path) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("catalog.yaml"), write_catalog(&whole_catalog(data), Output::Yaml)).unwrap();
    dir
}

/// A bundle as the golden has it.
fn described(bundle: &Bundle) -> Value {
    let mut out = json!({
        "bundlePath": bundle.bundle_path, "channelName": bundle.channel_name, "csvName": bundle.csv_name,
        "csvJson_len": bundle.csv_json.chars().count(), "object_count": bundle.object.len(), "packageName": bundle.package_name,
        "version": bundle.version,
    });
    let apis = |list: &[bailiwick_catalog::serve::messages::GroupVersionKind]| -> Vec<Value> {
        let mut list: Vec<Value> =
            list.iter().map(|it| json!({"group": it.group, "kind": it.kind, "version": it.version})).collect();
        list.sort_by_key(ToString::to_string);
        list
    };
    let typed = |list: &[bailiwick_catalog::serve::messages::Typed]| -> Vec<Value> {
        let mut list: Vec<Value> = list.iter().map(|it| json!({"type": it.r#type, "value": it.value})).collect();
        list.sort_by_key(ToString::to_string);
        list
    };
    for (key, list) in [
        ("providedApis", apis(&bundle.provided_apis)),
        ("requiredApis", apis(&bundle.required_apis)),
        ("dependencies", typed(&bundle.dependencies)),
        ("properties", typed(&bundle.properties)),
    ] {
        if !list.is_empty() {
            out[key] = Value::Array(list);
        }
    }
    for (key, text) in [("skipRange", &bundle.skip_range), ("replaces", &bundle.replaces)] {
        if !text.is_empty() {
            out[key] = json!(text);
        }
    }
    if !bundle.skips.is_empty() {
        out["skips"] = json!(bundle.skips);
    }
    out
}

fn sorted_lists(value: &Value) -> Value {
    match value {
        Value::Array(items) => {
            let mut items: Vec<Value> = items.iter().map(sorted_lists).collect();
            items.sort_by_key(ToString::to_string);
            Value::Array(items)
        }
        Value::Object(fields) => fields.iter().map(|(key, value)| (key.clone(), sorted_lists(value))).collect(),
        other => other.clone(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_are_the_recorded_ones() {
    let Some(data) = paths::data() else { return };
    let text = std::fs::read_to_string(data.join("golden/commands/grpc-registry.json")).unwrap();
    let golden: Value = serde_json::from_str(&text).unwrap();
    let catalog = write_whole_catalog(&data);
    let cache = tempfile::tempdir().unwrap();
    let (client, port) = start(catalog.path(), cache.path()).await;

    assert_eq!(json!(client.list_packages().await), golden["ListPackages"]);
    for (name, expected) in golden["GetPackage"].as_object().unwrap() {
        let package = client.get_package(name).await.unwrap();
        let channels: Vec<Value> =
            package.channels.iter().map(|it| json!({"name": it.name, "csvName": it.csv_name})).collect();
        let found =
            json!({"name": package.name, "defaultChannelName": package.default_channel_name, "channels": channels});
        assert_eq!(sorted_lists(&found), sorted_lists(expected));
    }
    let version = |number: &str| format!("{PACKAGE}.v{number}");
    let same = |found: &Bundle, expected: &Value, what: &str| {
        assert_eq!(sorted_lists(&described(found)), sorted_lists(expected), "{what}");
    };
    let head = client.get_bundle(PACKAGE, "stable-v1", &version("1.19.1")).await.unwrap();
    same(&head, &golden["GetBundle"], "GetBundle");
    let found = client.bundle("GetBundleForChannel", [PACKAGE, "stable-v1", ""]).await.unwrap();
    same(&found, &golden["GetBundleForChannel"], "GetBundleForChannel");
    let found = client.bundle("GetBundleThatReplaces", [&version("1.11.0"), PACKAGE, "stable-v1"]).await.unwrap();
    same(&found, &golden["GetBundleThatReplaces"], "GetBundleThatReplaces");
    let found = client.bundle("GetDefaultBundleThatProvides", API).await.unwrap();
    same(&found, &golden["GetDefaultBundleThatProvides"], "GetDefaultBundleThatProvides");
    for (method, texts) in [
        ("GetChannelEntriesThatProvide", API),
        ("GetLatestChannelEntriesThatProvide", API),
        ("GetChannelEntriesThatReplace", [&version("1.11.0"), "", ""]),
    ] {
        let entries = client.entries(method, texts).await.unwrap();
        let found: Vec<Value> = entries
            .iter()
            .map(|it| {
                let mut entry = json!({
                    "packageName": it.package_name, "channelName": it.channel_name, "bundleName": it.bundle_name,
                });
                if !it.replaces.is_empty() {
                    entry["replaces"] = json!(it.replaces);
                }
                entry
            })
            .collect();
        assert_eq!(sorted_lists(&json!(found)), sorted_lists(&golden[method]), "{method}");
    }
    let listed: Vec<Value> = client.list_bundles().await.iter().map(described).collect();
    // The golden lists only some of them.
    for expected in golden["ListBundles"].as_array().unwrap() {
        let expected = sorted_lists(expected);
        assert!(listed.iter().any(|found| sorted_lists(found) == expected), "{expected}");
    }
    let refused = client.get_package("nope").await.unwrap_err();
    assert_eq!(refused, (tonic::Code::Unknown, "package \"nope\" not found".to_owned()));

    let text = reqwest::get(format!("http://127.0.0.1:{port}/api/v1/metas?schema=olm.channel&package={PACKAGE}"));
    let text = text.await.unwrap().text().await.unwrap();
    assert!(text.lines().count() > 3 && text.lines().all(|line| line.contains("\"schema\":\"olm.channel\"")));
    let all = reqwest::get(format!("http://127.0.0.1:{port}/api/v1/all")).await.unwrap();
    assert_eq!(all.headers()["content-type"], "application/jsonl");
    assert!(bailiwick_catalog::fbc::load_text(&all.text().await.unwrap()).unwrap().bundles.len() > 60);
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_are_opm_s() {
    let (Some(data), Some(opm)) = (paths::data(), paths::opm()) else { return };
    let catalog = write_whole_catalog(&data);
    let cache = tempfile::tempdir().unwrap();
    let (ours, _) = start(catalog.path(), cache.path()).await;
    let free = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
    let mut server = Command::new(opm)
        .args(["serve", catalog.path().to_str().unwrap(), "--port", &free.to_string(), "--pprof-addr", ""])
        .args(["--termination-log", cache.path().join("log").to_str().unwrap()])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let theirs = Client::connect(free).await;
    let packages = ours.list_packages().await;
    assert_eq!(packages, theirs.list_packages().await);
    let mut compared = 0;
    for name in &packages {
        let package = ours.get_package(name).await.unwrap();
        assert_eq!(Ok(&package), theirs.get_package(name).await.as_ref());
        for channel in &package.channels {
            let found = ours.get_bundle(name, &channel.name, &channel.csv_name).await;
            assert_eq!(found, theirs.get_bundle(name, &channel.name, &channel.csv_name).await);
            compared += 1;
        }
    }
    assert!(compared > 50);
    assert_eq!(ours.list_bundles().await, theirs.list_bundles().await);
    for method in ["GetChannelEntriesThatProvide", "GetLatestChannelEntriesThatProvide"] {
        assert_eq!(ours.entries(method, API).await, theirs.entries(method, API).await, "{method}");
        let nobody = ["g", "v1", "K"];
        assert_eq!(ours.entries(method, nobody).await, theirs.entries(method, nobody).await, "{method}");
    }
    for texts in [["x", PACKAGE, "stable-v1"], ["x", "y", "z"], ["x", PACKAGE, "z"]] {
        let method = "GetBundleThatReplaces";
        assert_eq!(ours.bundle(method, texts).await, theirs.bundle(method, texts).await, "{texts:?}");
    }
    assert_eq!(ours.get_bundle(PACKAGE, "x", "y").await, theirs.get_bundle(PACKAGE, "x", "y").await);
    server.kill().unwrap();
    server.wait().unwrap();
}

#[test]
fn an_index_is_made_once_and_damage_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let catalog = dir.path().join("catalog");
    std::fs::create_dir(&catalog).unwrap();
    let text = "schema: olm.package\nname: foo\ndefaultChannel: a\n---\nschema: olm.channel\npackage: foo\nname: a\n\
        entries: [{name: foo.v1}]\n---\nschema: olm.bundle\npackage: foo\nname: foo.v1\nimage: quay.io/x/foo:v1\n\
        properties: [{type: olm.package, value: {packageName: foo, version: 1.0.0}}]\n";
    std::fs::write(catalog.join("catalog.yaml"), text).unwrap();
    let path = dir.path().join("cache/catalog.index");
    assert_eq!(open_or_build(&catalog, &path).unwrap().bundle_count(), 1);
    let made = std::fs::metadata(&path).unwrap().modified().unwrap();
    open_or_build(&catalog, &path).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().modified().unwrap(), made, "it was made again");
    let mut bytes = std::fs::read(&path).unwrap();
    bytes.truncate(bytes.len() - 3);
    std::fs::write(&path, bytes).unwrap();
    assert!(Index::open(&path).unwrap_err().to_string().contains("damaged"));
    assert_eq!(open_or_build(&catalog, &path).unwrap().bundle_count(), 1);
    std::fs::write(catalog.join("catalog.yaml"), "schema: olm.package\nname: foo\n").unwrap();
    assert!(open_or_build(&catalog, &path).unwrap_err().to_string().contains("default channel must be set"));
}
