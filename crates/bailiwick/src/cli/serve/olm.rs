//! The flags of `bailiwick serve` that add operators from catalogs.

use std::path::PathBuf;

use bailiwick::{Builder, OlmOptions};

/// A part that is not there unless it is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Addition {
    /// CatalogSources, Subscriptions and the other kinds of OLM, and what installs operators for them.
    Olm,
}

#[derive(clap::Args)]
#[group(skip)]
#[command(next_help_heading = "Operators from catalogs")]
pub struct Flags {
    /// Parts to add (comma-separated): olm, for OLM's CatalogSources, Subscriptions, ClusterExtensions and so on.
    #[arg(long, value_delimiter = ',')]
    with: Vec<Addition>,
    /// The namespace whose CatalogSources all namespaces may draw from.
    #[arg(long, default_value = "olm")]
    olm_global_namespace: String,
    /// A registry, as host:port, that is spoken to without TLS. May be repeated. Those of the loopback interface always
    /// are.
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
    pub fn apply(&self, builder: Builder) -> Builder {
        if !self.with.contains(&Addition::Olm) {
            return builder;
        }
        builder.olm(OlmOptions {
            global_namespace: self.olm_global_namespace.clone(),
            insecure_registries: self.olm_insecure_registry.clone(),
            layouts: self.olm_layout_dir.clone(),
            registry_ca: self.olm_registry_ca_file.clone(),
        })
    }
}
