//! The flags of `bailiwick serve` that say who gets in.

use std::path::PathBuf;

use bailiwick::AuthenticationOptions;
use bailiwick_auth::authn::Anonymous;

#[derive(clap::Args)]
#[command(next_help_heading = "Authentication")]
pub struct Flags {
    /// CSV file of static bearer tokens: token,user,uid,"group1,group2".
    #[arg(long)]
    token_auth_file: Option<PathBuf>,
    /// PEM bundle of further authorities for client certificates: CN is the user, O the groups.
    #[arg(long)]
    client_ca_file: Option<PathBuf>,
    /// The issuer named in service-account tokens; by default the URL we serve at.
    #[arg(long)]
    service_account_issuer: Option<String>,
    /// Whether requests without credentials are served as system:anonymous (health and version only).
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set)]
    anonymous_auth: bool,
}

impl Flags {
    pub fn options(&self) -> AuthenticationOptions {
        AuthenticationOptions {
            token_auth_file: self.token_auth_file.clone(),
            client_ca_file: self.client_ca_file.clone(),
            service_account_issuer: self.service_account_issuer.clone(),
            anonymous: if self.anonymous_auth { Anonymous::Allowed } else { Anonymous::Refused },
        }
    }
}
