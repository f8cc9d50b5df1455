//! Macros: calls that are replaced by other expressions while parsing. The shapes are cel-go's, since costs are
//! counted on them.

use super::{Macros, Parser, extensions};
use crate::ast::{ACCUMULATOR, Call, Comprehension, Expr, ExprId, ExprKind, FORMER_ACCUMULATOR, operators};
use crate::value::Value;

/// The iteration variable of loops that never run.
const UNUSED: &str = "#unused";
const SORT_BY_INPUT: &str = "@__sortBy_input__";

/// A macro that was called wrongly: about which node, and what.
pub(super) struct Misuse(pub(super) ExprId, pub(super) &'static str);

/// What a macro puts into its comprehension besides the range.
struct Fold {
    init: Expr,
    condition: Expr,
    step: Expr,
    result: Expr,
}

impl Parser<'_> {
    pub(super) fn call_or_macro(&mut self, offset: u32, function: &str, target: Option<Expr>, args: Vec<Expr>) -> Expr {
        let known = self.macro_of(function, target.as_ref(), args.len());
        let Some(expand) = known else {
            let kind = ExprKind::Call(Box::new(Call { function: Box::from(function), target, args }));
            return self.node(offset, kind);
        };
        let mut expansion = Expansion { parser: self, offset };
        match expand(&mut expansion, target, args) {
            Ok(expr) => expr,
            Err((Misuse(id, message), duplicate)) => {
                let at = self.offset_of(id);
                match duplicate {
                    Some(name) => self.report(at, format!("{message}: {name}")),
                    None => self.report(at, message),
                }
                self.unspecified(at).expr
            }
        }
    }

    fn macro_of(&self, function: &str, target: Option<&Expr>, args: usize) -> Option<Expander> {
        let on = |set: Macros| self.syntax.macros.contains(set);
        let Some(target) = target else {
            return (function == "has" && args == 1 && on(Macros::STANDARD)).then_some(has as Expander);
        };
        Some(match (function, args) {
            ("all", 2) if on(Macros::STANDARD) => |e, t, a| quantifier(e, t, a, Variables::One, all),
            ("exists", 2) if on(Macros::STANDARD) => |e, t, a| quantifier(e, t, a, Variables::One, exists),
            ("exists_one", 2) if on(Macros::STANDARD) => |e, t, a| quantifier(e, t, a, Variables::One, exists_one),
            ("map", 2 | 3) if on(Macros::STANDARD) => map,
            ("filter", 2) if on(Macros::STANDARD) => filter,
            ("all", 3) if on(Macros::TWO_VARIABLES) => |e, t, a| quantifier(e, t, a, Variables::Two, all),
            ("exists", 3) if on(Macros::TWO_VARIABLES) => |e, t, a| quantifier(e, t, a, Variables::Two, exists),
            ("existsOne" | "exists_one", 3) if on(Macros::TWO_VARIABLES) => {
                |e, t, a| quantifier(e, t, a, Variables::Two, exists_one)
            }
            ("transformList", 3 | 4) if on(Macros::TWO_VARIABLES) => |e, t, a| transform(e, t, a, Transform::List),
            ("transformMap", 3 | 4) if on(Macros::TWO_VARIABLES) => |e, t, a| transform(e, t, a, Transform::Map),
            ("transformMapEntry", 3 | 4) if on(Macros::TWO_VARIABLES) => {
                |e, t, a| transform(e, t, a, Transform::MapEntry)
            }
            ("optMap", 2) if on(Macros::OPTIONAL) => |e, t, a| opt_map(e, t, a, Wrap::Of),
            ("optFlatMap", 2) if on(Macros::OPTIONAL) => |e, t, a| opt_map(e, t, a, Wrap::Flat),
            ("sortBy", 2) if on(Macros::SORT_BY) => sort_by,
            ("bind", 3) if on(Macros::BINDINGS) && is_ident(target, "cel") => bind,
            ("greatest", _) if on(Macros::MATH) && is_ident(target, "math") => extensions::greatest,
            ("least", _) if on(Macros::MATH) && is_ident(target, "math") => extensions::least,
            ("block", 2) if on(Macros::BLOCK) && is_ident(target, "cel") => extensions::block,
            ("index", 1) if on(Macros::BLOCK) && is_ident(target, "cel") => extensions::index,
            ("iterVar", 2) if on(Macros::BLOCK) && is_ident(target, "cel") => extensions::iteration,
            _ => return None,
        })
    }
}

