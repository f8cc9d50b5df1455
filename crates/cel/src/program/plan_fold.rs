//! Planning of comprehensions. Macros expand to a few shapes, which are recognised and run as what they mean.

use super::PlanError;
use super::node::{Bind, Fold, FoldKind, Node};
use super::plan::Planner;
use crate::ast::{ACCUMULATOR, Call, Comprehension, Expr, ExprKind, operators};
use crate::value::Value;

impl Planner<'_> {
    pub(super) fn comprehension(&mut self, fold: &Comprehension) -> Result<Node, PlanError> {
        if is_binding(fold) {
            let init = self.node(&fold.accu_init)?;
            return self.scoped(&fold.accu_var, |planner, slot| {
                let result = planner.node(&fold.result)?;
                Ok(Node::Bind(Box::new(Bind { slot, init, result })))
            });
        }
        let range = self.node(&fold.iter_range)?;
        let (var, var2, kind) = match shape(fold) {
            Shape::General => return self.general(fold, range),
            shape => self.scoped(&fold.iter_var, |planner, var| match &fold.iter_var2 {
                None => Ok((var, None, planner.shaped(shape)?)),
                Some(second) => planner.scoped(second, |planner, var2| Ok((var, Some(var2), planner.shaped(shape)?))),
            })?,
        };
        Ok(Node::Fold(Box::new(Fold { range, var, var2, kind })))
    }

    fn shaped(&mut self, shape: Shape<'_>) -> Result<FoldKind, PlanError> {
        let filter = |planner: &mut Self, filter: Option<&Expr>| filter.map(|filter| planner.node(filter)).transpose();
        Ok(match shape {
            Shape::All(predicate) => FoldKind::All(self.node(predicate)?),
            Shape::Exists(predicate) => FoldKind::Exists(self.node(predicate)?),
            Shape::ExistsOne(predicate) => FoldKind::ExistsOne(self.node(predicate)?),
            Shape::Append(condition, element) => {
                FoldKind::Append { filter: filter(self, condition)?, element: self.node(element)? }
            }
            Shape::Insert(condition, key, value) => {
                FoldKind::Insert { filter: filter(self, condition)?, key: self.node(key)?, value: self.node(value)? }
            }
            Shape::InsertAll(condition, entries) => {
                FoldKind::InsertAll { filter: filter(self, condition)?, entries: self.node(entries)? }
            }
            Shape::General => return Err(PlanError("unsupported comprehension".to_owned())),
        })
    }

    fn general(&mut self, fold: &Comprehension, range: Node) -> Result<Node, PlanError> {
        let init = self.node(&fold.accu_init)?;
        self.scoped(&fold.accu_var, |planner, accu| {
            let body = |planner: &mut Self| {
                Ok::<_, PlanError>((planner.node(&fold.loop_condition)?, planner.node(&fold.loop_step)?))
            };
            let (var, var2, (condition, step)) =
                planner.scoped(&fold.iter_var, |planner, var| match &fold.iter_var2 {
                    None => Ok::<_, PlanError>((var, None, body(planner)?)),
                    Some(second) => planner.scoped(second, |planner, var2| Ok((var, Some(var2), body(planner)?))),
                })?;
            let result = planner.node(&fold.result)?;
            let kind = FoldKind::General { accu, init, condition, step, result };
            Ok(Node::Fold(Box::new(Fold { range, var, var2, kind })))
        })
    }
}

/// Whether a comprehension only gives a value a name: its loop never runs.
pub(crate) fn is_binding(fold: &Comprehension) -> bool {
    matches!(&fold.iter_range.kind, ExprKind::List { elements, .. } if elements.is_empty())
        && matches!(fold.loop_condition.kind, ExprKind::Literal(Value::Bool(false)))
        && &*fold.accu_var != ACCUMULATOR
}

enum Shape<'e> {
    All(&'e Expr),
    Exists(&'e Expr),
    ExistsOne(&'e Expr),
    Append(Option<&'e Expr>, &'e Expr),
    Insert(Option<&'e Expr>, &'e Expr, &'e Expr),
    InsertAll(Option<&'e Expr>, &'e Expr),
    General,
}

fn shape(fold: &Comprehension) -> Shape<'_> {
    if &*fold.accu_var != ACCUMULATOR {
        return Shape::General;
    }
    let step = call(&fold.loop_step);
    let is_result = is_accumulator(&fold.result);
    match (&fold.accu_init.kind, step) {
        (ExprKind::Literal(Value::Bool(true)), Some((operators::LOGICAL_AND, [accu, predicate])))
            if is_result && is_accumulator(accu) =>
        {
            Shape::All(predicate)
        }
        (ExprKind::Literal(Value::Bool(false)), Some((operators::LOGICAL_OR, [accu, predicate])))
            if is_result && is_accumulator(accu) =>
        {
            Shape::Exists(predicate)
        }
        (ExprKind::Literal(Value::Int(0)), Some((operators::CONDITIONAL, [predicate, _, _])))
            if matches!(call(&fold.result), Some((operators::EQUALS, _))) =>
        {
            Shape::ExistsOne(predicate)
        }
        (_, Some((operators::CONDITIONAL, [filter, step, accu]))) if is_result && is_accumulator(accu) => {
            accumulation(Some(filter), step)
        }
        _ if is_result => accumulation(None, &fold.loop_step),
        _ => Shape::General,
    }
}

fn accumulation<'e>(filter: Option<&'e Expr>, step: &'e Expr) -> Shape<'e> {
    match call(step) {
        Some((operators::ADD, [accu, added])) if is_accumulator(accu) => match &added.kind {
            ExprKind::List { elements, optionals } if optionals.is_empty() => match elements.as_slice() {
                [element] => Shape::Append(filter, element),
                _ => Shape::General,
            },
            _ => Shape::General,
        },
        Some(("cel.@mapInsert", [accu, key, value])) if is_accumulator(accu) => Shape::Insert(filter, key, value),
        Some(("cel.@mapInsert", [accu, entries])) if is_accumulator(accu) => Shape::InsertAll(filter, entries),
        _ => Shape::General,
    }
}

fn call(expr: &Expr) -> Option<(&str, &[Expr])> {
    match &expr.kind {
        ExprKind::Call(call) => {
            let Call { function, args, .. } = &**call;
            Some((function, args))
        }
        _ => None,
    }
}

fn is_accumulator(expr: &Expr) -> bool {
    matches!(&expr.kind, ExprKind::Ident(name) if &**name == ACCUMULATOR)
}
