use proptest::prelude::*;

use super::*;

fn registered(input: &str) -> String {
    Subject::parse(input).map(|subject| subject.registered.to_string()).unwrap_or_else(|error| error.to_string())
}

#[test]
fn whatever_is_pasted_leads_to_the_registered_name() {
    for (input, expected) in [
        ("q7.io", "q7.io"),
        (" Q7.IO. ", "q7.io"),
        ("https://www.q7.io/path?x=1#y", "q7.io"),
        ("http://user:secret@shop.example.co.uk:8443/", "example.co.uk"),
        ("someone@mail.example.com", "example.com"),
        ("mailto:someone@example.com", "example.com"),
        ("*.example.com", "example.com"),
        ("\"example.com\"", "example.com"),
        ("example.com:443", "example.com"),
        ("_acme-challenge.www.example.com", "example.com"),
        ("https://bücher.example.de/", "example.de"),
        ("BÜCHER.de", "xn--bcher-kva.de"),
        ("例え。jp", "xn--r8jz45g.jp"),
    ] {
        assert_eq!(registered(input), expected, "{input}");
    }
}

#[test]
fn a_name_below_a_private_suffix_is_controlled_by_its_customer_and_registered_by_the_company() {
    let subject = Subject::parse("docs.someone.github.io").expect("a name");
    assert_eq!(subject.registered.as_str(), "github.io");
    assert_eq!(subject.controlled.as_str(), "someone.github.io");
    assert_eq!(subject.suffix_kind, SuffixKind::Private);
    let subject = Subject::parse("www.example.co.uk").expect("a name");
    assert_eq!((subject.registered.as_str(), subject.controlled.as_str()), ("example.co.uk", "example.co.uk"));
    assert_eq!(subject.suffix_kind, SuffixKind::Icann);
}

#[test]
fn public_suffixes_addresses_and_single_labels_are_refused_with_the_reason() {
    assert_eq!(registered("co.uk"), "co.uk is a public suffix: nobody registers it, names are registered below it");
    assert_eq!(
        registered("github.io"),
        "github.io is a public suffix: nobody registers it, names are registered below it"
    );
    assert_eq!(
        registered("300.1.1.1"),
        "300.1.1.1 is no address, as each part of one is at most 255, and no name, as none ends in a number"
    );
    assert_eq!(registered("com"), "com has only one label; a name such as example.com is needed");
    assert_eq!(registered("http://192.0.2.1/"), "192.0.2.1 is an address; give the name instead");
    assert_eq!(registered("[2001:db8::1]:443"), "2001:db8::1 is an address; give the name instead");
    assert_eq!(
        registered("exa mple.com"),
        "' ' cannot be part of a name; letters, digits, hyphens, underscores and dots can"
    );
    assert_eq!(
        registered("example..com"),
        "two dots follow each other, or a dot stands in front: take the one too many out"
    );
    assert_eq!(registered(""), "there is no name in it; give one such as www.example.com");
    assert_eq!(
        registered(&format!("{}.com", "a".repeat(64))),
        format!("the label {:?} is longer than 63 characters, which none can be", "a".repeat(64))
    );
}

#[test]
fn one_name_is_wanted_where_a_wildcard_says_nothing() {
    assert_eq!(one_host_of("https://www.q7.io:8443/x").map(|host| host.to_string()).as_deref(), Ok("www.q7.io"));
    let told = one_host_of("*.q7.io").expect_err("many").to_string();
    assert_eq!(told, "*.q7.io stands for many names; give one of them, such as www.q7.io");
}

#[test]
fn every_name_that_there_can_be_may_be_asked_for() {
    let asked = |text: &str| asked_name(text).map(|name| name.to_ascii()).unwrap_or_else(|error| error);
    for (input, name) in [
        (".", "."),
        ("com", "com."),
        ("*.example.com", "*.example.com."),
        ("_dmarc.example.com.", "_dmarc.example.com."),
        ("bücher.example", "xn--bcher-kva.example."),
        ("*.bücher.example", "*.xn--bcher-kva.example."),
        ("https://www.example.com:8443/x?y=1", "www.example.com."),
        ("someone@example.com", "example.com."),
    ] {
        assert_eq!(asked(input), name, "{input}");
    }
    for (input, told) in [
        ("", "there is no name in it"),
        ("192.0.2.1", "192.0.2.1 is an address; give the name instead"),
        ("2001:db8::1", "2001:db8::1 is an address; give the name instead"),
        ("example..com", "two dots follow each other"),
        ("exa mple.com", "' ' cannot be part of a name"),
        ("example.com;rm", "';' cannot be part of a name"),
    ] {
        assert!(asked(input).starts_with(told), "{input}: {}", asked(input));
    }
}

#[test]
fn people_read_their_own_script() {
    let name = DomainName::parse("xn--bcher-kva.de").expect("a name");
    assert_eq!(name.unicode(), "bücher.de");
    assert_eq!(DomainName::parse("bücher.de").expect("a name"), name);
}

#[test]
fn letters_that_imitate_others_are_named() {
    let warning = |text: &str| DomainName::parse(text).expect("a name").lookalike().map(|found| found.to_string());
    assert_eq!(warning("bücher.de"), None);
    assert_eq!(warning("日本語テスト.jp"), None);
    assert_eq!(warning("яндекс.рф"), None);
    // The first letter is Cyrillic.
    assert_eq!(
        warning("аpple.com").as_deref(),
        Some("\"аpple\" mixes letters of Cyrillic and Latin; it may imitate another name")
    );
    assert_eq!(
        warning("аррӏе.com").as_deref(),
        Some("\"аррӏе\" is not written in Latin letters but looks like \"apple\"")
    );
}

#[test]
fn names_know_where_they_stand() {
    let zone = DomainName::parse("example.com").expect("a name");
    let www = DomainName::parse("a.www.example.com").expect("a name");
    assert_eq!(www.relative_to(&zone), Some("a.www"));
    assert_eq!(zone.relative_to(&zone), Some(""));
    let other = DomainName::parse("notexample.com").expect("a name");
    assert_eq!(other.relative_to(&zone), None);
    assert!(!other.is_within(&zone) && www.is_within(&zone) && zone.is_within(&zone));
}

proptest! {
    #[test]
    fn nothing_that_is_pasted_panics(input in "\\PC{0,80}") {
        let _ = Subject::parse(&input);
    }

    #[test]
    fn what_is_a_name_stays_the_same_name(input in "[a-zA-Z0-9_äß日.-]{1,40}") {
        if let Ok(name) = DomainName::parse(&input) {
            prop_assert_eq!(DomainName::parse(name.as_str()), Ok(name.clone()));
            prop_assert!(name.as_str().len() <= NAME_CHARS_MAX);
        }
    }

    #[test]
    fn the_registered_name_ends_the_controlled_name_ends_the_name(input in "([a-z]{1,5}\\.){1,5}(com|co\\.uk|github\\.io|zzzz)") {
        if let Ok(subject) = Subject::parse(&input) {
            prop_assert!(subject.name.is_within(&subject.controlled));
            prop_assert!(subject.controlled.is_within(&subject.registered));
        }
    }
}
