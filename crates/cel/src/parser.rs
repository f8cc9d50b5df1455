//! From text to a syntax tree, by recursive descent. Errors are worded and placed as cel-go's generated parser words
//! and places them: a single wrong token is skipped or supplied where that makes sense, after other errors reading
//! goes on at the next token that can follow.

mod expand;
mod extensions;
mod grammar;
mod lexer;
mod literal;
mod macros;
mod recovery;

use crate::ast::{Ast, Expr, ExprId, ExprKind};
use crate::source::{Issues, Lines, Location};
use crate::value::Value;

pub use macros::Macros;

use lexer::{Kinds, Token};

/// Nesting of expressions, and of operators and selections in one: cel-go's limit.
const MAX_RECURSION_DEPTH: u32 = 250;
/// Length of an expression: cel-go's limit.
const MAX_CODE_POINTS: usize = 100_000;
/// Attempts to go on after an error: cel-go's limit.
const MAX_RECOVERIES: u32 = 30;

/// What the text may contain.
#[derive(Clone, Copy, Debug, Default)]
pub struct Syntax {
    pub macros: Macros,
    pub optionals: Feature,
    pub escaped_identifiers: Feature,
}

/// Whether a part of the syntax is on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Feature {
    #[default]
    Disabled,
    Enabled,
}

/// Parses a whole expression.
pub fn parse(text: &str, syntax: Syntax) -> Result<Ast, Issues> {
    let chars: Vec<char> = text.chars().collect();
    let mut issues = Issues::new(text);
    if chars.len() > MAX_CODE_POINTS {
        issues.report(
            Location::NONE,
            format!("expression code point size exceeds limit: size: {}, limit {MAX_CODE_POINTS}", chars.len()),
        );
        return Err(issues);
    }
    let (tokens, unrecognized) = lexer::tokenize(&chars);
    let mut parser = Parser {
        lines: Lines::new(&chars),
        chars: &chars,
        tokens,
        at: 0,
        syntax,
        issues,
        offsets: vec![0],
        follow: vec![Kinds::of(&[lexer::Kind::Eof])],
        recovering: false,
        recoveries: 0,
        last_recovery: None,
        depth: 0,
        abandoned: false,
    };
    for place in unrecognized {
        let location = parser.lines.locate(place.start);
        parser.issues.report(location, format!("Syntax error: token recognition error at: '{}'", place.text));
    }
    let root = parser.start();
    if parser.issues.is_empty() { Ok(Ast { root, offsets: parser.offsets }) } else { Err(parser.issues) }
}

/// A subexpression and how deep cel-go would recurse into it.
struct Parsed {
    expr: Expr,
    height: u32,
}

struct Parser<'t> {
    chars: &'t [char],
    lines: Lines,
    tokens: Vec<Token>,
    at: usize,
    syntax: Syntax,
    issues: Issues,
    offsets: Vec<u32>,
    /// What may follow the constructs that are open, innermost last.
    follow: Vec<Kinds>,
    /// Set by an error until a token is accepted; errors meanwhile are consequences.
    recovering: bool,
    recoveries: u32,
    last_recovery: Option<usize>,
    depth: u32,
    /// Set when reading cannot go on at all.
    abandoned: bool,
}

impl Parser<'_> {
    fn new_id(&mut self, offset: u32) -> ExprId {
        self.offsets.push(offset);
        ExprId::try_from(self.offsets.len() - 1).unwrap_or(ExprId::MAX)
    }

    fn offset_of(&self, id: ExprId) -> u32 {
        self.offsets.get(id as usize).copied().unwrap_or(0)
    }

    fn node(&mut self, offset: u32, kind: ExprKind) -> Expr {
        Expr { id: self.new_id(offset), kind }
    }

    fn unspecified(&mut self, offset: u32) -> Parsed {
        Parsed { expr: self.node(offset, ExprKind::Unspecified), height: 0 }
    }

    fn literal(&mut self, offset: u32, value: Value<'static>) -> Parsed {
        Parsed { expr: self.node(offset, ExprKind::Literal(value)), height: 0 }
    }

    /// A message of the tree builder rather than of the grammar.
    fn report(&mut self, offset: u32, message: impl Into<String>) {
        let location = self.lines.locate(offset);
        self.issues.report(location, message);
    }

    fn text(&self, token: Token) -> String {
        self.chars.get(token.start as usize..token.end as usize).unwrap_or_default().iter().collect()
    }
}
