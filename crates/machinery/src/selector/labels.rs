//! Label selectors: `a=b, c!=d, e in (x,y), f notin (z), g, !h, i>1, j<5`.
//!
//! Parsing keeps upstream's grammar, its leniencies and its error texts. A parsed selector prints canonically, and
//! matching borrows: it asks a closure for label values and allocates nothing.

use std::fmt;

use crate::field::{Error, ErrorList, Path};
use crate::validation::names;

/// How a requirement compares the label with its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operator {
    In,
    NotIn,
    Equals,
    DoubleEquals,
    NotEquals,
    GreaterThan,
    LessThan,
    Exists,
    DoesNotExist,
}

/// One condition on one label.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Requirement {
    key: String,
    operator: Operator,
    values: Vec<String>,
    /// The number of `>` and `<`, parsed once.
    bound: i64,
}

/// All conditions of a selector, ordered by key. Every one must hold; none means everything matches.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct LabelSelector {
    requirements: Vec<Requirement>,
}

/// Why a label selector could not be read, in upstream's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ParseError(String);

impl Requirement {
    /// Checks key, operator and values against each other.
    pub fn new(key: &str, operator: Operator, values: Vec<String>) -> Result<Self, ErrorList> {
        let mut errors = ErrorList::new();
        let values_path = Path::new("values");
        let wrong = names::qualified_name(key);
        if !wrong.is_empty() {
            errors.push(Error::invalid(&Path::new("key"), key, wrong.join("; ")));
        }
        let mut bound = 0;
        let mut complain = |text: &str| errors.push(Error::invalid(&values_path, values.clone(), text));
        match operator {
            Operator::In | Operator::NotIn if values.is_empty() => {
                complain("for 'in', 'notin' operators, values set can't be empty");
            }
            Operator::Equals | Operator::DoubleEquals | Operator::NotEquals if values.len() != 1 => {
                complain("exact-match compatibility requires one single value");
            }
            Operator::Exists | Operator::DoesNotExist if !values.is_empty() => {
                complain("values set must be empty for exists and does not exist");
            }
            Operator::GreaterThan | Operator::LessThan => {
                if values.len() != 1 {
                    complain("for 'Gt', 'Lt' operators, exactly one value is required");
                }
                for (i, value) in values.iter().enumerate() {
                    match value.parse() {
                        Ok(number) => bound = number,
                        Err(_) => errors.push(Error::invalid(
                            &values_path.index(i),
                            value.as_str(),
                            "for 'Gt', 'Lt' operators, the value must be an integer",
                        )),
                    }
                }
            }
            _ => {}
        }
        for (i, value) in values.iter().enumerate() {
            let wrong = names::label_value(value);
            if !wrong.is_empty() {
                errors.push(Error::invalid(&values_path.index(i).key(key), value.as_str(), wrong.join("; ")));
            }
        }
        if errors.is_empty() { Ok(Self { key: key.to_owned(), operator, values, bound }) } else { Err(errors) }
    }

    pub fn key(&self) -> &str {
        &self.key
    }

    pub fn operator(&self) -> Operator {
        self.operator
    }

    pub fn values(&self) -> &[String] {
        &self.values
    }

    /// Whether a label with this value, or absent, satisfies the requirement.
    pub fn matches(&self, value: Option<&str>) -> bool {
        match (self.operator, value) {
            (Operator::In | Operator::Equals | Operator::DoubleEquals, value) => value.is_some_and(|v| self.has(v)),
            (Operator::NotIn | Operator::NotEquals, value) => !value.is_some_and(|v| self.has(v)),
            (Operator::Exists, value) => value.is_some(),
            (Operator::DoesNotExist, value) => value.is_none(),
            (Operator::GreaterThan, value) => value.and_then(|v| v.parse().ok()).is_some_and(|n: i64| n > self.bound),
            (Operator::LessThan, value) => value.and_then(|v| v.parse().ok()).is_some_and(|n: i64| n < self.bound),
        }
    }

    fn has(&self, value: &str) -> bool {
        self.values.iter().any(|v| v == value)
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = &self.key;
        let mut values = self.values.clone();
        values.sort();
        let values = values.join(",");
        match self.operator {
            Operator::In => write!(f, "{key} in ({values})"),
            Operator::NotIn => write!(f, "{key} notin ({values})"),
            Operator::Equals => write!(f, "{key}={values}"),
            Operator::DoubleEquals => write!(f, "{key}=={values}"),
            Operator::NotEquals => write!(f, "{key}!={values}"),
            Operator::GreaterThan => write!(f, "{key}>{values}"),
            Operator::LessThan => write!(f, "{key}<{values}"),
            Operator::Exists => write!(f, "{key}"),
            Operator::DoesNotExist => write!(f, "!{key}"),
        }
    }
}

