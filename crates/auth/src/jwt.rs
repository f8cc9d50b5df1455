//! JSON web tokens in compact form: reading what a token claims, and making signed ones.
//!
//! Reading and trusting are apart: [`UnverifiedToken`] gives nothing but the means to choose a key until
//! [`UnverifiedToken::verify`] hands out the claims.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::keys::{Algorithm, KeyError, SigningKey, VerifyingKey};

/// A token longer than this is not looked at. Ours are under 2 KiB; an OIDC token with hundreds of groups has ten times that.
pub const MAX_TOKEN_BYTES: usize = 64 * 1024;

#[derive(Deserialize)]
struct Header {
    alg: String,
    #[serde(default)]
    kid: String,
    /// Extensions that must be understood; we understand none.
    #[serde(default)]
    crit: Option<serde_json::Value>,
}

#[derive(Deserialize)]
struct IssuerClaim {
    #[serde(default)]
    iss: String,
}

/// A token of which only the form is known to be right.
pub struct UnverifiedToken<'a> {
    signed: &'a str,
    header: Header,
    payload: Vec<u8>,
    signature: Vec<u8>,
    issuer: String,
}

impl<'a> UnverifiedToken<'a> {
    /// `None` for anything that is not a signed token in compact form.
    pub fn parse(token: &'a str) -> Option<Self> {
        if token.len() > MAX_TOKEN_BYTES {
            return None;
        }
        let (signed, signature) = token.rsplit_once('.')?;
        let (header, payload) = signed.split_once('.')?;
        if payload.contains('.') {
            return None;
        }
        let header: Header = serde_json::from_slice(&object(header)?).ok()?;
        let payload = object(payload)?;
        let IssuerClaim { iss } = serde_json::from_slice(&payload).ok()?;
        let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
        Some(Self { signed, header, payload, signature, issuer: iss })
    }

    /// Who the token says made it. A hint for choosing whom to ask, no more.
    pub fn claimed_issuer(&self) -> &str {
        &self.issuer
    }

    /// The key the token says it was signed with; empty when it says nothing.
    pub fn claimed_key_id(&self) -> &str {
        &self.header.kid
    }

    /// The algorithm the header names, if it is one we take.
    pub fn claimed_algorithm(&self) -> Option<Algorithm> {
        Algorithm::from_name(&self.header.alg)
    }

    /// The algorithm the header names, for messages.
    pub fn claimed_algorithm_name(&self) -> &str {
        &self.header.alg
    }

    /// The claims, if `key` made the signature with any algorithm such keys have. The caller has decided which
    /// algorithms it takes.
    pub fn verify_any<C: DeserializeOwned>(&self, key: &VerifyingKey) -> Option<C> {
        let algorithm = self.claimed_algorithm()?;
        if self.header.crit.is_some() || !key.verifies_as(algorithm, self.signed.as_bytes(), &self.signature) {
            return None;
        }
        serde_json::from_slice(&self.payload).ok()
    }

    /// The claims, if `key` made the signature with the key's own algorithm.
    pub fn verify<C: DeserializeOwned>(&self, key: &VerifyingKey) -> Option<C> {
        let algorithm_agrees = self.header.alg == key.algorithm().name();
        if !algorithm_agrees || self.header.crit.is_some() || !key.verifies(self.signed.as_bytes(), &self.signature) {
            return None;
        }
        serde_json::from_slice(&self.payload).ok()
    }
}

/// The bytes of a part that holds a JSON object; serde would take a list for a struct too.
fn object(part: &str) -> Option<Vec<u8>> {
    let bytes = URL_SAFE_NO_PAD.decode(part).ok()?;
    (bytes.trim_ascii_start().first() == Some(&b'{')).then_some(bytes)
}

/// Signs claims into a compact token whose header names algorithm and key.
pub fn sign<C: Serialize>(key: &SigningKey, claims: &C) -> Result<String, KeyError> {
    #[derive(Serialize)]
    struct Header<'a> {
        alg: &'a str,
        kid: &'a str,
    }
    let encode = |bytes: Vec<u8>| URL_SAFE_NO_PAD.encode(bytes);
    let malformed = |error: serde_json::Error| KeyError::Malformed(error.to_string());
    let header = serde_json::to_vec(&Header { alg: key.algorithm().name(), kid: key.key_id() }).map_err(malformed)?;
    let payload = serde_json::to_vec(claims).map_err(malformed)?;
    let signed = format!("{}.{}", encode(header), encode(payload));
    let signature = encode(key.sign(signed.as_bytes())?);
    Ok(format!("{signed}.{signature}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn encoded(json: &str) -> String {
        URL_SAFE_NO_PAD.encode(json)
    }

    #[test]
    fn only_signed_compact_tokens_are_read() {
        let (header, claims) = (encoded(r#"{"alg":"RS256","kid":"k"}"#), encoded(r#"{"iss":"i"}"#));
        let whole = format!("{header}.{claims}.AAAA");
        let token = UnverifiedToken::parse(&whole).expect("well-formed");
        assert_eq!((token.claimed_issuer(), token.claimed_key_id()), ("i", "k"));
        for bad in [
            format!("{header}.{claims}"),
            format!("{header}.{claims}.AAAA.AAAA"),
            format!("{header}.{claims}.A"),
            format!("{claims}.{claims}.AAAA"),
            format!("{header}.{}.AAAA", encoded("[]")),
            format!("{header}.{}.{}", claims, "A".repeat(MAX_TOKEN_BYTES)),
            String::new(),
        ] {
            assert!(UnverifiedToken::parse(&bad).is_none(), "{}", bad.get(..80).unwrap_or(&bad));
        }
    }

    #[test]
    fn unsigned_and_symmetric_tokens_have_no_algorithm() {
        for name in ["none", "None", "HS256", "", "ES512", "rs256"] {
            let token = format!("{}.{}.", encoded(&format!(r#"{{"alg":"{name}"}}"#)), encoded("{}"));
            let token = UnverifiedToken::parse(&token).expect("well-formed");
            assert_eq!(token.claimed_algorithm(), None, "{name}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_not(text in ".{0,200}") {
            let _ = UnverifiedToken::parse(&text);
        }

        #[test]
        fn any_header_and_claims_are_read_or_not(header in "[{}\"algkid:,0-9]{0,40}", claims in "[{}\"iss:,0-9]{0,40}") {
            let token = format!("{}.{}.AAAA", encoded(&header), encoded(&claims));
            if let Some(parsed) = UnverifiedToken::parse(&token) {
                prop_assert!(!parsed.claimed_algorithm_name().is_empty() || parsed.claimed_algorithm().is_none());
            }
        }
    }
}
