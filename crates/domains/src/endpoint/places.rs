//! What is behind addresses as several places see it: each place calls each address, on this machine and on others, and what
//! they see is put together: one verdict for each address and place, and where places differ, who sees what.

use std::net::IpAddr;

use futures::future::{join, join_all};
use serde::Serialize;

use super::{Certificate, Endpoint, look};
use crate::engine::Engine;
use crate::name::DomainName;
use crate::probe::{ProbeAnswer, ProbeQuestion, RemotePlaces};

/// Addresses of one name that are called.
pub const ADDRESSES_MAX: usize = 16;
/// Calls of one check, over all its names and places: a site that a stranger names is not called by hundreds of places for each
/// of its addresses.
const CALLS_MAX: usize = 512;

/// A name and the addresses that are called for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Errand {
    pub host: DomainName,
    pub addresses: Vec<IpAddr>,
}

/// What one place sees of one address.
#[derive(Clone, Debug, PartialEq)]
pub struct Seen {
    pub place: String,
    pub endpoint: Endpoint,
}

/// Places that see the same of an address.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct View {
    /// Their names.
    pub places: Vec<String>,
    /// The certificate that they get.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificate: Option<Certificate>,
    /// The status of `GET /`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http_status: Option<u16>,
    /// How long it took where it was fastest and where it was slowest, in milliseconds.
    pub elapsed_ms: f64,
    pub slowest_ms: f64,
    /// In a sentence.
    pub verdict: String,
    /// Whether their visitors would be served.
    pub is_ready: bool,
}

/// What is behind one address.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EndpointReport {
    /// The address.
    pub address: IpAddr,
    /// The certificate, as the first place sees it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificate: Option<Certificate>,
    /// The status of `GET /` there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http_status: Option<u16>,
    /// How long the whole took there, in milliseconds.
    pub elapsed_ms: f64,
    /// In a sentence, which says who sees what where places differ.
    pub verdict: String,
    /// Whether visitors would be served at every place.
    pub is_ready: bool,
    /// Each place, with those that see the same.
    pub views: Vec<View>,
}

impl EndpointReport {
    /// Whether somebody sees something else than others.
    pub fn differs(&self) -> bool {
        self.views.len() > 1
    }
}

/// Calls the addresses of every errand from every place: those of this machine and those others that were `heard` before, so
/// that nobody is waited for twice. For each errand what was seen, the first place of this machine first.
pub async fn call(
    places: &[&Engine],
    remote: &dyn RemotePlaces,
    heard: &[String],
    errands: &[Errand],
) -> Vec<Vec<Seen>> {
    let bounded = bounded(errands, places.len() + heard.len());
    let here = bounded.iter().map(|errand| call_here(places, errand));
    let (mut seen, there) = join(join_all(here), call_there(remote, heard, &bounded)).await;
    for (place, index, endpoints) in there {
        if let Some(seen) = seen.get_mut(index) {
            seen.extend(endpoints.into_iter().map(|endpoint| Seen { place: place.clone(), endpoint }));
        }
    }
    seen
}

/// As many addresses of each errand as may be called from so many places.
fn bounded(errands: &[Errand], places: usize) -> Vec<Errand> {
    let each = (CALLS_MAX / places.max(1) / errands.len().max(1)).clamp(1, ADDRESSES_MAX);
    let bounded = errands.iter().map(|errand| Errand {
        host: errand.host.clone(),
        addresses: errand.addresses.iter().copied().take(each).collect(),
    });
    bounded.collect()
}

async fn call_here(places: &[&Engine], errand: &Errand) -> Vec<Seen> {
    let calls = places.iter().flat_map(|engine| {
        errand.addresses.iter().map(move |address| async move {
            let place = engine.transport().net().vantage_point().name.clone();
            Seen { place, endpoint: look(engine, errand.host.as_str(), *address).await }
        })
    });
    join_all(calls).await
}

