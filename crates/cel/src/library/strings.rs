//! The strings extension: positions are code points, never bytes.

use super::charges;
use super::string_format::{self, Dialect};
use super::{CallContext, Library, Overload};
use crate::cost::{CallEstimate, EstimateContext, Node, STRING_TRAVERSAL_COST_FACTOR, SizeEstimate};
use crate::error::EvalError;
use crate::types::Type;
use crate::value::Value;

/// The strings extension at version 2, which Kubernetes pins.
pub fn strings() -> Library {
    with_format(basics(), |args, _| format(args, Dialect::Localized))
}

/// The strings extension at its newest version.
pub fn strings_newest() -> Library {
    with_format(basics(), |args, _| format(args, Dialect::Plain)).overload(
        "reverse",
        Overload::member("string_reverse", [Type::String], Type::String, |args, _| {
            let [Value::String(text)] = args else { return Err(EvalError::no_such_overload()) };
            Ok(Value::string(text.chars().rev().collect::<String>()))
        }),
    )
}

fn with_format(library: Library, implementation: super::Implementation) -> Library {
    library.overload(
        "format",
        Overload::member("string_format", [Type::String, Type::list(Type::Dyn)], Type::String, implementation)
            .with_cost(charges::scan)
            .with_estimate(|ctx, target, _| {
                // The size of the result has no bound.
                let cost = ctx.size_of(target?).multiply_by_cost_factor(STRING_TRAVERSAL_COST_FACTOR);
                Some(CallEstimate::cost(cost))
            }),
    )
}

fn basics() -> Library {
    let text = || Type::String;
    let texts = || Type::list(Type::String);
    let scan = |overload: Overload| overload.with_cost(charges::scan).with_estimate(charges::scan_target_sized);
    let visit = |overload: Overload| overload.with_cost(charges::visit).with_estimate(charges::visit_target);
    let replacing = |overload: Overload| overload.with_cost(charges::scan_twice).with_estimate(replace_estimate);
    let splitting = |overload: Overload| overload.with_cost(charges::scan_twice).with_estimate(split_estimate);
    let joining = |overload: Overload| overload.with_cost(charges::result_twice).with_estimate(join_estimate);
    Library::new("cel.lib.ext.strings")
        .overload("charAt", Overload::member("string_char_at_int", [text(), Type::Int], text(), char_at))
        .overload("indexOf", visit(Overload::member("string_index_of_string", [text(), text()], Type::Int, index_of)))
        .overload(
            "indexOf",
            visit(Overload::member("string_index_of_string_int", [text(), text(), Type::Int], Type::Int, index_of)),
        )
        .overload(
            "lastIndexOf",
            visit(Overload::member("string_last_index_of_string", [text(), text()], Type::Int, last_index_of)),
        )
        .overload(
            "lastIndexOf",
            visit(Overload::member(
                "string_last_index_of_string_int",
                [text(), text(), Type::Int],
                Type::Int,
                last_index_of,
            )),
        )
        .overload(
            "lowerAscii",
            scan(Overload::member("string_lower_ascii", [text()], text(), |args, _| {
                Ok(Value::string(receiver(args)?.to_ascii_lowercase()))
            })),
        )
        .overload(
            "upperAscii",
            scan(Overload::member("string_upper_ascii", [text()], text(), |args, _| {
                Ok(Value::string(receiver(args)?.to_ascii_uppercase()))
            })),
        )
        .overload(
            "trim",
            scan(Overload::member("string_trim", [text()], text(), |args, _| {
                Ok(Value::string(receiver(args)?.trim_matches(is_space).to_owned()))
            })),
        )
        .overload("substring", scan(Overload::member("string_substring_int", [text(), Type::Int], text(), substring)))
        .overload(
            "substring",
            scan(Overload::member("string_substring_int_int", [text(), Type::Int, Type::Int], text(), substring)),
        )
        .overload(
            "replace",
            replacing(Overload::member("string_replace_string_string", [text(), text(), text()], text(), replace)),
        )
        .overload(
            "replace",
            replacing(Overload::member(
                "string_replace_string_string_int",
                [text(), text(), text(), Type::Int],
                text(),
                replace,
            )),
        )
        .overload("split", splitting(Overload::member("string_split_string", [text(), text()], texts(), split)))
        .overload(
            "split",
            splitting(Overload::member("string_split_string_int", [text(), text(), Type::Int], texts(), split)),
        )
        .overload("join", joining(Overload::member("list_join", [texts()], text(), join)))
        .overload("join", joining(Overload::member("list_join_string", [texts(), text()], text(), join)))
        .overload(
            "strings.quote",
            Overload::global("strings_quote", [text()], text(), quote).with_cost(charges::scan).with_estimate(
                |ctx, _, args| {
                    let size = ctx.size_of(args.first()?);
                    // Every character may be escaped; two quotes are always added.
                    let quoted = SizeEstimate {
                        min: size.min.saturating_add(2),
                        max: size.max.saturating_mul(2).saturating_add(2),
                    };
                    Some(CallEstimate::sized(size.multiply_by_cost_factor(STRING_TRAVERSAL_COST_FACTOR), quoted))
                },
            ),
        )
}

