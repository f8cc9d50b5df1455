//! Who registered a name, with whom, until when, and in which state: from RDAP, or from WHOIS where there is no RDAP.
//! Everything here is public about the registration and nothing about people: contacts are dropped while parsing.

pub mod bootstrap;
pub mod date;
pub mod exchange;
pub mod lookup;
pub mod pace;
pub mod rdap;
pub mod registrars;
pub mod status;
mod tally;
pub mod whois;

use std::net::IpAddr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

pub use date::Moment;
pub use lookup::{RegistrationError, Registrations};
pub use status::StatusFlag;
pub use tally::{Budget, Lookups, Tally};

use crate::name::DomainName;

/// How much something matters to the owner of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Concern {
    /// As it should be.
    None,
    /// Worth knowing.
    Notice,
    /// Will do harm if nobody acts.
    Warning,
    /// Does harm now, or may mean that the name was taken away.
    Critical,
}

/// Where registration data comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    Rdap,
    Whois,
}

/// One answer that was used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Consulted {
    pub source: Source,
    /// The URL, or the host of a WHOIS server.
    pub server: String,
    /// Whose server it is.
    pub role: Role,
}

/// Whose server answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Role {
    Registry,
    Registrar,
}

/// The company through which a name was registered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Registrar {
    /// Its number at IANA; registrars of country codes often have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iana_id: Option<u32>,
    /// As the registry writes it.
    pub name: String,
    /// As IANA lists it, where we know the number: the same however registries spell it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub known_as: Option<String>,
}

impl Registrar {
    pub(crate) fn new(iana_id: Option<u32>, name: Option<&str>) -> Option<Self> {
        let known_as = iana_id.and_then(registrars::name).map(str::to_owned);
        let name = name.map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).or_else(|| known_as.clone());
        let name = name.or_else(|| iana_id.map(|id| format!("registrar {id}")))?;
        Some(Self { iana_id, name, known_as })
    }

    /// Whether both are the same company: by number where both have one, else by the letters of the name.
    pub fn is(&self, other: &Self) -> bool {
        match (self.iana_id, other.iana_id) {
            (Some(ours), Some(theirs)) => ours == theirs,
            _ => registrars::fold(&self.name) == registrars::fold(&other.name),
        }
    }
}

/// A nameserver as the registry has it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Nameserver {
    pub name: DomainName,
    /// Glue.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<IpAddr>,
}

/// A delegation signer record as the registry has it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DelegationSigner {
    pub key_tag: u16,
    pub algorithm: u8,
    pub digest_type: u8,
    /// Upper-case hexadecimal.
    pub digest: String,
}

/// Whether the registry has keys of the zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Signing {
    Signed,
    Unsigned,
    Unknown,
}

impl std::fmt::Display for Signing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Signed => "signedDelegation",
            Self::Unsigned => "unsigned",
            Self::Unknown => "unknown",
        })
    }
}

/// Whether the name renews itself. Registries do not publish it; they only show that it has just happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum AutoRenewal {
    /// `autoRenewPeriod` is set.
    JustRenewed,
    Unknown,
}

/// A fact that the registry and the registrar tell differently.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Disagreement {
    pub field: String,
    pub registry: String,
    pub registrar: String,
    /// Why it may be so, and which of both counts.
    pub meaning: String,
}

/// What is known of a registration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Registration {
    pub domain: DomainName,
    pub source: Source,
    pub consulted: Vec<Consulted>,
    /// The registry's number of this registration: another one is another registration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handle: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registrar: Option<Registrar>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created: Option<Moment>,
    /// When the registration last changed; never when the registry's database did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modified: Option<Moment>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<Moment>,
    /// What the registrar calls the expiration, where it says something else than the registry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registrar_expires: Option<Moment>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transferred: Option<Moment>,
    pub nameservers: Vec<Nameserver>,
    pub signing: Signing,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub delegation_signers: Vec<DelegationSigner>,
    pub statuses: Vec<StatusFlag>,
    pub auto_renewal: AutoRenewal,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disagreements: Vec<Disagreement>,
    pub observed_at: Timestamp,
}

/// What the parsers find, before it is known whose answer it was.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    pub domain: Option<DomainName>,
    pub handle: Option<String>,
    pub registrar: Option<Registrar>,
    pub created: Option<Moment>,
    pub modified: Option<Moment>,
    pub expires: Option<Moment>,
    pub registrar_expires: Option<Moment>,
    pub transferred: Option<Moment>,
    pub nameservers: Vec<Nameserver>,
    pub signing: Option<Signing>,
    pub delegation_signers: Vec<DelegationSigner>,
    pub statuses: Vec<StatusFlag>,
    /// Where the registrar's own answer is: a URL, or a WHOIS host.
    pub registrar_server: Option<String>,
}

