//! JSONPath as printer columns write it: `.status.conditions[?(@.type=="Ready")].status`.
//!
//! The dialect is that of `kubectl -o jsonpath`: fields, indexes, slices, wildcards, unions, filters and recursive
//! descent. Keys that are missing lead to nothing, not to an error.

use std::cmp::Ordering;

use serde_json::Value;

/// The longest path that is parsed; definitions with longer ones get an empty column.
const LENGTH_MAX: usize = 4096;
/// How deep filters may nest.
const DEPTH_MAX: usize = 16;
/// How many values one evaluation may visit, so that nested wildcards on a large object end.
const VISITS_MAX: usize = 100_000;

/// Why a text is no path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a JSONPath at {at}: {reason}")]
pub struct ParseError {
    at: usize,
    reason: &'static str,
}

/// A parsed path.
#[derive(Clone, Debug, PartialEq)]
pub struct JsonPath {
    steps: Vec<Step>,
}

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Field(String),
    /// `[start:end:step]`; a single index is a slice of one.
    Slice {
        start: Option<i64>,
        end: Option<i64>,
        step: Option<i64>,
    },
    Index(i64),
    Wildcard,
    Recursive,
    Union(Vec<JsonPath>),
    Filter(Operand, Option<(Comparison, Operand)>),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Comparison {
    Equal,
    Unequal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

#[derive(Clone, Debug, PartialEq)]
enum Operand {
    /// `@.x`: a path from the element that is looked at.
    Path(JsonPath),
    Literal(Value),
}

/// Evaluation came upon something the dialect calls an error; the whole result is empty then.
struct NoResult;

impl JsonPath {
    /// Parses a path with or without the braces that kubectl wants.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        if text.len() > LENGTH_MAX {
            return Err(ParseError { at: LENGTH_MAX, reason: "too long" });
        }
        let mut parser = Parser { text, at: 0, depth: 0 };
        let steps = parser.steps(|parser| parser.at == parser.text.len())?;
        Ok(Self { steps })
    }

    /// The first value the path leads to.
    pub fn first<'a>(&self, value: &'a Value) -> Option<&'a Value> {
        let mut visits = VISITS_MAX;
        self.evaluate(vec![value], &mut visits).ok()?.into_iter().next()
    }

    fn evaluate<'a>(&self, mut values: Vec<&'a Value>, visits: &mut usize) -> Result<Vec<&'a Value>, NoResult> {
        for step in &self.steps {
            *visits = visits.checked_sub(values.len() + 1).ok_or(NoResult)?;
            values = step.evaluate(values, visits)?;
        }
        Ok(values)
    }
}

impl Step {
    fn evaluate<'a>(&self, values: Vec<&'a Value>, visits: &mut usize) -> Result<Vec<&'a Value>, NoResult> {
        let present = values.into_iter().filter(|value| !value.is_null());
        match self {
            Self::Field(name) => Ok(present.filter_map(|value| value.get(name)).collect()),
            Self::Index(index) => {
                let mut found = Vec::new();
                for value in present {
                    let list = value.as_array().ok_or(NoResult)?;
                    found.push(list.get(from_end(*index, list.len()).ok_or(NoResult)?).ok_or(NoResult)?);
                }
                Ok(found)
            }
            Self::Slice { start, end, step } => {
                let mut found = Vec::new();
                for value in present {
                    let list = value.as_array().ok_or(NoResult)?;
                    found.extend(slice(list, *start, *end, *step)?);
                }
                Ok(found)
            }
            Self::Wildcard => Ok(present.flat_map(children).collect()),
            Self::Recursive => {
                let mut found = Vec::new();
                for value in present {
                    descend(value, &mut found, visits)?;
                }
                Ok(found)
            }
            Self::Union(paths) => {
                let values: Vec<&Value> = present.collect();
                let mut found = Vec::new();
                for path in paths {
                    found.extend(path.evaluate(values.clone(), visits)?);
                }
                Ok(found)
            }
            Self::Filter(left, condition) => {
                let mut found = Vec::new();
                for value in present {
                    for element in value.as_array().ok_or(NoResult)? {
                        if holds(left, condition.as_ref(), element, visits)? {
                            found.push(element);
                        }
                    }
                }
                Ok(found)
            }
        }
    }
}

