//! What other places are asked, and what they answer: the questions an agent far away takes, the evidence that it gives back,
//! and what is believed of it. Evidence comes from another machine, so its size and its subject are checked before it counts.

use std::net::IpAddr;
use std::time::Duration;

use futures::future::{BoxFuture, join_all};
use serde::{Deserialize, Serialize};

use crate::authority::{Authorities, RecordKind, Said, Survey};
use crate::endpoint::{self, Endpoint, places::ADDRESSES_MAX};
use crate::name::DomainName;
use crate::quote::quote;
use crate::report::fqdn::{self, PlaceReport};
use crate::seams::VantagePoint;
use crate::toolbox::Toolbox;
use crate::verification::site::SiteEvidence;
use crate::verification::{Challenge, Scope};
use crate::wire::{Question, RecordType, parse_name, type_text};

/// Questions in one piece of work: a verification has two, an analysis one for each type.
pub const QUESTIONS_MAX: usize = 8;
/// Bytes of evidence that one piece of work may give back. Thirteen servers with long TXT records stay below it.
pub const EVIDENCE_BYTES_MAX: usize = 128 * 1024;
/// Servers of one zone, by address, that evidence may name; the largest zones have 26.
const SERVERS_MAX: usize = 64;
/// Records of one answer.
const RECORDS_MAX: usize = 512;
/// How long a site has to show its file: whoever asks waits a second longer than this.
const FILE_PATIENCE: Duration = Duration::from_secs(4);
/// Names of a certificate that evidence has: sixteen certificates with as many stay below what is taken.
const CERTIFICATE_NAMES_MAX: usize = 16;

/// Something to find out from another place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum ProbeQuestion {
    /// What every authoritative server has of a type at a name.
    Survey { name: DomainName, record: RecordKind },
    /// What the name resolves to.
    Look { name: DomainName, record: String },
    /// What is behind addresses for whoever wants the name: certificate and service. Addresses that are not public are not
    /// called, whoever asks for it.
    Call { name: DomainName, addresses: Vec<IpAddr> },
    /// What the site of the name says of the file that proves a token: that file and no other, at public addresses alone.
    File { name: DomainName, brand: String, token: String },
}

/// What was found out.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum ProbeAnswer {
    Survey {
        survey: Survey,
    },
    Look {
        place: PlaceReport,
    },
    Call {
        endpoints: Vec<Endpoint>,
    },
    File {
        site: SiteEvidence,
    },
    /// Nothing, and why.
    Problem {
        reason: String,
    },
}

/// What one place gave back: an answer for each question, or why there is none.
#[derive(Clone, Debug)]
pub struct PlaceAnswers {
    pub place: String,
    pub answers: Result<Vec<ProbeAnswer>, String>,
}

/// Places on other machines.
pub trait RemotePlaces: Send + Sync {
    /// Asks all of them. Who does not answer in time is among the answers, with the reason; who is not there at all is told
    /// by [`RemotePlaces::absent`].
    fn ask<'a>(&'a self, questions: &'a [ProbeQuestion]) -> BoxFuture<'a, Vec<PlaceAnswers>>;

    /// Asks those of these names alone.
    fn ask_those<'a>(
        &'a self,
        places: &'a [String],
        questions: &'a [ProbeQuestion],
    ) -> BoxFuture<'a, Vec<PlaceAnswers>>;

    /// The places that can be asked.
    fn present(&self) -> Vec<String>;

    /// Places that are known and cannot be asked, with the reason.
    fn absent(&self) -> Vec<Absent>;
}

/// A place that was not asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Absent {
    pub place: String,
    pub reason: String,
}

/// This machine alone.
pub struct NoRemotePlaces;

impl RemotePlaces for NoRemotePlaces {
    fn ask<'a>(&'a self, _: &'a [ProbeQuestion]) -> BoxFuture<'a, Vec<PlaceAnswers>> {
        Box::pin(std::future::ready(Vec::new()))
    }

    fn ask_those<'a>(&'a self, _: &'a [String], _: &'a [ProbeQuestion]) -> BoxFuture<'a, Vec<PlaceAnswers>> {
        Box::pin(std::future::ready(Vec::new()))
    }

    fn present(&self) -> Vec<String> {
        Vec::new()
    }

    fn absent(&self) -> Vec<Absent> {
        Vec::new()
    }
}

