//! All tools on one set of seams: what the command line, the service and the public page use, so that they cannot disagree.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use futures::future::{join, join_all};

use crate::authority::{Authorities, RecordKind, Survey, Surveyor};
use crate::caa;
use crate::dial::{Dialer, Hosts, Reach};
use crate::engine::Engine;
use crate::https::{HttpClient, HttpError};
use crate::name::{DomainName, NameError, Subject, host_of, is_registry_suffix};
use crate::plan::analysis::{Analysis, Cached, Live, Way, analyze, live_now, question_about, questions};
use crate::plan::domain_connect;
use crate::plan::{Aim, Host, Plan, PlannedRecord, Wish, ZoneFacts};
use crate::probe::{NoRemotePlaces, RemotePlaces};
use crate::provider::detect;
use crate::registration::exchange::Network;
use crate::registration::{Registration, Registrations};
use crate::report::trace::TraceReport;
use crate::resolve::{Run, Thoroughness};
use crate::scan::{Scan, Scanner};
use crate::seams::{Clock, Net, Roots, VantagePoint};
use crate::verification::site::SiteEvidence;
use crate::verification::{Challenge, Verdict, Verifier, Visits};

/// Where a zone says nothing, what RFC 2308 calls sensible: an hour.
const NEGATIVE_TTL_UNKNOWN: u32 = 3_600;

/// Hosts of one plan whose certificates are spoken of.
const CAA_HOSTS_MAX: usize = 16;

/// Planned names whose way from the root is shown.
const WAYS_MAX: usize = 16;

