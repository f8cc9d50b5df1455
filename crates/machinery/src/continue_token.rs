//! Continue tokens: where the next page of a list starts and at which revision.
//!
//! The encoding is upstream's, so that tokens survive a restart and read the same to tools that look inside.

use bailiwick_schema::decode::check_syntax;
use base64::Engine as _;
use base64::alphabet::URL_SAFE;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde::{Deserialize, Serialize};

use crate::status::ApiError;

const VERSION: &str = "meta.k8s.io/v1";

/// The encoded form carries whole object keys; anything longer than this is not one of ours.
const MAX_TOKEN_LENGTH: usize = 8 * 1024;

const BASE64: GeneralPurpose = GeneralPurpose::new(
    &URL_SAFE,
    GeneralPurposeConfig::new()
        .with_encode_padding(false)
        .with_decode_padding_mode(DecodePaddingMode::RequireNone)
        .with_decode_allow_trailing_bits(true),
);

/// Where a list goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContinueToken {
    /// The revision of the first page. Negative means that it is gone and the client accepted to go on at the newest.
    pub resource_version: i64,
    /// The key to start from, relative to what is listed: `namespace/name\0`.
    pub start: String,
}

/// Why a token was refused, in upstream's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ContinueTokenError {
    #[error("continue key is not valid: incorrect encoded start resourceVersion (version meta.k8s.io/v1)")]
    InvalidRevision,
    #[error("continue key is not valid: encoded start key empty (version meta.k8s.io/v1)")]
    EmptyStart,
    #[error("continue key is not valid: server does not recognize this encoded version {0}")]
    UnknownVersion(String),
    #[error("continue key is not valid: {0}")]
    Invalid(String),
}

impl From<ContinueTokenError> for ApiError {
    fn from(error: ContinueTokenError) -> Self {
        Self::bad_request(format!("invalid continue token: {error}"))
    }
}

#[derive(Serialize, Deserialize)]
struct Encoded {
    #[serde(default)]
    v: String,
    #[serde(default)]
    rv: i64,
    #[serde(default)]
    start: String,
}

impl ContinueToken {
    /// Starts right after `key` at a revision.
    pub fn after(key: &str, resource_version: i64) -> Self {
        Self { resource_version, start: format!("{key}\0") }
    }

    /// The same place at whatever the newest revision then is: what a client gets whose revision has been compacted.
    pub fn inconsistent(&self) -> Self {
        Self { resource_version: -1, start: self.start.clone() }
    }

    pub fn encode(&self) -> String {
        let encoded = Encoded { v: VERSION.to_owned(), rv: self.resource_version, start: self.start.clone() };
        let json = serde_json::to_vec(&encoded).expect("invariant: two strings and a number encode");
        BASE64.encode(json)
    }

    pub fn decode(token: &str) -> Result<Self, ContinueTokenError> {
        let invalid = |text: String| ContinueTokenError::Invalid(text);
        if token.len() > MAX_TOKEN_LENGTH {
            return Err(invalid("token too long".to_owned()));
        }
        let json = BASE64.decode(token).map_err(|e| invalid(base64_text(&e)))?;
        let encoded: Encoded = serde_json::from_slice(&json)
            .map_err(|e| invalid(check_syntax(&json).map_or_else(|syntax| syntax.to_string(), |()| e.to_string())))?;
        if encoded.v != VERSION {
            return Err(ContinueTokenError::UnknownVersion(encoded.v));
        }
        if encoded.rv == 0 {
            return Err(ContinueTokenError::InvalidRevision);
        }
        if encoded.start.is_empty() {
            return Err(ContinueTokenError::EmptyStart);
        }
        // A client must not climb out of the collection it may list.
        let start = encoded.start.strip_prefix('/').unwrap_or(&encoded.start);
        if start.split('/').any(|segment| matches!(segment, "" | "." | "..")) {
            return Err(invalid(encoded.start));
        }
        Ok(Self { resource_version: encoded.rv, start: start.to_owned() })
    }
}

fn base64_text(error: &base64::DecodeError) -> String {
    use base64::DecodeError::{InvalidByte, InvalidLastSymbol, InvalidLength, InvalidPadding};
    let at = match error {
        InvalidByte(at, _) | InvalidLastSymbol(at, _) => *at,
        InvalidLength(length) => length.saturating_sub(1),
        InvalidPadding => 0,
    };
    format!("illegal base64 data at input byte {at}")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn encode(json: &str) -> String {
        BASE64.encode(json)
    }

    #[test]
    fn tokens_look_like_upstreams() {
        let token = ContinueToken { resource_version: 1, start: "a".into() };
        assert_eq!(token.encode(), "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiJhIn0");
        assert_eq!(token.inconsistent().encode(), "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0IjoiYSJ9");
    }

    #[test]
    fn bad_tokens_fail_in_upstreams_words() {
        for (token, text) in [
            ("!!".to_owned(), "continue key is not valid: illegal base64 data at input byte 0"),
            ("eyJ2Ig".to_owned(), "continue key is not valid: unexpected end of JSON input"),
            ("e30".to_owned(), "continue key is not valid: server does not recognize this encoded version "),
            (encode(r#"{"v":"x"}"#), "continue key is not valid: server does not recognize this encoded version x"),
            (
                encode(r#"{"v":"meta.k8s.io/v1"}"#),
                "continue key is not valid: incorrect encoded start resourceVersion (version meta.k8s.io/v1)",
            ),
            (
                encode(r#"{"v":"meta.k8s.io/v1","rv":5}"#),
                "continue key is not valid: encoded start key empty (version meta.k8s.io/v1)",
            ),
            (encode(r#"{"v":"meta.k8s.io/v1","rv":5,"start":"../a"}"#), "continue key is not valid: ../a"),
            (encode(r#"{"v":"meta.k8s.io/v1","rv":5,"start":"a//b"}"#), "continue key is not valid: a//b"),
        ] {
            assert_eq!(ContinueToken::decode(&token).unwrap_err().to_string(), text);
        }
    }

    proptest! {
        #[test]
        fn no_token_panics(token in "\\PC*") {
            let _ = ContinueToken::decode(&token);
        }

        #[test]
        fn what_is_encoded_decodes(rv in 1i64.., namespace in "[a-z]{1,9}", name in "[a-z.]{0,5}[a-z]") {
            let token = ContinueToken::after(&format!("{namespace}/{name}"), rv);
            prop_assert_eq!(ContinueToken::decode(&token.encode()), Ok(token));
        }
    }
}
