//! A key service: within the test, and in a process of its own.

use std::process::{Child, Command, Stdio};

use bailiwick_store::{Expect, Op, Store};
use bailiwick_testkit::KmsPlugin;

use crate::{embedded, encrypted};

const KEY: &str = "root/core/secrets/ns/a";

fn put(value: &str) -> Op {
    Op::Put { key: KEY.into(), value: value.to_owned().into(), expect: Expect::Any, ttl: None }
}

fn provider(socket: &std::path::Path) -> String {
    format!("{{kms: {{apiVersion: v2, name: plugin, endpoint: 'unix://{}', timeout: 2s}}}}", socket.display())
}

#[tokio::test(flavor = "multi_thread")]
async fn values_are_sealed_with_a_seed_that_the_service_sealed() {
    let directory = tempfile::tempdir().expect("directory");
    let socket = directory.path().join("kms.sock");
    let plugin = KmsPlugin::start(&socket, "key-1");
    let inner = embedded(&directory.path().join("store"));
    {
        let store = encrypted(inner.clone(), &provider(&socket)).await;
        for number in 0..20 {
            store.txn(vec![put(&format!("value {number}"))]).await.expect("written");
        }
        let (_, stored) = inner.get(KEY.as_bytes()).await.expect("read");
        let stored = stored.expect("is there").value;
        assert!(stored.starts_with(b"k8s:enc:kms:v2:plugin:") && !stored.windows(8).any(|bytes| bytes == b"value 19"));
        assert_eq!(plugin.0.lock().expect("unpoisoned").calls, 1, "one call for all values");
    }
    // A server that starts anew asks the service to open the seed.
    let store = encrypted(inner, &provider(&socket)).await;
    let (_, entry) = store.get(KEY.as_bytes()).await.expect("read");
    assert_eq!(entry.expect("is there").value, "value 19");
    assert_eq!(plugin.0.lock().expect("unpoisoned").calls, 3, "a new seed, and the old one opened");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_key_of_the_service_makes_old_values_stale() {
    let directory = tempfile::tempdir().expect("directory");
    let socket = directory.path().join("kms.sock");
    let plugin = KmsPlugin::start(&socket, "key-1");
    let inner = embedded(&directory.path().join("store"));
    let first = encrypted(inner.clone(), &provider(&socket)).await;
    first.txn(vec![put("value")]).await.expect("written");
    assert_eq!(first.reencrypt().await.expect("done").rewritten, 0);
    plugin.set_key("key-2");
    // Whoever rewrites asks for the key anew, and does not wait for the next look at the service.
    first.ask_key_services().await;
    assert_eq!(first.reencrypt().await.expect("done").rewritten, 1);
    plugin.set_key("key-3");
    let store = encrypted(inner, &provider(&socket)).await;
    assert_eq!(store.reencrypt().await.expect("done").rewritten, 1);
    assert_eq!(store.reencrypt().await.expect("done").rewritten, 0);
    let (_, entry) = store.get(KEY.as_bytes()).await.expect("read");
    assert_eq!(entry.expect("is there").value, "value");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_service_nothing_is_written_and_the_health_check_says_why() {
    let directory = tempfile::tempdir().expect("directory");
    let store = encrypted(embedded(&directory.path().join("store")), &provider(&directory.path().join("none"))).await;
    let refusal = store.txn(vec![put("hunter2")]).await.expect_err("refused").to_string();
    assert!(refusal.contains("unable to transform key") && !refusal.contains("hunter2"), "{refusal}");
    let health = store.health().await.expect_err("unhealthy");
    assert!(health.starts_with("kms-provider-0: failed to perform status section of the healthz check"), "{health}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unhealthy_service_is_reported() {
    let directory = tempfile::tempdir().expect("directory");
    let socket = directory.path().join("kms.sock");
    let plugin = KmsPlugin::start(&socket, "key-1");
    plugin.0.lock().expect("unpoisoned").healthz = "the vault is sealed".to_owned();
    let store = encrypted(embedded(&directory.path().join("store")), &provider(&socket)).await;
    let health = store.health().await.expect_err("unhealthy");
    assert_eq!(
        health,
        "kms-provider-0: kmsv2 Provider plugin is not healthy, error: got unexpected healthz status: the vault is sealed"
    );
}

/// Where the plugin's process is told to listen.
const SOCKET: &str = "KMS_TEST_PLUGIN_SOCKET";

/// Not a test: what the process started by the test below runs.
#[tokio::test(flavor = "multi_thread")]
async fn plugin_process() {
    let Ok(socket) = std::env::var(SOCKET) else { return };
    let _plugin = KmsPlugin::start(std::path::Path::new(&socket), "key-1");
    std::future::pending::<()>().await;
}

struct Process(Child);

impl Process {
    async fn start(socket: &std::path::Path) -> Self {
        let child = Command::new(std::env::current_exe().expect("a path"))
            .args(["--exact", "kms::plugin_process"])
            .env(SOCKET, socket)
            .stdout(Stdio::null())
            .spawn()
            .expect("started");
        while tokio::net::UnixStream::connect(socket).await.is_err() {
            tokio::task::yield_now().await;
        }
        Self(child)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_process_may_die_and_come_back() {
    let directory = tempfile::tempdir().expect("directory");
    let socket = directory.path().join("kms.sock");
    let inner = embedded(&directory.path().join("store"));
    let process = Process::start(&socket).await;
    let store = encrypted(inner.clone(), &provider(&socket)).await;
    store.txn(vec![put("first")]).await.expect("written");
    drop(process);
    // The seed is at hand: reads and writes go on without the service.
    store.txn(vec![put("second")]).await.expect("written");
    let (_, entry) = store.get(KEY.as_bytes()).await.expect("read");
    assert_eq!(entry.expect("is there").value, "second");
    // A server without the seed needs it, and gets it once it is back.
    let fresh = encrypted(inner.clone(), &provider(&socket)).await;
    assert!(fresh.get(KEY.as_bytes()).await.is_err());
    let _process = Process::start(&socket).await;
    let fresh = encrypted(inner, &provider(&socket)).await;
    let (_, entry) = fresh.get(KEY.as_bytes()).await.expect("read");
    assert_eq!(entry.expect("is there").value, "second");
}
