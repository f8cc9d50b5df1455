//! Tokens good, stale and hostile.

use std::sync::Mutex;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::jwt::MAX_TOKEN_BYTES;
use crate::keys::SigningKey;
use crate::service_account::{Reference, Subject, TokenIssuer};

const NOW: i64 = 1_800_000_000;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("a time")
}

fn key() -> SigningKey {
    let pem = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).expect("a key").serialize_pem();
    SigningKey::from_pem(&pem).expect("usable")
}

/// One service account and one secret, both named `x`.
#[derive(Default)]
struct World {
    account: Mutex<Option<StoredIdentity>>,
    secret: Mutex<Option<StoredIdentity>>,
}

impl ServiceAccountGetter for World {
    fn service_account(&self, namespace: &str, name: &str) -> Option<StoredIdentity> {
        self.account.lock().expect("unpoisoned").clone().filter(|_| (namespace, name) == ("ns", "x"))
    }

    fn secret(&self, namespace: &str, name: &str) -> Option<StoredIdentity> {
        self.secret.lock().expect("unpoisoned").clone().filter(|_| (namespace, name) == ("ns", "x"))
    }
}

fn stored(uid: &str) -> Option<StoredIdentity> {
    Some(StoredIdentity { uid: uid.into(), deletion: None })
}

struct Setup {
    world: Arc<World>,
    issuer: TokenIssuer,
    tokens: ServiceAccountTokens,
}

fn setup() -> Setup {
    let audiences: Arc<[String]> = Arc::new(["api".to_owned()]);
    let issuer = TokenIssuer::new(key(), "https://issuer".into(), audiences.clone(), None);
    let world = Arc::new(World { account: Mutex::new(stored("u1")), secret: Mutex::new(stored("s1")) });
    let tokens = ServiceAccountTokens::new(
        ["https://issuer".to_owned()],
        Arc::new(TokenKeys::new(vec![key().verifying_key(), issuer.verifying_key()])),
        audiences,
        world.clone(),
    );
    Setup { world, issuer, tokens }
}

impl Setup {
    fn issue(&self, audiences: &[&str], secret: Option<Reference>) -> String {
        let audiences: Vec<String> = audiences.iter().map(|a| (*a).to_owned()).collect();
        let subject = Subject { namespace: "ns", name: "x", uid: "u1" };
        self.issuer.issue(subject, &audiences, 3600, secret, at(NOW)).expect("issued").token
    }

    fn ask(&self, token: &str, second: i64) -> Result<Option<Authentication>, String> {
        self.ask_for(token, TargetAudiences::Server, second)
    }

    fn ask_for(
        &self,
        token: &str,
        audiences: TargetAudiences<'_>,
        second: i64,
    ) -> Result<Option<Authentication>, String> {
        self.tokens.authenticate(&AuthRequest {
            bearer_token: Some(token),
            peer: None,
            headers: None,
            path: "",
            audiences,
            now: at(second),
        })
    }
}

fn decode(part: &str) -> Value {
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).expect("base64")).expect("JSON")
}

fn encode(value: &Value) -> String {
    URL_SAFE_NO_PAD.encode(value.to_string())
}

fn parts(token: &str) -> [&str; 3] {
    token.split('.').collect::<Vec<_>>().try_into().expect("three parts")
}

#[test]
fn a_token_stands_for_its_account() {
    let setup = setup();
    let token = setup.issue(&["api"], None);
    let user = setup.ask(&token, NOW).expect("good").expect("ours").user;
    assert_eq!((user.name.as_str(), user.uid.as_str()), ("system:serviceaccount:ns:x", "u1"));
    assert_eq!(user.groups, ["system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated"]);
    assert!(user.extra[super::super::CREDENTIAL_ID_KEY][0].starts_with("JTI="));
    let again = setup.ask(&token, NOW + 1).expect("good").expect("ours").user;
    assert!(Arc::ptr_eq(&user, &again), "the signature is checked once");
}

