//! Which versions of TLS and which cipher suites are served with, by the names of Go's and Kubernetes' flags.

use rustls::{CipherSuite, SupportedCipherSuite, SupportedProtocolVersion};

use super::TlsError;

/// The oldest version a client may speak. Older ones than these are broken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TlsVersion {
    #[default]
    Tls12,
    Tls13,
}

/// What a handshake may agree on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Protocols {
    pub min_version: TlsVersion,
    /// Suites of TLS 1.2; all there are if empty. Those of TLS 1.3 are all good and not chosen by flag, as in Go.
    cipher_suites: Vec<CipherSuite>,
}

/// All of them have forward secrecy and authenticated encryption; rustls has no others.
const TLS12_SUITES: &[(&str, CipherSuite)] = &[
    ("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256),
    ("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384),
    ("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256),
    ("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305", CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256),
    ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256),
    ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", CipherSuite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384),
    ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256),
    ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305", CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256),
];

/// Accepted, as upstream accepts them, and of no effect.
const TLS13_SUITES: &[&str] = &["TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"];

static ONLY_TLS13: &[&SupportedProtocolVersion] = &[&rustls::version::TLS13];

impl Protocols {
    /// At least `min_version`, with the suites of these names.
    pub fn new(min_version: TlsVersion, cipher_suites: &[String]) -> Result<Self, TlsError> {
        let mut chosen = Vec::new();
        for name in cipher_suites {
            match TLS12_SUITES.iter().find(|(known, _)| known == name) {
                Some((_, suite)) => chosen.push(*suite),
                None if TLS13_SUITES.contains(&name.as_str()) => {}
                None => {
                    let known: Vec<&str> =
                        TLS12_SUITES.iter().map(|(known, _)| *known).chain(TLS13_SUITES.iter().copied()).collect();
                    return Err(TlsError::CipherSuite { name: name.clone(), known: known.join(", ") });
                }
            }
        }
        Ok(Self { min_version, cipher_suites: chosen })
    }

    pub(super) fn has(&self, suite: &SupportedCipherSuite) -> bool {
        suite.tls13().is_some() || self.cipher_suites.is_empty() || self.cipher_suites.contains(&suite.suite())
    }

    pub(super) fn versions(&self) -> &'static [&'static SupportedProtocolVersion] {
        match self.min_version {
            TlsVersion::Tls12 => rustls::ALL_VERSIONS,
            TlsVersion::Tls13 => ONLY_TLS13,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suites_have_the_names_of_go_and_weak_ones_are_refused() {
        let protocols = Protocols::new(TlsVersion::Tls12, &["TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305".into()]).unwrap();
        assert_eq!(protocols.cipher_suites, [CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256]);
        let all_of_13: Vec<String> = TLS13_SUITES.iter().map(|name| (*name).to_owned()).collect();
        assert_eq!(Protocols::new(TlsVersion::Tls12, &all_of_13).unwrap(), Protocols::default());
        for weak in ["TLS_RSA_WITH_AES_128_CBC_SHA", "TLS_RSA_WITH_3DES_EDE_CBC_SHA", "nonsense"] {
            assert!(Protocols::new(TlsVersion::Tls12, &[weak.to_owned()]).is_err(), "{weak}");
        }
    }
}
