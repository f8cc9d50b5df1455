//! JSON patch (RFC 6902) as the reference applies it.
//!
//! Where its library is laxer than the RFC so are we: `replace` sets what is absent, `copy` of what is absent gives
//! null, `test` of what is absent succeeds against null, indices may count from the end. Limits keep small patches from
//! growing large objects.

use serde_json::Value;

use crate::error::PatchError;
use crate::go_format::json_type;

/// Most operations in a patch; the number is part of the API.
pub const MAX_OPERATIONS: usize = 10_000;
/// Most bytes all `copy` operations may add: what a whole request body may hold.
const MAX_COPIED_BYTES: usize = 3 * 1024 * 1024;
/// Deepest object that may result. Decoders stop at 128; moves can nest further and would exhaust the stack.
const MAX_DEPTH: usize = 256;

/// A decoded JSON patch.
#[derive(Clone, Debug, PartialEq)]
pub struct JsonPatch {
    operations: Vec<Operation>,
    unknown_fields: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Operation {
    op: String,
    path: Option<String>,
    from: Option<String>,
    value: Value,
}

impl JsonPatch {
    /// Reads a patch; one applied by a client that validates strictly should look at [`Self::unknown_fields`] too.
    pub fn from_value(patch: Value) -> Result<Self, PatchError> {
        let bad = |text: String| PatchError::BadRequest(format!("error decoding patch: json: cannot unmarshal {text}"));
        let items = match patch {
            Value::Array(items) => items,
            Value::Null => Vec::new(),
            other => return Err(bad(format!("{} into Go value of type []handlers.jsonPatchOp", json_type(&other)))),
        };
        if items.len() > MAX_OPERATIONS {
            return Err(PatchError::TooLarge(format!(
                "Request entity too large: The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {}",
                items.len()
            )));
        }
        let mut operations = Vec::with_capacity(items.len());
        let mut unknown_fields = Vec::new();
        for (i, item) in items.into_iter().enumerate() {
            let Value::Object(fields) = item else {
                return Err(bad(format!("{} into Go value of type handlers.jsonPatchOp", json_type(&item))));
            };
            let mut operation = Operation::default();
            for (key, value) in fields {
                let text = |value: Value| match value {
                    Value::String(text) => Ok(text),
                    other => {
                        let found = json_type(&other);
                        Err(bad(format!("{found} into Go struct field jsonPatchOp.{key} of type string")))
                    }
                };
                match key.as_str() {
                    "value" => operation.value = value,
                    "op" => operation.op = text(value)?,
                    "path" => operation.path = Some(text(value)?),
                    "from" => operation.from = Some(text(value)?),
                    _ => unknown_fields.push(format!("json patch unknown field \"[{i}].{key}\"")),
                }
            }
            operations.push(operation);
        }
        Ok(Self { operations, unknown_fields })
    }

    /// What strict field validation complains about, as upstream words it.
    pub fn unknown_fields(&self) -> &[String] {
        &self.unknown_fields
    }

