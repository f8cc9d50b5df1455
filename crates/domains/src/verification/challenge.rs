//! The token somebody has to publish, where it goes, and how long it is good. Tokens are public once published: they prove
//! that whoever was given one controls the name, and are worth nothing to anybody else.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::name::{DomainName, NameError, Subject};

/// 160 bits: as ACME and the draft on verification techniques ask for 128 at least.
const TOKEN_BYTES: usize = 20;

/// How long a token may take to appear. Registrars that take a day to publish are not rare.
pub const TOKEN_LIFE: SignedDuration = SignedDuration::from_hours(7 * 24);

/// Letters that are neither mistaken for each other nor changed by forms: base32 of RFC 4648, lower case.
const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

/// Our name in labels, where nobody says another.
pub const DEFAULT_BRAND: &str = "bailiwick";

/// What the proof is for. Each has a label of its own, so that one cannot be passed off as another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Scope {
    /// This name alone.
    Host,
    /// One level below it.
    Wildcard,
    /// It and everything below.
    #[default]
    Domain,
}

/// How the proof is published.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Method {
    /// TXT at `_<brand>-challenge.<domain>`.
    DnsTxt,
    /// TXT at the domain itself.
    DnsTxtApex,
    /// CNAME at `_<brand>-challenge.<domain>` to a name of ours that has the token.
    DnsDelegation,
    /// A delegation of the domain to a nameserver of ours that has the token in its name.
    DnsNameserver,
    /// A file on the site.
    HttpFile,
}

impl Method {
    /// What it is called in sentences.
    pub fn words(self) -> &'static str {
        match self {
            Self::DnsTxt => "a TXT record",
            Self::DnsTxtApex => "a TXT record at the domain itself",
            Self::DnsDelegation => "a CNAME record",
            Self::DnsNameserver => "its nameserver",
            Self::HttpFile => "a file on its site",
        }
    }
}

/// A token for one account and one name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Challenge {
    pub domain: DomainName,
    pub scope: Scope,
    /// Our name in labels: `_<brand>-challenge`.
    pub brand: String,
    /// A label in front that keeps several accounts apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    pub token: String,
    pub issued_at: Timestamp,
    pub expires_at: Timestamp,
    /// Tokens that were given before: seeing one tells that an old instruction was followed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub former_tokens: Vec<String>,
    /// The zone of ours that delegated challenges lead into.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delegation_zone: Option<DomainName>,
    /// The zone of ours that has a nameserver for each token, to which the domain may be delegated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nameserver_zone: Option<DomainName>,
}

/// Why no challenge is given for a name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChallengeError {
    #[error(transparent)]
    Name(#[from] NameError),
    #[error("the brand {0:?} cannot be part of a name")]
    Brand(String),
    #[error("the account {0:?} cannot be a label: small letters, digits and hyphens, {ACCOUNT_CHARS_MAX} at most")]
    Account(String),
}

