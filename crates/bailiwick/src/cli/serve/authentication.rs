//! The flags of `bailiwick serve` that say who gets in.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::bail;
use bailiwick::{
    AuthenticationOptions, BootstrapTokenAuth, CustomSigner, FrontProxyOptions, OidcOptions, ServiceAccountOptions,
    TokenWebhookOptions,
};
use bailiwick_auth::authn::Anonymous;
use bailiwick_auth::authn::front_proxy::FrontProxyHeaders;
use bailiwick_auth::authn::webhook::ReviewVersion;

use crate::cli::duration;

#[derive(clap::Args)]
#[group(skip)]
#[command(next_help_heading = "Authentication")]
pub struct Flags {
    /// CSV file of static bearer tokens: token,user,uid,"group1,group2".
    #[arg(long)]
    token_auth_file: Option<PathBuf>,
    /// PEM bundle of further authorities for client certificates: CN is the user, O the groups.
    #[arg(long)]
    client_ca_file: Option<PathBuf>,
    /// Whether requests without credentials are served as system:anonymous (health and version only); true by default.
    #[arg(long)]
    anonymous_auth: Option<bool>,
    /// AuthenticationConfiguration file: JWT issuers, and where anonymous requests are served. Followed as it changes.
    #[arg(long)]
    authentication_config: Option<PathBuf>,
    /// Whether bootstrap tokens, kept in Secrets of type bootstrap.kubernetes.io/token in kube-system, authenticate
    /// [default: false].
    #[arg(long, num_args = 0..=1, default_missing_value = "true")]
    enable_bootstrap_token_auth: Option<bool>,
    /// Identifiers of this API that tokens must be meant for; by default the service-account issuers.
    #[arg(long, value_delimiter = ',')]
    api_audiences: Vec<String>,
    /// Sign approved certificate requests for this signer name with an authority of its own: NAME=CERTFILE,KEYFILE. May be
    /// repeated.
    #[arg(long)]
    custom_signer: Vec<CustomSigner>,
    #[command(flatten)]
    service_account: ServiceAccountFlags,
    #[command(flatten)]
    oidc: OidcFlags,
    #[command(flatten)]
    webhook: WebhookFlags,
    #[command(flatten)]
    request_header: RequestHeaderFlags,
}

#[derive(clap::Args)]
#[group(skip)]
#[command(next_help_heading = "Service-account tokens")]
struct ServiceAccountFlags {
    /// The issuer named in service-account tokens; by default the URL we serve at, with --etcd-servers
    /// https://kubernetes.default.svc.cluster.local. If given several times, the first issues and all are accepted.
    #[arg(long)]
    service_account_issuer: Vec<String>,
    /// PEM file of keys (public, private or certificates) that check tokens, besides the signing key. May be repeated;
    /// followed as it changes.
    #[arg(long)]
    service_account_key_file: Vec<PathBuf>,
    /// PEM file of the private key that signs tokens, instead of our own. Followed as it changes.
    #[arg(long)]
    service_account_signing_key_file: Option<PathBuf>,
    /// The longest a token may live, such as 24h; longer requests are cut, with a warning.
    #[arg(long, value_parser = duration::parse)]
    service_account_max_token_expiration: Option<Duration>,
    /// Accepted for compatibility: extends only tokens bound to pods, of which there are none.
    #[arg(long)]
    service_account_extend_token_expiration: Option<bool>,
    /// The URL of our key set that the discovery document names, instead of our own address.
    #[arg(long)]
    service_account_jwks_uri: Option<String>,
}

#[derive(clap::Args)]
#[group(skip)]
#[command(next_help_heading = "OpenID Connect")]
struct OidcFlags {
    /// The URL of the OpenID issuer (https).
    #[arg(long)]
    oidc_issuer_url: Option<String>,
    /// The client ID that tokens must be meant for.
    #[arg(long)]
    oidc_client_id: Option<String>,
    /// The claim that is the user name [default: sub].
    #[arg(long)]
    oidc_username_claim: Option<String>,
    /// Put before user names; by default the issuer's URL and #, but nothing for the claim email. - for nothing.
    #[arg(long)]
    oidc_username_prefix: Option<String>,
    /// The claim with the user's groups: a string or a list of them.
    #[arg(long)]
    oidc_groups_claim: Option<String>,
    /// Put before group names.
    #[arg(long)]
    oidc_groups_prefix: Option<String>,
    /// claim=value that a token must have. May be repeated.
    #[arg(long, value_parser = claim_and_value)]
    oidc_required_claim: Vec<(String, String)>,
    /// Signature algorithms that count, of RS, PS 256/384/512 and ES256/384 [default: RS256].
    #[arg(long, value_delimiter = ',')]
    oidc_signing_algs: Vec<String>,
    /// PEM bundle that vouches for the provider, instead of what this machine trusts.
    #[arg(long)]
    oidc_ca_file: Option<PathBuf>,
}

#[derive(clap::Args)]
#[group(skip)]
#[command(next_help_heading = "Token webhook")]
struct WebhookFlags {
    /// kubeconfig of a service that is asked about bearer tokens by TokenReviews.
    #[arg(long)]
    authentication_token_webhook_config_file: Option<PathBuf>,
    /// The version of TokenReview to send: v1 or v1beta1.
    #[arg(long, default_value = "v1beta1")]
    authentication_token_webhook_version: String,
    /// How long its answers hold.
    #[arg(long, default_value = "2m0s", value_parser = duration::parse)]
    authentication_token_webhook_cache_ttl: Duration,
}

