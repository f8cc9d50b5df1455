//! What holds for every input.

use bailiwick_cel::{Bindings, Budget, DeclKind, DeclType, Env, EvalError, Type, library};
use proptest::prelude::*;
use serde_json::json;

fn env() -> Env {
    library::kubernetes()
        .into_iter()
        .fold(Env::builder(), |builder, library| builder.library(library))
        .variable("d", Type::Dyn)
        .variable("l", Type::list(Type::Int))
        .build()
}

/// Text made of what expressions are made of, right or wrong.
fn fragments() -> impl Strategy<Value = String> {
    let fragment = prop::sample::select(vec![
        "d",
        "l",
        "x",
        ".",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        ",",
        ":",
        "?",
        "&&",
        "||",
        "!",
        "-",
        "+",
        "*",
        "/",
        "%",
        "==",
        "!=",
        "<",
        "<=",
        "in",
        "1",
        "2u",
        "1.5",
        "'s'",
        "b'b'",
        "r'\\'",
        "\"",
        "'''",
        "true",
        "null",
        "has(",
        ".all(i, ",
        ".map(i, ",
        ".exists(i, ",
        "i",
        ".?",
        "[?",
        " ",
        "\n",
        "\\",
        "é",
        "😁",
        "`a`",
        "size(",
        "//",
        "0x",
        "1e",
    ]);
    prop::collection::vec(fragment, 0..40).prop_map(|parts| parts.concat())
}

/// Expressions that compile, of moderate depth.
fn expressions() -> impl Strategy<Value = String> {
    let leaf = prop::sample::select(vec!["1", "2", "d.a", "d.absent", "l[0]", "l.size()", "d.list[1]"]);
    let leaf = leaf.prop_map(str::to_owned);
    leaf.prop_recursive(5, 64, 3, |inner| {
        prop_oneof![
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("dyn({a} + {b})")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a} == {b} ? dyn(1) : dyn(2))")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("l.map(i, l.map(j, dyn({a}) + {b})).size()")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("dyn(l.exists(i, {a} > i || dyn({b}) == i))")),
            inner.clone().prop_map(|a| format!("dyn(l.filter(i, dyn({a}) != i).size())")),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn no_text_makes_the_compiler_panic(text in any::<String>()) {
        let _ = env().compile(&text);
    }

    #[test]
    fn no_sequence_of_tokens_makes_the_compiler_panic(text in fragments()) {
        if let Err(issues) = env().compile(&text) {
            prop_assert!(!issues.to_string().is_empty());
        }
    }

    #[test]
    fn a_run_never_spends_much_more_than_its_budget(expression in expressions(), limit in 0u64..5_000) {
        let Ok(checked) = env().compile(&expression) else { return Ok(()) };
        let Ok(program) = checked.program() else { return Ok(()) };
        let data = json!({"d": {"a": 1, "list": [1, 2]}, "l": [1, 2, 3]});
        let any = DeclType::new(DeclKind::Dyn);
        let bindings = Bindings::new()
            .bind("d", any.view(&data["d"]).expect("any JSON has a view"))
            .bind("l", any.view(&data["l"]).expect("any JSON has a view"));
        let mut whole = Budget::unlimited();
        let unlimited = program.evaluate(&bindings, &mut whole);
        let mut budget = Budget::new(limit);
        let limited = program.evaluate(&bindings, &mut budget);
        if whole.spent() > limit {
            prop_assert_eq!(limited.err(), Some(EvalError::CostLimitExceeded));
            // One step may be charged beyond the limit, and the dearest step here is a list of size ten.
            prop_assert!(budget.spent() <= limit + 20);
        } else {
            prop_assert_eq!(limited.is_ok(), unlimited.is_ok());
            prop_assert_eq!(budget.spent(), whole.spent());
        }
    }
}
