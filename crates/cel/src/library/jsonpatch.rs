//! `jsonpatch.escapeKey`: a key as a segment of a JSON pointer. For mutating policies only.

use super::charges;
use super::{Library, Overload};
use crate::error::EvalError;
use crate::types::Type;
use crate::value::Value;

/// Escaping of JSON pointers, as of Kubernetes 1.32.
pub fn json_patch() -> Library {
    Library::new("kubernetes.jsonpatch").overload(
        "jsonpatch.escapeKey",
        Overload::global("string_jsonpatch_escapeKey_string", [Type::String], Type::String, |args, _| {
            let [Value::String(key)] = args else { return Err(EvalError::no_such_overload()) };
            Ok(Value::string(key.replace('~', "~0").replace('/', "~1")))
        })
        .with_cost(charges::scan)
        .with_estimate(charges::scan_argument_sized),
    )
}
