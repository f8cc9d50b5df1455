//! Secrets at rest, with the real program: its files hold no plaintext, keys change while it runs, its own and those of a key
//! service, and nothing is lost.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bailiwick_testkit::{KmsPlugin, Server};
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use serde_json::json;
use tokio::task::JoinHandle;

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
async fn a_backup_is_restored_elsewhere_with_its_keys_and_refused_without() {
    let mut server = Server::start(BINARY).unwrap();
    let (data, before) = (server.data_dir(), server.client().await.unwrap());
    let secrets: Api<Secret> = Api::namespaced(before, "default");
    secrets.create(&PostParams::default(), &secret("kept")).await.unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let (backup, old) = (elsewhere.path().join("backup"), elsewhere.path().join("old"));
    let saved = bailiwick(&["snapshot", "save", backup.to_str().unwrap(), "--data-dir", data.to_str().unwrap()]);
    for apart in ["encryption.yaml", "pki"] {
        assert!(saved.contains(&format!("not in it: {}", data.join(apart).display())), "{saved}");
    }

    // A directory with nothing of the old one in it, as on another machine.
    server.kill();
    move_directory(&data, &old);
    let restored = bailiwick(&["snapshot", "restore", backup.to_str().unwrap(), "--data-dir", data.to_str().unwrap()]);
    for apart in ["encryption.yaml", "pki"] {
        assert!(restored.contains(&format!("bring along {}", data.join(apart).display())), "{restored}");
    }
    let refused = server.restart().expect_err("the key is missing").to_string();
    let advice = format!("but {} with their keys is not there", data.join("encryption.yaml").display());
    assert!(refused.contains(&advice) && refused.contains("bring encryption.yaml and pki along"), "{refused}");
    assert!(refused.contains("root/core/secrets/default/kept"), "it says what would be lost: {refused}");
    let made: Vec<_> = std::fs::read_dir(&data).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(made, ["store"], "nothing was made in its place");

    std::fs::copy(old.join("encryption.yaml"), data.join("encryption.yaml")).unwrap();
    move_directory(&old.join("pki"), &data.join("pki"));
    server.restart().unwrap();
    let read = secrets.get("kept").await.expect("a client of before is known");
    assert_eq!(read.data.unwrap()["password"].0, NEEDLE.as_bytes());
}

