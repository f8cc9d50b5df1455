//! The embedded engine passes the contract every engine passes.

use bailiwick_store::contract::Fixture;
use bailiwick_store::embedded::{EmbeddedStore, Options};

async fn fixture() -> Fixture {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = EmbeddedStore::open(dir.path(), Options::default()).expect("an empty store opens");
    Fixture::new(store, dir)
}

bailiwick_store::contract_suite!(fixture);