pub(super) type Failure = (Misuse, Option<String>);
type Expander = fn(&mut Expansion<'_, '_>, Option<Expr>, Vec<Expr>) -> Result<Expr, Failure>;

/// Makes nodes that all stand where the macro was called.
pub(super) struct Expansion<'p, 't> {
    parser: &'p mut Parser<'t>,
    offset: u32,
}

impl Expansion<'_, '_> {
    fn node(&mut self, kind: ExprKind) -> Expr {
        self.parser.node(self.offset, kind)
    }

    fn literal(&mut self, value: Value<'static>) -> Expr {
        self.node(ExprKind::Literal(value))
    }

    pub(super) fn ident(&mut self, name: &str) -> Expr {
        self.node(ExprKind::Ident(Box::from(name)))
    }

    fn accu(&mut self) -> Expr {
        self.ident(ACCUMULATOR)
    }

    pub(super) fn call(&mut self, function: &str, args: Vec<Expr>) -> Expr {
        self.node(ExprKind::Call(Box::new(Call { function: Box::from(function), target: None, args })))
    }

    fn member_call(&mut self, function: &str, target: Expr, args: Vec<Expr>) -> Expr {
        self.node(ExprKind::Call(Box::new(Call { function: Box::from(function), target: Some(target), args })))
    }

    pub(super) fn list(&mut self, elements: Vec<Expr>) -> Expr {
        self.node(ExprKind::List { elements, optionals: Vec::new() })
    }

    fn fold(&mut self, range: Expr, (var, var2): (Box<str>, Option<Box<str>>), fold: Fold) -> Expr {
        self.node(ExprKind::Comprehension(Box::new(Comprehension {
            iter_var: var,
            iter_var2: var2,
            iter_range: range,
            accu_var: Box::from(ACCUMULATOR),
            accu_init: fold.init,
            loop_condition: fold.condition,
            loop_step: fold.step,
            result: fold.result,
        })))
    }

    /// `name` stands for the value of `init` in `result`.
    pub(super) fn binding(&mut self, name: &str, init: Expr, result: Expr) -> Expr {
        let iter_range = self.list(Vec::new());
        let loop_condition = self.literal(Value::Bool(false));
        let loop_step = self.ident(name);
        self.node(ExprKind::Comprehension(Box::new(Comprehension {
            iter_var: Box::from(UNUSED),
            iter_var2: None,
            iter_range,
            accu_var: Box::from(name),
            accu_init: init,
            loop_condition,
            loop_step,
            result,
        })))
    }

    /// The same expression with numbers of its own.
    fn copy(&mut self, expr: &Expr) -> Expr {
        let mut copy = expr.clone();
        renumber(&mut copy, &mut |id| {
            let offset = self.parser.offset_of(id);
            self.parser.new_id(offset)
        });
        copy
    }
}

fn renumber(expr: &mut Expr, next: &mut impl FnMut(ExprId) -> ExprId) {
    expr.id = next(expr.id);
    match &mut expr.kind {
        ExprKind::Unspecified | ExprKind::Literal(_) | ExprKind::Ident(_) => {}
        ExprKind::Select { operand, .. } => renumber(operand, next),
        ExprKind::Call(call) => call.target.iter_mut().chain(&mut call.args).for_each(|arg| renumber(arg, next)),
        ExprKind::List { elements, .. } => elements.iter_mut().for_each(|element| renumber(element, next)),
        ExprKind::Map(entries) => entries.iter_mut().for_each(|entry| {
            entry.id = next(entry.id);
            renumber(&mut entry.key, next);
            renumber(&mut entry.value, next);
        }),
        ExprKind::Struct { fields, .. } => fields.iter_mut().for_each(|field| {
            field.id = next(field.id);
            renumber(&mut field.value, next);
        }),
        ExprKind::Comprehension(fold) => {
            let Comprehension { iter_range, accu_init, loop_condition, loop_step, result, .. } = &mut **fold;
            [iter_range, accu_init, loop_condition, loop_step, result].into_iter().for_each(|e| renumber(e, next));
        }
    }
}

fn is_ident(expr: &Expr, name: &str) -> bool {
    matches!(&expr.kind, ExprKind::Ident(known) if **known == *name)
}

fn variable(expr: &Expr, misuse: &'static str) -> Result<Box<str>, Failure> {
    let ExprKind::Ident(name) = &expr.kind else { return Err((Misuse(expr.id, misuse), None)) };
    Ok(name.clone())
}

