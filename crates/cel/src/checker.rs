//! The type checker: finds out the type of every subexpression, what every name means and which signatures every
//! call may have. Its messages are cel-go's.

mod patch_types;
mod unify;
mod validate;

use std::collections::HashMap;
use std::sync::Arc;

use crate::ast::{Ast, Call, Comprehension, Expr, ExprId, ExprKind, MapEntry, operators, qualified_name};
use crate::env::{Checking, Env};
use crate::library::{Overload, Style};
use crate::program::{Checked, Reference};
use crate::source::{Issues, Lines, Location};
use crate::types::Type;
use crate::value::Value;

use unify::{Substitutions, Unbound, most_general};

/// Checks a parsed expression.
pub(crate) fn check(env: &Env, text: &str, ast: Ast) -> Result<Checked, Issues> {
    let chars: Vec<char> = text.chars().collect();
    let Ast { mut root, offsets } = ast;
    let mut checker = Checker {
        env,
        lines: Lines::new(&chars),
        types: vec![Type::Error; offsets.len()],
        references: HashMap::new(),
        offsets,
        issues: Issues::new(text),
        substitutions: Substitutions::default(),
        scopes: Vec::new(),
    };
    checker.check(&mut root);
    let Checker { mut types, substitutions, references, mut issues, lines, offsets, .. } = checker;
    for ty in &mut types {
        *ty = substitutions.resolve(ty, Unbound::Dyn);
    }
    if issues.is_empty() {
        validate::validate(&root, &types, &env.inner, &mut |id, message| {
            issues.report(lines.locate(offsets.get(id as usize).copied().unwrap_or(0)), message);
        });
    }
    if !issues.is_empty() {
        return Err(issues);
    }
    Ok(Checked { env: env.clone(), root, types, references })
}

struct Checker<'e> {
    env: &'e Env,
    lines: Lines,
    offsets: Vec<u32>,
    types: Vec<Type>,
    references: HashMap<ExprId, Reference>,
    issues: Issues,
    substitutions: Substitutions,
    /// Variables of comprehensions, innermost last.
    scopes: Vec<(Box<str>, Type)>,
}

/// What a name stands for.
struct Named {
    name: Box<str>,
    ty: Type,
    value: Option<Value<'static>>,
}

