//! Label selectors as clients write them; error texts are those of kube-apiserver 1.36.4.

use proptest::prelude::*;

use super::*;

fn labels<'a>(pairs: &'a [(&'a str, &'a str)]) -> impl Fn(&str) -> Option<&'a str> {
    move |key| pairs.iter().find(|(k, _)| *k == key).map(|(_, v)| *v)
}

fn matches(selector: &str, pairs: &[(&str, &str)]) -> bool {
    LabelSelector::parse(selector).unwrap().matches(labels(pairs))
}

#[test]
fn operators_match() {
    let app = [("app", "web"), ("tier", "5")];
    for yes in [
        "",
        "app",
        "app=web",
        "app==web",
        "app in (web,db)",
        "!gone",
        "gone!=x",
        "app!=db",
        "gone notin (a)",
        "tier>4",
        "tier<6",
        "app=web,tier=5",
        " app = web , tier in ( 5 ) ",
        "app notin (db)",
    ] {
        assert!(matches(yes, &app), "{yes}");
    }
    for no in
        ["gone", "app=db", "!app", "app!=web", "app notin (web)", "tier>5", "tier<5", "app>1", "gone=", "app,gone"]
    {
        assert!(!matches(no, &app), "{no}");
    }
    assert!(matches("empty=", &[("empty", "")]));
    assert!(matches("empty in ()", &[("empty", "")]));
    assert!(!matches("gone in ()", &[]));
}

#[test]
fn keywords_are_also_names() {
    assert!(matches("in in (in,notin)", &[("in", "notin")]));
    assert!(matches("notin=in", &[("notin", "in")]));
}

#[test]
fn printing_is_canonical() {
    for (written, printed) in [
        ("", ""),
        ("b,a", "a,b"),
        ("x in (c, a ,b)", "x in (a,b,c)"),
        ("!x , y!=z,w==v, u=t", "u=t,w==v,!x,y!=z"),
        ("x notin (,a,)", "x notin (,a)"),
        ("x in ()", "x in ()"),
        ("a>1,b<2", "a>1,b<2"),
    ] {
        assert_eq!(LabelSelector::parse(written).unwrap().to_string(), printed, "{written}");
    }
}

#[test]
fn errors_are_upstreams() {
    for (selector, text) in [
        ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("a in x", "unable to parse requirement: found 'x' expected: '('"),
        ("a=b!", "found '!', expected: ',' or 'end of string'"),
        ("a= !x", "unable to parse requirement: found '!', expected: identifier"),
        ("a===b", "unable to parse requirement: found '=', expected: identifier"),
        (",", "found ',', expected: !, identifier, or 'end of string'"),
        ("=!", "found '=', expected: !, identifier, or 'end of string'"),
        ("a,", "found '', expected: identifier after ','"),
        ("a in (x", "unable to parse requirement: found '', expected: ',' or ')'"),
        ("a in (=", "unable to parse requirement: found '=', expected: ',', ')' or identifier"),
        ("a in (,=", "unable to parse requirement: found '=', expected: ',', or identifier"),
        ("!", "unable to parse requirement: found '', expected: identifier"),
        ("!a=b", "found '=', expected: ',' or 'end of string'"),
        (
            "a>b",
            "unable to parse requirement: values[0]: Invalid value: \"b\": for 'Gt', 'Lt' operators, the value must be an integer",
        ),
    ] {
        assert_eq!(LabelSelector::parse(selector).unwrap_err().to_string(), text, "{selector}");
    }
    let error = LabelSelector::parse("-a").unwrap_err().to_string();
    assert!(error.starts_with("unable to parse requirement: <nil>: Invalid value: \"-a\": name part must"), "{error}");
    let error = LabelSelector::parse("a>-").unwrap_err().to_string();
    assert!(error.starts_with("unable to parse requirement: [values[0]: Invalid value: \"-\": for 'Gt'"), "{error}");
    assert!(error.contains(", values[0][a]: Invalid value: \"-\": a valid label must be"), "{error}");
}

proptest! {
    #[test]
    fn no_input_panics(selector in "\\PC*") {
        let _ = LabelSelector::parse(&selector);
    }

    #[test]
    fn no_odd_grammar_panics(selector in "[ab!=<>(), in]*") {
        let _ = LabelSelector::parse(&selector);
    }

    #[test]
    fn what_is_printed_parses_to_the_same(
        requirements in prop::collection::vec(("[a-z]{1,5}", 0usize..9, prop::collection::btree_set("[a-z0-9]{0,3}", 1..4)), 0..5)
    ) {
        use Operator::*;
        let selector = LabelSelector::new(requirements.into_iter().filter_map(|(key, op, values)| {
            let op = [In, NotIn, Equals, DoubleEquals, NotEquals, GreaterThan, LessThan, Exists, DoesNotExist][op];
            let values = match op {
                In | NotIn => values.into_iter().collect(),
                Exists | DoesNotExist => vec![],
                GreaterThan | LessThan => vec!["7".to_owned()],
                _ => values.into_iter().take(1).collect(),
            };
            Requirement::new(&key, op, values).ok()
        }).collect());
        prop_assert_eq!(LabelSelector::parse(&selector.to_string()).unwrap(), selector);
    }
}
