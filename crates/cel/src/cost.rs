//! Arithmetic of cost estimates, and what a library's estimate functions are given. An estimate is a range that the
//! real cost of a run falls into; all arithmetic saturates.

use crate::types::Type;
use crate::value::Value;

pub const SELECT_AND_IDENT_COST: u64 = 1;
pub const LIST_CREATE_BASE_COST: u64 = 10;
pub const MAP_CREATE_BASE_COST: u64 = 30;
pub const STRUCT_CREATE_BASE_COST: u64 = 40;
/// Cost of walking along a string, per code point.
pub const STRING_TRAVERSAL_COST_FACTOR: f64 = 0.1;
/// Cost of a regular expression, per code point of its source.
pub const REGEX_STRING_LENGTH_COST_FACTOR: f64 = 0.25;

/// How large a value may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizeEstimate {
    pub min: u64,
    pub max: u64,
}

/// What an operation may cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CostEstimate {
    pub min: u64,
    pub max: u64,
}

/// What a call may cost, without its arguments, and how large its result may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallEstimate {
    pub cost: CostEstimate,
    pub result_size: Option<SizeEstimate>,
}

impl SizeEstimate {
    /// Any size at all.
    pub const UNKNOWN: Self = Self { min: 0, max: u64::MAX };

    /// Exactly this size.
    pub const fn fixed(size: u64) -> Self {
        Self { min: size, max: size }
    }

    /// The size of two values together.
    #[must_use]
    #[expect(clippy::should_implement_trait, reason = "it saturates, unlike what `+` would suggest")]
    pub fn add(self, other: Self) -> Self {
        Self { min: self.min.saturating_add(other.min), max: self.max.saturating_add(other.max) }
    }

    /// The size of so many values of the other size.
    #[must_use]
    pub fn multiply(self, other: Self) -> Self {
        Self { min: self.min.saturating_mul(other.min), max: self.max.saturating_mul(other.max) }
    }

    /// The cost of an operation per unit of size, rounded up.
    pub fn multiply_by_cost_factor(self, per_unit: f64) -> CostEstimate {
        CostEstimate { min: scale(self.min, per_unit), max: scale(self.max, per_unit) }
    }

    /// The cost of doing something once per unit.
    pub fn multiply_by_cost(self, cost: CostEstimate) -> CostEstimate {
        CostEstimate { min: self.min.saturating_mul(cost.min), max: self.max.saturating_mul(cost.max) }
    }

    /// The range that covers both.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self { min: self.min.min(other.min), max: self.max.max(other.max) }
    }
}

impl CostEstimate {
    /// Exactly this cost.
    pub const fn fixed(cost: u64) -> Self {
        Self { min: cost, max: cost }
    }

    /// One after the other.
    #[must_use]
    #[expect(clippy::should_implement_trait, reason = "it saturates, unlike what `+` would suggest")]
    pub fn add(self, other: Self) -> Self {
        Self { min: self.min.saturating_add(other.min), max: self.max.saturating_add(other.max) }
    }

    /// The product of two costs.
    #[must_use]
    pub fn multiply(self, other: Self) -> Self {
        Self { min: self.min.saturating_mul(other.min), max: self.max.saturating_mul(other.max) }
    }

    /// A multiple, rounded up.
    #[must_use]
    pub fn multiply_by_cost_factor(self, factor: f64) -> Self {
        Self { min: scale(self.min, factor), max: scale(self.max, factor) }
    }

    /// The range that covers both.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self { min: self.min.min(other.min), max: self.max.max(other.max) }
    }
}

impl CallEstimate {
    /// A call whose result has no size worth knowing.
    pub const fn cost(cost: CostEstimate) -> Self {
        Self { cost, result_size: None }
    }

    /// A call with a result of this size.
    pub const fn sized(cost: CostEstimate, result_size: SizeEstimate) -> Self {
        Self { cost, result_size: Some(result_size) }
    }
}

/// `ceil(size * factor)`, at most `u64::MAX`. This is also how run-time costs are rounded.
pub fn scale(size: u64, factor: f64) -> u64 {
    // The cast saturates, which is what an overflow must give.
    (size as f64 * factor).ceil() as u64
}

/// An argument of a call whose cost is estimated.
#[derive(Clone, Debug)]
pub struct Node<'n> {
    /// The way from a variable through declared types to this node; empty if it is not reached like that. The first
    /// step is the variable, all others are field names, `@items`, `@values`, `@keys` or `@indices`.
    pub path: Vec<std::sync::Arc<str>>,
    pub ty: &'n Type,
    /// What the expression itself tells about the size.
    pub computed_size: Option<SizeEstimate>,
    /// The value, where the argument is a literal.
    pub literal: Option<&'n Value<'static>>,
}

/// Tells sizes of data that expressions only refer to.
pub trait SizeEstimator {
    /// The size of the node, or `None` when nothing is known.
    fn estimate_size(&self, node: &Node<'_>) -> Option<SizeEstimate>;
}

/// What an estimate function may ask.
pub struct EstimateContext<'e> {
    pub(crate) sizes: &'e dyn SizeEstimator,
}

impl EstimateContext<'_> {
    /// The size of an argument: computed, else estimated, else unknown.
    pub fn size_of(&self, node: &Node<'_>) -> SizeEstimate {
        node.computed_size.or_else(|| self.sizes.estimate_size(node)).unwrap_or(SizeEstimate::UNKNOWN)
    }

    /// The node of a list's elements (of a map's keys), or `None` for what has no elements.
    pub fn element<'n>(&self, list: &Node<'n>) -> Option<Node<'n>> {
        let ty = list.ty.first_parameter()?;
        let mut path = list.path.clone();
        if !path.is_empty() {
            path.push(std::sync::Arc::from("@items"));
        }
        Some(Node { path, ty, computed_size: None, literal: None })
    }
}
