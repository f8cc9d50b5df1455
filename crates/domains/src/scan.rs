//! Everything about one domain in one look: who registered it and until when, what the parent zone delegates, what the
//! servers themselves say, who the provider is, and how long mistakes are remembered. The three lists of nameservers that
//! must agree (registry, parent, zone) are laid side by side.

mod nameservers;

use std::collections::BTreeSet;

use futures::future::join;
use jiff::Timestamp;
use serde::Serialize;

use crate::advice::{Forecast, NegativeCaching, forecast_nameservers};
use crate::authority::{
    Authorities, RecordKind, RecordValue, Said, Security, Soa, Survey, Witness, Witnessed, WrongGlue,
};
use crate::evidence::Evidence;
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
    /// When the registry may be asked again, where that is the reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub registration_later: Option<Timestamp>,
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
    /// The parent's DS records, where the parent is signed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delegation_signers: Option<Vec<String>>,
    /// As the zone's own servers list.
    pub listed: Vec<DomainName>,
    /// When everybody would see other nameservers, were they changed now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nameserver_change: Option<Forecast>,
    pub security: Security,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub soa: Option<Soa>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub negative_caching: Option<NegativeCaching>,
    /// The same in words, with this zone's numbers.
    pub negative_caching_explained: Vec<String>,
    /// How each server did.
    pub servers: Vec<ServerState>,
    /// Nameservers whose addresses the parent has wrong.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub wrong_glue: Vec<WrongGlue>,
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
    /// The version of the zone that it serves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serial: Option<u32>,
}

/// The topic of the finding that the parent has no nameservers for the domain.
pub const DELEGATION: &str = "delegation";
/// The topic of the finding that the parent could not be asked.
pub const WAY: &str = "way";
/// The topic of the finding that registry and parent zone have different nameservers.
pub const REGISTRY: &str = "registry";
/// The topic of the finding that a name looks like another.
pub const LOOKALIKE: &str = "lookalike";
/// The topic of findings about the end of a registration.
pub const EXPIRATION: &str = "expiration";
/// The first word of the topic of findings about a status flag.
pub const FLAG: &str = "flag";

/// Something to do something about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ScanFinding {
    pub concern: Concern,
    /// What it is about, the same at each look whatever words it has then, such as `server ns1.example.net 192.0.2.1`.
    pub topic: String,
    pub text: String,
    /// The exchanges that show it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<Evidence>,
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
        let survey = self.authorities.examine(&self.from, &domain);
        let (registration, survey) = join(self.registrations.lookup(&domain), survey).await;
        self.put_together(subject, registration, survey)
    }

    /// Looks at DNS alone, with registration data that is known from before.
    pub async fn scan_dns(&self, subject: Subject, known: Registration) -> Scan {
        let survey = self.authorities.watch(&self.from, &subject.registered).await;
        let survey = survey.map(|survey| Witnessed { witness: nameservers::from_memory(&survey), survey });
        self.put_together(subject, Ok(known), survey)
    }

    fn put_together(
        &self,
        subject: Subject,
        registration: Result<Registration, RegistrationError>,
        survey: Result<Witnessed, String>,
    ) -> Scan {
        let now = self.clock.now();
        let registration_later = match &registration {
            Err(RegistrationError::Later { until, .. }) => Some(*until),
            _ => None,
        };
        let (registration, registration_problem) = match registration {
            Ok(registration) => (Some(registration), None),
            Err(error) => (None, Some(error.to_string())),
        };
        let mut witness = Witness::default();
        let (dns, dns_problem) = match survey {
            // Without a cut of its own the name is not delegated; what was asked is the zone above.
            Ok(Witnessed { survey, .. }) if survey.zone != subject.registered => (
                None,
                Some(format!("{} is not delegated: {} has no nameservers for it", subject.registered, survey.zone)),
            ),
            Ok(witnessed) => {
                witness = witnessed.witness;
                (Some(dns(&witnessed.survey, now)), None)
            }
            Err(problem) => (None, Some(problem)),
        };
        let mut scan = Scan {
            at: now,
            days_left: registration.as_ref().and_then(|registration| registration.days_left(now)),
            subject,
            registration,
            registration_problem,
            registration_later,
            dns,
            dns_problem,
            findings: Vec::new(),
        };
        scan.findings = findings(&scan, &witness, now);
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
        delegation_signers: survey.delegation_signers.clone(),
        listed: listed.into_iter().collect(),
        nameserver_change: nameserver_change(survey, now),
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
                serial: answer.serial,
            })
            .collect(),
        wrong_glue: survey.wrong_glue.clone(),
    }
}

