//! The store's one-way switch from working to refusing: poisoned by a failed write, or closed.
//!
//! After a failed write or sync nobody knows what the disk holds, and trying again may report a success that is none.
//! So the first such error stays, every later call gets it, and the owner is told so that the process can end.

use std::sync::OnceLock;

use tokio::sync::Notify;

use crate::{Error, Result};

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Fault {
    error: OnceLock<Error>,
    notify: Notify,
}

impl Fault {
    pub fn check(&self) -> Result<()> {
        self.error.get().map_or(Ok(()), |error| Err(error.clone()))
    }

    /// The first error stays.
    pub fn set(&self, error: Error) {
        let _ = self.error.set(error);
        self.notify.notify_waiters();
    }

    /// Returns once the store refuses, with the reason.
    pub async fn wait(&self) -> Error {
        loop {
            let notified = self.notify.notified();
            if let Some(error) = self.error.get() {
                return error.clone();
            }
            notified.await;
        }
    }
}
