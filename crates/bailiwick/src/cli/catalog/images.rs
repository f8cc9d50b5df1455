//! How commands reach images: the flags, and the client they describe.

use std::path::PathBuf;

use anyhow::Context;
use bailiwick_catalog::oci::{BlobCache, Credentials, Images, Registry, RegistryOptions};

#[derive(clap::Args, Clone, Debug, Default)]
pub struct ImageArgs {
    /// Use plain HTTP for registries.
    #[arg(long)]
    use_http: bool,
    /// opm's old name of --use-http.
    #[arg(long, hide = true)]
    skip_tls: bool,
    /// Do not check the certificates of registries.
    #[arg(long)]
    skip_tls_verify: bool,
    /// A file with the certificate authority of a registry, in PEM.
    #[arg(long, alias = "root-ca", value_name = "FILE")]
    registry_ca: Option<PathBuf>,
    /// Where pulled layers are kept [default: the user's cache directory].
    #[arg(long, value_name = "DIR")]
    image_cache: Option<PathBuf>,
}

/// The flags of [`ImageArgs`] that opm has for all its commands: they are understood before the verb, and after verbs that
/// read no images. Under these names clap hands them on to whoever has them.
pub fn persistent_flags() -> [clap::Arg; 3] {
    let flags = [("use_http", "use-http"), ("skip_tls", "skip-tls"), ("skip_tls_verify", "skip-tls-verify")];
    flags.map(|(id, long)| clap::Arg::new(id).long(long).action(clap::ArgAction::SetTrue).global(true).hide(true))
}

impl ImageArgs {
    /// A client with the user's own credentials.
    pub fn images(&self) -> anyhow::Result<Images> {
        let ca = match &self.registry_ca {
            Some(path) => Some(std::fs::read(path).with_context(|| path.display().to_string())?),
            None => None,
        };
        let options = RegistryOptions {
            // As in opm, the two that say what is meant go before the old one.
            plain_http: self.use_http || (self.skip_tls && !self.skip_tls_verify),
            skip_tls_verify: self.skip_tls_verify,
            ca,
            ..RegistryOptions::default()
        };
        let registry = Registry::new(&options, Credentials::from_environment())?;
        let cache = self.image_cache.as_deref().map_or_else(BlobCache::of_user, BlobCache::new);
        Ok(Images::new(registry, cache))
    }
}
