//! Loops. The charges are those of the comprehension a macro expands to: looking at the accumulator, evaluating the
//! condition, and what the step builds.

use super::evaluate::{Frame, Outcome, Slot};
use super::node::{Fold, FoldKind, Node};
use crate::cost;
use crate::error::EvalError;
use crate::standard::{insert_new, owned};
use crate::value::{Map, OwnedMap, Value};

/// Looking at the accumulator.
const ACCU: u64 = cost::SELECT_AND_IDENT_COST;
/// A call of a function without costs of its own.
const CALL: u64 = 1;

/// Whether a loop goes on.
enum Flow {
    Continue,
    Stop,
}

impl<'a> Frame<'a, '_> {
    pub(super) fn fold(&mut self, fold: &'a Fold) -> Outcome<'a> {
        let range = self.evaluate(&fold.range)?;
        match &fold.kind {
            FoldKind::All(predicate) => self.quantify(fold, &range, predicate, false),
            FoldKind::Exists(predicate) => self.quantify(fold, &range, predicate, true),
            FoldKind::ExistsOne(predicate) => self.exists_one(fold, &range, predicate),
            FoldKind::Append { filter, element } => self.append(fold, &range, filter.as_ref(), element),
            FoldKind::Insert { filter, key, value } => {
                let mut entries = OwnedMap::default();
                self.each(fold, &range, |frame| {
                    if frame.passes(filter.as_ref())? {
                        frame.charge(ACCU)?;
                        let key = frame.evaluate(key)?;
                        let value = frame.evaluate(value)?;
                        frame.charge(CALL)?;
                        insert_new(&mut entries, &key, value)?;
                    }
                    Ok(Flow::Continue)
                })?;
                self.charge(ACCU)?;
                Ok(Value::Map(Map::owned(entries)))
            }
            FoldKind::InsertAll { filter, entries: added } => {
                let mut entries = OwnedMap::default();
                self.each(fold, &range, |frame| {
                    if frame.passes(filter.as_ref())? {
                        frame.charge(ACCU)?;
                        let Value::Map(map) = frame.evaluate(added)? else {
                            return Err(EvalError::no_such_overload());
                        };
                        frame.charge(CALL)?;
                        for (key, value) in owned(&map)?.entries() {
                            insert_new(&mut entries, &key.to_value(), value.clone())?;
                        }
                    }
                    Ok(Flow::Continue)
                })?;
                self.charge(ACCU)?;
                Ok(Value::Map(Map::owned(entries)))
            }
            FoldKind::General { accu, init, condition, step, result } => {
                self.set(*accu, Slot::Lazy(init));
                self.each(fold, &range, |frame| {
                    match frame.evaluate(condition) {
                        Ok(Value::Bool(false)) => return Ok(Flow::Stop),
                        Err(EvalError::CostLimitExceeded) => return Err(EvalError::CostLimitExceeded),
                        _ => {}
                    }
                    let next = match frame.evaluate(step) {
                        Ok(value) => Slot::Value(value),
                        Err(EvalError::CostLimitExceeded) => return Err(EvalError::CostLimitExceeded),
                        Err(error) => Slot::Error(error),
                    };
                    frame.set(*accu, next);
                    Ok(Flow::Continue)
                })?;
                self.evaluate(result)
            }
        }
    }

    /// `all` (decided by false) and `exists` (decided by true).
    fn quantify(&mut self, fold: &'a Fold, range: &Value<'a>, predicate: &'a Node, deciding: bool) -> Outcome<'a> {
        // `exists` also negates the accumulator in its condition.
        let condition_cost = if deciding { ACCU + CALL + CALL } else { ACCU + CALL };
        let mut decided = false;
        let mut failure: Option<EvalError> = None;
        self.each(fold, range, |frame| {
            frame.charge(condition_cost)?;
            if decided {
                return Ok(Flow::Stop);
            }
            frame.charge(ACCU)?;
            match frame.evaluate(predicate) {
                Ok(Value::Bool(flag)) if flag == deciding => {
                    decided = true;
                    failure = None;
                }
                Ok(Value::Bool(_)) => {}
                Ok(_) => {
                    failure.get_or_insert_with(EvalError::no_such_overload);
                }
                Err(EvalError::CostLimitExceeded) => return Err(EvalError::CostLimitExceeded),
                Err(error) => {
                    failure.get_or_insert(error);
                }
            }
            Ok(Flow::Continue)
        })?;
        self.charge(ACCU)?;
        match failure {
            Some(error) => Err(error),
            None => Ok(Value::Bool(decided == deciding)),
        }
    }

    /// Collects elements. After a failure the rest is evaluated, and charged, in vain.
    fn append(
        &mut self,
        fold: &'a Fold,
        range: &Value<'a>,
        filter: Option<&'a Node>,
        element: &'a Node,
    ) -> Outcome<'a> {
        let list_cost = if matches!(element, Node::Const(_)) { 0 } else { cost::LIST_CREATE_BASE_COST };
        let mut items = Vec::new();
        let mut failure = None;
        self.each(fold, range, |frame| {
            match frame.passes(filter) {
                Ok(false) => return Ok(Flow::Continue),
                Ok(true) => {}
                Err(EvalError::CostLimitExceeded) => return Err(EvalError::CostLimitExceeded),
                Err(error) => {
                    failure = Some(error);
                    return Ok(Flow::Continue);
                }
            }
            frame.charge(ACCU)?;
            match frame.evaluate(element) {
                Ok(item) => items.push(item),
                Err(EvalError::CostLimitExceeded) => return Err(EvalError::CostLimitExceeded),
                Err(error) => {
                    failure.get_or_insert(error);
                }
            }
            frame.charge(list_cost + CALL)?;
            Ok(Flow::Continue)
        })?;
        self.charge(ACCU)?;
        match failure {
            Some(error) => Err(error),
            None => Ok(Value::list(items)),
        }
    }

    fn exists_one(&mut self, fold: &'a Fold, range: &Value<'a>, predicate: &'a Node) -> Outcome<'a> {
        let mut count = 0u64;
        let mut failure = None;
        self.each(fold, range, |frame| {
            match frame.passes(Some(predicate)) {
                Ok(false) => {}
                Ok(true) => {
                    count += 1;
                    frame.charge(ACCU + CALL)?;
                }
                Err(EvalError::CostLimitExceeded) => return Err(EvalError::CostLimitExceeded),
                Err(error) => failure = Some(error),
            }
            Ok(Flow::Continue)
        })?;
        self.charge(ACCU + CALL)?;
        match failure {
            Some(error) => Err(error),
            None => Ok(Value::Bool(count == 1)),
        }
    }

    fn passes(&mut self, filter: Option<&'a Node>) -> Result<bool, EvalError> {
        match filter {
            None => Ok(true),
            Some(filter) => match self.evaluate(filter)? {
                Value::Bool(flag) => Ok(flag),
                _ => Err(EvalError::no_such_overload()),
            },
        }
    }

    /// Runs `body` for every element of the range, with the loop's variables set.
    fn each(
        &mut self,
        fold: &Fold,
        range: &Value<'a>,
        mut body: impl FnMut(&mut Self) -> Result<Flow, EvalError>,
    ) -> Result<(), EvalError> {
        match range {
            Value::List(list) => {
                for (position, item) in (0i64..).zip(list.iter()) {
                    let item = match item {
                        Ok(value) => Slot::Value(value),
                        Err(error) => Slot::Error(error),
                    };
                    match fold.var2 {
                        None => self.set(fold.var, item),
                        Some(second) => {
                            self.set(fold.var, Slot::Value(Value::Int(position)));
                            self.set(second, item);
                        }
                    }
                    if let Flow::Stop = body(self)? {
                        break;
                    }
                }
                Ok(())
            }
            Value::Map(map) => {
                for key in map.keys() {
                    if let Some(second) = fold.var2 {
                        let value = map.get(&key)?.unwrap_or(Value::Null);
                        self.set(second, Slot::Value(value));
                    }
                    self.set(fold.var, Slot::Value(key));
                    if let Flow::Stop = body(self)? {
                        break;
                    }
                }
                Ok(())
            }
            other => {
                let name = go_type(other);
                Err(EvalError::new(match fold.var2 {
                    None => format!("got '{name}', expected iterable type"),
                    Some(_) => format!("unsupported comprehension range type: {name}"),
                }))
            }
        }
    }
}

/// How cel-go calls the Rust variant in this one message.
fn go_type(value: &Value<'_>) -> &'static str {
    match value {
        Value::Null => "types.Null",
        Value::Bool(_) => "types.Bool",
        Value::Int(_) => "types.Int",
        Value::Uint(_) => "types.Uint",
        Value::Double(_) => "types.Double",
        Value::String(_) => "types.String",
        Value::Bytes(_) => "types.Bytes",
        Value::Timestamp(_) => "types.Timestamp",
        Value::Duration(_) => "types.Duration",
        Value::Optional(_) => "*types.Optional",
        _ => "*types.Type",
    }
}
