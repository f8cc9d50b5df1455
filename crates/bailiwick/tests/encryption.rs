//! Secrets at rest, with the real program: its files hold no plaintext, keys change while it runs, and nothing is lost.

use std::path::{Path, PathBuf};
use std::process::Command;

use bailiwick_testkit::Server;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{ListParams, PostParams};
use serde_json::json;

const BINARY: &str = env!("CARGO_BIN_EXE_bailiwick");
const NEEDLE: &str = "correct-horse-battery-staple";
/// The needle as Secrets carry it.
const ENCODED: &str = "Y29ycmVjdC1ob3JzZS1iYXR0ZXJ5LXN0YXBsZQ==";

/// Every file below a directory whose bytes hold the needle.
fn exposing(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(exposing(&path));
            continue;
        }
        let bytes = std::fs::read(&path).unwrap_or_default();
        if [NEEDLE, ENCODED].iter().any(|needle| bytes.windows(needle.len()).any(|window| window == needle.as_bytes()))
        {
            found.push(path);
        }
    }
    found
}

fn secret(name: &str) -> Secret {
    serde_json::from_value(json!({"metadata": {"name": name}, "stringData": {"password": NEEDLE}})).unwrap()
}

fn bailiwick(arguments: &[&str]) -> String {
    let output = Command::new(BINARY).args(arguments).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{arguments:?}: {text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

#[tokio::test(flavor = "multi_thread")]
async fn no_file_holds_a_secret_and_keys_rotate_while_it_runs() {
    let mut server = Server::start(BINARY).unwrap();
    let (data, client) = (server.data_dir(), server.client().await.unwrap());
    let secrets: Api<Secret> = Api::namespaced(client.clone(), "default");
    for number in 0..20 {
        secrets.create(&PostParams::default(), &secret(&format!("s{number}"))).await.unwrap();
    }
    let backup = data.join("backup");
    bailiwick(&["snapshot", "save", backup.to_str().unwrap(), "--data-dir", data.to_str().unwrap()]);
    assert_eq!(exposing(&data), Vec::<PathBuf>::new());

    let rotated = bailiwick(&["encryption", "rotate", "--data-dir", data.to_str().unwrap()]);
    assert!(rotated.starts_with("key2 is the first key"), "{rotated}");
    let done = bailiwick(&["encryption", "reencrypt", "--data-dir", data.to_str().unwrap()]);
    assert!(done.lines().last().unwrap().ends_with("20 rewritten, 0 failed"), "{done}");
    secrets.create(&PostParams::default(), &secret("after")).await.unwrap();
    let again = bailiwick(&["encryption", "reencrypt", "--data-dir", data.to_str().unwrap()]);
    assert!(again.lines().last().unwrap().ends_with(" 0 rewritten, 0 failed"), "{again}");

    server.kill();
    assert_eq!(exposing(&data), Vec::<PathBuf>::new());
    server.restart().unwrap();
    let secrets: Api<Secret> = Api::namespaced(server.client().await.unwrap(), "default");
    let all = secrets.list(&ListParams::default()).await.unwrap();
    let ours: Vec<&Secret> = all.items.iter().filter(|secret| secret.data.is_some()).collect();
    assert_eq!(ours.len(), 21);
    for secret in ours {
        assert_eq!(secret.data.as_ref().unwrap()["password"].0, NEEDLE.as_bytes());
    }
    assert!(!server.log().contains(NEEDLE) && !server.log().contains(ENCODED));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_of_a_time_before_encryption_is_read_and_encrypted() {
    let directory = tempfile::tempdir().unwrap();
    let plain = directory.path().join("plain.yaml");
    let text = "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n- resources: [secrets]\n  \
                providers: [{identity: {}}]\n";
    std::fs::write(&plain, text).unwrap();
    let server = Server::start_with(BINARY, &["--encryption-provider-config", plain.to_str().unwrap()]).unwrap();
    let secrets: Api<Secret> = Api::namespaced(server.client().await.unwrap(), "default");
    secrets.create(&PostParams::default(), &secret("old")).await.unwrap();
    assert!(!exposing(&server.data_dir()).is_empty(), "the scan finds what is not encrypted");
    let config = "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n- resources: [secrets]\n  \
                  providers:\n  - secretbox: {keys: [{name: k, secret: AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=}]}\n  \
                  - identity: {}\n";
    std::fs::write(&plain, config).unwrap();
    let done = bailiwick(&["encryption", "reencrypt", "--data-dir", server.data_dir().to_str().unwrap()]);
    assert!(done.lines().last().unwrap().ends_with(" 1 rewritten, 0 failed"), "{done}");
    let read = secrets.get("old").await.unwrap();
    assert_eq!(read.data.unwrap()["password"].0, NEEDLE.as_bytes());
}
