//! The plain limits that hold when priority and fairness is off: so many reads and so many writes at once, and no queue.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Whether a request changes something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestKind {
    ReadOnly,
    Mutating,
}

/// How many requests of each kind may run at once; 0 is no limit.
#[derive(Debug)]
pub struct PlainLimits {
    read_only: Arc<Counted>,
    mutating: Arc<Counted>,
}

#[derive(Debug)]
struct Counted {
    limit: u32,
    running: AtomicU32,
}

/// A running request's place.
#[derive(Debug)]
pub struct PlainSeat(Arc<Counted>);

impl PlainLimits {
    pub fn new(read_only: u32, mutating: u32) -> Self {
        let counted = |limit| Arc::new(Counted { limit, running: AtomicU32::new(0) });
        Self { read_only: counted(read_only), mutating: counted(mutating) }
    }

    /// A place for one more, if there is one.
    pub fn admit(&self, kind: RequestKind) -> Option<PlainSeat> {
        let counted = match kind {
            RequestKind::ReadOnly => &self.read_only,
            RequestKind::Mutating => &self.mutating,
        };
        let seat = |running: u32| (counted.limit == 0 || running < counted.limit).then_some(running + 1);
        counted.running.fetch_update(Ordering::AcqRel, Ordering::Acquire, seat).ok()?;
        Some(PlainSeat(counted.clone()))
    }
}

impl Drop for PlainSeat {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_its_own_limit_and_zero_is_none() {
        let limits = PlainLimits::new(1, 0);
        let reading = limits.admit(RequestKind::ReadOnly);
        assert!(reading.is_some());
        assert!(limits.admit(RequestKind::ReadOnly).is_none());
        assert!((0..1000).all(|_| limits.admit(RequestKind::Mutating).is_some()));
        drop(reading);
        assert!(limits.admit(RequestKind::ReadOnly).is_some());
    }
}
