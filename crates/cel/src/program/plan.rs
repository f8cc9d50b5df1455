//! From a checked expression to a program.

use std::sync::Arc;

use super::evaluate::{accepts, no_overload};
use super::node::{
    Attribute, Base, Call, Conditional, DeclaredField, List, Map, Matches, Node, Qualifier, QualifierKey, Relate,
    Struct,
};
use super::{Checked, PlanError, Program, Reference};
use crate::ast::{self, Expr, ExprKind, operators};
use crate::cost;
use crate::library::CallContext;
use crate::operations::Relation;
use crate::regexes::{self, RegexCache};
use crate::types::Type;
use crate::value::{Key, OwnedMap, Value};

/// Plans an expression.
pub(super) fn plan(checked: &Checked) -> Result<Program, PlanError> {
    let mut planner = Planner { checked, scopes: Vec::new(), locals: 0, next_slot: 0 };
    let root = planner.node(&checked.root)?;
    Ok(Program { root, locals: planner.locals, depth: depth(&checked.root) })
}

/// How deep an expression is nested; the parser limits it.
fn depth(expr: &Expr) -> u32 {
    let deepest = match &expr.kind {
        ExprKind::Unspecified | ExprKind::Literal(_) | ExprKind::Ident(_) => 0,
        ExprKind::Select { operand, .. } => depth(operand),
        ExprKind::Call(call) => call.target.iter().chain(&call.args).map(depth).max().unwrap_or(0),
        ExprKind::List { elements, .. } => elements.iter().map(depth).max().unwrap_or(0),
        ExprKind::Map(entries) => {
            entries.iter().flat_map(|entry| [&entry.key, &entry.value]).map(depth).max().unwrap_or(0)
        }
        ExprKind::Struct { fields, .. } => fields.iter().map(|field| depth(&field.value)).max().unwrap_or(0),
        ExprKind::Comprehension(fold) => {
            let parts = [&fold.iter_range, &fold.accu_init, &fold.loop_condition, &fold.loop_step, &fold.result];
            parts.into_iter().map(depth).max().unwrap_or(0)
        }
    };
    deepest + 1
}

pub(super) struct Planner<'c> {
    pub(super) checked: &'c Checked,
    /// Names of local variables and their slots, innermost last.
    pub(super) scopes: Vec<(Box<str>, u32)>,
    locals: u32,
    next_slot: u32,
}

