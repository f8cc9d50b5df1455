//! Variables and the way into them. A missing field is an error, unless the way is optional or only its end is
//! looked for.

use serde_json::{Map as JsonMap, Value as Json};

use super::evaluate::{Frame, Outcome, Slot, constant};
use super::node::{Attribute, Base, Conditional, DeclaredField, Node, Qualifier, QualifierKey};
use crate::decl::{DeclKind, DeclType};
use crate::error::EvalError;
use crate::operations::to_text;
use crate::value::{List, Map, Value};

impl<'a> Frame<'a, '_> {
    /// The value of an attribute, without the charge for the attribute itself.
    pub(super) fn attribute(&mut self, attribute: &'a Attribute) -> Outcome<'a> {
        let base = match &attribute.base {
            Base::Variable(name) => match self.bindings.get(name) {
                Some(Value::Map(Map::Json { members, decl })) if !attribute.qualifiers.is_empty() => {
                    return self.declared(members, decl, &attribute.qualifiers, attribute.presence);
                }
                Some(value) => value.clone(),
                None => match &*attribute.qualifiers {
                    // `has(variables.x)` and `variables.?x`; a plain `variables.x` is a name of its own.
                    [Qualifier { key: QualifierKey::Field { name: member, .. }, optional }, rest @ ..]
                        if self.is_lazy_member(name, member) =>
                    {
                        if attribute.presence && rest.is_empty() {
                            self.charge(1)?;
                            return Ok(Value::Bool(true));
                        }
                        let value = self.lazy(&format!("{name}.{member}"))?;
                        let value = if *optional { Value::some(value) } else { value };
                        return if rest.is_empty() { Ok(value) } else { self.qualify(value, rest, attribute.presence) };
                    }
                    _ => self.lazy(name)?,
                },
            },
            Base::Local(slot) => match self.slots.get(*slot as usize) {
                Some(Slot::Value(Value::Map(Map::Json { members, decl }))) if !attribute.qualifiers.is_empty() => {
                    let (members, decl) = (*members, *decl);
                    return self.declared(members, decl, &attribute.qualifiers, attribute.presence);
                }
                _ => self.local(*slot)?,
            },
            Base::Operand(operand) => self.evaluate(operand)?,
        };
        if attribute.qualifiers.is_empty() {
            return Ok(base);
        }
        self.qualify(base, &attribute.qualifiers, attribute.presence)
    }

    /// The usual way: declared fields of JSON objects, followed without making values of the objects in between.
    /// From the first step that is anything else on, the general way goes on.
    fn declared(
        &mut self,
        mut members: &'a JsonMap<String, Json>,
        mut decl: &'a DeclType,
        qualifiers: &'a [Qualifier],
        presence: bool,
    ) -> Outcome<'a> {
        let mut rest = qualifiers;
        while let [
            Qualifier { key: QualifierKey::Field { name, declared: Some(declared) }, optional: false },
            next @ ..,
        ] = rest
        {
            let json_name = declared.json_name.as_deref().unwrap_or(name);
            let Some(field) = decl.field_at(declared.position, json_name) else { break };
            let json = members.get(json_name).filter(|json| !json.is_null());
            self.charge(1)?;
            let Some(json) = json else {
                return if presence && next.is_empty() {
                    Ok(Value::Bool(false))
                } else {
                    Err(EvalError::no_such_key(name))
                };
            };
            if next.is_empty() {
                let value = field.decl.view(json)?;
                return Ok(if presence { Value::Bool(true) } else { value });
            }
            let (Json::Object(inner), DeclKind::Object { .. }) = (json, &field.decl.kind) else {
                let value = field.decl.view(json)?;
                return self.qualify(value, next, presence);
            };
            members = inner;
            decl = &field.decl;
            rest = next;
        }
        self.qualify(Value::Map(Map::Json { members, decl }), rest, presence)
    }

    fn is_lazy_member(&self, name: &str, member: &str) -> bool {
        self.variables.as_ref().is_some_and(|variables| variables.has(&format!("{name}.{member}")))
    }

    /// A variable that is computed when it is first needed; naming it is a step into the object that holds them all.
    fn lazy(&mut self, name: &str) -> Outcome<'a> {
        let bindings = self.bindings;
        let found = self.variables.as_deref_mut().and_then(|variables| variables.get(name, bindings));
        let Some(outcome) = found else { return Err(EvalError::new(format!("no such attribute(s): {name}"))) };
        self.charge(1)?;
        outcome
    }

    fn local(&mut self, slot: u32) -> Outcome<'a> {
        let lazy = match self.slots.get(slot as usize) {
            Some(Slot::Value(value)) => return Ok(value.clone()),
            Some(Slot::Error(error)) => return Err(error.clone()),
            Some(Slot::Lazy(node)) => *node,
            Some(Slot::Unset) | None => return Err(EvalError::new("no such attribute(s): @result")),
        };
        let outcome = self.evaluate(lazy);
        let kept = match &outcome {
            Ok(value) => Slot::Value(value.clone()),
            Err(error) => Slot::Error(error.clone()),
        };
        self.set(slot, kept);
        outcome
    }

    pub(super) fn conditional(&mut self, conditional: &'a Conditional) -> Outcome<'a> {
        let branch = match self.evaluate(&conditional.condition)? {
            Value::Bool(true) => &conditional.truthy,
            Value::Bool(false) => &conditional.falsy,
            _ => return Err(EvalError::no_such_overload()),
        };
        let value = self.unobserved(branch)?;
        if conditional.qualifiers.is_empty() {
            return Ok(value);
        }
        self.qualify(value, &conditional.qualifiers, conditional.presence)
    }

    /// A node's value; an attribute is not charged for being one.
    fn unobserved(&mut self, node: &'a Node) -> Outcome<'a> {
        match node {
            Node::Attribute(attribute) => self.attribute(attribute),
            other => self.evaluate(other),
        }
    }

    fn qualify(&mut self, base: Value<'a>, qualifiers: &'a [Qualifier], presence: bool) -> Outcome<'a> {
        let mut value = base;
        let mut optional = false;
        match value {
            Value::Optional(None) => return Ok(if presence { Value::Bool(false) } else { Value::none() }),
            Value::Optional(Some(inner)) => {
                optional = true;
                value = Value::clone(&inner);
            }
            _ => {}
        }
        for (left, qualifier) in (0..qualifiers.len()).rev().zip(qualifiers) {
            optional |= qualifier.optional;
            let only_looked_for = presence && left == 0;
            let found = self.step(&value, qualifier, optional || only_looked_for)?;
            if only_looked_for {
                self.charge(1)?;
                return Ok(Value::Bool(found.is_some()));
            }
            match found {
                Some(next) => {
                    self.charge(1)?;
                    value = next;
                }
                None => return Ok(if presence { Value::Bool(false) } else { Value::none() }),
            }
        }
        Ok(if optional { Value::some(value) } else { value })
    }

    /// One step; `None` for something absent, which is an error where it must be there.
    fn step(
        &mut self,
        value: &Value<'a>,
        qualifier: &'a Qualifier,
        may_be_absent: bool,
    ) -> Result<Option<Value<'a>>, EvalError> {
        let found = match &qualifier.key {
            QualifierKey::Field { name, declared } => match value {
                Value::Map(map) => field(map, name, declared.as_ref())?,
                Value::Struct(structure) => structure.member(name),
                Value::List(_) => {
                    self.charge(1)?;
                    return Err(EvalError::new("unsupported index type 'string' in list"));
                }
                _ => None,
            },
            QualifierKey::Const(key) => return self.index(value, &constant(key), may_be_absent),
            QualifierKey::Computed(node) => {
                let key = self.unobserved(node)?;
                return self.index(value, &key, may_be_absent);
            }
        };
        if found.is_none() && !may_be_absent {
            self.charge(1)?;
            let QualifierKey::Field { name, .. } = &qualifier.key else { return Ok(None) };
            return Err(EvalError::no_such_key(name));
        }
        Ok(found)
    }

    fn index(
        &mut self,
        value: &Value<'a>,
        key: &Value<'a>,
        may_be_absent: bool,
    ) -> Result<Option<Value<'a>>, EvalError> {
        let found = match value {
            Value::Map(map) => map.get(key),
            Value::List(list) => at(list, key),
            _ => Ok(None),
        };
        if found.is_err() {
            self.charge(1)?;
        }
        let found = found?;
        if found.is_none() && !may_be_absent {
            self.charge(1)?;
            return Err(match value {
                Value::List(_) => EvalError::new(format!("index out of bounds: {}", to_text(key))),
                _ => EvalError::no_such_key(to_text(key)),
            });
        }
        Ok(found)
    }
}

