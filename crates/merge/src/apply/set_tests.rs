//! Laws of field sets, and that the shortcuts on stored fields do what the sets do.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::path::{Path, PathElement};
use super::set::FieldSet;
use super::stored_fields;

fn element() -> impl Strategy<Value = PathElement<'static>> {
    let text = prop_oneof!["[a-c]", Just("a\"<&\\\u{2028}\n".to_owned()), Just(String::new())];
    let value = prop_oneof![
        text.clone().prop_map(Value::from),
        (0..200i64).prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
        Just(json!(2.5)),
        Just(json!(1_000_000.0)),
    ];
    let key = prop::collection::btree_map("[k-m]", value.clone(), 1..3);
    prop_oneof![
        4 => text.prop_map(|name| PathElement::Field(name.into())),
        1 => key.prop_map(|key| {
            PathElement::key(key.into_iter().map(|(n, v)| (n.into(), std::borrow::Cow::Owned(v))).collect())
        }),
        1 => value.prop_map(|value| PathElement::Value(std::borrow::Cow::Owned(value))),
        1 => (0..3i64).prop_map(PathElement::Index),
    ]
}

fn set() -> impl Strategy<Value = FieldSet<'static>> {
    let path = prop::collection::vec(element(), 1..4).prop_map(Path);
    prop::collection::vec(path, 0..8).prop_map(FieldSet::of)
}

fn stored(set: &FieldSet<'_>) -> serde_json::Map<String, Value> {
    set.to_value().as_object().cloned().expect("fields are an object")
}

proptest! {
    #[test]
    fn sets_obey_the_laws_of_sets(a in set(), b in set(), c in set()) {
        prop_assert_eq!(a.union(&b), b.union(&a));
        prop_assert_eq!(a.union(&b).union(&c), a.union(&b.union(&c)));
        prop_assert_eq!(a.intersection(&b), b.intersection(&a));
        prop_assert_eq!(a.intersection(&b).intersection(&c), a.intersection(&b.intersection(&c)));
        prop_assert_eq!(a.intersection(&b.union(&c)), a.intersection(&b).union(&a.intersection(&c)));
        prop_assert_eq!(a.difference(&b).union(&a.intersection(&b)), a.clone());
        prop_assert_eq!(a.difference(&b.union(&c)), a.difference(&b).difference(&c));
        prop_assert!(a.difference(&b).intersection(&b).is_empty());
        prop_assert!(a.recursive_difference(&b).is_subset(&a.difference(&b)));
        prop_assert!(a.leaves().is_subset(&a));
        prop_assert_eq!(a.intersects(&b), !a.intersection(&b).is_empty());
        prop_assert_eq!(a.is_subset(&b), a.difference(&b).is_empty());
        prop_assert_eq!(a.union(&b).len() + a.intersection(&b).len(), a.len() + b.len());
    }

    #[test]
    fn a_set_is_the_set_of_its_paths(a in set()) {
        prop_assert_eq!(a.paths().len(), a.len());
        prop_assert!(a.paths().iter().all(|path| a.has(path)));
        prop_assert_eq!(FieldSet::of(a.paths()), a);
    }

    #[test]
    fn recursive_difference_leaves_nothing_below_what_it_removes(a in set(), b in set()) {
        for path in a.recursive_difference(&b).paths() {
            for end in 1..=path.0.len() {
                prop_assert!(!b.has(&Path(path.0[..end].to_vec())), "{path}");
            }
        }
    }

    #[test]
    fn reading_what_was_written_gives_the_same_set(a in set()) {
        let value = a.to_value();
        prop_assert_eq!(FieldSet::from_value(&value).expect("written by us"), a.clone());
        prop_assert_eq!(FieldSet::from_json(&a.to_json()).expect("written by us"), a.clone());
        let parsed: Value = serde_json::from_str(&a.to_json()).expect("JSON");
        prop_assert_eq!(parsed, value);
    }

    #[test]
    fn stored_fields_change_as_their_sets_do(a in set(), b in set()) {
        let mut fields = stored(&a);
        let changed = stored_fields::subtract(&mut fields, &b);
        prop_assert_eq!(&fields, &stored(&a.difference(&b)));
        prop_assert_eq!(changed, a.difference(&b) != a);
        let mut fields = stored(&a);
        let changed = stored_fields::add(&mut fields, &b);
        prop_assert_eq!(&fields, &stored(&a.union(&b)));
        prop_assert_eq!(changed, a.union(&b) != a);
    }

    #[test]
    fn no_text_makes_reading_panic(name in "[fkvi.x]?:?.{0,12}", json in "[fkvi.:{}\"\\[\\]0-9a, ]{0,40}") {
        let _ = PathElement::parse(&name);
        let _ = FieldSet::from_json(&json);
        let fields = json!({name: {"f:a": null}});
        if let Ok(set) = FieldSet::from_value(&fields) {
            let written = set.to_value();
            prop_assert_eq!(FieldSet::from_value(&written).expect("written by us"), set);
        }
    }
}

#[test]
fn fields_are_written_in_the_order_and_with_the_escapes_of_the_reference() {
    let set = FieldSet::from_json(
        r#"{"f:b":{},"f:a":{"k:{\"port\":443}":{".":{},"f:x":{}},"k:{\"port\":80}":{}},"f:c":{"v:\"<\"":{}, "v:2":{}, "v:10":{}},"z:later":{}}"#,
    );
    assert_eq!(
        set.expect("a set").to_json(),
        r#"{"f:a":{"k:{\"port\":80}":{},"k:{\"port\":443}":{".":{},"f:x":{}}},"f:b":{},"f:c":{"v:2":{},"v:10":{},"v:\"\\u003c\"":{}}}"#
    );
}

#[test]
fn fields_that_are_none_are_refused_with_a_reason() {
    for (text, reason) in [
        (r#"{"x":{}}"#, "key must be 2 characters long:"),
        (r#"{"field":{}}"#, "missing colon: field"),
        (r#"{"f:a":1}"#, "ReadMapCB: expect { or n"),
        (r#"{"i:x":{}}"#, "strconv.Atoi: parsing \"x\": invalid syntax"),
    ] {
        assert_eq!(FieldSet::from_json(text).expect_err(text).to_string(), reason);
    }
    let deep = format!("{}{}", "{\"f:a\":".repeat(100), "{}".to_owned() + &"}".repeat(100));
    assert!(FieldSet::from_json(&deep).is_ok());
}
