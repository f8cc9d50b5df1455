//! What Subscriptions of OLM v0 get.

use super::*;

fn three_versions() -> Vec<Made> {
    vec![
        bundle("foo", "1.0.0").channel("stable", ""),
        bundle("foo", "1.1.0").channel("stable", "foo.v1.0.0"),
        bundle("foo", "1.2.0").channel("stable", "foo.v1.1.0"),
    ]
}

#[test]
fn a_new_subscription_gets_the_head_of_its_channel() {
    assert_eq!(resolved(&request(&three_versions(), vec![subscription("foo")])), ["foo.v1.2.0"]);
    let step = resolve(&request(&three_versions(), vec![subscription("foo")])).unwrap().steps.remove(0);
    assert_eq!((step.channel.as_str(), step.image.as_str()), ("stable", "quay.io/test/foo:v1.2.0"));
    assert_eq!((step.because, step.replaces), (Because::Wanted("foo".to_owned()), None));
}

#[test]
fn starting_csv_is_where_it_begins() {
    let want = subscription("foo").starting_with("foo.v1.0.0");
    assert_eq!(resolved(&request(&three_versions(), vec![want])), ["foo.v1.0.0"]);
}

#[test]
fn upgrades_go_one_edge_at_a_time() {
    let mut request = request(&three_versions(), vec![subscription("foo").having("foo.v1.0.0")]);
    request.installed = vec![bundle("foo", "1.0.0").installed()];
    let steps = resolve(&request).unwrap().steps;
    assert_eq!((steps[0].bundle.as_str(), steps[0].replaces.as_deref()), ("foo.v1.1.0", Some("foo.v1.0.0")));
    request.wants = vec![subscription("foo").having("foo.v1.2.0")];
    request.installed = vec![bundle("foo", "1.2.0").installed()];
    assert_eq!(resolved(&request), Vec::<String>::new(), "the head stays");
}

#[test]
fn skips_and_skip_ranges_jump() {
    let bundles = [
        bundle("foo", "1.0.0").channel("stable", ""),
        bundle("foo", "1.1.0").channel("stable", "foo.v1.0.0"),
        bundle("foo", "1.2.0").channel("stable", "foo.v1.1.0").skips(&["foo.v1.0.0"]).skip_range(">=0.5.0 <0.9.0"),
    ];
    for (installed, next) in [("1.0.0", "foo.v1.2.0"), ("1.1.0", "foo.v1.2.0"), ("0.6.0", "foo.v1.2.0")] {
        let operator = bundle("foo", installed);
        let mut request = request(&bundles, vec![subscription("foo").having(&operator.name())]);
        request.installed = vec![operator.installed()];
        assert_eq!(resolved(&request), [next], "from {installed}");
    }
    let mut request = request(&bundles, vec![subscription("foo").having("foo.v0.9.5")]);
    request.installed = vec![bundle("foo", "0.9.5").installed()];
    assert_eq!(resolved(&request), Vec::<String>::new(), "no edge leads there");
}

#[test]
fn skipped_bundles_are_not_offered_to_new_subscriptions() {
    let bundles = [
        bundle("foo", "1.0.0").channel("stable", ""),
        bundle("foo", "1.1.0").channel("stable", "foo.v1.0.0").needs("missing", ">=1.0.0"),
        bundle("foo", "1.1.1").channel("stable", "foo.v1.0.0").skips(&["foo.v1.1.0"]).needs("missing", ">=1.0.0"),
    ];
    // The head is impossible, the skipped one is no choice.
    assert_eq!(resolved(&request(&bundles, vec![subscription("foo")])), ["foo.v1.0.0"]);
    let step = resolve(&request(&bundles, vec![subscription("foo")])).unwrap().steps.remove(0);
    assert_eq!(step.passed_over, ["foo.v1.1.1"]);
}

