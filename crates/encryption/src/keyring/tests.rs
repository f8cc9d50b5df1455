use super::*;

const SECRET: &[u8] = b"root/core/secrets/ns/name";
/// 32 bytes each.
const ONE: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
const TWO: &str = "Hx4dHBsaGRgXFhUUExIREA8ODQwLCgkIBwYFBAMCAQA=";

fn ring(resources: &str) -> Keyring {
    let text = format!("apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources: {resources}");
    Keyring::new(&EncryptionConfig::parse(&text).expect("a configuration")).expect("a keyring")
}

fn with_keys(provider: &str, keys: &[(&str, &str)]) -> Keyring {
    let keys: Vec<String> = keys.iter().map(|(name, secret)| format!("{{name: {name}, secret: {secret}}}")).collect();
    ring(&format!(
        "[{{resources: [secrets], providers: [{{{provider}: {{keys: [{}]}}}}, {{identity: {{}}}}]}}]",
        keys.join(", ")
    ))
}

#[tokio::test]
async fn values_have_upstreams_prefixes_and_open_again() {
    for provider in ["aesgcm", "aescbc", "secretbox"] {
        let ring = with_keys(provider, &[("one", ONE)]);
        let sealed = ring.seal(SECRET, "value".into()).expect("sealed");
        assert!(sealed.starts_with(format!("k8s:enc:{provider}:v1:one:").as_bytes()), "{provider}");
        let opened = ring.open(SECRET, sealed).await.expect("opened");
        assert_eq!(opened, Opened { value: "value".into(), stale: false });
    }
}

#[tokio::test]
async fn the_first_key_writes_and_all_read() {
    let old = with_keys("aesgcm", &[("one", ONE)]).seal(SECRET, "value".into()).expect("sealed");
    let both = with_keys("aesgcm", &[("two", TWO), ("one", ONE)]);
    assert_eq!(both.open(SECRET, old.clone()).await.expect("opened"), Opened { value: "value".into(), stale: true });
    let new = both.seal(SECRET, "value".into()).expect("sealed");
    assert!(new.starts_with(b"k8s:enc:aesgcm:v1:two:"));
    let failure = with_keys("aesgcm", &[("two", TWO)]).open(SECRET, old).await.expect_err("the key is gone");
    assert_eq!(failure.to_string(), "no matching key was found for the provided AES transformer");
}

#[tokio::test]
async fn plaintext_is_read_where_identity_is_among_the_providers() {
    let with = with_keys("aesgcm", &[("one", ONE)]);
    assert_eq!(with.open(SECRET, "{}".into()).await.expect("opened"), Opened { value: "{}".into(), stale: true });
    let without =
        ring(&format!("[{{resources: [secrets], providers: [{{aesgcm: {{keys: [{{name: one, secret: {ONE}}}]}}}}]}}]"));
    assert_eq!(without.open(SECRET, "{}".into()).await, Err(OpenError::NoPrefix));
}

#[tokio::test]
async fn a_wrong_key_is_named_and_nothing_else() {
    let sealed = with_keys("aesgcm", &[("one", ONE)]).seal(SECRET, "hunter2".into()).expect("sealed");
    let failure = with_keys("aesgcm", &[("one", TWO)]).open(SECRET, sealed).await.expect_err("the wrong key");
    assert_eq!(failure.to_string(), "cipher: message authentication failed (key \"one\")");
}

#[tokio::test]
async fn resources_are_chosen_exactly_then_by_group_then_all() {
    let provider = |name: &str| format!("providers: [{{secretbox: {{keys: [{{name: {name}, secret: {ONE}}}]}}}}]");
    let ring = ring(&format!(
        "[{{resources: [secrets], {}}}, {{resources: ['*.apps'], {}}}, {{resources: [events], providers: [{{identity: {{}}}}]}}, {{resources: ['*.*'], {}}}]",
        provider("exact"),
        provider("group"),
        provider("all")
    ));
    let key_of = |key: &str| {
        let sealed = ring.seal(key.as_bytes(), "v".into()).expect("sealed");
        String::from_utf8_lossy(&sealed).split(':').nth(4).unwrap_or("none").to_owned()
    };
    assert_eq!(key_of("root/core/secrets/ns/a"), "exact");
    assert_eq!(key_of("root/apps/deployments/ns/a"), "group");
    assert_eq!(key_of("root/core/configmaps/ns/a"), "all");
    assert_eq!(key_of("root/core/events/ns/a"), "none");
}

#[tokio::test]
async fn a_resource_that_is_not_encrypted_refuses_encrypted_values() {
    let ring = with_keys("aesgcm", &[("one", ONE)]);
    let key = b"root/core/configmaps/ns/a";
    let sealed = ring.seal(SECRET, "v".into()).expect("sealed");
    assert_eq!(ring.open(key, sealed).await, Err(OpenError::Encrypted));
    assert_eq!(ring.seal(key, "v".into()), Ok("v".into()));
}

#[test]
fn a_masked_rule_is_refused() {
    let text = "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources: [{resources: ['*.'], \
                providers: [{identity: {}}]}, {resources: [secrets], providers: [{identity: {}}]}]";
    let Err(error) = Keyring::new(&EncryptionConfig::parse(text).expect("read")) else { panic!("is refused") };
    assert_eq!(
        error.to_string(),
        "error while building transformers: resource \"secrets\" is masked by earlier rule \"*.\""
    );
}

/// Values that kube-apiserver v1.36 wrote to etcd with the same key for three ciphers, and the keys they are under.
const RECORDED: &str = include_str!("../../tests/it/testdata/kube-apiserver.json");

#[tokio::test]
async fn values_written_by_kube_apiserver_open() {
    let ring = ring(&format!(
        "[{{resources: [secrets], providers: [{{aesgcm: {{keys: [{{name: gcm, secret: {ONE}}}]}}}}]}}, \
          {{resources: [configmaps], providers: [{{secretbox: {{keys: [{{name: box, secret: {ONE}}}]}}}}]}}, \
          {{resources: [serviceaccounts], providers: [{{aescbc: {{keys: [{{name: cbc, secret: {ONE}}}]}}}}]}}]"
    ));
    let recorded: Vec<serde_json::Value> = serde_json::from_str(RECORDED).expect("recorded");
    for entry in recorded {
        let (key, value) = (entry["key"].as_str().expect("a key"), entry["value"].as_str().expect("a value"));
        let resource = key.split('/').nth(2).expect("a resource");
        let providers = ring.providers(format!("root/core/{resource}/").as_bytes()).expect("encrypted").clone();
        let opened =
            providers.open(key.as_bytes(), STANDARD.decode(value).expect("base64").into()).await.expect("opened");
        let found =
            opened.value.windows(19).any(|bytes| matches!(bytes, b"from kube-apiserver" | b"from-kube-apiserver"));
        assert!(found && !opened.stale, "{key}");
    }
}
