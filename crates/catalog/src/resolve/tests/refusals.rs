//! Refusals name the chain and what would help.

use super::*;

fn refused(request: &Request) -> String {
    resolve(request).unwrap_err().to_string()
}

#[test]
fn what_is_not_there_is_named_with_what_is() {
    let bundles = [bundle("foo", "1.0.0").channel("stable", ""), bundle("foo", "2.0.0").channel("fast", "")];
    let text = |want: Want| refused(&request(&bundles, vec![want]));
    assert_eq!(
        text(subscription("fop")),
        "  because fop asks for package fop, but the catalog olm/main has no package fop\n  to fix: did you mean foo?\n"
    );
    assert_eq!(
        text(subscription("foo").in_channel("beta")),
        "  because foo asks for package foo, but package foo has no channel beta\n  \
         to fix: use one of its channels: fast and stable (default stable)\n"
    );
    assert_eq!(
        text(subscription("foo").in_channel("stable").starting_with("foo.v2.0.0")),
        "  because foo asks for package foo, but startingCSV foo.v2.0.0 is not in channel stable of package foo\n  \
         to fix: it is in channel fast\n"
    );
    let mut request = request(&bundles, vec![subscription("foo")]);
    request.sources.clear();
    assert!(refused(&request).contains("there is no catalog olm/main that is ready"));
}

#[test]
fn the_words_of_olm_are_kept_for_its_condition() {
    let refusal = resolve(&request(&[bundle("foo", "1.0.0")], vec![subscription("bar")])).unwrap_err();
    assert_eq!(
        refusal.olm_text(),
        "constraints not satisfiable: subscription bar exists, \
         no operators found in package bar in the catalog referenced by subscription bar"
    );
    let needs = [bundle("foo", "1.0.0").needs("bar", ">=2.0.0"), bundle("bar", "1.0.0")];
    let refusal = resolve(&request(&needs, vec![subscription("foo")])).unwrap_err();
    assert_eq!(
        refusal.olm_text(),
        "constraints not satisfiable: subscription foo exists, subscription foo requires main/olm/stable/foo.v1.0.0, \
         bundle foo.v1.0.0 requires an operator with package: bar and with version in range: >=2.0.0"
    );
}

#[test]
fn a_missing_version_is_told_with_the_versions_on_offer() {
    let needs = [bundle("foo", "1.0.0").needs("bar", ">=2.0.0"), bundle("bar", "1.0.0")];
    assert_eq!(
        refused(&request(&needs, vec![subscription("foo")])),
        "  because foo asks for package foo, which means foo.v1.0.0\n  \
         and     foo.v1.0.0 requires package bar in version >=2.0.0, which no catalog offers\n  \
         to fix: package bar is on offer in version 1.0.0: add >=2.0.0 to the catalog, or choose a version of the \
         operator that requires what there is\n"
    );
}

#[test]
fn a_chain_is_told_to_its_end() {
    let bundles = [
        bundle("a", "1.0.0").needs("b", ">=1.0.0"),
        bundle("b", "1.0.0").needs_api("C"),
        bundle("c", "1.0.0").provides("C").needs("d", ">=1.0.0"),
        bundle("unrelated", "1.0.0"),
    ];
    let refusal = resolve(&request(&bundles, vec![subscription("unrelated"), subscription("a")])).unwrap_err();
    let plain: Vec<&str> = refusal.reasons.iter().map(|it| it.plain.as_str()).collect();
    assert_eq!(
        plain,
        [
            "a asks for package a, which means a.v1.0.0",
            "a.v1.0.0 requires package b in version >=1.0.0, which only b.v1.0.0 can be",
            "b.v1.0.0 requires the API C (g/v1), which only c.v1.0.0 can be",
            "c.v1.0.0 requires package d in version >=1.0.0, which no catalog offers",
        ]
    );
    assert_eq!(refusal.wants, ["a"]);
    assert_eq!(refusal.hints, ["add a catalog that has package d in version >=1.0.0"]);
}

#[test]
fn two_operators_that_need_different_versions_are_both_named() {
    let bundles = [
        bundle("new", "1.0.0").needs("lib", ">=2.0.0"),
        bundle("old", "1.0.0").needs("lib", "<2.0.0"),
        bundle("lib", "1.0.0").channel("stable", ""),
        bundle("lib", "2.0.0").channel("stable", "lib.v1.0.0"),
    ];
    let refusal = resolve(&request(&bundles, vec![subscription("new"), subscription("old")])).unwrap_err();
    let text = refusal.to_string();
    assert!(
        text.contains("new.v1.0.0 requires package lib in version >=2.0.0, which only lib.v2.0.0 can be"),
        "{text}"
    );
    assert!(text.contains("old.v1.0.0 requires package lib in version <2.0.0, which only lib.v1.0.0 can be"), "{text}");
    assert!(text.contains("because they are of one package, lib"), "{text}");
    assert_eq!(refusal.wants, ["new", "old"]);
}

