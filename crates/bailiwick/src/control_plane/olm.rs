//! Operators from catalogs as a part of the control plane: the options, and the service they make.

use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;

use bailiwick_olm::{Announcement, GLOBAL_NAMESPACE, PackageServer, PullOptions};
use bailiwick_webhook::dial::Origin;
use bailiwick_webhook::services::{Location, ServiceEndpoint};

use super::{Aggregation, Builder, Error, read};
use crate::services::{Service, ServiceContext};

/// How operators are installed from catalogs.
#[derive(Clone, Debug)]
pub struct OlmOptions {
    /// The namespace whose CatalogSources all namespaces may draw from.
    pub global_namespace: String,
    /// Registries, as `host:port`, that are spoken to without TLS; those of the loopback interface always are.
    pub insecure_registries: Vec<String>,
    /// Directories below which image layouts may be read.
    pub layouts: Vec<PathBuf>,
    /// A file with the certificate authorities of registries, besides those of the machine.
    pub registry_ca: Option<PathBuf>,
}

impl Default for OlmOptions {
    fn default() -> Self {
        Self {
            global_namespace: GLOBAL_NAMESPACE.to_owned(),
            insecure_registries: Vec::new(),
            layouts: Vec::new(),
            registry_ca: None,
        }
    }
}

impl Builder {
    /// Serves OLM's kinds and installs operators from catalogs. Without it there is nothing of them.
    #[must_use]
    pub fn olm(mut self, options: OlmOptions) -> Self {
        self.parts.olm = Some(options);
        self
    }

    /// Makes the service that was asked for, before anything is opened.
    pub(super) fn mount_olm(&mut self) -> Result<(), Error> {
        let Some(wanted) = self.parts.olm.take() else { return Ok(()) };
        let mut options = bailiwick_olm::Options::new(self.data_dir.join("olm"));
        options.global_namespace = wanted.global_namespace;
        let registry_ca = wanted.registry_ca.as_deref().map(read).transpose()?.map(String::into_bytes);
        options.pull =
            PullOptions { insecure_registries: wanted.insecure_registries, layouts: wanted.layouts, registry_ca };
        if matches!(self.aggregation, Aggregation::On(_)) {
            let address = (Ipv4Addr::LOCALHOST, 0);
            let listen = |source| Error::Listen { address: address.into(), source };
            let listener = TcpListener::bind(address).map_err(listen)?;
            let port = listener.local_addr().map_err(listen)?.port();
            // We chose the place ourselves, so no rule of tenants' addresses is in its way.
            self.service_endpoints.push(ServiceEndpoint {
                namespace: options.global_namespace.clone(),
                name: bailiwick_olm::PACKAGE_SERVICE.to_owned(),
                port: None,
                location: Location { host: Ipv4Addr::LOCALHOST.to_string(), port, origin: Origin::Operator },
            });
            options.package_server = Some(PackageServer { listener, announcement: Announcement::Mapped });
        }
        let work = move |mut context: ServiceContext| async move {
            bailiwick_olm::run(context.client.clone(), options, async move { context.shutdown.wait().await }).await?;
            Ok(())
        };
        self.parts.services.push(Service::new("olm", work));
        Ok(())
    }
}
