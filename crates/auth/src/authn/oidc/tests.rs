//! What a verified token is worth: audience, time, mapping and rules. Signatures and providers are tested against a real
//! one in `crates/bailiwick/tests/oidc.rs`.

use serde_json::json;

use super::*;

const NOW: i64 = 1_800_000_000;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("a time")
}

fn issuer(yaml: &str) -> (JwtAuthenticator, Compiled) {
    let text =
        format!("apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\njwt: [{{{yaml}}}]\n");
    let config = AuthenticationConfiguration::parse(&text).expect("well-formed");
    let mut compiled = validation::validate(&config, &[]).expect("valid");
    (config.jwt.first().cloned().expect("one"), compiled.remove(0))
}

fn mapped(yaml: &str, claims: Value) -> Result<UserInfo, String> {
    let (config, compiled) = issuer(&format!("issuer: {{url: 'https://a', audiences: [x]}}, {yaml}"));
    claims::user(&config, &compiled, claims.as_object().expect("an object"))
}

#[tokio::test]
async fn tokens_are_for_an_audience_and_for_a_time() {
    let (config, compiled) =
        issuer("issuer: {url: 'https://a', audiences: [x]}, claimMappings: {username: {claim: sub, prefix: ''}}");
    let provider = Provider::start(&config.issuer).expect("begun");
    let issuer = IssuerAuthenticator { config, compiled, provider };
    let check =
        |claims: Value| issuer.check(claims.as_object().expect("an object"), at(NOW)).map(|end| end.as_second());
    assert_eq!(check(json!({"aud": "x", "exp": NOW})), Ok(NOW));
    assert_eq!(check(json!({"aud": ["y", "x"], "exp": NOW + 10, "nbf": NOW + 60})), Ok(NOW + 10));
    for (claims, reason) in [
        (json!({"aud": "y", "exp": NOW + 10}), "oidc: expected audience \"x\" got [\"y\"]"),
        (json!({"exp": NOW + 10}), "oidc: expected audience \"x\" got []"),
        (json!({"aud": "x", "exp": NOW - 1}), "oidc: token is expired (Token Expiry: 2027-01-15 07:59:59 +0000 UTC)"),
        (json!({"aud": "x"}), "oidc: token is expired (Token Expiry: 1970-01-01 00:00:00 +0000 UTC)"),
        (
            json!({"aud": "x", "exp": NOW + 10, "nbf": NOW + 61}),
            "oidc: current time 2027-01-15 08:00:00 +0000 UTC before the nbf (not before) time: 2027-01-15 08:01:01 +0000 UTC",
        ),
    ] {
        assert_eq!(check(claims).expect_err(reason), format!("oidc: verify token: {reason}"));
    }
}

#[tokio::test]
async fn only_tokens_of_known_issuers_and_algorithms_are_looked_at() {
    use base64::Engine;
    let text = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\njwt: [{issuer: {url: 'https://a', audiences: [x]}, claimMappings: {username: {claim: sub, prefix: ''}}}]\n";
    let config = AuthenticationConfiguration::parse(text).expect("well-formed");
    let issuers = Issuers::start(&config, vec![Algorithm::Rs256], &[]).expect("begun");
    let token = |alg: &str, iss: &str| {
        let part = |json: Value| base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(json.to_string());
        format!("{}.{}.AAAA", part(json!({"alg": alg})), part(json!({"iss": iss, "aud": "x", "sub": "mallory"})))
    };
    let ask = async |token: &str| issuers.authenticate(token, at(NOW)).await.map(|user| user.map(|u| u.name.clone()));
    assert_eq!(ask(&token("RS256", "https://b")).await, Ok(None));
    assert_eq!(ask("no token").await, Ok(None));
    for alg in ["none", "HS256", "ES256"] {
        let error = ask(&token(alg, "https://a")).await.expect_err(alg);
        assert_eq!(
            error,
            format!(
                "oidc: verify token: oidc: id token signed with unsupported algorithm, expected [\"RS256\"] got {alg:?}"
            )
        );
    }
    let error = ask(&token("RS256", "https://a")).await.expect_err("no keys yet");
    assert_eq!(error, "oidc: authenticator not initialized");
}