/// Registry and registrar count days differently at the edges; only more than this is a disagreement.
const SAME_EXPIRY_SECONDS: i64 = 2 * 86_400;

impl Registration {
    /// Puts a registry's answer and, where there is one, the registrar's together. The registry's facts count; the
    /// registrar's fill what the registry does not say.
    pub fn merge(
        domain: &DomainName,
        source: Source,
        consulted: Vec<Consulted>,
        registry: Facts,
        registrar: Option<Facts>,
        observed_at: Timestamp,
    ) -> Self {
        let disagreements = registrar.as_ref().map(|theirs| disagreements(&registry, theirs)).unwrap_or_default();
        let theirs = registrar.unwrap_or_default();
        let registrar_expires = theirs.registrar_expires.or(theirs.expires).or(registry.registrar_expires);
        let expires = registry.expires.or_else(|| registrar_expires.clone());
        let statuses = if registry.statuses.is_empty() { theirs.statuses } else { registry.statuses };
        let renewed = statuses.iter().any(|flag| flag.code == "autoRenewPeriod");
        Self {
            domain: domain.clone(),
            source,
            consulted,
            handle: registry.handle.or(theirs.handle),
            registrar: registry.registrar.or(theirs.registrar),
            created: registry.created.or(theirs.created),
            modified: registry.modified.or(theirs.modified),
            registrar_expires: registrar_expires.filter(|date| Some(date) != expires.as_ref()),
            expires,
            transferred: registry.transferred.or(theirs.transferred),
            nameservers: if registry.nameservers.is_empty() { theirs.nameservers } else { registry.nameservers },
            signing: registry.signing.or(theirs.signing).unwrap_or(Signing::Unknown),
            delegation_signers: if registry.delegation_signers.is_empty() {
                theirs.delegation_signers
            } else {
                registry.delegation_signers
            },
            statuses,
            auto_renewal: if renewed { AutoRenewal::JustRenewed } else { AutoRenewal::Unknown },
            disagreements,
            observed_at,
        }
    }

    /// Whole days until it expires; negative when it has.
    pub fn days_left(&self, now: Timestamp) -> Option<i64> {
        self.expires.as_ref().map(|expires| expires.days_from(now))
    }

    /// The worst of its flags and of its expiration.
    pub fn concern(&self, now: Timestamp) -> Concern {
        let expiry = match self.days_left(now) {
            Some(days) if days < 7 => Concern::Critical,
            Some(days) if days < 30 => Concern::Warning,
            _ => Concern::None,
        };
        self.statuses.iter().map(|flag| flag.concern).max().unwrap_or(Concern::None).max(expiry)
    }
}

fn disagreements(registry: &Facts, registrar: &Facts) -> Vec<Disagreement> {
    let mut found = Vec::new();
    let theirs = registrar.registrar_expires.as_ref().or(registrar.expires.as_ref());
    if let (Some(ours), Some(theirs)) = (&registry.expires, theirs)
        && ours.at().duration_since(theirs.at()).abs().as_secs() > SAME_EXPIRY_SECONDS
    {
        let meaning = if ours > theirs {
            "the registry renews by itself on the last day and takes it back if nobody pays the registrar: the registrar's \
             date is the one to pay before"
        } else {
            "the registrar has not yet passed its renewal on; the registry's date counts until it does"
        };
        found.push(Disagreement {
            field: "expiration".into(),
            registry: ours.to_string(),
            registrar: theirs.to_string(),
            meaning: meaning.into(),
        });
    }
    let names =
        |facts: &Facts| facts.nameservers.iter().map(|server| server.name.to_string()).collect::<Vec<_>>().join(", ");
    if !registry.nameservers.is_empty() && !registrar.nameservers.is_empty() && names(registry) != names(registrar) {
        found.push(Disagreement {
            field: "nameservers".into(),
            registry: names(registry),
            registrar: names(registrar),
            meaning: "the registry's list is the one that is delegated to; the registrar's may be newer or was refused"
                .into(),
        });
    }
    if let (Some(ours), Some(theirs)) = (&registry.registrar, &registrar.registrar)
        && !ours.is(theirs)
    {
        found.push(Disagreement {
            field: "registrar".into(),
            registry: ours.name.clone(),
            registrar: theirs.name.clone(),
            meaning: "the registry's entry counts; a transfer may be under way".into(),
        });
    }
    found
}