#[test]
fn without_a_channel_the_default_one_comes_first() {
    let bundles = [bundle("foo", "1.0.0").channel("stable", ""), bundle("foo", "2.0.0").channel("alpha", "")];
    assert_eq!(resolved(&request(&bundles, vec![subscription("foo")])), ["foo.v1.0.0"]);
    assert_eq!(resolved(&request(&bundles, vec![subscription("foo").in_channel("alpha")])), ["foo.v2.0.0"]);
}

#[test]
fn requirements_bring_their_providers_with_them() {
    let bundles = [
        bundle("app", "1.0.0").needs_api("Database").needs("monitor", ">=2.0.0 <3.0.0"),
        bundle("database", "1.0.0").provides("Database").needs_api("Certificate"),
        bundle("monitor", "2.5.0").channel("stable", ""),
        bundle("monitor", "3.0.0").channel("stable", "monitor.v2.5.0"),
        bundle("certificates", "1.0.0").provides("Certificate"),
        bundle("unrelated", "1.0.0").provides("Other"),
    ];
    let request = request(&bundles, vec![subscription("app")]);
    assert_eq!(resolved(&request), ["app.v1.0.0", "database.v1.0.0", "monitor.v2.5.0", "certificates.v1.0.0"]);
    let steps = resolve(&request).unwrap().steps;
    let because =
        |by: &str, requirement: &str| Because::Required { by: by.to_owned(), requirement: requirement.to_owned() };
    assert_eq!(steps[1].because, because("app.v1.0.0", "the API Database (g/v1)"));
    assert_eq!(steps[2].because, because("app.v1.0.0", "package monitor in version >=2.0.0 <3.0.0"));
    assert_eq!(steps[3].because, because("database.v1.0.0", "the API Certificate (g/v1)"));
}

#[test]
fn what_is_installed_meets_requirements_first() {
    let bundles = [bundle("app", "1.0.0").needs_api("Database"), bundle("database", "1.0.0").provides("Database")];
    let mut request = request(&bundles, vec![subscription("app")]);
    request.installed = vec![bundle("another", "0.1.0").provides("Database").installed()];
    assert_eq!(resolved(&request), ["app.v1.0.0"]);
    request.installed.clear();
    request.apis.insert(crate::property::Gvk {
        group: "g".to_owned(),
        version: "v1".to_owned(),
        kind: "Database".to_owned(),
    });
    assert_eq!(resolved(&request), ["app.v1.0.0"], "an API without an operator counts when it is named");
}

#[test]
fn providers_come_from_the_same_catalog_then_by_priority() {
    let app = bundle("app", "1.0.0").needs_api("Database");
    let here = catalog(&[app.clone(), bundle("here", "1.0.0").provides("Database")]);
    let without = catalog(&[app]);
    let (low, high) = (
        catalog(&[bundle("low", "1.0.0").provides("Database")]),
        catalog(&[bundle("high", "1.0.0").provides("Database")]),
    );
    let mut request = Request { wants: vec![subscription("app")], ..Request::default() };
    request.sources = vec![source("main", -5, &here), source("low", 0, &low), source("high", 10, &high)];
    assert_eq!(resolved(&request), ["app.v1.0.0", "here.v1.0.0"]);
    request.sources[0].snapshot = without;
    assert_eq!(resolved(&request), ["app.v1.0.0", "high.v1.0.0"]);
    request.sources[2].priority = 0;
    assert_eq!(resolved(&request), ["app.v1.0.0", "high.v1.0.0"], "then by name");
    request.namespace = "here".to_owned();
    request.sources[1].key.namespace = "here".to_owned();
    assert_eq!(resolved(&request), ["app.v1.0.0", "low.v1.0.0"], "the own namespace before names");
}

#[test]
fn default_channels_of_providers_come_first() {
    let bundles = [
        bundle("app", "1.0.0").needs_api("Database"),
        bundle("zeta", "1.0.0").provides("Database").channel("z-default", ""),
        bundle("zeta", "2.0.0").provides("Database").channel("a-other", ""),
    ];
    assert_eq!(resolved(&request(&bundles, vec![subscription("app")])), ["app.v1.0.0", "zeta.v1.0.0"]);
}

