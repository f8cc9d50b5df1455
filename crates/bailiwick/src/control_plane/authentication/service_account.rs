//! Service-account tokens: who issues them, which keys sign and check them. Key files are read again when they change.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bailiwick_auth::keys::{SigningKey, TokenKeys, VerifyingKey};
use bailiwick_auth::pki::Pki;
use bailiwick_auth::service_account::TokenIssuer;

use super::super::{Error, StoreOptions, read};
use crate::background::{Background, ChangedFiles};

/// The shortest and longest lifetime that may be set as the greatest; upstream's values.
const MAX_EXPIRATION_SECONDS: std::ops::RangeInclusive<u64> = 60 * 60..=1 << 32;

/// How service-account tokens are made and checked.
#[derive(Clone, Debug, Default)]
pub struct ServiceAccountOptions {
    /// The first is the `iss` of tokens we issue, all are accepted. If empty, our own URL, or with etcd a name that all
    /// servers share.
    pub issuers: Vec<String>,
    /// PEM files with keys (public ones, private ones or certificates) that check tokens, besides the one that signs.
    pub key_files: Vec<PathBuf>,
    /// A PEM file with the key that signs; our own if not set.
    pub signing_key_file: Option<PathBuf>,
    /// The longest a token may live.
    pub max_token_expiration: Option<Duration>,
    /// Where others find our keys, if not at our own address.
    pub jwks_uri: Option<String>,
}

/// What servers on one etcd call themselves in tokens if nothing is said, as kubeadm's do: their own URLs differ.
const SHARED_ISSUER: &str = "https://kubernetes.default.svc.cluster.local";

impl ServiceAccountOptions {
    /// Makes sure that servers which share a store accept each other's tokens.
    pub(in super::super) fn settle_issuers(&mut self, store: &StoreOptions, url: &str) {
        if self.issuers.is_empty() && matches!(store, StoreOptions::Etcd(_)) {
            self.issuers = vec![SHARED_ISSUER.to_owned(), url.to_owned()];
        }
    }

    pub(super) fn issuers(&self, url: &str) -> Result<Vec<String>, Error> {
        for (index, issuer) in self.issuers.iter().enumerate() {
            if issuer.is_empty() {
                return Err(Error::Authentication("service-account-issuer should not be an empty string".into()));
            }
            if self.issuers.iter().take(index).any(|earlier| earlier == issuer) {
                return Err(Error::Authentication(format!("service-account-issuer {issuer:?} is already specified")));
            }
        }
        if let Some(uri) = &self.jwks_uri
            && !uri.starts_with("https://")
        {
            return Err(Error::Authentication(format!(
                "service-account-jwks-uri requires https scheme, parsed as: {uri}"
            )));
        }
        Ok(if self.issuers.is_empty() { vec![url.to_owned()] } else { self.issuers.clone() })
    }

    /// The issuer and the keys that check what it signs, both kept equal to the files.
    pub(super) fn keys(
        &self,
        pki: &Pki,
        issuers: &[String],
        audiences: &Arc<[String]>,
        background: &mut Vec<Background>,
    ) -> Result<(Arc<TokenIssuer>, Arc<TokenKeys>), Error> {
        let max_expiration = self.max_token_expiration.map(|max| max.as_secs()).filter(|seconds| *seconds > 0);
        if max_expiration.is_some_and(|seconds| !MAX_EXPIRATION_SECONDS.contains(&seconds)) {
            return Err(Error::Authentication(
                "the service-account-max-token-expiration must be between 1 hour and 2^32 seconds".into(),
            ));
        }
        let max_expiration = max_expiration.and_then(|seconds| i64::try_from(seconds).ok());
        let files = KeyFiles {
            own: pki.service_account_key.0.clone(),
            signing: self.signing_key_file.clone(),
            checking: self.key_files.clone(),
        };
        let (signing, checking) = files.load()?;
        let name = issuers.first().cloned().unwrap_or_default();
        let issuer = Arc::new(TokenIssuer::new(signing, name, audiences.clone(), max_expiration));
        let keys = Arc::new(TokenKeys::new(checking));
        let paths = files.paths();
        if !paths.is_empty() {
            let (issuer, keys) = (issuer.clone(), keys.clone());
            background.push(Background::spawn(files.follow(paths, issuer, keys)));
        }
        Ok((issuer, keys))
    }
}

struct KeyFiles {
    /// PEM of the key we made for ourselves.
    own: String,
    signing: Option<PathBuf>,
    checking: Vec<PathBuf>,
}

impl KeyFiles {
    fn paths(&self) -> Vec<PathBuf> {
        self.signing.iter().chain(&self.checking).cloned().collect()
    }

    /// The key that signs, and all that check; the signing one among them.
    fn load(&self) -> Result<(SigningKey, Vec<VerifyingKey>), Error> {
        let in_file = |path: &Path, error| Error::KeyFile { path: path.to_owned(), source: error };
        let signing = match &self.signing {
            Some(path) => SigningKey::from_pem(&read(path)?).map_err(|error| in_file(path, error))?,
            None => SigningKey::from_pem(&self.own)?,
        };
        let mut keys = vec![signing.verifying_key()];
        for path in &self.checking {
            for key in VerifyingKey::all_from_pem(&read(path)?).map_err(|error| in_file(path, error))? {
                if !keys.contains(&key) {
                    keys.push(key);
                }
            }
        }
        Ok((signing, keys))
    }

    async fn follow(self, paths: Vec<PathBuf>, issuer: Arc<TokenIssuer>, keys: Arc<TokenKeys>) {
        let mut files = ChangedFiles::new(paths);
        loop {
            files.changed().await;
            match self.load() {
                Ok((signing, checking)) => {
                    tracing::info!(
                        signing = signing.key_id(),
                        keys = checking.len(),
                        "service-account keys read again"
                    );
                    // Checked before signed with: no token of ours is ever unknown to ourselves.
                    keys.replace(checking);
                    issuer.replace_key(signing);
                }
                // Somebody may be in the middle of writing; the next change counts.
                Err(error) => tracing::error!(%error, "service-account keys stay as they were"),
            }
        }
    }
}