#[test]
fn two_owners_of_an_api_are_named() {
    let bundles = [bundle("a", "1.0.0").provides("K"), bundle("b", "1.0.0").provides("K")];
    let text = refused(&request(&bundles, vec![subscription("a"), subscription("b")]));
    assert!(
        text.contains(
            "only one of a.v1.0.0 and b.v1.0.0 can be installed, because they provide the same API, K (g/v1)"
        ),
        "{text}"
    );
    assert!(text.contains("keep only one of the operators that provide K (g/v1)"), "{text}");
    let mut request = request(&bundles, vec![subscription("a")]);
    request.installed = vec![bundle("b", "1.0.0").provides("K").installed()];
    let text = refused(&request);
    assert!(text.contains("b.v1.0.0 is installed and no subscription may change it"), "{text}");
}

#[test]
fn an_api_of_another_version_is_a_hint() {
    let bundles = [
        bundle("a", "1.0.0").needs_api("K"),
        bundle("b", "1.0.0").property("olm.gvk", json!({"group": "g", "version": "v2", "kind": "K"})),
    ];
    assert!(
        refused(&request(&bundles, vec![subscription("a")])).contains("K is on offer in version v2 of package b only")
    );
}

#[test]
fn constraints_bring_their_own_message() {
    let constraint = json!({"failureMessage": "needs a certified database", "all": {"constraints": [
        {"gvk": {"group": "g", "version": "v1", "kind": "Database"}},
        {"cel": {"rule": "properties.exists(p, p.type == 'certified')"}},
    ]}});
    let bundles =
        [bundle("app", "1.0.0").property("olm.constraint", constraint), bundle("plain", "1.0.0").provides("Database")];
    let text = refused(&request(&bundles, vec![subscription("app")]));
    assert!(text.contains("(\"needs a certified database\")"), "{text}");
    let mut with = bundles.to_vec();
    with.push(bundle("certified", "1.0.0").provides("Database").property("certified", json!("gold")));
    assert_eq!(resolved(&request(&with, vec![subscription("app")])), ["app.v1.0.0", "certified.v1.0.0"]);
}

#[test]
fn a_bundle_whose_requirements_cannot_be_read_is_passed_over() {
    let bundles = [
        bundle("foo", "1.0.0").channel("stable", ""),
        bundle("foo", "1.1.0").channel("stable", "foo.v1.0.0").property("olm.constraint", json!({"nonsense": {}})),
    ];
    assert_eq!(resolved(&request(&bundles, vec![subscription("foo")])), ["foo.v1.0.0"]);
    let why = why_not(&request(&bundles, vec![subscription("foo")]), "foo.v1.1.0").unwrap().to_string();
    assert!(why.contains("what foo.v1.1.0 requires cannot be read"), "{why}");
}

#[test]
fn withdrawn_bundles_are_not_installed() {
    let bundles = [bundle("foo", "1.0.0").property("olm.deprecated", json!({}))];
    assert!(refused(&request(&bundles, vec![subscription("foo")])).contains("foo.v1.0.0 has been withdrawn"));
}

#[test]
fn why_not_tells_preference_from_impossibility() {
    let bundles =
        [bundle("foo", "1.0.0").channel("stable", ""), bundle("foo", "1.1.0").channel("stable", "foo.v1.0.0")];
    let request = request(&bundles, vec![subscription("foo")]);
    assert_eq!(why_not(&request, "foo.v1.0.0"), None, "it could be, the head is preferred");
    assert!(why_not(&request, "foo.v9.0.0").unwrap().to_string().contains("no catalog has a bundle foo.v9.0.0"));
}

#[test]
fn bundles_that_are_no_choice_are_explained() {
    let bundles = [
        bundle("foo", "1.0.0").channel("stable", ""),
        bundle("foo", "1.1.0").channel("stable", "foo.v1.0.0"),
        bundle("foo", "1.2.0").channel("stable", "foo.v1.0.0").skips(&["foo.v1.1.0"]),
        bundle("foo", "2.0.0").channel("fast", ""),
        bundle("bar", "1.0.0"),
    ];
    let why = |want: Want, installed: Option<Made>, name: &str| {
        let mut request = request(&bundles, vec![want]);
        request.installed = installed.iter().map(Made::installed).collect();
        why_not(&request, name).unwrap().to_string()
    };
    let stable = || subscription("foo").in_channel("stable");
    for (text, expected) in [
        (why(stable(), None, "foo.v1.1.0"), "foo.v1.2.0 skips it"),
        (why(stable(), None, "foo.v2.0.0"), "it is in channel fast, and foo asks for channel stable"),
        (
            why(stable(), None, "bar.v1.0.0"),
            "nobody asks for package bar, and nothing that could be installed requires it",
        ),
        (
            why(stable().having("foo.v1.1.0"), Some(bundle("foo", "1.1.0")), "foo.v1.0.0"),
            "it is no upgrade of foo.v1.1.0, which is installed",
        ),
    ] {
        assert!(text.contains(expected), "{text}");
    }
}