#[derive(clap::Args)]
#[group(skip)]
#[command(next_help_heading = "Front proxy")]
struct RequestHeaderFlags {
    /// PEM bundle of authorities for the client certificate of a proxy whose headers name the user.
    #[arg(long)]
    requestheader_client_ca_file: Option<PathBuf>,
    /// Common names that certificate may have; any by default.
    #[arg(long, value_delimiter = ',')]
    requestheader_allowed_names: Vec<String>,
    /// Headers to look for the user name in; X-Remote-User is common.
    #[arg(long, value_delimiter = ',')]
    requestheader_username_headers: Vec<String>,
    /// Headers to look for the uid in; X-Remote-Uid is suggested.
    #[arg(long, value_delimiter = ',')]
    requestheader_uid_headers: Vec<String>,
    /// Headers to look for groups in; X-Remote-Group is suggested.
    #[arg(long, value_delimiter = ',')]
    requestheader_group_headers: Vec<String>,
    /// Prefixes of headers with extra values; X-Remote-Extra- is suggested.
    #[arg(long, value_delimiter = ',')]
    requestheader_extra_headers_prefix: Vec<String>,
}

fn claim_and_value(text: &str) -> Result<(String, String), String> {
    let (claim, value) =
        text.split_once('=').ok_or_else(|| format!("malformed pair, expect string=string: {text:?}"))?;
    Ok((claim.trim().to_owned(), value.trim().to_owned()))
}

impl Flags {
    pub fn options(&self) -> anyhow::Result<AuthenticationOptions> {
        let accounts = &self.service_account;
        Ok(AuthenticationOptions {
            token_auth_file: self.token_auth_file.clone(),
            client_ca_file: self.client_ca_file.clone(),
            api_audiences: self.api_audiences.clone(),
            service_accounts: ServiceAccountOptions {
                issuers: accounts.service_account_issuer.clone(),
                key_files: accounts.service_account_key_file.clone(),
                signing_key_file: accounts.service_account_signing_key_file.clone(),
                max_token_expiration: accounts.service_account_max_token_expiration,
                jwks_uri: accounts.service_account_jwks_uri.clone(),
            },
            bootstrap_tokens: match self.enable_bootstrap_token_auth {
                Some(true) => BootstrapTokenAuth::On,
                _ => BootstrapTokenAuth::Off,
            },
            oidc: self.oidc.options()?,
            configuration: self.authentication_config.clone(),
            webhook: self.webhook.options()?,
            front_proxy: self.request_header.options()?,
            custom_signers: self.custom_signer.clone(),
            anonymous: self.anonymous_auth.map(|on| if on { Anonymous::Allowed } else { Anonymous::Refused }),
        })
    }
}

impl OidcFlags {
    fn options(&self) -> anyhow::Result<Option<OidcOptions>> {
        let texts = [
            &self.oidc_issuer_url,
            &self.oidc_client_id,
            &self.oidc_username_claim,
            &self.oidc_username_prefix,
            &self.oidc_groups_claim,
            &self.oidc_groups_prefix,
        ];
        let lists = !self.oidc_required_claim.is_empty() || !self.oidc_signing_algs.is_empty();
        if texts.into_iter().all(Option::is_none) && !lists && self.oidc_ca_file.is_none() {
            return Ok(None);
        }
        let (Some(issuer_url), Some(client_id)) = (self.oidc_issuer_url.clone(), self.oidc_client_id.clone()) else {
            bail!("oidc-issuer-url and oidc-client-id must be specified together when any oidc-* flags are set");
        };
        Ok(Some(OidcOptions {
            issuer_url,
            client_id,
            username_claim: self.oidc_username_claim.clone().unwrap_or_else(|| "sub".to_owned()),
            username_prefix: self.oidc_username_prefix.clone().unwrap_or_default(),
            groups_claim: self.oidc_groups_claim.clone().unwrap_or_default(),
            groups_prefix: self.oidc_groups_prefix.clone().unwrap_or_default(),
            required_claims: self.oidc_required_claim.clone(),
            signing_algorithms: self.oidc_signing_algs.clone(),
            ca_file: self.oidc_ca_file.clone(),
        }))
    }
}

impl WebhookFlags {
    fn options(&self) -> anyhow::Result<Option<TokenWebhookOptions>> {
        let Some(config_file) = self.authentication_token_webhook_config_file.clone() else { return Ok(None) };
        let version =
            ReviewVersion::from_name(&self.authentication_token_webhook_version).map_err(anyhow::Error::msg)?;
        Ok(Some(TokenWebhookOptions { config_file, version, cache_ttl: self.authentication_token_webhook_cache_ttl }))
    }
}

impl RequestHeaderFlags {
    fn options(&self) -> anyhow::Result<Option<FrontProxyOptions>> {
        let headers = FrontProxyHeaders {
            allowed_names: self.requestheader_allowed_names.clone(),
            username_headers: self.requestheader_username_headers.clone(),
            uid_headers: self.requestheader_uid_headers.clone(),
            group_headers: self.requestheader_group_headers.clone(),
            extra_header_prefixes: self.requestheader_extra_headers_prefix.clone(),
        };
        match self.requestheader_client_ca_file.clone() {
            Some(client_ca_file) => Ok(Some(FrontProxyOptions { client_ca_file, headers })),
            None if headers == FrontProxyHeaders::default() => Ok(None),
            None => bail!("--requestheader-* flags need --requestheader-client-ca-file"),
        }
    }
}
