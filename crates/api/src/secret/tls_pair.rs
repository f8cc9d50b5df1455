//! Checks that a PEM certificate and private key belong together; the answer becomes a warning on TLS secrets.
//!
//! Compares what the key file says of itself. Keys that carry no public half (Ed25519, some EC) pass if their kind fits.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use x509_parser::prelude::{FromDer, X509Certificate};

/// Why a certificate and a key are no pair, in the words of Go's TLS library.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Mismatch {
    NoCertificatePem,
    Switched,
    NoCertificateAmong(Vec<String>),
    NoKeyPem,
    CertificateAsKey,
    NoKeyAmong(Vec<String>),
    MalformedCertificate,
    MalformedKey,
    UnknownKeyType,
    UnknownAlgorithm,
    DifferentTypes,
    Different,
}

impl std::fmt::Display for Mismatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoCertificatePem => f.write_str("tls: failed to find any PEM data in certificate input"),
            Self::Switched => f.write_str(
                "tls: failed to find certificate PEM data in certificate input, but did find a private key; \
                 PEM inputs may have been switched",
            ),
            Self::NoCertificateAmong(types) => write!(
                f,
                "tls: failed to find \"CERTIFICATE\" PEM block in certificate input after skipping PEM blocks of \
                 the following types: [{}]",
                types.join(" ")
            ),
            Self::NoKeyPem => f.write_str("tls: failed to find any PEM data in key input"),
            Self::CertificateAsKey => {
                f.write_str("tls: found a certificate rather than a key in the PEM for the private key")
            }
            Self::NoKeyAmong(types) => write!(
                f,
                "tls: failed to find PEM block with type ending in \"PRIVATE KEY\" in key input after skipping PEM \
                 blocks of the following types: [{}]",
                types.join(" ")
            ),
            Self::MalformedCertificate => f.write_str("x509: malformed certificate"),
            Self::MalformedKey => f.write_str("tls: failed to parse private key"),
            Self::UnknownKeyType => f.write_str("tls: found unknown private key type in PKCS#8 wrapping"),
            Self::UnknownAlgorithm => f.write_str("tls: unknown public key algorithm"),
            Self::DifferentTypes => f.write_str("tls: private key type does not match public key type"),
            Self::Different => f.write_str("tls: private key does not match public key"),
        }
    }
}

const RSA: &str = "1.2.840.113549.1.1.1";
const EC: &str = "1.2.840.10045.2.1";
const ED25519: &str = "1.3.101.112";

/// Checks that the first certificate and the first private key fit.
pub(super) fn check(certificate: &[u8], key: &[u8]) -> Result<(), Mismatch> {
    let certificate = find_certificate(certificate)?;
    let key = find_key(key)?;
    let (_, certificate) = X509Certificate::from_der(&certificate).map_err(|_| Mismatch::MalformedCertificate)?;
    let key = PrivateKey::parse(&key)?;

    let public = certificate.public_key();
    let public_bytes = public.subject_public_key.data.as_ref();
    let agree = match (public.algorithm.algorithm.to_id_string().as_str(), &key) {
        (RSA, PrivateKey::Rsa { modulus }) => rsa_modulus(public_bytes) == Some(modulus.as_slice()),
        (EC, PrivateKey::Ec { public: Some(public) }) => public == public_bytes,
        (EC, PrivateKey::Ec { public: None }) | (ED25519, PrivateKey::Ed25519) => true,
        (RSA | EC | ED25519, _) => return Err(Mismatch::DifferentTypes),
        _ => return Err(Mismatch::UnknownAlgorithm),
    };
    if agree { Ok(()) } else { Err(Mismatch::Different) }
}