impl Planner<'_> {
    pub(super) fn node(&mut self, expr: &Expr) -> Result<Node, PlanError> {
        match &expr.kind {
            ExprKind::Unspecified => Err(PlanError("unsupported expr".to_owned())),
            ExprKind::Literal(value) => Ok(Node::Const(value.clone())),
            ExprKind::Ident(name) => Ok(self.ident(expr.id, name)),
            ExprKind::Select { operand, field, test_only } => self.select(operand, field, *test_only),
            ExprKind::Call(call) => self.call(expr, call),
            ExprKind::List { elements, optionals } => self.list(elements, optionals),
            ExprKind::Map(entries) => self.map(entries),
            ExprKind::Struct { name, fields } => self.structure(name, fields),
            ExprKind::Comprehension(fold) => self.comprehension(fold),
        }
    }

    fn structure(&mut self, name: &str, fields: &[ast::StructField]) -> Result<Node, PlanError> {
        let fields = fields.iter().map(|field| Ok((field.name.clone(), self.node(&field.value)?, field.optional)));
        let fields = fields.collect::<Result<Box<[_]>, PlanError>>()?;
        Ok(Node::Struct(Box::new(Struct { name: Arc::from(name), fields })))
    }

    fn ident(&mut self, id: ast::ExprId, name: &str) -> Node {
        let slot = self.scopes.iter().rev().find(|(known, _)| **known == *name).map(|(_, slot)| *slot);
        let base = match (slot, self.checked.references.get(&id)) {
            (Some(slot), _) => Base::Local(slot),
            (None, Some(Reference::Name { value: Some(value) })) => return Node::Const(value.clone()),
            _ => Base::Variable(Box::from(name)),
        };
        Node::Attribute(Box::new(Attribute { base, qualifiers: Vec::new(), presence: false }))
    }

    fn select(&mut self, operand: &Expr, field: &str, test_only: bool) -> Result<Node, PlanError> {
        let key = self.field_key(operand, field);
        let operand = self.node(operand)?;
        let mut node = qualify(operand, Qualifier { key, optional: false });
        if test_only {
            match &mut node {
                Node::Attribute(attribute) => attribute.presence = true,
                Node::Conditional(conditional) => conditional.presence = true,
                _ => {}
            }
        }
        Ok(node)
    }

    fn field_key(&self, operand: &Expr, field: &str) -> QualifierKey {
        let operand_type = self.checked.type_of(operand.id);
        let target = operand_type.optional_inner().unwrap_or(operand_type);
        let declared = match target {
            Type::Object(object) => object.decl.declared_position(field).map(|(position, name)| DeclaredField {
                json_name: (name != field).then(|| Box::from(name)),
                position,
            }),
            _ => None,
        };
        QualifierKey::Field { name: Box::from(field), declared }
    }

    fn call(&mut self, expr: &Expr, call: &ast::Call) -> Result<Node, PlanError> {
        let overloads = self.checked.overloads(expr.id);
        match (&*call.function, call.args.as_slice()) {
            (operators::LOGICAL_AND, _) => {
                let mut terms = Vec::new();
                self.flatten(operators::LOGICAL_AND, expr, &mut terms)?;
                return Ok(Node::And(terms.into_boxed_slice()));
            }
            (operators::LOGICAL_OR, _) => {
                let mut terms = Vec::new();
                self.flatten(operators::LOGICAL_OR, expr, &mut terms)?;
                return Ok(Node::Or(terms.into_boxed_slice()));
            }
            (operators::CONDITIONAL, [condition, truthy, falsy]) => {
                return Ok(Node::Conditional(Box::new(Conditional {
                    condition: self.node(condition)?,
                    truthy: self.node(truthy)?,
                    falsy: self.node(falsy)?,
                    qualifiers: Vec::new(),
                    presence: false,
                })));
            }
            (operators::OPT_SELECT, [operand, field]) => {
                let ExprKind::Literal(Value::String(name)) = &field.kind else {
                    return Err(PlanError("unsupported optional field selection".to_owned()));
                };
                let key = self.field_key(operand, name);
                let operand = self.node(operand)?;
                return Ok(qualify(operand, Qualifier { key, optional: true }));
            }
            (operators::INDEX | operators::OPT_INDEX, [operand, index]) => {
                let operand = self.node(operand)?;
                let key = match self.node(index)? {
                    Node::Const(value) => QualifierKey::Const(value),
                    computed => QualifierKey::Computed(computed),
                };
                return Ok(qualify(operand, Qualifier { key, optional: &*call.function == operators::OPT_INDEX }));
            }
            _ => {}
        }
        let args = call.target.iter().chain(&call.args).map(|arg| self.node(arg)).collect::<Result<Vec<_>, _>>()?;
        self.strict_call(call, overloads, args)
    }

    /// Operands of a chain of one logical operator.
    fn flatten(&mut self, operator: &str, expr: &Expr, terms: &mut Vec<Node>) -> Result<(), PlanError> {
        match &expr.kind {
            ExprKind::Call(call) if &*call.function == operator => {
                call.args.iter().try_for_each(|arg| self.flatten(operator, arg, terms))
            }
            _ => {
                terms.push(self.node(expr)?);
                Ok(())
            }
        }
    }

    fn strict_call(
        &mut self,
        call: &ast::Call,
        overloads: &[Arc<crate::library::Overload>],
        args: Vec<Node>,
    ) -> Result<Node, PlanError> {
        let single = match overloads {
            [only] => Some(only),
            _ => None,
        };
        let function = &*call.function;
        let args = match <[Node; 1]>::try_from(args) {
            Ok([arg]) => match function {
                operators::LOGICAL_NOT => return Ok(Node::Not(Box::new(arg))),
                operators::NOT_STRICTLY_FALSE => return Ok(Node::NotStrictlyFalse(Box::new(arg))),
                _ => match arg {
                    Node::Const(value) if is_conversion(function) => {
                        return fold_conversion(function, overloads, value);
                    }
                    arg => vec![arg],
                },
            },
            Err(args) => args,
        };
        let args = match <[Node; 2]>::try_from(args) {
            Ok(operands) => match self.binary(function, call.target.is_some(), single, operands)? {
                Ok(node) => return Ok(node),
                Err(operands) => Vec::from(operands),
            },
            Err(args) => args,
        };
        Ok(Node::Call(Box::new(Call {
            function: Box::from(function),
            overloads: overloads.to_vec().into_boxed_slice(),
            args: args.into_boxed_slice(),
            costed: single.is_some() || !costs_by_certain_overload(function),
        })))
    }

    /// The special forms of binary operators and functions; other operands are given back.
    #[allow(clippy::type_complexity)]
    fn binary(
        &mut self,
        function: &str,
        is_member: bool,
        single: Option<&Arc<crate::library::Overload>>,
        operands: [Node; 2],
    ) -> Result<Result<Node, [Node; 2]>, PlanError> {
        let relation = match function {
            operators::EQUALS => return Ok(Ok(Node::Equal(Box::new(operands)))),
            operators::NOT_EQUALS => return Ok(Ok(Node::NotEqual(Box::new(operands)))),
            operators::LESS => Relation::Less,
            operators::LESS_EQUALS => Relation::LessEquals,
            operators::GREATER => Relation::Greater,
            operators::GREATER_EQUALS => Relation::GreaterEquals,
            "or" if single.is_some_and(|overload| overload.id == "optional_or_optional") => {
                return Ok(Ok(Node::OptionalOr(Box::new(operands))));
            }
            "orValue" if single.is_some_and(|overload| overload.id == "optional_orValue_value") => {
                return Ok(Ok(Node::OptionalOrValue(Box::new(operands))));
            }
            operators::IN if single.is_some_and(|overload| overload.id == "in_list") => {
                return Ok(one_of(operands));
            }
            "matches" => return constant_pattern(operands, is_member),
            // Compiled when it runs, but a pattern that cannot be is refused now.
            "find" | "findAll" => {
                if let [_, Node::Const(Value::String(pattern))] = &operands {
                    regexes::compile(pattern).map_err(PlanError)?;
                }
                return Ok(Err(operands));
            }
            _ => return Ok(Err(operands)),
        };
        let sized = single.is_some_and(|overload| overload.cost.is_some());
        Ok(Ok(Node::Relate(Box::new(Relate { relation, operands, sized }))))
    }

    fn list(&mut self, elements: &[Expr], optionals: &[u32]) -> Result<Node, PlanError> {
        let elements = elements.iter().map(|element| self.node(element)).collect::<Result<Vec<_>, _>>()?;
        if optionals.is_empty() && elements.iter().all(|element| matches!(element, Node::Const(_))) {
            let values = elements.into_iter().filter_map(constant).collect();
            return Ok(Node::Const(Value::list(values)));
        }
        Ok(Node::List(Box::new(List { elements: elements.into_boxed_slice(), optionals: Box::from(optionals) })))
    }

    fn map(&mut self, entries: &[ast::MapEntry]) -> Result<Node, PlanError> {
        let entries = entries
            .iter()
            .map(|entry| Ok((self.node(&entry.key)?, self.node(&entry.value)?, entry.optional)))
            .collect::<Result<Vec<_>, PlanError>>()?;
        if entries.iter().all(|entry| matches!(entry, (Node::Const(_), Node::Const(_), false))) {
            let mut map = OwnedMap::default();
            for (key, value, _) in &entries {
                let (Node::Const(key), Node::Const(value)) = (key, value) else { continue };
                let Some(name) = Key::from_value(key) else {
                    return Err(PlanError(format!("unsupported key type: {}", key.type_name())));
                };
                map.insert(name, value.clone());
            }
            return Ok(Node::Const(Value::Map(crate::value::Map::owned(map))));
        }
        Ok(Node::Map(Box::new(Map { entries: entries.into_boxed_slice() })))
    }

    /// Takes a slot for as long as `body` is planned, and binds it to a name.
    pub(super) fn scoped<T>(&mut self, name: &str, body: impl FnOnce(&mut Self, u32) -> T) -> T {
        let slot = self.next_slot;
        self.next_slot += 1;
        self.locals = self.locals.max(self.next_slot);
        self.scopes.push((Box::from(name), slot));
        let result = body(self, slot);
        self.scopes.pop();
        self.next_slot = slot;
        result
    }
}