/// What places on other machines see: the place, the errand's number, and what is behind its addresses.
async fn call_there(
    remote: &dyn RemotePlaces,
    heard: &[String],
    errands: &[Errand],
) -> Vec<(String, usize, Vec<Endpoint>)> {
    let errands: Vec<(usize, &Errand)> =
        errands.iter().enumerate().filter(|(_, errand)| !errand.addresses.is_empty()).collect();
    if errands.is_empty() || heard.is_empty() {
        return Vec::new();
    }
    let questions: Vec<ProbeQuestion> = errands
        .iter()
        .map(|(_, errand)| ProbeQuestion::Call { name: errand.host.clone(), addresses: errand.addresses.clone() })
        .collect();
    let mut seen = Vec::new();
    for answers in remote.ask_those(heard, &questions).await {
        for (nth, (index, errand)) in errands.iter().enumerate() {
            let answer = answers.answers.as_ref().map(|answers| answers.get(nth));
            let endpoints = match answer {
                Ok(Some(ProbeAnswer::Call { endpoints })) => endpoints.clone(),
                Ok(Some(ProbeAnswer::Problem { reason })) | Err(reason) => unseen(errand, reason),
                Ok(_) => unseen(errand, "it did not answer this question"),
            };
            seen.push((answers.place.clone(), *index, endpoints));
        }
    }
    seen
}

/// What is told of addresses that a place was to call and said nothing of.
fn unseen(errand: &Errand, reason: &str) -> Vec<Endpoint> {
    let unseen = |address: &IpAddr| Endpoint {
        address: *address,
        certificate: None,
        http_status: None,
        elapsed_ms: 0.0,
        verdict: format!("{NOT_SEEN}: {reason}"),
        is_ready: false,
    };
    errand.addresses.iter().map(unseen).collect()
}

/// How a verdict begins that says nothing of the address, but of the place.
pub const NOT_SEEN: &str = "not seen";

impl View {
    /// Whether the places looked at all.
    pub fn is_seen(&self) -> bool {
        !self.verdict.starts_with(NOT_SEEN)
    }
}

/// Puts together what places see, address by address in their order, places that see the same together.
pub fn merge(seen: Vec<Seen>) -> Vec<EndpointReport> {
    let mut reports: Vec<EndpointReport> = Vec::new();
    for Seen { place, endpoint } in seen {
        let Endpoint { address, certificate, http_status, elapsed_ms, verdict, is_ready } = endpoint;
        let view = View {
            places: vec![place],
            certificate,
            http_status,
            elapsed_ms,
            slowest_ms: elapsed_ms,
            verdict,
            is_ready,
        };
        match reports.iter_mut().find(|report| report.address == address) {
            Some(report) => add(&mut report.views, view),
            None => reports.push(EndpointReport {
                address,
                certificate: view.certificate.clone(),
                http_status: view.http_status,
                elapsed_ms,
                verdict: String::new(),
                is_ready: false,
                views: vec![view],
            }),
        }
    }
    for report in &mut reports {
        // Who did not look says nothing about the address.
        let mut looked = report.views.iter().filter(|view| view.is_seen()).peekable();
        report.is_ready = looked.peek().is_some() && looked.all(|view| view.is_ready);
        report.verdict = verdict(&report.views);
    }
    reports
}

fn add(views: &mut Vec<View>, view: View) {
    let same = |known: &&mut View| {
        known.verdict == view.verdict
            && known.http_status == view.http_status
            && fingerprint(known) == fingerprint(&view)
    };
    match views.iter_mut().find(same) {
        Some(known) => {
            known.elapsed_ms = known.elapsed_ms.min(view.elapsed_ms);
            known.slowest_ms = known.slowest_ms.max(view.slowest_ms);
            known.places.extend(view.places);
        }
        None => views.push(view),
    }
}

fn fingerprint(view: &View) -> Option<&str> {
    view.certificate.as_ref().map(|certificate| certificate.sha256.as_str())
}

/// One sentence over all places.
fn verdict(views: &[View]) -> String {
    match views {
        [] => String::new(),
        [only] => only.verdict.clone(),
        several => several
            .iter()
            .map(|view| format!("{} at {}", told(view, several), view.places.join(", ")))
            .collect::<Vec<_>>()
            .join("; "),
    }
}

