//! What a decision of RBAC costs among 10, 1,000 and 10,000 bindings: `cargo bench -p bailiwick-auth --bench decisions`.
//!
//! Each shape is a way in which bindings pile up. A decision is asked for 32 different callers and objects in turn, allowed ones
//! with the reason that an audit event would have, and refused ones; the figure is the best of several rounds.

use std::hint::black_box;
use std::time::{Duration, Instant};

use bailiwick_auth::authz::rbac::{Change, Rbac, RbacKind};
use bailiwick_auth::authz::{Attributes, Authorizer, ResourceTarget, Target, defaults};
use bailiwick_machinery::UserInfo;
use serde_json::{Value, json};

const SIZES: [usize; 3] = [10, 1_000, 10_000];
const ROUNDS: usize = 7;
const ROUND: Duration = Duration::from_millis(60);

/// How bindings pile up.
struct Shape {
    name: &'static str,
    build: fn(&Rbac, usize),
    /// The caller and the namespace of the question with this number.
    ask: fn(usize, usize) -> (UserInfo, String),
}

fn main() {
    println!("{:<52} {:>10} {:>10} {:>10}", "ns per decision, allowed / refused", SIZES[0], SIZES[1], SIZES[2]);
    for shape in &SHAPES {
        let figures = SIZES.map(|size| measure(shape, size));
        let shown = figures.map(|(allowed, refused)| format!("{allowed}/{refused}"));
        println!("{:<52} {:>10} {:>10} {:>10}", shape.name, shown[0], shown[1], shown[2]);
    }
}

const SHAPES: [Shape; 5] = [
    Shape {
        name: "a namespace and a user each",
        build: users,
        ask: |n, size| (user(&format!("u{}", n % size), &[]), format!("ns{}", n % size)),
    },
    Shape {
        name: "one group in as many namespaces",
        build: one_group,
        ask: |n, size| (user("x", &["dev"]), format!("ns{}", n % size)),
    },
    Shape {
        name: "one user in one namespace, one role",
        build: one_user,
        ask: |_, _| (user("u", &[]), "ns".to_owned()),
    },
    Shape {
        name: "one group in the cluster, as many roles",
        build: many_roles,
        ask: |_, _| (user("x", &["dev"]), "ns".to_owned()),
    },
    Shape {
        name: "one binding of as many users",
        build: many_subjects,
        ask: |n, size| (user(&format!("u{}", n % size), &[]), "ns".to_owned()),
    },
];

fn user(name: &str, groups: &[&str]) -> UserInfo {
    let mut groups: Vec<String> = groups.iter().map(|group| (*group).to_owned()).collect();
    groups.push("system:authenticated".to_owned());
    UserInfo { name: name.to_owned(), groups, ..UserInfo::default() }
}

/// The default roles, as every control plane has them, and one like `edit` under the name `worker`.
fn with_defaults() -> Rbac {
    let rbac = Rbac::default();
    let mut edit = Value::Null;
    for default in defaults::objects() {
        if default.name == "system:aggregate-to-edit" {
            edit = default.object["rules"].clone();
        }
        rbac.apply(default.kind, Change::Stored(&default.object));
    }
    rbac.apply(RbacKind::ClusterRole, Change::Stored(&json!({"metadata": {"name": "worker"}, "rules": edit})));
    rbac
}

fn bind(rbac: &Rbac, namespace: &str, name: &str, role: &str, subjects: Value) {
    let kind = if namespace.is_empty() { RbacKind::ClusterRoleBinding } else { RbacKind::RoleBinding };
    let binding = json!({
        "metadata": {"namespace": namespace, "name": name}, "roleRef": {"kind": "ClusterRole", "name": role},
        "subjects": subjects,
    });
    rbac.apply(kind, Change::Stored(&binding));
}

fn users(rbac: &Rbac, size: usize) {
    for n in 0..size {
        bind(rbac, &format!("ns{n}"), "b", "worker", json!([{"kind": "User", "name": format!("u{n}")}]));
    }
}

fn one_group(rbac: &Rbac, size: usize) {
    for n in 0..size {
        bind(rbac, &format!("ns{n}"), "b", "worker", json!([{"kind": "Group", "name": "dev"}]));
    }
}

fn one_user(rbac: &Rbac, size: usize) {
    for n in 0..size {
        bind(rbac, "ns", &format!("b{n}"), "worker", json!([{"kind": "User", "name": "u"}]));
    }
}

fn many_roles(rbac: &Rbac, size: usize) {
    for n in 0..size {
        let resource = if n + 1 == size { "configmaps".to_owned() } else { format!("things{n}") };
        let rules = json!([{"verbs": ["get", "update"], "apiGroups": [""], "resources": [resource]}]);
        let role = json!({"metadata": {"name": format!("r{n}")}, "rules": rules});
        rbac.apply(RbacKind::ClusterRole, Change::Stored(&role));
        bind(rbac, "", &format!("b{n}"), &format!("r{n}"), json!([{"kind": "Group", "name": "dev"}]));
    }
}

fn many_subjects(rbac: &Rbac, size: usize) {
    let subjects: Vec<Value> = (0..size).map(|n| json!({"kind": "User", "name": format!("u{n}")})).collect();
    bind(rbac, "ns", "b", "worker", subjects.into());
}

/// Nanoseconds of an allowed and of a refused decision.
fn measure(shape: &Shape, size: usize) -> (u128, u128) {
    let rbac = with_defaults();
    (shape.build)(&rbac, size);
    let asked: Vec<(UserInfo, String)> = (0..32).map(|n| (shape.ask)(n * 313, size)).collect();
    let decide = |verb: &str, n: usize| {
        let Some((user, namespace)) = asked.get(n % asked.len()) else { return false };
        let target =
            ResourceTarget { resource: "configmaps", namespace, name: "x", version: "v1", ..ResourceTarget::default() };
        let decision = rbac.authorize(&Attributes { user, verb, target: Target::Resource(target) });
        black_box(decision).is_allowed()
    };
    assert!((0..32).all(|n| decide("update", n)), "{}: allowed", shape.name);
    assert!(!(0..32).any(|n| decide("dance", n)), "{}: refused", shape.name);
    (best(|n| decide("update", n)), best(|n| decide("dance", n)))
}

fn best(decide: impl Fn(usize) -> bool) -> u128 {
    let round = || {
        let (started, mut decisions) = (Instant::now(), 0usize);
        while started.elapsed() < ROUND {
            for n in 0..256 {
                black_box(decide(decisions + n));
            }
            decisions += 256;
        }
        started.elapsed().as_nanos() / decisions.max(1) as u128
    };
    (0..ROUNDS).map(|_| round()).min().unwrap_or_default()
}