/// Answers questions from a vantage point of `toolbox`: what an agent does.
pub async fn answer(toolbox: &Toolbox, from: &VantagePoint, questions: &[ProbeQuestion]) -> Vec<ProbeAnswer> {
    let asked = questions.iter().take(QUESTIONS_MAX).map(|question| answer_one(toolbox, from, question));
    let mut answers = join_all(asked).await;
    // A zone may be made so that its evidence is larger than what is taken: then the largest is told in words.
    while serde_json::to_vec(&answers).map_or(0, |bytes| bytes.len()) > EVIDENCE_BYTES_MAX {
        let size = |answer: &ProbeAnswer| serde_json::to_vec(answer).map_or(0, |bytes| bytes.len());
        let Some(largest) = answers.iter_mut().max_by_key(|answer| size(answer)) else { break };
        *largest = ProbeAnswer::Problem { reason: "the servers answer with more than can be given back".to_owned() };
    }
    answers
}

async fn answer_one(toolbox: &Toolbox, from: &VantagePoint, question: &ProbeQuestion) -> ProbeAnswer {
    let surveyor = toolbox.surveyor();
    match question {
        ProbeQuestion::Survey { name, record } => match surveyor.survey(from, name, *record).await {
            Ok(survey) => ProbeAnswer::Survey { survey },
            Err(reason) => ProbeAnswer::Problem { reason },
        },
        ProbeQuestion::Look { name, record } => {
            let Some(engine) = surveyor.engine(&from.name) else {
                return ProbeAnswer::Problem { reason: format!("there is no vantage point {}", from.name) };
            };
            match question_of(name, record) {
                Ok(question) => ProbeAnswer::Look { place: fqdn::look_from(engine, &question).await },
                Err(reason) => ProbeAnswer::Problem { reason },
            }
        }
        ProbeQuestion::Call { name, addresses } => {
            let Some(engine) = surveyor.engine(&from.name) else {
                return ProbeAnswer::Problem { reason: format!("there is no vantage point {}", from.name) };
            };
            let calls = addresses.iter().take(ADDRESSES_MAX);
            let calls = calls.map(|address| endpoint::look(engine, name.as_str(), *address));
            let mut endpoints = join_all(calls).await;
            for certificate in endpoints.iter_mut().filter_map(|endpoint| endpoint.certificate.as_mut()) {
                certificate.names.truncate(CERTIFICATE_NAMES_MAX);
            }
            ProbeAnswer::Call { endpoints }
        }
        ProbeQuestion::File { name, brand, token } => {
            // Made anew, so that nothing but the path of a proof on a domain's own site can be asked for.
            let now = toolbox.clock().now();
            let challenge = match Challenge::new(name, Scope::Domain, brand, now, &mut |_| ()) {
                Ok(challenge) => challenge.with_token(token),
                Err(error) => return ProbeAnswer::Problem { reason: error.to_string() },
            };
            match tokio::time::timeout(FILE_PATIENCE, toolbox.look_for_file(&challenge)).await {
                Ok(site) => ProbeAnswer::File { site },
                Err(_) => ProbeAnswer::Problem {
                    reason: format!("the site of {name} did not answer within {} seconds", FILE_PATIENCE.as_secs()),
                },
            }
        }
    }
}

/// A name and a type as the engine takes them.
pub(crate) fn question_of(name: &DomainName, record: &str) -> Result<Question, String> {
    let owner = parse_name(name.as_str()).map_err(|error| error.to_string())?;
    Ok(Question::new(owner, parse_type(record)?))
}

/// A type as it is written: a mnemonic, or `TYPE` and a number.
pub fn parse_type(text: &str) -> Result<RecordType, String> {
    let upper = text.to_ascii_uppercase();
    match upper.strip_prefix("TYPE").map(str::parse::<u16>) {
        Some(Ok(number)) => Ok(RecordType::from(number)),
        _ => upper.parse().map_err(|_| format!("{text:?} is not a record type; A, AAAA, CNAME, MX, NS and TXT are, and so is TYPE with a number up to 65535")),
    }
}