/// A view in words that tell it apart from the others: where verdicts are the same, the certificates are not.
fn told(view: &View, all: &[View]) -> String {
    let alike = all.iter().filter(|other| other.verdict == view.verdict).count() > 1;
    match view.certificate.as_ref().filter(|_| alike) {
        None => view.verdict.clone(),
        Some(certificate) => {
            let ends = certificate.expires.map(|at| format!(" until {}", at.strftime("%F"))).unwrap_or_default();
            let short: String = certificate.sha256.chars().take(8).collect();
            format!("{} (certificate {short}{ends})", view.verdict)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(place: &str, address: &str, verdict: &str, certificate: Option<&str>) -> Seen {
        let certificate = certificate.map(|sha256| Certificate {
            names: vec!["example.com".into()],
            sha256: sha256.into(),
            issuer: None,
            expires: None,
            problem: None,
        });
        let endpoint = Endpoint {
            address: address.parse().expect("an address"),
            certificate,
            http_status: None,
            elapsed_ms: if place == "fra" { 10.0 } else { 90.0 },
            verdict: verdict.into(),
            is_ready: verdict.starts_with("TLS ok"),
        };
        Seen { place: place.into(), endpoint }
    }

    #[test]
    fn places_that_see_the_same_are_one_view() {
        let merged = merge(vec![
            seen("fra", "192.0.2.1", "TLS ok, HTTP 200", Some("aa")),
            seen("sin", "192.0.2.1", "TLS ok, HTTP 200", Some("aa")),
        ]);
        assert_eq!(merged.len(), 1);
        assert!(merged[0].is_ready && !merged[0].differs());
        assert_eq!(merged[0].verdict, "TLS ok, HTTP 200");
        assert_eq!(merged[0].views[0].places, ["fra", "sin"]);
        assert_eq!((merged[0].views[0].elapsed_ms, merged[0].views[0].slowest_ms), (10.0, 90.0));
    }

    #[test]
    fn a_place_that_gets_no_answer_is_named_and_the_address_is_not_ready() {
        let merged = merge(vec![
            seen("fra", "192.0.2.1", "TLS ok, HTTP 200", Some("aa")),
            seen("sin", "192.0.2.1", "does not answer in time", None),
            seen("fra", "192.0.2.2", "TLS ok, HTTP 200", Some("aa")),
        ]);
        assert_eq!(merged[0].verdict, "TLS ok, HTTP 200 at fra; does not answer in time at sin");
        assert_eq!(merged.iter().map(|report| report.is_ready).collect::<Vec<_>>(), [false, true]);
    }

    #[test]
    fn two_certificates_that_are_both_good_are_told_apart() {
        let merged = merge(vec![
            seen("fra", "192.0.2.1", "TLS ok, HTTP 200", Some("aabbccddee")),
            seen("sin", "192.0.2.1", "TLS ok, HTTP 200", Some("1122334455")),
        ]);
        assert!(merged[0].is_ready && merged[0].differs());
        assert_eq!(
            merged[0].verdict,
            "TLS ok, HTTP 200 (certificate aabbccdd) at fra; TLS ok, HTTP 200 (certificate 11223344) at sin"
        );
    }

    #[test]
    fn a_place_that_did_not_look_makes_no_address_ill_and_none_well() {
        let silent = || seen("sin", "192.0.2.1", "not seen: it did not answer within 5 seconds", None);
        let merged = merge(vec![seen("fra", "192.0.2.1", "TLS ok, HTTP 200", Some("aa")), silent()]);
        assert!(merged[0].is_ready && merged[0].differs());
        assert!(!merge(vec![silent()])[0].is_ready);
    }

    #[test]
    fn many_places_call_few_addresses() {
        let host = DomainName::parse("example.com").expect("a name");
        let addresses: Vec<IpAddr> = (0..40).map(|last| IpAddr::from([192, 0, 2, last])).collect();
        let errands = vec![Errand { host, addresses }];
        let called = |places: usize| bounded(&errands, places)[0].addresses.len();
        assert_eq!((called(1), called(10), called(100), called(1_000)), (16, 16, 5, 1));
    }
}