fn children(value: &Value) -> Vec<&Value> {
    match value {
        Value::Object(map) => map.values().collect(),
        Value::Array(list) => list.iter().collect(),
        _ => Vec::new(),
    }
}

/// Every container below and including `value`, outermost first.
fn descend<'a>(value: &'a Value, found: &mut Vec<&'a Value>, visits: &mut usize) -> Result<(), NoResult> {
    *visits = visits.checked_sub(1).ok_or(NoResult)?;
    let inner = children(value);
    if !inner.is_empty() {
        found.push(value);
        inner.into_iter().try_for_each(|child| descend(child, found, visits))?;
    }
    Ok(())
}

/// Negative indexes count from the end.
fn from_end(index: i64, len: usize) -> Option<usize> {
    usize::try_from(if index < 0 { index.checked_add(i64::try_from(len).ok()?)? } else { index }).ok()
}

fn slice(list: &[Value], start: Option<i64>, end: Option<i64>, step: Option<i64>) -> Result<Vec<&Value>, NoResult> {
    let start = from_end(start.unwrap_or(0), list.len()).ok_or(NoResult)?;
    let end = end.map_or(Some(list.len()), |end| from_end(end, list.len())).ok_or(NoResult)?;
    if start == end {
        return Ok(Vec::new());
    }
    let step = step.map_or(Some(1), |step| usize::try_from(step).ok().filter(|step| *step > 0)).ok_or(NoResult)?;
    Ok(list.get(start..end).ok_or(NoResult)?.iter().step_by(step).collect())
}

fn holds(
    left: &Operand,
    condition: Option<&(Comparison, Operand)>,
    element: &Value,
    visits: &mut usize,
) -> Result<bool, NoResult> {
    let mut resolve = |operand: &Operand| -> Result<Option<Value>, NoResult> {
        match operand {
            Operand::Literal(value) => Ok(Some(value.clone())),
            Operand::Path(path) => {
                let found = path.evaluate(vec![element], visits)?;
                // Comparing with several values makes no sense.
                if found.len() > 1 { Err(NoResult) } else { Ok(found.first().map(|value| (*value).clone())) }
            }
        }
    };
    let Some((comparison, right)) = condition else { return Ok(resolve(left)?.is_some()) };
    let (Some(left), Some(right)) = (resolve(left)?, resolve(right)?) else { return Ok(false) };
    let order = compare(&left, &right);
    Ok(match comparison {
        Comparison::Equal => order == Some(Ordering::Equal),
        Comparison::Unequal => order != Some(Ordering::Equal),
        Comparison::Less => order == Some(Ordering::Less),
        Comparison::LessOrEqual => matches!(order, Some(Ordering::Less | Ordering::Equal)),
        Comparison::Greater => order == Some(Ordering::Greater),
        Comparison::GreaterOrEqual => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
    })
}

fn compare(left: &Value, right: &Value) -> Option<Ordering> {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => left.as_f64()?.partial_cmp(&right.as_f64()?),
        (Value::String(left), Value::String(right)) => Some(left.cmp(right)),
        (Value::Bool(left), Value::Bool(right)) => Some(left.cmp(right)),
        _ => None,
    }
}