impl Challenge {
    /// A fresh token. Public suffixes are refused: proof of one would be proof of its every customer's name.
    pub fn new(
        name: &DomainName,
        scope: Scope,
        brand: &str,
        now: Timestamp,
        random: &mut impl FnMut(&mut [u8]),
    ) -> Result<Self, ChallengeError> {
        Subject::of(name.clone())?;
        if brand.is_empty() || !brand.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-') {
            return Err(ChallengeError::Brand(brand.to_owned()));
        }
        let challenge = Self {
            domain: name.clone(),
            scope,
            brand: brand.to_owned(),
            account: None,
            token: token(random),
            issued_at: now,
            expires_at: now.checked_add(TOKEN_LIFE).unwrap_or(now),
            former_tokens: Vec::new(),
            delegation_zone: None,
            nameserver_zone: None,
        };
        // The longest name that will be asked for must be one.
        challenge.domain.prepend(&challenge.label())?;
        Ok(challenge)
    }

    /// Takes up again a challenge whose token is known, such as one given on a command line.
    pub fn with_token(mut self, token: &str) -> Self {
        self.token = token.to_owned();
        self
    }

    /// With an account's label in front of the record's name.
    pub fn for_account(mut self, account: &str) -> Result<Self, ChallengeError> {
        let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        let label = !account.is_empty() && account.len() <= ACCOUNT_CHARS_MAX && account.bytes().all(inner);
        if !label || account.starts_with('-') || account.ends_with('-') {
            return Err(ChallengeError::Account(account.to_owned()));
        }
        self.account = Some(account.to_owned());
        self.domain.prepend(&self.label())?;
        Ok(self)
    }

    /// A new token in place of this one, which is remembered.
    pub fn renewed(mut self, now: Timestamp, random: &mut impl FnMut(&mut [u8])) -> Self {
        self.former_tokens.insert(0, std::mem::replace(&mut self.token, token(random)));
        self.former_tokens.truncate(FORMER_TOKENS_MAX);
        self.issued_at = now;
        self.expires_at = now.checked_add(TOKEN_LIFE).unwrap_or(now);
        self
    }

    /// Whether it is too late to bring a new proof with this token. A proof that was brought in time stands for as long as its
    /// record does: see [`Challenge::of_held_proof`].
    pub fn is_expired(&self, now: Timestamp) -> bool {
        now >= self.expires_at
    }

    /// The challenge by which a proof that holds already is looked for again. A token's life limits how long a new proof may
    /// be made with it, and not how long the record may stay.
    #[must_use]
    pub fn of_held_proof(&self) -> Self {
        Self { expires_at: Timestamp::MAX, ..self.clone() }
    }

    /// `_bailiwick-challenge`, with the scope where it is not the domain, and the account in front.
    fn label(&self) -> String {
        let scope = match self.scope {
            Scope::Host => "-host",
            Scope::Wildcard => "-wildcard",
            Scope::Domain => "",
        };
        let label = format!("_{}{scope}-challenge", self.brand);
        match &self.account {
            Some(account) => format!("_{account}.{label}"),
            None => label,
        }
    }

    /// Where the TXT record goes.
    pub fn record_name(&self) -> DomainName {
        self.domain.prepend(&self.label()).unwrap_or_else(|_| self.domain.clone())
    }

    /// What the TXT record at [`Challenge::record_name`] has.
    pub fn record_value(&self) -> &str {
        &self.token
    }

    /// What a TXT record at the domain itself has: among others there, so that it says whose it is.
    pub fn apex_value(&self) -> String {
        format!("{}-verification={}", self.brand, self.token)
    }

    /// Where a CNAME at [`Challenge::record_name`] leads.
    pub fn delegation_target(&self) -> Option<DomainName> {
        self.delegation_zone.as_ref()?.prepend(&self.token).ok()
    }

    /// The nameserver that the domain's parent may delegate it to.
    pub fn nameserver_target(&self) -> Option<DomainName> {
        self.nameserver_zone.as_ref()?.prepend(&self.token).ok()
    }

    /// The path of the file on the site. The token is not part of it: sites that repeat the path that they were asked for
    /// must not prove anything by that.
    pub fn http_path(&self) -> String {
        let digest = ring::digest::digest(&ring::digest::SHA256, self.token.as_bytes());
        let name: String = digest.as_ref().iter().take(FILE_NAME_BYTES).map(|byte| format!("{byte:02x}")).collect();
        format!("/.well-known/{}-challenge/{name}", self.brand)
    }

    /// What the file has.
    pub fn http_body(&self) -> &str {
        &self.token
    }

    /// Whether a text is the proof: the token alone, `token=… expiry=…`, or the form for the domain itself.
    pub fn accepts(&self, text: &str, now: Timestamp) -> bool {
        let mut words = text.split(' ');
        let first = words.next().unwrap_or_default();
        let bare = first.strip_prefix("token=").unwrap_or(first);
        let bare = bare.strip_prefix(&format!("{}-verification=", self.brand)).unwrap_or(bare);
        if bare != self.token {
            return false;
        }
        // Only `key=value` pairs may follow, and an expiry that the owner wrote is honoured.
        let mut pairs = words.map(|word| word.split_once('='));
        pairs.all(|pair| match pair {
            Some(("expiry", "never")) => true,
            Some(("expiry", until)) => until.parse::<Timestamp>().is_ok_and(|until| until > now),
            Some((key, _)) => !key.is_empty(),
            None => false,
        })
    }
}

/// As the definition of `Domain` has it.
const ACCOUNT_CHARS_MAX: usize = 40;

/// Enough for names of files not to meet.
const FILE_NAME_BYTES: usize = 12;

/// Old tokens that are recognised.
const FORMER_TOKENS_MAX: usize = 5;

/// Randomness for [`Challenge::new`], of the kind that keys are made of.
pub fn system_random(bytes: &mut [u8]) {
    rand::Rng::fill(&mut rand::rng(), bytes);
}

