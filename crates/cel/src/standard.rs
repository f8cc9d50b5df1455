//! The functions every environment has, with the identifiers and costs of cel-go's standard library.

mod conversions;
mod declarations;
mod optionals;
mod times;

pub(crate) use declarations::{insert_new, library, owned};
pub(crate) use optionals::optional_library;
