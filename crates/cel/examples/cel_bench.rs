//! How long evaluations take: a comparison of two fields, a comprehension over fifty items, a rule with several terms.
//! Run with `cargo run --release -p bailiwick-cel --example cel_bench`.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use bailiwick_cel::{Bindings, Budget, DeclField, DeclKind, DeclType, Env, ListSemantics, library};
use serde_json::json;

/// Evaluations between two looks at the clock.
const BATCH: u32 = 100;

fn main() {
    let field = |name: &str, decl: DeclType| DeclField { name: name.into(), decl: Arc::new(decl), required: false };
    let port = Arc::new(DeclType::object(vec![
        field("name", DeclType::new(DeclKind::String)),
        field("port", DeclType::new(DeclKind::Int)),
    ]));
    let decl = Arc::new(DeclType::object(vec![
        field("replicas", DeclType::new(DeclKind::Int)),
        field("maxReplicas", DeclType::new(DeclKind::Int)),
        field("ports", DeclType::list(port, ListSemantics::Atomic, 100)),
        field("name", DeclType::new(DeclKind::String)),
    ]));
    let ports: Vec<_> = (1..=50).map(|port| json!({"name": format!("port-{port}"), "port": port})).collect();
    let object = json!({"replicas": 3, "maxReplicas": 10, "ports": ports, "name": "example"});
    let Some(ty) = decl.cel_type("object") else { return };
    let env = library::kubernetes()
        .into_iter()
        .fold(Env::builder(), |builder, library| builder.library(library))
        .variable("self", ty)
        .build();
    for expression in [
        "self.replicas <= self.maxReplicas",
        "self.ports.all(p, p.port > 0 && p.port < 65536)",
        "has(self.name) && self.name.startsWith('ex') && self.replicas > 0 ? self.replicas < 100 : true",
        "self.ports.map(p, p.name).exists(n, n == 'port-50')",
        "self.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
    ] {
        let Ok(checked) = env.compile(expression) else {
            println!("{expression}: does not compile");
            continue;
        };
        let Ok(program) = checked.program() else { continue };
        let Ok(view) = decl.view(&object) else { continue };
        let bindings = Bindings::new().bind("self", view);
        // The best of many short batches: other processes disturb most of them on a busy machine.
        let mut best = f64::INFINITY;
        let started = Instant::now();
        while started.elapsed().as_millis() < 300 {
            let batch = Instant::now();
            for _ in 0..BATCH {
                let mut budget = Budget::new(1_000_000);
                black_box(program.evaluate(black_box(&bindings), &mut budget).is_ok());
            }
            best = best.min(batch.elapsed().as_nanos() as f64 / f64::from(BATCH));
        }
        println!("{best:>9.1} ns  {expression}");
    }
    let started = Instant::now();
    for _ in 0..1000 {
        black_box(env.compile("self.replicas <= self.maxReplicas").is_ok());
    }
    println!("{:>9.1} ns  to compile the first", started.elapsed().as_nanos() as f64 / 1000.0);
}
