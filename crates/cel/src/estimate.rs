//! Static cost estimates, as cel-go's checker makes them: the same rules a run is charged by, applied to ranges of
//! sizes. Kubernetes admits or refuses rules by these numbers, so they are reproduced exactly, oddities included.

mod calls;
mod sizes;

use std::collections::HashMap;
use std::sync::Arc;

use crate::ast::{Call, Comprehension, Expr, ExprId, ExprKind};
use crate::cost::{
    CostEstimate, LIST_CREATE_BASE_COST, MAP_CREATE_BASE_COST, Node, SELECT_AND_IDENT_COST, STRUCT_CREATE_BASE_COST,
    SizeEstimate, SizeEstimator,
};
use crate::program::{Checked, is_binding};
use crate::types::Type;

use sizes::{EntrySize, LocalVariable};

/// Estimates what a run costs.
pub(crate) fn estimate(checked: &Checked, sizes: &dyn SizeEstimator) -> CostEstimate {
    let mut coster = Coster {
        checked,
        sizes,
        paths: HashMap::new(),
        locals: HashMap::new(),
        computed: HashMap::new(),
        entries: HashMap::new(),
    };
    coster.cost(&checked.root)
}

type Path = Vec<Arc<str>>;

struct Coster<'c> {
    checked: &'c Checked,
    sizes: &'c dyn SizeEstimator,
    paths: HashMap<ExprId, Path>,
    locals: HashMap<Box<str>, Vec<LocalVariable>>,
    computed: HashMap<ExprId, SizeEstimate>,
    entries: HashMap<ExprId, EntrySize>,
}

const SELECT: CostEstimate = CostEstimate::fixed(SELECT_AND_IDENT_COST);

impl<'c> Coster<'c> {
    fn cost(&mut self, expr: &'c Expr) -> CostEstimate {
        match &expr.kind {
            ExprKind::Unspecified | ExprKind::Literal(_) => CostEstimate::fixed(0),
            ExprKind::Ident(name) => {
                let path = match self.local(name) {
                    Some(local) => local.path.clone(),
                    None => vec![Arc::from(&**name)],
                };
                self.paths.insert(expr.id, path);
                SELECT
            }
            ExprKind::Select { operand, field, test_only } => self.select(expr, operand, field, *test_only),
            ExprKind::Call(call) => self.call(expr, call),
            ExprKind::List { elements, .. } => self.list(expr, elements),
            ExprKind::Map(entries) => {
                let mut sum = CostEstimate::default();
                let mut key_size = EMPTY_RANGE;
                let mut value_size = EMPTY_RANGE;
                if entries.is_empty() {
                    key_size.min = 0;
                    value_size.min = 0;
                }
                for entry in entries {
                    sum = sum.add(self.cost(&entry.key)).add(self.cost(&entry.value));
                    key_size = key_size.union(self.size_or_unknown(&entry.key));
                    value_size = value_size.union(self.size_or_unknown(&entry.value));
                }
                self.entries.insert(expr.id, EntrySize { is_list: false, key: key_size, value: value_size });
                sum.add(CostEstimate::fixed(MAP_CREATE_BASE_COST))
            }
            ExprKind::Struct { fields, .. } => {
                let mut sum = CostEstimate::fixed(STRUCT_CREATE_BASE_COST);
                for field in fields {
                    sum = sum.add(self.cost(&field.value));
                }
                sum
            }
            ExprKind::Comprehension(fold) if is_binding(fold) => self.binding(expr, fold),
            ExprKind::Comprehension(fold) => self.comprehension(expr, fold),
        }
    }

    fn select(&mut self, expr: &'c Expr, operand: &'c Expr, field: &str, test_only: bool) -> CostEstimate {
        let mut sum = self.cost(operand);
        if test_only {
            // Kubernetes does not charge for `has()`.
            return sum;
        }
        if matches!(
            self.checked.type_of(operand.id),
            Type::Map(_) | Type::Object(_) | Type::Struct(_) | Type::Param(_) | Type::Variable(_)
        ) {
            sum = sum.add(SELECT);
        }
        let mut path = self.path_of(operand);
        path.push(Arc::from(field));
        self.paths.insert(expr.id, path);
        sum
    }

    fn list(&mut self, expr: &'c Expr, elements: &'c [Expr]) -> CostEstimate {
        let mut sum = CostEstimate::default();
        let mut item_size = EMPTY_RANGE;
        if elements.is_empty() {
            item_size.min = 0;
        }
        for element in elements {
            sum = sum.add(self.cost(element));
            item_size = item_size.union(self.size_or_unknown(element));
        }
        self.entries.insert(expr.id, EntrySize { is_list: true, key: SizeEstimate::fixed(1), value: item_size });
        sum.add(CostEstimate::fixed(LIST_CREATE_BASE_COST))
    }