fn receiver<'v>(args: &'v [Value<'_>]) -> Result<&'v str, EvalError> {
    args.first().and_then(Value::as_str).ok_or_else(EvalError::no_such_overload)
}

/// What Go's `strings.TrimSpace` trims.
fn is_space(c: char) -> bool {
    c.is_whitespace()
}

fn out_of_range(index: i64) -> EvalError {
    EvalError::new(format!("index out of range: {index}"))
}

/// The byte at which the code point with this number begins; the end counts as one more.
fn byte_at(text: &str, index: i64) -> Result<usize, EvalError> {
    let wanted = usize::try_from(index).map_err(|_| out_of_range(index))?;
    let mut starts = text.char_indices().map(|(at, _)| at).chain(std::iter::once(text.len()));
    starts.nth(wanted).ok_or_else(|| out_of_range(index))
}

fn char_at<'a>(args: &[Value<'a>], _: &mut CallContext<'_>) -> Result<Value<'a>, EvalError> {
    let [Value::String(text), Value::Int(index)] = args else { return Err(EvalError::no_such_overload()) };
    let rest = text.get(byte_at(text, *index)?..).unwrap_or_default();
    Ok(Value::string(rest.chars().next().map(String::from).unwrap_or_default()))
}

fn characters(text: &str) -> i64 {
    i64::try_from(text.chars().count()).unwrap_or(i64::MAX)
}

fn index_of<'a>(args: &[Value<'a>], _: &mut CallContext<'_>) -> Result<Value<'a>, EvalError> {
    let (text, wanted, offset) = match args {
        [Value::String(text), Value::String(wanted)] => (text, wanted, 0),
        [Value::String(text), Value::String(wanted), Value::Int(offset)] => (text, wanted, *offset),
        _ => return Err(EvalError::no_such_overload()),
    };
    if wanted.is_empty() {
        return Ok(Value::Int(offset));
    }
    if offset < 0 {
        return Err(out_of_range(offset));
    }
    let found = byte_at(text, offset).ok().and_then(|start| {
        let rest = text.get(start..).unwrap_or_default();
        let at = rest.find(&**wanted)?;
        Some(offset.saturating_add(characters(rest.get(..at).unwrap_or_default())))
    });
    Ok(Value::Int(found.unwrap_or(-1)))
}

fn last_index_of<'a>(args: &[Value<'a>], _: &mut CallContext<'_>) -> Result<Value<'a>, EvalError> {
    let (text, wanted, offset) = match args {
        [Value::String(text), Value::String(wanted)] => {
            let length = characters(text);
            match (wanted.is_empty(), wanted.len() > text.len()) {
                (true, _) => return Ok(Value::Int(length)),
                (_, true) => return Ok(Value::Int(-1)),
                _ => (text, wanted, length - 1),
            }
        }
        [Value::String(text), Value::String(wanted), Value::Int(offset)] => (text, wanted, *offset),
        _ => return Err(EvalError::no_such_overload()),
    };
    if wanted.is_empty() {
        return Ok(Value::Int(offset));
    }
    if offset < 0 {
        return Err(out_of_range(offset));
    }
    if offset >= characters(text) {
        return Ok(Value::Int(-1));
    }
    // The match may begin at the offset and reach beyond it.
    let end = byte_at(text, offset)?.saturating_add(wanted.len()).min(text.len());
    let end = (end..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
    let head = text.get(..end).unwrap_or_default();
    let found = head.rmatch_indices(&**wanted).map(|(at, _)| characters(head.get(..at).unwrap_or_default()));
    Ok(Value::Int(found.into_iter().find(|at| *at <= offset).unwrap_or(-1)))
}

fn substring<'a>(args: &[Value<'a>], _: &mut CallContext<'_>) -> Result<Value<'a>, EvalError> {
    let (text, start, end) = match args {
        [Value::String(text), Value::Int(start)] => (text, *start, None),
        [Value::String(text), Value::Int(start), Value::Int(end)] => (text, *start, Some(*end)),
        _ => return Err(EvalError::no_such_overload()),
    };
    if let Some(end) = end.filter(|end| start > *end) {
        return Err(EvalError::new(format!("invalid substring range. start: {start}, end: {end}")));
    }
    let from = byte_at(text, start)?;
    let to = end.map_or(Ok(text.len()), |end| byte_at(text, end))?;
    Ok(Value::string(text.get(from..to).unwrap_or_default().to_owned()))
}

fn replace<'a>(args: &[Value<'a>], _: &mut CallContext<'_>) -> Result<Value<'a>, EvalError> {
    let (text, old, new, limit) = match args {
        [Value::String(text), Value::String(old), Value::String(new)] => (text, old, new, -1),
        [Value::String(text), Value::String(old), Value::String(new), Value::Int(limit)] => (text, old, new, *limit),
        _ => return Err(EvalError::no_such_overload()),
    };
    Ok(Value::string(match usize::try_from(limit) {
        Ok(limit) => text.replacen(&**old, new, limit),
        Err(_) => text.replace(&**old, new),
    }))
}

