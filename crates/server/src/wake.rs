//! Waking many at once. Whoever wakes a thousand watchers wakes the twenty tasks that run them with the first one of each,
//! and they would begin while most of their watchers still sleep. Within [`together`] such tasks are only noted, once each,
//! and woken when all is said.

use std::cell::RefCell;
use std::task::Waker;

thread_local! {
    /// The tasks to wake at the end, while [`together`] runs on this thread.
    static NOTED: RefCell<Option<Vec<Waker>>> = const { RefCell::new(None) };
}

/// Runs `wake_all`, then wakes the tasks that it noted by [`note`].
pub(crate) fn together(wake_all: impl FnOnce()) {
    let before = NOTED.replace(Some(Vec::new()));
    wake_all();
    NOTED.replace(before).into_iter().flatten().for_each(Waker::wake);
}

/// Wakes a task that runs many streams: at the end of [`together`] if that is under way here, now otherwise.
pub(crate) fn note(task: Waker) {
    let now = NOTED.with_borrow_mut(|noted| match noted {
        Some(noted) => {
            noted.push(task);
            None
        }
        None => Some(task),
    });
    if let Some(task) = now {
        task.wake();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn tasks_are_woken_when_all_is_said() {
        let woken = Arc::new(Woken::default());
        let times = || woken.0.load(Ordering::Relaxed);
        together(|| {
            note(woken.clone().into());
            assert_eq!(times(), 0);
        });
        assert_eq!(times(), 1);
        note(woken.clone().into());
        assert_eq!(times(), 2, "at once when nobody wakes many");
    }
}
