//! What is wrong with a CA bundle, in the words in which clients are told.

use x509_parser::pem::Pem;

/// Why the PEM text vouches for nobody; `None` if it holds a certificate.
pub fn ca_bundle_fault(pem: &[u8]) -> Option<&'static str> {
    let mut blocks = Pem::iter_from_buffer(pem).map_while(Result::ok).peekable();
    if blocks.peek().is_none() {
        return Some("unable to parse bytes as PEM block");
    }
    let certificates: Vec<Pem> = blocks.filter(|block| block.label == "CERTIFICATE").collect();
    if certificates.iter().any(|block| block.parse_x509().is_ok()) {
        None
    } else if certificates.is_empty() {
        Some("no valid certificate authority data seen")
    } else {
        Some("failed to parse certificate: x509: malformed certificate")
    }
}
