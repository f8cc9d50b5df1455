//! How functions get into the language: libraries declare them, an environment holds libraries.
//!
//! To add a function, make a [`Library`] in a file of its own under `library/`, with one [`Overload`] per signature:
//!
//! ```
//! use bailiwick_cel::library::{Library, Overload};
//! use bailiwick_cel::{CallContext, EvalError, Type, Value};
//! use bailiwick_cel::cost::{self, CallEstimate};
//!
//! pub fn shouting() -> Library {
//!     Library::new("shouting").overload(
//!         "shout",                                             // the name expressions use; dots are allowed
//!         Overload::member("string_shout", [Type::String], Type::String, shout)
//!             .with_cost(|args, _result| {
//!                 let [text, ..] = args else { return None };
//!                 Some(cost::scale(text.cost_size(), cost::STRING_TRAVERSAL_COST_FACTOR))
//!             })
//!             .with_estimate(|ctx, target, _args| {
//!                 let size = ctx.size_of(target?);
//!                 Some(CallEstimate::sized(size.multiply_by_cost_factor(cost::STRING_TRAVERSAL_COST_FACTOR), size))
//!             }),
//!     )
//! }
//!
//! fn shout<'a>(args: &[Value<'a>], _ctx: &mut CallContext<'_>) -> Result<Value<'a>, EvalError> {
//!     let [Value::String(text)] = args else { return Err(EvalError::no_such_overload()) };
//!     Ok(Value::string(text.to_uppercase()))
//! }
//! ```
//!
//! Rules:
//! - For members the receiver is the first parameter and the first argument; estimate functions get it as `target`.
//! - Implementations are strict: they never see an error as an argument. They are called only when each argument
//!   has the declared run-time type ([`Type::Dyn`] and type parameters take any), so a dynamic argument of a wrong
//!   type gives "no such overload" without their help.
//! - Without a cost function a call costs 1 and is estimated as 1.
//! - Types of a library are [`Type::opaque`] (`net.IP`) or [`Type::structure`] (`kubernetes.URL`); their values
//!   implement [`crate::Opaque`]. Declare the name with [`Library::declare_type`] so that `type(x) == net.IP` checks, and
//!   the estimate of `==` and `!=` with [`Library::equality_estimate`]. At run time `==` of opaque values costs 1.
//! - The files under `library/` are modules of this one: add `pub mod <name>;` below, in alphabetical order.
//! - Macros are built into the parser; a library switches one on with [`Library::with_macros`]. `sortBy` expands to
//!   a call of `@sortByAssociatedKeys` on the list with the list of keys, as in cel-go's `ext.Lists`.

// Modules of libraries go here.

mod address;
mod authorizer;
mod charges;
mod encoders;
pub(crate) mod format_call;
mod formats;
mod go_text;
mod go_url;
mod jsonpatch;
mod list_extension;
mod lists;
mod math;
mod named_format;
mod network;
mod quantities;
mod regexes;
mod semver;
mod semvers;
mod sets;
mod string_format;
mod strings;
#[cfg(test)]
mod tests;
mod two_variables;
mod urls;

use std::borrow::Cow;
use std::sync::Arc;

use crate::cost::{CallEstimate, EstimateContext, Node};
use crate::error::EvalError;
use crate::parser::Macros;
use crate::types::Type;
use crate::value::Value;

pub use authorizer::{
    AccessDecision, AccessRequest, AccessTarget, Authorizer, ResourceTarget, Subject, authorizer, authorizer_type,
    authorizer_value, resource_check_type, resource_check_value,
};
pub use encoders::encoders;
pub use formats::format;
pub use jsonpatch::json_patch;
pub use list_extension::list_extension;
pub use lists::lists;
pub use math::math;
pub use network::{cidr, ip};
pub use quantities::quantity;
pub use regexes::regex;
pub use semvers::semver;
pub use sets::sets;
pub use strings::{strings, strings_newest};
pub use two_variables::two_variables;
pub use urls::urls;

/// The libraries that Kubernetes 1.36 puts into every environment, `authorizer` included: without a variable of its type
/// it cannot be reached.
pub fn kubernetes() -> Vec<Library> {
    vec![
        urls(),
        regex(),
        lists(),
        authorizer(),
        quantity(),
        strings(),
        sets(),
        ip(),
        cidr(),
        format(),
        two_variables(),
        semver(),
        list_extension(),
    ]
}

