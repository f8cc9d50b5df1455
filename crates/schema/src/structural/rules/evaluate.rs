//! Running rules on an object, with its old version for transition rules. Upstream's errors, in its order; where it goes
//! through a map in random order, the order is that of the keys.

use bailiwick_cel::{Bindings, Budget, EvalError, Program, Value as CelValue};
use serde_json::{Map, Value};

use super::compile::{CompiledRule, OLD_SELF, SELF};
use super::plan::Plan;
use super::ratchet::Ratchet;
use super::{Findings, OUT_OF_BUDGET};
use crate::field::{Error, ErrorKind, ErrorList, Path};
use crate::structural::location::Location;
use crate::structural::schema::{Kind, Rule};
use crate::structural::validate::ratchet::OldItems;

/// The cost that one expression may have: about a tenth of a second.
const PER_CALL_LIMIT: u64 = 1_000_000;

/// The longest message that an expression may make.
const MAX_MESSAGE_BYTES: usize = 5 * 1024;

/// Nothing more is evaluated: the budget is used up, or a rule used more than it may.
struct Stopped;

/// What becomes of faults in values that are what they were.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unchanged {
    Forgiven,
    Refused,
}

/// One object under evaluation.
pub(super) struct Evaluation<'e> {
    pub base: &'e Path,
    pub budget: i64,
    pub findings: Findings,
}

