//! What a report amounts to, in a form in which one run can be compared with the next: what is the matter, each under a name
//! that stays the same while its words change, and what could not be seen this time.

use jiff::Timestamp;

use super::Report;
use crate::dnssec;
use crate::endpoint::places::{EndpointReport, View};
use crate::plan::analysis::{Analysis, RecordReport, State};
use crate::probe::Absent;
use crate::recursive::Standing;
use crate::registration::Concern;
use crate::report::compare::CompareReport;
use crate::report::fqdn::FqdnReport;
use crate::scan::WAY;
use crate::verdict::Severity;
use crate::verification::decision::Outcome as Proof;
use crate::zonecheck::ZoneCheck;

/// What a report amounts to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outlook {
    /// What is the matter. What only has to be waited for is a notice.
    pub points: Vec<Point>,
    /// The topics of which nothing could be seen: they are as they were.
    pub unseen: Vec<String>,
    /// The topics of places that were not heard: what was known of them is as it was, and nobody waits for them.
    pub away: Vec<String>,
    /// The same of the services behind planned names, where some are live and served by HTTPS: records that are right lead to
    /// something that may not be.
    pub served: Option<Box<Outlook>>,
    /// When something that is waited for will be over.
    pub over_at: Option<Timestamp>,
}

/// One thing that is the matter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Point {
    /// What it is about, whatever words it has.
    pub topic: String,
    pub concern: Concern,
    pub text: String,
}

impl Outlook {
    fn add(&mut self, topic: String, concern: Concern, text: String) {
        if !self.points.iter().any(|point| point.topic == topic) {
            self.points.push(Point { topic, concern, text });
        }
    }
}

impl Report {
    /// What it amounts to; nothing for tools that judge nothing.
    pub fn outlook(&self) -> Option<Outlook> {
        let mut outlook = Outlook::default();
        match self {
            Self::Instructions { .. } | Self::Plans { .. } | Self::History(_) | Self::Trace(_) => return None,
            // Where the way there, or the registry, did not answer, nothing has begun or ended.
            Self::Scan(scan)
                if scan.registration_later.is_some() || scan.findings.iter().any(|one| one.topic == WAY) =>
            {
                return None;
            }
            Self::Scan(scan) => {
                for finding in scan.findings.iter().filter(|finding| finding.concern >= Concern::Warning) {
                    outlook.add(finding.topic.clone(), finding.concern, finding.text.clone());
                }
            }
            Self::Verdict { verdict, .. } => {
                if !matches!(verdict.outcome, Proof::Verified(_)) {
                    outlook.add("proof".to_owned(), Concern::Warning, self.summary());
                }
            }
            Self::Analyses { analyses, .. } => analyses.iter().for_each(|analysis| of_analysis(&mut outlook, analysis)),
            Self::Fqdn(reports) => reports.iter().for_each(|report| of_name(&mut outlook, report)),
            Self::Compare(report) => of_resolvers(&mut outlook, report),
            Self::ZoneCheck(check) => of_zone(&mut outlook, check),
        }
        Some(outlook)
    }
}

fn of_analysis(outlook: &mut Outlook, analysis: &Analysis) {
    for report in &analysis.records {
        let topic = format!("{} {} {}", report.record.host, report.record.kind.as_str(), report.record.value);
        match &report.state {
            State::Match => {}
            State::Unknown => outlook.unseen.push(topic),
            State::BlockedByCache { until, .. } => {
                outlook.over_at = Some(outlook.over_at.map_or(*until, |known| known.max(*until)));
                outlook.add(topic.clone(), Concern::Notice, format!("{topic}: {}", words(report)));
            }
            _ => outlook.add(topic.clone(), Concern::Warning, format!("{topic}: {}", words(report))),
        }
    }
    for extra in &analysis.extras {
        let topic = format!("{} {} besides {}", extra.name, extra.kind, extra.value);
        let text = format!("{} {}: found {} besides: {}", extra.name, extra.kind, extra.value, extra.note);
        outlook.add(topic, Concern::Warning, text);
    }
    for service in &analysis.services {
        let mut of_host = Outlook::default();
        service.endpoints.iter().for_each(|endpoint| of_endpoint(&mut of_host, endpoint, &service.absent));
        let served = outlook.served.get_or_insert_default();
        let host = &service.host;
        for Point { topic, concern, text } in of_host.points {
            served.add(format!("{host} {topic}"), concern, format!("https://{host} at {text}"));
        }
        served.unseen.extend(of_host.unseen.into_iter().map(|topic| format!("{host} {topic}")));
        served.away.extend(of_host.away.into_iter().map(|topic| format!("{host} {topic}")));
    }
    for refusal in &analysis.refusals {
        outlook.add(format!("{} refused", refusal.host), Concern::Warning, refusal.reason.clone());
    }
}

/// How a record stands and what to do, in one line.
fn words(report: &RecordReport) -> String {
    let names =
        |names: &[crate::name::DomainName]| names.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let state = match &report.state {
        State::Match => "as planned".to_owned(),
        State::Missing => "missing".to_owned(),
        State::Wrong { found } => format!("found {found}"),
        State::Masked { by, .. } => format!("masked by {by}"),
        State::Partial { with, without } => format!("on {}, not on {}", names(with), names(without)),
        State::BlockedByCache { until, .. } => format!("right, and seen by everybody at {until}"),
        State::Unknown => "unknown".to_owned(),
    };
    match report.notes.is_empty() {
        true => state,
        false => format!("{state} ({})", report.notes.join("; ")),
    }
}

