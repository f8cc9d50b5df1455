//! How requests are authenticated: the options, and the authenticators and the token issuer they make.

mod oidc;
mod service_account;
mod signers;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bailiwick_auth::authn::bootstrap::BootstrapTokens;
use bailiwick_auth::authn::front_proxy::{FrontProxy, FrontProxyHeaders};
use bailiwick_auth::authn::service_account::ServiceAccountTokens;
use bailiwick_auth::authn::token_file::TokenFile;
use bailiwick_auth::authn::webhook::{self, ReviewVersion, TokenWebhook};
use bailiwick_auth::authn::x509::{ClientCertificates, ClientRoots};
use bailiwick_auth::authn::{Anonymous, Authenticator, RemoteAuthenticator, RequestAuthenticator};
use bailiwick_auth::keys::TokenKeys;
use bailiwick_auth::pki::Pki;
use bailiwick_auth::service_account::TokenIssuer;
use bailiwick_auth::tls;
use bailiwick_controllers::Signing;
use bailiwick_server::StoredObjects;
use bailiwick_webhook::{Endpoint, Webhook};
use rustls::RootCertStore;

pub use oidc::OidcOptions;
pub use service_account::ServiceAccountOptions;
pub use signers::CustomSigner;

use super::composition::Parts;
use super::{Error, read};
use crate::authentication_trust::Trust;
use crate::background::Background;

/// Who gets in.
#[derive(Clone, Debug, Default)]
pub struct AuthenticationOptions {
    /// A CSV file of static tokens.
    pub token_auth_file: Option<PathBuf>,
    /// A PEM bundle of authorities for client certificates, besides our own.
    pub client_ca_file: Option<PathBuf>,
    /// What tokens must be meant for; the issuers of service-account tokens if empty.
    pub api_audiences: Vec<String>,
    pub service_accounts: ServiceAccountOptions,
    /// Whether Secrets of type `bootstrap.kubernetes.io/token` in kube-system let their bearers in.
    pub bootstrap_tokens: BootstrapTokenAuth,
    /// One issuer of OpenID Connect tokens; not together with `configuration`.
    pub oidc: Option<OidcOptions>,
    /// A file with an AuthenticationConfiguration: issuers, and who may come without credentials. Read again when it
    /// changes.
    pub configuration: Option<PathBuf>,
    /// Somebody else who knows tokens.
    pub webhook: Option<TokenWebhookOptions>,
    /// A proxy that says who its users are.
    pub front_proxy: Option<FrontProxyOptions>,
    /// Signers of certificates besides those of upstream.
    pub custom_signers: Vec<CustomSigner>,
    /// What becomes of requests without credentials; served as `system:anonymous` if neither this nor the
    /// configuration says anything.
    pub anonymous: Option<Anonymous>,
}

/// What bootstrap tokens are worth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BootstrapTokenAuth {
    On,
    /// Nothing, as upstream by default.
    #[default]
    Off,
}

/// A webhook that is asked about tokens.
#[derive(Clone, Debug)]
pub struct TokenWebhookOptions {
    /// A kubeconfig that says where it is.
    pub config_file: PathBuf,
    pub version: ReviewVersion,
    /// How long its answers hold.
    pub cache_ttl: Duration,
}

/// An authenticating proxy.
#[derive(Clone, Debug)]
pub struct FrontProxyOptions {
    /// A PEM bundle of authorities for the proxy's client certificate.
    pub client_ca_file: PathBuf,
    pub headers: FrontProxyHeaders,
}

/// What the options make.
pub(super) struct Authentication {
    pub authenticator: RequestAuthenticator,
    pub issuer: Arc<TokenIssuer>,
    /// Keys that verify our tokens.
    pub token_keys: Arc<TokenKeys>,
    /// What aggregated servers are told of whom we trust.
    pub trust: Trust,
    /// Watches files.
    pub background: Vec<Background>,
    /// What client certificates are verified by.
    pub client_roots: ClientRoots,
}

impl AuthenticationOptions {
    /// The authorities that may vouch for a client.
    pub(super) fn client_roots(&self, pki: &Pki) -> Result<RootCertStore, Error> {
        let mut roots = RootCertStore::empty();
        tls::add_roots(&mut roots, "own CA", &pki.ca_pem)?;
        if let Some(path) = &self.client_ca_file {
            tls::add_roots(&mut roots, "--client-ca-file", &read(path)?)?;
        }
        Ok(roots)
    }

