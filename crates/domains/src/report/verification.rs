//! A challenge and a verdict as text.

use jiff::Timestamp;

use crate::name::DomainName;
use crate::provider::Provider;
use crate::verification::challenge::DEFAULT_BRAND;
use crate::verification::decision::Outcome;
use crate::verification::{Challenge, Finding, Method, Scope, Verdict};

use super::{Colour, Style, Table, time_text};

/// What to publish, as the provider's form wants it.
pub fn instructions(
    challenge: &Challenge,
    zone: &DomainName,
    provider: &Provider,
    now: Timestamp,
    style: Style,
) -> String {
    let mut out = format!("{}\n", style.paint(Colour::Bold, &format!("Prove that you control {}", challenge.domain)));
    out.push_str(&format!("  Create one of these, at {}:\n", provider.name));
    let mut table = Table::indented(2);
    table.heading(&["", "TYPE", &provider.labels.name.to_uppercase(), &provider.labels.value.to_uppercase()]);
    let name = provider.show_name(&provider.type_name(challenge.record_name().as_str(), zone));
    let mut row = |what: &str, kind: &str, name: String, value: String| {
        table.row([(what.to_owned(), None), (kind.to_owned(), None), (name, None), (value, None)]);
    };
    row("best", "TXT", name.clone(), provider.type_text(challenge.record_value()));
    let apex = provider.show_name(&provider.type_name(challenge.domain.as_str(), zone));
    row("or", "TXT", apex, provider.type_text(&challenge.apex_value()));
    if let Some(target) = challenge.delegation_target() {
        row("or", "CNAME", name, provider.type_target(&target));
    }
    out.push_str(&table.render(style));
    out.push_str(&format!(
        "  or a file at http://{}{} with {}\n",
        challenge.domain,
        challenge.http_path(),
        challenge.http_body()
    ));
    if let Some(nameserver) = challenge.nameserver_target() {
        out.push_str(&format!(
            "  or {nameserver} among the nameservers that {} is delegated to, at its registrar or in the zone above it\n",
            challenge.domain
        ));
    }
    out.push_str(&format!("  {}.\n", provider.name_hint(zone)));
    out.push_str(&format!(
        "  The token is good until {}; remove the record to take the proof back.\n",
        time_text(challenge.expires_at, now)
    ));
    out
}

/// The command that looks for what was told to be published.
pub fn command(challenge: &Challenge) -> String {
    let scope = match challenge.scope {
        Scope::Domain => None,
        Scope::Host => Some("host"),
        Scope::Wildcard => Some("wildcard"),
    };
    let brand = Some(challenge.brand.as_str()).filter(|brand| *brand != DEFAULT_BRAND);
    let options = [
        ("--brand", brand),
        ("--scope", scope),
        ("--account-label", challenge.account.as_deref()),
        ("--delegation-zone", challenge.delegation_zone.as_ref().map(DomainName::as_str)),
        ("--nameserver-zone", challenge.nameserver_zone.as_ref().map(DomainName::as_str)),
        ("--token", Some(challenge.token.as_str())),
    ];
    let given = options.into_iter().filter_map(|(option, value)| Some(format!(" {option} {}", value?)));
    format!("bailiwick dns verify {}{}", challenge.domain, given.collect::<String>())
}

/// How it stands.
pub fn verdict(challenge: &Challenge, verdict: &Verdict, style: Style) -> String {
    let (colour, headline) = match verdict.outcome {
        Outcome::Verified(method) => (Colour::Green, format!("{} is verified by {}", challenge.domain, by(method))),
        Outcome::Pending => (Colour::Yellow, format!("{} is not verified yet", challenge.domain)),
        Outcome::Expired => (Colour::Red, format!("the token for {} is too old", challenge.domain)),
    };
    let mut out = format!("{}\n", style.paint(colour, &headline));
    for finding in &verdict.findings {
        out.push_str(&format!("  - {}\n", finding.sentence()));
        if let Finding::NearlyRight { seen, expected, .. } = finding {
            out.push_str(&format!("      you typed  {seen}\n      we expect  {expected}\n"));
        }
    }
    let places: std::collections::BTreeSet<&str> =
        verdict.evidence.answers.iter().map(|answer| answer.vantage_point.as_str()).collect();
    out.push_str(&format!(
        "  {} answers of authoritative servers, asked from {}\n",
        verdict.evidence.answers.len(),
        places.into_iter().collect::<Vec<_>>().join(", ")
    ));
    out
}

fn by(method: Method) -> &'static str {
    match method {
        Method::DnsTxt => "a TXT record at the challenge name",
        Method::DnsTxtApex => "a TXT record at the domain itself",
        Method::DnsDelegation => "a CNAME to our zone",
        Method::DnsNameserver => "its delegation to our nameserver",
        Method::HttpFile => "a file on its site",
    }
}
