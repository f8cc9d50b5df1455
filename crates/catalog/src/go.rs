//! What Go's standard library does and users of opm see: JSON with sorted keys, typed decoding with its messages,
//! quoting. Catalog texts are compared and digested byte for byte, so these are behaviour.

mod json;
mod shape;
mod table;

pub use bailiwick_schema::decode::go_quote as quote;
pub use json::{Dialect, append_json, append_string, append_text, compact_json, pretty_json, printed_float, to_json};
pub use shape::{Field, Omit, Shape, Struct, append_typed, check, check_strict, scalars_to_texts};
pub use table::columns;
