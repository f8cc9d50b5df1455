//! Bookmarks keep their place behind the events.

use std::task::Waker;

use bailiwick_machinery::media::MediaType;
use bailiwick_store::embedded::{EmbeddedStore, Options};
use serde_json::Value;
use tokio::sync::oneshot;

use super::*;
use crate::encode::tests::{encoder, stored};
use crate::encode::{Layout, Shape};

/// A watch whose bookmark is due, and whose events wait until they are sent through the channel.
async fn converting(directory: &std::path::Path) -> (WatchBody, oneshot::Sender<Events>, crate::cache::Feed) {
    let encoder = encoder("configmaps", MediaType::Json, Shape::Whole, Layout::Compact);
    let store = EmbeddedStore::open(directory, Options::default()).unwrap();
    let (caches, feed) = Caches::start(store).await.unwrap();
    let cache = caches.resource(encoder.served().cache.as_ref().unwrap()).await.unwrap();
    let limits = QueueLimits { len_max: 10, bytes_max: 1000 };
    let (_, watcher) = cache.watch(Filter::default(), caches.applied(), None, limits);
    let far = Instant::now() + TIMEOUT_MIN;
    let mut timer = Box::pin(tokio::time::sleep_until(Instant::now()));
    timer.as_mut().await;
    let (converted, waiting) = oneshot::channel();
    let body = WatchBody {
        encoder,
        caches,
        registration: Some(Registration { cache, watcher }),
        initial: None,
        ends_initial: false,
        replay: VecDeque::new(),
        first_sent: false,
        bookmarks: Some(Bookmarks { timer, deadline: far, last_sent: false }),
        deadline: Box::pin(tokio::time::sleep_until(far)),
        converting: Some(Box::pin(async { Ok(waiting.await.unwrap()) })),
        error: None,
        finished: false,
        events_sent: 0,
        seat: None,
    };
    (body, converted, feed)
}

fn next_type(body: &mut WatchBody) -> Poll<String> {
    let chunk = body.poll_chunk(&mut Context::from_waker(Waker::noop()));
    chunk.map(|chunk| {
        let event: Value = serde_json::from_slice(&chunk.expect("the watch goes on")).unwrap();
        event["type"].as_str().unwrap().to_owned()
    })
}

#[tokio::test]
async fn a_bookmark_does_not_overtake_events_that_wait_for_a_conversion() {
    let directory = tempfile::tempdir().unwrap();
    let (mut body, converted, _feed) = converting(directory.path()).await;
    let object = stored(body.encoder.served(), "a", r#"{"metadata":{"name":"a","uid":"u"}}"#);
    let later = Arc::new(Event::new(object.clone(), None, false));
    body.replay.push_back((EventType::Modified, later));
    assert_eq!(next_type(&mut body), Poll::Pending, "the bookmark is due, but events are owed");

    converted.send(vec![(EventType::Added, Arc::new(Event::new(object, None, false)))]).unwrap();
    assert_eq!(next_type(&mut body), Poll::Ready("ADDED".to_owned()));
    assert_eq!(next_type(&mut body), Poll::Ready("MODIFIED".to_owned()));
    assert_eq!(next_type(&mut body), Poll::Ready("BOOKMARK".to_owned()));
    assert_eq!(next_type(&mut body), Poll::Pending);
}
