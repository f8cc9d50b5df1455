use std::sync::Mutex;

use super::*;
use crate::error::Error;

/// Works on `queue` until it has nothing more to do for an hour (of paused time); returns the keys in order.
async fn drain(queue: &WorkQueue<u32>, result: impl Fn(u32, usize) -> Result<Outcome, Error>) -> Vec<u32> {
    let seen = Mutex::new(Vec::new());
    let work = queue.work("test", 4, |key| {
        let mut seen = seen.lock().unwrap();
        seen.push(key);
        let result = result(key, seen.len());
        async move { result }
    });
    tokio::select! {
        () = work => unreachable!("works forever"),
        () = tokio::time::sleep(Duration::from_secs(3600)) => {}
    }
    seen.into_inner().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_key_added_twice_is_worked_on_once() {
    let queue = WorkQueue::new();
    for key in [1, 2, 1] {
        queue.add(key);
    }
    assert_eq!(drain(&queue, |_, _| Ok(Outcome::Done)).await, [1, 2]);
}

#[tokio::test(start_paused = true)]
async fn a_key_added_while_it_is_worked_on_is_worked_on_again() {
    let queue = WorkQueue::new();
    queue.add(1);
    let seen = drain(&queue, |key, count| {
        if count == 1 {
            queue.add(key);
        }
        Ok(Outcome::Done)
    });
    assert_eq!(seen.await, [1, 1]);
}

#[tokio::test(start_paused = true)]
async fn a_failed_key_is_tried_again_until_it_succeeds() {
    let queue = WorkQueue::new();
    queue.add(1);
    let seen =
        drain(&queue, |_, count| if count < 4 { Err(Error::Incomplete("not yet".into())) } else { Ok(Outcome::Done) });
    assert_eq!(seen.await, [1, 1, 1, 1]);
    assert!(queue.lock().failures.is_empty(), "success forgets failures");
}

#[tokio::test(start_paused = true)]
async fn a_delayed_key_comes_after_its_delay() {
    let queue = WorkQueue::new();
    queue.add_after(1, Duration::from_secs(10));
    queue.add_after(2, Duration::from_secs(5));
    queue.add(3);
    assert_eq!(drain(&queue, |_, _| Ok(Outcome::Done)).await, [3, 2, 1]);
}

#[tokio::test(start_paused = true)]
async fn retries_slow_down_to_the_longest_delay() {
    let queue = WorkQueue::new();
    queue.add(1);
    let tries = drain(&queue, |_, _| Err(Error::Incomplete("never".into()))).await.len();
    // An hour holds about sixty of the longest delays and a dozen shorter ones before.
    assert!((60..90).contains(&tries), "{tries} tries");
}