fn field<'a>(map: &Map<'a>, name: &str, declared: Option<&DeclaredField>) -> Result<Option<Value<'a>>, EvalError> {
    if let (Map::Json { members, decl }, Some(declared)) = (map, declared)
        && matches!(decl.kind, DeclKind::Object { .. })
    {
        let json_name = declared.json_name.as_deref().unwrap_or(name);
        if let Some(field) = decl.field_at(declared.position, json_name) {
            return match members.get(json_name) {
                Some(json) if !json.is_null() => field.decl.view(json).map(Some),
                _ => Ok(None),
            };
        }
    }
    map.get_str(name)
}

fn at<'a>(list: &List<'a>, index: &Value<'_>) -> Result<Option<Value<'a>>, EvalError> {
    let unsupported = || EvalError::new(format!("unsupported index value {} in list", to_text(index)));
    let position = match index {
        Value::Int(number) => *number,
        Value::Uint(number) => i64::try_from(*number).map_err(|_| unsupported())?,
        Value::Double(number) => {
            let whole = *number as i64;
            if whole as f64 != *number {
                return Err(unsupported());
            }
            whole
        }
        other => return Err(EvalError::new(format!("unsupported index type '{}' in list", other.type_name()))),
    };
    match usize::try_from(position) {
        Ok(position) => list.get(position).transpose(),
        Err(_) => Ok(None),
    }
}
