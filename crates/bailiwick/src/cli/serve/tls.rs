//! The flags of `bailiwick serve` about connections and their protection.

use std::net::IpAddr;
use std::path::PathBuf;

use anyhow::Context;
use bailiwick::TlsOptions;
use bailiwick_auth::pki::ServingName;
use bailiwick_auth::tls::{Protocols, TlsVersion};
use bailiwick_server::http::Limits;

#[derive(Clone, Copy, clap::ValueEnum)]
enum Version {
    #[value(name = "VersionTLS12")]
    Tls12,
    #[value(name = "VersionTLS13")]
    Tls13,
}

#[derive(clap::Args)]
#[group(skip)]
#[command(next_help_heading = "Connections")]
pub struct Flags {
    /// Serving certificate, instead of one from our own CA.
    #[arg(long, requires = "tls_private_key_file")]
    tls_cert_file: Option<PathBuf>,
    /// Key of the serving certificate.
    #[arg(long, requires = "tls_cert_file")]
    tls_private_key_file: Option<PathBuf>,
    /// The address that clients are told to come to, and that our own certificate is for; by default the one listened on, and
    /// for 0.0.0.0 and :: the one towards the default route.
    #[arg(long)]
    advertise_address: Option<IpAddr>,
    /// A further name or address that our own serving certificate is for; may be repeated. The certificate is made anew when
    /// it lacks one.
    #[arg(long, value_name = "NAME|IP")]
    tls_san: Vec<ServingName>,
    /// The oldest version of TLS that clients may speak.
    #[arg(long, value_enum, default_value = "VersionTLS12")]
    tls_min_version: Version,
    /// Cipher suites of TLS 1.2 to serve with, by Go's names; all that rustls has if not given. Those of TLS 1.3 are all
    /// served with.
    #[arg(long, value_delimiter = ',')]
    tls_cipher_suites: Vec<String>,
    /// What browsers are told about HTTPS: max-age=<seconds>, includeSubDomains, preload.
    #[arg(long, value_delimiter = ',')]
    strict_transport_security_directives: Vec<String>,
    /// Connections served at once.
    #[arg(long, default_value_t = Limits::default().connections_max)]
    max_connections: usize,
    /// HTTP/2 streams per connection.
    #[arg(long, default_value_t = Limits::default().streams_per_connection_max)]
    http2_max_streams_per_connection: u32,
}

impl Flags {
    pub fn options(&self) -> anyhow::Result<TlsOptions> {
        let min_version = match self.tls_min_version {
            Version::Tls12 => TlsVersion::Tls12,
            Version::Tls13 => TlsVersion::Tls13,
        };
        Ok(TlsOptions {
            serving_certificate: self.tls_cert_file.clone().zip(self.tls_private_key_file.clone()),
            // As upstream: all addresses are no advice.
            advertise_address: self.advertise_address.filter(|ip| !ip.is_unspecified()),
            further_names: self.tls_san.clone(),
            protocols: Protocols::new(min_version, &self.tls_cipher_suites).context("--tls-cipher-suites")?,
            strict_transport_security_directives: self.strict_transport_security_directives.clone(),
            ..TlsOptions::default()
        })
    }

    pub fn limits(&self) -> Limits {
        Limits {
            connections_max: self.max_connections,
            streams_per_connection_max: self.http2_max_streams_per_connection,
            ..Limits::default()
        }
    }
}
