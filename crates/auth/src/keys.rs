//! Signing and verifying keys of JSON web tokens, over ring: RSA, and ECDSA on P-256 and P-384.
//!
//! A key knows the one algorithm our own tokens are signed with by it; an RSA key of somebody else's may be used with the
//! other RSA algorithms too. Ids of our keys are upstream's: the hash of the public key, so that any server with the same
//! key gives it the same id.

use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwap;
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::digest::{SHA256, digest};
use ring::rand::SystemRandom;
use ring::signature::{self, EcdsaKeyPair, KeyPair, RsaKeyPair, UnparsedPublicKey};
use serde_json::{Value, json};
use x509_parser::prelude::FromDer;
use x509_parser::public_key::PublicKey;
use x509_parser::x509::SubjectPublicKeyInfo;

use crate::der::{self, without_leading_zeros};

/// Why a key cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    #[error("no key found")]
    NoKey,
    #[error("malformed key: {0}")]
    Malformed(String),
    #[error("unsupported key type: use an RSA key or an ECDSA key on P-256 or P-384")]
    Unsupported,
    #[error("signing failed")]
    Signing,
}

/// The signature algorithms we know, by their JOSE names. ES512 is not among them: ring has no P-521.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    Es256,
    Es384,
    Ps256,
    Ps384,
    Ps512,
    Rs256,
    Rs384,
    Rs512,
}

impl Algorithm {
    /// Every algorithm, by name.
    pub const ALL: [Self; 8] =
        [Self::Es256, Self::Es384, Self::Ps256, Self::Ps384, Self::Ps512, Self::Rs256, Self::Rs384, Self::Rs512];

