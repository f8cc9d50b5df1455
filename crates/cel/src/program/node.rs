//! The planned form of an expression: names are slots, constants are values, macros are loops.

use std::sync::Arc;

use crate::library::Overload;
use crate::operations::Relation;
use crate::value::Value;

/// One step.
#[derive(Debug)]
pub(super) enum Node {
    Const(Value<'static>),
    Attribute(Box<Attribute>),
    Conditional(Box<Conditional>),
    And(Box<[Node]>),
    Or(Box<[Node]>),
    Not(Box<Node>),
    NotStrictlyFalse(Box<Node>),
    Equal(Box<[Node; 2]>),
    NotEqual(Box<[Node; 2]>),
    Relate(Box<Relate>),
    /// `x in [constants]`
    OneOf(Box<(Node, Box<[Value<'static>]>)>),
    /// `a.or(b)` of optionals
    OptionalOr(Box<[Node; 2]>),
    /// `a.orValue(b)`
    OptionalOrValue(Box<[Node; 2]>),
    /// `text.matches('constant')`
    Matches(Box<Matches>),
    Call(Box<Call>),
    List(Box<List>),
    Map(Box<Map>),
    Struct(Box<Struct>),
    Bind(Box<Bind>),
    Fold(Box<Fold>),
}

/// A value and a way into it: `self.spec.items[0]`.
#[derive(Debug)]
pub(super) struct Attribute {
    pub(super) base: Base,
    pub(super) qualifiers: Vec<Qualifier>,
    /// From `has()`: the last step is only looked for.
    pub(super) presence: bool,
}

#[derive(Debug)]
pub(super) enum Base {
    Variable(Box<str>),
    Local(u32),
    Operand(Node),
}

/// One step into a value.
#[derive(Debug)]
pub(super) struct Qualifier {
    pub(super) key: QualifierKey,
    /// From `?.` or `[?…]`.
    pub(super) optional: bool,
}

#[derive(Debug)]
pub(super) enum QualifierKey {
    /// A field as it is written, and its name in JSON with its position where the declared type is known.
    Field {
        name: Box<str>,
        declared: Option<DeclaredField>,
    },
    Const(Value<'static>),
    Computed(Node),
}

#[derive(Debug)]
pub(super) struct DeclaredField {
    /// The name in JSON, if the written one is an escape of it.
    pub(super) json_name: Option<Box<str>>,
    pub(super) position: u32,
}

/// `condition ? truthy : falsy`, and steps into the result.
#[derive(Debug)]
pub(super) struct Conditional {
    pub(super) condition: Node,
    pub(super) truthy: Node,
    pub(super) falsy: Node,
    pub(super) qualifiers: Vec<Qualifier>,
    pub(super) presence: bool,
}

#[derive(Debug)]
pub(super) struct Relate {
    pub(super) relation: Relation,
    pub(super) operands: [Node; 2],
    /// Whether the operands are known to be strings or bytes, whose lengths cost.
    pub(super) sized: bool,
}

#[derive(Debug)]
pub(super) struct Matches {
    pub(super) text: Node,
    pub(super) regex: Arc<regex::bytes::Regex>,
    /// Of the pattern.
    pub(super) pattern_cost: u64,
    /// As a member function its cost depends on the text; as a global one it is 1.
    pub(super) costed: bool,
}

#[derive(Debug)]
pub(super) struct Call {
    pub(super) function: Box<str>,
    pub(super) overloads: Box<[Arc<Overload>]>,
    pub(super) args: Box<[Node]>,
    /// Whether the overload's cost function applies; standard functions cost 1 where the overload was not certain.
    pub(super) costed: bool,
}

#[derive(Debug)]
pub(super) struct List {
    pub(super) elements: Box<[Node]>,
    /// Positions of optional elements.
    pub(super) optionals: Box<[u32]>,
}

#[derive(Debug)]
pub(super) struct Map {
    pub(super) entries: Box<[(Node, Node, bool)]>,
}

/// `Name{field: value, ?other: optional}`
#[derive(Debug)]
pub(super) struct Struct {
    pub(super) name: Arc<str>,
    pub(super) fields: Box<[(Box<str>, Node, bool)]>,
}

/// A local name for a value that is computed when it is first needed.
#[derive(Debug)]
pub(super) struct Bind {
    pub(super) slot: u32,
    pub(super) init: Node,
    pub(super) result: Node,
}

/// A loop over a list or a map.
#[derive(Debug)]
pub(super) struct Fold {
    pub(super) range: Node,
    pub(super) var: u32,
    /// With two variables, the slot of the second.
    pub(super) var2: Option<u32>,
    pub(super) kind: FoldKind,
}

/// What a loop does with the elements. The usual shapes run without an accumulator that is a value.
#[derive(Debug)]
pub(super) enum FoldKind {
    All(Node),
    Exists(Node),
    ExistsOne(Node),
    /// Appends an element, if the filter holds. A constant element costs nothing to put into a list.
    Append {
        filter: Option<Node>,
        element: Node,
    },
    /// Adds an entry, if the filter holds.
    Insert {
        filter: Option<Node>,
        key: Node,
        value: Node,
    },
    /// Adds the entries of a map, if the filter holds.
    InsertAll {
        filter: Option<Node>,
        entries: Node,
    },
    General {
        accu: u32,
        init: Node,
        condition: Node,
        step: Node,
        result: Node,
    },
}
