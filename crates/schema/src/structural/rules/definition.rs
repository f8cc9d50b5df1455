//! Rules as part of a definition: they must compile, may not look back where old values cannot be found, and must be
//! cheap enough for the largest object that the schema admits.

use std::sync::Arc;

use bailiwick_cel::{DeclKind, DeclType};

use super::compile::{CompiledRule, compile, max_cardinality};
use super::declare::{Place, declare};
use crate::field::{Error, ErrorKind, ErrorList, Path};
use crate::structural::schema::{Additional, Kind, ListType, Rule, Schema};

/// The largest estimate of one expression over all values it applies to.
const EXPRESSION_COST_LIMIT: u64 = 10_000_000;

/// The largest sum of the estimates of a schema.
const SCHEMA_COST_LIMIT: u64 = 100_000_000;

/// An expression below this share of the sum is not named when the sum is too large.
const NAMED_FROM: u64 = SCHEMA_COST_LIMIT / 100;

/// How many expressions are named when the sum is too large.
const MOST_NAMED: usize = 4;

/// Whether single expressions have a cost limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpressionCost {
    Limited,
    /// The schema has not changed since it was stored: what was accepted then stays accepted.
    Accepted,
}

/// What is wrong with the rules of a structural schema whose defaults are valid. `schema_errors` are the errors found
/// otherwise: around a node that has some inside, rules are not looked at, since they would only repeat them.
pub fn check_definition(schema: &Schema, path: &Path, schema_errors: &ErrorList, cost: ExpressionCost) -> ErrorList {
    if !schema.below.rules {
        return ErrorList::new();
    }
    let mut check = Check { schema_errors, cost, errors: ErrorList::new(), total: TotalCost::default() };
    let place = Spot { place: Place::Resource, cardinality: Some(1), uncorrelatable: None };
    check.node(schema, None, &place, path);
    let Check { mut errors, total, .. } = check;
    if total.sum > SCHEMA_COST_LIMIT {
        let detail = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
        errors.extend(total.most_expensive.iter().map(|(path, _)| Error::forbidden(path, detail)));
        let name = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
        errors.push(Error::forbidden(path, too_expensive(name, total.sum, SCHEMA_COST_LIMIT)));
    }
    errors
}

struct Check<'c> {
    schema_errors: &'c ErrorList,
    cost: ExpressionCost,
    errors: ErrorList,
    total: TotalCost,
}

/// What holds where a node stands.
#[derive(Clone)]
struct Spot {
    place: Place,
    /// How often the node can occur in an object; `None` when nothing bounds it.
    cardinality: Option<u64>,
    /// The nearest list above whose items cannot be found again.
    uncorrelatable: Option<Path>,
}

