//! The flags of `bailiwick serve` about encryption at rest.

use std::path::PathBuf;

use bailiwick::{EncryptionOptions, Reload};

#[derive(clap::Args)]
#[group(skip)]
#[command(next_help_heading = "Encryption at rest")]
pub struct Flags {
    /// What is encrypted in the store, and with which keys (apiserver.config.k8s.io/v1 EncryptionConfiguration). By default
    /// secrets in the data directory are, with the key in <data-dir>/encryption.yaml.
    #[arg(long)]
    encryption_provider_config: Option<PathBuf>,
    /// Take up changes of the configuration without a restart.
    #[arg(long, default_value_t = false, num_args = 0..=1, default_missing_value = "true", action = clap::ArgAction::Set)]
    encryption_provider_config_automatic_reload: bool,
}

impl Flags {
    pub fn options(&self) -> EncryptionOptions {
        EncryptionOptions {
            provider_config: self.encryption_provider_config.clone(),
            reload: match self.encryption_provider_config_automatic_reload {
                true => Reload::Automatic,
                false => Reload::Never,
            },
        }
    }
}
