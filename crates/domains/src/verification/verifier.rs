//! Looks for a proof: both places where it may stand, on every server, from every vantage point at once; and where it is not
//! there, at the names where people put it by mistake.

use std::sync::Arc;

use futures::future::{join, join_all};
use rand::seq::SliceRandom;

use super::decision::{Look, Outcome, Place, Verdict, decide};
use super::visitors::{Visitor, take_visits};
use super::{Challenge, Visits};
use crate::authority::{Authorities, RecordKind};
use crate::https::HttpClient;
use crate::name::DomainName;
use crate::probe::{NoRemotePlaces, ProbeAnswer, ProbeQuestion, RemotePlaces};
use crate::seams::{Clock, VantagePoint};

/// Other places that read a file for one look: each is a visit to a site that whoever claims its name has chosen.
const VISITORS_MAX: usize = 8;

/// Looks for proofs.
#[derive(Clone)]
pub struct Verifier {
    authorities: Arc<dyn Authorities>,
    clock: Arc<dyn Clock>,
    vantage_points: Vec<VantagePoint>,
    /// Reads files on sites; without it only DNS counts.
    http: Option<(HttpClient, Arc<Visits>)>,
}

impl Verifier {
    pub fn new(authorities: Arc<dyn Authorities>, clock: Arc<dyn Clock>, vantage_points: Vec<VantagePoint>) -> Self {
        Self { authorities, clock, vantage_points, http: None }
    }

    /// Also takes files on the site for proof; all who share the visits are polite to sites together.
    #[must_use]
    pub fn with_site(mut self, http: HttpClient, visits: Arc<Visits>) -> Self {
        self.http = Some((http, visits));
        self
    }

    /// Looks everywhere, decides, and explains.
    pub async fn verify(&self, challenge: &Challenge) -> Verdict {
        self.verify_from(challenge, &NoRemotePlaces).await
    }

    /// The same, and from places on other machines: one that is there and does not answer counts as one that sees nothing.
    pub async fn verify_from(&self, challenge: &Challenge, remote: &dyn RemotePlaces) -> Verdict {
        let now = self.clock.now();
        if challenge.is_expired(now) {
            // Whatever is there proves nothing any more, so nobody is asked.
            return decide(challenge, &[], now);
        }
        let zone = challenge.domain.clone();
        let here = self.vantage_points.iter().map(|from| self.look(challenge, from, &Place::REAL, &zone));
        let (here, there) = join(join_all(here), looks_from(remote, challenge)).await;
        let mut looks: Vec<Look> = here.into_iter().flatten().chain(there).collect();
        let verdict = decide(challenge, &looks, self.clock.now());
        if verdict.outcome != Outcome::Pending {
            return verdict;
        }
        // What the form appended is the zone, which may be above the domain that is proved.
        let zone = looks.iter().find_map(|look| look.seen.as_ref().ok()).map_or(zone, |survey| survey.zone.clone());
        if let Some(from) = self.vantage_points.first() {
            looks.extend(self.look(challenge, from, &Place::MISTAKEN, &zone).await);
        }
        let mut verdict = decide(challenge, &looks, self.clock.now());
        if let Some((http, visits)) = &self.http {
            let own = visits.look(http, challenge, &*self.clock);
            let (site, others) = join(own, visitors_from(remote, challenge)).await;
            let here = self.vantage_points.first().map_or_else(VantagePoint::here, VantagePoint::clone);
            take_visits(&mut verdict, Visitor { vantage_point: here.name, told: Ok(site) }, others);
        }
        verdict
    }

    /// Looks at several places in one go.
    async fn look(&self, challenge: &Challenge, from: &VantagePoint, places: &[Place], zone: &DomainName) -> Vec<Look> {
        let names = places.iter().map(|place| place.name(challenge, zone));
        let questions: Vec<_> = names.clone().flatten().map(|name| (name, RecordKind::Txt)).collect();
        let mut surveys = self.authorities.seek(from, &questions).await.into_iter();
        let seen = names.map(|name| match name {
            Some(_) => surveys.next().unwrap_or_else(|| Err("it was not asked".to_owned())),
            None => Err("the name would be too long".to_owned()),
        });
        let vantage_point = &from.name;
        let looks = places.iter().zip(seen);
        looks.map(|(place, seen)| Look { vantage_point: vantage_point.clone(), place: *place, seen }).collect()
    }
}

