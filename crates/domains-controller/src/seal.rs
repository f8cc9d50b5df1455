//! The seal on what the service wrote about a proof. `status.verification` is kept in the object, and whoever may write an
//! object's status could write there that a domain is proved, or the token that its owner has published. Only what carries a
//! seal made with the service's own key, for this very object, is believed; everything else must be proved (again).
//!
//! The key is a Secret in the service's namespace of the root, where no tenant reads: made once, shared by all servers, never
//! logged. An earlier state of the same object, seal and all, is recognised for as long as the process runs.

use bailiwick_domains::name::DomainName;
use bailiwick_domains::verification::challenge::system_random;
use bailiwick_domains::verification::standing::Standing;
use bailiwick_domains::verification::{Challenge, Scope};
use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::PostParams;
use kube::{Api, Client};
use ring::hmac;
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::access::SERVICE_NAMESPACE;
use crate::status::VerificationStatus;

/// The Secret with the key, in [`SERVICE_NAMESPACE`]. Without it every domain must be proved again.
pub const SEAL_SECRET: &str = "proof-seal";
/// Where in the Secret.
const KEY: &str = "key";
/// As long as the digest: a longer one adds nothing.
const KEY_BYTES: usize = 32;
/// What is sealed, and in which form: another form is another word.
const PURPOSE: &str = "bailiwick domain proof, first form";

/// A seal as the status has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Seal {
    /// When it was made: of two seals of one object the later one counts.
    pub at: Timestamp,
    /// The code, in base64.
    pub code: String,
}

/// Why what a status says of a proof is not believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Doubt {
    #[error("it has no seal")]
    Unsealed,
    #[error("its seal is not one for what it says")]
    Forged,
    #[error("it was true earlier and was put back")]
    PutBack,
}

/// Makes and checks seals.
pub(crate) struct Sealer {
    key: hmac::Key,
}

/// What a seal vouches for. Fields by name, so that nothing else in the status can break or borrow one.
#[derive(Serialize)]
struct Sealed<'a> {
    purpose: &'static str,
    uid: &'a str,
    at: Timestamp,
    domain: &'a DomainName,
    scope: Scope,
    brand: &'a str,
    account: Option<&'a str>,
    token: &'a str,
    issued_at: Timestamp,
    expires_at: Timestamp,
    standing: &'a Standing,
}

impl Sealer {
    /// With the service's key, which is made if there is none: of several servers one makes it and the others take it.
    pub async fn of_service(client: &Client) -> Result<Self, Error> {
        let secrets: Api<Secret> = Api::namespaced(client.clone(), SERVICE_NAMESPACE);
        if let Some(secret) = secrets.get_opt(SEAL_SECRET).await? {
            return Self::from_secret(&secret);
        }
        let mut key = [0; KEY_BYTES];
        system_random(&mut key);
        let fresh = Secret {
            metadata: ObjectMeta { name: Some(SEAL_SECRET.to_owned()), ..ObjectMeta::default() },
            data: Some([(KEY.to_owned(), ByteString(key.to_vec()))].into()),
            immutable: Some(true),
            ..Secret::default()
        };
        match secrets.create(&PostParams::default(), &fresh).await {
            Ok(_) => Ok(Self::new(&key)),
            Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => {
                Self::from_secret(&secrets.get(SEAL_SECRET).await?)
            }
            Err(error) => Err(error.into()),
        }
    }

    fn from_secret(secret: &Secret) -> Result<Self, Error> {
        let key = secret.data.as_ref().and_then(|data| data.get(KEY)).filter(|key| key.0.len() >= KEY_BYTES);
        // A key that is not one is never replaced: whoever put it there has to.
        key.map(|key| Self::new(&key.0)).ok_or(Error::SealKey)
    }

    fn new(key: &[u8]) -> Self {
        Self { key: hmac::Key::new(hmac::HMAC_SHA256, key) }
    }

    /// Whether the service wrote this about the object with this uid, and nothing later.
    pub fn check(&self, uid: &str, verification: &VerificationStatus, last: Option<Timestamp>) -> Result<(), Doubt> {
        let seal = verification.seal.as_ref().ok_or(Doubt::Unsealed)?;
        let code = STANDARD_NO_PAD.decode(&seal.code).map_err(|_| Doubt::Forged)?;
        hmac::verify(&self.key, &sealed(uid, verification, seal.at), &code).map_err(|_| Doubt::Forged)?;
        if last.is_some_and(|last| seal.at < last) { Err(Doubt::PutBack) } else { Ok(()) }
    }

    /// Seals what is to be written, unless its seal is still good. `last` is the time of the object's last seal.
    pub fn seal(&self, uid: &str, verification: &mut VerificationStatus, last: Option<Timestamp>, now: Timestamp) {
        if self.check(uid, verification, last).is_ok() {
            return;
        }
        let next = last.and_then(|last| last.checked_add(SignedDuration::from_nanos(1)).ok());
        let at = next.map_or(now, |next| next.max(now));
        let code = hmac::sign(&self.key, &sealed(uid, verification, at));
        verification.seal = Some(Seal { at, code: STANDARD_NO_PAD.encode(code.as_ref()) });
    }
}

