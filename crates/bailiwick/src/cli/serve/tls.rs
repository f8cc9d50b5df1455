//! The flags of `bailiwick serve` about connections and their protection.

use std::path::PathBuf;

use bailiwick::TlsOptions;
use bailiwick_server::http::Limits;

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
    /// Connections served at once.
    #[arg(long, default_value_t = Limits::default().connections_max)]
    max_connections: usize,
    /// HTTP/2 streams per connection.
    #[arg(long, default_value_t = Limits::default().streams_per_connection_max)]
    http2_max_streams_per_connection: u32,
}

impl Flags {
    pub fn options(&self) -> TlsOptions {
        TlsOptions { serving_certificate: self.tls_cert_file.clone().zip(self.tls_private_key_file.clone()) }
    }

    pub fn limits(&self) -> Limits {
        Limits {
            connections_max: self.max_connections,
            streams_per_connection_max: self.http2_max_streams_per_connection,
            ..Limits::default()
        }
    }
}
