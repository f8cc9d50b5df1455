//! Streamed lists with objects in them that cannot be read.

use std::task::Waker;

use bailiwick_machinery::media::MediaType;
use serde_json::Value;

use super::*;
use crate::encode::tests::{encoder, stored};
use crate::encode::{Layout, Shape};

/// The whole answer.
fn sent(mut body: ListBody) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        match body.poll_chunk(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Some(chunk)) => bytes.extend_from_slice(&chunk),
            Poll::Ready(None) => return bytes,
            // It lets others have their turn.
            Poll::Pending => {}
        }
    }
}

#[test]
fn an_unreadable_object_is_left_out_and_the_list_is_still_json() {
    for names in [
        &["damaged", "a", "b"] as &[&str],
        &["a", "damaged", "b"],
        &["a", "b", "damaged"],
        &["damaged", "damaged"],
        &["damaged"],
    ] {
        let encoder = encoder("configmaps", MediaType::Json, Shape::Table, Layout::Compact);
        let object = |name: &&str| {
            let data = if *name == "damaged" { r#"{"x":1e999}"# } else { "{}" };
            stored(encoder.served(), name, format!(r#"{{"metadata":{{"name":"{name}","uid":"u"}},"data":{data}}}"#))
        };
        let objects = names.iter().map(object).collect();
        let found = Found { meta: ListMeta::default(), source: Source::Page(objects) };
        let bytes = sent(ListBody::new(encoder.clone(), found));
        let list: Value = serde_json::from_slice(&bytes).unwrap_or_else(|error| panic!("{names:?}: {error}"));
        let rows = list["rows"].as_array().into_iter().flatten();
        let listed: Vec<&str> = rows.filter_map(|row| row["cells"][0].as_str()).collect();
        let readable: Vec<&str> = names.iter().copied().filter(|name| *name != "damaged").collect();
        assert_eq!(listed, readable);
    }
}
