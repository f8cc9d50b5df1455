//! The two documents by which others check our service-account tokens: issuer discovery and the key set.

use serde_json::{Value, json};

use crate::keys::{KeyError, VerifyingKey};

/// Where the discovery document is served.
pub const DISCOVERY_PATH: &str = "/.well-known/openid-configuration";
/// Where the key set is served.
pub const JWKS_PATH: &str = "/openid/v1/jwks";
/// The media type of the key set.
pub const JWKS_CONTENT_TYPE: &str = "application/jwk-set+json";
/// How long either document may be cached; both are sent with `Cache-Control: public, max-age=` this.
pub const MAX_AGE_SECONDS: u32 = 3600;

/// The discovery document. `jwks_uri` is the full URL of [`JWKS_PATH`].
pub fn discovery_document(issuer: &str, jwks_uri: &str, keys: &[VerifyingKey]) -> Value {
    let mut algorithms: Vec<&str> = keys.iter().map(|key| key.algorithm().name()).collect();
    algorithms.sort_unstable();
    algorithms.dedup();
    json!({
        "issuer": issuer,
        "jwks_uri": jwks_uri,
        "response_types_supported": ["id_token"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": algorithms,
    })
}

/// The key set.
pub fn key_set(keys: &[VerifyingKey]) -> Result<Value, KeyError> {
    let keys: Vec<Value> = keys.iter().map(VerifyingKey::to_jwk).collect::<Result<_, _>>()?;
    Ok(json!({ "keys": keys }))
}
