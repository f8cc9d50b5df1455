//! Headers that count, and those that do not.

use http::HeaderMap;
use jiff::Timestamp;
use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};

use super::*;
use crate::authn::{PeerCertificates, TargetAudiences};

struct Authority {
    roots: Arc<RootCertStore>,
    issuer: Issuer<'static, KeyPair>,
}

fn named(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

fn authority() -> Authority {
    let key = KeyPair::generate().expect("a key");
    let mut params = named("proxies");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let mut roots = RootCertStore::empty();
    roots.add(params.self_signed(&key).expect("signed").der().clone()).expect("a root");
    Authority { roots: Arc::new(roots), issuer: Issuer::new(params, key) }
}

impl Authority {
    fn proxy(&self, name: &str) -> PeerCertificates {
        let mut params = named(name);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().expect("a key");
        PeerCertificates::new(vec![params.signed_by(&key, &self.issuer).expect("signed").der().clone()])
    }
}

fn headers() -> FrontProxyHeaders {
    FrontProxyHeaders {
        allowed_names: vec!["front".into()],
        username_headers: vec!["X-Remote-User".into(), "X-User".into()],
        uid_headers: vec!["X-Remote-Uid".into()],
        group_headers: vec!["X-Remote-Group".into()],
        extra_header_prefixes: vec!["X-Remote-Extra-".into()],
    }
}

fn sent(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
    pairs.iter().map(|(name, value)| (name.parse().expect("a name"), value.parse().expect("a value"))).collect()
}

fn ask(
    proxy: &FrontProxy,
    peer: Option<&PeerCertificates>,
    headers: &HeaderMap,
) -> Result<Option<Arc<UserInfo>>, String> {
    let request = AuthRequest {
        bearer_token: None,
        peer,
        headers: Some(headers),
        path: "/api",
        audiences: TargetAudiences::Server,
        now: Timestamp::now(),
    };
    proxy.authenticate(&request).map(|found| found.map(|authentication| authentication.user))
}

#[test]
fn a_trusted_proxy_names_its_users() {
    let authority = authority();
    let proxy = FrontProxy::new(headers(), authority.roots.clone(), Arc::new([])).expect("usable");
    let sent = sent(&[
        ("x-user", "second"),
        ("x-remote-user", "alice"),
        ("x-remote-uid", "7"),
        ("x-remote-group", "dev"),
        ("x-remote-group", "qa"),
        ("x-remote-extra-acme.com%2fproject", "p1"),
    ]);
    let user = ask(&proxy, Some(&authority.proxy("front")), &sent).expect("verified").expect("known");
    assert_eq!((user.name.as_str(), user.uid.as_str()), ("alice", "7"));
    assert_eq!(user.groups, ["dev", "qa"]);
    assert_eq!(user.extra.get("acme.com/project"), Some(&vec!["p1".to_owned()]));
}

#[test]
fn headers_of_anybody_else_do_not_count() {
    let (authority, stranger) = (authority(), authority());
    let proxy = FrontProxy::new(headers(), authority.roots.clone(), Arc::new([])).expect("usable");
    let sent = sent(&[("x-remote-user", "alice")]);
    assert_eq!(ask(&proxy, None, &sent), Ok(None), "no certificate");
    assert!(ask(&proxy, Some(&stranger.proxy("front")), &sent).is_err(), "another authority");
    let error = ask(&proxy, Some(&authority.proxy("back")), &sent).expect_err("another name");
    assert_eq!(error, "x509: subject with cn=back is not in the allowed list");
    assert_eq!(ask(&proxy, Some(&authority.proxy("front")), &HeaderMap::new()), Ok(None), "it names nobody");
}

#[test]
fn flags_must_name_headers() {
    let authority = authority();
    let build = |headers| FrontProxy::new(headers, authority.roots.clone(), Arc::new([])).err().map(|e| e.to_string());
    let empty = FrontProxyHeaders { group_headers: vec![" ".into()], ..headers() };
    assert_eq!(build(empty).as_deref(), Some("empty value in \"requestheader-group-headers\""));
    let none = FrontProxyHeaders { username_headers: Vec::new(), ..headers() };
    assert_eq!(
        build(none).as_deref(),
        Some("requestheader-username-headers must be set when requestheader-client-ca-file is")
    );
}