impl Checker<'_> {
    fn check(&mut self, expr: &mut Expr) {
        match &mut expr.kind {
            ExprKind::Unspecified => self.error(expr.id, "unexpected unspecified type: exprImpl"),
            ExprKind::Literal(value) => {
                let ty = literal_type(value);
                self.set_type(expr.id, ty);
            }
            ExprKind::Ident(_) => self.check_ident(expr),
            ExprKind::Select { .. } => self.check_select(expr),
            ExprKind::Call(_) => self.check_call(expr),
            ExprKind::List { elements, optionals } => self.check_list(expr.id, elements, optionals),
            ExprKind::Map(entries) => self.check_map(expr.id, entries),
            ExprKind::Struct { .. } => self.check_struct(expr),
            ExprKind::Comprehension(fold) => self.check_comprehension(expr.id, fold),
        }
    }

    fn check_ident(&mut self, expr: &mut Expr) {
        let ExprKind::Ident(name) = &expr.kind else { return };
        match self.lookup(name) {
            Some(named) => self.resolve_to(expr, named),
            None => {
                let message = self.undeclared(name);
                self.error(expr.id, message);
            }
        }
    }

    fn resolve_to(&mut self, expr: &mut Expr, named: Named) {
        self.set_type(expr.id, named.ty);
        self.references.insert(expr.id, Reference::Name { value: named.value });
        expr.kind = ExprKind::Ident(named.name);
    }

    fn check_select(&mut self, expr: &mut Expr) {
        if let Some(name) = qualified_name(expr)
            && let Some(named) = self.lookup(&name)
        {
            self.resolve_to(expr, named);
            return;
        }
        let id = expr.id;
        let ExprKind::Select { operand, field, test_only } = &mut expr.kind else { return };
        let selected = self.select_field(id, operand, field, Optional::Plain);
        let ty = if *test_only { Type::Bool } else { selected };
        self.set_type(id, ty);
    }

    fn select_field(&mut self, id: ExprId, operand: &mut Expr, field: &str, optional: Optional) -> Type {
        self.check(operand);
        let operand_type = self.substitutions.resolve(self.type_of(operand.id), Unbound::Keep);
        let (target, is_optional) = match operand_type.optional_inner() {
            Some(inner) => (inner.clone(), true),
            None => (operand_type, false),
        };
        let result = match &target {
            Type::Map(entry) => entry.1.clone(),
            Type::Object(object) => {
                let found = object.decl.field_by_escaped(field);
                let ty = found.and_then(|found| found.decl.cel_type(&format!("{}.{field}", object.name)));
                ty.unwrap_or_else(|| {
                    self.error(id, format!("undefined field '{field}'"));
                    Type::Error
                })
            }
            Type::Struct(name) => patch_types::field(self.env.inner.messages, name, field).unwrap_or_else(|| {
                self.error(id, format!("unexpected failed resolution of '{name}'"));
                Type::Error
            }),
            Type::Variable(_) => {
                self.substitutions.assignable(&[(&Type::Dyn, &target)]);
                Type::Dyn
            }
            other => {
                if !other.is_dyn_or_error() {
                    self.error(id, format!("type '{other}' does not support field selection"));
                }
                Type::Dyn
            }
        };
        let result = self.substitutions.resolve(&result, Unbound::Keep);
        if is_optional || optional == Optional::Optional { Type::optional(result) } else { result }
    }

    fn check_call(&mut self, expr: &mut Expr) {
        let id = expr.id;
        let ExprKind::Call(call) = &mut expr.kind else { return };
        if &*call.function == operators::OPT_SELECT {
            self.check_optional_select(id, call);
            return;
        }
        for arg in &mut call.args {
            self.check(arg);
        }
        let Some(target) = &mut call.target else {
            match self.lookup_function(&call.function) {
                Some((name, overloads)) => {
                    call.function = name;
                    self.resolve_overloads(id, call, &overloads);
                }
                None => {
                    let message = self.undeclared(&call.function);
                    self.error(id, message);
                }
            }
            return;
        };
        // The receiver may turn out to be a part of a qualified function name.
        if let Some(prefix) = qualified_name(target)
            && let Some((name, overloads)) = self.lookup_function(&format!("{prefix}.{}", call.function))
        {
            call.function = name;
            call.target = None;
            self.resolve_overloads(id, call, &overloads);
            return;
        }
        self.check(target);
        match self.lookup_function(&call.function) {
            Some((_, overloads)) => self.resolve_overloads(id, call, &overloads),
            None => {
                let message = self.undeclared(&call.function);
                self.error(id, message);
            }
        }
    }

    fn check_optional_select(&mut self, id: ExprId, call: &mut Call) {
        let [operand, field] = call.args.as_mut_slice() else { return };
        let ExprKind::Literal(Value::String(name)) = &field.kind else {
            self.error(field.id, "unsupported optional field selection");
            return;
        };
        let name = name.to_string();
        self.set_type(field.id, Type::String);
        let ty = self.select_field(id, operand, &name, Optional::Optional);
        self.set_type(id, ty);
    }

    fn resolve_overloads(&mut self, id: ExprId, call: &Call, overloads: &[Arc<Overload>]) {
        if matches!(&*call.function, operators::LOGICAL_AND | operators::LOGICAL_OR) {
            self.check_logical(id, call, overloads);
            return;
        }
        let style = if call.target.is_some() { Style::Member } else { Style::Global };
        let args: Vec<Type> = call.target.iter().chain(&call.args).map(|arg| self.type_of(arg.id).clone()).collect();
        let mut result: Option<Type> = None;
        let mut matching = Vec::new();
        for overload in overloads.iter().filter(|overload| overload.style == style) {
            if overload.params.len() != args.len() {
                continue;
            }
            let mut fresh = HashMap::new();
            let params: Vec<Type> =
                overload.params.iter().map(|param| instantiate(param, &mut fresh, &mut self.substitutions)).collect();
            let pairs: Vec<(&Type, &Type)> = args.iter().zip(&params).collect();
            if !self.substitutions.assignable(&pairs) {
                continue;
            }
            let overload_result = instantiate(&overload.result, &mut fresh, &mut self.substitutions);
            let overload_result = self.substitutions.resolve(&overload_result, Unbound::Keep);
            matching.push(overload.clone());
            result = Some(match result {
                None => overload_result,
                Some(known) if known.is_dyn() || known == overload_result => known,
                Some(_) => Type::Dyn,
            });
        }
        match result {
            Some(ty) => {
                self.set_type(id, ty);
                self.references.insert(id, Reference::Overloads(matching));
            }
            None if self.env.inner.checking == Checking::Deferred => {
                self.set_type(id, Type::Dyn);
                let fitting =
                    |overload: &&Arc<Overload>| overload.style == style && overload.params.len() == args.len();
                let candidates = overloads.iter().filter(fitting).cloned().collect();
                self.references.insert(id, Reference::Overloads(candidates));
            }
            None => {
                let args: Vec<String> =
                    args.iter().map(|arg| self.substitutions.resolve(arg, Unbound::Dyn).to_string()).collect();
                let signature = match (style, args.split_first()) {
                    (Style::Member, Some((receiver, rest))) => format!("{receiver}.({})", rest.join(", ")),
                    _ => format!("({})", args.join(", ")),
                };
                let function = &call.function;
                self.error(id, format!("found no matching overload for '{function}' applied to '{signature}'"));
            }
        }
    }

    fn check_logical(&mut self, id: ExprId, call: &Call, overloads: &[Arc<Overload>]) {
        let mut agree = true;
        for arg in &call.args {
            let ty = self.type_of(arg.id).clone();
            let fits = self.substitutions.assignable(&[(&ty, &Type::Bool)]);
            if !fits && self.env.inner.checking == Checking::Strict {
                self.error(arg.id, format!("expected type 'bool' but found '{ty}'"));
                agree = false;
            }
        }
        if agree {
            self.set_type(id, Type::Bool);
            self.references.insert(id, Reference::Overloads(overloads.to_vec()));
        }
    }

    fn check_list(&mut self, id: ExprId, elements: &mut [Expr], optionals: &[u32]) {
        let mut joined = None;
        for (at, element) in (0u32..).zip(elements) {
            self.check(element);
            let mut ty = self.type_of(element.id).clone();
            if optionals.contains(&at) {
                ty = self.unwrap_optional(element.id, ty);
            }
            joined = Some(self.join(joined, ty));
        }
        let element = joined.unwrap_or_else(|| self.substitutions.fresh());
        self.set_type(id, Type::list(element));
    }

    fn check_map(&mut self, id: ExprId, entries: &mut [MapEntry]) {
        let mut key_type = None;
        let mut value_type = None;
        for entry in entries {
            self.check(&mut entry.key);
            let ty = self.type_of(entry.key.id).clone();
            key_type = Some(self.join(key_type, ty));
            self.check(&mut entry.value);
            let mut ty = self.type_of(entry.value.id).clone();
            if entry.optional {
                ty = self.unwrap_optional(entry.value.id, ty);
            }
            value_type = Some(self.join(value_type, ty));
        }
        let key = key_type.unwrap_or_else(|| self.substitutions.fresh());
        let value = value_type.unwrap_or_else(|| self.substitutions.fresh());
        self.set_type(id, Type::map(key, value));
    }

    fn unwrap_optional(&mut self, id: ExprId, ty: Type) -> Type {
        if let Some(inner) = ty.optional_inner() {
            return inner.clone();
        }
        if !ty.is_dyn() {
            self.error(id, format!("expected type 'optional_type({ty})' but found '{ty}'"));
        }
        ty
    }

    fn join(&mut self, previous: Option<Type>, current: Type) -> Type {
        let Some(previous) = previous else { return current };
        if self.substitutions.assignable(&[(&previous, &current)]) {
            return most_general(&previous, &current).clone();
        }
        Type::Dyn
    }

    fn check_struct(&mut self, expr: &mut Expr) {
        let id = expr.id;
        let ExprKind::Struct { name, fields } = &mut expr.kind else { return };
        let Some(named) = self.lookup(name) else {
            let message = self.undeclared(name);
            self.error(id, message);
            return;
        };
        *name = named.name;
        let constructed = match named.ty {
            Type::Type(Some(inner)) if patch_types::is_constructible(self.env.inner.messages, inner.type_name()) => {
                Type::clone(&inner)
            }
            Type::Type(Some(inner)) => {
                self.error(id, format!("'{inner}' is not a message type"));
                Type::clone(&inner)
            }
            other => {
                self.error(id, format!("'{}' is not a type", other.type_name()));
                Type::Error
            }
        };
        let is_constructible = patch_types::is_constructible(self.env.inner.messages, constructed.type_name());
        self.set_type(id, if is_constructible { constructed.clone() } else { Type::Error });
        for field in fields.iter_mut() {
            self.check(&mut field.value);
            if constructed == Type::Error {
                continue;
            }
            let expected = patch_types::field(self.env.inner.messages, constructed.type_name(), &field.name);
            let Some(expected) = expected else {
                self.error(field.id, format!("undefined field '{}'", field.name));
                continue;
            };
            let mut found = self.type_of(field.value.id).clone();
            if field.optional {
                found = self.unwrap_optional(field.value.id, found);
            }
            if !self.substitutions.assignable(&[(&expected, &found)]) {
                let found = self.substitutions.resolve(&found, Unbound::Dyn);
                let name = &field.name;
                let message = format!("expected type of field '{name}' is '{expected}' but provided type is '{found}'");
                self.error(field.id, message);
            }
        }
    }

    fn check_comprehension(&mut self, id: ExprId, fold: &mut Comprehension) {
        self.check(&mut fold.iter_range);
        self.check(&mut fold.accu_init);
        let range = self.substitutions.resolve(self.type_of(fold.iter_range.id), Unbound::Keep);
        let accu = self.type_of(fold.accu_init.id).clone();
        let two = fold.iter_var2.is_some();
        let (var, var2) = match &range {
            Type::List(element) if two => (Type::Int, Type::clone(element)),
            Type::List(element) => (Type::clone(element), Type::Dyn),
            Type::Map(entry) => (entry.0.clone(), entry.1.clone()),
            Type::Dyn | Type::Error | Type::Variable(_) => {
                self.substitutions.assignable(&[(&Type::Dyn, &range)]);
                (Type::Dyn, Type::Dyn)
            }
            other => {
                let message = format!(
                    "expression of type '{other}' cannot be range of a comprehension (must be list, map, or dynamic)"
                );
                self.error(fold.iter_range.id, message);
                (Type::Error, Type::Error)
            }
        };
        self.scopes.push((fold.accu_var.clone(), accu.clone()));
        let outer = self.scopes.len();
        self.scopes.push((fold.iter_var.clone(), var));
        if let Some(name) = &fold.iter_var2 {
            self.scopes.push((name.clone(), var2));
        }
        self.check(&mut fold.loop_condition);
        self.assert_type(fold.loop_condition.id, &Type::Bool);
        self.check(&mut fold.loop_step);
        self.assert_type(fold.loop_step.id, &accu);
        self.scopes.truncate(outer);
        self.check(&mut fold.result);
        self.scopes.truncate(outer - 1);
        let ty = self.substitutions.resolve(self.type_of(fold.result.id), Unbound::Keep);
        self.set_type(id, ty);
    }

    fn assert_type(&mut self, id: ExprId, expected: &Type) {
        let found = self.type_of(id).clone();
        if !self.substitutions.assignable(&[(expected, &found)]) {
            self.error(id, format!("expected type '{expected}' but found '{found}'"));
        }
    }

    fn lookup(&self, name: &str) -> Option<Named> {
        let data = &self.env.inner;
        for candidate in data.candidates(name) {
            let scoped = self.scopes.iter().rev().find(|(known, _)| **known == *candidate);
            if let Some((name, ty)) = scoped {
                return Some(Named { name: name.clone(), ty: ty.clone(), value: None });
            }
            if let Some((_, ty)) = data.variable(&candidate) {
                return Some(Named { name: Box::from(&*candidate), ty: ty.clone(), value: None });
            }
            if let Some((ty, value)) = data.constants.get(&*candidate) {
                return Some(Named { name: Box::from(&*candidate), ty: ty.clone(), value: Some(value.clone()) });
            }
            if patch_types::is_constructible(data.messages, &candidate) {
                let ty = Type::structure(&candidate);
                let value = Value::Type(Arc::new(ty.clone()));
                return Some(Named { name: Box::from(&*candidate), ty: Type::type_of(ty), value: Some(value) });
            }
        }
        None
    }

    fn lookup_function(&self, name: &str) -> Option<(Box<str>, Vec<Arc<Overload>>)> {
        let data = &self.env.inner;
        data.candidates(name).into_iter().find_map(|candidate| {
            data.functions.get(&*candidate).map(|overloads| (Box::from(&*candidate), overloads.clone()))
        })
    }

    fn undeclared(&self, name: &str) -> String {
        format!("undeclared reference to '{name}' (in container '{}')", self.env.inner.container)
    }

    fn type_of(&self, id: ExprId) -> &Type {
        self.types.get(id as usize).unwrap_or(&Type::Error)
    }

    fn set_type(&mut self, id: ExprId, ty: Type) {
        if let Some(slot) = self.types.get_mut(id as usize) {
            *slot = ty;
        }
    }

    fn error(&mut self, id: ExprId, message: impl Into<String>) {
        if self.env.inner.checking == Checking::Deferred {
            self.set_type(id, Type::Dyn);
            return;
        }
        let location = match self.offsets.get(id as usize) {
            Some(offset) => self.lines.locate(*offset),
            None => Location::NONE,
        };
        self.issues.report(location, message);
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Optional {
    Plain,
    Optional,
}

fn literal_type(value: &Value<'_>) -> Type {
    match value {
        Value::Null => Type::Null,
        Value::Bool(_) => Type::Bool,
        Value::Int(_) => Type::Int,
        Value::Uint(_) => Type::Uint,
        Value::Double(_) => Type::Double,
        Value::String(_) => Type::String,
        Value::Bytes(_) => Type::Bytes,
        _ => Type::Dyn,
    }
}

/// The declared type with its parameters replaced by fresh variables, the same for the same name.
fn instantiate<'t>(ty: &'t Type, fresh: &mut HashMap<&'t str, Type>, substitutions: &mut Substitutions) -> Type {
    match ty {
        Type::Param(name) => fresh.entry(name).or_insert_with(|| substitutions.fresh()).clone(),
        Type::List(element) => Type::list(instantiate(element, fresh, substitutions)),
        Type::Map(entry) => {
            let key = instantiate(&entry.0, fresh, substitutions);
            Type::map(key, instantiate(&entry.1, fresh, substitutions))
        }
        Type::Opaque(opaque) if !opaque.params.is_empty() => Type::Opaque(Arc::new(crate::types::OpaqueType {
            name: opaque.name.clone(),
            params: opaque.params.iter().map(|param| instantiate(param, fresh, substitutions)).collect(),
        })),
        Type::Type(Some(inner)) => Type::type_of(instantiate(inner, fresh, substitutions)),
        other => other.clone(),
    }
}
