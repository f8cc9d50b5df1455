//! What only the etcd engine promises: prefixes, failover between endpoints, TLS, quotas, shared leases, automatic compaction.

mod etcd_server;

use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use bailiwick_store::contract::steps::*;
use bailiwick_store::etcd::{Compaction, EtcdStore, Options, Tls};
use bailiwick_store::{Error, Op, Revision};
use bytes::Bytes;
use etcd_server::{Certificates, Cluster};

async fn connect(options: Options) -> AnyStore {
    Arc::new(EtcdStore::connect(options).await.expect("connect"))
}

/// An address where nobody listens.
fn dead_endpoint() -> String {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    format!("http://{}", listener.local_addr().expect("address"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn prefixes_keep_stores_on_one_cluster_apart() {
    let cluster = Cluster::single().await;
    let with_prefix = |prefix: &str| Options { prefix: prefix.into(), ..cluster.options() };
    let red = connect(with_prefix("/red/")).await;
    let blue = connect(with_prefix("/red0/")).await;
    let start = revision(&red).await;
    let mut red_changes = watch(&red, everything(), start).await;
    put(&blue, "a", "blue").await;
    put(&red, "a", "red").await;
    let last = delete(&blue, "a").await;
    assert_eq!(texts(&list(&red, everything(), None, None).await.entries), [("a".to_owned(), "red".to_owned())]);
    assert_eq!(list(&blue, everything(), None, None).await.count, 0);
    red.request_progress().await.expect("progress");
    assert_eq!(events_until_progress(&mut red_changes, last).await.len(), 1);
}

#[tokio::test]
async fn unusable_options_are_refused() {
    let unusable = [
        Options::new::<String>([]),
        Options { prefix: String::new(), ..Options::new(["http://127.0.0.1:1"]) },
        Options { prefix: "compact".into(), ..Options::new(["http://127.0.0.1:1"]) },
        Options::new(["http://not a url"]),
    ];
    for options in unusable {
        let described = format!("{options:?}");
        let result = EtcdStore::connect(options).await.map(|_| ());
        assert!(matches!(result, Err(Error::InvalidRequest(_))), "{described}: {result:?}");
    }
}

#[tokio::test]
async fn connecting_to_nobody_is_unavailable() {
    let mut options = Options::new([dead_endpoint()]);
    options.connect_timeout = Duration::from_millis(300);
    let result = EtcdStore::connect(options).await.map(|_| ());
    assert!(matches!(result, Err(Error::Unavailable(_))), "{result:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dead_endpoints_are_passed_over() {
    let cluster = Cluster::single().await;
    let mut options = cluster.options();
    options.endpoints.insert(0, dead_endpoint());
    options.endpoints.push(dead_endpoint());
    // Each store starts at an endpoint of its own choice.
    for i in 0..10 {
        let store = connect(options.clone()).await;
        let mut changes = watch(&store, everything(), revision(&store).await).await;
        let written = put(&store, "a", i.to_string()).await;
        assert_eq!(events_through(&mut changes, written).await.len(), 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn store_and_watches_survive_a_restart_of_the_only_member() {
    let mut cluster = Cluster::single().await;
    let store = connect(cluster.options()).await;
    let start = revision(&store).await;
    let mut changes = watch(&store, everything(), start).await;
    put(&store, "a", "1").await;
    assert_eq!(next_batch(&mut changes).await.len(), 1);
    cluster.members[0].kill();
    cluster.members[0].restart();
    let last = within("a write", async {
        loop {
            match store.txn(vec![put_op("a", "2")]).await {
                Ok(_) => break revision(&store).await,
                Err(Error::Unavailable(_)) => {}
                Err(other) => panic!("unexpected {other:?}"),
            }
        }
    })
    .await;
    let events = events_through(&mut changes, last).await;
    assert!(events.iter().all(|event| event.revision() > start.next()), "nothing comes twice");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_beyond_etcds_limits_are_invalid() {
    let cluster = Cluster::single().await;
    let store = connect(cluster.options()).await;
    let start = revision(&store).await;
    for size in [1600 << 10, 8 << 20] {
        let result = store.txn(vec![put_op("big", vec![0; size])]).await;
        assert!(matches!(result, Err(Error::InvalidRequest(_))), "{size} bytes: {result:?}");
    }
    let result = store.txn((0..200).map(|i| put_op(format!("k/{i}"), "x")).collect()).await;
    assert!(matches!(result, Err(Error::InvalidRequest(_))), "{result:?}");
    assert_eq!(revision(&store).await, start);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn full_quota_is_no_space_for_writes_only() {
    let cluster = Cluster::single_with(&["--quota-backend-bytes=16777216"]).await;
    let store = connect(cluster.options()).await;
    put(&store, "a", "1").await;
    let value = Bytes::from(vec![b'x'; 1 << 20]);
    let error = loop {
        match store.txn(vec![put_op("big", value.clone())]).await {
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    assert!(matches!(error, Error::NoSpace(_)), "{error:?}");
    assert_eq!(get(&store, "a").await.map(|kv| kv.value), Some("1".into()));
    delete(&store, "a").await;
    assert_eq!(get(&store, "a").await, None, "deleting is how space comes back");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_with_the_same_ttl_share_a_lease() {
    let cluster = Cluster::single().await;
    let store = connect(cluster.options()).await;
    let hour = Duration::from_secs(3600);
    let writes = (0..20).map(|i| {
        let store = store.clone();
        tokio::spawn(async move {
            let ops: Vec<Op> = (0..10).map(|j| put_ttl(format!("k/{i}/{j}"), "x", hour)).collect();
            commit(&store, ops).await
        })
    });
    for write in writes.collect::<Vec<_>>() {
        write.await.expect("write");
    }
    let leases = cluster.members[0].ask("/v3/lease/leases");
    assert_eq!(leases["leases"].as_array().map(Vec::len), Some(1), "{leases}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn history_is_compacted_automatically() {
    let cluster = Cluster::single().await;
    let options = Options { compaction: Compaction::Every(Duration::from_millis(100)), ..cluster.options() };
    let servers = [connect(options.clone()).await, connect(options.clone()).await, connect(options).await];
    let start = put(&servers[0], "a", "0").await;
    within("compaction", async {
        while servers[0].compacted().await.expect("compacted") <= start {
            put(&servers[0], "a", "x").await;
        }
    })
    .await;
    assert_eq!(get(&servers[1], "a").await.map(|kv| kv.create_revision), Some(start));
    assert!(servers[2].compacted().await.expect("compacted") < revision(&servers[2]).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mutual_tls_is_spoken_and_required() {
    let directory = tempfile::tempdir().expect("temporary directory");
    let files = certificates(directory.path());
    let cluster = Cluster::single_tls(&files).await;

    let tls = Tls::read(Some(&files.ca), Some(&files.certificate), Some(&files.key)).expect("PEM files");
    let store = connect(Options { tls: Some(tls.clone()), ..cluster.options() }).await;
    let mut changes = watch(&store, everything(), Revision(1)).await;
    let written = put(&store, "a", "1").await;
    assert_eq!(events_through(&mut changes, written).await.len(), 1);

    let without_scheme = cluster.members[0].client_url.trim_start_matches("https://").to_owned();
    connect(Options { tls: Some(tls.clone()), endpoints: vec![without_scheme], ..cluster.options() }).await;

    let strangers = [
        ("no client certificate", Tls { identity: None, ..tls.clone() }),
        ("no reason to trust the server", Tls { ca: None, ..tls }),
    ];
    for (who, tls) in strangers {
        let mut options = Options { tls: Some(tls), ..cluster.options() };
        options.connect_timeout = Duration::from_secs(1);
        let result = EtcdStore::connect(options).await.map(|_| ());
        assert!(matches!(result, Err(Error::Unavailable(_))), "{who}: {result:?}");
    }
    assert!(Tls::read(None, Some(&files.certificate), None).is_err(), "a certificate is no use without its key");
}

/// A CA and one certificate from it that both sides use.
fn certificates(directory: &std::path::Path) -> Certificates {
    use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
    let mut ca = CertificateParams::new(Vec::new()).expect("parameters");
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca_key = KeyPair::generate().expect("key");
    let ca_certificate = ca.self_signed(&ca_key).expect("CA");
    let issuer = Issuer::new(ca, ca_key);
    let mut leaf = CertificateParams::new(vec!["127.0.0.1".to_owned(), "localhost".to_owned()]).expect("parameters");
    leaf.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    let key = KeyPair::generate().expect("key");
    let certificate = leaf.signed_by(&key, &issuer).expect("certificate");
    let write = |name: &str, text: String| {
        let path = directory.join(name);
        std::fs::write(&path, text).expect("write PEM");
        path
    };
    Certificates {
        ca: write("ca.pem", ca_certificate.pem()),
        certificate: write("cert.pem", certificate.pem()),
        key: write("key.pem", key.serialize_pem()),
    }
}
