//! The store contract on the embedded engine, each case in a directory of its own.

use bailiwick_store::contract::Fixture;
use bailiwick_store::embedded::{EmbeddedStore, Options};

async fn embedded() -> Fixture {
    let directory = tempfile::tempdir().expect("temporary directory");
    let store = EmbeddedStore::open(directory.path(), Options::default()).expect("open");
    Fixture::new(store, directory)
}

bailiwick_store::contract_suite!(embedded);
