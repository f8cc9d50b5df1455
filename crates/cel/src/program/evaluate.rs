//! Running programs. Every step charges what cel-go's cost tracker would charge for it.

use super::node::{Call, List, Map, Matches, Node, Relate, Struct};
use super::{Bindings, Budget, LazyVariables, Program};
use crate::ast::operators;
use crate::cost;
use crate::error::EvalError;
use crate::library::{CallContext, Overload};
use crate::operations;
use crate::regexes::RegexCache;
use crate::types::Type;
use crate::value::{Key, OwnedMap, Value};

pub(super) type Outcome<'a> = Result<Value<'a>, EvalError>;

/// Runs a program.
pub(super) fn run<'a>(
    program: &'a Program,
    bindings: &'a Bindings<'a>,
    variables: Option<&mut LazyVariables<'a>>,
    budget: &mut Budget,
) -> Outcome<'a> {
    let mut slots = Vec::new();
    slots.resize_with(program.locals as usize, || Slot::Unset);
    let mut frame = Frame { bindings, variables, slots, budget, regexes: RegexCache::default() };
    frame.evaluate(&program.root)
}

/// What an evaluation works with.
pub(super) struct Frame<'a, 'b> {
    pub(super) bindings: &'a Bindings<'a>,
    pub(super) variables: Option<&'b mut LazyVariables<'a>>,
    pub(super) slots: Vec<Slot<'a>>,
    pub(super) budget: &'b mut Budget,
    regexes: RegexCache,
}

