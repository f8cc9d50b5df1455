//! A scan as text.

use jiff::Timestamp;

use crate::advice::words;
use crate::evidence::Evidence;
use crate::name::DomainName;
use crate::registration::{AutoRenewal, Concern, Registration, Role, Source};
use crate::scan::{DnsScan, Scan, ScanFinding};

use super::{Colour, Style, Table, time_text};

/// The colour of a concern.
pub(super) fn colour(concern: Concern) -> Option<Colour> {
    match concern {
        Concern::None => Some(Colour::Green),
        Concern::Notice => None,
        Concern::Warning => Some(Colour::Yellow),
        Concern::Critical => Some(Colour::Red),
    }
}

/// How a finding is marked, so that colour is never the only sign.
pub(super) fn mark(concern: Concern) -> &'static str {
    match concern {
        Concern::None => "ok",
        Concern::Notice => "note",
        Concern::Warning => "warning",
        Concern::Critical => "CRITICAL",
    }
}

/// The whole scan.
pub fn text(scan: &Scan, style: Style) -> String {
    let mut out = format!("{}\n", style.paint(Colour::Bold, &title(scan)));
    out.push_str(&findings(scan, style));
    out.push_str(&format!("\n{}\n", style.paint(Colour::Bold, "Registration")));
    match &scan.registration {
        Some(registration) => out.push_str(&registration_table(registration, scan.days_left, style)),
        None => out.push_str(&format!("  {}\n", scan.registration_problem.as_deref().unwrap_or("unknown"))),
    }
    out.push_str(&format!("\n{}\n", style.paint(Colour::Bold, "DNS")));
    match &scan.dns {
        Some(dns) => out.push_str(&dns_table(dns, scan.at, style)),
        None => out.push_str(&format!("  {}\n", scan.dns_problem.as_deref().unwrap_or("unknown"))),
    }
    out
}

fn title(scan: &Scan) -> String {
    let subject = &scan.subject;
    let domain = &subject.registered;
    let mut title = domain.to_string();
    let unicode = domain.unicode();
    if unicode != title {
        title = format!("{unicode} ({title})");
    }
    if subject.name != *domain {
        title.push_str(&format!(", the registered name of {}", subject.name));
    }
    if subject.controlled != *domain {
        title.push_str(&format!("; {} is below the private suffix {}", subject.controlled, subject.suffix));
    }
    title
}

fn findings(scan: &Scan, style: Style) -> String {
    if scan.findings.is_empty() {
        return format!("  {}\n", style.paint(Colour::Green, "nothing to worry about"));
    }
    let mut table = Table::indented(2);
    for finding in &scan.findings {
        table.row([
            (mark(finding.concern).to_owned(), colour(finding.concern)),
            (finding.text.clone(), None),
            (said_by(finding), Some(Colour::Dim)),
        ]);
    }
    table.render(style)
}

/// Servers that are named beside a finding; all of them are in JSON, with their packets.
const SERVERS_SHOWN: usize = 4;

/// The servers that show a finding, unless its text names them.
fn said_by(finding: &ScanFinding) -> String {
    let mut servers: Vec<String> = finding.evidence.iter().map(Evidence::whom).collect();
    servers.dedup();
    servers.retain(|server| !finding.text.contains(server.as_str()));
    let more = servers.len().saturating_sub(SERVERS_SHOWN);
    servers.truncate(SERVERS_SHOWN);
    servers.extend((more > 0).then(|| format!("{more} more")));
    if servers.is_empty() { String::new() } else { format!("said by {}", servers.join(", ")) }
}

fn registration_table(registration: &Registration, days_left: Option<i64>, style: Style) -> String {
    let mut table = Table::indented(2);
    let mut row = |key: &str, value: String, colour: Option<Colour>| {
        table.row([(key.to_owned(), Some(Colour::Dim)), (value, colour)]);
    };
    let unknown = || "unknown".to_owned();
    let registrar = registration.registrar.as_ref().map(|registrar| match registrar.iana_id {
        Some(id) => format!("{} (IANA {id})", registrar.name),
        None => registrar.name.clone(),
    });
    row("registrar", registrar.unwrap_or_else(unknown), None);
    let date = |moment: &Option<crate::registration::Moment>| moment.as_ref().map_or_else(unknown, ToString::to_string);
    row("created", date(&registration.created), None);
    row("modified", date(&registration.modified), None);
    let left = match days_left {
        Some(days @ ..0) => format!(" ({})", crate::scan::expired_words(days)),
        Some(days) => format!(" ({days} days left)"),
        None => String::new(),
    };
    let urgent = match days_left {
        Some(..7) => Some(Colour::Red),
        Some(7..30) => Some(Colour::Yellow),
        _ => None,
    };
    row("expires", format!("{}{left}", date(&registration.expires)), urgent);
    let renewal = match registration.auto_renewal {
        AutoRenewal::JustRenewed => "renewed automatically within the last days",
        AutoRenewal::Unknown => "unknown (registries do not publish it)",
    };
    row("auto-renewal", renewal.to_owned(), None);
    let servers: Vec<DomainName> = registration.nameservers.iter().map(|server| server.name.clone()).collect();
    row("nameservers", list(&servers), None);
    row("DNSSEC", registration.signing.to_string(), None);
    for (number, flag) in registration.statuses.iter().enumerate() {
        let key = if number == 0 { "status" } else { "" };
        row(
            key,
            format!("{}: {}", flag.code, flag.meaning),
            colour(flag.concern).filter(|_| flag.concern > Concern::None),
        );
    }
    let consulted: Vec<String> = registration
        .consulted
        .iter()
        .map(|one| {
            let source = if one.source == Source::Rdap { "RDAP" } else { "WHOIS" };
            let role = if one.role == Role::Registry { "registry" } else { "registrar" };
            format!("{source} of the {role}, {}", one.server)
        })
        .collect();
    row("source", consulted.join("; "), None);
    table.render(style)
}

fn dns_table(dns: &DnsScan, at: Timestamp, style: Style) -> String {
    let mut table = Table::indented(2);
    let mut row = |key: &str, value: String| table.row([(key.to_owned(), Some(Colour::Dim)), (value, None)]);
    row("provider", dns.provider.clone());
    let ttl = dns.delegation_ttl.map(|ttl| format!(" (TTL {})", words(ttl))).unwrap_or_default();
    row("delegated to", format!("{}{ttl}", list(&dns.delegated_to)));
    row("zone lists", list(&dns.listed));
    if let Some(change) = &dns.nameserver_change {
        row("moving them", format!("everybody sees it by {}: {}", time_text(change.by, at), change.because));
    }
    row("signatures", format!("{:?}", dns.security).to_lowercase());
    if let Some(soa) = &dns.soa {
        row("SOA", format!("primary {}, mailbox {}, serial {}, TTL {}", soa.primary, soa.mailbox, soa.serial, soa.ttl));
        row(
            "",
            format!("refresh {}, retry {}, expire {}, minimum {}", soa.refresh, soa.retry, soa.expire, soa.minimum),
        );
    }
    let mut out = table.render(style);
    if !dns.negative_caching_explained.is_empty() {
        out.push_str(&format!("\n{}\n", style.paint(Colour::Bold, "How long a missing name stays missing")));
        for line in &dns.negative_caching_explained {
            out.push_str(&format!("  {line}\n"));
        }
    }
    out
}

fn list(names: &[DomainName]) -> String {
    if names.is_empty() {
        "none".to_owned()
    } else {
        names.iter().map(DomainName::as_str).collect::<Vec<_>>().join(", ")
    }
}
