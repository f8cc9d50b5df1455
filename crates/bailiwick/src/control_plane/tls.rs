//! How connections are protected: the options, the TLS configuration they make, and what keeps it current while the
//! server runs: files that others replace are read again, our own certificates are renewed before they end.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use bailiwick_auth::authn::x509::ClientRoots;
use bailiwick_auth::pki::{Pki, ServingName, ServingNames, default_route_addresses};
use bailiwick_auth::tls::{self, Protocols};
use http::HeaderValue;
use jiff::Timestamp;
use rustls::{RootCertStore, ServerConfig};
use tokio::task::JoinHandle;

use super::{AuthenticationOptions, Error, reachable, read};

/// How often files are looked at.
const RELOAD_PERIOD: Duration = Duration::from_secs(10);
/// How often our own certificates are looked at: they last a year and are renewed two months before.
const RENEWAL_CHECK_SECONDS: i64 = 3600;

/// What is served with.
#[derive(Clone, Debug)]
pub struct TlsOptions {
    /// Certificate and key to serve with, instead of our own.
    pub serving_certificate: Option<(PathBuf, PathBuf)>,
    /// The address that clients are told to come to. Without one it is the address that is listened on, and where those are
    /// all, the one towards the default route.
    pub advertise_address: Option<IpAddr>,
    /// Further names and addresses that our own certificate is for.
    pub further_names: Vec<ServingName>,
    /// Versions and cipher suites.
    pub protocols: Protocols,
    /// What browsers are told about HTTPS, such as `max-age=31536000`; nothing if empty.
    pub strict_transport_security_directives: Vec<String>,
    /// How often certificate files are looked at for changes.
    pub reload_period: Duration,
}

impl Default for TlsOptions {
    fn default() -> Self {
        Self {
            serving_certificate: None,
            advertise_address: None,
            further_names: Vec::new(),
            protocols: Protocols::default(),
            strict_transport_security_directives: Vec::new(),
            reload_period: RELOAD_PERIOD,
        }
    }
}

impl TlsOptions {
    /// The configuration of the listener; clients may show a certificate that `client_roots` vouch for.
    pub(super) fn build(&self, pki: &Pki, client_roots: &RootCertStore) -> Result<ServerConfig, Error> {
        let (certificate, key) = self.serving(pki)?;
        Ok(tls::server_config(&certificate, &key, client_roots, &self.protocols)?)
    }

    /// What our own certificate is for when `ip` is listened on.
    pub(super) fn serving_names(&self, ip: IpAddr) -> ServingNames {
        let told = self.advertise_address.map(ServingName::Ip).into_iter().chain(self.further_names.iter().cloned());
        told.fold(ServingNames::default().with_listening(ip).with_own_hostname(), ServingNames::with)
    }

    /// Where documents tell clients to come when `address` is listened on.
    pub(super) fn advertised(&self, address: SocketAddr) -> SocketAddr {
        let own = || match address.ip().is_unspecified() {
            true => default_route_addresses(address.ip()).first().copied(),
            false => None,
        };
        let ip = self.advertise_address.or_else(own);
        ip.map_or_else(|| reachable(address), |ip| SocketAddr::new(ip, address.port()))
    }

    /// The value of the `Strict-Transport-Security` header; none if there are no directives.
    pub(super) fn strict_transport_security(&self) -> Result<Option<HeaderValue>, Error> {
        let known = |directive: &str| {
            matches!(directive, "includeSubDomains" | "preload")
                || directive.strip_prefix("max-age=").is_some_and(|age| age.parse::<u64>().is_ok())
        };
        if let Some(unknown) = self.strict_transport_security_directives.iter().find(|directive| !known(directive)) {
            return Err(Error::StrictTransportSecurity(unknown.clone()));
        }
        let value = self.strict_transport_security_directives.join("; ");
        Ok(HeaderValue::from_str(&value).ok().filter(|value| !value.is_empty()))
    }

    fn serving(&self, pki: &Pki) -> Result<(String, String), Error> {
        Ok(match &self.serving_certificate {
            Some((certificate, key)) => (read(certificate)?, read(key)?),
            None => (pki.serving.certificate_pem.clone(), pki.serving.key_pem.clone()),
        })
    }
}