#[test]
fn claims_have_upstreams_shape() {
    let setup = setup();
    let token = setup.issue(&["api"], Some(Reference { name: "x".into(), uid: "s1".into() }));
    let [header, claims, _] = parts(&token);
    assert_eq!(decode(header), json!({"alg": "ES256", "kid": setup.issuer.verifying_key().key_id()}));
    let mut claims = decode(claims);
    let jti = claims["jti"].take();
    assert_eq!(jti.as_str().map(str::len), Some(36));
    let expected = json!({
        "aud": ["api"], "exp": NOW + 3600, "iat": NOW, "iss": "https://issuer", "jti": null,
        "kubernetes.io": {
            "namespace": "ns", "serviceaccount": {"name": "x", "uid": "u1"}, "secret": {"name": "x", "uid": "s1"},
        },
        "nbf": NOW, "sub": "system:serviceaccount:ns:x",
    });
    assert_eq!(claims, expected);
}

#[test]
fn time_is_checked_on_every_request_with_a_minute_of_leeway() {
    let setup = setup();
    let token = setup.issue(&["api"], None);
    setup.ask(&token, NOW + 3600 + 60).expect("within leeway").expect("ours");
    assert_eq!(setup.ask(&token, NOW + 3600 + 61), Err("service account token has expired".into()));
    setup.ask(&token, NOW - 60).expect("within leeway").expect("ours");
    assert_eq!(setup.ask(&token, NOW - 61), Err("service account token is not valid yet".into()));
}

#[test]
fn audiences_must_meet() {
    let setup = setup();
    let token = setup.issue(&["other", "api"], None);
    let named = ["api".to_owned(), "other".to_owned()];
    let audiences = setup.ask_for(&token, TargetAudiences::Named(&named), NOW).expect("good").expect("ours").audiences;
    assert_eq!(audiences, ["other", "api"], "in the token's order");
    assert_eq!(
        setup.ask(&setup.issue(&["other", "third"], None), NOW),
        Err("token audiences [\"other\" \"third\"] is invalid for the target audiences [\"api\"]".into())
    );
}

#[test]
fn a_deleted_or_recreated_account_is_out_at_once() {
    let setup = setup();
    let token = setup.issue(&["api"], None);
    setup.ask(&token, NOW).expect("good").expect("ours");
    *setup.world.account.lock().expect("unpoisoned") = stored("u2");
    assert_eq!(setup.ask(&token, NOW), Err("service account UID (u2) does not match claim (u1)".into()));
    let dying = StoredIdentity { uid: "u1".into(), deletion: Some(at(NOW - 61)) };
    *setup.world.account.lock().expect("unpoisoned") = Some(dying);
    assert_eq!(setup.ask(&token, NOW), Err("service account ns/x has been deleted".into()));
    *setup.world.account.lock().expect("unpoisoned") = None;
    assert_eq!(setup.ask(&token, NOW), Err("serviceaccounts \"x\" not found".into()));
}

#[test]
fn a_bound_token_ends_with_its_secret() {
    let setup = setup();
    let token = setup.issue(&["api"], Some(Reference { name: "x".into(), uid: "s1".into() }));
    setup.ask(&token, NOW).expect("good").expect("ours");
    *setup.world.secret.lock().expect("unpoisoned") = None;
    assert_eq!(setup.ask(&token, NOW), Err("service account token has been invalidated".into()));
    *setup.world.secret.lock().expect("unpoisoned") = stored("s2");
    setup.ask(&token, NOW).expect_err("another secret of that name");
}

const CRYPTO: &str = "go-jose/go-jose: error in cryptographic primitive";

