//! Sockets, TLS and response bodies: everything between the wire and the request pipeline.

mod body;
mod connection;
mod corked;
mod followed;
mod lanes;
mod listener;
mod streams;

pub use body::{BrokenBody, ResponseBody};
pub(crate) use followed::FollowedBody;
pub use lanes::Length;
pub use listener::{Limits, Listener, Running};
