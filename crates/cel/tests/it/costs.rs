//! Costs of runs and estimates. The figures were read off cel-go 0.26 with Kubernetes' options.

use bailiwick_cel::cost::{CostEstimate, Node, SizeEstimate, SizeEstimator};
use bailiwick_cel::{Bindings, Budget, DeclKind, DeclType, Env, EvalError, Type, library};
use serde_json::json;

struct Unknown;

impl SizeEstimator for Unknown {
    fn estimate_size(&self, _: &Node<'_>) -> Option<SizeEstimate> {
        None
    }
}

/// Every list has at most ten items, every string at most twenty bytes.
struct Bounded;

impl SizeEstimator for Bounded {
    fn estimate_size(&self, node: &Node<'_>) -> Option<SizeEstimate> {
        match (node.path.is_empty(), node.ty) {
            (false, Type::List(_)) => Some(SizeEstimate { min: 0, max: 10 }),
            (false, Type::String) => Some(SizeEstimate { min: 0, max: 20 }),
            _ => None,
        }
    }
}

fn env() -> Env {
    library::kubernetes()
        .into_iter()
        .fold(Env::builder(), |builder, library| builder.library(library))
        .variable("x", Type::Int)
        .variable("s", Type::String)
        .variable("d", Type::Dyn)
        .variable("l", Type::list(Type::Int))
        .variable("ls", Type::list(Type::String))
        .build()
}

fn run(expression: &str, limit: u64) -> (Result<(), EvalError>, u64) {
    let checked = env().compile(expression).unwrap_or_else(|issues| panic!("{issues}"));
    let program = checked.program().expect("the program can be planned");
    let data = json!({
        "x": 5, "s": "hello", "d": {"a": 1, "b": [1, "two", 3.5]}, "l": [1, 2, 3], "ls": ["a", "bb", "ccc"],
    });
    let any = DeclType::new(DeclKind::Dyn);
    let mut bindings = Bindings::new();
    for name in ["x", "s", "d", "l", "ls"] {
        bindings = bindings.bind(name, any.view(&data[name]).expect("any JSON has a view"));
    }
    let mut budget = Budget::new(limit);
    let result = program.evaluate(&bindings, &mut budget).map(|_| ());
    (result, budget.spent())
}

#[test]
fn runs_cost_what_cel_go_charges() {
    for (expression, cost) in [
        ("x + 1", 2),
        ("d.b[0]", 3),
        ("d.b[x - 5]", 5),
        ("has(d.a)", 1),
        ("x > 3 ? d.a : d.b", 3),
        ("s == 'hello'", 2),
        ("s.matches('h.*o')", 2),
        ("[1, 2, 3]", 0),
        ("[1, 2, x]", 11),
        ("x in [1, 5]", 1),
        ("l.map(i, i * 2)", 44),
        ("l.map(i, d.absent)", 44),
        ("l.all(i, i > 0)", 17),
        ("l.exists(i, i == 2)", 17),
    ] {
        assert_eq!(run(expression, u64::MAX).1, cost, "{expression}");
    }
}

#[test]
fn a_budget_that_is_used_up_ends_the_run_whatever_the_expression_says() {
    let (result, _) = run("l.all(i, i > 0) || true", 5);
    assert_eq!(result, Err(EvalError::CostLimitExceeded));
    assert_eq!(result.unwrap_err().to_string(), "operation cancelled: actual cost limit exceeded");
    assert_eq!(run("l.all(i, i > 0)", 17).0, Ok(()));
    assert_eq!(run("l.all(i, i > 0)", 16).0, Err(EvalError::CostLimitExceeded));
}

#[test]
fn estimates_follow_the_sizes_that_are_known() {
    let estimate = |expression: &str, sizes: &dyn SizeEstimator| {
        env().compile(expression).unwrap_or_else(|issues| panic!("{issues}")).estimate_cost(sizes)
    };
    assert_eq!(estimate("x + 1", &Unknown), CostEstimate { min: 2, max: 2 });
    assert_eq!(estimate("ls.all(i, i == 'a')", &Unknown).max, u64::MAX);
    assert_eq!(estimate("ls.all(i, i == 'a')", &Bounded), CostEstimate { min: 2, max: 52 });
    assert_eq!(estimate("s.contains('abc')", &Bounded), CostEstimate { min: 1, max: 3 });
    assert_eq!(estimate("[1, 2].all(i, i > 0)", &Unknown), CostEstimate { min: 17, max: 21 });
}
