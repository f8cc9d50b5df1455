//! Operators from catalogs as a part of the control plane: the options, and the service they make.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;

use bailiwick_controllers::LeaderElection;
use bailiwick_domains::dial::not_public;
use bailiwick_olm::{Announcement, GLOBAL_NAMESPACE, Guard, PackageServer};
use bailiwick_webhook::dial::{Cidr, DialPolicy, Origin};
use bailiwick_webhook::services::{Location, ServiceEndpoint};

use super::{Aggregation, Builder, Error, StoreOptions, read};
use crate::services::{Service, ServiceContext};

/// How operators are installed from catalogs.
#[derive(Clone, Debug)]
pub struct OlmOptions {
    /// The namespace whose CatalogSources all namespaces may draw from.
    pub global_namespace: String,
    /// Addresses that are not public at which registries, and other servers of catalogs, may be all the same.
    pub allow_cidrs: Vec<Cidr>,
    /// Registries, as `host:port`, that are spoken to without TLS and may be anywhere; those of the loopback interface are
    /// always spoken to without TLS.
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
            allow_cidrs: Vec::new(),
            insecure_registries: Vec::new(),
            layouts: Vec::new(),
            registry_ca: None,
        }
    }
}

impl OlmOptions {
    /// The service that was asked for, with its files below `directory`. Addresses in `deny` are not called, whatever
    /// else is said.
    pub fn service(&self, directory: impl Into<PathBuf>, deny: &[Cidr]) -> Result<bailiwick_olm::Options, Error> {
        let mut options = bailiwick_olm::Options::new(directory, self.guard(deny));
        options.global_namespace = self.global_namespace.clone();
        options.pull.insecure_registries = self.insecure_registries.clone();
        options.pull.layouts = self.layouts.clone();
        options.pull.registry_ca = self.registry_ca.as_deref().map(read).transpose()?.map(String::into_bytes);
        Ok(options)
    }

    /// Who may write a CatalogSource makes the server call addresses: only public ones, and those the operator allows.
    fn guard(&self, deny: &[Cidr]) -> Guard {
        let policy = DialPolicy::new(&self.allow_cidrs, deny, Vec::new());
        let allowed = self.allow_cidrs.clone();
        Guard::new(move |address| {
            policy.check(SocketAddr::new(address, 0)).map_err(|denied| denied.kind().to_owned())?;
            match not_public(address) {
                Some(kind) if !allowed.iter().any(|range| range.contains(address.to_canonical())) => {
                    Err(kind.to_owned())
                }
                _ => Ok(()),
            }
        })
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
        let mut options = wanted.service(self.data_dir.join("olm"), &self.webhooks.deny_cidrs)?;
        if matches!(self.store, StoreOptions::Etcd(_)) {
            let metrics = self.parts.controller_metrics.clone();
            options.election = Some(LeaderElection { metrics, ..LeaderElection::named(bailiwick_olm::LEASE) });
        }
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
                locations: Location { host: Ipv4Addr::LOCALHOST.to_string(), port, origin: Origin::Operator }.into(),
            });
            options.package_server = Some(PackageServer { listener, announcement: Announcement::Mapped });
        }
        let metrics = self.parts.controller_metrics.clone();
        let work = move |mut context: ServiceContext| async move {
            let running =
                bailiwick_olm::run(context.client.clone(), options, async move { context.shutdown.wait().await });
            metrics.scope(running).await?;
            Ok(())
        };
        self.parts.services.push(Service::new("olm", work));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_public_addresses_are_called_unless_the_operator_allows_others() {
        let refused = |allow: &[&str], deny: &[&str], address: &str| {
            let ranges = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<Cidr>>();
            let options = OlmOptions { allow_cidrs: ranges(allow), ..OlmOptions::default() };
            options.guard(&ranges(deny)).check("registry", address.parse().unwrap()).is_err()
        };
        for address in ["10.1.2.3", "127.0.0.1", "192.168.0.9", "169.254.169.254", "::1", "fd00::1", "::ffff:10.1.2.3"]
        {
            assert!(refused(&[], &[], address), "{address}");
        }
        assert!(!refused(&[], &[], "93.184.216.34") && !refused(&[], &[], "2606:4700::1111"));
        assert!(!refused(&["10.0.0.0/8"], &[], "10.1.2.3") && refused(&["10.0.0.0/8"], &[], "192.168.0.9"));
        assert!(!refused(&["10.0.0.0/8"], &[], "::ffff:10.1.2.3"));
        // Metadata services are not meant by whoever allows everything.
        assert!(refused(&["0.0.0.0/0"], &[], "169.254.169.254") && !refused(&["0.0.0.0/0"], &[], "10.1.2.3"));
        assert!(refused(&["10.0.0.0/8"], &["10.9.0.0/16"], "10.9.0.1"));
        assert!(refused(&[], &["93.184.216.0/24"], "93.184.216.34"));
    }
}
