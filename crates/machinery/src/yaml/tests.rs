//! YAML as kube-apiserver 1.36.4 reads it.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn read(text: &str) -> Value {
    decode(text).unwrap().value
}

fn refused(text: &str) -> String {
    decode(text).unwrap_err().to_string()
}

#[test]
fn scalars_resolve_as_yaml_1_1() {
    for (text, expected) in [
        ("yes", json!(true)),
        ("Off", json!(false)),
        ("y", json!(true)),
        ("\"yes\"", json!("yes")),
        ("~", json!(null)),
        ("0x1F", json!(31)),
        ("017", json!(15)),
        ("0o17", json!(15)),
        ("0b11", json!(3)),
        ("1_000", json!(1000)),
        ("-7", json!(-7)),
        ("18446744073709551615", json!(18446744073709551615u64)),
        ("1.5", json!(1.5)),
        ("1e3", json!(1000)),
        (".5", json!(0.5)),
        ("1:30", json!("1:30")),
        ("2001-01-01", json!("2001-01-01")),
        ("2001-01-01T00:00:00Z", json!("2001-01-01T00:00:00Z")),
        ("v1", json!("v1")),
        ("1.2.3", json!("1.2.3")),
        ("1e", json!("1e")),
        ("-", json!([null])),
        ("0", json!(0)),
        ("08", json!(8)),
        ("!!str 123", json!("123")),
        ("!!binary aGVsbG8=", json!("hello")),
        ("!foo 12", json!("12")),
        ("!!float 3", json!(3)),
    ] {
        assert_eq!(read(text), expected, "{text}");
    }
}

#[test]
fn collections_and_blocks() {
    let text = "metadata: {name: y1}\ndata:\n  a: |\n    hi\n  b: >-\n    x\n    y\nlist:\n- 1\n- [a, b]\n";
    assert_eq!(
        read(text),
        json!({"metadata": {"name": "y1"}, "data": {"a": "hi\n", "b": "x y"}, "list": [1, ["a", "b"]]})
    );
    assert_eq!(read("{1: x, true: q, 1.5: z}"), json!({"1": "x", "true": "q", "1.5": "z"}));
    assert_eq!(read("{\"a\": [1, {\"b\": null}]}"), json!({"a": [1, {"b": null}]}));
}

#[test]
fn only_the_first_document_counts() {
    assert_eq!(read("a: 1\n---\na: 2\n"), json!({"a": 1}));
    assert_eq!(read(""), Value::Null);
    assert_eq!(read("# nothing\n"), Value::Null);
    assert_eq!(read("---\n---\na: 1\n"), Value::Null);
}

#[test]
fn aliases_and_merge_keys() {
    assert_eq!(read("a: &x {k: v}\nb: *x\n"), json!({"a": {"k": "v"}, "b": {"k": "v"}}));
    assert_eq!(read("a: &x {k: v}\nb: {<<: *x, z: 1}\n")["b"], json!({"k": "v", "z": 1}));
    assert_eq!(read("b: {<<: [{k: 1}, {k: 2, l: 3}]}\n")["b"], json!({"k": 1, "l": 3}));
    assert_eq!(read("&k key: *k\n"), json!({"key": "key"}));
}

#[test]
fn duplicates_are_reported_and_the_last_wins() {
    let decoded = decode("metadata: {name: y1}\ndata: {a: x, a: b}\n").unwrap();
    assert_eq!(decoded.value["data"], json!({"a": "b"}));
    assert_eq!(
        decoded.strict_error().as_deref(),
        Some("yaml: unmarshal errors:\n  line 2: key \"a\" already set in map")
    );
    let decoded = decode("{n: a, n: b, 1: c, 1: d}\n").unwrap();
    assert_eq!(
        decoded.strict_error().as_deref(),
        Some("yaml: unmarshal errors:\n  line 1: key false already set in map\n  line 1: key 1 already set in map"),
    );
    assert_eq!(decode("a: 1").unwrap().strict_error(), None);
}

