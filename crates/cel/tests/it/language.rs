//! What expressions mean.

use bailiwick_cel::operations::to_text;
use bailiwick_cel::{Bindings, Budget, DeclKind, DeclType, Env, Type, library};
use serde_json::json;

/// The outcome of an expression as text, errors with a mark.
fn outcome(expression: &str) -> String {
    let env = library::kubernetes()
        .into_iter()
        .fold(Env::builder(), |builder, library| builder.library(library))
        .variable("d", Type::Dyn)
        .build();
    let checked = match env.compile(expression) {
        Ok(checked) => checked,
        Err(issues) => return format!("does not compile: {issues}"),
    };
    let program = match checked.program() {
        Ok(program) => program,
        Err(error) => return format!("no program: {error}"),
    };
    let data = json!({"a": 1, "text": "hello", "list": [1, "two", 3.5], "null": null, "nested": {"deep": true}});
    let any = DeclType::new(DeclKind::Dyn);
    let bindings = Bindings::new().bind("d", any.view(&data).expect("any JSON has a view"));
    match program.evaluate(&bindings, &mut Budget::unlimited()) {
        Ok(value) => to_text(&value),
        Err(error) => format!("error: {error}"),
    }
}

fn check(table: &[(&str, &str)]) {
    for (expression, expected) in table {
        assert_eq!(outcome(expression), *expected, "{expression}");
    }
}

#[test]
fn an_error_counts_only_if_nothing_else_decides() {
    check(&[
        ("d.absent || true", "true"),
        ("true || d.absent", "true"),
        ("d.absent && false", "false"),
        ("d.absent || false", "error: no such key: absent"),
        ("[1, 2].exists(i, d.absent || i == 2)", "true"),
        ("[1, 2].all(i, i == 2 && d.absent)", "false"),
        ("1 / 0 == 1 || 1 < 2", "true"),
    ]);
}

#[test]
fn numbers_compare_across_types_but_do_not_mix_in_arithmetic() {
    check(&[
        ("1 < 1.5", "true"),
        ("dyn(1) == 1.0", "true"),
        ("1u < 2", "true"),
        ("dyn(1) in [1.0, 2.0]", "true"),
        ("dyn(1) + 1.0", "error: no such overload"),
        ("9223372036854775807 + dyn(1)", "error: integer overflow"),
        ("dyn(0u) - 1u", "error: unsigned integer overflow"),
        ("dyn(0.0) / 0.0 == 0.0 / 0.0", "false"),
    ]);
}

#[test]
fn optional_values_carry_absence_along() {
    check(&[
        ("d.?absent.?more.orValue('none')", "none"),
        ("d.?text.orValue('none')", "hello"),
        ("d.list[?7].hasValue()", "false"),
        ("[?d.?absent, ?d.?a]", "[1]"),
        ("{?'k': d.?absent}.size()", "0"),
        ("d.?a.optMap(v, v + 1).value()", "2"),
        ("d.?absent.value()", "error: optional.none() dereference"),
        ("has(d.nested.deep) && !has(d.nested.absent)", "true"),
    ]);
}

#[test]
fn macros_with_one_and_two_variables() {
    check(&[
        ("[1, 2, 3].filter(i, i % 2 == 1).map(i, i * 10)", "[10, 30]"),
        ("[1, 2, 3].map(i, i > 1, i)", "[2, 3]"),
        ("{'a': 1, 'b': 2}.transformMap(k, v, v * 2) == {'a': 2, 'b': 4}", "true"),
        ("['x', 'y'].transformList(i, v, v + string(i))", "[x0, y1]"),
        ("{'a': 1}.transformMapEntry(k, v, {string(v): k})", "{1: a}"),
        ("['b', 'a'].transformMapEntry(i, v, {'same': v})", "error: insert failed: key same already exists"),
        ("[3, 1, 2].sortBy(e, -e)", "[3, 2, 1]"),
        ("[1, 2, 2].exists_one(i, i == 2)", "false"),
    ]);
}

#[test]
fn times_know_zones() {
    check(&[
        ("timestamp('2024-02-29T23:30:00Z').getDate('Europe/Berlin')", "1"),
        ("timestamp('2024-02-29T23:30:00Z').getHours('-05:30')", "18"),
        ("timestamp('2024-01-01T00:00:00Z') + duration('36h')", "2024-01-02T12:00:00Z"),
        ("timestamp('9999-12-31T23:59:59Z') + duration('1s')", "error: timestamp overflow"),
        ("string(duration('1h30m0.5s'))", "5400.5s"),
        ("timestamp('2024-01-01T00:00:00Z').getHours('Moon/Base')", "error: unknown time zone Moon/Base"),
    ]);
}

#[test]
fn literals_of_all_kinds() {
    check(&[
        (r#"r'\d' + "\u00e9""#, "\\dé"),
        (r#"'''a"b'''"#, "a\"b"),
        ("b'\\xff' == b'\\377'", "true"),
        ("0x1F + -0x1", "30"),
        ("'\\'' + '\"'", "'\""),
        ("1e3 == 1000.0", "true"),
    ]);
}
