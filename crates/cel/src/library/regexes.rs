//! `find` and `findAll`: what a regular expression matches.

use super::charges;
use super::{CallContext, Library, Overload};
use crate::cost::{CallEstimate, EstimateContext, Node, SizeEstimate};
use crate::error::EvalError;
use crate::types::Type;
use crate::value::Value;

/// Regular expressions, as of Kubernetes 1.23.
pub fn regex() -> Library {
    let charged = |overload: Overload| {
        overload
            .with_cost(|args, _| {
                let [text, pattern, ..] = args else { return None };
                Some(charges::match_cost(text.cost_size(), pattern.cost_size()))
            })
            .with_estimate(estimate)
    };
    let texts = || Type::list(Type::String);
    Library::new("kubernetes.regex")
        .overload(
            "find",
            charged(Overload::member("string_find_string", [Type::String, Type::String], Type::String, find)),
        )
        .overload(
            "findAll",
            charged(Overload::member("string_find_all_string", [Type::String, Type::String], texts(), find_all)),
        )
        .overload(
            "findAll",
            charged(Overload::member(
                "string_find_all_string_int",
                [Type::String, Type::String, Type::Int],
                texts(),
                find_all,
            )),
        )
}

fn compiled(pattern: &str, ctx: &mut CallContext<'_>) -> Result<std::sync::Arc<regex::bytes::Regex>, EvalError> {
    ctx.regex(pattern).map_err(|why| EvalError::new(format!("Illegal regex: {why}")))
}

fn find<'a>(args: &[Value<'a>], ctx: &mut CallContext<'_>) -> Result<Value<'a>, EvalError> {
    let [Value::String(text), Value::String(pattern)] = args else { return Err(EvalError::no_such_overload()) };
    let found = compiled(pattern, ctx)?.find(text.as_bytes()).map(|found| found_text(text, found.range()));
    Ok(Value::string(found.unwrap_or_default()))
}

fn find_all<'a>(args: &[Value<'a>], ctx: &mut CallContext<'_>) -> Result<Value<'a>, EvalError> {
    let (text, pattern, limit) = match args {
        [Value::String(text), Value::String(pattern)] => (text, pattern, -1),
        [Value::String(text), Value::String(pattern), Value::Int(limit)] => (text, pattern, *limit),
        _ => return Err(EvalError::no_such_overload()),
    };
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let pattern = compiled(pattern, ctx)?;
    let found =
        pattern.find_iter(text.as_bytes()).take(limit).map(|found| Value::string(found_text(text, found.range())));
    Ok(Value::list(found.collect()))
}

/// Only `\B` can match within a character; then there is no text.
fn found_text(text: &str, range: std::ops::Range<usize>) -> String {
    text.get(range).unwrap_or_default().to_owned()
}

fn estimate(ctx: &EstimateContext<'_>, target: Option<&Node<'_>>, args: &[Node<'_>]) -> Option<CallEstimate> {
    let text = ctx.size_of(target?);
    let cost = charges::match_estimate(text, ctx.size_of(args.first()?));
    // At worst every character is a match.
    Some(CallEstimate::sized(cost, SizeEstimate { min: 0, max: text.max }))
}
