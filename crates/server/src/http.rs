//! Sockets, TLS and response bodies: everything between the wire and the request pipeline.

mod body;
mod listener;

pub use body::ResponseBody;
pub use listener::{Limits, Listener, Running};
