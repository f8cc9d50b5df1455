//! WHOIS answers (RFC 3912): free text that every registry lays out in its own way. Most are lines of `key: value`; some
//! put values on the lines below their key. What is found becomes the same [`Facts`] as RDAP's; people are passed over.

use super::status::flags;
use super::{DelegationSigner, Facts, Moment, Nameserver, Registrar, Signing};
use crate::name::DomainName;

/// What an answer may have before it is cut off: the longest real ones are below 20 KiB.
pub const ANSWER_BYTES_MAX: usize = 64 * 1024;
/// No zone has more nameservers than this.
const NAMESERVERS_MAX: usize = 64;

/// What a server said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// `Facts` are large beside the rest.
    Found(Box<Facts>),
    /// Nobody registered the name.
    NotFound,
    /// Too many questions: the text that says so.
    Quota(String),
    /// Nothing in it can be read.
    Unreadable,
}

/// The text of an answer: UTF-8 where it is, else Latin-1, which old registries still send.
pub fn decode(bytes: &[u8]) -> String {
    let bytes = bytes.get(..bytes.len().min(ANSWER_BYTES_MAX)).unwrap_or_default();
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        // A cut within a character is no sign of Latin-1.
        Err(error) if error.error_len().is_none() => String::from_utf8_lossy(bytes).into_owned(),
        Err(_) => bytes.iter().map(|byte| char::from(*byte)).collect(),
    }
}

/// The server that IANA, or a registry, refers to.
pub fn referral(text: &str) -> Option<String> {
    let keys = ["refer", "whois", "registrar whois server", "whois server"];
    pairs(text).find_map(|(key, value)| keys.contains(&key.as_str()).then(|| server(&value))?)
}

/// `whois.example.com`, `whois://whois.example.com:43/`, never something with a path that could be an address within.
fn server(value: &str) -> Option<String> {
    let value =
        value.trim().trim_start_matches("whois://").trim_start_matches("http://").trim_start_matches("https://");
    let host = value.split(['/', ':', ' ']).next()?;
    let name = DomainName::parse(host).ok()?;
    (name.label_count() > 1 && name.as_str().chars().any(|c| c.is_ascii_alphabetic())).then(|| name.to_string())
}

/// Texts that say that nothing is registered, as the line begins or as a whole, in lower case.
const NOT_FOUND: &[&str] = &[
    "no match",
    "not found",
    "no data found",
    "no entries found",
    "no object found",
    "domain not found",
    "nothing found",
    "object does not exist",
    "the queried object does not exist",
    "status: free",
    "status: available",
    "domain status: no object found",
    "not registered",
    "no such domain",
    "domain name not known",
    "available for registration",
    "has not been registered",
    "% no match",
    "%% no entries",
    "does not exist",
];

/// Texts that say that we ask too often.
const QUOTA: &[&str] = &[
    "quota exceeded",
    "limit exceeded",
    "query rate",
    "rate limit",
    "too many requests",
    "too many queries",
    "number of allowed queries exceeded",
    "excessive querying",
    "queries exceeded",
    "exceeded the maximum allowable number",
    "maximum query rate reached",
    "lookup quota",
    "you have been banned",
    "access denied",
    "connection limit",
];

/// Reads the answer about `domain`.
pub fn parse(text: &str, domain: &DomainName) -> Answer {
    let mut facts = Facts::default();
    for (key, value) in pairs(text) {
        take(&mut facts, &key, &value);
    }
    finish(&mut facts);
    let useful = facts.registrar.is_some()
        || facts.expires.is_some()
        || facts.created.is_some()
        || !facts.nameservers.is_empty();
    let about_another = facts.domain.as_ref().is_some_and(|named| named != domain);
    if useful && !about_another {
        return Answer::Found(Box::new(facts));
    }
    // The terms of use speak of quotas too: only short answers and the first lines are judged.
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let first: Vec<String> = lines.by_ref().take(JUDGED_LINES).map(str::to_lowercase).collect();
    if first.iter().any(|line| NOT_FOUND.iter().any(|phrase| line.contains(phrase))) {
        return Answer::NotFound;
    }
    if let Some(line) = first.iter().find(|line| QUOTA.iter().any(|quota| line.contains(quota))) {
        return Answer::Quota(line.clone());
    }
    Answer::Unreadable
}

