//! Lists: built by expressions, or borrowed JSON arrays seen through their declared type.

use std::sync::Arc;

use serde_json::Value as Json;

use super::Value;
use crate::decl::DeclType;
use crate::error::EvalError;

/// A CEL list.
#[derive(Clone, Debug)]
pub enum List<'a> {
    /// Built by an expression. The declared type stays with lists that were concatenated from declared ones, since
    /// sets and keyed lists compare and merge in their own way.
    Owned { items: Arc<Vec<Value<'a>>>, decl: Option<&'a DeclType> },
    /// A JSON array; its items become values when they are looked at.
    Json { items: &'a Vec<Json>, decl: &'a DeclType },
}

impl<'a> List<'a> {
    /// A list of these values.
    pub fn owned(items: Vec<Value<'a>>) -> Self {
        Self::Owned { items: Arc::new(items), decl: None }
    }

    /// How many items it has.
    pub fn len(&self) -> usize {
        match self {
            Self::Owned { items, .. } => items.len(),
            Self::Json { items, .. } => items.len(),
        }
    }

    /// Whether it has no items.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The item at a position, `None` beyond the end. JSON that contradicts its declared type is an error.
    pub fn get(&self, at: usize) -> Option<Result<Value<'a>, EvalError>> {
        match self {
            Self::Owned { items, .. } => items.get(at).cloned().map(Ok),
            Self::Json { items, decl } => items.get(at).map(|item| decl.element().view(item)),
        }
    }

    /// The items in order.
    pub fn iter(&self) -> impl Iterator<Item = Result<Value<'a>, EvalError>> + '_ {
        (0..self.len()).filter_map(|at| self.get(at))
    }

    /// The declared type, where one is known.
    pub fn decl(&self) -> Option<&'a DeclType> {
        match self {
            Self::Owned { decl, .. } => *decl,
            Self::Json { decl, .. } => Some(decl),
        }
    }
}
