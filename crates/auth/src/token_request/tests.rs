//! Answers to TokenRequests; texts and shapes are those of kube-apiserver 1.36.4.

use std::sync::Arc;

use super::*;
use crate::keys::SigningKey;
use crate::service_account::StoredIdentity;

const NOW: i64 = 1_800_000_000;

struct World;

impl ServiceAccountGetter for World {
    fn service_account(&self, _: &str, name: &str) -> Option<StoredIdentity> {
        (name == "x").then(|| StoredIdentity { uid: "u1".into(), deletion: None })
    }

    fn secret(&self, _: &str, name: &str) -> Option<StoredIdentity> {
        (name == "s").then(|| StoredIdentity { uid: "s1".into(), deletion: None })
    }
}

fn ask(name: &str, request: Value) -> ApiResult<TokenResponse> {
    let pem = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).expect("a key").serialize_pem();
    let key = SigningKey::from_pem(&pem).expect("usable");
    let issuer = TokenIssuer::new(key, "https://issuer".into(), Arc::new(["api".to_owned()]), Some(86_400));
    create(&issuer, &World, "ns", name, &request, Timestamp::from_second(NOW).expect("a time"))
}

fn refusal(request: Value) -> (u16, String) {
    let error = ask("x", request).err().expect("refused");
    (error.code, error.message)
}

#[test]
fn an_empty_request_gets_an_hour_for_our_audience() {
    let TokenResponse { mut object, warnings, .. } = ask("x", json!({})).expect("issued");
    let token = object["status"]["token"].take();
    assert_eq!(token.as_str().map(|t| t.split('.').count()), Some(3));
    let expected = json!({
        "kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1",
        "metadata": {"name": "x", "namespace": "ns", "uid": "u1", "creationTimestamp": "2027-01-15T08:00:00Z"},
        "spec": {"audiences": ["api"], "expirationSeconds": 3600, "boundObjectRef": null},
        "status": {"token": null, "expirationTimestamp": "2027-01-15T09:00:00Z"},
    });
    assert_eq!(object, expected);
    assert!(warnings.is_empty());
}

#[test]
fn lifetimes_have_bounds() {
    assert_eq!(
        refusal(json!({"spec": {"expirationSeconds": 599}})),
        (422, "TokenRequest.authentication.k8s.io \"\" is invalid: spec.expirationSeconds: Invalid value: 599: may not specify a duration less than 10 minutes".into())
    );
    assert_eq!(
        refusal(json!({"spec": {"expirationSeconds": (1i64 << 32) + 1}})).1,
        "TokenRequest.authentication.k8s.io \"\" is invalid: spec.expirationSeconds: Invalid value: 4294967297: may not specify a duration larger than 2^32 seconds"
    );
    let long = ask("x", json!({"spec": {"expirationSeconds": 90_000}})).expect("issued");
    assert_eq!(long.warnings, ["requested expiration of 90000 seconds shortened to 86400 seconds"]);
    assert_eq!(long.object["spec"]["expirationSeconds"], 86_400);
}

#[test]
fn the_body_must_agree_with_the_url_and_the_account() {
    assert_eq!(
        refusal(json!({"metadata": {"name": "q"}})),
        (422, "TokenRequest.authentication.k8s.io \"x\" is invalid: metadata.name: Invalid value: \"q\": must match the service account name if specified".into())
    );
    assert_eq!(
        refusal(json!({"metadata": {"uid": "q"}})),
        (409, "Operation cannot be fulfilled on TokenRequest.authentication.k8s.io \"x\": the UID in the token request (q) does not match the UID of the service account (u1)".into())
    );
    let missing = ask("y", json!({})).err().expect("refused");
    assert_eq!((missing.code, missing.message.as_str()), (404, "serviceaccounts \"y\" not found"));
}

#[test]
fn tokens_are_bound_to_secrets_only() {
    let bound = |kind: &str, name: &str, uid: &str| json!({"spec": {"boundObjectRef": {"kind": kind, "apiVersion": "v1", "name": name, "uid": uid}}});
    assert_eq!(
        refusal(bound("ConfigMap", "s", "")),
        (400, "cannot bind token to object of type /v1, Kind=ConfigMap".into())
    );
    assert_eq!(refusal(bound("Secret", "t", "")), (404, "secrets \"t\" not found".into()));
    assert_eq!(refusal(bound("Pod", "p", "")), (404, "pods \"p\" not found".into()));
    assert_eq!(refusal(bound("Secret", "s", "s2")).0, 409);
    let issued = ask("x", bound("Secret", "s", "s1")).expect("issued");
    assert_eq!(issued.object["spec"]["boundObjectRef"]["name"], "s");
}
