//! Signing and verifying keys of JSON web tokens, over ring: ES256, ES384 and RS256.
//!
//! A key knows its one algorithm; a token that names another is never checked against it. Key ids are upstream's: the
//! hash of the public key, so that any server with the same key gives it the same id.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::digest::{SHA256, digest};
use ring::rand::SystemRandom;
use ring::signature::{self, EcdsaKeyPair, KeyPair, RsaKeyPair, UnparsedPublicKey};
use serde_json::{Value, json};
use x509_parser::prelude::FromDer;
use x509_parser::public_key::PublicKey;
use x509_parser::x509::SubjectPublicKeyInfo;

/// Why a key cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    #[error("no key found")]
    NoKey,
    #[error("malformed key: {0}")]
    Malformed(String),
    #[error("unsupported key type: use an RSA key or an ECDSA key on P-256 or P-384 (private keys as PKCS #8)")]
    Unsupported,
    #[error("signing failed")]
    Signing,
}

/// The signature algorithms we know, by their JOSE names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    Es256,
    Es384,
    Rs256,
}

impl Algorithm {
    /// The `alg` of a token header.
    pub fn name(self) -> &'static str {
        match self {
            Self::Es256 => "ES256",
            Self::Es384 => "ES384",
            Self::Rs256 => "RS256",
        }
    }

    fn verification(self) -> &'static dyn signature::VerificationAlgorithm {
        match self {
            Self::Es256 => &signature::ECDSA_P256_SHA256_FIXED,
            Self::Es384 => &signature::ECDSA_P384_SHA384_FIXED,
            Self::Rs256 => &signature::RSA_PKCS1_2048_8192_SHA256,
        }
    }
}

/// A public key that checks tokens.
#[derive(Clone, PartialEq, Eq)]
pub struct VerifyingKey {
    algorithm: Algorithm,
    key_id: String,
    /// The curve point, or the RSA modulus and exponent in DER.
    raw: Vec<u8>,
}

impl fmt::Debug for VerifyingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "VerifyingKey({}, {})", self.algorithm.name(), self.key_id)
    }
}

impl VerifyingKey {
    /// Every key of a PEM file: public keys, and the public halves of private ones, as `--service-account-key-file`.
    pub fn all_from_pem(pem: &str) -> Result<Vec<Self>, KeyError> {
        let mut keys = Vec::new();
        for block in pem_blocks(pem)? {
            match block.label.as_str() {
                "PUBLIC KEY" => keys.push(Self::from_spki(&block.der)?),
                "RSA PUBLIC KEY" => keys.push(Self::from_rsa(block.der)),
                "PRIVATE KEY" | "RSA PRIVATE KEY" => keys.push(SigningKey::from_block(&block)?.verifying_key()),
                "EC PRIVATE KEY" => return Err(KeyError::Unsupported),
                _ => {}
            }
        }
        if keys.is_empty() { Err(KeyError::NoKey) } else { Ok(keys) }
    }

    /// From a DER SubjectPublicKeyInfo.
    pub fn from_spki(der: &[u8]) -> Result<Self, KeyError> {
        let (_, info) = SubjectPublicKeyInfo::from_der(der).map_err(|error| KeyError::Malformed(error.to_string()))?;
        let raw = info.subject_public_key.data.to_vec();
        match info.parsed() {
            Ok(PublicKey::RSA(_)) => Ok(Self::from_rsa(raw)),
            Ok(PublicKey::EC(point)) => Self::from_point(point.data().to_vec()),
            _ => Err(KeyError::Unsupported),
        }
    }

    fn from_rsa(raw: Vec<u8>) -> Self {
        Self { algorithm: Algorithm::Rs256, key_id: key_id(&spki(RSA_ALGORITHM_ID, &raw)), raw }
    }

    fn from_point(raw: Vec<u8>) -> Result<Self, KeyError> {
        let (algorithm, id) = match raw.len() {
            P256_POINT_LENGTH => (Algorithm::Es256, P256_ALGORITHM_ID),
            P384_POINT_LENGTH => (Algorithm::Es384, P384_ALGORITHM_ID),
            _ => return Err(KeyError::Unsupported),
        };
        Ok(Self { algorithm, key_id: key_id(&spki(id, &raw)), raw })
    }

    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// The `kid` under which this key is known.
    pub fn key_id(&self) -> &str {
        &self.key_id
    }

    /// Whether `signature` over `message` was made with this key.
    pub fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        UnparsedPublicKey::new(self.algorithm.verification(), &self.raw).verify(message, signature).is_ok()
    }

    /// The key as a JSON web key.
    pub fn to_jwk(&self) -> Result<Value, KeyError> {
        let encode = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        let (use_, kid, alg) = ("sig", self.key_id.as_str(), self.algorithm.name());
        if self.algorithm == Algorithm::Rs256 {
            let (_, key) = x509_parser::public_key::RSAPublicKey::from_der(&self.raw)
                .map_err(|error| KeyError::Malformed(error.to_string()))?;
            let (n, e) = (encode(without_leading_zeros(key.modulus)), encode(without_leading_zeros(key.exponent)));
            return Ok(json!({"use": use_, "kty": "RSA", "kid": kid, "alg": alg, "n": n, "e": e}));
        }
        let curve = if self.algorithm == Algorithm::Es256 { "P-256" } else { "P-384" };
        let coordinates = self.raw.get(1..).unwrap_or_default();
        let (x, y) = coordinates.split_at(coordinates.len() / 2);
        Ok(json!({"use": use_, "kty": "EC", "kid": kid, "crv": curve, "alg": alg, "x": encode(x), "y": encode(y)}))
    }
}

