//! What a watcher that does not read may keep, and which keys a filter can match at all.

use std::sync::Weak;

use super::*;
use crate::encode::tests::stored;
use crate::registry::{Registry, TenantId};

fn served(plural: &str) -> Arc<Served> {
    let registry = Registry::new(&TenantId::root(), bailiwick_api::native_resources());
    registry.get("", "v1", plural).unwrap().clone()
}

/// A change at a revision of an object of about so many bytes.
fn event(served: &Served, revision: u64, filler: usize) -> Arc<Event> {
    let json = format!(r#"{{"metadata":{{"name":"a","uid":"u"}},"data":{{"f":"{}"}}}}"#, "x".repeat(filler));
    let object = stored(served, "a", json).at_revision(Revision(revision));
    Arc::new(Event::new(Arc::new(object), None, false))
}

fn watcher(len_max: usize, bytes_max: usize) -> Watcher {
    Watcher::new(Filter::default(), Revision(0), QueueLimits { len_max, bytes_max })
}

fn poll(watcher: &Watcher, len_max: usize, bytes_max: usize) -> Poll<Next> {
    watcher.poll_next(&mut Context::from_waker(Waker::noop()), QueueLimits { len_max, bytes_max })
}

#[test]
fn a_watcher_is_cut_off_by_bytes_and_keeps_nothing() {
    let served = served("configmaps");
    let watcher = watcher(1000, 25_000);
    let mut kept: Vec<Weak<Event>> = Vec::new();
    let mut offer = |revision: u64| {
        let event = event(&served, revision, 10_000);
        kept.push(Arc::downgrade(&event));
        watcher.offer(&event, &mut Vec::new())
    };
    assert!(offer(1) && offer(2));
    let Poll::Ready(Next::Events(taken)) = poll(&watcher, 1, 1) else { panic!("it has events") };
    assert_eq!(taken.len(), 1, "an event larger than what may be taken is taken alone");
    assert!(offer(3), "what was taken does not count any more");
    assert!(!watcher.is_drained());
    assert!(!offer(4), "this is one too many");
    drop(taken);
    assert!(kept.iter().all(|event| event.upgrade().is_none()), "nobody may ever come for the rest");
    assert!(!watcher.is_drained(), "events were lost, so no bookmark may go out");
    assert!(matches!(poll(&watcher, 10, 1000), Poll::Ready(Next::Closed)));
    assert!(!watcher.offer(&event(&served, 5, 1), &mut Vec::new()));
}

#[test]
fn whoever_has_part_of_a_transaction_gets_the_rest_before_it_is_cut_off() {
    let served = served("configmaps");
    let watcher = watcher(2, 1 << 20);
    let offer = |revision: u64| watcher.offer(&event(&served, revision, 1), &mut Vec::new());
    let revisions = || match poll(&watcher, 1, 1) {
        Poll::Ready(Next::Events(events)) => events.iter().map(|(_, event)| event.revision().0).collect(),
        _ => Vec::new(),
    };
    assert!(offer(1) && offer(1));
    assert_eq!(revisions(), [1, 1], "what happened at once is taken at once");
    assert!(offer(1) && offer(2), "the first transaction was not complete");
    assert!(!offer(3));
    assert_eq!(revisions(), [1]);
    assert!(matches!(poll(&watcher, 1, 1), Poll::Ready(Next::Closed)));
}

#[test]
fn a_single_event_is_never_too_large() {
    let served = served("configmaps");
    let watcher = watcher(10, 100);
    assert!(watcher.offer(&event(&served, 1, 10_000), &mut Vec::new()));
    assert!(matches!(poll(&watcher, 10, 100), Poll::Ready(Next::Events(events)) if events.len() == 1));
    assert!(watcher.is_drained());
}

#[test]
fn small_events_are_taken_together_and_large_ones_apart() {
    let served = served("configmaps");
    let watcher = watcher(100, 1 << 20);
    for (filler, revision) in [1, 1, 50_000, 50_000, 1].into_iter().zip(1..) {
        assert!(watcher.offer(&event(&served, revision, filler), &mut Vec::new()));
    }
    let taken = || match poll(&watcher, 100, 64 * 1024) {
        Poll::Ready(Next::Events(events)) => events.len(),
        _ => 0,
    };
    assert_eq!([taken(), taken(), taken()], [3, 2, 0]);
}

#[test]
fn a_closed_watcher_still_delivers_what_it_has() {
    let served = served("configmaps");
    let watcher = watcher(10, 1 << 20);
    assert!(watcher.offer(&event(&served, 1, 1), &mut Vec::new()));
    watcher.close();
    assert!(matches!(poll(&watcher, 10, 1 << 20), Poll::Ready(Next::Events(_))));
    assert!(matches!(poll(&watcher, 10, 1 << 20), Poll::Ready(Next::Closed)));
}

#[test]
fn a_name_narrows_the_keys_to_one() {
    let range = |plural: &str, namespace: &str, fields: &[(FieldTarget, &str, bool)]| {
        let fields = fields.iter().map(|(target, value, equal)| FieldRequirement {
            target: *target,
            value: (*value).to_owned(),
            equal: *equal,
        });
        let filter = Filter { namespace: namespace.to_owned(), fields: fields.collect(), ..Filter::default() };
        filter.range(&served(plural))
    };
    let name = (FieldTarget::Name, "a", true);
    let in_default = (FieldTarget::Namespace, "default", true);
    let maps = "root/core/configmaps/";
    assert_eq!(range("configmaps", "default", &[name]), KeyRange::single("root/core/configmaps/default/a"));
    assert_eq!(range("configmaps", "", &[name, in_default]), KeyRange::single("root/core/configmaps/default/a"));
    assert_eq!(range("namespaces", "", &[name]), KeyRange::single("root/core/namespaces/a"));
    assert_eq!(range("configmaps", "", &[in_default]), KeyRange::prefix("root/core/configmaps/default/"));
    assert_eq!(range("configmaps", "", &[name]), KeyRange::prefix(maps), "it may be in any namespace");
    assert_eq!(range("configmaps", "", &[(FieldTarget::Name, "a", false)]), KeyRange::prefix(maps));
    assert_eq!(range("configmaps", "", &[]), KeyRange::prefix(maps));
}