fn iteration_variable(expr: &Expr, misuse: &'static str) -> Result<Box<str>, Failure> {
    let name = variable(expr, misuse)?;
    check_not_accumulator(expr, &name)?;
    Ok(name)
}

fn check_not_accumulator(expr: &Expr, name: &str) -> Result<(), Failure> {
    if name == ACCUMULATOR || name == FORMER_ACCUMULATOR {
        return Err((Misuse(expr.id, "iteration variable overwrites accumulator variable"), None));
    }
    Ok(())
}

fn two_variables(first: &Expr, second: &Expr) -> Result<(Box<str>, Option<Box<str>>), Failure> {
    let one = variable(first, "argument must be a simple name")?;
    let two = variable(second, "argument must be a simple name")?;
    if one == two {
        return Err((Misuse(second.id, "duplicate variable name"), Some(one.to_string())));
    }
    check_not_accumulator(first, &one)?;
    check_not_accumulator(second, &two)?;
    Ok((one, Some(two)))
}

/// Takes a fixed number of expressions; the table of macros has counted them already.
pub(super) fn take<const N: usize>(args: Vec<Expr>) -> Result<[Expr; N], Failure> {
    args.try_into().map_err(|args: Vec<Expr>| {
        (Misuse(args.first().map_or(0, |arg| arg.id), "wrong number of macro arguments"), None)
    })
}

fn receiver(target: Option<Expr>) -> Result<Expr, Failure> {
    target.ok_or((Misuse(0, "macro without receiver"), None))
}