#[test]
fn what_cannot_be_json_is_refused() {
    assert_eq!(refused("a: .inf"), "json: unsupported value: +Inf");
    assert_eq!(refused("!!int x"), "yaml: cannot decode !!str `x` as a !!int");
    assert!(refused("a: b: c\n").starts_with("yaml: line 1: "));
    assert!(refused("a:\n\tb: x\n").starts_with("yaml: line 2: "));
    assert!(refused("a: *x").starts_with("yaml: "));
    assert!(refused("{[a]: b}").contains("invalid map key"));
    assert!(refused("{null: b}").starts_with("unsupported map key"));
    assert_eq!(refused("%YAML 1.2\n---\na: 1\n"), "yaml: found incompatible YAML document");
    assert_eq!(refused("a: {<<: 1}"), "yaml: map merge requires map or sequence of maps as the value");
}

#[test]
fn lines_inside_quotes_may_be_indented_too_little() {
    assert_eq!(
        read("a:\n    b: 'one\n  two\n    three'\nc: \"x\n  y\"\n"),
        json!({"a": {"b": "one two three"}, "c": "x y"})
    );
}

#[test]
fn long_texts_are_wrapped_and_keys_are_in_natural_order() {
    let words = "word ".repeat(20);
    let value = json!({"a10": words.trim(), "a2": format!("{}:", "k ".repeat(50)), "a": "\u{1f600}"});
    let text = encode(&value);
    assert_eq!(
        text.lines().map(|line| line.split(' ').next().unwrap_or_default()).collect::<Vec<_>>(),
        ["a:", "a2:", "", "a10:", ""]
    );
    assert!(text.starts_with("a: \"\\U0001F600\"\na2: 'k k "), "{text}");
    assert_eq!(read(&text), value);
}

#[test]
fn bombs_do_not_go_off() {
    let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for i in 1..10 {
        let before = format!("*a{}", i - 1);
        bomb.push_str(&format!("a{i}: &a{i} [{}]\n", vec![before; 10].join(", ")));
    }
    assert_eq!(refused(&bomb), "yaml: document contains excessive aliasing");
    let long = format!("a: &a {}\nb: [{}]\n", "x".repeat(10_000), vec!["*a"; 1000].join(", "));
    assert_eq!(refused(&long), "yaml: document contains excessive aliasing");
    assert_eq!(refused("a: &a [*a]"), "yaml: anchor value contains itself");
    assert_eq!(refused(&format!("{}{}", "[".repeat(129), "]".repeat(129))), "yaml: exceeded max depth of 128");
    assert!(decode(&format!("{}{}", "[".repeat(128), "]".repeat(128))).is_ok());
}

#[test]
fn output_is_block_style() {
    let value = json!({
        "kind": "List", "metadata": {}, "items": [{"name": "a", "tags": ["x", {"deep": [1]}]}], "empty": [],
        "text": {"bool": "true", "date": "2026-11-15T21:50:41Z", "lines": "a\nb\n", "number": "1", "quote": "it's: x"},
    });
    assert_eq!(
        encode(&value),
        "empty: []\nitems:\n- name: a\n  tags:\n  - x\n  - deep:\n    - 1\nkind: List\nmetadata: {}\ntext:\n  \
         bool: \"true\"\n  date: \"2026-11-15T21:50:41Z\"\n  lines: |\n    a\n    b\n  number: \"1\"\n  quote: 'it''s: x'\n"
    );
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "\\PC{0,12}".prop_map(Value::from),
        "[a-z :#'\"|>&*!%@`{}\\[\\],?-]{0,8}".prop_map(Value::from),
        "[ \n\ta-c]{0,8}".prop_map(Value::from),
        "(true|no|on|~|null|1e3|0x1|-1|\\.5|<<|=|2001-01-01|1:2|---|\\.\\.\\.)".prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[ \na-c:#-]{0,4}|\\PC{0,3}", inner, 0..4)
                .prop_map(|m| Value::Object(m.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn what_is_written_reads_the_same(value in value()) {
        let text = encode(&value);
        prop_assert_eq!(decode(&text).map(|d| d.value), Ok(value), "{}", text);
    }

    #[test]
    fn json_is_yaml(value in value()) {
        prop_assert_eq!(decode(&value.to_string()).map(|d| d.value), Ok(value));
    }

    #[test]
    fn no_text_panics(text in "\\PC*") {
        let _ = decode(&text);
    }

    #[test]
    fn no_odd_syntax_panics(text in "[a-b0:\\-&*!<\\[\\]{},\n \"'|>?#~%]{0,40}") {
        let _ = decode(&text);
    }
}
