//! The store contract on the etcd engine, each case on a real etcd of its own.

mod etcd_server;

use std::sync::Arc;

use bailiwick_store::contract::Fixture;
use bailiwick_store::etcd::EtcdStore;
use etcd_server::Cluster;

async fn etcd() -> Fixture {
    let cluster = Cluster::single().await;
    let store = EtcdStore::connect(cluster.options()).await.expect("connect");
    Fixture::new(Arc::new(store), cluster)
}

bailiwick_store::contract_suite!(etcd);