fn sealed(uid: &str, verification: &VerificationStatus, at: Timestamp) -> Vec<u8> {
    let Challenge { domain, scope, brand, account, token, issued_at, expires_at, .. } = &verification.challenge;
    let sealed = Sealed {
        purpose: PURPOSE,
        uid,
        at,
        domain,
        scope: *scope,
        brand,
        account: account.as_deref(),
        token,
        issued_at: *issued_at,
        expires_at: *expires_at,
        standing: &verification.standing,
    };
    serde_json::to_vec(&sealed).expect("invariant: names, texts and times have a JSON form")
}

#[cfg(test)]
mod tests {
    use bailiwick_domains::verification::Method;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).expect("in range")
    }

    fn proved(second: i64) -> Standing {
        Standing::Proved { method: Method::DnsTxt, since: at(second), last_seen: at(second) }
    }

    fn sealer() -> Sealer {
        Sealer::new(&[7; KEY_BYTES])
    }

    /// A claim as the service writes it for the object `mine`.
    fn claim(standing: Standing) -> VerificationStatus {
        let domain = DomainName::parse("victim.com").expect("a name");
        let challenge = Challenge::new(&domain, Scope::Host, "bailiwick", at(0), &mut |_| ()).expect("a challenge");
        let mut claim = VerificationStatus { standing, ..VerificationStatus::new(challenge) };
        sealer().seal("mine", &mut claim, None, at(0));
        claim
    }

    /// What is thought of a claim after it was stored and read again.
    fn doubt(claim: &VerificationStatus) -> Option<Doubt> {
        let stored = serde_json::to_string(claim).expect("JSON");
        sealer().check("mine", &serde_json::from_str(&stored).expect("the same"), None).err()
    }

    #[test]
    fn what_the_service_wrote_is_believed_in_every_standing() {
        for standing in [
            Standing::Unproved { since: at(0) },
            proved(3),
            Standing::Missing { method: Method::HttpFile, since: at(1), last_seen: at(2), missing_since: at(3) },
        ] {
            assert_eq!(doubt(&claim(standing)), None);
        }
    }

    #[test]
    fn a_proof_or_a_token_or_a_reach_that_somebody_else_wrote_is_not_believed() {
        type Forgery = fn(&mut VerificationStatus);
        let forgeries: [(&str, Forgery); 8] = [
            ("a proof", |claim| claim.standing = proved(9)),
            ("the token that the owner has published", |claim| claim.challenge.token = "published".to_owned()),
            ("another domain", |claim| claim.challenge.domain = DomainName::parse("other.com").expect("a name")),
            ("more than was proved", |claim| claim.challenge.scope = Scope::Domain),
            ("another account", |claim| claim.challenge.account = Some("k4ng".to_owned())),
            ("another brand", |claim| claim.challenge.brand = "other".to_owned()),
            ("a token without end", |claim| claim.challenge.expires_at = at(1_000_000)),
            ("another time", |claim| claim.seal.as_mut().expect("a seal").at = at(9)),
        ];
        for (what, forge) in forgeries {
            let mut claim = claim(Standing::Unproved { since: at(0) });
            forge(&mut claim);
            assert_eq!(doubt(&claim), Some(Doubt::Forged), "{what}");
        }
    }

    #[test]
    fn a_seal_that_is_missing_or_of_another_object_or_key_is_none() {
        let claim = claim(proved(1));
        assert_eq!(doubt(&VerificationStatus { seal: None, ..claim.clone() }), Some(Doubt::Unsealed));
        assert_eq!(sealer().check("theirs", &claim, None), Err(Doubt::Forged));
        assert_eq!(Sealer::new(&[8; KEY_BYTES]).check("mine", &claim, None), Err(Doubt::Forged));
    }

    #[test]
    fn an_earlier_state_is_not_believed_again() {
        let proved = claim(proved(1));
        let mut lapsed = VerificationStatus { standing: Standing::Unproved { since: at(5) }, ..proved.clone() };
        let first = proved.seal.as_ref().map(|seal| seal.at);
        // Even when the clock stands still.
        sealer().seal("mine", &mut lapsed, first, at(0));
        let last = lapsed.seal.as_ref().map(|seal| seal.at);
        assert!(last > first);
        assert_eq!(sealer().check("mine", &lapsed, last), Ok(()));
        assert_eq!(sealer().check("mine", &proved, last), Err(Doubt::PutBack));
        // What this process did not live to see is newer than what it knows.
        assert_eq!(sealer().check("mine", &lapsed, first), Ok(()));
    }

    #[test]
    fn a_good_seal_is_kept_so_that_nothing_is_written_for_its_sake() {
        let mut claim = claim(proved(1));
        let before = claim.clone();
        sealer().seal("mine", &mut claim, None, at(900));
        assert_eq!(claim, before);
    }

    #[test]
    fn a_secret_without_a_whole_key_is_no_key() {
        let secret = |key: &[u8]| Secret {
            data: Some([(KEY.to_owned(), ByteString(key.to_vec()))].into()),
            ..Secret::default()
        };
        assert!(Sealer::from_secret(&secret(&[1; KEY_BYTES])).is_ok());
        assert!(matches!(Sealer::from_secret(&secret(&[1; 8])), Err(Error::SealKey)));
        assert!(matches!(Sealer::from_secret(&Secret::default()), Err(Error::SealKey)));
    }
}
