use std::collections::HashMap;

use futures::future::BoxFuture;
use jiff::SignedDuration;

use super::*;
use crate::https::RetryAfter;
use crate::seams::FixedClock;

/// Registries that answer what they are told to, and remember what they were asked.
#[derive(Default)]
struct Simulated {
    documents: HashMap<String, Reply>,
    whois: HashMap<(String, String), Vec<u8>>,
    asked: Mutex<Vec<String>>,
}

impl Exchange for Simulated {
    fn document<'a>(&'a self, url: &'a str) -> BoxFuture<'a, Result<Reply, String>> {
        self.asked.lock().expect("no panic").push(url.to_owned());
        let reply = self.documents.get(url).cloned().ok_or_else(|| "connection refused".to_owned());
        Box::pin(async move { reply })
    }

    fn whois<'a>(&'a self, host: &'a str, question: &'a str) -> BoxFuture<'a, Result<Vec<u8>, String>> {
        self.asked.lock().expect("no panic").push(format!("whois {host} {question}"));
        let reply = self.whois.get(&(host.to_owned(), question.to_owned())).cloned();
        Box::pin(async move { reply.ok_or_else(|| "connection refused".to_owned()) })
    }
}

const BOOTSTRAP: &str = "https://data.iana.org/rdap/dns.json";

impl Simulated {
    fn new() -> Self {
        Self::default().document(
            BOOTSTRAP,
            200,
            br#"{"services": [[["io"], ["https://rdap.nic.io/"]], [["com"], ["https://rdap.verisign.com/com/v1/"]]]}"#,
        )
    }

    fn document(mut self, url: &str, status: u16, body: &[u8]) -> Self {
        self.documents.insert(url.into(), Reply { status, body: body.to_vec(), ..Reply::default() });
        self
    }

    fn redirect(mut self, from: &str, to: &str) -> Self {
        self.documents.insert(from.into(), Reply { status: 302, location: Some(to.into()), ..Reply::default() });
        self
    }

    fn whois(mut self, host: &str, question: &str, body: &[u8]) -> Self {
        self.whois.insert((host.into(), question.into()), body.to_vec());
        self
    }

    async fn lookup(self, domain: &str) -> (Result<Registration, RegistrationError>, Vec<String>) {
        let simulated = Arc::new(self);
        let registrations = registrations(simulated.clone());
        let found = registrations.lookup(&DomainName::parse(domain).expect("a name")).await;
        let asked = simulated.asked.lock().expect("no panic").clone();
        (found, asked)
    }
}

fn now() -> Timestamp {
    "2026-11-16T10:00:00Z".parse().expect("a time")
}

fn registrations(exchange: Arc<Simulated>) -> Registrations {
    Registrations::new(exchange, Arc::new(FixedClock(now())), &Roots::internet())
}

fn fixture(file: &str) -> Vec<u8> {
    std::fs::read(format!("{}/testdata/registration/{file}", env!("CARGO_MANIFEST_DIR"))).expect("a fixture")
}

#[tokio::test(start_paused = true)]
async fn the_registry_is_found_by_the_list_and_asked_for_the_name() {
    let simulated = Simulated::new().document("https://rdap.nic.io/domain/q7.io", 200, &fixture("q7.io.rdap.json"));
    let (found, asked) = simulated.lookup("q7.io").await;
    let found = found.expect("found");
    assert_eq!(asked, [BOOTSTRAP, "https://rdap.nic.io/domain/q7.io"]);
    assert_eq!((found.source, found.signing), (Source::Rdap, super::super::Signing::Unsigned));
    assert_eq!(found.days_left(now()), Some(963));
}

#[tokio::test(start_paused = true)]
async fn the_registrars_answer_is_merged_and_disagreements_are_explained() {
    let (found, _) = Simulated::new()
        .document("https://rdap.verisign.com/com/v1/domain/thin.com", 200, &fixture("thin.com.rdap.json"))
        .document("https://rdap.registrar.net/domain/THIN.COM", 200, &fixture("thin.com.registrar.rdap.json"))
        .lookup("thin.com")
        .await;
    let found = found.expect("found");
    assert_eq!(found.consulted.iter().map(|one| one.role).collect::<Vec<_>>(), [Role::Registry, Role::Registrar]);
    assert_eq!(found.expires.as_ref().map(ToString::to_string).as_deref(), Some("2027-11-10T05:06:07Z"));
    assert_eq!(found.registrar_expires.as_ref().map(ToString::to_string).as_deref(), Some("2026-11-10T05:06:07Z"));
    assert_eq!(found.modified.as_ref().map(ToString::to_string).as_deref(), Some("2026-11-10T06:00:00Z"));
    let fields: Vec<&str> = found.disagreements.iter().map(|one| one.field.as_str()).collect();
    // The same registrar in other letters is no disagreement.
    assert_eq!(fields, ["expiration", "nameservers"]);
    assert!(found.disagreements[0].meaning.contains("the registrar's date is the one to pay before"));
    assert_eq!(found.auto_renewal, super::super::AutoRenewal::JustRenewed);
}