/// What the parent and the zone say about how long their lists of nameservers are remembered.
fn nameserver_change(survey: &Survey, now: Timestamp) -> Option<Forecast> {
    let records = survey.records();
    let listed = records.iter().filter(|record| record.kind == RecordKind::Ns).map(|record| record.ttl).max()?;
    Some(forecast_nameservers(now, survey.delegation_ttl?, listed))
}

/// What there is to say of a registration, such as one that is known from before while the registry does not answer.
pub fn registration_findings(registration: &Registration, now: Timestamp) -> Vec<ScanFinding> {
    let mut found = Vec::new();
    let mut tell = |concern: Concern, topic: &str, text: String| {
        found.push(ScanFinding { concern, topic: topic.to_owned(), text, evidence: Vec::new() })
    };
    about_registration(registration, now, &mut tell);
    found
}

fn findings(scan: &Scan, witness: &Witness, now: Timestamp) -> Vec<ScanFinding> {
    let mut found = Vec::new();
    let mut tell = |concern: Concern, topic: &str, text: String| {
        found.push(ScanFinding { concern, topic: topic.to_owned(), text, evidence: Vec::new() })
    };
    if let Some(lookalike) = &scan.subject.lookalike {
        tell(Concern::Warning, LOOKALIKE, lookalike.to_string());
    }
    if let Some(registration) = &scan.registration {
        about_registration(registration, now, &mut tell);
    }
    if let Some(problem) = &scan.dns_problem {
        // A way that is broken above the domain, or at our own door, says nothing of the domain.
        let topic = if problem.contains("is not delegated") { DELEGATION } else { WAY };
        tell(Concern::Critical, topic, problem.clone());
    }
    if let Some(dns) = &scan.dns {
        found.extend(nameservers::findings(dns, witness));
    }
    if let (Some(registration), Some(dns)) = (&scan.registration, &scan.dns) {
        let registry: Vec<DomainName> = registration.nameservers.iter().map(|server| server.name.clone()).collect();
        if !registry.is_empty() && different(&registry, &dns.delegated_to) {
            let text = format!(
                "the registry lists {}, the parent zone delegates to {}: a change is on its way, or was refused",
                list(&registry),
                list(&dns.delegated_to)
            );
            let evidence = witness.parent.iter().cloned().collect();
            let topic = REGISTRY.to_owned();
            found.push(ScanFinding { concern: Concern::Warning, topic, text, evidence });
        }
    }
    found.sort_by_key(|finding| std::cmp::Reverse(finding.concern));
    found
}

fn about_registration(registration: &Registration, now: Timestamp, tell: &mut impl FnMut(Concern, &str, String)) {
    match registration.days_left(now) {
        Some(days) if days < 0 => {
            tell(Concern::Critical, EXPIRATION, format!("the registration {}: renew it today", expired_words(days)));
        }
        Some(days) if days < 7 => {
            tell(Concern::Critical, EXPIRATION, format!("the registration expires in {days} days: renew it now"))
        }
        Some(days) if days < 30 => {
            tell(Concern::Warning, EXPIRATION, format!("the registration expires in {days} days"))
        }
        _ => {}
    }
    for flag in registration.statuses.iter().filter(|flag| flag.concern > Concern::None) {
        let advice = flag.advice.as_ref().map(|advice| format!(": {advice}")).unwrap_or_default();
        tell(flag.concern, &format!("{FLAG} {}", flag.code), format!("{} ({}){advice}", flag.code, flag.meaning));
    }
    for one in &registration.disagreements {
        let text = format!(
            "{}: the registry says {}, the registrar says {}: {}",
            one.field, one.registry, one.registrar, one.meaning
        );
        tell(Concern::Notice, &format!("disagreement {}", one.field), text);
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
