//! The rules of a whole schema, compiled: a tree that has only the branches in which there is something to evaluate.

use std::sync::Arc;

use bailiwick_cel::{DeclKind, DeclType};

use super::compile::{CompiledRule, compile};
use super::declare::{Place, declare};
use crate::structural::schema::{Kind, Rule, Schema};

/// One node with rules in or below it.
#[derive(Debug)]
pub(super) struct Plan {
    pub schema: Arc<Schema>,
    pub decl: Option<Arc<DeclType>>,
    pub rules: Box<[(Rule, CompiledRule)]>,
    pub items: Option<Box<Plan>>,
    pub additional: Option<Box<Plan>>,
    /// Sorted by name.
    pub properties: Vec<(Box<str>, Plan)>,
}

impl Plan {
    /// The plan of a schema; `None` when it has no rules. Junctors have none: they would not be structural.
    pub fn of(schema: &Arc<Schema>, place: Place) -> Option<Self> {
        if !schema.below.rules {
            return None;
        }
        Self::node(schema, declare(schema, place))
    }

    fn node(schema: &Arc<Schema>, decl: Option<Arc<DeclType>>) -> Option<Self> {
        if !schema.below.rules {
            return None;
        }
        let compiled = decl.as_ref().map(|decl| compile(&schema.rules, schema, decl)).unwrap_or_default();
        let element = decl.as_ref().and_then(|decl| match &decl.kind {
            DeclKind::List { element, .. } => Some(element.clone()),
            DeclKind::Map { value } => Some(value.clone()),
            _ => None,
        });
        let below = |child: Option<&Arc<Schema>>| Self::node(child?, element.clone()).map(Box::new);
        let items = below(schema.items.as_ref());
        let additional = below(schema.additional());
        let mut properties = Vec::new();
        for (name, property) in &schema.properties {
            // Fields of types that rules cannot use are left out altogether.
            let Some(field) = decl.as_ref().and_then(|decl| decl.field(name)) else { continue };
            if matches!(field.decl.kind, DeclKind::Preserved) {
                continue;
            }
            if let Some(plan) = Self::node(property, Some(field.decl.clone())) {
                properties.push((name.clone(), plan));
            }
        }
        let rules = schema.rules.iter().cloned().zip(compiled).collect();
        Some(Self { schema: schema.clone(), decl, rules, items, additional, properties })
    }

    /// The name of the node's type, which many errors show instead of the value.
    pub fn type_name(&self) -> &'static str {
        match self.schema.kind {
            Some(Kind::Object) => "object",
            Some(Kind::Array) => "array",
            Some(Kind::String) => "string",
            Some(Kind::Integer) => "integer",
            Some(Kind::Number) => "number",
            Some(Kind::Boolean) => "boolean",
            None => "",
        }
    }

    /// The plan of a declared property.
    pub fn property(&self, name: &str) -> Option<&Plan> {
        let at = self.properties.binary_search_by(|(known, _)| (**known).cmp(name)).ok()?;
        self.properties.get(at).map(|(_, plan)| plan)
    }
}
