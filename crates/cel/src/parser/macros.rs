//! Which macros an environment knows.

use std::ops::BitOr;

/// A set of macros.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Macros(u8);

impl Macros {
    pub const NONE: Self = Self(0);
    /// `has`, `all`, `exists`, `exists_one`, `map`, `filter`
    pub const STANDARD: Self = Self(1);
    /// `optMap`, `optFlatMap`
    pub const OPTIONAL: Self = Self(1 << 1);
    /// `all`, `exists`, `existsOne`, `transformList`, `transformMap`, `transformMapEntry` with two variables
    pub const TWO_VARIABLES: Self = Self(1 << 2);
    /// `cel.bind`
    pub const BINDINGS: Self = Self(1 << 3);
    /// `sortBy`
    pub const SORT_BY: Self = Self(1 << 4);
    /// `cel.block`, `cel.index`, `cel.iterVar`, `cel.accuVar`: for conformance tests
    pub const BLOCK: Self = Self(1 << 5);
    /// `math.greatest`, `math.least`
    pub const MATH: Self = Self(1 << 6);

    /// Whether all of these are in the set.
    pub fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl BitOr for Macros {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}
