//! Sockets, TLS and response bodies: everything between the wire and the request pipeline.

mod body;
mod connection;
mod corked;
mod listener;
mod streams;

pub use body::{BrokenBody, ResponseBody};
pub use listener::{Limits, Listener, Running};