fn token(random: &mut impl FnMut(&mut [u8])) -> String {
    let mut bytes = [0_u8; TOKEN_BYTES];
    random(&mut bytes);
    let mut text = String::with_capacity(TOKEN_BYTES * 8 / 5);
    let (mut buffer, mut bits) = (0_u32, 0);
    for byte in bytes {
        buffer = (buffer << 8) | u32::from(byte);
        bits += 8;
        while bits >= 5 {
            bits -= 5;
            let index = usize::try_from((buffer >> bits) & 31).unwrap_or(0);
            text.push(char::from(ALPHABET[index]));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> DomainName {
        DomainName::parse(text).expect("a name")
    }

    fn now() -> Timestamp {
        "2026-11-16T10:00:00Z".parse().expect("a time")
    }

    fn challenge(domain: &str, scope: Scope) -> Result<Challenge, ChallengeError> {
        Challenge::new(&name(domain), scope, "bailiwick", now(), &mut |bytes| bytes.fill(0b0101_0101))
    }

    #[test]
    fn the_record_goes_to_a_label_that_is_no_host_and_names_its_scope() {
        let place = |scope| challenge("www.example.com", scope).expect("a challenge").record_name().to_string();
        assert_eq!(place(Scope::Domain), "_bailiwick-challenge.www.example.com");
        assert_eq!(place(Scope::Host), "_bailiwick-host-challenge.www.example.com");
        assert_eq!(place(Scope::Wildcard), "_bailiwick-wildcard-challenge.www.example.com");
        let account =
            Challenge { account: Some("k4ng".into()), ..challenge("example.com", Scope::Domain).expect("a challenge") };
        assert_eq!(account.record_name().as_str(), "_k4ng._bailiwick-challenge.example.com");
    }

    #[test]
    fn an_account_is_a_label_and_nothing_else() {
        let with = |account: &str| challenge("example.com", Scope::Domain).expect("a challenge").for_account(account);
        assert_eq!(with("k4ng").expect("a label").record_name().as_str(), "_k4ng._bailiwick-challenge.example.com");
        for account in ["", "-a", "a-", "A", "a.b", "a_b", "a".repeat(41).as_str()] {
            assert_eq!(with(account), Err(ChallengeError::Account(account.to_owned())), "{account}");
        }
    }

    #[test]
    fn public_suffixes_cannot_be_proved() {
        assert!(matches!(challenge("co.uk", Scope::Domain), Err(ChallengeError::Name(NameError::PublicSuffix(_)))));
        assert!(matches!(challenge("github.io", Scope::Domain), Err(ChallengeError::Name(NameError::PublicSuffix(_)))));
        assert!(challenge("someone.github.io", Scope::Domain).is_ok());
    }

    #[test]
    fn the_files_path_does_not_give_the_token_away() {
        let challenge = challenge("example.com", Scope::Domain).expect("a challenge");
        let path = challenge.http_path();
        assert!(path.starts_with("/.well-known/bailiwick-challenge/") && !path.contains(&challenge.token));
    }

    #[test]
    fn tokens_have_160_bits_in_32_letters() {
        let challenge = challenge("example.com", Scope::Domain).expect("a challenge");
        assert_eq!(challenge.token.len(), 32);
        assert!(challenge.token.bytes().all(|b| ALPHABET.contains(&b)));
    }

    #[test]
    fn the_token_is_accepted_in_its_three_forms_and_no_other() {
        let challenge = challenge("example.com", Scope::Domain).expect("a challenge").with_token("abc234");
        for text in [
            "abc234",
            "token=abc234",
            "token=abc234 expiry=never",
            "token=abc234 expiry=2027-01-01T00:00:00Z",
            "bailiwick-verification=abc234",
        ] {
            assert!(challenge.accepts(text, now()), "{text}");
        }
        for text in [
            "abc234 ",
            " abc234",
            "\"abc234\"",
            "ABC234",
            "abc23",
            "abc234 x",
            "token=abc234 expiry=2020-01-01T00:00:00Z",
            "",
        ] {
            assert!(!challenge.accepts(text, now()), "{text}");
        }
    }

    #[test]
    fn a_token_ends_and_its_successor_remembers_it() {
        let first = challenge("example.com", Scope::Domain).expect("a challenge");
        assert!(!first.is_expired(now()));
        let later = now().checked_add(TOKEN_LIFE).expect("a time");
        assert!(first.is_expired(later));
        let second = first.clone().renewed(later, &mut |bytes| bytes.fill(7));
        assert_eq!(second.former_tokens, std::slice::from_ref(&first.token));
        assert!(second.token != first.token && !second.is_expired(later));
    }
}
