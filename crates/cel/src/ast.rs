//! The syntax tree. Every node has a number, by which its place in the text and later its type are found.

use crate::value::Value;

/// A node's number; numbers are dense from 1.
pub type ExprId = u32;

/// An expression.
#[derive(Clone, Debug)]
pub struct Expr {
    pub id: ExprId,
    pub kind: ExprKind,
}

/// What an expression is.
#[derive(Clone, Debug)]
pub enum ExprKind {
    /// Stands where an error was reported.
    Unspecified,
    Literal(Value<'static>),
    Ident(Box<str>),
    Select {
        operand: Box<Expr>,
        field: Box<str>,
        /// From `has()`.
        test_only: bool,
    },
    Call(Box<Call>),
    List {
        elements: Vec<Expr>,
        /// Positions of elements marked with `?`, ascending.
        optionals: Vec<u32>,
    },
    Map(Vec<MapEntry>),
    Struct {
        name: Box<str>,
        fields: Vec<StructField>,
    },
    Comprehension(Box<Comprehension>),
}

/// A call of a function or an operator.
#[derive(Clone, Debug)]
pub struct Call {
    pub function: Box<str>,
    pub target: Option<Expr>,
    pub args: Vec<Expr>,
}

/// An entry of a map literal.
#[derive(Clone, Debug)]
pub struct MapEntry {
    pub id: ExprId,
    pub key: Expr,
    pub value: Expr,
    pub optional: bool,
}

/// A field of an object literal.
#[derive(Clone, Debug)]
pub struct StructField {
    pub id: ExprId,
    pub name: Box<str>,
    pub value: Expr,
    pub optional: bool,
}

/// The loop all macros over collections expand to.
#[derive(Clone, Debug)]
pub struct Comprehension {
    pub iter_var: Box<str>,
    pub iter_var2: Option<Box<str>>,
    pub iter_range: Expr,
    pub accu_var: Box<str>,
    pub accu_init: Expr,
    pub loop_condition: Expr,
    pub loop_step: Expr,
    pub result: Expr,
}

/// The accumulator of macros; not an identifier anybody can write.
pub const ACCUMULATOR: &str = "@result";
/// The accumulator's former name, which stays forbidden as a variable.
pub const FORMER_ACCUMULATOR: &str = "__result__";

/// Names of operators as functions.
pub mod operators {
    pub const CONDITIONAL: &str = "_?_:_";
    pub const LOGICAL_AND: &str = "_&&_";
    pub const LOGICAL_OR: &str = "_||_";
    pub const LOGICAL_NOT: &str = "!_";
    pub const EQUALS: &str = "_==_";
    pub const NOT_EQUALS: &str = "_!=_";
    pub const LESS: &str = "_<_";
    pub const LESS_EQUALS: &str = "_<=_";
    pub const GREATER: &str = "_>_";
    pub const GREATER_EQUALS: &str = "_>=_";
    pub const ADD: &str = "_+_";
    pub const SUBTRACT: &str = "_-_";
    pub const MULTIPLY: &str = "_*_";
    pub const DIVIDE: &str = "_/_";
    pub const MODULO: &str = "_%_";
    pub const NEGATE: &str = "-_";
    pub const INDEX: &str = "_[_]";
    pub const OPT_INDEX: &str = "_[?_]";
    pub const OPT_SELECT: &str = "_?._";
    pub const IN: &str = "@in";
    pub const NOT_STRICTLY_FALSE: &str = "@not_strictly_false";
}

/// A parsed expression.
#[derive(Clone, Debug)]
pub struct Ast {
    pub root: Expr,
    /// Offsets in code points by node number.
    pub offsets: Vec<u32>,
}

/// The dotted name an expression spells, if it is nothing but names and dots.
pub fn qualified_name(expr: &Expr) -> Option<String> {
    match &expr.kind {
        ExprKind::Ident(name) => Some(name.to_string()),
        ExprKind::Select { operand, field, test_only: false } => Some(format!("{}.{field}", qualified_name(operand)?)),
        _ => None,
    }
}