#[test]
fn claims_become_users() {
    let yaml = "claimMappings: {username: {claim: sub, prefix: 'o:'}, groups: {claim: roles, prefix: 'g:'}, uid: {claim: oid}}";
    let user = mapped(yaml, json!({"sub": "a", "roles": ["r", "s"], "oid": "7", "jti": "j"})).expect("mapped");
    assert_eq!((user.name.as_str(), user.uid.as_str()), ("o:a", "7"));
    assert_eq!(user.groups, ["g:r", "g:s"]);
    assert_eq!(
        user.extra,
        [("authentication.kubernetes.io/credential-id".to_owned(), vec!["JTI=j".to_owned()])].into()
    );
    let user = mapped(yaml, json!({"sub": "a", "roles": "r", "oid": "7"})).expect("a single role");
    assert_eq!(user.groups, ["g:r"]);
    for (claims, reason) in [
        (json!({"oid": "7"}), "oidc: parse username claims \"sub\": claim not present"),
        (
            json!({"sub": 1, "oid": "7"}),
            "oidc: parse username claims \"sub\": json: cannot unmarshal number into Go value of type string",
        ),
        (json!({"sub": "a"}), "oidc: parse uid claim \"oid\": claim not present"),
        (
            json!({"sub": "a", "oid": "7", "_claim_names": {"roles": "src"}}),
            "oidc: could not expand distributed claims: distributed claims are not supported",
        ),
    ] {
        assert_eq!(mapped(yaml, claims).expect_err(reason), reason);
    }
}

#[test]
fn an_email_counts_once_verified() {
    let yaml = "claimMappings: {username: {claim: email, prefix: ''}}";
    assert_eq!(mapped(yaml, json!({"email": "a@b"})).map(|u| u.name).as_deref(), Ok("a@b"));
    assert!(mapped(yaml, json!({"email": "a@b", "email_verified": true})).is_ok());
    let error = mapped(yaml, json!({"email": "a@b", "email_verified": false})).expect_err("refused");
    assert_eq!(error, "oidc: email not verified");
}

#[test]
fn expressions_map_and_judge() {
    let yaml = "claimMappings: {username: {expression: \"'o:' + claims.sub\"}, groups: {expression: claims.roles}, \
        extra: [{key: acme.com/tenant, valueExpression: claims.tenant}, {key: acme.com/none, valueExpression: \"''\"}]}, \
        claimValidationRules: [{claim: hd, requiredValue: acme}, {expression: claims.exp - claims.iat <= 86400, message: too long}], \
        userValidationRules: [{expression: \"!user.username.startsWith('system:')\", message: reserved}]";
    let good = json!({"sub": "a", "roles": ["r", ""], "tenant": "t", "hd": "acme", "exp": 100, "iat": 1});
    let user = mapped(yaml, good.clone()).expect("mapped");
    assert_eq!((user.name.as_str(), user.groups.as_slice()), ("o:a", ["r".to_owned()].as_slice()));
    assert_eq!(user.extra, [("acme.com/tenant".to_owned(), vec!["t".to_owned()])].into());
    let with = |name: &str, value: Value| {
        let mut claims = good.clone();
        claims[name] = value;
        mapped(yaml, claims).expect_err(name)
    };
    assert_eq!(with("hd", json!("b")), "oidc: required claim hd value does not match. Got = b, want = acme");
    assert_eq!(
        with("exp", json!(1_000_000)),
        "oidc: error evaluating claim validation expression: validation expression 'claims.exp - claims.iat <= 86400' failed: too long"
    );
    assert_eq!(
        with("roles", json!([1])),
        "oidc: error evaluating group claim expression: expression must return a string or a list of strings"
    );
    let reserved = "claimMappings: {username: {expression: claims.sub}}, userValidationRules: [{expression: \"!user.username.startsWith('system:')\", message: reserved}]";
    assert_eq!(
        mapped(reserved, json!({"sub": "system:admin"})).expect_err("reserved"),
        "oidc: error evaluating user info validation rule: validation expression '!user.username.startsWith('system:')' failed: reserved"
    );
    let empty = "claimMappings: {username: {expression: claims.sub}}";
    assert_eq!(
        mapped(empty, json!({"sub": ""})).expect_err("empty"),
        "oidc: empty username via CEL expression is not allowed"
    );
}

#[test]
fn flags_name_algorithms() {
    assert_eq!(
        signing_algorithms(&["ES256".into(), "PS512".into()]).expect("known"),
        [Algorithm::Es256, Algorithm::Ps512]
    );
    let error = signing_algorithms(&["HS256".into()]).expect_err("refused").to_string();
    assert_eq!(error, "oidc: unsupported signing alg: \"HS256\"");
}