/// What other machines see at the places where a proof counts.
async fn looks_from(remote: &dyn RemotePlaces, challenge: &Challenge) -> Vec<Look> {
    let named = Place::REAL.iter().filter_map(|place| Some((*place, place.name(challenge, &challenge.domain)?)));
    let (places, questions): (Vec<Place>, Vec<ProbeQuestion>) =
        named.map(|(place, name)| (place, ProbeQuestion::Survey { name, record: RecordKind::Txt })).unzip();
    let mut looks = Vec::new();
    for one in remote.ask(&questions).await {
        for (index, place) in places.iter().enumerate() {
            let seen = match one.answers.as_ref().map(|answers| answers.get(index)) {
                Ok(Some(ProbeAnswer::Survey { survey })) => Ok(survey.clone()),
                Ok(Some(ProbeAnswer::Problem { reason })) | Err(reason) => Err(reason.clone()),
                Ok(_) => Err("it did not answer this question".to_owned()),
            };
            looks.push(Look { vantage_point: one.place.clone(), place: *place, seen });
        }
    }
    looks
}

/// What the site says to other machines; to some of them, where there are many, and nobody can tell beforehand to which.
async fn visitors_from(remote: &dyn RemotePlaces, challenge: &Challenge) -> Vec<Visitor> {
    let mut places = remote.present();
    places.shuffle(&mut rand::rng());
    places.truncate(VISITORS_MAX);
    if places.is_empty() {
        return Vec::new();
    }
    let Challenge { domain, brand, token, .. } = challenge.clone();
    let question = [ProbeQuestion::File { name: domain, brand, token }];
    let answered = remote.ask_those(&places, &question).await.into_iter().map(|one| {
        let told = match one.answers.map(|answers| answers.into_iter().next()) {
            Ok(Some(ProbeAnswer::File { site })) => Ok(site),
            Ok(Some(ProbeAnswer::Problem { reason })) | Err(reason) => Err(reason),
            Ok(_) => Err("it did not answer this question".to_owned()),
        };
        Visitor { vantage_point: one.place, told }
    });
    answered.collect()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures::future::BoxFuture;
    use jiff::Timestamp;

    use super::*;
    use crate::authority::{Survey, Witnessed};
    use crate::seams::FixedClock;
    use crate::verification::Scope;

    /// Servers that never answer, and count.
    #[derive(Default)]
    struct Counting(AtomicUsize);

    impl Counting {
        fn count<T: Send + 'static>(&self) -> BoxFuture<'_, Result<T, String>> {
            self.0.fetch_add(1, Ordering::SeqCst);
            Box::pin(async { Err("silence".to_owned()) })
        }
    }

    impl Authorities for Counting {
        fn survey<'a>(
            &'a self,
            _: &'a VantagePoint,
            _: &'a DomainName,
            _: RecordKind,
        ) -> BoxFuture<'a, Result<Survey, String>> {
            self.count()
        }

        fn examine<'a>(&'a self, _: &'a VantagePoint, _: &'a DomainName) -> BoxFuture<'a, Result<Witnessed, String>> {
            self.count()
        }

        fn watch<'a>(&'a self, _: &'a VantagePoint, _: &'a DomainName) -> BoxFuture<'a, Result<Survey, String>> {
            self.count()
        }
    }

    #[tokio::test]
    async fn nobody_is_asked_for_a_token_whose_life_is_over() {
        let name = DomainName::parse("example.com").expect("a name");
        let begin = Timestamp::UNIX_EPOCH;
        let challenge = Challenge::new(&name, Scope::Domain, "bailiwick", begin, &mut |_| ()).expect("a challenge");
        let look = async |at: Timestamp| {
            let servers = Arc::new(Counting::default());
            let verifier = Verifier::new(servers.clone(), Arc::new(FixedClock(at)), vec![VantagePoint::here()]);
            let outcome = verifier.verify(&challenge).await.outcome;
            (outcome, servers.0.load(Ordering::SeqCst) > 0)
        };
        assert_eq!(look(begin).await, (Outcome::Pending, true));
        assert_eq!(look(challenge.expires_at).await, (Outcome::Expired, false));
    }
}