impl Evaluation<'_> {
    /// Evaluates everything in the plan; a negative budget says that not all was.
    pub fn run(&mut self, plan: &Plan, object: &Value, old: Option<&Value>, unchanged: Unchanged) {
        let ratchet = Ratchet::of(object, old.filter(|_| unchanged == Unchanged::Forgiven), &plan.schema);
        if let Err(Stopped) = self.node(plan, object, old, &ratchet, &Location::ROOT) {
            self.budget = -1;
        }
    }

    fn node(
        &mut self,
        plan: &Plan,
        value: &Value,
        old: Option<&Value>,
        ratchet: &Ratchet<'_>,
        at: &Location<'_>,
    ) -> Result<(), Stopped> {
        if value.is_null() {
            return Ok(());
        }
        self.rules(plan, value, old.filter(|old| !old.is_null()), ratchet, at)?;
        match value {
            Value::Array(items) => self.list(plan, items, old, ratchet, at),
            Value::Object(members) => self.members(plan, members, old.and_then(Value::as_object), ratchet, at),
            _ => Ok(()),
        }
    }

    fn list(
        &mut self,
        plan: &Plan,
        items: &[Value],
        old: Option<&Value>,
        ratchet: &Ratchet<'_>,
        at: &Location<'_>,
    ) -> Result<(), Stopped> {
        let Some(item_plan) = plan.items.as_deref() else { return Ok(()) };
        let old_items = OldItems::new(old, &plan.schema);
        let below = ratchet.items();
        for (index, item) in items.iter().enumerate() {
            let ratchet = below.of(item);
            self.node(item_plan, item, old_items.matching(item), &ratchet, &at.index(index))?;
        }
        Ok(())
    }

    fn members(
        &mut self,
        plan: &Plan,
        members: &Map<String, Value>,
        old: Option<&Map<String, Value>>,
        ratchet: &Ratchet<'_>,
        at: &Location<'_>,
    ) -> Result<(), Stopped> {
        let old = |key: &str| old.and_then(|old| old.get(key));
        if let Some(additional) = plan.additional.as_deref() {
            for (key, value) in members {
                self.node(additional, value, old(key), &ratchet.key(key), &at.key(key))?;
            }
        }
        if plan.properties.is_empty() {
            return Ok(());
        }
        for (key, value) in members {
            if let Some(property) = plan.property(key) {
                self.node(property, value, old(key), &ratchet.key(key), &at.field(key))?;
            }
        }
        Ok(())
    }

    fn rules(
        &mut self,
        plan: &Plan,
        value: &Value,
        old: Option<&Value>,
        ratchet: &Ratchet<'_>,
        at: &Location<'_>,
    ) -> Result<(), Stopped> {
        if plan.rules.is_empty() {
            return Ok(());
        }
        let Some(decl) = &plan.decl else {
            let why = "rule compiler initialization error: failed to convert to declType for CEL validation rules";
            self.refuse(plan, at, why);
            return Ok(());
        };
        if self.budget <= 0 {
            self.refuse(plan, at, OUT_OF_BUDGET);
            return Err(Stopped);
        }
        // Data that contradicts its type is an error for every rule; the schema has refused it already.
        let variables = decl.view(value).and_then(|subject| {
            let old = old.map(|old| decl.view(old)).transpose()?;
            Ok(Variables { subject, old })
        });
        for (rule, compiled) in &plan.rules {
            if let Some(error) = &compiled.error {
                self.refuse(plan, at, &format!("rule compile error: {error}"));
                continue;
            }
            let Some(program) = &compiled.program else { continue };
            let old_self = if rule.optional_old_self == Some(true) { OldSelf::Optional } else { OldSelf::Plain };
            if compiled.uses_old_self && old.is_none() && old_self == OldSelf::Plain {
                continue;
            }
            let variables = match &variables {
                Ok(variables) => variables,
                Err(error) => {
                    self.broken(plan, rule, error, at)?;
                    continue;
                }
            };
            let bindings = variables.bindings(old_self);
            let mut budget = Budget::new(PER_CALL_LIMIT);
            let result = program.evaluate(&bindings, &mut budget);
            if !self.spend(budget.spent()) {
                self.refuse(plan, at, OUT_OF_BUDGET);
                return Err(Stopped);
            }
            match result {
                Ok(CelValue::Bool(true)) => {}
                Ok(_) => self.failed(&Failure { plan, rule, compiled, value, at }, variables, ratchet)?,
                Err(error) => self.broken(plan, rule, &error, at)?,
            }
        }
        Ok(())
    }

    /// A rule that could not be evaluated.
    fn broken(&mut self, plan: &Plan, rule: &Rule, error: &EvalError, at: &Location<'_>) -> Result<(), Stopped> {
        let text = error.to_string();
        let rule = rule_text(rule);
        if matches!(error, EvalError::CostLimitExceeded) {
            let why = format!(
                "'{text}': no further validation rules will be run due to call cost exceeds limit for rule: {rule}"
            );
            self.refuse(plan, at, &why);
            return Err(Stopped);
        }
        if text.starts_with("no such overload") {
            let why = format!(
                "'{text}': call arguments did not match a supported operator, function or macro signature for rule: {rule}"
            );
            self.refuse(plan, at, &why);
        } else {
            self.refuse(plan, at, &format!("{text} evaluating rule: {rule}"));
        }
        Ok(())
    }

    /// Takes a cost from the budget, if it is there.
    fn spend(&mut self, cost: u64) -> bool {
        match i64::try_from(cost).ok().filter(|cost| *cost <= self.budget) {
            Some(cost) => {
                self.budget -= cost;
                true
            }
            None => false,
        }
    }

    /// A rule that the value does not keep.
    fn failed(
        &mut self,
        failure: &Failure<'_>,
        variables: &Variables<'_>,
        ratchet: &Ratchet<'_>,
    ) -> Result<(), Stopped> {
        let Failure { plan, rule, compiled, value, at } = failure;
        let mut path = at.path(self.base);
        if !compiled.field_path.is_empty() {
            path = path.child(&compiled.field_path);
        }
        let message = match compiled.message.as_ref().map(|program| self.message(program, rule, variables)) {
            Some(Message::Made(message)) => Some(message),
            Some(Message::Unusable) | None => None,
            Some(Message::Stopped(why)) => {
                let error = Error::invalid(&path, plan.type_name(), why);
                self.report(error, compiled, ratchet);
                return Err(Stopped);
            }
        };
        let detail = message.unwrap_or_else(|| default_message(rule));
        let shown = !matches!(plan.schema.kind, Some(Kind::Object | Kind::Array));
        let bad_value = shown.then(|| (*value).clone());
        let error = |kind, bad_value, detail| Error { kind, field: path.to_string(), bad_value, detail };
        let error = match &*rule.reason {
            "FieldValueForbidden" => error(ErrorKind::Forbidden, None, detail),
            "FieldValueRequired" => error(ErrorKind::Required, None, detail),
            "FieldValueDuplicate" => error(ErrorKind::Duplicate, bad_value, String::new()),
            _ => error(ErrorKind::Invalid, bad_value, detail),
        };
        self.report(error, compiled, ratchet);
        Ok(())
    }

    /// What was wrong before and has not changed is only a warning. Transition rules know the old value themselves.
    fn report(&mut self, error: Error, compiled: &CompiledRule, ratchet: &Ratchet<'_>) {
        if !compiled.uses_old_self && ratchet.unchanged() {
            self.findings.warnings.push(error.to_string());
        } else {
            self.findings.errors.push(error);
        }
    }

    fn message(&mut self, program: &Program, rule: &Rule, variables: &Variables<'_>) -> Message {
        let bindings = variables.bindings(OldSelf::Plain);
        let mut budget = Budget::new(PER_CALL_LIMIT);
        let result = program.evaluate(&bindings, &mut budget);
        if !self.spend(budget.spent()) {
            return Message::Stopped(
                "messageExpression evaluation failed due to running out of cost budget, no further validation rules will be run"
                    .to_owned(),
            );
        }
        if matches!(result, Err(EvalError::CostLimitExceeded)) {
            let expression = crate::decode::go_quote(&rule.message_expression);
            return Message::Stopped(format!(
                "no further validation rules will be run due to call cost exceeds limit for messageExpression: {expression}"
            ));
        }
        let Ok(CelValue::String(text)) = result else { return Message::Unusable };
        let text = text.trim();
        if text.is_empty() || text.len() > MAX_MESSAGE_BYTES || text.contains('\n') {
            return Message::Unusable;
        }
        Message::Made(text.to_owned())
    }

    /// An error that shows the node's type in place of its value.
    fn refuse(&mut self, plan: &Plan, at: &Location<'_>, why: &str) {
        self.findings.errors.push(Error::invalid(&at.path(self.base), plan.type_name(), why));
    }
}

