//! Certificates good and bad, made on the spot.

use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};

use super::*;
use crate::authn::TargetAudiences;

const NOW: i64 = 1_800_000_000;
const DAY: i64 = 86_400;

struct Authority {
    der: CertificateDer<'static>,
    issuer: Issuer<'static, KeyPair>,
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("a time")
}

fn params(valid_days: i64) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    let time = |second: i64| epoch + Duration::from_secs(second as u64);
    (params.not_before, params.not_after) = (time(NOW - DAY), time(NOW + valid_days * DAY));
    params
}

fn authority() -> Authority {
    let key = KeyPair::generate().expect("a key");
    let mut params = params(1000);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, "ca");
    let der = params.self_signed(&key).expect("signed").der().clone();
    Authority { der, issuer: Issuer::new(params, key) }
}

impl Authority {
    fn client(&self, params: &CertificateParams) -> PeerCertificates {
        let key = KeyPair::generate().expect("a key");
        PeerCertificates::new(vec![params.signed_by(&key, &self.issuer).expect("signed").der().clone()])
    }

    fn trusted(&self) -> ClientCertificates {
        let mut roots = RootCertStore::empty();
        roots.add(self.der.clone()).expect("a root");
        ClientCertificates::new(Arc::new(roots)).expect("usable")
    }
}

fn alice() -> CertificateParams {
    let mut params = params(30);
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    params.distinguished_name.push(DnType::CommonName, "alice");
    params.distinguished_name.push(DnType::OrganizationName, "dev");
    params
}

fn ask(by: &ClientCertificates, peer: &PeerCertificates, second: i64) -> Result<Option<Arc<UserInfo>>, String> {
    let audiences = TargetAudiences::Server;
    let request =
        AuthRequest { bearer_token: None, peer: Some(peer), headers: None, path: "", audiences, now: at(second) };
    by.authenticate(&request).map(|a| a.map(|a| a.user))
}

#[test]
fn the_subject_names_the_user() {
    let ca = authority();
    let mut wanted = alice();
    wanted.distinguished_name.push(DnType::CustomDnType(vec![1, 3, 6, 1, 4, 1, 57683, 2]), "uid-1");
    let user = ask(&ca.trusted(), &ca.client(&wanted), NOW).expect("good").expect("named");
    assert_eq!((user.name.as_str(), user.uid.as_str()), ("alice", "uid-1"));
    assert_eq!(user.groups, ["dev", "system:authenticated"]);
    let credential = user.extra[CREDENTIAL_ID_KEY][0].strip_prefix("X509SHA256=").expect("a fingerprint");
    assert_eq!(credential.len(), 64);
}

#[test]
fn strangers_are_refused() {
    let (ours, theirs) = (authority(), authority());
    let error = ask(&ours.trusted(), &theirs.client(&alice()), NOW).expect_err("refused");
    assert!(error.starts_with("verifying certificate SN="), "{error}");
}

#[test]
fn a_verdict_holds_for_the_connection_but_not_beyond_the_certificate() {
    let ca = authority();
    let (peer, trusted) = (ca.client(&alice()), ca.trusted());
    let first = ask(&trusted, &peer, NOW).expect("good").expect("named");
    let again = ask(&trusted, &peer, NOW + DAY).expect("good").expect("named");
    assert!(Arc::ptr_eq(&first, &again), "the second request reuses the first one's work");
    ask(&trusted, &peer, NOW + 31 * DAY).expect_err("expired meanwhile");
    // Another authenticator, with other roots, does not believe the verdict of the first.
    ask(&authority().trusted(), &peer, NOW).expect_err("unknown to them");
}

#[test]
fn a_server_certificate_is_no_client_certificate() {
    let ca = authority();
    let mut wanted = alice();
    wanted.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    ask(&ca.trusted(), &ca.client(&wanted), NOW).expect_err("refused");
}

#[test]
fn without_a_name_there_is_no_user() {
    let ca = authority();
    let mut wanted = params(30);
    wanted.distinguished_name.push(DnType::OrganizationName, "dev");
    assert_eq!(ask(&ca.trusted(), &ca.client(&wanted), NOW), Ok(None));
}

#[test]
fn garbage_is_refused() {
    let garbage = PeerCertificates::new(vec![CertificateDer::from(vec![0x30, 0x03, 1, 2, 3])]);
    ask(&authority().trusted(), &garbage, NOW).expect_err("refused");
    assert_eq!(ask(&authority().trusted(), &PeerCertificates::default(), NOW), Ok(None), "none shown");
}