impl Check<'_> {
    /// Children come first, in the order keywords are looked at.
    fn node(&mut self, schema: &Schema, decl: Option<&Arc<DeclType>>, spot: &Spot, path: &Path) {
        if !schema.below.rules {
            return;
        }
        let own;
        let decl = match decl.filter(|decl| !matches!(decl.kind, DeclKind::Preserved)) {
            Some(decl) => Some(decl),
            None => {
                own = declare(schema, spot.place);
                own.as_ref()
            }
        };
        let cardinality = match (spot.cardinality, max_elements(schema)) {
            (Some(outer), Some(elements)) => Some(outer.saturating_mul(elements)),
            _ => None,
        };
        let below = |child: &Schema| Spot { place: Place::of(child), cardinality, ..spot.clone() };
        let element = decl.and_then(|decl| match &decl.kind {
            DeclKind::List { element, .. } => Some(element),
            DeclKind::Map { value } => Some(value),
            _ => None,
        });
        if let Some(values) = schema.additional() {
            self.node(values, element, &below(values), &path.child("additionalProperties"));
        }
        for (name, property) in &schema.properties {
            let field = decl.and_then(|decl| decl.field(name)).map(|field| &field.decl);
            self.node(property, field, &below(property), &path.child("properties").key(name));
        }
        if let Some(items) = &schema.items {
            let mut inside = below(items);
            if !matches!(schema.list_type, Some(ListType::Map(_))) {
                inside.uncorrelatable.get_or_insert_with(|| path.clone());
            }
            self.node(items, element, &inside, &path.child("items"));
        }
        if !schema.rules.is_empty() && !self.has_schema_errors(path) {
            self.rules(schema, decl, spot, &path.child("x-kubernetes-validations"));
        }
    }

    /// Whether the schema is wrong here or below.
    fn has_schema_errors(&self, path: &Path) -> bool {
        self.schema_errors.iter().any(|error| {
            let rest = error.field.strip_prefix(path.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        })
    }

    fn rules(&mut self, schema: &Schema, decl: Option<&Arc<DeclType>>, spot: &Spot, path: &Path) {
        let Some(decl) = decl else {
            let detail = "internal error: failed to construct type information for x-kubernetes-validations rules: unable to convert structural schema to CEL declarations";
            self.errors.push(Error::internal(path, detail));
            return;
        };
        let compiled = compile(&schema.rules, schema, decl);
        let cardinality = spot.cardinality.unwrap_or_else(|| max_cardinality(decl));
        for (index, (rule, compiled)) in schema.rules.iter().zip(&compiled).enumerate() {
            self.rule(rule, compiled, cardinality, spot, &path.index(index));
        }
    }

    fn rule(&mut self, rule: &Rule, compiled: &CompiledRule, cardinality: u64, spot: &Spot, path: &Path) {
        let rule_path = path.child("rule");
        self.charge(&rule_path, "estimated rule cost", compiled.max_cost.saturating_mul(cardinality));
        if let Some(error) = &compiled.error {
            self.errors.push(invalid_rule(&rule_path, rule, error));
        }
        let message_path = path.child("messageExpression");
        if let Some(error) = &compiled.message_error {
            self.errors.push(invalid_rule(&message_path, rule, error));
        } else if compiled.message.is_some() {
            self.charge(&message_path, "estimated messageExpression cost", compiled.message_max_cost);
        }
        match (compiled.uses_old_self, &spot.uncorrelatable, rule.optional_old_self) {
            (true, Some(within), _) => {
                let detail =
                    format!("oldSelf cannot be used on the uncorrelatable portion of the schema within {within}");
                self.errors.push(Error::invalid(&rule_path, &*rule.rule, detail));
            }
            (false, _, Some(optional)) => {
                let detail = "may not be set if oldSelf is not used in rule";
                self.errors.push(Error::invalid(&path.child("optionalOldSelf"), optional, detail));
            }
            _ => {}
        }
    }

    fn charge(&mut self, path: &Path, name: &str, cost: u64) {
        if self.cost == ExpressionCost::Limited && cost > EXPRESSION_COST_LIMIT {
            self.errors.push(Error::forbidden(path, too_expensive(name, cost, EXPRESSION_COST_LIMIT)));
        }
        self.total.add(path, cost);
    }
}

/// The estimates of a schema together.
#[derive(Default)]
struct TotalCost {
    sum: u64,
    /// The most expensive first.
    most_expensive: Vec<(Path, u64)>,
}

impl TotalCost {
    fn add(&mut self, path: &Path, cost: u64) {
        self.sum = self.sum.saturating_add(cost);
        if cost < NAMED_FROM {
            return;
        }
        let at = self.most_expensive.partition_point(|(_, known)| *known >= cost);
        self.most_expensive.insert(at, (path.clone(), cost));
        self.most_expensive.truncate(MOST_NAMED);
    }
}

/// How many values a value of this schema can hold.
fn max_elements(schema: &Schema) -> Option<u64> {
    let validation = schema.validation.as_deref();
    let limit = |limit: Option<i64>| limit.map(|limit| u64::try_from(limit).unwrap_or(0));
    match schema.kind {
        Some(Kind::Object) if !matches!(schema.additional_properties, Additional::Absent) => {
            limit(validation.and_then(|validation| validation.max_properties))
        }
        Some(Kind::Array) => limit(validation.and_then(|validation| validation.max_items)),
        _ => Some(1),
    }
}

fn too_expensive(name: &str, cost: u64, limit: u64) -> String {
    let factor = cost as f64 / limit as f64;
    let factor = if factor > 100.0 {
        "more than 100x".to_owned()
    } else if factor < 1.5 {
        format!("{factor:.6}x")
    } else {
        format!("{factor:.1}x")
    };
    format!(
        "{name} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)"
    )
}

/// The whole rule is shown, as upstream's in-memory type prints.
fn invalid_rule(path: &Path, rule: &Rule, detail: &str) -> Error {
    let optional = |text: &str| if text.is_empty() { "null".to_owned() } else { json_text(text) };
    let old_self = rule.optional_old_self.map_or("null".to_owned(), |flag| flag.to_string());
    let shown = format!(
        "{{\"Rule\":{},\"Message\":{},\"MessageExpression\":{},\"Reason\":{},\"FieldPath\":{},\"OptionalOldSelf\":{old_self}}}",
        json_text(&rule.rule),
        json_text(&rule.message),
        json_text(&rule.message_expression),
        optional(&rule.reason),
        json_text(&rule.field_path),
    );
    Error { kind: ErrorKind::Invalid, field: path.to_string(), bad_value: None, detail: format!("{shown}: {detail}") }
}

/// A string as Go's JSON has it: `<`, `>` and `&` are escaped.
fn json_text(text: &str) -> String {
    serde_json::Value::from(text).to_string().replace('&', "\\u0026").replace('<', "\\u003c").replace('>', "\\u003e")
}