fn constant(node: Node) -> Option<Value<'static>> {
    match node {
        Node::Const(value) => Some(value),
        _ => None,
    }
}

/// Goes one step further into what a node gives.
fn qualify(operand: Node, qualifier: Qualifier) -> Node {
    match operand {
        Node::Attribute(mut attribute) if !attribute.presence => {
            attribute.qualifiers.push(qualifier);
            Node::Attribute(attribute)
        }
        Node::Conditional(mut conditional) if !conditional.presence => {
            conditional.qualifiers.push(qualifier);
            Node::Conditional(conditional)
        }
        operand => Node::Attribute(Box::new(Attribute {
            base: Base::Operand(operand),
            qualifiers: vec![qualifier],
            presence: false,
        })),
    }
}

/// `x in [1, 2]`: a set, if all elements are scalars.
fn one_of([item, collection]: [Node; 2]) -> Result<Node, [Node; 2]> {
    let Node::Const(Value::List(list)) = &collection else { return Err([item, collection]) };
    if list.is_empty() {
        return Ok(Node::Const(Value::Bool(false)));
    }
    let values: Vec<Value<'static>> = list.iter().filter_map(Result::ok).collect();
    let is_scalar = |value: &Value<'_>| {
        matches!(value, Value::Bool(_) | Value::Int(_) | Value::Uint(_) | Value::Double(_) | Value::String(_))
    };
    if values.iter().all(is_scalar) {
        Ok(Node::OneOf(Box::new((item, values.into_boxed_slice()))))
    } else {
        Err([item, collection])
    }
}