/// What is believed of what `place` gave back: the answers in the order of the questions, under the name that the place has
/// with us, whatever it calls itself.
pub fn believe(place: &str, questions: &[ProbeQuestion], bytes: &[u8]) -> Result<Vec<ProbeAnswer>, String> {
    if bytes.len() > EVIDENCE_BYTES_MAX {
        return Err(format!("its evidence is not taken: it has more than {EVIDENCE_BYTES_MAX} bytes"));
    }
    let mut answers: Vec<ProbeAnswer> =
        serde_json::from_slice(bytes).map_err(|error| format!("its evidence cannot be read: {error}"))?;
    if answers.len() != questions.len() {
        return Err(format!("its evidence is not taken: {} answers to {} questions", answers.len(), questions.len()));
    }
    for (question, answer) in questions.iter().zip(&mut answers) {
        if !fits(question, answer) {
            return Err("its evidence is not taken: it is about something else".to_owned());
        }
        match answer {
            ProbeAnswer::Survey { survey } => place.clone_into(&mut survey.vantage_point),
            ProbeAnswer::Look { place: seen } => place.clone_into(&mut seen.place),
            ProbeAnswer::Call { endpoints } => endpoints.iter_mut().for_each(shorten),
            ProbeAnswer::File { site } => site.shorten(),
            ProbeAnswer::Problem { .. } => {}
        }
    }
    Ok(answers)
}

/// Texts of another machine are repeated up to a limit.
fn shorten(endpoint: &mut Endpoint) {
    endpoint.verdict = quote(&endpoint.verdict);
    if let Some(certificate) = &mut endpoint.certificate {
        certificate.names.truncate(CERTIFICATE_NAMES_MAX);
        let texts = certificate.names.iter_mut().chain(&mut certificate.issuer).chain(&mut certificate.problem);
        texts.chain([&mut certificate.sha256]).for_each(|text| *text = quote(text));
    }
}