fn has(e: &mut Expansion<'_, '_>, _target: Option<Expr>, args: Vec<Expr>) -> Result<Expr, Failure> {
    let [arg] = take(args)?;
    match arg.kind {
        ExprKind::Select { operand, field, .. } => Ok(e.node(ExprKind::Select { operand, field, test_only: true })),
        _ => Err((Misuse(arg.id, "invalid argument to has() macro"), None)),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Variables {
    One,
    Two,
}

fn quantifier(
    e: &mut Expansion<'_, '_>,
    target: Option<Expr>,
    args: Vec<Expr>,
    variables: Variables,
    fold: fn(&mut Expansion<'_, '_>, Expr) -> Fold,
) -> Result<Expr, Failure> {
    let (vars, predicate) = if variables == Variables::One {
        let [var, predicate] = take(args)?;
        ((iteration_variable(&var, "argument must be a simple name")?, None), predicate)
    } else {
        let [first, second, predicate] = take(args)?;
        (two_variables(&first, &second)?, predicate)
    };
    let fold = fold(e, predicate);
    Ok(e.fold(receiver(target)?, vars, fold))
}

fn all(e: &mut Expansion<'_, '_>, predicate: Expr) -> Fold {
    let init = e.literal(Value::Bool(true));
    let accu = e.accu();
    let condition = e.call(operators::NOT_STRICTLY_FALSE, vec![accu]);
    let accu = e.accu();
    let step = e.call(operators::LOGICAL_AND, vec![accu, predicate]);
    Fold { init, condition, step, result: e.accu() }
}

fn exists(e: &mut Expansion<'_, '_>, predicate: Expr) -> Fold {
    let init = e.literal(Value::Bool(false));
    let accu = e.accu();
    let not = e.call(operators::LOGICAL_NOT, vec![accu]);
    let condition = e.call(operators::NOT_STRICTLY_FALSE, vec![not]);
    let accu = e.accu();
    let step = e.call(operators::LOGICAL_OR, vec![accu, predicate]);
    Fold { init, condition, step, result: e.accu() }
}

fn exists_one(e: &mut Expansion<'_, '_>, predicate: Expr) -> Fold {
    let init = e.literal(Value::Int(0));
    let condition = e.literal(Value::Bool(true));
    let sum = vec![e.accu(), e.literal(Value::Int(1))];
    let incremented = e.call(operators::ADD, sum);
    let accu = e.accu();
    let step = e.call(operators::CONDITIONAL, vec![predicate, incremented, accu]);
    let sides = vec![e.accu(), e.literal(Value::Int(1))];
    Fold { init, condition, step, result: e.call(operators::EQUALS, sides) }
}

/// Appends `element` to the accumulator, if `filter` holds.
fn appending(e: &mut Expansion<'_, '_>, filter: Option<Expr>, element: Expr) -> Fold {
    let init = e.list(Vec::new());
    let condition = e.literal(Value::Bool(true));
    let accu = e.accu();
    let one = e.list(vec![element]);
    let step = e.call(operators::ADD, vec![accu, one]);
    filtered(e, init, condition, filter, step)
}

fn filtered(e: &mut Expansion<'_, '_>, init: Expr, condition: Expr, filter: Option<Expr>, step: Expr) -> Fold {
    let step = match filter {
        Some(filter) => {
            let accu = e.accu();
            e.call(operators::CONDITIONAL, vec![filter, step, accu])
        }
        None => step,
    };
    Fold { init, condition, step, result: e.accu() }
}

fn map(e: &mut Expansion<'_, '_>, target: Option<Expr>, mut args: Vec<Expr>) -> Result<Expr, Failure> {
    let filter = (args.len() == 3).then(|| args.remove(1));
    let [var, element] = take(args)?;
    let name = iteration_variable(&var, "argument is not an identifier")?;
    let fold = appending(e, filter, element);
    Ok(e.fold(receiver(target)?, (name, None), fold))
}

fn filter(e: &mut Expansion<'_, '_>, target: Option<Expr>, args: Vec<Expr>) -> Result<Expr, Failure> {
    let [var, predicate] = take(args)?;
    let name = iteration_variable(&var, "argument is not an identifier")?;
    let fold = appending(e, Some(predicate), var);
    Ok(e.fold(receiver(target)?, (name, None), fold))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Transform {
    List,
    Map,
    MapEntry,
}

fn transform(
    e: &mut Expansion<'_, '_>,
    target: Option<Expr>,
    mut args: Vec<Expr>,
    kind: Transform,
) -> Result<Expr, Failure> {
    let filter = (args.len() == 4).then(|| args.remove(2));
    let [first, second, element] = take(args)?;
    let vars = two_variables(&first, &second)?;
    let fold = if kind == Transform::List {
        appending(e, filter, element)
    } else {
        let init = e.node(ExprKind::Map(Vec::new()));
        let condition = e.literal(Value::Bool(true));
        let accu = e.accu();
        let inserted = match kind {
            Transform::MapEntry => vec![accu, element],
            _ => vec![accu, e.ident(&vars.0), element],
        };
        let step = e.call("cel.@mapInsert", inserted);
        filtered(e, init, condition, filter, step)
    };
    Ok(e.fold(receiver(target)?, vars, fold))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Wrap {
    Of,
    Flat,
}

fn opt_map(e: &mut Expansion<'_, '_>, target: Option<Expr>, args: Vec<Expr>, wrap: Wrap) -> Result<Expr, Failure> {
    let [var, body] = take(args)?;
    let target = receiver(target)?;
    let misuse = match wrap {
        Wrap::Of => "optMap() variable name must be a simple identifier",
        Wrap::Flat => "optFlatMap() variable name must be a simple identifier",
    };
    let name = variable(&var, misuse)?;
    let copy = e.copy(&target);
    let present = e.member_call("hasValue", target, Vec::new());
    let value = e.member_call("value", copy, Vec::new());
    let bound = e.binding(&name, value, body);
    let some = match wrap {
        Wrap::Of => e.call("optional.of", vec![bound]),
        Wrap::Flat => bound,
    };
    let none = e.call("optional.none", Vec::new());
    Ok(e.call(operators::CONDITIONAL, vec![present, some, none]))
}

fn bind(e: &mut Expansion<'_, '_>, _target: Option<Expr>, args: Vec<Expr>) -> Result<Expr, Failure> {
    let [var, init, result] = take(args)?;
    let name = variable(&var, "cel.bind() variable names must be simple identifiers")?;
    Ok(e.binding(&name, init, result))
}

fn sort_by(e: &mut Expansion<'_, '_>, target: Option<Expr>, args: Vec<Expr>) -> Result<Expr, Failure> {
    let target = receiver(target)?;
    if !matches!(
        target.kind,
        ExprKind::List { .. }
            | ExprKind::Select { .. }
            | ExprKind::Ident(_)
            | ExprKind::Comprehension(_)
            | ExprKind::Call(_)
    ) {
        let misuse = "sortBy can only be applied to a list, identifier, comprehension, call or select expression";
        return Err((Misuse(target.id, misuse), None));
    }
    let range = e.ident(SORT_BY_INPUT);
    let keys = map(e, Some(range), args)?;
    let input = e.ident(SORT_BY_INPUT);
    let sorted = e.member_call("@sortByAssociatedKeys", input, vec![keys]);
    Ok(e.binding(SORT_BY_INPUT, target, sorted))
}
