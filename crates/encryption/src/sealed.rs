//! Whether a store holds encrypted values, as whoever is about to make its first key must know: what is sealed already was sealed
//! with another, and a fresh one would only hide that it is missing.

use bailiwick_store::{KeyRange, RangeRequest, Result, Store, key_after};
use bytes::Bytes;

use crate::keyring::ENCRYPTED;
use crate::reencrypt::PAGE_LEN;

/// The key of the first encrypted value in a store, which is looked at as it is, without any keyring.
pub async fn first_sealed(store: &dyn Store) -> Result<Option<Bytes>> {
    let mut range = KeyRange::prefix(Bytes::new());
    loop {
        let page = store.range(RangeRequest { range: range.clone(), at: None, limit: Some(PAGE_LEN) }).await?;
        if let Some(sealed) = page.entries.iter().find(|entry| entry.value.starts_with(ENCRYPTED)) {
            return Ok(Some(sealed.key.clone()));
        }
        let last = page.entries.last().map(|entry| entry.key.clone());
        match last.filter(|_| page.more()) {
            Some(last) => range.start = key_after(&last),
            None => return Ok(None),
        }
    }
}