/// Whether an answer is about its question, and has no more than a zone can have.
fn fits(question: &ProbeQuestion, answer: &ProbeAnswer) -> bool {
    match (question, answer) {
        (_, ProbeAnswer::Problem { .. }) => true,
        (ProbeQuestion::Survey { name, record }, ProbeAnswer::Survey { survey }) => {
            let few = survey.answers.iter().all(|answer| match &answer.said {
                Said::Records(records) => records.len() <= RECORDS_MAX,
                _ => true,
            });
            survey.name == *name
                && survey.kind == *record
                && name.is_within(&survey.zone)
                && survey.answers.len() <= SERVERS_MAX
                && few
        }
        (ProbeQuestion::Look { record, .. }, ProbeAnswer::Look { place }) => {
            let wanted = parse_type(record).map(type_text).unwrap_or_default();
            place.records.len() <= RECORDS_MAX && place.records.iter().all(|record| record.rtype == wanted)
        }
        (ProbeQuestion::Call { addresses, .. }, ProbeAnswer::Call { endpoints }) => {
            let called = addresses.iter().take(ADDRESSES_MAX);
            endpoints.iter().map(|endpoint| &endpoint.address).eq(called)
        }
        (ProbeQuestion::File { name, .. }, ProbeAnswer::File { site }) => site.is_about(name),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::authority::Security;
    use crate::seams::{Clock, Net, Roots, SystemClock};

    fn name(text: &str) -> DomainName {
        DomainName::parse(text).expect("a name")
    }

    fn question() -> ProbeQuestion {
        ProbeQuestion::Survey { name: name("_x.example.com"), record: RecordKind::Txt }
    }

    fn survey(asked: &str) -> ProbeAnswer {
        let survey = Survey {
            vantage_point: "somewhere".into(),
            name: name(asked),
            kind: RecordKind::Txt,
            zone: name("example.com"),
            nameservers: Vec::new(),
            delegation_ttl: None,
            delegation_signers: None,
            soa: None,
            security: Security::Insecure,
            answers: Vec::new(),
            wrong_glue: Vec::new(),
        };
        ProbeAnswer::Survey { survey }
    }

    fn bytes(answers: &[ProbeAnswer]) -> Vec<u8> {
        serde_json::to_vec(answers).expect("JSON")
    }

    #[test]
    fn a_place_has_the_name_that_it_has_with_us() {
        let answers = believe("pop-fra1", &[question()], &bytes(&[survey("_x.example.com")])).expect("evidence");
        assert!(matches!(&answers[..], [ProbeAnswer::Survey { survey }] if survey.vantage_point == "pop-fra1"));
    }

    #[test]
    fn evidence_about_something_else_is_not_taken() {
        let other = believe("fra", &[question()], &bytes(&[survey("_y.example.com")]));
        assert_eq!(other.err().as_deref(), Some("its evidence is not taken: it is about something else"));
        let zone = ProbeQuestion::Survey { name: name("example.org"), record: RecordKind::Txt };
        assert!(believe("fra", &[zone], &bytes(&[survey("example.org")])).is_err(), "the zone is another one");
        assert!(believe("fra", &[question()], &bytes(&[])).is_err(), "an answer is missing");
        let look = ProbeQuestion::Look { name: name("_x.example.com"), record: "A".into() };
        assert!(believe("fra", &[look], &bytes(&[survey("_x.example.com")])).is_err(), "another kind");
    }

    #[test]
    fn calls_are_believed_of_the_addresses_that_were_asked_for_alone() {
        let call = |address: &str| {
            json!([{"kind": "call", "endpoints": [
                {"address": address, "elapsedMs": 1.0, "verdict": "x".repeat(4_000), "isReady": true},
            ]}])
            .to_string()
        };
        let addresses = vec!["192.0.2.1".parse().expect("an address")];
        let asked = [ProbeQuestion::Call { name: name("example.com"), addresses }];
        let answers = believe("fra", &asked, call("192.0.2.1").as_bytes()).expect("evidence");
        assert!(matches!(&answers[..], [ProbeAnswer::Call { endpoints }] if endpoints[0].verdict.len() <= 1_024));
        assert!(believe("fra", &asked, call("192.0.2.2").as_bytes()).is_err());
        assert!(believe("fra", &asked, br#"[{"kind": "call", "endpoints": []}]"#).is_err());
    }

    #[test]
    fn a_file_is_believed_of_the_domain_that_was_asked_for_alone() {
        let asked = [ProbeQuestion::File { name: name("example.com"), brand: "bailiwick".into(), token: "t".into() }];
        let said = |url: &str, status: u16| {
            let told = json!([{"kind": "file", "site": {"url": url, "status": status, "file": "present"}}]).to_string();
            believe("fra", &asked, told.as_bytes())
        };
        assert!(said("https://www.example.com/f", 200).is_ok());
        assert!(said("https://example.com.evil.example/f", 200).is_err(), "another site");
        assert!(said("https://example.com/f", 404).is_err(), "a file that is there comes with status 200");
        let long = format!("http://example.com/{}", "x".repeat(4_000));
        let answers = said(&long, 200).expect("evidence");
        assert!(matches!(&answers[..], [ProbeAnswer::File { site }] if site.url.len() <= 1_024));
    }

    /// An agent is told what to call by a service elsewhere: what is in its own network is not called all the same.
    #[tokio::test]
    async fn an_agent_calls_nobody_in_its_own_network() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let from = VantagePoint { name: "fra".into(), ..VantagePoint::here() };
        let roots = Arc::new(Roots { vantage_points: vec![from.clone()], ..Roots::internet() });
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let addresses: Vec<IpAddr> =
            ["127.0.0.1", "10.0.0.1", "169.254.169.254", "::1", "::ffff:192.168.0.1", "fd00::1"]
                .map(|text| text.parse().expect("an address"))
                .to_vec();
        // Were the guard to fail, the way to the first one would be open.
        let routes = [(SocketAddr::new(addresses[0], 443), listener.local_addr().expect("its address"))];
        let net = Net::from(from.clone()).with_routes(routes.into());
        let toolbox = Toolbox::new(&net, clock, &roots).expect("tools");
        let question = ProbeQuestion::Call { name: name("example.com"), addresses: addresses.clone() };
        let answers = answer(&toolbox, &from, &[question]).await;
        let [ProbeAnswer::Call { endpoints }] = &answers[..] else { panic!("{answers:?}") };
        assert_eq!(endpoints.len(), addresses.len());
        for endpoint in endpoints {
            assert_eq!(endpoint.verdict, "not called: not a public address", "{}", endpoint.address);
        }
        assert!(futures::FutureExt::now_or_never(listener.accept()).is_none(), "nobody came");
    }

    #[test]
    fn evidence_without_end_is_not_read() {
        let long = vec![b' '; EVIDENCE_BYTES_MAX + 1];
        assert!(believe("fra", &[question()], &long).is_err_and(|told| told.contains("more than 131072 bytes")));
    }

    #[test]
    fn what_went_wrong_there_is_told() {
        let problem = json!([{"kind": "problem", "reason": "no way to the internet"}]).to_string();
        let answers = believe("fra", &[question()], problem.as_bytes()).expect("evidence");
        assert!(matches!(&answers[..], [ProbeAnswer::Problem { reason }] if reason == "no way to the internet"));
    }

    proptest::proptest! {
        #[test]
        fn bytes_from_outside_never_panic(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..256)) {
            let _ = believe("fra", &[question()], &bytes);
        }
    }
}