/// Moves a directory, also to another file system.
fn move_directory(from: &Path, to: &Path) {
    assert!(Command::new("mv").arg(from).arg(to).status().unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_of_a_time_before_encryption_is_read_and_encrypted() {
    let directory = tempfile::tempdir().unwrap();
    let plain = directory.path().join("plain.yaml");
    let text = "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n- resources: [secrets]\n  \
                providers: [{identity: {}}]\n";
    std::fs::write(&plain, text).unwrap();
    let mut server = Server::start_with(BINARY, &["--encryption-provider-config", plain.to_str().unwrap()]).unwrap();
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

    // The log still has what was written before. A store made of a backup has only what is there now.
    let (data, backup, fresh) = (server.data_dir(), directory.path().join("backup"), directory.path().join("fresh"));
    server.kill();
    bailiwick(&["snapshot", "save", backup.to_str().unwrap(), "--data-dir", data.to_str().unwrap()]);
    bailiwick(&["snapshot", "restore", backup.to_str().unwrap(), "--data-dir", fresh.to_str().unwrap()]);
    std::fs::remove_dir_all(data.join("store")).unwrap();
    std::fs::rename(fresh.join("store"), data.join("store")).unwrap();
    assert_eq!(exposing(&data), Vec::<PathBuf>::new());
    assert_eq!(exposing(directory.path()), Vec::<PathBuf>::new());
    server.restart().unwrap();
    let secrets: Api<Secret> = Api::namespaced(server.client().await.unwrap(), "default");
    assert_eq!(secrets.get("old").await.unwrap().data.unwrap()["password"].0, NEEDLE.as_bytes());
}

/// Changes one secret again and again until told to stop; what it holds at the end.
async fn keep_writing(secrets: Api<Secret>, name: String, stop: Arc<AtomicBool>) -> u64 {
    let mut written = 0;
    while !stop.load(Ordering::Relaxed) {
        let patch = json!({"stringData": {"count": (written + 1).to_string()}});
        let patched = secrets.patch(&name, &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
        written += 1;
        assert_eq!(patched.data.unwrap()["count"].0, written.to_string().as_bytes());
    }
    written
}

/// Tasks that write to the first secrets.
struct Writers {
    stop: Arc<AtomicBool>,
    tasks: Vec<JoinHandle<u64>>,
}

impl Writers {
    fn start(secrets: &Api<Secret>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let writing = |number: usize| tokio::spawn(keep_writing(secrets.clone(), format!("s{number}"), stop.clone()));
        Self { tasks: (0..4).map(writing).collect(), stop }
    }

    /// What each secret holds at the end.
    async fn finish(self) -> Vec<u64> {
        self.stop.store(true, Ordering::Relaxed);
        let mut counts = Vec::new();
        for task in self.tasks {
            counts.push(task.await.expect("every write succeeded"));
        }
        counts
    }
}

/// Twenty secrets, with what their writers wrote last.
async fn assert_all_there(secrets: &Api<Secret>, counts: &[u64]) {
    for number in 0..20 {
        let data = secrets.get(&format!("s{number}")).await.unwrap().data.unwrap();
        assert_eq!(data["password"].0, NEEDLE.as_bytes());
        if let Some(count) = counts.get(number) {
            assert!(*count == 0 || data["count"].0 == count.to_string().as_bytes(), "s{number} lost a write");
        }
    }
    assert!(counts.iter().sum::<u64>() > 0, "there were writes");
}

#[tokio::test(flavor = "multi_thread")]
async fn our_own_key_is_changed_while_writes_go_on_and_the_old_one_is_not_needed_any_more() {
    let mut server = Server::start(BINARY).unwrap();
    let (data, client) = (server.data_dir(), server.client().await.unwrap());
    let secrets: Api<Secret> = Api::namespaced(client, "default");
    for number in 0..20 {
        secrets.create(&PostParams::default(), &secret(&format!("s{number}"))).await.unwrap();
    }
    let run = async |command: &'static str| {
        let data = data.to_str().unwrap().to_owned();
        let run = move || bailiwick(&["encryption", command, "--data-dir", &data]);
        tokio::task::spawn_blocking(run).await.unwrap().lines().last().unwrap().to_owned()
    };
    let writers = Writers::start(&secrets);
    for _ in 0..2 {
        run("rotate").await;
        let done = run("reencrypt").await;
        assert!(done.ends_with(" 0 failed") && !done.contains(" 0 rewritten"), "{done}");
    }
    let counts = writers.finish().await;

    server.kill();
    let file = data.join("encryption.yaml");
    let keys = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, without_key(&without_key(&keys, "key1"), "key2")).unwrap();
    server.restart().unwrap();
    assert_all_there(&Api::namespaced(server.client().await.unwrap(), "default"), &counts).await;
}

/// The key file without one of its keys, each of which has a line for its name and one for its secret.
fn without_key(text: &str, name: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let at = lines.iter().position(|line| line.trim() == format!("- name: {name}")).expect(name);
    [&lines[..at], &lines[at + 2..]].concat().join("\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_service_seals_the_files_and_its_key_is_changed_while_writes_go_on() {
    let directory = tempfile::tempdir().unwrap();
    let (socket, config) = (directory.path().join("kms.sock"), directory.path().join("encryption.yaml"));
    let plugin = KmsPlugin::start(&socket, "key-1");
    let text = format!(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n- resources: [secrets]\n  \
         providers: [{{kms: {{apiVersion: v2, name: vault, endpoint: 'unix://{}', timeout: 3s}}}}]\n",
        socket.display()
    );
    std::fs::write(&config, text).unwrap();
    let mut server = Server::start_with(BINARY, &["--encryption-provider-config", config.to_str().unwrap()]).unwrap();
    let (data, client) = (server.data_dir(), server.client().await.unwrap());
    let secrets: Api<Secret> = Api::namespaced(client.clone(), "default");
    for number in 0..20 {
        secrets.create(&PostParams::default(), &secret(&format!("s{number}"))).await.unwrap();
    }
    let reencrypt = async || {
        let data = data.to_str().unwrap().to_owned();
        let run = move || bailiwick(&["encryption", "reencrypt", "--data-dir", &data]);
        tokio::task::spawn_blocking(run).await.unwrap().lines().last().unwrap().to_owned()
    };
    let get = async |path: &str| client.request_text(http::Request::get(path).body(Vec::new()).unwrap()).await;
    assert_eq!(get("/readyz/kms-providers").await.unwrap(), "ok");
    assert!(get("/readyz?verbose").await.unwrap().contains("[+]kms-providers ok"));

    let writers = Writers::start(&secrets);
    plugin.set_key("key-2");
    let done = reencrypt().await;
    assert!(done.ends_with(" 0 failed") && !done.contains(" 0 rewritten"), "{done}");
    let counts = writers.finish().await;

    // The old key is no more, and nothing needs it, on a server that knows no seeds yet.
    plugin.change(|behaviour| behaviour.destroyed.push("key-1".to_owned()));
    server.kill();
    assert_eq!(exposing(&data), Vec::<PathBuf>::new());
    server.restart().unwrap();
    let client = server.client().await.unwrap();
    let secrets: Api<Secret> = Api::namespaced(client.clone(), "default");
    assert_all_there(&secrets, &counts).await;

    plugin.change(|behaviour| "the vault is sealed".clone_into(&mut behaviour.healthz));
    reencrypt().await;
    let get = async |path: &str| client.request_text(http::Request::get(path).body(Vec::new()).unwrap()).await;
    for path in ["/readyz/kms-providers", "/livez", "/readyz"] {
        let refused = get(path).await.expect_err(path);
        assert!(matches!(&refused, kube::Error::Api(status) if status.code == 500), "{path}: {refused:?}");
    }
    assert!(server.log().contains("got unexpected healthz status: the vault is sealed"), "{}", server.log());
    assert_eq!(
        secrets.get("s1").await.unwrap().data.unwrap()["password"].0,
        NEEDLE.as_bytes(),
        "what is known is read"
    );
}