#[test]
fn an_earlier_want_is_met_before_a_later_one() {
    let bundles = [
        bundle("lib", "1.0.0").channel("stable", ""),
        bundle("lib", "2.0.0").channel("stable", "lib.v1.0.0"),
        bundle("app", "1.0.0").channel("stable", "").needs("lib", "<2.0.0"),
        bundle("app", "2.0.0").channel("stable", "app.v1.0.0").needs("lib", ">=2.0.0"),
        bundle("old", "1.0.0").needs("lib", "<2.0.0"),
    ];
    // Both want the newest they can have; who comes first decides nothing when only one answer is possible.
    assert_eq!(
        resolved(&request(&bundles, vec![subscription("app"), subscription("old")])),
        ["app.v1.0.0", "old.v1.0.0", "lib.v1.0.0"]
    );
    assert_eq!(
        resolved(&request(&bundles, vec![subscription("lib"), subscription("app")])),
        ["lib.v2.0.0", "app.v2.0.0"]
    );
}

#[test]
fn an_upgrade_waits_while_something_needs_the_old_version() {
    let bundles = [
        bundle("lib", "1.0.0").channel("stable", ""),
        bundle("lib", "2.0.0").channel("stable", "lib.v1.0.0"),
        bundle("old", "1.0.0").needs("lib", "<2.0.0"),
    ];
    let wants = vec![subscription("lib").having("lib.v1.0.0"), subscription("old").having("old.v1.0.0")];
    let mut request = request(&bundles, wants);
    request.installed =
        vec![bundle("lib", "1.0.0").installed(), bundle("old", "1.0.0").needs("lib", "<2.0.0").installed()];
    assert_eq!(resolved(&request), Vec::<String>::new());
    let why = why_not(&request, "lib.v2.0.0").unwrap().to_string();
    assert!(why.contains("old.v1.0.0 (installed) requires package lib in version <2.0.0"), "{why}");
}

#[test]
fn one_bad_subscription_does_not_hold_up_the_others() {
    let bundles = [bundle("foo", "1.0.0"), bundle("bar", "1.0.0").needs("missing", ">=1.0.0")];
    let partial = resolve_possible(&request(&bundles, vec![subscription("bar"), subscription("foo")]));
    assert_eq!(names(&partial.resolution), ["foo.v1.0.0"]);
    assert_eq!(partial.refused.len(), 1);
    assert_eq!(partial.refused[0].0, "bar");
}

#[test]
fn a_version_range_narrows_a_subscription() {
    let mut want = subscription("foo");
    if let Choice::Subscription { versions, .. } = &mut want.choice {
        *versions = Some(crate::version::Range::parse("<1.2.0").unwrap());
    }
    assert_eq!(resolved(&request(&three_versions(), vec![want])), ["foo.v1.1.0"]);
}

#[test]
fn installed_operators_are_read_from_their_csv() {
    let csv = json!({
        "metadata": {"name": "db.v1.0.0"},
        "spec": {
            "version": "1.0.0",
            "customresourcedefinitions": {"owned": [{"name": "databases.g", "version": "v1", "kind": "Database"}]},
        },
    });
    let bundles = [bundle("app", "1.0.0").needs_api("Database").needs("db", ">=1.0.0")];
    let mut request = request(&bundles, vec![subscription("app")]);
    request.installed = vec![Installed::of_csv(&csv, Some("db")).unwrap()];
    assert_eq!(resolved(&request), ["app.v1.0.0"]);
    let mut noted = csv;
    noted["metadata"]["annotations"] = json!({"operatorframework.io/properties": r#"{"properties":[{"type":"olm.package","value":{"packageName":"db","version":"1.0.0"}}]}"#});
    request.installed = vec![Installed::of_csv(&noted, None).unwrap()];
    assert!(resolve(&request).is_err(), "noted properties are all that counts, and they have no API");
}
