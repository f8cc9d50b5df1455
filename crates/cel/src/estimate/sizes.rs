//! What is known about sizes: of expressions, of the entries of containers, of local variables.

use std::sync::Arc;

use super::{Coster, Path};
use crate::ast::{ACCUMULATOR, Expr, ExprKind, FORMER_ACCUMULATOR};
use crate::cost::{Node, SizeEstimate};
use crate::types::Type;
use crate::value::Value;

/// Sizes of the keys and values of a container.
#[derive(Clone, Copy, Debug)]
pub(super) struct EntrySize {
    pub(super) is_list: bool,
    pub(super) key: SizeEstimate,
    pub(super) value: SizeEstimate,
}

impl EntrySize {
    pub(super) fn union(self, other: Self) -> Self {
        Self { is_list: self.is_list, key: self.key.union(other.key), value: self.value.union(other.value) }
    }
}

/// A variable of a comprehension.
#[derive(Clone, Debug)]
pub(super) struct LocalVariable {
    pub(super) path: Path,
    size: Option<SizeEstimate>,
    entry: Option<EntrySize>,
}

/// What an iteration variable runs over.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Iteration {
    /// The index of a list, the key of a map.
    Key,
    /// The item of a list, the value of a map.
    Value,
    /// The item of a list, the key of a map.
    Single,
}

impl<'c> Coster<'c> {
    pub(super) fn local(&self, name: &str) -> Option<&LocalVariable> {
        self.locals.get(name).and_then(|stack| stack.last())
    }

    pub(super) fn push_local(&mut self, name: &str, init: &'c Expr) {
        let local =
            LocalVariable { path: self.path_of(init), size: self.compute_size(init), entry: self.entry_size(init) };
        self.locals.entry(Box::from(name)).or_default().push(local);
    }

    pub(super) fn pop_local(&mut self, name: &str) {
        if let Some(stack) = self.locals.get_mut(name) {
            stack.pop();
        }
    }

    pub(super) fn push_iteration(&mut self, name: &str, range: &'c Expr, iteration: Iteration) {
        let entry = self.entry_size(range);
        let is_list = match entry {
            Some(entry) => entry.is_list,
            None => matches!(self.checked.type_of(range.id), Type::List(_)),
        };
        let (of_value, step) = match (iteration, is_list) {
            (Iteration::Key, true) => (false, "@indices"),
            (Iteration::Key | Iteration::Single, false) => (false, "@keys"),
            (Iteration::Value | Iteration::Single, true) => (true, "@items"),
            (Iteration::Value, false) => (true, "@values"),
        };
        let size = entry.map(|entry| if of_value { entry.value } else { entry.key });
        let mut path = self.path_of(range);
        path.push(Arc::from(step));
        self.locals.entry(Box::from(name)).or_default().push(LocalVariable { path, size, entry: None });
    }

    pub(super) fn path_of(&self, expr: &Expr) -> Path {
        if let ExprKind::Ident(name) = &expr.kind
            && let Some(local) = self.local(name)
        {
            return local.path.clone();
        }
        self.paths.get(&expr.id).cloned().unwrap_or_default()
    }

    /// The expression as estimate functions see it.
    pub(super) fn node(&mut self, expr: &'c Expr) -> Node<'c> {
        let mut path = self.path_of(expr);
        if path.first().is_some_and(|first| matches!(&**first, ACCUMULATOR | FORMER_ACCUMULATOR)) {
            path.clear();
        }
        Node { path, ty: self.checked.type_of(expr.id), computed_size: self.compute_size(expr), literal: literal(expr) }
    }

    pub(super) fn size_or_unknown(&mut self, expr: &'c Expr) -> SizeEstimate {
        self.compute_size(expr).unwrap_or(SizeEstimate::UNKNOWN)
    }

    pub(super) fn copy_sizes(&mut self, to: &Expr, from: &'c Expr) {
        if let Some(size) = self.compute_size(from) {
            self.computed.insert(to.id, size);
        }
        if let Some(entry) = self.entry_size(from) {
            self.entries.insert(to.id, entry);
        }
    }

    pub(super) fn compute_size(&mut self, expr: &'c Expr) -> Option<SizeEstimate> {
        if let Some(size) = self.computed.get(&expr.id) {
            return Some(*size);
        }
        if let Some(size) = expression_size(expr) {
            return Some(SizeEstimate::fixed(size));
        }
        let ty = self.checked.type_of(expr.id);
        let node = Node { path: self.path_of(expr), ty, computed_size: None, literal: literal(expr) };
        if let Some(size) = self.sizes.estimate_size(&node) {
            self.computed.insert(expr.id, size);
            return Some(size);
        }
        if is_scalar(ty) {
            return Some(SizeEstimate::fixed(1));
        }
        match &expr.kind {
            ExprKind::Ident(name) => self.local(name).and_then(|local| local.size),
            _ => None,
        }
    }

    pub(super) fn entry_size(&self, expr: &Expr) -> Option<EntrySize> {
        if let Some(entry) = self.entries.get(&expr.id) {
            return Some(*entry);
        }
        match &expr.kind {
            ExprKind::Ident(name) => self.local(name).and_then(|local| local.entry),
            _ => None,
        }
    }
}

fn literal(expr: &Expr) -> Option<&Value<'static>> {
    match &expr.kind {
        ExprKind::Literal(value) => Some(value),
        _ => None,
    }
}

/// The size an expression shows by itself.
fn expression_size(expr: &Expr) -> Option<u64> {
    match &expr.kind {
        ExprKind::Literal(Value::String(text)) => Some(text.chars().count() as u64),
        ExprKind::Literal(Value::Bytes(bytes)) => Some(bytes.len() as u64),
        ExprKind::Literal(_) => Some(1),
        ExprKind::List { elements, .. } => Some(elements.len() as u64),
        ExprKind::Map(entries) => Some(entries.len() as u64),
        _ => None,
    }
}

/// Whether values of the type are all of one size.
fn is_scalar(ty: &Type) -> bool {
    match ty {
        Type::Bool | Type::Double | Type::Duration | Type::Int | Type::Timestamp | Type::Uint => true,
        Type::Wrapper(primitive) => is_scalar(&primitive.as_type()),
        other => other.optional_inner().is_some_and(is_scalar),
    }
}
