//! The operators of the language on values.

mod arithmetic;
mod comparison;
mod equality;
mod text;

pub use arithmetic::{add, divide, modulo, multiply, negate, subtract};
pub use comparison::{Relation, compare};
pub use equality::{contains, equals};
pub use text::{format_double, to_text};
