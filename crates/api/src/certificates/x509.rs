//! The certificate requests and certificates inside signing requests: well formed and, for requests, signed by the key
//! they are for. Errors of the encoding itself are worded by us; upstream shows those of its ASN.1 library.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use x509_parser::certificate::X509Certificate;
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::error::X509Error;
use x509_parser::oid_registry::{OID_KEY_TYPE_EC_PUBLIC_KEY, OID_PKCS1_RSAENCRYPTION, OID_SIG_ED25519, Oid};
use x509_parser::prelude::FromDer;

use super::pem::first_block;

const NOT_A_REQUEST: &str = "PEM block type must be CERTIFICATE REQUEST";

/// Checks `spec.request`: base64 of a PEM block with a PKCS#10 request.
pub(super) fn check_request(encoded: &str) -> Result<(), String> {
    let text = decoded(encoded);
    let block = match first_block(&text) {
        Some((block, _)) if block.label == "CERTIFICATE REQUEST" => block,
        _ => return Err(NOT_A_REQUEST.to_owned()),
    };
    let (trailing, request) = X509CertificationRequest::from_der(&block.der).map_err(malformed)?;
    if !trailing.is_empty() {
        return Err("asn1: syntax error: trailing data".to_owned());
    }
    request.verify_signature().map_err(|error| match error {
        X509Error::SignatureUnsupportedAlgorithm => "x509: cannot verify signature: algorithm unimplemented".to_owned(),
        _ => signature_failure(&request.certification_request_info.subject_pki.algorithm.algorithm),
    })
}

/// The organizations a request asks for, which become groups of the certificate's holder.
pub(super) fn organizations(encoded: &str) -> Result<Vec<String>, String> {
    let text = decoded(encoded);
    let block = match first_block(&text) {
        Some((block, _)) if block.label == "CERTIFICATE REQUEST" => block,
        _ => return Err(NOT_A_REQUEST.to_owned()),
    };
    let (_, request) = X509CertificationRequest::from_der(&block.der).map_err(malformed)?;
    let subject = &request.certification_request_info.subject;
    Ok(subject.iter_organization().filter_map(|name| name.as_str().ok()).map(str::to_owned).collect())
}

fn signature_failure(key: &Oid<'_>) -> String {
    if *key == OID_KEY_TYPE_EC_PUBLIC_KEY {
        "x509: ECDSA verification failure".to_owned()
    } else if *key == OID_PKCS1_RSAENCRYPTION {
        "crypto/rsa: verification error".to_owned()
    } else if *key == OID_SIG_ED25519 {
        "x509: Ed25519 verification failure".to_owned()
    } else {
        "x509: cannot verify signature: algorithm unimplemented".to_owned()
    }
}

fn malformed(error: impl std::fmt::Display) -> String {
    format!("asn1: structure error: {error}")
}

/// Checks `status.certificate`: base64 of PEM blocks that are all certificates. Empty is fine: not issued yet.
pub(super) fn check_certificate(encoded: &str) -> Result<(), String> {
    let text = decoded(encoded);
    let mut rest = text.as_str();
    if rest.is_empty() {
        return Ok(());
    }
    let mut blocks = 0;
    while let Some((block, after)) = first_block(rest) {
        if block.label != "CERTIFICATE" {
            return Err(format!("only CERTIFICATE PEM blocks are allowed, found {:?}", block.label));
        }
        if block.has_headers {
            return Err("no PEM block headers are permitted".to_owned());
        }
        if block.der.is_empty() {
            return Err("found CERTIFICATE PEM block containing 0 certificates".to_owned());
        }
        let mut der = block.der.as_slice();
        while !der.is_empty() {
            (der, _) =
                X509Certificate::from_der(der).map_err(|error| format!("x509: malformed certificate: {error}"))?;
        }
        blocks += 1;
        rest = after;
    }
    if blocks == 0 { Err("must contain at least one CERTIFICATE PEM block".to_owned()) } else { Ok(()) }
}

/// The text behind base64. Bytes that are not text cannot be PEM either, so what becomes of them does not matter.
fn decoded(encoded: &str) -> String {
    STANDARD.decode(encoded).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
}
