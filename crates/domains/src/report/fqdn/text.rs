//! The analysis of a name as text.

use std::fmt::Write;

use super::{ChangeKind, FqdnReport, ServerReach};
use crate::advice::words;
use crate::endpoint::places::{EndpointReport, View};
use crate::endpoint::{Certificate, names_text};
use crate::report::trace::{AliasReport, dnssec_line};
use crate::report::{Colour, Style, Table, time_text};
use crate::resolve::AliasKind;

impl FqdnReport {
    /// For people.
    pub fn text(&self, style: Style) -> String {
        let mut text = format!("{}\n", style.paint(Colour::Bold, &format!("{} {}", self.name, self.rtype)));
        for alias in &self.aliases {
            let _ = writeln!(text, "  {}", link(alias));
        }
        let mut table = Table::indented(2);
        table.heading(&["ANSWER", "PLACES", "ZONE SERIAL"]);
        for group in &self.groups {
            let serials: Vec<String> = group.serials.iter().map(u32::to_string).collect();
            let colour = if self.groups.len() == 1 { Some(Colour::Green) } else { Some(Colour::Yellow) };
            table.row([
                (group.answer.clone(), colour),
                (group.places.join(" "), None),
                (serials.join(" "), Some(Colour::Dim)),
            ]);
        }
        text.push_str(&table.render(style));
        text.push_str(&self.servers_table().render(style));
        text.push_str(&endpoints_table(&self.endpoints).render(style));
        let _ = writeln!(text, "{}\n{}", dnssec_line(&self.dnssec, style), self.summary);
        text.push_str(&self.schedule(style));
        text
    }

    fn servers_table(&self) -> Table {
        let mut table = Table::indented(2);
        if !self.nameservers.is_empty() {
            table.heading(&["NAMESERVER", "ADDRESS", "ZONE", "TIME", "IDENTITY"]);
        }
        for server in &self.nameservers {
            let identity = [server.identities.join(" "), server.stands.words().to_owned()];
            let identity: Vec<String> = identity.into_iter().filter(|part| !part.is_empty()).collect();
            table.row([
                (server.server.clone(), None),
                (server.address.to_string(), None),
                (server.zone.clone(), None),
                (times_text(server), None),
                (identity.join(", "), Some(Colour::Dim)),
            ]);
        }
        table
    }

    /// How the record at the name itself is changed: that is the one whose owner reads this.
    fn schedule(&self, style: Style) -> String {
        let Some(change) = self.changes.first().filter(|change| change.kind == ChangeKind::Replace) else {
            return String::new();
        };
        let title = format!("To change {} (TTL {})", change.record(), change.ttl);
        let mut table = Table::indented(2);
        for step in &change.schedule.steps {
            table.row([(time_text(step.at, self.at), Some(Colour::Dim)), (step.text.clone(), None)]);
        }
        format!("{}\n{}", style.paint(Colour::Bold, &title), table.render(style))
    }
}

/// One step of the chain: owner, target, type, zone, who serves it, how long it is remembered, how far it can be trusted.
fn link(alias: &AliasReport) -> String {
    let kind = match alias.kind {
        AliasKind::Cname => "CNAME".to_owned(),
        AliasKind::Dname => format!("DNAME at {}", alias.owner),
    };
    let provider = alias.provider.as_ref().map(|provider| format!(" at {provider}")).unwrap_or_default();
    let dnssec = alias.dnssec.map(|status| format!(", DNSSEC {}", status.word())).unwrap_or_default();
    format!(
        "{} is an alias of {} ({kind} in {}{provider}, {}{dnssec})",
        alias.name,
        alias.target,
        alias.zone,
        words(alias.ttl)
    )
}

/// What is behind each address; who sees it where not all places see the same.
pub(crate) fn endpoints_table(endpoints: &[EndpointReport]) -> Table {
    let mut table = Table::indented(2);
    for endpoint in endpoints {
        for (index, view) in endpoint.views.iter().enumerate() {
            let colour = if view.is_ready { Colour::Green } else { Colour::Red };
            let certificate = view.certificate.as_ref().map(certificate_text).unwrap_or_default();
            let address = if index == 0 { endpoint.address.to_string() } else { String::new() };
            let verdict = match endpoint.differs() {
                true => format!("at {}: {}", view.places.join(", "), view.verdict),
                false => view.verdict.clone(),
            };
            table.row([
                (address, None),
                (verdict, Some(colour)),
                (view_time(view), Some(Colour::Dim)),
                (certificate, Some(Colour::Dim)),
            ]);
        }
    }
    table
}

fn view_time(view: &View) -> String {
    let (fast, slow) = (format!("{:.0}", view.elapsed_ms), format!("{:.0}", view.slowest_ms));
    if fast == slow { format!("{fast} ms") } else { format!("{fast} to {slow} ms") }
}

/// `4 ms`, or `4 to 190 ms (fra to sin)` where places differ.
fn times_text(server: &ServerReach) -> String {
    let (near, far) = (format!("{:.0}", server.nearest_ms), format!("{:.0}", server.farthest_ms));
    match near == far {
        true => format!("{near} ms"),
        false => format!("{near} to {far} ms ({} to {})", server.nearest, server.farthest),
    }
}

fn certificate_text(certificate: &Certificate) -> String {
    let ends = certificate.expires.map(|at| format!(" until {}", at.strftime("%F"))).unwrap_or_default();
    let issuer = certificate.issuer.as_ref().map(|issuer| format!(", by {issuer}")).unwrap_or_default();
    format!("certificate for {}{ends}{issuer}", names_text(&certificate.names))
}
