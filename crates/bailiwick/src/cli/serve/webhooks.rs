//! The flags of `bailiwick serve` that say where webhooks of the API may lead.

use bailiwick::DialOptions;
use bailiwick_webhook::dial::Cidr;

#[derive(clap::Args)]
#[group(skip)]
#[command(next_help_heading = "Webhooks")]
pub struct Flags {
    /// Addresses that webhooks configured through the API must not lead to, besides link-local, metadata, multicast and
    /// unspecified ones and the store's. Of several ranges with an address the narrowest decides.
    #[arg(long, value_delimiter = ',')]
    webhook_deny_cidrs: Vec<Cidr>,
    /// Addresses that they may lead to although a wider range is denied.
    #[arg(long, value_delimiter = ',')]
    webhook_allow_cidrs: Vec<Cidr>,
}

impl Flags {
    pub fn options(&self) -> DialOptions {
        DialOptions { deny_cidrs: self.webhook_deny_cidrs.clone(), allow_cidrs: self.webhook_allow_cidrs.clone() }
    }
}