fn split<'a>(args: &[Value<'a>], _: &mut CallContext<'_>) -> Result<Value<'a>, EvalError> {
    let (text, separator, limit) = match args {
        [Value::String(text), Value::String(separator)] => (text, separator, -1),
        [Value::String(text), Value::String(separator), Value::Int(limit)] => (text, separator, *limit),
        _ => return Err(EvalError::no_such_overload()),
    };
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let parts: Vec<&str> = if limit == 0 {
        Vec::new()
    } else if separator.is_empty() {
        explode(text, limit)
    } else {
        text.splitn(limit, &**separator).collect()
    };
    Ok(Value::list(parts.into_iter().map(|part| Value::string(part.to_owned())).collect()))
}

/// Each character by itself; the last part keeps the rest.
fn explode(text: &str, limit: usize) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if parts.len() + 1 == limit {
            parts.push(rest);
            break;
        }
        let (head, tail) = rest.split_at(c.len_utf8());
        parts.push(head);
        rest = tail;
    }
    parts
}

fn join<'a>(args: &[Value<'a>], _: &mut CallContext<'_>) -> Result<Value<'a>, EvalError> {
    let (list, separator) = match args {
        [Value::List(list)] => (list, ""),
        [Value::List(list), Value::String(separator)] => (list, &**separator),
        _ => return Err(EvalError::no_such_overload()),
    };
    let mut out = String::new();
    for (at, item) in list.iter().enumerate() {
        let item = item?;
        let Value::String(text) = &item else {
            return Err(EvalError::new(format!("join: invalid input: {}", item.type_name())));
        };
        if at > 0 {
            out.push_str(separator);
        }
        out.push_str(text);
    }
    Ok(Value::string(out))
}

fn quote<'a>(args: &[Value<'a>], _: &mut CallContext<'_>) -> Result<Value<'a>, EvalError> {
    let text = receiver(args)?;
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '\x07' => out.push_str("\\a"),
            '\x08' => out.push_str("\\b"),
            '\x0c' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\x0b' => out.push_str("\\v"),
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            other => out.push(other),
        }
    }
    out.push('"');
    Ok(Value::string(out))
}

fn format<'a>(args: &[Value<'a>], dialect: Dialect) -> Result<Value<'a>, EvalError> {
    let [Value::String(text), Value::List(list)] = args else { return Err(EvalError::no_such_overload()) };
    string_format::format(text, list, dialect).map(Value::string)
}

/// The longest and shortest results come from replacing the shortest or longest pieces as often as they fit.
fn replace_estimate(ctx: &EstimateContext<'_>, target: Option<&Node<'_>>, args: &[Node<'_>]) -> Option<CallEstimate> {
    let size = ctx.size_of(target?);
    let [old, new, ..] = args else { return None };
    let (old, new) = (ctx.size_of(old), ctx.size_of(new));
    let times = |size: u64, piece: u64| (size as f64 / piece as f64).ceil() as u64;
    let (most, kept_most) = if old.min == 0 {
        (size.max.saturating_add(1), size.max)
    } else if new.max <= old.min {
        (0, size.max)
    } else {
        (times(size.max, old.min), 0)
    };
    let (fewest, kept_fewest) = if old.max == 0 {
        (size.min.saturating_add(1), size.min)
    } else if old.max <= new.min {
        (0, size.min)
    } else {
        (times(size.min, old.max), 0)
    };
    let result =
        SizeEstimate { min: fewest, max: most }.multiply(new).add(SizeEstimate { min: kept_fewest, max: kept_most });
    Some(CallEstimate::sized(size.multiply_by_cost_factor(2.0 * STRING_TRAVERSAL_COST_FACTOR), result))
}

fn split_estimate(ctx: &EstimateContext<'_>, target: Option<&Node<'_>>, args: &[Node<'_>]) -> Option<CallEstimate> {
    let size = ctx.size_of(target?);
    let limit = match args.get(1).and_then(|limit| limit.literal) {
        // A negative limit wraps, which is as good as none.
        Some(Value::Int(limit)) => *limit as u64,
        _ => size.max,
    };
    Some(CallEstimate::sized(
        size.multiply_by_cost_factor(2.0 * STRING_TRAVERSAL_COST_FACTOR),
        SizeEstimate { min: 0, max: limit },
    ))
}

fn join_estimate(ctx: &EstimateContext<'_>, target: Option<&Node<'_>>, args: &[Node<'_>]) -> Option<CallEstimate> {
    let target = target?;
    let list = ctx.size_of(target);
    let mut size = ctx.element(target).map_or(SizeEstimate::fixed(0), |element| list.multiply(ctx.size_of(&element)));
    if let Some(separator) = args.first() {
        let gaps = SizeEstimate { min: list.min.saturating_sub(1), max: list.max.saturating_sub(1) };
        size = size.add(ctx.size_of(separator).multiply(gaps));
    }
    Some(CallEstimate::sized(size.multiply_by_cost_factor(STRING_TRAVERSAL_COST_FACTOR), size))
}