#[test]
fn forged_tokens_are_refused() {
    let setup = setup();
    let token = setup.issue(&["api"], None);
    let [header, claims, signature] = parts(&token);
    let kid = setup.issuer.verifying_key().key_id().to_owned();

    for alg in ["none", "None", "HS256", "RS256", "ES384", ""] {
        let forged = encode(&json!({"alg": alg, "kid": kid}));
        assert_eq!(setup.ask(&format!("{forged}.{claims}.{signature}"), NOW), Err(CRYPTO.into()), "{alg}");
        assert_eq!(setup.ask(&format!("{forged}.{claims}."), NOW), Err(CRYPTO.into()), "{alg}, no signature");
    }

    let mut raised = decode(claims);
    raised["kubernetes.io"]["serviceaccount"]["name"] = "admin".into();
    assert_eq!(setup.ask(&format!("{header}.{}.{signature}", encode(&raised)), NOW), Err(CRYPTO.into()));

    let theirs = TokenIssuer::new(key(), "https://issuer".into(), Arc::new(["api".to_owned()]), None);
    let subject = Subject { namespace: "ns", name: "x", uid: "u1" };
    let foreign = theirs.issue(subject, &["api".to_owned()], 3600, None, at(NOW)).expect("issued").token;
    assert_eq!(setup.ask(&foreign, NOW), Err("invalid signature, no keys found".into()));
    let [_, claims, signature] = parts(&foreign);
    assert_eq!(setup.ask(&format!("{header}.{claims}.{signature}"), NOW), Err(CRYPTO.into()), "their key, our kid");
    let anonymous = encode(&json!({"alg": "ES256"}));
    assert_eq!(setup.ask(&format!("{anonymous}.{claims}.{signature}"), NOW), Err(CRYPTO.into()), "no kid");
}

#[test]
fn unknown_critical_headers_are_refused() {
    let key = key();
    let token = |header: Value| {
        let signed = format!("{}.{}", encode(&header), encode(&json!({"iss": "https://issuer"})));
        let signature = URL_SAFE_NO_PAD.encode(key.sign(signed.as_bytes()).expect("signed"));
        format!("{signed}.{signature}")
    };
    let verifies = |token: String| {
        let parsed = UnverifiedToken::parse(&token).expect("well formed");
        parsed.verify::<Claims>(&key.verifying_key()).is_some()
    };
    assert!(verifies(token(json!({"alg": "ES256"}))));
    assert!(!verifies(token(json!({"alg": "ES256", "crit": ["exp"]}))));
}

#[test]
fn tokens_of_others_are_left_to_others() {
    let setup = setup();
    let other = format!("{}.{}.AA", encode(&json!({"alg": "ES256"})), encode(&json!({"iss": "https://other"})));
    let oversized = format!("{}{}", setup.issue(&["api"], None), "A".repeat(MAX_TOKEN_BYTES));
    for token in ["", "opaque", "a.b", "a.b.c.d", "..", "{}.{}.{}", &other, &oversized] {
        assert_eq!(setup.ask(token, NOW), Ok(None), "{:.40}", token);
    }
}

#[test]
fn pod_bound_tokens_are_void_where_no_pods_are() {
    let setup = setup();
    let mut claims: Claims = serde_json::from_value(decode(parts(&setup.issue(&["api"], None))[1])).expect("claims");
    claims.kubernetes.pod = Some(Reference::default());
    assert_eq!(
        setup.tokens.check_references(&claims, at(NOW)),
        Err("service account token has been invalidated".into())
    );
}

proptest! {
    #[test]
    fn no_text_gets_in_or_breaks_anything(token in "[A-Za-z0-9._{}=-]{0,200}") {
        prop_assert!(!matches!(setup().ask(&token, NOW), Ok(Some(_))));
    }

    #[test]
    fn no_header_and_claims_get_in_unsigned(alg in ".{0,8}", kid in ".{0,8}", exp in any::<f64>(), signature in "[A-Za-z0-9_-]{0,90}") {
        let claims = json!({"iss": "https://issuer", "exp": exp, "aud": kid.clone()});
        let token = format!("{}.{}.{signature}", encode(&json!({"alg": alg, "kid": kid})), encode(&claims));
        prop_assert!(!matches!(setup().ask(&token, NOW), Ok(Some(_))));
    }
}

#[test]
fn a_withdrawn_key_ends_its_tokens_at_once() {
    let setup = setup();
    let token = setup.issue(&["api"], None);
    assert!(setup.ask(&token, NOW).expect("good").is_some());
    let other = key();
    setup.tokens.keys.replace(vec![other.verifying_key()]);
    assert_eq!(setup.ask(&token, NOW).expect_err("withdrawn"), "invalid signature, no keys found");
    setup.issuer.replace_key(other);
    let token = setup.issue(&["api"], None);
    assert!(setup.ask(&token, NOW).expect("signed by the new key").is_some());
}
