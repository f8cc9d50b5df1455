//! Everything about one domain in one look: who registered it and until when, what the parent zone delegates, what the
//! servers themselves say, who the provider is, and how long mistakes are remembered. The three lists of nameservers that
//! must agree (registry, parent, zone) are laid side by side.

use std::collections::BTreeSet;

use futures::future::join;
use jiff::Timestamp;
use serde::Serialize;

use crate::advice::NegativeCaching;
use crate::authority::{Authorities, RecordKind, RecordValue, Said, Security, Soa, Survey};
use crate::name::{DomainName, Subject};
use crate::provider::detect;
use crate::registration::{Concern, Registration, RegistrationError, Registrations};
use crate::seams::{Clock, VantagePoint};

/// What is known of a domain.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Scan {
    pub at: Timestamp,
    pub subject: Subject,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub registration: Option<Registration>,
    /// Why there is no registration data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub registration_problem: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub days_left: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dns: Option<DnsScan>,
    /// Why nothing is known of its DNS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dns_problem: Option<String>,
    /// What to do something about, worst first.
    pub findings: Vec<ScanFinding>,
}

/// What DNS says of a domain.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DnsScan {
    pub zone: DomainName,
    pub provider: String,
    /// As the parent delegates.
    pub delegated_to: Vec<DomainName>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delegation_ttl: Option<u32>,
    /// As the zone's own servers list.
    pub listed: Vec<DomainName>,
    pub security: Security,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub soa: Option<Soa>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub negative_caching: Option<NegativeCaching>,
    /// The same in words, with this zone's numbers.
    pub negative_caching_explained: Vec<String>,
    /// How each server did.
    pub servers: Vec<ServerState>,
}

/// How a server of the zone did.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ServerState {
    pub server: DomainName,
    pub address: std::net::IpAddr,
    /// What is wrong with it; nothing when it answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// Something to do something about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ScanFinding {
    pub concern: Concern,
    pub text: String,
}

/// Looks at domains.
pub struct Scanner<'a> {
    pub authorities: &'a dyn Authorities,
    pub registrations: &'a Registrations,
    pub clock: &'a dyn Clock,
    pub from: VantagePoint,
}

impl Scanner<'_> {
    /// Looks at the domain that `subject` is in.
    pub async fn scan(&self, subject: Subject) -> Scan {
        let domain = subject.registered.clone();
        let survey = self.authorities.survey(&self.from, &domain, RecordKind::Ns);
        let (registration, survey) = join(self.registrations.lookup(&domain), survey).await;
        self.put_together(subject, registration, survey)
    }

    /// Looks at DNS alone, with registration data that is known from before.
    pub async fn scan_dns(&self, subject: Subject, known: Registration) -> Scan {
        let survey = self.authorities.survey(&self.from, &subject.registered, RecordKind::Ns).await;
        self.put_together(subject, Ok(known), survey)
    }

    fn put_together(
        &self,
        subject: Subject,
        registration: Result<Registration, RegistrationError>,
        survey: Result<Survey, String>,
    ) -> Scan {
        let now = self.clock.now();
        let (registration, registration_problem) = match registration {
            Ok(registration) => (Some(registration), None),
            Err(error) => (None, Some(error.to_string())),
        };
        let (dns, dns_problem) = match survey {
            // Without a cut of its own the name is not delegated; what was asked is the zone above.
            Ok(survey) if survey.zone != subject.registered => (
                None,
                Some(format!("{} is not delegated: {} has no nameservers for it", subject.registered, survey.zone)),
            ),
            Ok(survey) => (Some(dns(&survey, now)), None),
            Err(problem) => (None, Some(problem)),
        };
        let mut scan = Scan {
            at: now,
            days_left: registration.as_ref().and_then(|registration| registration.days_left(now)),
            subject,
            registration,
            registration_problem,
            dns,
            dns_problem,
            findings: Vec::new(),
        };
        scan.findings = findings(&scan, now);
        scan
    }
}

fn dns(survey: &Survey, now: Timestamp) -> DnsScan {
    let listed: BTreeSet<DomainName> = survey
        .records()
        .iter()
        .filter_map(|record| match &record.value {
            RecordValue::Name(name) if record.kind == RecordKind::Ns => Some(name.clone()),
            _ => None,
        })
        .collect();
    let soa_names: Vec<DomainName> = survey
        .soa
        .iter()
        .flat_map(|soa| [Some(soa.primary.clone()), DomainName::parse(&soa.mailbox).ok()])
        .flatten()
        .collect();
    let negative_caching = survey.soa.as_ref().map(NegativeCaching::of);
    DnsScan {
        zone: survey.zone.clone(),
        provider: detect(&survey.nameservers, &soa_names).display(),
        delegated_to: survey.nameservers.clone(),
        delegation_ttl: survey.delegation_ttl,
        listed: listed.into_iter().collect(),
        security: survey.security,
        soa: survey.soa.clone(),
        negative_caching_explained: negative_caching.as_ref().map(|caching| caching.explain(now)).unwrap_or_default(),
        negative_caching,
        servers: survey
            .answers
            .iter()
            .map(|answer| ServerState {
                server: answer.server.clone(),
                address: answer.address,
                problem: if let Said::Nothing(reason) = &answer.said { Some(reason.clone()) } else { None },
            })
            .collect(),
    }
}