/// A rule that failed, where, and on what.
struct Failure<'f> {
    plan: &'f Plan,
    rule: &'f Rule,
    compiled: &'f CompiledRule,
    value: &'f Value,
    at: &'f Location<'f>,
}

/// What became of a message expression.
enum Message {
    Made(String),
    /// The default message is used instead.
    Unusable,
    Stopped(String),
}

/// The values a rule sees.
struct Variables<'a> {
    subject: CelValue<'a>,
    old: Option<CelValue<'a>>,
}

impl<'a> Variables<'a> {
    fn bindings(&self, old_self: OldSelf) -> Bindings<'a> {
        let bindings = Bindings::new().bind(SELF, self.subject.clone());
        match (&self.old, old_self) {
            (Some(old), OldSelf::Plain) => bindings.bind(OLD_SELF, old.clone()),
            (Some(old), OldSelf::Optional) => bindings.bind(OLD_SELF, CelValue::some(old.clone())),
            (None, OldSelf::Optional) => bindings.bind(OLD_SELF, CelValue::none()),
            (None, OldSelf::Plain) => bindings,
        }
    }
}

/// How a rule sees the old value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OldSelf {
    Plain,
    Optional,
}

fn rule_text(rule: &Rule) -> &str {
    if rule.message.is_empty() { rule.rule.trim() } else { rule.message.trim() }
}

fn default_message(rule: &Rule) -> String {
    if rule.message.is_empty() { format!("failed rule: {}", rule.rule.trim()) } else { rule.message.trim().to_owned() }
}

/// Whether errors of the schema keep rules from being evaluated, because they may make no sense of such a value.
pub fn blocks_rules(errors: &ErrorList) -> Option<Error> {
    let blocking = |error: &Error| {
        matches!(
            error.kind,
            ErrorKind::NotSupported
                | ErrorKind::Required
                | ErrorKind::TooLong
                | ErrorKind::TooMany
                | ErrorKind::TypeInvalid
        )
    };
    errors.iter().any(blocking).then(|| {
        Error::invalid(&Path::root(), Value::Null, "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation")
    })
}