#[allow(clippy::type_complexity)]
fn constant_pattern([text, pattern]: [Node; 2], costed: bool) -> Result<Result<Node, [Node; 2]>, PlanError> {
    let Node::Const(Value::String(source)) = &pattern else { return Ok(Err([text, pattern])) };
    let regex = Arc::new(regexes::compile(source).map_err(PlanError)?);
    let pattern_cost = cost::scale(source.chars().count() as u64, cost::REGEX_STRING_LENGTH_COST_FACTOR);
    Ok(Ok(Node::Matches(Box::new(Matches { text, regex, pattern_cost, costed }))))
}

/// Converts a constant once and for all.
fn fold_conversion(
    function: &str,
    overloads: &[Arc<crate::library::Overload>],
    value: Value<'static>,
) -> Result<Node, PlanError> {
    let args = [value];
    let mut regexes = RegexCache::default();
    let converted = match overloads.iter().find(|overload| accepts(overload, &args)) {
        Some(overload) => (overload.implementation)(&args, &mut CallContext { regexes: &mut regexes }),
        None => Err(no_overload(function, &args)),
    };
    converted.map(Node::Const).map_err(|error| PlanError(error.to_string()))
}

fn is_conversion(function: &str) -> bool {
    matches!(
        function,
        "bool" | "bytes" | "double" | "duration" | "dyn" | "int" | "string" | "timestamp" | "type" | "uint"
    )
}

/// Standard functions whose cost is looked up by overload, which is unknown for dynamic arguments.
fn costs_by_certain_overload(function: &str) -> bool {
    matches!(
        function,
        operators::ADD | operators::IN | "startsWith" | "endsWith" | "contains" | "matches" | "bytes" | "string"
    )
}
