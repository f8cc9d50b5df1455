//! Where events go: the contract between the auditor and its sinks.

use crate::batch::Batch;

/// Whether the answer to a request waits for its events, from the least to the most strict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mode {
    /// Events are collected and written behind the back of the request.
    Batch,
    /// The request waits until the sink has its event; a sink that fails does not stop it.
    Blocking,
    /// As blocking, and a request whose arrival cannot be recorded is refused.
    BlockingStrict,
}

/// Why a sink did not take events.
#[derive(Debug, thiserror::Error)]
pub enum SinkError {
    #[error("{0}")]
    Io(#[from] std::io::Error),
    #[error("{0}")]
    Webhook(#[from] bailiwick_webhook::Error),
    #[error("the buffer is full: {0} events are lost")]
    Full(usize),
}

/// Something that takes events, in order. Called on the auditor's own thread, which may block.
///
/// A sink that returns `Ok` has the events: written to a file, sent, or kept where they will be sent from.
pub trait AuditSink: Send + 'static {
    /// What errors and metrics call it.
    fn name(&self) -> &'static str;

    fn accept(&mut self, events: &Batch) -> Result<(), SinkError>;

    /// Nothing more will come: finish what is under way.
    fn close(&mut self) {}
}
