//! JSON seen through declared types.

use std::sync::Arc;

use bailiwick_cel::operations::to_text;
use bailiwick_cel::{Bindings, Budget, DeclField, DeclKind, DeclType, Env, ListSemantics};
use serde_json::{Value as Json, json};

fn field(name: &str, decl: DeclType) -> DeclField {
    DeclField { name: name.into(), decl: Arc::new(decl), required: false }
}

fn of(kind: DeclKind) -> DeclType {
    DeclType::new(kind)
}

fn list(element: DeclType, semantics: ListSemantics) -> DeclType {
    DeclType::list(Arc::new(element), semantics, 100)
}

fn document() -> Arc<DeclType> {
    let entry = DeclType::object(vec![field("key", of(DeclKind::String)), field("value", of(DeclKind::Int))]);
    Arc::new(DeclType::object(vec![
        field("replicas", of(DeclKind::Int)),
        field("ratio", of(DeclKind::Double)),
        field("port", of(DeclKind::IntOrString)),
        field("namespace", of(DeclKind::String)),
        field("dotted.name", of(DeclKind::String)),
        field("when", of(DeclKind::DateTime)),
        field("for", of(DeclKind::Duration)),
        field("data", of(DeclKind::Bytes)),
        field("hidden", of(DeclKind::Preserved)),
        field("set", list(of(DeclKind::String), ListSemantics::Set)),
        field("other", list(of(DeclKind::String), ListSemantics::Set)),
        field("keyed", list(entry, ListSemantics::Map(Box::new(["key".into()])))),
        field("labels", DeclType::map(Arc::new(of(DeclKind::String)), 10)),
    ]))
}

fn outcome(expression: &str, object: &Json) -> String {
    let decl = document();
    let env = Env::builder().variable("self", decl.cel_type("selfType").expect("an object is a type")).build();
    let checked = match env.compile(expression) {
        Ok(checked) => checked,
        Err(issues) => return issues.iter().map(|issue| issue.message.clone()).collect::<Vec<_>>().join("; "),
    };
    let program = checked.program().expect("the program can be planned");
    let bindings = Bindings::new().bind("self", decl.view(object).expect("an object"));
    match program.evaluate(&bindings, &mut Budget::unlimited()) {
        Ok(value) => to_text(&value),
        Err(error) => format!("error: {error}"),
    }
}

fn check(object: &Json, table: &[(&str, &str)]) {
    for (expression, expected) in table {
        assert_eq!(outcome(expression, object), *expected, "{expression}");
    }
}

#[test]
fn formats_become_types() {
    let object = json!({
        "replicas": 3, "ratio": 2, "port": "http", "when": "2024-01-02T03:04:05Z", "for": "90s", "data": "aGk=",
    });
    check(
        &object,
        &[
            ("self.ratio == 2.0", "true"),
            ("self.when.getHours()", "3"),
            ("self.__for__ == duration('1m30s')", "true"),
            ("self.data == b'hi'", "true"),
            ("type(self.port) == string && self.port == 'http'", "true"),
            ("self.replicas + 1", "4"),
            ("type(self) == map", "true"),
        ],
    );
}

#[test]
fn names_are_escaped() {
    let object = json!({"namespace": "n", "dotted.name": "d"});
    check(
        &object,
        &[
            ("self.__namespace__", "n"),
            ("self.dotted__dot__name", "d"),
            ("has(self.dotted__dot__name)", "true"),
            ("self.dotted", "undefined field 'dotted'"),
        ],
    );
}

#[test]
fn null_fields_are_absent_and_unknown_ones_do_not_exist() {
    let object = json!({"replicas": null, "hidden": {"a": 1}, "undeclared": 1});
    check(
        &object,
        &[
            ("has(self.replicas)", "false"),
            ("self.replicas > 1", "error: no such key: replicas"),
            ("has(self.ratio)", "false"),
            ("self.hidden", "undefined field 'hidden'"),
            ("self.undeclared", "undefined field 'undeclared'"),
            ("self == self", "true"),
        ],
    );
}

#[test]
fn sets_and_keyed_lists_compare_and_merge_by_identity() {
    let object = json!({
        "set": ["a", "b"], "other": ["b", "a"],
        "keyed": [{"key": "x", "value": 1}, {"key": "y", "value": 2}],
    });
    check(
        &object,
        &[
            ("self.set == self.other", "true"),
            ("self.set == ['b', 'a']", "true"),
            ("(self.set + ['b', 'c']).size()", "3"),
            ("(self.keyed + self.keyed).size()", "2"),
            ("self.keyed == self.keyed", "true"),
            ("self.keyed.map(e, e.key)", "[x, y]"),
        ],
    );
}

#[test]
fn data_that_contradicts_its_type_is_an_error() {
    check(
        &json!({"replicas": "three", "port": 1.5, "labels": {"a": null}}),
        &[
            ("self.replicas == 3", "error: invalid data, expected int, got string"),
            ("self.port == 1", "error: invalid data, expected XIntOrString value to be either a string or integer"),
            ("self.labels.a == ''", "error: invalid data, got null for schema with nullable=false"),
        ],
    );
}

#[test]
fn types_are_named_by_their_path() {
    let message = outcome("self.keyed[0] + 1", &json!({}));
    assert_eq!(message, "found no matching overload for '_+_' applied to '(selfType.keyed.@idx, int)'");
}