/// A value as text: strings bare, everything else as JSON.
pub fn print(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

impl<'a> Parser<'a> {
    fn error<T>(&self, reason: &'static str) -> Result<T, ParseError> {
        Err(ParseError { at: self.at, reason })
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn take(&mut self, prefix: &str) -> bool {
        let found = self.rest().starts_with(prefix);
        if found {
            self.at += prefix.len();
        }
        found
    }

    fn skip_spaces(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start_matches(' ').len();
    }

    /// Steps until `ended`; what ends them is left where it is.
    fn steps(&mut self, ended: impl Fn(&Self) -> bool) -> Result<Vec<Step>, ParseError> {
        let mut steps = Vec::new();
        // `$` and `@` name the value the path starts from.
        let _ = self.take("$") || self.take("@");
        while !ended(self) {
            if self.take("..") {
                steps.push(Step::Recursive);
                if !self.rest().starts_with('[') {
                    steps.push(self.field()?);
                }
            } else if self.take(".") {
                if !self.rest().starts_with('[') {
                    steps.push(self.field()?);
                }
            } else if self.take("[") {
                steps.push(self.bracket()?);
            } else if steps.is_empty() {
                steps.push(self.field()?);
            } else {
                return self.error("expected a field or an index");
            }
        }
        Ok(steps)
    }

    fn field(&mut self) -> Result<Step, ParseError> {
        let mut name = String::new();
        let mut chars = self.rest().char_indices();
        let mut end = self.rest().len();
        while let Some((at, c)) = chars.next() {
            match c {
                '\\' => match chars.next() {
                    Some((_, escaped)) => name.push(escaped),
                    None => return self.error("nothing follows the backslash"),
                },
                '.' | '[' | ']' | ' ' | ',' | ')' | '=' | '!' | '<' | '>' | '{' | '}' | '\'' | '"' => {
                    end = at;
                    break;
                }
                other => name.push(other),
            }
        }
        self.at += end;
        match name.as_str() {
            "" => self.error("a field has no name"),
            "*" => Ok(Step::Wildcard),
            _ => Ok(Step::Field(name)),
        }
    }

    /// What follows an opening bracket.
    fn bracket(&mut self) -> Result<Step, ParseError> {
        self.skip_spaces();
        if self.take("?(") {
            return self.filter();
        }
        if self.take("*") {
            return self.close(Step::Wildcard);
        }
        let mut alternatives = Vec::new();
        loop {
            self.skip_spaces();
            alternatives.push(match self.rest().chars().next() {
                Some(quote @ ('\'' | '"')) => Step::Field(self.quoted(quote)?),
                Some(_) => self.range()?,
                None => return self.error("the bracket is not closed"),
            });
            self.skip_spaces();
            if !self.take(",") {
                break;
            }
        }
        let step = match alternatives.len() {
            1 => alternatives.remove(0),
            _ => Step::Union(alternatives.into_iter().map(|step| JsonPath { steps: vec![step] }).collect()),
        };
        self.close(step)
    }

    fn close(&mut self, step: Step) -> Result<Step, ParseError> {
        self.skip_spaces();
        if self.take("]") { Ok(step) } else { self.error("expected a closing bracket") }
    }

    fn quoted(&mut self, quote: char) -> Result<String, ParseError> {
        self.at += quote.len_utf8();
        let mut text = String::new();
        let mut chars = self.rest().char_indices();
        while let Some((at, c)) = chars.next() {
            match c {
                '\\' => text.extend(chars.next().map(|(_, escaped)| escaped)),
                c if c == quote => {
                    self.at += at + quote.len_utf8();
                    return Ok(text);
                }
                other => text.push(other),
            }
        }
        self.error("the quote is not closed")
    }

    fn integer(&mut self) -> Result<Option<i64>, ParseError> {
        let digits = self.rest().bytes().take_while(|b| b.is_ascii_digit() || *b == b'-').count();
        let text = self.rest().get(..digits).unwrap_or_default();
        if text.is_empty() {
            return Ok(None);
        }
        match text.parse() {
            Ok(number) => {
                self.at += digits;
                Ok(Some(number))
            }
            Err(_) => self.error("not a number"),
        }
    }

    fn range(&mut self) -> Result<Step, ParseError> {
        let start = self.integer()?;
        if !self.take(":") {
            return match start {
                Some(index) => Ok(Step::Index(index)),
                None => self.error("expected an index"),
            };
        }
        let end = self.integer()?;
        let step = if self.take(":") { self.integer()? } else { None };
        Ok(Step::Slice { start, end, step })
    }

    fn filter(&mut self) -> Result<Step, ParseError> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return self.error("filters nest too deep");
        }
        let left = self.operand()?;
        self.skip_spaces();
        let comparisons = [
            ("==", Comparison::Equal),
            ("!=", Comparison::Unequal),
            ("<=", Comparison::LessOrEqual),
            (">=", Comparison::GreaterOrEqual),
            ("<", Comparison::Less),
            (">", Comparison::Greater),
        ];
        let comparison = comparisons.into_iter().find(|(sign, _)| self.take(sign)).map(|(_, comparison)| comparison);
        let condition = match comparison {
            Some(comparison) => Some((comparison, self.operand()?)),
            None => None,
        };
        self.skip_spaces();
        if !self.take(")") {
            return self.error("expected a closing parenthesis");
        }
        self.depth -= 1;
        self.close(Step::Filter(left, condition))
    }

    fn operand(&mut self) -> Result<Operand, ParseError> {
        self.skip_spaces();
        match self.rest().chars().next() {
            Some('@' | '$') => {
                let ended = |parser: &Self| {
                    parser.rest().is_empty() || parser.rest().starts_with([' ', ')', '=', '!', '<', '>'])
                };
                Ok(Operand::Path(JsonPath { steps: self.steps(ended)? }))
            }
            Some(quote @ ('\'' | '"')) => Ok(Operand::Literal(self.quoted(quote)?.into())),
            _ => {
                let len = self.rest().find([' ', ')']).unwrap_or(self.rest().len());
                let word = self.rest().get(..len).unwrap_or_default();
                let Ok(literal) = serde_json::from_str::<Value>(word) else { return self.error("not a value") };
                self.at += len;
                Ok(Operand::Literal(literal))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn first(path: &str, value: &Value) -> Option<Value> {
        JsonPath::parse(path).expect("a path").first(value).cloned()
    }

    #[test]
    fn paths_lead_to_values() {
        let object = json!({
            "spec": {"list": [1, 2, 3], "a.b": "dotted", "map": {"x": {"deep": true}}},
            "status": {"conditions": [{"type": "Ready", "status": "False"}, {"type": "Synced", "status": "True"}]},
        });
        assert_eq!(first(".spec.list[1]", &object), Some(json!(2)));
        assert_eq!(first(".spec.list[-1:]", &object), Some(json!(3)));
        assert_eq!(first(".spec.list[-1]", &object), Some(json!(3)));
        assert_eq!(first(".spec['a.b']", &object), Some(json!("dotted")));
        assert_eq!(first(r".spec.a\.b", &object), Some(json!("dotted")));
        assert_eq!(first(".spec.map.*.deep", &object), Some(json!(true)));
        assert_eq!(first("..deep", &object), Some(json!(true)));
        assert_eq!(first(r#".status.conditions[?(@.type=="Synced")].status"#, &object), Some(json!("True")));
        assert_eq!(first(".status.conditions[?(@.type == 'Ready')].status", &object), Some(json!("False")));
        assert_eq!(first(".status.conditions[*].type", &object), Some(json!("Ready")));
    }

    #[test]
    fn what_is_missing_leads_nowhere() {
        let object = json!({"spec": {"list": [1], "text": "x", "none": null}});
        for path in [".spec.absent.further", ".spec.list[7]", ".spec.text[0]", ".spec.none.x", ".spec.list[?(@.a==1)]"]
        {
            assert_eq!(first(path, &object), None, "{path}");
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for path in [".a[", ".a[x]", ".a[?(@.b==]", ".a['b]", ".a]b", ".a[1", ".[?(@.x"] {
            assert!(JsonPath::parse(path).is_err(), "{path}");
        }
    }

    proptest! {
        #[test]
        fn parsing_and_evaluating_never_panics(text in "[.\\[\\]a-c@?()=<>'\"*:0-9, $\\\\-]{0,40}") {
            if let Ok(path) = JsonPath::parse(&text) {
                path.first(&json!({"a": [{"b": 1}, {"c": [1, 2]}], "b": {"a": null}}));
            }
        }
    }
}
