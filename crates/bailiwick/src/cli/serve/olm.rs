//! The flags of `bailiwick serve` and `bailiwick olm` about operators from catalogs.

use std::path::PathBuf;

use bailiwick::{Builder, OlmOptions};
use bailiwick_webhook::dial::Cidr;

#[derive(clap::Args)]
#[group(skip)]
#[command(next_help_heading = "Operators from catalogs")]
pub struct Flags {
    /// The namespace whose CatalogSources all namespaces may draw from.
    #[arg(long, default_value = "olm")]
    olm_global_namespace: String,
    /// Addresses that are not public (10.0.0.0/8, 127.0.0.1, …) at which registries and other servers of catalogs may be.
    /// Without it those who may write CatalogSources can make the server call only public addresses.
    #[arg(long, value_delimiter = ',')]
    olm_allow_cidrs: Vec<Cidr>,
    /// A registry, as host:port, that is spoken to without TLS and may be at any address. May be repeated. Those of the
    /// loopback interface are always spoken to without TLS.
    #[arg(long)]
    olm_insecure_registry: Vec<String>,
    /// A directory below which catalogs may name image layouts (oci:<directory>[:<tag>]). May be repeated.
    #[arg(long)]
    olm_layout_dir: Vec<PathBuf>,
    /// File with the certificate authorities of registries, besides those of the machine.
    #[arg(long)]
    olm_registry_ca_file: Option<PathBuf>,
}

impl Flags {
    /// Adds OLM's kinds and what installs operators for them.
    pub fn add(&self, builder: Builder) -> Builder {
        builder.olm(self.options())
    }

    /// What they say.
    pub fn options(&self) -> OlmOptions {
        OlmOptions {
            allow_cidrs: self.olm_allow_cidrs.clone(),
            global_namespace: self.olm_global_namespace.clone(),
            insecure_registries: self.olm_insecure_registry.clone(),
            layouts: self.olm_layout_dir.clone(),
            registry_ca: self.olm_registry_ca_file.clone(),
        }
    }
}
