//! All tools on one set of seams: what the command line, the service and the public page use, so that they cannot disagree.

use std::net::IpAddr;
use std::sync::Arc;

use futures::future::join_all;

use crate::authority::{Authorities, RecordKind, Survey, Surveyor};
use crate::dial::{Dialer, Hosts, Reach};
use crate::https::{HttpClient, HttpError};
use crate::name::{DomainName, Subject};
use crate::plan::analysis::{Analysis, Cached, Live, analyze, live_now, questions};
use crate::plan::{Aim, Host, Plan, Wish, ZoneFacts};
use crate::provider::detect;
use crate::registration::exchange::Network;
use crate::registration::{Registration, Registrations};
use crate::scan::{Scan, Scanner};
use crate::seams::{Clock, Net, Roots, VantagePoint};
use crate::verification::{Challenge, Verdict, Verifier};

/// Where a zone says nothing, what RFC 2308 calls sensible: an hour.
const NEGATIVE_TTL_UNKNOWN: u32 = 3_600;

/// The tools.
pub struct Toolbox {
    clock: Arc<dyn Clock>,
    surveyor: Arc<Surveyor>,
    registrations: Registrations,
    http: HttpClient,
    vantage_points: Vec<VantagePoint>,
}

impl Toolbox {
    /// Over these seams.
    pub fn new(net: &Net, clock: Arc<dyn Clock>, roots: &Arc<Roots>) -> Result<Self, HttpError> {
        let surveyor = Arc::new(Surveyor::new(net, &clock, roots));
        let reach = if roots.private_addresses { Reach::Anywhere } else { Reach::PublicOnly };
        let dialer = Dialer::new(net.clone(), surveyor.clone(), reach);
        let http = HttpClient::new(dialer.clone(), roots.ca_file.as_deref())?;
        let exchange = Arc::new(Network::new(http.clone(), dialer));
        let registrations = Registrations::new(exchange, clock.clone(), roots);
        Ok(Self { clock, surveyor, registrations, http, vantage_points: roots.vantage_points() })
    }

    /// The clock that everything is judged by.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// What asks authoritative servers.
    pub fn surveyor(&self) -> &Arc<Surveyor> {
        &self.surveyor
    }

    /// What asks registries.
    pub fn registrations(&self) -> &Registrations {
        &self.registrations
    }

    fn here(&self) -> VantagePoint {
        self.vantage_points.first().cloned().unwrap_or_else(VantagePoint::here)
    }

    /// Everything about the domain that a name is in.
    pub async fn scan(&self, subject: Subject) -> Scan {
        self.scanner().scan(subject).await
    }

    /// The same with registration data that is known from before: registries are asked rarely, DNS often.
    pub async fn scan_dns(&self, subject: Subject, known: Registration) -> Scan {
        self.scanner().scan_dns(subject, known).await
    }

    fn scanner(&self) -> Scanner<'_> {
        Scanner {
            authorities: &*self.surveyor,
            registrations: &self.registrations,
            clock: &*self.clock,
            from: self.here(),
        }
    }

    /// Looks for a proof, in DNS from every vantage point and on the site.
    pub async fn verify(&self, challenge: &Challenge) -> Verdict {
        let verifier = Verifier::new(self.surveyor.clone(), self.clock.clone(), self.vantage_points.clone());
        verifier.with_site(self.http.clone()).verify(challenge).await
    }

    /// The zone that a name is in, and who serves it.
    pub async fn zone_of(&self, name: &DomainName) -> Result<ZoneFacts, String> {
        let survey = self.surveyor.survey(&self.here(), name, RecordKind::Soa).await?;
        Ok(facts(&survey))
    }

    /// A wish for a name to lead to addresses, or to a host, whose addresses are looked up.
    pub async fn wish(&self, host: Host, targets: &[Target]) -> Wish {
        let named =
            targets.iter().find_map(|target| if let Target::Host(name) = target { Some(name.clone()) } else { None });
        let addresses: Vec<IpAddr> = targets
            .iter()
            .filter_map(|target| if let Target::Address(address) = target { Some(*address) } else { None })
            .collect();
        let aim = match named {
            Some(name) => {
                let addresses = self.surveyor.addresses(name.as_str()).await.unwrap_or_default();
                Aim::Host { name, addresses }
            }
            None => Aim::Addresses(addresses),
        };
        Wish { host, aim }
    }

    /// The records for wishes, one plan for each zone.
    pub async fn plan(&self, wishes: Vec<Wish>) -> Result<Vec<Plan>, String> {
        let zones = join_all(wishes.iter().map(|wish| self.zone_of(&wish.host.base))).await;
        let mut grouped: Vec<(ZoneFacts, Vec<Wish>)> = Vec::new();
        for (wish, zone) in wishes.into_iter().zip(zones) {
            let zone = zone.map_err(|reason| format!("{}: {reason}", wish.host))?;
            match grouped.iter_mut().find(|(known, _)| known.zone == zone.zone) {
                Some((_, members)) => members.push(wish),
                None => grouped.push((zone, vec![wish])),
            }
        }
        let now = self.clock.now();
        Ok(grouped.into_iter().map(|(zone, wishes)| Plan::new(zone, &wishes, now)).collect())
    }

    /// What is live of a plan, asked of every server; `cached` is what resolvers have of it.
    pub async fn analyze(&self, plan: &Plan, cached: Vec<Cached>) -> Analysis {
        let surveys = self.surveys(plan).await;
        analyze(plan, &Live { surveys, cached }, self.clock.now())
    }

    /// The same, with what public resolvers have. They are asked only for what is live: asking for a name that does not
    /// exist yet would make them remember that.
    pub async fn analyze_with_caches(&self, plan: &Plan) -> Analysis {
        let mut live = Live { surveys: self.surveys(plan).await, cached: Vec::new() };
        let first = analyze(plan, &live, self.clock.now());
        for (name, kind) in live_now(&first) {
            let answers = self.surveyor.caches(&name, kind).await;
            live.cached.extend(answers.into_iter().map(|answer| Cached {
                resolver: answer.resolver,
                name: name.clone(),
                kind,
                values: answer.values,
                ttl_left: answer.ttl_left,
            }));
        }
        analyze(plan, &live, self.clock.now())
    }

    async fn surveys(&self, plan: &Plan) -> Vec<Survey> {
        let here = self.here();
        let asked = questions(plan);
        let surveys = join_all(asked.iter().map(|(name, kind)| self.surveyor.survey(&here, name, *kind))).await;
        surveys.into_iter().filter_map(Result::ok).collect()
    }
}

/// What a name is to lead to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    Address(IpAddr),
    Host(DomainName),
}

impl std::str::FromStr for Target {
    type Err = crate::name::NameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.parse() {
            Ok(address) => Ok(Self::Address(address)),
            Err(_) => DomainName::parse(text).map(Self::Host),
        }
    }
}

fn facts(survey: &Survey) -> ZoneFacts {
    let soa = survey.soa.as_ref();
    let names: Vec<DomainName> = soa.iter().map(|soa| soa.primary.clone()).collect();
    ZoneFacts {
        zone: survey.zone.clone(),
        provider: detect(&survey.nameservers, &names),
        negative_ttl: soa.map_or(NEGATIVE_TTL_UNKNOWN, |soa| soa.ttl.min(soa.minimum)),
    }
}
