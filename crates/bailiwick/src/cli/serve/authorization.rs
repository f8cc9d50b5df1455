//! The flags of `bailiwick serve` that say who may do what.

use bailiwick::{AuthorizationMode, AuthorizationOptions};

#[derive(clap::Args)]
#[group(skip)]
#[command(next_help_heading = "Authorization")]
pub struct Flags {
    /// Who may do what: RBAC (system:masters and stored roles and bindings) or AlwaysAllow.
    #[arg(long, value_enum, default_value = "RBAC")]
    authorization_mode: Mode,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Mode {
    #[value(name = "RBAC")]
    Rbac,
    #[value(name = "AlwaysAllow")]
    AlwaysAllow,
}

impl Flags {
    pub fn options(&self) -> AuthorizationOptions {
        let mode = match self.authorization_mode {
            Mode::Rbac => AuthorizationMode::Rbac,
            Mode::AlwaysAllow => AuthorizationMode::AlwaysAllow,
        };
        AuthorizationOptions { mode }
    }
}
