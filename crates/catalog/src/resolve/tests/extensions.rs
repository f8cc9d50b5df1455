//! What ClusterExtensions of OLM v1 get.

use super::*;
use crate::version::Constraint;

fn extension(package: &str, versions: Option<&str>, channels: &[&str]) -> Want {
    let choice = Choice::Extension {
        sources: None,
        channels: channels.iter().map(|it| (*it).to_owned()).collect(),
        versions: versions.map(|text| Constraint::parse(text).unwrap()),
        upgrades: Upgrades::CatalogProvided,
    };
    Want { name: package.to_owned(), package: package.to_owned(), installed: None, choice }
}

fn versions() -> Vec<Made> {
    vec![
        bundle("foo", "1.0.0").channel("stable", ""),
        bundle("foo", "1.1.0").channel("stable", "foo.v1.0.0"),
        bundle("foo", "2.0.0").channel("fast", ""),
        bundle("foo", "2.1.0").channel("fast", "foo.v2.0.0").skip_range(">=1.1.0 <2.0.0"),
    ]
}

#[test]
fn the_newest_that_fits_is_taken() {
    for (want, expected) in [
        (extension("foo", None, &[]), "foo.v2.1.0"),
        (extension("foo", Some("1.x"), &[]), "foo.v1.1.0"),
        (extension("foo", None, &["stable"]), "foo.v1.1.0"),
        (extension("foo", Some(">=1.0, <2.1"), &["stable", "fast"]), "foo.v2.0.0"),
    ] {
        assert_eq!(resolved(&request(&versions(), vec![want])), [expected]);
    }
}

#[test]
fn an_installed_one_follows_edges_or_stays() {
    let mut request = request(&versions(), vec![extension("foo", None, &[]).having("foo.v1.1.0")]);
    request.installed = vec![bundle("foo", "1.1.0").installed()];
    let steps = resolve(&request).unwrap().steps;
    assert_eq!((steps[0].bundle.as_str(), steps[0].replaces.as_deref()), ("foo.v2.1.0", Some("foo.v1.1.0")));
    request.wants = vec![extension("foo", Some("<2.1.0"), &[]).having("foo.v1.1.0")];
    assert_eq!(resolved(&request), Vec::<String>::new(), "staying is allowed");
    request.wants = vec![extension("foo", Some("2.0.0"), &[]).having("foo.v1.1.0")];
    let refusal = resolve(&request).unwrap_err();
    assert!(refusal.olm_text().contains(
        "error upgrading from currently installed version \"1.1.0\": no bundles found for package \"foo\" matching version \"2.0.0\""
    ));
    assert!(refusal.to_string().contains("SelfCertified"), "{refusal}");
    if let Choice::Extension { upgrades, .. } = &mut request.wants[0].choice {
        *upgrades = Upgrades::SelfCertified;
    }
    assert_eq!(resolved(&request), ["foo.v2.0.0"]);
}

#[test]
fn equal_priorities_are_refused_with_the_catalogs() {
    let catalog = catalog(&versions());
    let mut request = Request { wants: vec![extension("foo", None, &[])], ..Request::default() };
    request.sources = vec![source("b", 0, &catalog), source("a", 0, &catalog)];
    let refusal = resolve(&request).unwrap_err();
    assert!(
        refusal
            .olm_text()
            .contains("found bundles for package \"foo\" in multiple catalogs with the same priority [a b]"),
        "{}",
        refusal.olm_text()
    );
    request.sources[0].priority = 1;
    assert_eq!(resolve(&request).unwrap().steps[0].source.name, "b");
    if let Choice::Extension { sources, .. } = &mut request.wants[0].choice {
        *sources = Some(vec![SourceKey::new("olm", "a")]);
    }
    assert_eq!(resolve(&request).unwrap().steps[0].source.name, "a");
}

#[test]
fn extensions_may_have_dependencies_too() {
    let bundles = [bundle("app", "1.0.0").needs("lib", "<2.0.0"), bundle("lib", "1.0.0")];
    assert_eq!(resolved(&request(&bundles, vec![extension("app", None, &[])])), ["app.v1.0.0", "lib.v1.0.0"]);
}
