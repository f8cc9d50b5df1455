//! Memory is the read path: every object of a resource in use, kept current from the store's one ordered log.
//!
//! [`Caches`] follows the store with a single watch and hands each change to the [`ResourceCache`] it belongs to, which
//! is loaded when first asked for. A cache answers reads from an immutable snapshot and feeds watchers through bounded
//! queues; a watcher never waits for another, and a slow one is cut off.

mod base;
mod event;
mod feed;
mod object;
mod resource;
#[cfg(test)]
mod tests;
mod watcher;

pub use base::BaseObjects;
pub use event::{Event, EventType, FrameKey};
pub use feed::{Caches, Feed};
pub use object::{KeyLayout, Object, UnreadableObject, encode_for_storage};
pub use resource::{CacheSpec, ResourceCache, Snapshot, Subscriber};
pub use watcher::{Filter, Next, QueueLimits, Watcher};