    /// Applies every operation to `document`. When one fails the document is left half-patched: apply to a copy.
    pub fn apply(self, document: &mut Value) -> Result<(), PatchError> {
        let mut limits = Limits { copied: 0, depth: depth(document) };
        for operation in self.operations {
            operation.apply(document, &mut limits).map_err(PatchError::Rejected)?;
        }
        Ok(())
    }
}

/// What the operations so far used up.
struct Limits {
    copied: usize,
    /// No less than the depth of the document.
    depth: usize,
}

impl Limits {
    /// Called after a value was put at `path`, of which no more than `height` levels are known.
    fn grown(&mut self, document: &Value, path: &str, height: usize) -> Result<(), String> {
        self.depth = self.depth.max(path.matches('/').count() + height);
        if self.depth > MAX_DEPTH {
            // The bound may be far too high after many moves; measure before refusing.
            self.depth = depth(document);
        }
        if self.depth > MAX_DEPTH { Err(format!("document nested more than {MAX_DEPTH} deep")) } else { Ok(()) }
    }
}

/// Why one step of an operation failed; the operation says what that means for it.
enum Fault {
    /// What the pointer's last key would be in is not there.
    NoContainer,
    Inner(String),
}

/// How the reference's library ends its texts.
const MISSING: &str = "missing value";

impl Fault {
    fn text(self, no_container: impl FnOnce() -> String, inner: impl FnOnce(String) -> String) -> String {
        match self {
            Self::NoContainer => format!("{}: {MISSING}", no_container()),
            Self::Inner(error) => inner(error),
        }
    }
}

impl Operation {
    fn apply(self, document: &mut Value, limits: &mut Limits) -> Result<(), String> {
        let Self { op, path, from, value } = self;
        let path = path.ok_or_else(|| match op.as_str() {
            "replace" | "move" | "test" => {
                format!("{op} operation failed to decode path: operation missing path field: {MISSING}")
            }
            _ => format!("{op} operation failed to decode path: {MISSING}"),
        });
        let from = || {
            from.ok_or_else(|| {
                format!("{op} operation failed to decode from: operation, missing from field: {MISSING}")
            })
        };
        let to =
            |op: &str, path: &str| format!("{op} operation does not apply: doc is missing destination path: {path}");
        match op.as_str() {
            "add" => {
                let (path, height) = (path?, depth(&value));
                add(document, &path, value)
                    .map_err(|fault| fault.text(|| missing_path(&op, &path), |e| in_path(&op, &path, &e)))?;
                limits.grown(document, &path, height)
            }
            "remove" => {
                let path = path?;
                let taken = take(document, &path);
                taken.map(drop).map_err(|fault| fault.text(|| missing_path(&op, &path), |e| in_path(&op, &path, &e)))
            }
            "replace" => {
                let (path, height) = (path?, depth(&value));
                replace(document, &path, value).map_err(|fault| {
                    let what = |what: &str| format!("replace operation does not apply: doc is missing {what}: {path}");
                    fault.text(|| what("path"), |_| format!("{}: {MISSING}", what("key")))
                })?;
                limits.grown(document, &path, height)
            }
            "move" => {
                let from = from()?;
                let value = take(document, &from).map_err(|fault| {
                    let key = from.rsplit('/').next().unwrap_or_default();
                    let missing = || format!("move operation does not apply: doc is missing from path: {from}");
                    fault.text(missing, |e| in_path(&op, key, &e))
                })?;
                let (path, height) = (path?, limits.depth.saturating_sub(from.matches('/').count()));
                add(document, &path, value)
                    .map_err(|fault| fault.text(|| to(&op, &path), |e| in_path(&op, &path, &e)))?;
                limits.grown(document, &path, height)
            }
            "copy" => {
                let from = from()?;
                let found = find(document, &from).map_err(|fault| {
                    let missing = || format!("copy operation does not apply: doc is missing from path: {from}");
                    fault.text(missing, |e| format!("error in copy for from: '{from}': {e}"))
                })?;
                let value = found.cloned().unwrap_or(Value::Null);
                let path = path?;
                limits.copied += serde_json::to_string(&value).map_or(usize::MAX, |text| text.len());
                if limits.copied > MAX_COPIED_BYTES {
                    return Err("accumulated size of copied values too large".to_owned());
                }
                let height = limits.depth.saturating_sub(from.matches('/').count());
                add(document, &path, value).map_err(|fault| {
                    fault.text(|| to(&op, &path), |e| format!("error while adding value during copy: {e}"))
                })?;
                limits.grown(document, &path, height)
            }
            "test" => {
                let path = path?;
                let found = if path.is_empty() { Ok(Some(&*document)) } else { find(document, &path) };
                let found = found.map_err(|fault| {
                    let missing = || format!("test operation does not apply: is missing path: {path}");
                    fault.text(missing, |e| in_path(&op, &path, &e))
                })?;
                if equal(found.unwrap_or(&Value::Null), &value) {
                    Ok(())
                } else {
                    Err(format!("{FAILED_TEST} {path} failed: test failed"))
                }
            }
            other => Err(format!("Unexpected kind: {other}")),
        }
    }
}

/// How the text of a failed `test` begins.
pub(crate) const FAILED_TEST: &str = "testing value";

fn missing_path(op: &str, path: &str) -> String {
    format!("{op} operation does not apply: doc is missing path: \"{path}\"")
}

fn in_path(op: &str, path: &str, error: &str) -> String {
    format!("error in {op} for path: '{path}': {error}")
}

/// A pointer as the containers to walk through and the last key. What precedes the first slash is ignored.
fn split(pointer: &str) -> Result<(impl Iterator<Item = String> + '_, String), Fault> {
    let (head, last) = pointer.rsplit_once('/').ok_or(Fault::NoContainer)?;
    Ok((head.split('/').skip(1).map(unescape), unescape(last)))
}

fn unescape(token: &str) -> String {
    token.replace("~1", "/").replace("~0", "~")
}

fn container<'a>(document: &'a mut Value, pointer: &str) -> Result<(&'a mut Value, String), Fault> {
    let (walk, last) = split(pointer)?;
    let mut at = document;
    for key in walk {
        at = match at {
            Value::Object(fields) => fields.get_mut(&key),
            Value::Array(items) => index(&key, items.len()).ok().and_then(|i| items.get_mut(i)),
            _ => None,
        }
        .ok_or(Fault::NoContainer)?;
    }
    if at.is_object() || at.is_array() { Ok((at, last)) } else { Err(Fault::NoContainer) }
}