#[tokio::test(start_paused = true)]
async fn a_registrar_that_does_not_answer_is_no_failure() {
    let (found, _) = Simulated::new()
        .document("https://rdap.verisign.com/com/v1/domain/thin.com", 200, &fixture("thin.com.rdap.json"))
        .lookup("thin.com")
        .await;
    assert_eq!(found.expect("found").consulted.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn redirects_are_followed_three_times_and_never_away_from_https() {
    let (found, _) = Simulated::new()
        .redirect("https://rdap.nic.io/domain/q7.io", "https://a.example/1")
        .redirect("https://a.example/1", "/2")
        .redirect("https://a.example/2", "https://b.example/3")
        .document("https://b.example/3", 200, &fixture("q7.io.rdap.json"))
        .lookup("q7.io")
        .await;
    assert_eq!(found.expect("found").consulted[0].server, "https://b.example/3");
    let (found, asked) = Simulated::new()
        .redirect("https://rdap.nic.io/domain/q7.io", "http://169.254.169.254/latest")
        .lookup("q7.io")
        .await;
    let RegistrationError::Unavailable(reasons) = found.expect_err("refused") else { panic!("unavailable") };
    assert_eq!(reasons[0], "RDAP rdap.nic.io: a redirect away from https, to 169.254.169.254");
    assert!(!asked.iter().any(|url| url.contains("169.254")));
    let (found, _) = Simulated::new()
        .redirect("https://rdap.nic.io/domain/q7.io", "https://rdap.nic.io/domain/q7.io")
        .lookup("q7.io")
        .await;
    assert!(found.expect_err("a loop").to_string().contains("more than 3 redirects"));
}

#[tokio::test(start_paused = true)]
async fn a_free_name_is_free_and_whois_is_not_asked() {
    let (found, asked) =
        Simulated::new().document("https://rdap.nic.io/domain/free.io", 404, b"{}").lookup("free.io").await;
    assert_eq!(found.expect_err("free").to_string(), "free.io is not registered, says rdap.nic.io");
    assert!(!asked.iter().any(|what| what.starts_with("whois")));
}

#[tokio::test(start_paused = true)]
async fn a_busy_registry_says_when_and_is_not_asked_before() {
    let mut simulated = Simulated::new();
    let busy =
        Reply { status: 429, retry_after: Some(RetryAfter::In(SignedDuration::from_secs(70))), ..Reply::default() };
    simulated.documents.insert("https://rdap.nic.io/domain/q7.io".into(), busy);
    let simulated = Arc::new(simulated);
    let registrations = registrations(simulated.clone());
    let domain = DomainName::parse("q7.io").expect("a name");
    for _ in 0..3 {
        assert_eq!(
            registrations.lookup(&domain).await.expect_err("later").to_string(),
            "rdap.nic.io wants to be asked again after 2026-11-16T10:01:10Z"
        );
    }
    let asked = simulated.asked.lock().expect("no panic").clone();
    assert_eq!(asked.iter().filter(|url| url.contains("rdap.nic.io")).count(), 1);
    assert!(!asked.iter().any(|what| what.starts_with("whois")));
}

#[tokio::test(start_paused = true)]
async fn whois_is_asked_where_rdap_cannot_be_used() {
    let (found, asked) = Simulated::new()
        .document("https://rdap.nic.io/domain/q7.io", 200, b"<html>maintenance</html>")
        .whois("whois.iana.org", "io", &fixture("iana-io.whois.txt"))
        .whois("whois.nic.io", "q7.io", &fixture("q7.io.whois.txt"))
        .lookup("q7.io")
        .await;
    let found = found.expect("found");
    assert_eq!(found.source, Source::Whois);
    assert_eq!(found.registrar.and_then(|registrar| registrar.iana_id), Some(1068));
    assert!(asked.contains(&"whois whois.namecheap.com q7.io".to_owned()), "{asked:?}");
}

#[tokio::test(start_paused = true)]
async fn a_country_code_without_rdap_is_asked_in_its_own_way() {
    let (found, _) = Simulated::new()
        .whois("whois.iana.org", "uk", b"refer: whois.nic.uk\n")
        .whois("whois.nic.uk", "example.co.uk", &fixture("example.co.uk.whois.txt"))
        .lookup("example.co.uk")
        .await;
    assert_eq!(found.expect("found").days_left(now()), Some(9));
    let (found, _) = Simulated::new()
        .whois("whois.iana.org", "jp", b"refer: whois.jprs.jp\n")
        .whois("whois.jprs.jp", "rei.jp/e", &fixture("rei.jp.whois.txt"))
        .lookup("rei.jp")
        .await;
    assert!(found.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_whois_quota_is_a_reason_to_wait() {
    let (found, _) = Simulated::new()
        .whois("whois.iana.org", "uk", b"refer: whois.nic.uk\n")
        .whois("whois.nic.uk", "example.co.uk", b"% Quota exceeded\r\n")
        .lookup("example.co.uk")
        .await;
    assert_eq!(
        found,
        Err(RegistrationError::Later {
            server: "whois.nic.uk".into(),
            until: "2026-11-16T10:01:00Z".parse().expect("a time")
        })
    );
}

#[tokio::test(start_paused = true)]
async fn when_nobody_answers_every_attempt_is_told() {
    let (found, _) = Simulated::default().lookup("q7.io").await;
    assert_eq!(
        found.expect_err("nobody").to_string(),
        "no server could tell: RDAP bootstrap: connection refused; WHOIS whois.iana.org: connection refused"
    );
}
