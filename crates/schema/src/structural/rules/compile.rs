//! Compiling the rules of one schema node: parsed, checked against the node's type, and estimated.

use std::sync::{Arc, OnceLock};

use bailiwick_cel::ast::{Expr, ExprKind};
use bailiwick_cel::cost::{Node, SizeEstimate, SizeEstimator};
use bailiwick_cel::decl::limits;
use bailiwick_cel::{DeclType, Env, Program, Type, library};

use super::field_path;
use crate::structural::schema::{Rule, Schema};

/// What `self` is called in messages about types.
const SELF_TYPE: &str = "selfType";

pub(super) const SELF: &str = "self";
pub(super) const OLD_SELF: &str = "oldSelf";

/// A rule that is ready to run, or why it is not.
#[derive(Debug, Default)]
pub(super) struct CompiledRule {
    /// `None` when the rule is blank or wrong.
    pub program: Option<Program>,
    pub error: Option<String>,
    pub uses_old_self: bool,
    pub max_cost: u64,
    pub message: Option<Program>,
    pub message_error: Option<String>,
    pub message_max_cost: u64,
    /// Where failures are reported below the value; empty for the value itself.
    pub field_path: String,
}

/// Compiles all rules of a node of type `decl`.
pub(super) fn compile(rules: &[Rule], schema: &Schema, decl: &Arc<DeclType>) -> Vec<CompiledRule> {
    let Some(ty) = decl.cel_type(SELF_TYPE) else { return Vec::new() };
    let plain = environment().extend().variable(SELF, ty.clone()).variable(OLD_SELF, ty.clone()).build();
    let optional = OnceLock::new();
    let compiled = rules.iter().map(|rule| {
        let env = match rule.optional_old_self {
            Some(true) => {
                optional.get_or_init(|| plain.extend().variable(OLD_SELF, Type::optional(ty.clone())).build())
            }
            _ => &plain,
        };
        compile_rule(rule, schema, env, decl)
    });
    compiled.collect()
}

/// How often a value of this type can occur in one request.
pub(super) fn max_cardinality(decl: &DeclType) -> u64 {
    limits::MAX_REQUEST_SIZE_BYTES / decl.min_serialized_size.saturating_add(1)
}

/// What all rules share. `authorizer` is not among their variables, so its functions cannot be reached.
fn environment() -> &'static Env {
    static ENVIRONMENT: OnceLock<Env> = OnceLock::new();
    ENVIRONMENT.get_or_init(|| {
        library::kubernetes().into_iter().fold(Env::builder(), bailiwick_cel::EnvBuilder::library).build()
    })
}

fn compile_rule(rule: &Rule, schema: &Schema, env: &Env, decl: &DeclType) -> CompiledRule {
    let mut compiled = CompiledRule::default();
    if rule.rule.trim().is_empty() {
        return compiled;
    }
    let sizes = DeclaredSizes(decl);
    let checked = match env.compile(&rule.rule) {
        Ok(checked) => checked,
        Err(issues) => {
            compiled.error = Some(format!("compilation failed: {issues}"));
            return compiled;
        }
    };
    if *checked.output_type() != Type::Bool {
        compiled.error = Some("cel expression must evaluate to a bool".to_owned());
        return compiled;
    }
    compiled.uses_old_self = mentions(checked.root(), OLD_SELF);
    compiled.max_cost = checked.estimate_cost(&sizes).max;
    match checked.program() {
        Ok(program) => compiled.program = Some(program),
        Err(why) => {
            compiled.error = Some(format!("program instantiation failed: {why}"));
            compiled.max_cost = 0;
            return compiled;
        }
    }
    if !rule.message_expression.is_empty() {
        let checked = match env.compile(&rule.message_expression) {
            Ok(checked) => checked,
            Err(issues) => {
                compiled.message_error = Some(format!("messageExpression compilation failed: {issues}"));
                return compiled;
            }
        };
        if *checked.output_type() != Type::String {
            compiled.message_error = Some("messageExpression must evaluate to a string".to_owned());
            return compiled;
        }
        compiled.message_max_cost = checked.estimate_cost(&sizes).max;
        match checked.program() {
            Ok(program) => compiled.message = Some(program),
            Err(why) => {
                compiled.message_error = Some(format!("messageExpression instantiation failed: {why}"));
                return compiled;
            }
        }
    }
    if !rule.field_path.is_empty() {
        let path = field_path::resolve(&rule.field_path, schema);
        compiled.field_path = path.map(|path| path.as_str().to_owned()).unwrap_or_default();
    }
    compiled
}

/// Whether a variable of this name occurs. Expressions have a depth limit.
fn mentions(expr: &Expr, name: &str) -> bool {
    let within = |expr: &Expr| mentions(expr, name);
    match &expr.kind {
        ExprKind::Unspecified | ExprKind::Literal(_) => false,
        ExprKind::Ident(ident) => **ident == *name,
        ExprKind::Select { operand, .. } => within(operand),
        ExprKind::Call(call) => call.target.iter().chain(&call.args).any(within),
        ExprKind::List { elements, .. } => elements.iter().any(within),
        ExprKind::Map(entries) => entries.iter().any(|entry| within(&entry.key) || within(&entry.value)),
        ExprKind::Struct { fields, .. } => fields.iter().any(|field| within(&field.value)),
        ExprKind::Comprehension(inner) => {
            [&inner.iter_range, &inner.accu_init, &inner.loop_condition, &inner.loop_step, &inner.result]
                .into_iter()
                .any(within)
        }
    }
}

/// Sizes as the declared type bounds them.
struct DeclaredSizes<'a>(&'a DeclType);

impl SizeEstimator for DeclaredSizes<'_> {
    fn estimate_size(&self, node: &Node<'_>) -> Option<SizeEstimate> {
        // Both variables have the same type, so the first step does not matter.
        let (_, path) = node.path.split_first()?;
        let max = self.0.max_elements_at(path.iter().map(|step| &**step))?;
        Some(SizeEstimate { min: 0, max })
    }
}
