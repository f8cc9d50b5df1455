//! Looks for a proof: both places where it may stand, on every server, from every vantage point at once; and where it is not
//! there, at the names where people put it by mistake.

use std::sync::Arc;

use futures::future::join_all;

use super::decision::{Finding, Look, Outcome, Place, Verdict, decide};
use super::{Challenge, Method, site};
use crate::authority::{Authorities, RecordKind};
use crate::https::HttpClient;
use crate::name::DomainName;
use crate::seams::{Clock, VantagePoint};

/// Looks for proofs.
#[derive(Clone)]
pub struct Verifier {
    authorities: Arc<dyn Authorities>,
    clock: Arc<dyn Clock>,
    vantage_points: Vec<VantagePoint>,
    /// Reads files on sites; without it only DNS counts.
    http: Option<HttpClient>,
}

impl Verifier {
    pub fn new(authorities: Arc<dyn Authorities>, clock: Arc<dyn Clock>, vantage_points: Vec<VantagePoint>) -> Self {
        Self { authorities, clock, vantage_points, http: None }
    }

    /// Also takes files on the site for proof.
    #[must_use]
    pub fn with_site(mut self, http: HttpClient) -> Self {
        self.http = Some(http);
        self
    }

    /// Looks everywhere, decides, and explains.
    pub async fn verify(&self, challenge: &Challenge) -> Verdict {
        let questions = self.vantage_points.iter().flat_map(|from| Place::REAL.map(|place| (from, place)));
        let zone = challenge.domain.clone();
        let mut looks = join_all(questions.map(|(from, place)| self.look(challenge, from, place, &zone))).await;
        let verdict = decide(challenge, &looks, self.clock.now());
        if verdict.outcome != Outcome::Pending {
            return verdict;
        }
        // What the form appended is the zone, which may be above the domain that is proved.
        let zone = looks.iter().find_map(|look| look.seen.as_ref().ok()).map_or(zone, |survey| survey.zone.clone());
        if let Some(from) = self.vantage_points.first() {
            let mistaken = Place::MISTAKEN.map(|place| self.look(challenge, from, place, &zone));
            looks.extend(join_all(mistaken).await);
        }
        let mut verdict = decide(challenge, &looks, self.clock.now());
        if let Some(http) = &self.http {
            match site::check(http, challenge).await {
                Ok(()) => verdict.outcome = Outcome::Verified(Method::HttpFile),
                Err(problem) => verdict.findings.push(Finding::Site { problem }),
            }
        }
        verdict
    }

    async fn look(&self, challenge: &Challenge, from: &VantagePoint, place: Place, zone: &DomainName) -> Look {
        let seen = match place.name(challenge, zone) {
            Some(name) => self.authorities.survey(from, &name, RecordKind::Txt).await,
            None => Err("the name would be too long".to_owned()),
        };
        Look { vantage_point: from.name.clone(), place, seen }
    }
}