    /// Puts the authenticators together, for a server that is reached at `url`; the caller's `own` are asked last.
    pub(super) fn build(
        &self,
        pki: &Pki,
        lookup: &Arc<StoredObjects>,
        roots: RootCertStore,
        url: &str,
        own: &mut Parts,
    ) -> Result<Authentication, Error> {
        let issuers = self.service_accounts.issuers(url)?;
        let audiences: Arc<[String]> =
            if self.api_audiences.is_empty() { issuers.clone().into() } else { self.api_audiences.clone().into() };
        let mut background = Vec::new();
        let mut local: Vec<Box<dyn Authenticator>> = Vec::new();
        if let Some(proxy) = &self.front_proxy {
            local.push(Box::new(self.front_proxy(proxy, &roots, &audiences)?));
        }
        let certificates = ClientCertificates::new(Arc::new(roots))?;
        let client_roots = certificates.roots();
        local.push(Box::new(certificates));
        if let Some(path) = &self.token_auth_file {
            local.push(Box::new(TokenFile::load(path, audiences.to_vec())?));
        }
        let (issuer, token_keys) = self.service_accounts.keys(pki, &issuers, &audiences, &mut background)?;
        local.push(Box::new(ServiceAccountTokens::new(
            issuers.iter().cloned(),
            token_keys.clone(),
            audiences.clone(),
            lookup.clone(),
        )));
        if self.bootstrap_tokens == BootstrapTokenAuth::On {
            local.push(Box::new(BootstrapTokens::new(lookup.clone(), audiences.clone())));
        }
        local.append(&mut own.authenticators);
        let mut remote: Vec<Arc<dyn RemoteAuthenticator>> = Vec::new();
        let anonymous = self.issuers_and_anonymous(&issuers, &audiences, &mut remote, &mut background)?;
        if let Some(options) = &self.webhook {
            remote.push(Arc::new(options.build(&audiences)?));
        }
        remote.append(&mut own.remote_authenticators);
        Ok(Authentication {
            authenticator: RequestAuthenticator::new(local, anonymous).with_remote(remote),
            issuer,
            token_keys,
            trust: self.trust(pki)?,
            background,
            client_roots,
        })
    }

    /// Who signs approved certificate requests.
    pub(super) fn signing(&self, pki: &Pki) -> Result<Signing, Error> {
        let custom: Result<_, _> = self.custom_signers.iter().map(CustomSigner::load).collect();
        Ok(Signing { authority: pki.authority.clone(), custom: custom? })
    }

    fn front_proxy(
        &self,
        proxy: &FrontProxyOptions,
        clients: &RootCertStore,
        audiences: &Arc<[String]>,
    ) -> Result<FrontProxy, Error> {
        let mut roots = RootCertStore::empty();
        tls::add_roots(&mut roots, "--requestheader-client-ca-file", &read(&proxy.client_ca_file)?)?;
        let overlap = roots.roots.iter().any(|root| clients.roots.contains(root));
        if overlap && proxy.headers.allowed_names.is_empty() {
            return Err(Error::Authentication(
                "--requestheader-client-ca-file and --client-ca-file contain overlapping certificates; --requestheader-allowed-names must be specified to ensure regular client certificates cannot set authenticating proxy headers for arbitrary users".into(),
            ));
        }
        FrontProxy::new(proxy.headers.clone(), Arc::new(roots), audiences.clone())
            .map_err(|error| Error::Authentication(error.to_string()))
    }

    fn trust(&self, pki: &Pki) -> Result<Trust, Error> {
        let mut clients = pki.ca_pem.clone();
        if let Some(path) = &self.client_ca_file {
            clients.push_str(&read(path)?);
        }
        let mut trust = BTreeMap::from([("client-ca-file".to_owned(), clients)]);
        if let Some(proxy) = &self.front_proxy {
            let headers = &proxy.headers;
            for (key, names) in [
                ("requestheader-username-headers", &headers.username_headers),
                ("requestheader-uid-headers", &headers.uid_headers),
                ("requestheader-group-headers", &headers.group_headers),
                ("requestheader-extra-headers-prefix", &headers.extra_header_prefixes),
                ("requestheader-allowed-names", &headers.allowed_names),
            ] {
                if key != "requestheader-uid-headers" || !names.is_empty() {
                    trust.insert(key.to_owned(), serde_json::Value::from(names.as_slice()).to_string());
                }
            }
            trust.insert("requestheader-client-ca-file".to_owned(), read(&proxy.client_ca_file)?);
        }
        Ok(trust)
    }
}

impl TokenWebhookOptions {
    fn build(&self, audiences: &Arc<[String]>) -> Result<TokenWebhook, Error> {
        let failed = |error: &dyn std::fmt::Display| {
            Error::Authentication(format!("--authentication-token-webhook-config-file: {error}"))
        };
        let endpoint = Endpoint::from_kubeconfig(&self.config_file).map_err(|error| failed(&error))?;
        let webhook = Webhook::at(endpoint, webhook::CALL_TIMEOUT).map_err(|error| failed(&error))?;
        Ok(TokenWebhook::new(webhook, self.version, audiences.clone(), self.cache_ttl))
    }
}