/// The value at a pointer; `None` for an absent field of an object that is there.
fn find<'a>(document: &'a Value, pointer: &str) -> Result<Option<&'a Value>, Fault> {
    let (walk, last) = split(pointer)?;
    let mut at = document;
    for key in walk {
        at = match at {
            Value::Object(fields) => fields.get(&key),
            Value::Array(items) => index(&key, items.len()).ok().and_then(|i| items.get(i)),
            _ => None,
        }
        .ok_or(Fault::NoContainer)?;
    }
    match at {
        Value::Object(fields) => Ok(fields.get(&last)),
        Value::Array(items) => index(&last, items.len()).map(|i| items.get(i)),
        _ => Err(Fault::NoContainer),
    }
}

fn add(document: &mut Value, pointer: &str, value: Value) -> Result<(), Fault> {
    let (at, last) = container(document, pointer)?;
    match at {
        Value::Object(fields) => {
            fields.insert(last, value);
        }
        Value::Array(items) if last == "-" => items.push(value),
        // One more place than there are elements, also when counting from the end.
        Value::Array(items) => items.insert(index(&last, items.len() + 1)?, value),
        _ => return Err(Fault::NoContainer),
    }
    Ok(())
}

fn replace(document: &mut Value, pointer: &str, value: Value) -> Result<(), Fault> {
    if pointer.is_empty() {
        if !value.is_object() && !value.is_array() {
            return Err(Fault::Inner("replace operation value must be object or array".to_owned()));
        }
        *document = value;
        return Ok(());
    }
    let (at, last) = container(document, pointer)?;
    match at {
        Value::Object(fields) => {
            fields.insert(last, value);
        }
        Value::Array(items) => {
            let at = index(&last, items.len())?;
            if let Some(item) = items.get_mut(at) {
                *item = value;
            }
        }
        _ => return Err(Fault::NoContainer),
    }
    Ok(())
}

fn take(document: &mut Value, pointer: &str) -> Result<Value, Fault> {
    let (at, last) = container(document, pointer)?;
    match at {
        Value::Object(fields) => fields
            .remove(&last)
            .ok_or_else(|| Fault::Inner(format!("Unable to remove nonexistent key: {last}: {MISSING}"))),
        Value::Array(items) => Ok(items.remove(index(&last, items.len())?)),
        _ => Err(Fault::NoContainer),
    }
}

/// An index below `length`; negative ones count from the end.
fn index(token: &str, length: usize) -> Result<usize, Fault> {
    let invalid = || Fault::Inner(format!("Unable to access invalid index: {token}: invalid index referenced"));
    let syntax = |_| Fault::Inner(format!("strconv.Atoi: parsing {token:?}: invalid syntax"));
    let number: i64 = token.parse().map_err(syntax)?;
    let length = i64::try_from(length).map_err(|_| invalid())?;
    let index = if number < 0 { number.saturating_add(length) } else { number };
    usize::try_from(index).ok().filter(|_| index < length).ok_or_else(invalid)
}

/// Equal as JSON; numbers by value.
fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| equal(a, b)))
        }
        _ => a == b,
    }
}

/// Levels of nesting: 0 for a scalar. Without recursion, as it guards against deep values.
fn depth(value: &Value) -> usize {
    let mut deepest = 0;
    let mut stack = vec![(value, 0)];
    while let Some((value, level)) = stack.pop() {
        deepest = deepest.max(level);
        match value {
            Value::Object(fields) => stack.extend(fields.values().map(|v| (v, level + 1))),
            Value::Array(items) => stack.extend(items.iter().map(|v| (v, level + 1))),
            _ => {}
        }
    }
    deepest
}

#[cfg(test)]
#[path = "json_patch_tests.rs"]
mod tests;
