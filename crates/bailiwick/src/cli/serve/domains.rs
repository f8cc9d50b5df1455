//! The flags of `bailiwick serve` for domains as objects.

use std::sync::Arc;

use anyhow::Context;
use bailiwick::{Builder, Service, StoreOptions};
use bailiwick_controllers::LeaderElection;
use bailiwick_domains::name::DomainName;
use bailiwick_domains::seams::{Roots, SystemClock};
use bailiwick_domains_controller::{LEASE, Options};

#[derive(clap::Args)]
#[group(skip)]
#[command(next_help_heading = "Domains")]
pub struct Flags {
    /// The name in the records that prove ownership: `_<brand>-challenge.<domain>`.
    #[arg(long, default_value = "bailiwick")]
    domains_brand: String,
    /// Domains of one tenant (a namespace of the root, or a project) that are watched over.
    #[arg(long, default_value_t = 1_000, alias = "domains-per-namespace")]
    domains_per_tenant: usize,
    /// DomainChecks of one tenant that are kept at a time.
    #[arg(long, default_value_t = 1_000)]
    domain_checks_per_tenant: usize,
    /// DomainChecks that one tenant may have run in a minute; further ones wait.
    #[arg(long, default_value_t = 60)]
    domain_checks_per_minute: u32,
    /// The zone of ours that challenges may be delegated to by CNAME.
    #[arg(long, value_name = "ZONE")]
    domains_delegation_zone: Option<String>,
    /// The zone of ours that has a nameserver for each token: a domain that is delegated to `<token>.<zone>` is proved.
    #[arg(long, value_name = "ZONE")]
    domains_nameserver_zone: Option<String>,
}

impl Flags {
    /// Adds Domain objects and what watches over them, on a server with this store.
    pub fn add(&self, builder: Builder, store: &StoreOptions) -> anyhow::Result<Builder> {
        let roots = Roots::from_environment().context("domains")?;
        let zone = |text: &Option<String>| text.as_deref().map(DomainName::parse).transpose();
        let delegation_zone = zone(&self.domains_delegation_zone).context("--domains-delegation-zone")?;
        let nameserver_zone = zone(&self.domains_nameserver_zone).context("--domains-nameserver-zone")?;
        let options = Options {
            brand: self.domains_brand.clone(),
            domains_per_tenant_max: self.domains_per_tenant,
            checks_per_tenant_max: self.domain_checks_per_tenant,
            checks_per_minute: self.domain_checks_per_minute,
            delegation_zone,
            election: election(store),
            nameserver_zone,
            ..Options::new(Arc::new(SystemClock), Arc::new(roots))
        };
        let metrics = options.metrics.clone();
        let service = Service::new("domains", |context| async move {
            let mut shutdown = context.shutdown;
            let told_to_end = async move { shutdown.wait().await };
            Ok(bailiwick_domains_controller::run(context.client, options, told_to_end).await?)
        });
        Ok(builder.service(service.with_metrics(move |text| metrics.append(text))))
    }
}

/// Servers on one etcd are several: one of them watches over domains, so that nobody is asked or told twice.
fn election(store: &StoreOptions) -> Option<LeaderElection> {
    matches!(store, StoreOptions::Etcd(_)).then(|| LeaderElection::named(LEASE))
}

#[cfg(test)]
mod tests {
    use bailiwick_store::{embedded, etcd};

    use super::*;

    #[test]
    fn of_servers_on_one_etcd_one_is_elected_and_a_server_alone_needs_no_election() {
        assert!(election(&StoreOptions::Embedded(embedded::Options::default())).is_none());
        let etcd = StoreOptions::Etcd(etcd::Options::new(["http://127.0.0.1:2379".to_owned()]));
        assert_eq!(election(&etcd).map(|election| election.name).as_deref(), Some("bailiwick-domains"));
    }
}