fn find_certificate(pem: &[u8]) -> Result<Vec<u8>, Mismatch> {
    let mut skipped = Vec::new();
    for (label, der) in pem_blocks(pem) {
        if label == "CERTIFICATE" {
            return Ok(der);
        }
        skipped.push(label);
    }
    Err(match skipped.as_slice() {
        [] => Mismatch::NoCertificatePem,
        [only] if only.ends_with("PRIVATE KEY") => Mismatch::Switched,
        _ => Mismatch::NoCertificateAmong(skipped),
    })
}

fn find_key(pem: &[u8]) -> Result<Vec<u8>, Mismatch> {
    let mut skipped = Vec::new();
    for (label, der) in pem_blocks(pem) {
        if label == "PRIVATE KEY" || label.ends_with(" PRIVATE KEY") {
            return Ok(der);
        }
        skipped.push(label);
    }
    Err(match skipped.as_slice() {
        [] => Mismatch::NoKeyPem,
        [only] if only == "CERTIFICATE" => Mismatch::CertificateAsKey,
        _ => Mismatch::NoKeyAmong(skipped),
    })
}

/// All well-formed PEM blocks, each with its label.
fn pem_blocks(pem: &[u8]) -> Vec<(String, Vec<u8>)> {
    let text = String::from_utf8_lossy(pem);
    let mut blocks = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let Some(label) = line.strip_prefix("-----BEGIN ").and_then(|rest| rest.trim_end().strip_suffix("-----"))
        else {
            continue;
        };
        let end = format!("-----END {label}-----");
        let mut rest = lines.clone();
        let mut body = String::new();
        let mut closed = false;
        for line in rest.by_ref() {
            if line.trim_end() == end {
                closed = true;
                break;
            }
            if !line.contains(':') {
                body.push_str(line.trim());
            }
        }
        if closed && let Ok(der) = BASE64.decode(body) {
            blocks.push((label.to_owned(), der));
            lines = rest;
        }
    }
    blocks
}

/// A private key with the public facts found in it.
enum PrivateKey {
    Rsa { modulus: Vec<u8> },
    Ec { public: Option<Vec<u8>> },
    Ed25519,
}

impl PrivateKey {
    /// Tries PKCS#1, PKCS#8 and SEC 1, as Go does.
    fn parse(der: &[u8]) -> Result<Self, Mismatch> {
        let sequence = Element::parse_all(der).ok_or(Mismatch::MalformedKey)?;
        let [sequence] = sequence.as_slice() else { return Err(Mismatch::MalformedKey) };
        let members = sequence.members().ok_or(Mismatch::MalformedKey)?;
        match members.as_slice() {
            [version, modulus, rest @ ..] if version.tag == INTEGER && modulus.tag == INTEGER && rest.len() >= 6 => {
                Ok(Self::Rsa { modulus: modulus.content.to_vec() })
            }
            [version, algorithm, key, ..]
                if version.tag == INTEGER && algorithm.tag == SEQUENCE && key.tag == OCTET_STRING =>
            {
                Self::parse_pkcs8(algorithm, key)
            }
            [version, key, rest @ ..] if version.tag == INTEGER && key.tag == OCTET_STRING => {
                let public = rest.iter().find(|member| member.tag == CONTEXT_1).and_then(|wrapped| {
                    let bits = Element::parse_all(wrapped.content)?;
                    // The first byte of a bit string counts unused bits.
                    bits.first()?.content.get(1..).map(<[u8]>::to_vec)
                });
                Ok(Self::Ec { public })
            }
            _ => Err(Mismatch::MalformedKey),
        }
    }

    fn parse_pkcs8(algorithm: &Element<'_>, key: &Element<'_>) -> Result<Self, Mismatch> {
        const RSA_DER: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];
        const EC_DER: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];
        const ED25519_DER: &[u8] = &[0x2b, 0x65, 0x70];
        let members = algorithm.members().ok_or(Mismatch::MalformedKey)?;
        match members.first().map(|oid| oid.content) {
            Some(RSA_DER | EC_DER) => Self::parse(key.content),
            Some(ED25519_DER) => Ok(Self::Ed25519),
            _ => Err(Mismatch::UnknownKeyType),
        }
    }
}

