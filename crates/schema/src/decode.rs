//! Typed JSON decoding the Go way: bytes in, the object as upstream would print it back out.
//!
//! One pass over the bytes checks the syntax, drops and reports unknown and duplicate fields, converts every value to
//! its field's type (times, quantities, base64, numbers) and fills in what Go prints for zero values. Error texts are
//! those of `sigs.k8s.io/json`, because clients see them.

mod base64_go;
mod interpret;
mod quote;
mod scalar;
mod scanner;
#[cfg(test)]
mod tests;
mod typed;

use serde_json::Value;

use crate::types::{FieldType, Type};

pub(crate) use base64_go::encode as encode_base64;
pub use interpret::{TypeMeta, interpret};
pub use quote::go_quote;
pub(crate) use scalar::go_number;
pub use scanner::{MAX_DEPTH, MAX_OBJECTS, SyntaxError, check_syntax, fields_of, fields_written};
pub use typed::zero;
pub(crate) use typed::{fill_zeros, map_zero};

/// A decoded object and what strict field validation would say about its source.
#[derive(Clone, Debug, PartialEq)]
pub struct Decoded {
    pub value: Value,
    /// `unknown field "spec.foo"`, `duplicate field "metadata.name"`, in the order found, each once.
    pub strict: Vec<String>,
}

/// Why bytes are not an object of the type; the text is upstream's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// Not JSON at all.
    #[error(transparent)]
    Syntax(#[from] SyntaxError),
    /// JSON, but a value does not fit its field.
    #[error("{0}")]
    Mismatch(String),
}

/// Decodes JSON as an object of a native type.
pub fn decode(ty: &'static Type, data: &[u8]) -> Result<Decoded, DecodeError> {
    typed::decode(FieldType::Struct(ty), data)
}

/// Decodes JSON without a type, as custom resources are: everything is kept, duplicate fields are reported.
pub fn decode_untyped(data: &[u8]) -> Result<Decoded, DecodeError> {
    typed::decode(FieldType::Any, data)
}

/// Brings a JSON value, from a patch or from YAML, into the form [`decode`] gives.
pub fn decode_value(ty: &'static Type, value: &Value) -> Result<Decoded, DecodeError> {
    // Going through bytes keeps one implementation of the rules; writing a value out is cheap beside the rest.
    let bytes = serde_json::to_vec(value).map_err(|e| DecodeError::Mismatch(e.to_string()))?;
    decode(ty, &bytes)
}

/// The bytes of a base64 text that decoding has accepted.
pub(crate) fn decode_base64(text: &str) -> Option<Vec<u8>> {
    base64_go::decode(text.as_bytes()).ok()
}