/// A local variable.
#[derive(Clone, Debug)]
pub(super) enum Slot<'a> {
    Unset,
    /// To be computed when it is needed.
    Lazy(&'a Node),
    Value(Value<'a>),
    Error(EvalError),
}

impl<'a> Frame<'a, '_> {
    pub(super) fn evaluate(&mut self, node: &'a Node) -> Outcome<'a> {
        match node {
            Node::Const(value) => Ok(constant(value)),
            Node::Attribute(attribute) => {
                let value = self.attribute(attribute);
                if !attribute.presence {
                    self.charge(cost::SELECT_AND_IDENT_COST)?;
                }
                value
            }
            Node::Conditional(conditional) => self.conditional(conditional),
            Node::And(terms) => self.logical(terms, false),
            Node::Or(terms) => self.logical(terms, true),
            Node::Not(operand) => {
                let value = self.evaluate(operand);
                self.charge(1)?;
                match value? {
                    Value::Bool(flag) => Ok(Value::Bool(!flag)),
                    _ => Err(EvalError::no_such_overload()),
                }
            }
            Node::NotStrictlyFalse(operand) => {
                let value = self.evaluate(operand);
                self.charge(1)?;
                match value {
                    Err(EvalError::CostLimitExceeded) => Err(EvalError::CostLimitExceeded),
                    Ok(Value::Bool(false)) => Ok(Value::Bool(false)),
                    _ => Ok(Value::Bool(true)),
                }
            }
            Node::Equal(operands) => self.equality(operands).map(Value::Bool),
            Node::NotEqual(operands) => self.equality(operands).map(|equal| Value::Bool(!equal)),
            Node::Relate(relate) => self.relate(relate),
            Node::OneOf(membership) => {
                let item = self.evaluate(&membership.0)?;
                for candidate in &membership.1 {
                    if operations::equals(&item, candidate)? {
                        return Ok(Value::Bool(true));
                    }
                }
                Ok(Value::Bool(false))
            }
            Node::OptionalOr(operands) => {
                let [first, second] = &**operands;
                match self.evaluate(first)? {
                    Value::Optional(Some(inner)) => Ok(Value::Optional(Some(inner))),
                    Value::Optional(None) => self.evaluate(second),
                    _ => Err(EvalError::no_such_overload()),
                }
            }
            Node::OptionalOrValue(operands) => {
                let [first, second] = &**operands;
                match self.evaluate(first)? {
                    Value::Optional(Some(inner)) => Ok(Value::clone(&inner)),
                    Value::Optional(None) => self.evaluate(second),
                    _ => Err(EvalError::no_such_overload()),
                }
            }
            Node::Matches(matches) => self.matches(matches),
            Node::Call(call) => self.call(call),
            Node::List(list) => self.list(list),
            Node::Map(map) => self.map(map),
            Node::Struct(structure) => self.structure(structure),
            Node::Bind(bind) => {
                self.set(bind.slot, Slot::Lazy(&bind.init));
                self.evaluate(&bind.result)
            }
            Node::Fold(fold) => self.fold(fold),
        }
    }

    pub(super) fn charge(&mut self, cost: u64) -> Result<(), EvalError> {
        self.budget.charge(cost)
    }

    pub(super) fn set(&mut self, slot: u32, value: Slot<'a>) {
        if let Some(place) = self.slots.get_mut(slot as usize) {
            *place = value;
        }
    }

    /// `&&` (decided by false) or `||` (decided by true): errors count only if nothing decides.
    fn logical(&mut self, terms: &'a [Node], deciding: bool) -> Outcome<'a> {
        let mut failure = None;
        for term in terms {
            match self.evaluate(term) {
                Ok(Value::Bool(flag)) if flag == deciding => return Ok(Value::Bool(deciding)),
                Ok(Value::Bool(_)) => {}
                Ok(_) => {
                    failure.get_or_insert_with(EvalError::no_such_overload);
                }
                Err(EvalError::CostLimitExceeded) => return Err(EvalError::CostLimitExceeded),
                Err(error) => {
                    failure.get_or_insert(error);
                }
            }
        }
        match failure {
            Some(error) => Err(error),
            None => Ok(Value::Bool(!deciding)),
        }
    }

    /// Both operands, evaluated whether or not the first fails.
    fn operands(&mut self, operands: &'a [Node; 2]) -> Result<(Value<'a>, Value<'a>), EvalError> {
        let [first, second] = operands;
        match (self.evaluate(first), self.evaluate(second)) {
            (Ok(first), Ok(second)) => Ok((first, second)),
            (Err(EvalError::CostLimitExceeded), _) | (_, Err(EvalError::CostLimitExceeded)) => {
                Err(EvalError::CostLimitExceeded)
            }
            (Err(error), _) | (_, Err(error)) => {
                self.charge(1)?;
                Err(error)
            }
        }
    }

    fn equality(&mut self, operands: &'a [Node; 2]) -> Result<bool, EvalError> {
        let (first, second) = self.operands(operands)?;
        let cost = match (&first, &second) {
            (Value::Opaque(_), _) => 1,
            _ => cost::scale(first.cost_size().min(second.cost_size()), cost::STRING_TRAVERSAL_COST_FACTOR),
        };
        self.charge(cost)?;
        operations::equals(&first, &second)
    }

    fn relate(&mut self, relate: &'a Relate) -> Outcome<'a> {
        let (first, second) = self.operands(&relate.operands)?;
        let cost = if relate.sized {
            cost::scale(first.cost_size().min(second.cost_size()), cost::STRING_TRAVERSAL_COST_FACTOR)
        } else {
            1
        };
        self.charge(cost)?;
        operations::compare(&first, &second).map(|ordering| Value::Bool(relate.relation.holds(ordering)))
    }

    fn matches(&mut self, matches: &'a Matches) -> Outcome<'a> {
        let Value::String(text) = self.evaluate(&matches.text)? else {
            self.charge(1)?;
            return Err(EvalError::no_such_overload());
        };
        if matches.costed {
            let size = (text.chars().count() as u64).saturating_add(1);
            let cost = cost::scale(size, cost::STRING_TRAVERSAL_COST_FACTOR);
            self.charge(cost.saturating_mul(matches.pattern_cost))?;
        } else {
            self.charge(1)?;
        }
        Ok(Value::Bool(matches.regex.is_match(text.as_bytes())))
    }

    fn call(&mut self, call: &'a Call) -> Outcome<'a> {
        match &*call.args {
            [] => self.invoke(call, &[]),
            [one] => {
                let one = self.evaluate(one);
                if one.as_ref().is_err_and(|error| *error != EvalError::CostLimitExceeded) {
                    self.charge(1)?;
                }
                self.invoke(call, &[one?])
            }
            [one, two] => {
                let (one, two) = (self.evaluate(one), self.evaluate(two));
                match (one, two) {
                    (Ok(one), Ok(two)) => self.invoke(call, &[one, two]),
                    (Err(EvalError::CostLimitExceeded), _) | (_, Err(EvalError::CostLimitExceeded)) => {
                        Err(EvalError::CostLimitExceeded)
                    }
                    (Err(error), _) | (_, Err(error)) => {
                        self.charge(1)?;
                        Err(error)
                    }
                }
            }
            [one, two, three] => {
                let args = [self.evaluate(one)?, self.evaluate(two)?, self.evaluate(three)?];
                self.invoke(call, &args)
            }
            many => {
                let args = many.iter().map(|arg| self.evaluate(arg)).collect::<Result<Vec<_>, _>>()?;
                self.invoke(call, &args)
            }
        }
    }

    fn invoke(&mut self, call: &'a Call, args: &[Value<'a>]) -> Outcome<'a> {
        let Some(overload) = call.overloads.iter().find(|overload| accepts(overload, args)) else {
            self.charge(1)?;
            return Err(unmatched(&call.function, args));
        };
        let result = (overload.implementation)(args, &mut CallContext { regexes: &mut self.regexes });
        let cost = match (&result, overload.cost) {
            (Ok(value), Some(cost)) if call.costed => cost(args, value).unwrap_or(1),
            // The result counts for few functions only; the arguments do for all.
            (Err(_), Some(cost)) if call.costed => cost(args, &Value::Null).unwrap_or(1),
            _ => 1,
        };
        self.charge(cost)?;
        result
    }

    /// A part of a container; if it fails the container is charged for all the same.
    fn part(&mut self, node: &'a Node, container_cost: u64) -> Outcome<'a> {
        let value = self.evaluate(node);
        if value.as_ref().is_err_and(|error| *error != EvalError::CostLimitExceeded) {
            self.charge(container_cost)?;
        }
        value
    }

    fn list(&mut self, list: &'a List) -> Outcome<'a> {
        let mut items = Vec::with_capacity(list.elements.len());
        for (at, element) in (0u32..).zip(&list.elements) {
            let value = self.part(element, cost::LIST_CREATE_BASE_COST)?;
            if !list.optionals.contains(&at) {
                items.push(value);
                continue;
            }
            match value {
                Value::Optional(Some(inner)) => items.push(Value::clone(&inner)),
                Value::Optional(None) => {}
                other => {
                    let shown = operations::to_text(&other);
                    return Err(EvalError::new(format!(
                        "cannot initialize optional list element from non-optional value {shown}"
                    )));
                }
            }
        }
        self.charge(cost::LIST_CREATE_BASE_COST)?;
        Ok(Value::list(items))
    }

    fn map(&mut self, map: &'a Map) -> Outcome<'a> {
        let mut entries = OwnedMap::default();
        for (key, value, optional) in &map.entries {
            let key = self.part(key, cost::MAP_CREATE_BASE_COST)?;
            let mut value = self.part(value, cost::MAP_CREATE_BASE_COST)?;
            if *optional {
                value = match value {
                    Value::Optional(Some(inner)) => Value::clone(&inner),
                    Value::Optional(None) => continue,
                    other => {
                        let (key, shown) = (operations::to_text(&key), operations::to_text(&other));
                        return Err(EvalError::new(format!(
                            "cannot initialize optional entry '{key}' from non-optional value {shown}"
                        )));
                    }
                };
            }
            let name = Key::from_value(&key)
                .ok_or_else(|| EvalError::new(format!("unsupported key type: {}", key.type_name())))?;
            entries.insert(name, value);
        }
        self.charge(cost::MAP_CREATE_BASE_COST)?;
        Ok(Value::Map(crate::value::Map::owned(entries)))
    }
}

impl<'a> Frame<'a, '_> {
    fn structure(&mut self, structure: &'a Struct) -> Outcome<'a> {
        let mut fields = Vec::with_capacity(structure.fields.len());
        for (name, value, optional) in &structure.fields {
            let mut value = self.part(value, cost::STRUCT_CREATE_BASE_COST)?;
            if *optional {
                value = match value {
                    Value::Optional(Some(inner)) => Value::clone(&inner),
                    Value::Optional(None) => continue,
                    other => {
                        let shown = operations::to_text(&other);
                        return Err(EvalError::new(format!(
                            "cannot initialize optional entry '{name}' from non-optional value {shown}"
                        )));
                    }
                };
            }
            fields.push((&**name, value));
        }
        self.charge(cost::STRUCT_CREATE_BASE_COST)?;
        crate::value::Structure::new(&structure.name, fields).map(|value| Value::Struct(value.into()))
    }
}

/// A constant as a value of the evaluation: text is borrowed, not counted.
pub(super) fn constant<'a>(value: &'a Value<'static>) -> Value<'a> {
    match value {
        Value::String(text) => Value::string(&**text),
        Value::Bytes(bytes) => Value::bytes(&**bytes),
        other => other.clone(),
    }
}

/// The error of a call with arguments of the wrong types; operators do not say which.
pub(super) fn no_overload(function: &str, args: &[Value<'_>]) -> EvalError {
    match function {
        operators::ADD
        | operators::SUBTRACT
        | operators::MULTIPLY
        | operators::DIVIDE
        | operators::MODULO
        | operators::NEGATE
        | operators::IN
        | "startsWith"
        | "endsWith"
        | "contains"
        | "matches" => EvalError::no_such_overload(),
        "size" => EvalError::new("no such overload: size"),
        _ => {
            let types: Vec<&str> = args.iter().map(Value::type_name).collect();
            EvalError::new(format!("no such overload: {function}({})", types.join(", ")))
        }
    }
}

/// Whether the arguments have the types the overload declares, as far as values show their types.
pub(super) fn accepts(overload: &Overload, args: &[Value<'_>]) -> bool {
    overload.params.len() == args.len() && overload.params.iter().zip(args).all(|(param, arg)| fits(param, arg))
}

fn fits(param: &Type, arg: &Value<'_>) -> bool {
    match (param, arg) {
        (Type::Dyn | Type::Param(_) | Type::Error | Type::Variable(_), _) => true,
        (Type::Null, Value::Null)
        | (Type::Bool, Value::Bool(_))
        | (Type::Int, Value::Int(_))
        | (Type::Uint, Value::Uint(_))
        | (Type::Double, Value::Double(_))
        | (Type::String, Value::String(_))
        | (Type::Bytes, Value::Bytes(_))
        | (Type::Timestamp, Value::Timestamp(_))
        | (Type::Duration, Value::Duration(_))
        | (Type::Map(_) | Type::Object(_), Value::Map(_))
        | (Type::Type(_), Value::Type(_)) => true,
        // The first item tells overloads by element type apart; an empty list is of every type.
        (Type::List(element), Value::List(list)) => match (&**element, list.get(0)) {
            (Type::Dyn | Type::Param(_), _) | (_, None | Some(Err(_))) => true,
            (element, Some(Ok(first))) => fits(element, &first),
        },
        (Type::Wrapper(primitive), value) => matches!(value, Value::Null) || fits(&primitive.as_type(), value),
        (Type::Opaque(opaque), Value::Optional(_)) => &*opaque.name == crate::types::OPTIONAL_TYPE,
        (Type::Opaque(_) | Type::Struct(_), Value::Opaque(value)) => value.type_name() == param.type_name(),
        _ => false,
    }
}

/// What is said when no signature takes the arguments. How much cel-go says depends on how it binds the function.
fn unmatched(function: &str, args: &[Value<'_>]) -> EvalError {
    match function {
        "startsWith" | "endsWith" | "contains" | "matches" | "find" | "findAll" => EvalError::no_such_overload(),
        operator if operator.starts_with(['_', '!', '-', '@']) => EvalError::no_such_overload(),
        "size" | "sort" => EvalError::new(format!("no such overload: {function}")),
        _ => {
            let types: Vec<&str> = args.iter().map(Value::type_name).collect();
            EvalError::new(format!("no such overload: {function}({})", types.join(", ")))
        }
    }
}