fn of_name(outlook: &mut Outlook, report: &FqdnReport) {
    if report.dnssec.status == dnssec::Status::Bogus {
        let text = format!("{} {}: the DNSSEC signatures do not fit", report.name, report.rtype);
        outlook.add(format!("{} dnssec", report.rtype), Concern::Critical, text);
    }
    for endpoint in &report.endpoints {
        of_endpoint(outlook, endpoint, &report.absent);
    }
}

/// What is the matter at every place is one thing; what is the matter at some is one for each of them, so that one that is
/// away for a while does not read as mended.
fn of_endpoint(outlook: &mut Outlook, endpoint: &EndpointReport, absent: &[Absent]) {
    let address = endpoint.address;
    let topic = format!("endpoint {address}");
    let at = |place: &str| format!("{topic} at {place}");
    let (seen, unseen): (Vec<&View>, Vec<&View>) = endpoint.views.iter().partition(|view| view.is_seen());
    let nowhere = !seen.iter().any(|view| view.is_ready);
    match (seen.is_empty(), nowhere) {
        (true, _) => outlook.unseen.push(topic.clone()),
        (false, true) => outlook.add(topic.clone(), Concern::Warning, format!("{address}: {}", endpoint.verdict)),
        (false, false) => {
            for view in seen.iter().filter(|view| !view.is_ready) {
                for place in &view.places {
                    outlook.add(at(place), Concern::Warning, format!("{address}: {} at {place}", view.verdict));
                }
            }
        }
    }
    let away = unseen.iter().flat_map(|view| &view.places).chain(absent.iter().map(|absent| &absent.place));
    outlook.away.extend(away.map(|place| at(place)));
}

fn of_resolvers(outlook: &mut Outlook, report: &CompareReport) {
    for resolver in &report.resolvers {
        let topic = format!("{} {}", resolver.name, resolver.address);
        let judged = &resolver.judged;
        match judged.standing {
            Standing::Same | Standing::NotCached => {}
            Standing::Failed | Standing::Unknown => outlook.unseen.push(topic),
            Standing::Stale | Standing::Negative | Standing::Filtered | Standing::Bogus => {
                outlook.over_at = outlook.over_at.max(judged.right_at);
                let text = format!("{}: {}", resolver.name, judged.explanation);
                outlook.add(topic, Concern::Warning, text);
            }
        }
    }
}

fn of_zone(outlook: &mut Outlook, check: &ZoneCheck) {
    for finding in check.findings.iter().filter(|finding| finding.severity >= Severity::Warning) {
        let server = match (&finding.server, finding.address) {
            (Some(server), Some(address)) => format!(" {server}/{address}"),
            _ => String::new(),
        };
        let concern = if finding.severity >= Severity::Error { Concern::Critical } else { Concern::Warning };
        outlook.add(format!("{}{server}", finding.tag), concern, format!("{}: {}", finding.case, finding.message));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(places: &[&str], verdict: &str) -> View {
        View {
            places: places.iter().map(|place| (*place).to_owned()).collect(),
            certificate: None,
            http_status: None,
            elapsed_ms: 1.0,
            slowest_ms: 1.0,
            verdict: verdict.to_owned(),
            is_ready: verdict.starts_with("TLS ok"),
        }
    }

    fn outlook(views: Vec<View>, absent: &[Absent]) -> Outlook {
        let mut outlook = Outlook::default();
        let endpoint = EndpointReport {
            address: "192.0.2.1".parse().expect("an address"),
            certificate: None,
            http_status: None,
            elapsed_ms: 1.0,
            verdict: "in words".to_owned(),
            is_ready: false,
            views,
        };
        of_endpoint(&mut outlook, &endpoint, absent);
        outlook
    }

    fn topics(outlook: &Outlook) -> Vec<&str> {
        outlook.points.iter().map(|point| point.topic.as_str()).collect()
    }

    #[test]
    fn what_is_broken_everywhere_is_one_trouble_and_what_is_broken_somewhere_is_one_for_each_place() {
        let somewhere = outlook(vec![view(&["fra", "sin"], "TLS ok"), view(&["gru"], "refused")], &[]);
        assert_eq!(topics(&somewhere), ["endpoint 192.0.2.1 at gru"]);
        let everywhere = outlook(vec![view(&["fra", "sin"], "refused"), view(&["gru"], "silent")], &[]);
        assert_eq!(topics(&everywhere), ["endpoint 192.0.2.1"]);
        assert_eq!(topics(&outlook(vec![view(&["fra", "sin"], "TLS ok")], &[])), [""; 0]);
    }

    #[test]
    fn a_place_that_is_away_says_nothing_of_what_was_seen_from_there() {
        let absent = [Absent { place: "sin".into(), reason: "it was shut down".into() }];
        let seen = outlook(vec![view(&["fra"], "TLS ok"), view(&["gru"], "not seen: it is late")], &absent);
        assert_eq!(topics(&seen), [""; 0]);
        assert_eq!(seen.away, ["endpoint 192.0.2.1 at gru", "endpoint 192.0.2.1 at sin"]);
        assert!(seen.unseen.is_empty(), "nobody waits for it");
    }
}
