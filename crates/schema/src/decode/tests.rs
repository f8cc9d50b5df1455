//! What Kubernetes itself made of each input is recorded in `testdata/decode.jsonl` (written by `xtask/gen-types`);
//! we must say and print the same.

use proptest::prelude::*;
use serde_json::Value;

use super::*;
use crate::quantity::Quantity;
use crate::types::Types;

struct Golden {
    ty: String,
    input: Vec<u8>,
    expected: Result<(Vec<String>, Value), String>,
    printed: String,
}

fn goldens() -> Vec<Golden> {
    include_str!("../../testdata/decode.jsonl").lines().map(golden).collect()
}

fn golden(line: &str) -> Golden {
    let line: Value = serde_json::from_str(line).expect("a golden is JSON");
    let text = |key: &str| line[key].as_str().unwrap_or_default().to_owned();
    let input = match line["bytes"].as_str() {
        Some(bytes) => base64_go::decode(bytes.as_bytes()).expect("valid base64"),
        None => text("input").into_bytes(),
    };
    let strict = line["strict"].as_array().into_iter().flatten().filter_map(|s| s.as_str().map(str::to_owned));
    let expected = match line["error"].as_str() {
        Some(error) => Err(error.to_owned()),
        None => Ok((strict.collect(), serde_json::from_str(&text("printed")).unwrap_or_default())),
    };
    Golden { ty: text("type"), input, expected, printed: text("printed") }
}

fn ours(golden: &Golden) -> Result<(Vec<String>, Value), String> {
    let ty = Types::native().by_name(&golden.ty).unwrap_or_else(|| panic!("no type {}", golden.ty));
    decode(ty, &golden.input).map(|d| (d.strict, d.value)).map_err(|e| e.to_string())
}