/// Refusals stand at the top.
const JUDGED_LINES: usize = 12;

fn finish(facts: &mut Facts) {
    facts.nameservers.sort();
    facts.nameservers.dedup_by(|a, b| {
        let same = a.name == b.name;
        if same {
            b.addresses.append(&mut a.addresses);
        }
        same
    });
    facts.statuses.sort();
    facts.statuses.dedup_by(|a, b| a.code == b.code);
    if facts.signing.is_none() && !facts.delegation_signers.is_empty() {
        facts.signing = Some(Signing::Signed);
    }
}

/// Lines as `key: value`, keys in lower case without dots. A line that only says `Key:` gives its key to the lines below it
/// until an empty one. Comments are left out.
fn pairs(text: &str) -> impl Iterator<Item = (String, String)> {
    let mut heading: Option<String> = None;
    text.lines().filter_map(move |raw| {
        let line = raw.trim();
        if line.is_empty() {
            heading = None;
            return None;
        }
        if line.starts_with(['%', '#', ';']) || line.starts_with(">>>") {
            return None;
        }
        if let Some((key, value)) = bracketed(line).or_else(|| divided(line)) {
            if value.is_empty() {
                heading = Some(key);
                return None;
            }
            // Below a heading the indented keys are parts of it: `Registrar:` / `  Name: …`.
            let indented = raw.starts_with([' ', '\t']);
            let key = match &heading {
                Some(above) if indented => format!("{above} {key}"),
                _ => key,
            };
            return Some((key, value));
        }
        heading.as_ref().map(|key| (key.clone(), line.to_owned()))
    })
}

/// `[Registrant]   Example Inc.`, `a. [Domain Name]  EXAMPLE.CO.JP`.
fn bracketed(line: &str) -> Option<(String, String)> {
    let open = line.find('[').filter(|at| *at <= 3)?;
    let (key, value) = line.get(open + 1..)?.split_once(']')?;
    Some((key.trim().to_lowercase(), value.trim().to_owned()))
}

fn divided(line: &str) -> Option<(String, String)> {
    let (key, value) = line.split_once(':')?;
    // An address or a sentence is no key.
    if key.len() > KEY_CHARS_MAX || value.starts_with("//") {
        return None;
    }
    let key = key.trim().trim_end_matches('.').trim().to_lowercase();
    (!key.is_empty()).then(|| (key, value.trim().to_owned()))
}

/// Longer ones are sentences.
const KEY_CHARS_MAX: usize = 48;

fn take(facts: &mut Facts, key: &str, value: &str) {
    match key {
        "domain name" | "domain" | "domain name domain" => {
            set(&mut facts.domain, || DomainName::parse(value.split_whitespace().next()?).ok());
        }
        "registry domain id" | "roid" | "domain id" => set(&mut facts.handle, || Some(value.to_owned())),
        "registrar"
        | "registrar name"
        | "sponsoring registrar"
        | "registrar organization"
        | "registrar registrar"
        | "registrar registrar name"
        | "current registrar"
        | "registrar handle"
        | "billing partner" => {
            let tagged = value.split("[Tag").next().unwrap_or(value);
            name_registrar(facts, tagged);
        }
        "registrar iana id" | "sponsoring registrar iana id" | "registrar registrar iana id" => {
            if let Ok(id) = value.trim().parse() {
                let name = facts.registrar.take().map(|registrar| registrar.name);
                facts.registrar = Registrar::new(Some(id), name.as_deref());
            }
        }
        "creation date"
        | "created"
        | "created on"
        | "created date"
        | "registered on"
        | "registered"
        | "registration date"
        | "registration time"
        | "domain registration date"
        | "registered date"
        | "record created"
        | "activated"
        | "relevant dates registered on"
        | "first registration date"
        | "connected date" => {
            set(&mut facts.created, || Moment::parse(value));
        }
        "updated date"
        | "last updated"
        | "last modified"
        | "last update"
        | "changed"
        | "modified"
        | "last updated on"
        | "updated"
        | "last updated date"
        | "last-update"
        | "record last updated on"
        | "relevant dates last updated" => {
            set(&mut facts.modified, || Moment::parse(value).or_else(|| Moment::parse(value.split('(').next()?)));
        }
        "registry expiry date"
        | "expiry date"
        | "expiration date"
        | "expires"
        | "expires on"
        | "expire date"
        | "expire"
        | "paid-till"
        | "expiration time"
        | "renewal date"
        | "valid until"
        | "expiration"
        | "domain expiration date"
        | "relevant dates expiry date"
        | "record expires on"
        | "validity"
        | "exp date" => {
            set(&mut facts.expires, || Moment::parse(value));
        }
        "registrar registration expiration date" => set(&mut facts.registrar_expires, || Moment::parse(value)),
        "name server"
        | "name servers"
        | "nserver"
        | "nameserver"
        | "nameservers"
        | "ns"
        | "domain servers in listed order"
        | "domain nameservers"
        | "primary server"
        | "secondary server"
        | "host name"
        | "dns"
        | "name server information"
        | "domain servers"
        | "hostname" => nameserver(facts, value),
        "domain status" | "status" | "state" | "registration status" | "eppstatus" => {
            facts.statuses.extend(flags(value.split([',', ';'])));
        }
        "dnssec" | "dnssec signed" | "signed" | "secure" => set(&mut facts.signing, || dnssec(value)),
        "dnskey" => set(&mut facts.signing, || Some(Signing::Signed)),
        "dnssec ds data" | "ds-rdata" | "ds" | "dsrecord" | "trust anchor" | "ds record" => {
            facts.delegation_signers.extend(delegation_signer(value));
        }
        "registrar whois server" | "whois server" => set(&mut facts.registrar_server, || server(value)),
        _ => {}
    }
}

