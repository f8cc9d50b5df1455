//! Strategic merge patch: merging guided by what the native types say about their lists.

mod lists;
mod maps;
mod schema;
#[cfg(test)]
mod tests;

use bailiwick_schema::types::Type;
use serde_json::Value;

use crate::error::PatchError;
use crate::go_format::json_type;
use schema::Place;

/// Merges `patch` into `original`, an object of type `ty`. Takes both because both are consumed by the merge.
pub fn strategic_merge_patch(original: Value, patch: Value, ty: &'static Type) -> Result<Value, PatchError> {
    let Value::Object(patch) = patch else {
        return Err(PatchError::BadRequest(format!(
            "json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
            json_type(&patch)
        )));
    };
    let original = match original {
        Value::Object(fields) => fields,
        _ => serde_json::Map::new(),
    };
    maps::merge(original, patch, Place::Struct(ty)).map(Value::Object)
}