    /// The `alg` of a token header.
    pub fn name(self) -> &'static str {
        match self {
            Self::Es256 => "ES256",
            Self::Es384 => "ES384",
            Self::Ps256 => "PS256",
            Self::Ps384 => "PS384",
            Self::Ps512 => "PS512",
            Self::Rs256 => "RS256",
            Self::Rs384 => "RS384",
            Self::Rs512 => "RS512",
        }
    }

    /// The algorithm a token header names; `None` for `none`, symmetric ones and everything else we do not take.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|algorithm| algorithm.name() == name)
    }

    fn is_rsa(self) -> bool {
        !matches!(self, Self::Es256 | Self::Es384)
    }

    fn verification(self) -> &'static dyn signature::VerificationAlgorithm {
        match self {
            Self::Es256 => &signature::ECDSA_P256_SHA256_FIXED,
            Self::Es384 => &signature::ECDSA_P384_SHA384_FIXED,
            Self::Ps256 => &signature::RSA_PSS_2048_8192_SHA256,
            Self::Ps384 => &signature::RSA_PSS_2048_8192_SHA384,
            Self::Ps512 => &signature::RSA_PSS_2048_8192_SHA512,
            Self::Rs256 => &signature::RSA_PKCS1_2048_8192_SHA256,
            Self::Rs384 => &signature::RSA_PKCS1_2048_8192_SHA384,
            Self::Rs512 => &signature::RSA_PKCS1_2048_8192_SHA512,
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
                "CERTIFICATE" => keys.push(Self::from_certificate(&block.der)?),
                "PRIVATE KEY" | "RSA PRIVATE KEY" | "EC PRIVATE KEY" => {
                    keys.push(SigningKey::from_block(&block)?.verifying_key());
                }
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

    fn from_certificate(der: &[u8]) -> Result<Self, KeyError> {
        let (_, certificate) = x509_parser::certificate::X509Certificate::from_der(der)
            .map_err(|error| KeyError::Malformed(error.to_string()))?;
        Self::from_spki(certificate.public_key().raw)
    }

    /// From a JSON web key, under the id it has there.
    pub fn from_jwk(jwk: &Value) -> Result<Self, KeyError> {
        let text = |name: &str| jwk.get(name).and_then(Value::as_str).unwrap_or_default();
        let number = |name: &str| {
            let decoded = URL_SAFE_NO_PAD.decode(text(name).trim_end_matches('='));
            decoded.map_err(|error| KeyError::Malformed(format!("{name}: {error}")))
        };
        let mut key = match (text("kty"), text("crv")) {
            ("RSA", _) => Self::from_rsa(rsa_public_key(&number("n")?, &number("e")?)?),
            ("EC", "P-256") => Self::from_point(point(&number("x")?, &number("y")?, P256_POINT_LENGTH)?)?,
            ("EC", "P-384") => Self::from_point(point(&number("x")?, &number("y")?, P384_POINT_LENGTH)?)?,
            _ => return Err(KeyError::Unsupported),
        };
        text("kid").clone_into(&mut key.key_id);
        Ok(key)
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
        self.verifies_as(self.algorithm, message, signature)
    }

    /// Whether `signature` over `message` was made with this key by this algorithm, which must be one for such keys.
    pub fn verifies_as(&self, algorithm: Algorithm, message: &[u8], signature: &[u8]) -> bool {
        let fits = algorithm == self.algorithm || (algorithm.is_rsa() && self.algorithm.is_rsa());
        fits && UnparsedPublicKey::new(algorithm.verification(), &self.raw).verify(message, signature).is_ok()
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

/// The keys that check our own tokens. They may be replaced while we run.
#[derive(Debug)]
pub struct TokenKeys {
    current: ArcSwap<KeyGeneration>,
}

/// One set of keys between two replacements.
#[derive(Debug)]
pub struct KeyGeneration {
    /// Counts replacements.
    pub generation: u64,
    pub keys: Vec<VerifyingKey>,
}

impl TokenKeys {
    pub fn new(keys: Vec<VerifyingKey>) -> Self {
        Self { current: ArcSwap::from_pointee(KeyGeneration { generation: 0, keys }) }
    }

    /// The keys of this moment.
    pub fn load(&self) -> Arc<KeyGeneration> {
        self.current.load_full()
    }

    pub(crate) fn generation(&self) -> u64 {
        self.current.load().generation
    }

    /// Trusts these keys instead; tokens signed by others stop to count.
    pub fn replace(&self, keys: Vec<VerifyingKey>) {
        self.current.rcu(|current| KeyGeneration { generation: current.generation + 1, keys: keys.clone() });
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
        for (algorithm, id) in [
            (&signature::ECDSA_P256_SHA256_FIXED_SIGNING, P256_ALGORITHM_ID),
            (&signature::ECDSA_P384_SHA384_FIXED_SIGNING, P384_ALGORITHM_ID),
        ] {
            let pair = match block.label.as_str() {
                "PRIVATE KEY" => EcdsaKeyPair::from_pkcs8(algorithm, &block.der, &rng),
                "EC PRIVATE KEY" => EcdsaKeyPair::from_pkcs8(algorithm, &pkcs8(id, &block.der), &rng),
                _ => break,
            };
            if let Ok(pair) = pair {
                let public = VerifyingKey::from_point(pair.public_key().as_ref().to_vec())?;
                return Ok(Self { private: PrivateKey::Ecdsa(pair), public });
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
    der::sequence(&[algorithm_id, &der::bit_string(key)])
}

/// A bare EC private key in the envelope that ring reads.
fn pkcs8(algorithm_id: &[u8], key: &[u8]) -> Vec<u8> {
    der::sequence(&[&der::unsigned(&[0]), algorithm_id, &der::element(der::OCTET_STRING, key)])
}

/// Modulus and exponent of a JSON web key in DER.
fn rsa_public_key(modulus: &[u8], exponent: &[u8]) -> Result<Vec<u8>, KeyError> {
    if without_leading_zeros(modulus).is_empty() || without_leading_zeros(exponent).is_empty() {
        return Err(KeyError::Malformed("an RSA key without a number".into()));
    }
    Ok(der::sequence(&[&der::unsigned(modulus), &der::unsigned(exponent)]))
}

/// An uncompressed curve point of this length.
fn point(x: &[u8], y: &[u8], length: usize) -> Result<Vec<u8>, KeyError> {
    const UNCOMPRESSED: u8 = 0x04;
    let size = length / 2;
    let mut out = vec![UNCOMPRESSED];
    for coordinate in [x, y] {
        let missing = size.checked_sub(coordinate.len()).ok_or_else(|| KeyError::Malformed("coordinate".into()))?;
        out.extend(std::iter::repeat_n(0, missing));
        out.extend_from_slice(coordinate);
    }
    Ok(out)
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
