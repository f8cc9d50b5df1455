//! Service-account tokens: signed by one of our keys, meant for the audience, in time, and of an account that is still
//! the same one.
//!
//! Checking a signature costs a hundred times as much as all the rest, so signatures found good are remembered. Time,
//! audience and the account itself are checked on every request: a deleted account is out at once.

use std::collections::HashSet;
use std::sync::Arc;

use bailiwick_machinery::UserInfo;
use jiff::Timestamp;

use super::token_memory::{TokenMemory, hash_of};
use super::{AuthRequest, Authentication, Authenticator, TargetAudiences, ensure_authenticated_group};
use crate::go_format::quoted_list;
use crate::jwt::UnverifiedToken;
use crate::keys::TokenKeys;
use crate::service_account::{Claims, ServiceAccountGetter, StoredIdentity};

/// How far the clocks of those who issue and those who check may be apart; upstream's value.
const LEEWAY_SECONDS: i64 = 60;
/// How many good signatures are remembered (twice this at most); about 1 KiB each.
const REMEMBERED_TOKENS: usize = 4096;

/// Knows the bearers of our own tokens.
pub struct ServiceAccountTokens {
    issuers: HashSet<String>,
    keys: Arc<TokenKeys>,
    audiences: Arc<[String]>,
    getter: Arc<dyn ServiceAccountGetter>,
    verified: TokenMemory<VerifiedToken>,
}

/// A token whose signature is good, and the user it stands for if all else is too.
struct VerifiedToken {
    /// Which keys it was checked with: others may know nothing of the key that signed it.
    generation: u64,
    claims: Claims,
    user: Arc<UserInfo>,
}

impl ServiceAccountTokens {
    /// `issuers` are all whose tokens count (the first signs new ones), `audiences` the server's own.
    pub fn new(
        issuers: impl IntoIterator<Item = String>,
        keys: Arc<TokenKeys>,
        audiences: Arc<[String]>,
        getter: Arc<dyn ServiceAccountGetter>,
    ) -> Self {
        let issuers = issuers.into_iter().collect();
        Self { issuers, keys, audiences, getter, verified: TokenMemory::new(REMEMBERED_TOKENS) }
    }

    /// The token's claims once its signature is known to be good. `None` when it is no token of ours.
    fn verified(&self, token: &str) -> Result<Option<Arc<VerifiedToken>>, String> {
        let hash = hash_of(token);
        let generation = self.keys.generation();
        if let Some(known) = self.verified.get(&hash).filter(|known| known.generation == generation) {
            return Ok(Some(known));
        }
        let Some(verified) = self.check_signature(token)? else { return Ok(None) };
        let verified = Arc::new(verified);
        self.verified.put(hash, verified.clone());
        Ok(Some(verified))
    }

    fn check_signature(&self, token: &str) -> Result<Option<VerifiedToken>, String> {
        let Some(token) = UnverifiedToken::parse(token).filter(|t| self.issuers.contains(t.claimed_issuer())) else {
            return Ok(None);
        };
        let key_id = token.claimed_key_id();
        let keys = self.keys.load();
        let mut candidates = keys.keys.iter().filter(|key| key_id.is_empty() || key.key_id() == key_id).peekable();
        if candidates.peek().is_none() {
            return Err("invalid signature, no keys found".into());
        }
        let claims: Claims =
            candidates.find_map(|key| token.verify(key)).ok_or("go-jose/go-jose: error in cryptographic primitive")?;
        if !self.issuers.contains(&claims.iss) {
            return Err(format!("token issuer {:?} is invalid", claims.iss));
        }
        let mut user = Arc::new(claims.user());
        ensure_authenticated_group(&mut user);
        Ok(Some(VerifiedToken { generation: keys.generation, claims, user }))
    }

    fn check_audience(&self, claims: &Claims, target: TargetAudiences<'_>) -> Result<Vec<String>, String> {
        let wanted = match target {
            TargetAudiences::Server => &*self.audiences,
            TargetAudiences::Named(named) => named,
        };
        // A token that names no audience is for us.
        let offered = if claims.aud.is_empty() { &*self.audiences } else { &claims.aud };
        let mut shared = offered.iter().filter(|audience| wanted.contains(audience)).peekable();
        if shared.peek().is_none() && !self.audiences.is_empty() {
            let (offered, wanted) = (quoted_list(offered), quoted_list(wanted));
            return Err(format!("token audiences {offered} is invalid for the target audiences {wanted}"));
        }
        Ok(match target {
            TargetAudiences::Server => Vec::new(),
            TargetAudiences::Named(_) => shared.cloned().collect(),
        })
    }

    fn check_references(&self, claims: &Claims, now: Timestamp) -> Result<(), String> {
        let claim = &claims.kubernetes;
        let (namespace, account) = (claim.namespace.as_str(), &claim.serviceaccount);
        let stored = self
            .getter
            .service_account(namespace, &account.name)
            .ok_or_else(|| format!("serviceaccounts {:?} not found", account.name))?;
        if stored.uid != account.uid {
            return Err(format!("service account UID ({}) does not match claim ({})", stored.uid, account.uid));
        }
        if is_gone(&stored, now) {
            return Err(format!("service account {namespace}/{} has been deleted", account.name));
        }
        if let Some(reference) = &claim.secret {
            let invalidated = || "service account token has been invalidated".to_owned();
            let stored = self.getter.secret(namespace, &reference.name).ok_or_else(invalidated)?;
            if stored.uid != reference.uid {
                let (stored, claimed) = (&stored.uid, &reference.uid);
                return Err(format!(
                    "secret UID ({stored}) does not match service account secret ref claim ({claimed})"
                ));
            }
            if is_gone(&stored, now) {
                return Err(invalidated());
            }
        }
        // No pods or nodes exist here, so nothing bound to one can be.
        if claim.pod.is_some() || claim.node.is_some() {
            return Err("service account token has been invalidated".into());
        }
        Ok(())
    }
}

/// Deleted for longer than clocks may differ, even if finalizers keep the object around.
fn is_gone(stored: &StoredIdentity, now: Timestamp) -> bool {
    stored.deletion.is_some_and(|at| at.as_second() < now.as_second() - LEEWAY_SECONDS)
}

fn check_time(claims: &Claims, now: Timestamp) -> Result<(), String> {
    let now = now.as_second();
    if claims.nbf.is_some_and(|nbf| now + LEEWAY_SECONDS < nbf) {
        return Err("service account token is not valid yet".into());
    }
    if claims.exp.is_some_and(|exp| now - LEEWAY_SECONDS > exp) {
        return Err("service account token has expired".into());
    }
    if claims.iat.is_some_and(|iat| now + LEEWAY_SECONDS < iat) {
        return Err("service account token is issued in the future".into());
    }
    Ok(())
}

impl Authenticator for ServiceAccountTokens {
    fn authenticate(&self, request: &AuthRequest<'_>) -> Result<Option<Authentication>, String> {
        let Some(token) = request.bearer_token else { return Ok(None) };
        let Some(verified) = self.verified(token)? else { return Ok(None) };
        let audiences = self.check_audience(&verified.claims, request.audiences)?;
        check_time(&verified.claims, request.now)?;
        self.check_references(&verified.claims, request.now)?;
        Ok(Some(Authentication { user: verified.user.clone(), audiences }))
    }
}

#[cfg(test)]
mod tests;