    fn call(&mut self, expr: &'c Expr, call: &'c Call) -> CostEstimate {
        if &*call.function == "dyn"
            && let [arg] = call.args.as_slice()
        {
            let cost = self.cost(arg);
            self.copy_sizes(expr, arg);
            return CostEstimate::fixed(1).add(cost);
        }
        let mut arg_costs = Vec::with_capacity(call.args.len());
        let mut args: Vec<Node<'c>> = Vec::with_capacity(call.args.len());
        for arg in &call.args {
            arg_costs.push(self.cost(arg));
            args.push(self.node(arg));
        }
        let overloads = self.checked.overloads(expr.id);
        let ids: Vec<&str> = if overloads.is_empty() && &*call.function == crate::ast::operators::OPT_SELECT {
            vec!["select_optional_field"]
        } else {
            overloads.iter().map(|overload| &*overload.id).collect()
        };
        if ids.is_empty() {
            return CostEstimate::default();
        }
        let mut sum = CostEstimate::default();
        let mut target = None;
        if let Some(receiver) = &call.target {
            sum = sum.add(self.cost(receiver));
            target = Some(self.node(receiver));
        }
        let mut call_cost = CostEstimate { min: u64::MAX, max: 0 };
        let mut result_size: Option<SizeEstimate> = None;
        for (at, id) in ids.into_iter().enumerate() {
            let estimate = overloads.get(at).and_then(|overload| overload.estimate);
            let one = self.function_cost(expr, call, id, estimate, target.as_ref(), &args, &arg_costs);
            call_cost = call_cost.union(one.cost);
            if let Some(size) = one.result_size {
                result_size = Some(result_size.map_or(size, |known| known.union(size)));
            }
            if let ("index_list" | "index_map", Some(operand)) = (id, call.args.first()) {
                result_size = self.entry_size(operand).map(|entry| entry.value);
                let mut path = self.path_of(operand);
                path.push(Arc::from(if id == "index_list" { "@items" } else { "@values" }));
                self.paths.insert(expr.id, path);
            }
            if result_size.is_none() {
                result_size = self.compute_size(expr);
            }
        }
        if let Some(size) = result_size {
            self.computed.insert(expr.id, size);
        }
        sum.add(call_cost)
    }

    fn binding(&mut self, expr: &'c Expr, fold: &'c Comprehension) -> CostEstimate {
        let mut sum = self.cost(&fold.iter_range).add(self.cost(&fold.accu_init));
        self.push_local(&fold.accu_var, &fold.accu_init);
        sum = sum.add(self.cost(&fold.result));
        self.pop_local(&fold.accu_var);
        self.copy_sizes(expr, &fold.result);
        sum
    }

    fn comprehension(&mut self, expr: &'c Expr, fold: &'c Comprehension) -> CostEstimate {
        let mut sum = self.cost(&fold.iter_range).add(self.cost(&fold.accu_init));
        self.push_local(&fold.accu_var, &fold.accu_init);
        match &fold.iter_var2 {
            Some(second) => {
                self.push_iteration(&fold.iter_var, &fold.iter_range, sizes::Iteration::Key);
                self.push_iteration(second, &fold.iter_range, sizes::Iteration::Value);
            }
            None => self.push_iteration(&fold.iter_var, &fold.iter_range, sizes::Iteration::Single),
        }
        let condition = self.cost(&fold.loop_condition);
        let step = self.cost(&fold.loop_step);
        self.pop_local(&fold.iter_var);
        if let Some(second) = &fold.iter_var2 {
            self.pop_local(second);
        }
        sum = sum.add(self.cost(&fold.result));
        self.pop_local(&fold.accu_var);
        let count = self.size_or_unknown(&fold.iter_range);
        sum = sum.add(count.multiply_by_cost(step.add(condition)));
        match &fold.accu_init.kind {
            ExprKind::Literal(_) => {
                if let Some(size) = self.compute_size(&fold.accu_init) {
                    self.computed.insert(expr.id, size);
                }
            }
            ExprKind::List { .. } | ExprKind::Map(_) => {
                self.computed.insert(expr.id, count);
                if let Some(entry) = self.entry_size(&fold.loop_step) {
                    self.entries.insert(expr.id, entry);
                }
            }
            _ => {}
        }
        sum
    }
}

/// A range nothing has been added to yet.
const EMPTY_RANGE: SizeEstimate = SizeEstimate { min: u64::MAX, max: 0 };
