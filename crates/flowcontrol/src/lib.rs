//! API priority and fairness: which request may run now, which waits, which is turned away.
//!
//! [`FlowControl`] is fed FlowSchemas and PriorityLevelConfigurations and asked for a [`Seat`] per request. Matching
//! ([`matching`]), fair queuing ([`queue_set`]) and the division of seats among levels ([`allocation`]) are synchronous
//! functions of their input and the time they are told. Knows nothing of HTTP or the store.

pub mod allocation;
mod configuration;
mod demand;
mod dump;
mod flow_control;
mod histogram;
mod level;
pub mod matching;
mod metrics;
mod plain;
pub mod queue_set;
mod retry_after;
mod seat;
mod shuffle;
pub mod spec;

pub use dump::Dump;
pub use flow_control::{Classified, FlowControl, Outcome, REBALANCE_PERIOD, Refused};
pub use plain::{PlainLimits, RequestKind};
pub use seat::{Seat, StreamingSeat, Turn};
