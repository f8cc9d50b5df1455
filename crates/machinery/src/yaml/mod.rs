//! YAML bodies, read and written as Kubernetes does: YAML 1.1 scalars, JSON objects.
//!
//! [`decode`] reads the first document of a stream and resolves scalars as the reference's library does (`yes` is true,
//! `017` is fifteen, dates are strings). Aliases cannot blow a small body up, nesting is limited, duplicate keys are
//! reported. [`encode`] writes block style with naturally sorted keys.

mod decode;
mod encode;
mod natural;
mod scalar;
#[cfg(test)]
mod tests;

pub use decode::{Decoded, YamlError, decode};
pub use encode::{encode, encode_to};