impl LabelSelector {
    /// The selector that matches every object.
    pub fn everything() -> Self {
        Self::default()
    }

    /// A selector of these requirements.
    pub fn new(mut requirements: Vec<Requirement>) -> Self {
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Self { requirements }
    }

    /// Reads the syntax of the `labelSelector` query parameter.
    pub fn parse(selector: &str) -> Result<Self, ParseError> {
        if selector.is_empty() {
            return Ok(Self::default());
        }
        Parser { tokens: tokenize(selector), position: 0 }.selector().map(Self::new).map_err(ParseError)
    }

    /// Whether everything matches.
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    pub fn requirements(&self) -> &[Requirement] {
        &self.requirements
    }

    /// Whether an object matches, whose labels `get` looks up.
    pub fn matches<'a>(&self, get: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.requirements.iter().all(|r| r.matches(get(&r.key)))
    }
}

impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, requirement) in self.requirements.iter().enumerate() {
            if i > 0 {
                f.write_str(",")?;
            }
            requirement.fmt(f)?;
        }
        Ok(())
    }
}

/// Errors as one text: several in brackets, repeated ones once.
pub(crate) fn aggregate(errors: &ErrorList) -> String {
    let mut texts: Vec<String> = Vec::new();
    for text in errors.iter().map(ToString::to_string) {
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    match texts.as_slice() {
        [one] => one.clone(),
        many => format!("[{}]", many.join(", ")),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TokenKind {
    Error,
    End,
    Close,
    Comma,
    Not,
    DoubleEquals,
    Equals,
    Greater,
    Identifier,
    In,
    Less,
    NotEquals,
    NotIn,
    Open,
}

#[derive(Clone, Debug)]
struct Token {
    kind: TokenKind,
    text: String,
}

fn symbol(text: &str) -> Option<TokenKind> {
    Some(match text {
        ")" => TokenKind::Close,
        "," => TokenKind::Comma,
        "!" => TokenKind::Not,
        "==" => TokenKind::DoubleEquals,
        "=" => TokenKind::Equals,
        ">" => TokenKind::Greater,
        "<" => TokenKind::Less,
        "!=" => TokenKind::NotEquals,
        "(" => TokenKind::Open,
        _ => return None,
    })
}

/// Splits a selector into tokens; the last is always `End`. A NUL ends the text, as it does upstream.
fn tokenize(selector: &str) -> Vec<Token> {
    let is_symbol = |c: char| "=!(),><".contains(c);
    let is_space = |c: char| " \t\r\n".contains(c);
    let mut rest = selector.split('\0').next().unwrap_or_default().trim_start_matches(is_space);
    let mut tokens = Vec::new();
    while let Some(first) = rest.chars().next() {
        let length;
        let kind;
        if is_symbol(first) {
            // Every symbol of one character is a token; a second one may extend it.
            length = match rest.get(..2) {
                Some(two) if symbol(two).is_some() => 2,
                _ => 1,
            };
            kind = rest.get(..length).and_then(symbol).unwrap_or(TokenKind::Error);
        } else {
            length = rest.find(|c| is_symbol(c) || is_space(c)).unwrap_or(rest.len());
            kind = match rest.get(..length) {
                Some("in") => TokenKind::In,
                Some("notin") => TokenKind::NotIn,
                _ => TokenKind::Identifier,
            };
        }
        let (text, tail) = rest.split_at(length);
        tokens.push(Token { kind, text: text.to_owned() });
        rest = tail.trim_start_matches(is_space);
    }
    tokens.push(Token { kind: TokenKind::End, text: String::new() });
    tokens
}

/// Recursive descent over the tokens. `in` and `notin` are ordinary identifiers wherever no operator is expected.
struct Parser {
    tokens: Vec<Token>,
    position: usize,
}

impl Parser {
    fn selector(&mut self) -> Result<Vec<Requirement>, String> {
        let mut requirements = Vec::new();
        loop {
            match self.peek() {
                (TokenKind::Identifier | TokenKind::Not, _) => {
                    let requirement =
                        self.requirement().map_err(|text| format!("unable to parse requirement: {text}"))?;
                    requirements.push(requirement);
                    match self.next() {
                        (TokenKind::End, _) => return Ok(requirements),
                        (TokenKind::Comma, _) => match self.peek() {
                            (TokenKind::Identifier | TokenKind::Not, _) => {}
                            (_, found) => return Err(format!("found '{found}', expected: identifier after ','")),
                        },
                        (_, found) => return Err(format!("found '{found}', expected: ',' or 'end of string'")),
                    }
                }
                (TokenKind::End, _) => return Ok(requirements),
                (_, found) => return Err(format!("found '{found}', expected: !, identifier, or 'end of string'")),
            }
        }
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        let (mut kind, mut text) = self.next();
        let negated = kind == TokenKind::Not;
        if negated {
            (kind, text) = self.next();
        }
        if kind != TokenKind::Identifier {
            return Err(format!("found '{text}', expected: identifier"));
        }
        let wrong = names::qualified_name(&text);
        if !wrong.is_empty() {
            return Err(Error::invalid(&Path::root(), text, wrong.join("; ")).to_string());
        }
        let (operator, values) = if negated {
            (Operator::DoesNotExist, Vec::new())
        } else if matches!(self.peek().0, TokenKind::End | TokenKind::Comma) {
            (Operator::Exists, Vec::new())
        } else {
            match self.operator()? {
                set @ (Operator::In | Operator::NotIn) => (set, self.value_set()?),
                exact => (exact, vec![self.exact_value()?]),
            }
        };
        Requirement::new(&text, operator, values).map_err(|errors| aggregate(&errors))
    }

    fn operator(&mut self) -> Result<Operator, String> {
        let token = self.tokens.get(self.position).cloned();
        self.position += 1;
        let found = token.as_ref().map_or("", |t| t.text.as_str());
        Ok(match token.as_ref().map(|t| t.kind) {
            Some(TokenKind::In) => Operator::In,
            Some(TokenKind::NotIn) => Operator::NotIn,
            Some(TokenKind::Equals) => Operator::Equals,
            Some(TokenKind::DoubleEquals) => Operator::DoubleEquals,
            Some(TokenKind::NotEquals) => Operator::NotEquals,
            Some(TokenKind::Greater) => Operator::GreaterThan,
            Some(TokenKind::Less) => Operator::LessThan,
            _ => return Err(format!("found '{found}', expected: in, notin, =, ==, !=, gt, lt")),
        })
    }

    /// `(x,y)`, where values may be empty: `()` and `(,)` hold the empty string.
    fn value_set(&mut self) -> Result<Vec<String>, String> {
        match self.next() {
            (TokenKind::Open, _) => {}
            (_, found) => return Err(format!("found '{found}' expected: '('")),
        }
        let mut values = match self.peek() {
            (TokenKind::Identifier | TokenKind::Comma, _) => self.values()?,
            (TokenKind::Close, _) => vec![String::new()],
            (_, found) => return Err(format!("found '{found}', expected: ',', ')' or identifier")),
        };
        self.position += 1;
        values.sort();
        values.dedup();
        Ok(values)
    }

    /// Up to but without the closing parenthesis.
    fn values(&mut self) -> Result<Vec<String>, String> {
        let mut values = Vec::new();
        loop {
            match self.next() {
                (TokenKind::Identifier, value) => {
                    values.push(value);
                    match self.peek() {
                        (TokenKind::Comma, _) => {}
                        (TokenKind::Close, _) => return Ok(values),
                        (_, found) => return Err(format!("found '{found}', expected: ',' or ')'")),
                    }
                }
                (TokenKind::Comma, _) => {
                    let next = self.peek().0;
                    if values.is_empty() || matches!(next, TokenKind::Close | TokenKind::Comma) {
                        values.push(String::new());
                    }
                    if next == TokenKind::Close {
                        return Ok(values);
                    }
                }
                (_, found) => return Err(format!("found '{found}', expected: ',', or identifier")),
            }
        }
    }

    fn exact_value(&mut self) -> Result<String, String> {
        if matches!(self.peek().0, TokenKind::End | TokenKind::Comma) {
            return Ok(String::new());
        }
        match self.next() {
            (TokenKind::Identifier, value) => Ok(value),
            (_, found) => Err(format!("found '{found}', expected: identifier")),
        }
    }

    fn peek(&self) -> (TokenKind, String) {
        match self.tokens.get(self.position) {
            Some(Token { kind: TokenKind::In | TokenKind::NotIn, text }) => (TokenKind::Identifier, text.clone()),
            Some(token) => (token.kind, token.text.clone()),
            None => (TokenKind::End, String::new()),
        }
    }

    fn next(&mut self) -> (TokenKind, String) {
        let token = self.peek();
        self.position += 1;
        token
    }
}

#[cfg(test)]
#[path = "labels_tests.rs"]
mod tests;