fn findings(scan: &Scan, now: Timestamp) -> Vec<ScanFinding> {
    let mut found = Vec::new();
    let mut tell = |concern: Concern, text: String| found.push(ScanFinding { concern, text });
    if let Some(lookalike) = &scan.subject.lookalike {
        tell(Concern::Warning, lookalike.to_string());
    }
    if let Some(registration) = &scan.registration {
        about_registration(registration, now, &mut tell);
    }
    if let Some(problem) = &scan.dns_problem {
        tell(Concern::Critical, problem.clone());
    }
    if let Some(dns) = &scan.dns {
        about_dns(dns, &mut tell);
    }
    if let (Some(registration), Some(dns)) = (&scan.registration, &scan.dns) {
        let registry: Vec<DomainName> = registration.nameservers.iter().map(|server| server.name.clone()).collect();
        if !registry.is_empty() && different(&registry, &dns.delegated_to) {
            let text = format!(
                "the registry lists {}, the parent zone delegates to {}: a change is on its way, or was refused",
                list(&registry),
                list(&dns.delegated_to)
            );
            tell(Concern::Warning, text);
        }
    }
    found.sort_by_key(|finding| std::cmp::Reverse(finding.concern));
    found
}

fn about_registration(registration: &Registration, now: Timestamp, tell: &mut impl FnMut(Concern, String)) {
    match registration.days_left(now) {
        Some(days) if days < 0 => {
            tell(Concern::Critical, format!("the registration {}: renew it today", expired_words(days)));
        }
        Some(days) if days < 7 => {
            tell(Concern::Critical, format!("the registration expires in {days} days: renew it now"))
        }
        Some(days) if days < 30 => tell(Concern::Warning, format!("the registration expires in {days} days")),
        _ => {}
    }
    for flag in registration.statuses.iter().filter(|flag| flag.concern > Concern::None) {
        let advice = flag.advice.as_ref().map(|advice| format!(": {advice}")).unwrap_or_default();
        tell(flag.concern, format!("{} ({}){advice}", flag.code, flag.meaning));
    }
    for one in &registration.disagreements {
        let text = format!(
            "{}: the registry says {}, the registrar says {}: {}",
            one.field, one.registry, one.registrar, one.meaning
        );
        tell(Concern::Notice, text);
    }
}

/// `expired 40 days ago`, of days that are counted downwards.
pub(crate) fn expired_words(days_left: i64) -> String {
    match -days_left - 1 {
        0 => "expired today".to_owned(),
        1 => "expired yesterday".to_owned(),
        days => format!("expired {days} days ago"),
    }
}

fn about_dns(dns: &DnsScan, tell: &mut impl FnMut(Concern, String)) {
    if dns.security == Security::Bogus {
        let text = "the DNSSEC signatures do not fit: resolvers that check them see nothing of the domain".to_owned();
        tell(Concern::Critical, text);
    }
    if !dns.listed.is_empty() && different(&dns.listed, &dns.delegated_to) {
        let text = format!(
            "the parent zone delegates to {}, the zone itself lists {}: make both lists the same",
            list(&dns.delegated_to),
            list(&dns.listed)
        );
        tell(Concern::Warning, text);
    }
    if dns.delegated_to.len() == 1 {
        tell(Concern::Warning, "there is only one nameserver: when it fails, the domain is gone".to_owned());
    }
    for server in &dns.servers {
        if let Some(problem) = &server.problem {
            tell(Concern::Warning, format!("{} ({}) {problem}", server.server, server.address));
        }
    }
    if !dns.servers.is_empty() && dns.servers.iter().all(|server| server.problem.is_some()) {
        tell(Concern::Critical, "no nameserver answers: the domain does not work".to_owned());
    }
}

fn different(a: &[DomainName], b: &[DomainName]) -> bool {
    a.iter().collect::<BTreeSet<_>>() != b.iter().collect::<BTreeSet<_>>()
}

fn list(names: &[DomainName]) -> String {
    if names.is_empty() {
        "nobody".to_owned()
    } else {
        names.iter().map(DomainName::as_str).collect::<Vec<_>>().join(", ")
    }
}