#[test]
fn every_input_is_answered_as_kubernetes_answers_it() {
    let mut wrong = Vec::new();
    for golden in goldens().iter().filter(|g| g.ty != "quantity") {
        let found = ours(golden);
        if found != golden.expected {
            let input = String::from_utf8_lossy(&golden.input);
            wrong.push(format!(
                "{}\n  input    {input}\n  expected {:?}\n  found    {found:?}",
                golden.ty, golden.expected
            ));
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn every_quantity_is_read_as_kubernetes_reads_it() {
    let mut wrong = Vec::new();
    for golden in goldens().iter().filter(|g| g.ty == "quantity") {
        let text = String::from_utf8_lossy(&golden.input);
        let found = text.parse::<Quantity>().map(|q| q.to_string()).map_err(|e| e.to_string());
        let expected = golden.expected.as_ref().map(|_| golden.printed.clone()).map_err(Clone::clone);
        if found != expected {
            wrong.push(format!("{text:?}: expected {expected:?}, found {found:?}"));
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn decoding_what_was_decoded_changes_nothing() {
    for golden in goldens().iter().filter(|g| g.ty != "quantity") {
        let ty = Types::native().by_name(&golden.ty).expect("known type");
        let Ok(first) = decode(ty, &golden.input) else { continue };
        // A pointer to a value that prints as null is read back as no pointer, upstream as well; hence two rounds.
        let second = decode_value(ty, &first.value).expect("canonical form decodes");
        let third = decode_value(ty, &second.value).expect("canonical form decodes");
        assert_eq!(second.strict, Vec::<String>::new());
        assert_eq!(second.value, third.value);
    }
}

#[test]
fn nesting_is_limited() {
    let ty = Types::native().by_gvk("", "v1", "ConfigMap").expect("known type");
    let nested = |depth: usize| format!("{{\"x\":{}{}}}", "[".repeat(depth - 1), "]".repeat(depth - 1));
    assert!(decode(ty, nested(MAX_DEPTH).as_bytes()).is_ok());
    let error = decode(ty, nested(MAX_DEPTH + 1).as_bytes()).expect_err("too deep");
    assert_eq!(error.to_string(), "exceeded max depth");
    assert!(decode(ty, "[".repeat(1_000_000).as_bytes()).is_err());
}

#[test]
fn the_number_of_objects_is_limited() {
    let ty = Types::native().by_gvk("rbac.authorization.k8s.io", "v1", "Role").expect("known type");
    let rules = |count: usize| format!("{{\"rules\":[{}{{}}]}}", "{},".repeat(count - 1));
    assert!(decode(ty, rules(MAX_OBJECTS - 1).as_bytes()).is_ok());
    let error = decode(ty, rules(MAX_OBJECTS).as_bytes()).expect_err("too many");
    assert_eq!(error.to_string(), "exceeded max number of objects");
}

#[test]
fn kind_and_version_are_found_before_the_type_is_known() {
    let found = |body: &str| interpret(body.as_bytes()).map(|t| (t.api_version, t.kind));
    assert_eq!(found(r#"{"a":{"kind":"x"},"kind":"K","apiVersion":"v1"}"#), Ok(("v1".into(), "K".into())));
    assert_eq!(found(r#"{"KIND":"K","kind":null}"#), Ok((String::new(), "K".into())));
    assert_eq!(found("null"), Ok(Default::default()));
    // The answers of kube-apiserver v1.36.4 to these bodies.
    assert_eq!(
        found(r#"{"apiVersion":1}"#),
        Err("json: cannot unmarshal number into Go struct field .apiVersion of type string".into())
    );
    assert_eq!(
        found("[]"),
        Err(concat!(
            "json: cannot unmarshal array into Go value of type struct { APIVersion string ",
            r#""json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"#
        )
        .into())
    );
    assert_eq!(found("{bad"), Err("invalid character 'b' looking for beginning of object key string".into()));
    assert_eq!(found(r#"{"kind":1,}"#), Err("invalid character '}' looking for beginning of object key string".into()));
    assert_eq!(found("{} x"), Err("invalid character 'x' after top-level value".into()));
}

#[test]
fn empty_bytes_count_as_not_set_where_empty_is_omitted() {
    let ty = Types::native().by_name("io.k8s.api.certificates.v1.CertificateSigningRequest").expect("known type");
    let decoded = decode(ty, br#"{"spec":{"request":""},"status":{"certificate":""}}"#).expect("fits");
    assert_eq!(decoded.value["status"], serde_json::json!({}));
    assert_eq!(decoded.value["spec"]["request"], "");
}

#[test]
fn untyped_objects_keep_everything_and_report_duplicates() {
    let decoded = decode_untyped(br#"{"a":{"b":1,"b":2.0},"c":[{"d":null,"d":9223372036854775808}]}"#).expect("JSON");
    assert_eq!(decoded.strict, [r#"duplicate field "a.b""#, r#"duplicate field "c[0].d""#]);
    assert_eq!(decoded.value, serde_json::json!({"a":{"b":2.0},"c":[{"d":9223372036854775808.0}]}));
}

#[test]
fn a_value_has_fewer_fields_than_were_written_only_if_some_stand_twice() {
    for (text, written, kept) in [
        (r#"{"a":{"b":1},"c":[{"b":2},{"b":3}]}"#, 5, 5),
        (r#"{"a":{"b":1,"b":2},"c":[{"b":2,"\u0062":3}]}"#, 6, 4),
        ("[1,\"a\",null]", 0, 0),
    ] {
        let value: Value = serde_json::from_str(text).expect("JSON");
        assert_eq!((fields_written(text.as_bytes()), fields_of(&value)), (Ok(written), kept), "{text}");
    }
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(data in proptest::collection::vec(any::<u8>(), 0..200)) {
        for ty in [Types::native().object_meta(), Types::native().json_schema_props()] {
            let _ = decode(ty, &data);
        }
    }

    #[test]
    fn almost_json_never_panics_and_agrees_with_serde(data in r#"[\[\]{}:,"a0-9.eE+\- \\utrnflsbd]{0,60}"#) {
        let ours = decode_untyped(data.as_bytes());
        let theirs = serde_json::from_str::<Value>(&data);
        // serde_json refuses lone surrogates, which Go replaces.
        if !data.contains("\\u") {
            prop_assert_eq!(ours.is_ok(), theirs.is_ok(), "{:?} {:?}", ours, theirs);
        }
    }

    #[test]
    fn quantities_never_panic_and_are_stable(text in r"[+-]?[0-9]{0,25}\.?[0-9]{0,12}[eEinumkKMGTP]{0,2}[+-]?[0-9]{0,3}") {
        if let Ok(quantity) = text.parse::<Quantity>() {
            let printed = quantity.to_string();
            let again: Quantity = printed.parse().expect("what we print can be read");
            prop_assert_eq!(&again.to_string(), &printed);
        }
    }
}
