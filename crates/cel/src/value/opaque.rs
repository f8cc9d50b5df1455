//! Values of types that libraries bring: quantities, URLs, addresses, authorizers.

use std::any::Any;
use std::fmt::Debug;

use crate::types::Type;

/// A value whose inside only its library knows.
pub trait Opaque: Any + Debug + Send + Sync {
    /// The name `type(x)` shows, as declared in the library.
    fn type_name(&self) -> &str;

    /// The type itself.
    fn cel_type(&self) -> Type;

    /// `==` with another opaque value; values of another type are never equal.
    fn equals(&self, other: &dyn Opaque) -> bool;

    /// What `size` means to cost accounting, if the type has a size.
    fn size(&self) -> Option<u64> {
        None
    }
}