enum PrivateKey {
    Ecdsa(EcdsaKeyPair),
    Rsa(RsaKeyPair),
}

/// A private key that signs tokens.
pub struct SigningKey {
    private: PrivateKey,
    public: VerifyingKey,
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKey({:?})", self.public)
    }
}

impl SigningKey {
    /// The first private key of a PEM file.
    pub fn from_pem(pem: &str) -> Result<Self, KeyError> {
        let blocks = pem_blocks(pem)?;
        let block = blocks.iter().find(|b| b.label.ends_with("PRIVATE KEY")).ok_or(KeyError::NoKey)?;
        Self::from_block(block)
    }

    fn from_block(block: &PemBlock) -> Result<Self, KeyError> {
        let rng = SystemRandom::new();
        if block.label == "PRIVATE KEY" {
            for algorithm in [&signature::ECDSA_P256_SHA256_FIXED_SIGNING, &signature::ECDSA_P384_SHA384_FIXED_SIGNING]
            {
                if let Ok(pair) = EcdsaKeyPair::from_pkcs8(algorithm, &block.der, &rng) {
                    let public = VerifyingKey::from_point(pair.public_key().as_ref().to_vec())?;
                    return Ok(Self { private: PrivateKey::Ecdsa(pair), public });
                }
            }
        }
        let pair = match block.label.as_str() {
            "PRIVATE KEY" => RsaKeyPair::from_pkcs8(&block.der),
            "RSA PRIVATE KEY" => RsaKeyPair::from_der(&block.der),
            _ => return Err(KeyError::Unsupported),
        };
        let pair = pair.map_err(|_| KeyError::Unsupported)?;
        let public = VerifyingKey::from_rsa(pair.public_key().as_ref().to_vec());
        Ok(Self { private: PrivateKey::Rsa(pair), public })
    }

    pub fn verifying_key(&self) -> VerifyingKey {
        self.public.clone()
    }

    pub fn algorithm(&self) -> Algorithm {
        self.public.algorithm
    }

    pub fn key_id(&self) -> &str {
        &self.public.key_id
    }

    /// Signs a message.
    pub fn sign(&self, message: &[u8]) -> Result<Vec<u8>, KeyError> {
        let rng = SystemRandom::new();
        match &self.private {
            PrivateKey::Ecdsa(pair) => {
                pair.sign(&rng, message).map(|s| s.as_ref().to_vec()).map_err(|_| KeyError::Signing)
            }
            PrivateKey::Rsa(pair) => {
                let mut signature = vec![0; pair.public().modulus_len()];
                pair.sign(&signature::RSA_PKCS1_SHA256, &rng, message, &mut signature)
                    .map_err(|_| KeyError::Signing)?;
                Ok(signature)
            }
        }
    }
}

const P256_POINT_LENGTH: usize = 65;
const P384_POINT_LENGTH: usize = 97;

/// DER AlgorithmIdentifiers: id-ecPublicKey with its curve, and rsaEncryption.
const P256_ALGORITHM_ID: &[u8] = &[
    0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03,
    0x01, 0x07,
];
const P384_ALGORITHM_ID: &[u8] =
    &[0x30, 0x10, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x05, 0x2b, 0x81, 0x04, 0x00, 0x22];
const RSA_ALGORITHM_ID: &[u8] =
    &[0x30, 0x0d, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01, 0x05, 0x00];

/// Go's encoding of a public key, of which the key id is the hash.
fn spki(algorithm_id: &[u8], key: &[u8]) -> Vec<u8> {
    const SEQUENCE: u8 = 0x30;
    const BIT_STRING: u8 = 0x03;
    let mut bits = vec![BIT_STRING];
    der_length(&mut bits, key.len() + 1);
    bits.push(0);
    bits.extend_from_slice(key);
    let mut out = vec![SEQUENCE];
    der_length(&mut out, algorithm_id.len() + bits.len());
    out.extend_from_slice(algorithm_id);
    out.extend_from_slice(&bits);
    out
}

fn der_length(out: &mut Vec<u8>, length: usize) {
    const LONG_FORM: u8 = 0x80;
    let bytes = length.to_be_bytes();
    let significant = without_leading_zeros(&bytes);
    match u8::try_from(length) {
        Ok(short) if short < LONG_FORM => out.push(short),
        _ => {
            // At most eight bytes of a usize.
            out.push(LONG_FORM | significant.len() as u8);
            out.extend_from_slice(significant);
        }
    }
}

fn without_leading_zeros(bytes: &[u8]) -> &[u8] {
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    bytes.get(zeros..).unwrap_or_default()
}

fn key_id(spki: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(digest(&SHA256, spki))
}

struct PemBlock {
    label: String,
    der: Vec<u8>,
}

/// The blocks of a PEM text with their labels, which tell PKCS #1 from PKCS #8 and public from private.
fn pem_blocks(pem: &str) -> Result<Vec<PemBlock>, KeyError> {
    let mut blocks = Vec::new();
    let mut open: Option<(String, String)> = None;
    for line in pem.lines().map(str::trim) {
        if let Some(label) = line.strip_prefix("-----BEGIN ").and_then(|l| l.strip_suffix("-----")) {
            open = Some((label.to_owned(), String::new()));
        } else if line.starts_with("-----END ") {
            let Some((label, body)) = open.take() else { continue };
            let der = STANDARD.decode(body).map_err(|error| KeyError::Malformed(error.to_string()))?;
            blocks.push(PemBlock { label, der });
        } else if let Some((_, body)) = &mut open
            // RFC 1421 headers of old RSA files.
            && !line.contains(':')
        {
            body.push_str(line);
        }
    }
    Ok(blocks)
}

#[cfg(test)]
mod tests;