/// What the certificates in use come from, and where they are used.
pub(super) struct Certificates {
    pub options: TlsOptions,
    pub authentication: AuthenticationOptions,
    pub pki_dir: PathBuf,
    pub names: ServingNames,
    pub pki: Pki,
    pub kubeconfig: PathBuf,
    pub url: String,
    pub config: Arc<ArcSwap<ServerConfig>>,
    pub client_roots: ClientRoots,
    /// What was last put to use.
    in_use: Option<InUse>,
    renewal_checked: Timestamp,
}

#[derive(PartialEq, Eq)]
struct InUse {
    certificate: String,
    key: String,
    client_cas: Option<String>,
    own_ca: String,
}

/// Where certificates are used and where they come from.
pub(super) struct Places<'a> {
    pub pki_dir: PathBuf,
    pub kubeconfig: &'a Path,
    pub url: &'a str,
}

impl Certificates {
    /// Remembers what is in use now.
    pub(super) fn new(
        options: &TlsOptions,
        authentication: &AuthenticationOptions,
        places: Places<'_>,
        names: ServingNames,
        pki: &Pki,
        config: Arc<ArcSwap<ServerConfig>>,
        client_roots: ClientRoots,
    ) -> Self {
        let mut certificates = Self {
            options: options.clone(),
            authentication: authentication.clone(),
            pki_dir: places.pki_dir,
            names,
            pki: pki.clone(),
            kubeconfig: places.kubeconfig.to_owned(),
            url: places.url.to_owned(),
            config,
            client_roots,
            in_use: None,
            renewal_checked: Timestamp::now(),
        };
        certificates.in_use = certificates.wanted().ok();
        certificates
    }

    fn wanted(&self) -> Result<InUse, Error> {
        let (certificate, key) = self.options.serving(&self.pki)?;
        let client_cas = self.authentication.client_ca_file.as_deref().map(read).transpose()?;
        Ok(InUse { certificate, key, client_cas, own_ca: self.pki.ca_pem.clone() })
    }

    /// Renews what nears its end and puts to use what has changed. What cannot be used, such as a certificate whose key
    /// is still being written, is left for the next time.
    pub(super) fn refresh(&mut self, now: Timestamp) -> Result<Refreshed, Error> {
        if now.as_second() - self.renewal_checked.as_second() >= RENEWAL_CHECK_SECONDS {
            let pki = Pki::ensure(&self.pki_dir, &self.names, now)?;
            if pki.admin.certificate_pem != self.pki.admin.certificate_pem || pki.ca_pem != self.pki.ca_pem {
                pki.write_admin_kubeconfig(&self.kubeconfig, &self.url)?;
            }
            self.pki = pki;
            self.renewal_checked = now;
        }
        let wanted = self.wanted()?;
        if self.in_use.as_ref() == Some(&wanted) {
            return Ok(Refreshed::Nothing);
        }
        let roots = self.authentication.client_roots(&self.pki)?;
        self.config.store(Arc::new(self.options.build(&self.pki, &roots)?));
        self.client_roots.replace(Arc::new(roots))?;
        self.in_use = Some(wanted);
        Ok(Refreshed::Certificates)
    }

    /// Refreshes from now on, until dropped.
    pub(super) fn keep_current(mut self) -> Kept {
        let period = self.options.reload_period;
        let task = tokio::spawn(async move {
            let mut ticks = tokio::time::interval(period);
            ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            loop {
                ticks.tick().await;
                // Small files, but on whatever disk they are.
                let refreshed = tokio::task::spawn_blocking(move || {
                    let outcome = self.refresh(Timestamp::now());
                    (self, outcome)
                });
                let Ok((certificates, outcome)) = refreshed.await else { return };
                self = certificates;
                match outcome {
                    Ok(Refreshed::Nothing) => {}
                    Ok(Refreshed::Certificates) => tracing::info!("certificates were replaced"),
                    Err(error) => tracing::warn!(%error, "certificates stay as they are"),
                }
            }
        });
        Kept(task)
    }
}

/// What a refresh put to use.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refreshed {
    Nothing,
    Certificates,
}

/// The task that keeps certificates current; ends when dropped.
pub(super) struct Kept(JoinHandle<()>);

impl Kept {
    /// Ends and waits until it has.
    pub(super) async fn stop(mut self) {
        self.0.abort();
        // It was told to end; how it did does not matter.
        let _ = (&mut self.0).await;
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[cfg(test)]
mod tests;
