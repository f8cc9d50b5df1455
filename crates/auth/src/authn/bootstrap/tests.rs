use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::authn::TargetAudiences;

const TOKEN: &str = "abcdef.0123456789abcdef";

struct One(Value);

impl SecretGetter for One {
    fn secret_json(&self, namespace: &str, name: &str) -> Option<Vec<u8>> {
        ((namespace, name) == ("kube-system", "bootstrap-token-abcdef")).then(|| self.0.to_string().into_bytes())
    }
}

/// The Secret of [`TOKEN`] with some of its data changed; null takes a key away.
fn secret(changes: Value) -> Value {
    let mut data = json!({
        "token-id": "abcdef", "token-secret": "0123456789abcdef", "usage-bootstrap-authentication": "true",
    });
    for (key, value) in changes.as_object().expect("changes") {
        data[key] = value.clone();
    }
    let encoded = data
        .as_object()
        .expect("data")
        .iter()
        .filter_map(|(key, value)| value.as_str().map(|text| (key.clone(), Value::from(STANDARD.encode(text)))));
    let data: serde_json::Map<String, Value> = encoded.collect();
    json!({"metadata": {"name": "bootstrap-token-abcdef"}, "type": SECRET_TYPE, "data": data})
}

fn ask_for(stored: Value, token: &str, audiences: TargetAudiences<'_>) -> Option<Authentication> {
    let tokens = BootstrapTokens::new(Arc::new(One(stored)), Arc::from(["us".to_owned()]));
    let now = "2026-01-01T00:00:00Z".parse().expect("a time");
    let request = AuthRequest { bearer_token: Some(token), peer: None, headers: None, path: "/", audiences, now };
    tokens.authenticate(&request).expect("never a bad token, only an unknown one")
}

fn ask(stored: Value, token: &str) -> Option<Authentication> {
    ask_for(stored, token, TargetAudiences::Server)
}

#[test]
fn a_token_is_its_secrets_user() {
    let user = ask(secret(json!({})), TOKEN).expect("known").user;
    assert_eq!(
        (user.name.as_str(), user.groups.as_slice()),
        ("system:bootstrap:abcdef", ["system:bootstrappers".to_owned()].as_slice())
    );
    let groups = "system:bootstrappers:z,system:bootstrappers:a:b-1,system:bootstrappers:z";
    let user = ask(secret(json!({"auth-extra-groups": groups})), TOKEN).expect("known").user;
    assert_eq!(user.groups, ["system:bootstrappers", "system:bootstrappers:a:b-1", "system:bootstrappers:z"]);
}

#[test]
fn tokens_are_good_for_our_audiences_only() {
    let named = |audience: &str| {
        let named = [audience.to_owned()];
        ask_for(secret(json!({})), TOKEN, TargetAudiences::Named(&named)).map(|known| known.audiences)
    };
    assert_eq!(named("us"), Some(vec!["us".to_owned()]));
    assert_eq!(named("them"), None);
}

#[test]
fn what_the_secret_does_not_allow_is_nobody() {
    for changes in [
        json!({"token-secret": "0123456789abcdeg"}),
        json!({"token-secret": null}),
        json!({"token-id": "abcdeg"}),
        json!({"usage-bootstrap-authentication": "yes"}),
        json!({"usage-bootstrap-authentication": null}),
        json!({"expiration": "2026-01-01T00:00:00Z"}),
        json!({"expiration": "some day"}),
        json!({"auth-extra-groups": "system:masters"}),
        json!({"auth-extra-groups": "system:bootstrappers:a,"}),
        json!({"auth-extra-groups": "system:bootstrappers:a-"}),
        json!({"auth-extra-groups": "system:bootstrappers:A"}),
        json!({"auth-extra-groups": "system:bootstrappers"}),
    ] {
        assert_eq!(ask(secret(changes.clone()), TOKEN), None, "{changes}");
    }
    assert!(ask(secret(json!({"expiration": "2026-01-01T00:00:01Z"})), TOKEN).is_some());
    let mut other_type = secret(json!({}));
    other_type["type"] = "Opaque".into();
    assert_eq!(ask(other_type, TOKEN), None);
    let mut going = secret(json!({}));
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    assert_eq!(ask(going, TOKEN), None);
}

#[test]
fn other_tokens_are_not_looked_up() {
    for token in
        ["", "abcdef", "abcdef.0123", "ABCDEF.0123456789abcdef", "abcdef.0123456789abcdef.x", "abcde/.0123456789abcdef"]
    {
        assert_eq!(parse(token), None, "{token}");
    }
}

proptest! {
    #[test]
    fn any_token_and_any_secret_are_known_or_not(token in "[a-z0-9.]{0,30}", json in "\\PC{0,80}") {
        let _ = parse(&token);
        let _ = serde_json::from_str::<Secret>(&json);
        let _ = groups(&json);
    }
}