/// The first value counts: the registry's lines come before the registrar's.
fn set<T>(slot: &mut Option<T>, value: impl FnOnce() -> Option<T>) {
    if slot.is_none() {
        *slot = value();
    }
}

fn name_registrar(facts: &mut Facts, name: &str) {
    let id = facts.registrar.as_ref().and_then(|registrar| registrar.iana_id);
    let unnamed = facts
        .registrar
        .as_ref()
        .is_none_or(|registrar| registrar.known_as.is_some() || registrar.name.starts_with("registrar "));
    if unnamed {
        facts.registrar = Registrar::new(id, Some(name)).or(facts.registrar.take());
    }
}

/// `NS1.EXAMPLE.COM. 192.0.2.1, 2001:db8::1`, `ns1.example.com [192.0.2.1]`.
fn nameserver(facts: &mut Facts, value: &str) {
    let mut words = value.split([' ', '\t', ',', '[', ']', '(', ')']).filter(|word| !word.is_empty());
    let Some(name) = words.next().and_then(|name| DomainName::parse(name).ok()) else { return };
    if name.label_count() < 2
        || facts.nameservers.len() >= NAMESERVERS_MAX
        || name.as_str().parse::<std::net::IpAddr>().is_ok()
    {
        return;
    }
    let addresses = words.filter_map(|word| word.parse().ok()).collect();
    facts.nameservers.push(Nameserver { name, addresses });
}

fn dnssec(value: &str) -> Option<Signing> {
    let value = value.to_lowercase();
    match value.as_str() {
        "unsigned" | "no" | "inactive" | "unsigned delegation" | "not signed" | "n" | "false" => {
            Some(Signing::Unsigned)
        }
        "yes" | "active" | "y" | "true" | "signed" => Some(Signing::Signed),
        text if text.starts_with("signed") => Some(Signing::Signed),
        text if text.starts_with("unsigned") => Some(Signing::Unsigned),
        _ => None,
    }
}

/// `12345 13 2 ABCDEF…`
fn delegation_signer(value: &str) -> Option<DelegationSigner> {
    let mut words = value.split_whitespace();
    let key_tag = words.next()?.parse().ok()?;
    let algorithm = words.next()?.parse().ok()?;
    let digest_type = words.next()?.parse().ok()?;
    let digest = words.collect::<String>().to_ascii_uppercase();
    (!digest.is_empty() && digest.bytes().all(|b| b.is_ascii_hexdigit())).then_some(DelegationSigner {
        key_tag,
        algorithm,
        digest_type,
        digest,
    })
}

#[cfg(test)]
mod tests;