/// The modulus in an RSA public key.
fn rsa_modulus(public: &[u8]) -> Option<&[u8]> {
    let sequence = Element::parse_all(public)?;
    let members = sequence.first()?.members()?;
    members.first().map(|modulus| modulus.content)
}

const INTEGER: u8 = 0x02;
const OCTET_STRING: u8 = 0x04;
const SEQUENCE: u8 = 0x30;
const CONTEXT_1: u8 = 0xa1;

/// One DER element, its content not yet looked at.
struct Element<'a> {
    tag: u8,
    content: &'a [u8],
}

impl<'a> Element<'a> {
    /// The elements that fill `der` exactly.
    fn parse_all(mut der: &'a [u8]) -> Option<Vec<Self>> {
        let mut elements = Vec::new();
        while let [tag, length, rest @ ..] = der {
            let (length, rest) = match length {
                ..=0x7f => (usize::from(*length), rest),
                // Four bytes of length are more than any key has.
                0x81..=0x84 => {
                    let (length, rest) = rest.split_at_checked(usize::from(length & 0x7f))?;
                    (length.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte)), rest)
                }
                _ => return None,
            };
            let (content, rest) = rest.split_at_checked(length)?;
            elements.push(Self { tag: *tag, content });
            der = rest;
        }
        der.is_empty().then_some(elements)
    }

    fn members(&self) -> Option<Vec<Self>> {
        if self.tag == SEQUENCE { Self::parse_all(self.content) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair, PKCS_ED25519};

    use super::*;

    fn certificate(key: &KeyPair) -> String {
        CertificateParams::default().self_signed(key).expect("a certificate").pem()
    }

    fn answer(certificate: &str, key: &str) -> String {
        check(certificate.as_bytes(), key.as_bytes()).err().map(|error| error.to_string()).unwrap_or_default()
    }

    #[test]
    fn a_key_fits_its_own_certificate_only() {
        let (ours, theirs) = (KeyPair::generate().expect("a key"), KeyPair::generate().expect("a key"));
        let ed25519 = KeyPair::generate_for(&PKCS_ED25519).expect("a key");
        assert_eq!(answer(&certificate(&ours), &ours.serialize_pem()), "");
        assert_eq!(answer(&certificate(&ed25519), &ed25519.serialize_pem()), "");
        assert_eq!(answer(&certificate(&theirs), &ours.serialize_pem()), "tls: private key does not match public key");
        assert_eq!(
            answer(&certificate(&ours), &ed25519.serialize_pem()),
            "tls: private key type does not match public key type"
        );
    }

    #[test]
    fn misplaced_input_is_named() {
        let key = KeyPair::generate().expect("a key");
        let (certificate, key) = (certificate(&key), key.serialize_pem());
        let block = |label: &str, body: &str| format!("-----BEGIN {label}-----\n{body}\n-----END {label}-----\n");
        for (certificate, key, expected) in [
            ("", "", "tls: failed to find any PEM data in certificate input"),
            (
                &*key,
                "",
                "tls: failed to find certificate PEM data in certificate input, but did find a private key; \
                 PEM inputs may have been switched",
            ),
            (
                &*block("X", "AAAA"),
                "",
                "tls: failed to find \"CERTIFICATE\" PEM block in certificate input after skipping PEM blocks of \
                 the following types: [X]",
            ),
            (&*certificate, "", "tls: failed to find any PEM data in key input"),
            (&*certificate, &*certificate, "tls: found a certificate rather than a key in the PEM for the private key"),
            (&*certificate, &*block("PRIVATE KEY", "AAAA"), "tls: failed to parse private key"),
            (&*block("CERTIFICATE", "AAAA"), &*key, "x509: malformed certificate"),
        ] {
            assert_eq!(answer(certificate, key), expected);
        }
    }
}