/// What implements a function.
pub type Implementation = for<'a> fn(&[Value<'a>], &mut CallContext<'_>) -> Result<Value<'a>, EvalError>;

/// The cost of a call that has been made, from its arguments and its result; `None` for the default.
pub type RuntimeCost = for<'a> fn(&[Value<'a>], &Value<'a>) -> Option<u64>;

/// The estimated cost of a call, without that of its arguments; `None` for the default.
pub type Estimate = fn(&EstimateContext<'_>, Option<&Node<'_>>, &[Node<'_>]) -> Option<CallEstimate>;

/// How a function is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// `f(x)`
    Global,
    /// `x.f()`
    Member,
}

/// One signature of a function.
#[derive(Clone, Debug)]
pub struct Overload {
    pub id: Cow<'static, str>,
    pub style: Style,
    /// The receiver comes first.
    pub params: Box<[Type]>,
    pub result: Type,
    pub implementation: Implementation,
    pub cost: Option<RuntimeCost>,
    pub estimate: Option<Estimate>,
}

impl Overload {
    /// A signature called as `f(…)`.
    pub fn global(
        id: &'static str,
        params: impl IntoIterator<Item = Type>,
        result: Type,
        implementation: Implementation,
    ) -> Self {
        Self {
            id: Cow::Borrowed(id),
            style: Style::Global,
            params: params.into_iter().collect(),
            result,
            implementation,
            cost: None,
            estimate: None,
        }
    }

    /// A signature called as `receiver.f(…)`.
    pub fn member(
        id: &'static str,
        params: impl IntoIterator<Item = Type>,
        result: Type,
        implementation: Implementation,
    ) -> Self {
        Self { style: Style::Member, ..Self::global(id, params, result, implementation) }
    }

    /// The same with a run-time cost.
    #[must_use]
    pub fn with_cost(mut self, cost: RuntimeCost) -> Self {
        self.cost = Some(cost);
        self
    }

    /// The same with a static estimate.
    #[must_use]
    pub fn with_estimate(mut self, estimate: Estimate) -> Self {
        self.estimate = Some(estimate);
        self
    }
}

/// Functions, types and macros that belong together.
#[derive(Clone, Debug, Default)]
pub struct Library {
    pub(crate) name: &'static str,
    pub(crate) overloads: Vec<(Cow<'static, str>, Arc<Overload>)>,
    pub(crate) types: Vec<(Cow<'static, str>, Type)>,
    pub(crate) equality: Vec<(Cow<'static, str>, Estimate)>,
    pub(crate) constants: Vec<(Cow<'static, str>, Type, Value<'static>)>,
    pub(crate) macros: Macros,
}

impl Library {
    /// The name it was given.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// An empty library; the name is for people.
    pub fn new(name: &'static str) -> Self {
        Self { name, ..Self::default() }
    }

    /// Adds a signature to the function `name`. Signatures are tried in the order they were added.
    #[must_use]
    pub fn overload(mut self, name: &'static str, overload: Overload) -> Self {
        self.overloads.push((Cow::Borrowed(name), Arc::new(overload)));
        self
    }

    /// Makes a type's name usable in expressions.
    #[must_use]
    pub fn declare_type(mut self, name: &'static str, ty: Type) -> Self {
        self.types.push((Cow::Borrowed(name), ty));
        self
    }

    /// Declares a named constant, `optional.none` without call or an enum value.
    #[must_use]
    pub fn constant(mut self, name: &'static str, ty: Type, value: Value<'static>) -> Self {
        self.constants.push((Cow::Borrowed(name), ty, value));
        self
    }

    /// What `==` of two values of the type named so is estimated to cost. It gets both sides as arguments.
    #[must_use]
    pub fn equality_estimate(mut self, type_name: &'static str, estimate: Estimate) -> Self {
        self.equality.push((Cow::Borrowed(type_name), estimate));
        self
    }

    /// Switches macros on.
    #[must_use]
    pub fn with_macros(mut self, macros: Macros) -> Self {
        self.macros = self.macros | macros;
        self
    }
}

/// What an implementation may use besides its arguments.
pub struct CallContext<'c> {
    pub(crate) regexes: &'c mut crate::regexes::RegexCache,
}

impl CallContext<'_> {
    /// The compiled form of an RE2 pattern, from a cache that lives as long as the evaluation.
    pub fn regex(&mut self, pattern: &str) -> Result<Arc<regex::bytes::Regex>, EvalError> {
        self.regexes.get(pattern)
    }
}
