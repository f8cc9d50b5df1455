//! From text to a syntax tree.

mod macros;

pub use macros::Macros;
