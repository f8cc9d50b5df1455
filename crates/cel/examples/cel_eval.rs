//! Compiles and runs expressions with the Kubernetes libraries: one JSON string per line in, one JSON object per line
//! out, with type, estimated cost, value and cost of the run. Made for comparing with other implementations.

use std::io::{BufRead, Write};

use bailiwick_cel::cost::{Node, SizeEstimate, SizeEstimator};
use bailiwick_cel::decl::{DeclKind, DeclType};
use bailiwick_cel::operations::to_text;
use bailiwick_cel::{Bindings, Budget, Env, Type, Value, library};
use serde_json::json;

/// Knows no sizes.
struct Unknown;

impl SizeEstimator for Unknown {
    fn estimate_size(&self, _: &Node<'_>) -> Option<SizeEstimate> {
        None
    }
}

fn main() {
    let mut builder = Env::builder()
        .variable("x", Type::Int)
        .variable("s", Type::String)
        .variable("d", Type::Dyn)
        .variable("l", Type::list(Type::Int))
        .variable("m", Type::map(Type::String, Type::String))
        .variable("ls", Type::list(Type::String));
    for library in library::kubernetes() {
        builder = builder.library(library);
    }
    let env = builder.build();
    let any = DeclType::new(DeclKind::Dyn);
    let data = json!({
        "x": 5, "s": "hello", "d": {"a": 1, "b": [1, "two", 3.5], "s": "str"},
        "l": [1, 2, 3], "m": {"k": "v"}, "ls": ["a", "bb", "ccc"],
    });
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let Ok(expression) = serde_json::from_str::<String>(&line) else { continue };
        let mut report = json!({"expr": expression, "min": 0, "max": 0, "cost": 0});
        match env.compile(&expression) {
            Err(issues) => report["issues"] = json!(issues.to_string()),
            Ok(checked) => {
                let estimate = checked.estimate_cost(&Unknown);
                report["type"] = json!(checked.output_type().to_string());
                report["min"] = json!(estimate.min);
                report["max"] = json!(estimate.max);
                match checked.program() {
                    Err(error) => report["err"] = json!(format!("program: {error}")),
                    Ok(program) => {
                        let mut bindings = Bindings::new();
                        for name in ["x", "s", "d", "l", "m", "ls"] {
                            let value = data.get(name).map_or(Ok(Value::Null), |value| any.view(value));
                            bindings = bindings.bind(name, value.unwrap_or(Value::Null));
                        }
                        let mut budget = Budget::unlimited();
                        match program.evaluate(&bindings, &mut budget) {
                            Ok(value) => report["value"] = json!(to_text(&value)),
                            Err(error) => report["err"] = json!(error.to_string()),
                        }
                        report["cost"] = json!(budget.spent());
                    }
                }
            }
        }
        if writeln!(out, "{report}").is_err() {
            return;
        }
    }
}