/// The tools.
pub struct Toolbox {
    clock: Arc<dyn Clock>,
    surveyor: Arc<Surveyor>,
    registrations: Registrations,
    http: HttpClient,
    vantage_points: Vec<VantagePoint>,
    visits: Arc<Visits>,
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
        let (vantage_points, visits) = (roots.vantage_points(), Arc::default());
        Ok(Self { clock, surveyor, registrations, http, vantage_points, visits })
    }

    /// The clock that everything is judged by.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// What asks authoritative servers.
    pub fn surveyor(&self) -> &Arc<Surveyor> {
        &self.surveyor
    }

    /// The engines of all vantage points of this machine, the first one first.
    pub fn engines(&self) -> Vec<&Engine> {
        self.surveyor.engines()
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
        self.verify_from(challenge, &NoRemotePlaces).await
    }

    /// The same, and from places on other machines.
    pub async fn verify_from(&self, challenge: &Challenge, remote: &dyn RemotePlaces) -> Verdict {
        let verifier = Verifier::new(self.surveyor.clone(), self.clock.clone(), self.vantage_points.clone());
        verifier.with_site(self.http.clone(), self.visits.clone()).verify_from(challenge, remote).await
    }

    /// What the site says to this machine of the file that proves a challenge.
    pub async fn look_for_file(&self, challenge: &Challenge) -> SiteEvidence {
        self.visits.look(&self.http, challenge, &*self.clock).await
    }

    /// What every server has of a type at a name, from the first vantage point.
    pub async fn survey(&self, name: &DomainName, kind: RecordKind) -> Result<Survey, String> {
        self.surveyor.survey(&self.here(), name, kind).await
    }

    /// The zone that a name is in, and who serves it.
    pub async fn zone_of(&self, name: &DomainName) -> Result<ZoneFacts, String> {
        let survey = self.surveyor.survey(&self.here(), name, RecordKind::Soa).await?;
        // Nobody but the registry writes into its zone: whoever reads this has no place for a record yet.
        if is_registry_suffix(survey.zone.as_str()) {
            return Err(match survey.zone == *name {
                true => NameError::PublicSuffix(name.clone()).to_string(),
                false => format!(
                    "it is not delegated: {} has no nameservers for it; register it, or have its registrar enter the \
                     nameservers, and ask again",
                    survey.zone
                ),
            });
        }
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
            Some(name) => Aim::Host { name, addresses: Vec::new() },
            None => Aim::Addresses(addresses),
        };
        let mut wish = [Wish { host, aim }];
        self.look_up_targets(&mut wish).await;
        let [wish] = wish;
        wish
    }

    /// Looks up the addresses that the hosts of wishes have now, each host once. Where none are found, those that are known
    /// stay.
    pub async fn look_up_targets(&self, wishes: &mut [Wish]) {
        let mut known: HashMap<DomainName, Vec<IpAddr>> = HashMap::new();
        for wish in wishes {
            let Aim::Host { name, addresses } = &mut wish.aim else { continue };
            if !known.contains_key(name) {
                let found = self.surveyor.addresses(name.as_str()).await.unwrap_or_default();
                known.insert(name.clone(), found);
            }
            match known.get(name) {
                Some(found) if !found.is_empty() => addresses.clone_from(found),
                _ => {}
            }
        }
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
        let planned = grouped.into_iter().map(|(zone, wishes)| async move {
            let mut plan = Plan::new(zone, &wishes, now);
            let surveys = self.surveys(&plan).await;
            plan.meet(&wishes, &surveys, now);
            self.advise(&mut plan, &wishes).await;
            plan
        });
        Ok(join_all(planned).await)
    }

    /// Adds what the provider offers, and whose certificates the zone allows.
    async fn advise(&self, plan: &mut Plan, wishes: &[Wish]) {
        let here = self.here();
        let discovery = domain_connect::discover(&*self.surveyor, &here, &self.http, &plan.zone.zone);
        let engine = self.surveyor.first_engine();
        let hosts = wishes.iter().map(|wish| wish.host.clone()).take(CAA_HOSTS_MAX);
        let rules = hosts.map(|host| async move {
            let rules = caa::rules(engine?, &host.base).await?;
            Some((host, rules))
        });
        let (offered, rules) = join(discovery, join_all(rules)).await;
        plan.advise(offered, rules.into_iter().flatten().collect());
    }

    /// What is live of a plan, asked of every server; `cached` is what resolvers have of it.
    pub async fn analyze(&self, plan: &Plan, cached: Vec<Cached>) -> Analysis {
        let (surveys, ways) = join(self.surveys(plan), self.ways(plan)).await;
        Analysis { ways, ..analyze(plan, &Live { surveys, cached }, self.clock.now()) }
    }

    /// The same, with what public resolvers have. They are asked only for what is live: asking for a name that does not
    /// exist yet would make them remember that.
    pub async fn analyze_with_caches(&self, plan: &Plan) -> Analysis {
        let (surveys, ways) = join(self.surveys(plan), self.ways(plan)).await;
        let mut live = Live { surveys, cached: Vec::new() };
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
        Analysis { ways, ..analyze(plan, &live, self.clock.now()) }
    }

    async fn surveys(&self, plan: &Plan) -> Vec<Survey> {
        let surveys = self.surveyor.survey_all(&self.here(), &questions(plan)).await;
        surveys.into_iter().filter_map(Result::ok).collect()
    }

    /// Follows each planned name from the root, once.
    async fn ways(&self, plan: &Plan) -> Vec<Way> {
        let Some(engine) = self.surveyor.first_engine() else { return Vec::new() };
        let mut records: Vec<&PlannedRecord> = Vec::new();
        for record in &plan.records {
            if !records.iter().any(|known| known.host == record.host) {
                records.push(record);
            }
        }
        let followed = records.into_iter().take(WAYS_MAX).map(|record| async move {
            let question = question_about(record)?;
            let resolution = Run::new(engine).resolve(&question, Thoroughness::EveryServer).await;
            let mut trace = TraceReport::new(&resolution, None);
            let conclusion = trace.conclusion();
            // The packets are in the trace of the name; here the steps are enough.
            trace.steps.iter_mut().flat_map(|step| &mut step.servers).for_each(|server| server.wire = None);
            Some(Way { host: record.host.clone(), question: question.to_string(), steps: trace.steps, conclusion })
        });
        join_all(followed).await.into_iter().flatten().collect()
    }
}

/// What a name is to lead to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    Address(IpAddr),
    Host(DomainName),
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Host(name) => name.fmt(f),
        }
    }
}

impl std::str::FromStr for Target {
    type Err = crate::name::NameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.parse() {
            Ok(address) => Ok(Self::Address(address)),
            Err(_) => host_of(text).map(Self::Host),
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
