//! RDAP answers (RFC 9083): the facts of a domain object. Servers differ in what they leave out and how they nest, so
//! everything is optional, and what has another type than it should is passed over.

use serde_json::Value;

use super::status::flags;
use super::{DelegationSigner, Facts, Moment, Nameserver, Registrar, Signing};
use crate::name::DomainName;

/// No zone has more nameservers or keys than this; a server that lists more is not believed.
const LIST_ITEMS_MAX: usize = 64;
/// Entities may contain entities; registrars stand at most this deep.
const ENTITY_DEPTH_MAX: usize = 3;

/// Why an answer cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RdapError {
    #[error("the answer is no JSON: {0}")]
    Json(String),
    #[error("the answer is about {0:?} and not about a domain")]
    Class(String),
    #[error("the server says {code}: {title}")]
    Server { code: u64, title: String },
    #[error("the answer is about {0}, which was not asked for")]
    OtherName(DomainName),
}

/// Reads the answer about `domain`.
pub fn parse(body: &[u8], domain: &DomainName) -> Result<Facts, RdapError> {
    let document: Value = serde_json::from_slice(body).map_err(|error| RdapError::Json(error.to_string()))?;
    if let Some(code) = document.get("errorCode").and_then(Value::as_u64) {
        let title = text(&document, "title").unwrap_or("no reason given").to_owned();
        return Err(RdapError::Server { code, title });
    }
    match text(&document, "objectClassName") {
        Some("domain") => {}
        other => return Err(RdapError::Class(other.unwrap_or_default().to_owned())),
    }
    let named = text(&document, "ldhName").or_else(|| text(&document, "unicodeName"));
    let name = named.and_then(|name| DomainName::parse(name).ok());
    if let Some(other) = name.as_ref().filter(|name| *name != domain) {
        return Err(RdapError::OtherName(other.clone()));
    }
    let statuses = list(&document, "status").iter().filter_map(Value::as_str);
    let (signing, delegation_signers) = signing(&document);
    Ok(Facts {
        domain: name,
        handle: text(&document, "handle").map(str::to_owned),
        registrar: registrar(&document, 0),
        created: event(&document, &["registration"]),
        // `last update of RDAP database` moves all the time and says nothing of this name.
        modified: event(&document, &["last changed"]),
        expires: event(&document, &["expiration"]),
        registrar_expires: event(&document, &["registrar expiration"]),
        transferred: event(&document, &["transfer"]),
        nameservers: nameservers(&document),
        signing,
        delegation_signers,
        statuses: flags(statuses),
        registrar_server: related(&document),
    })
}

fn text<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value.get(key).and_then(Value::as_str)
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    let items = value.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    items.get(..items.len().min(LIST_ITEMS_MAX)).unwrap_or_default()
}

fn event(document: &Value, actions: &[&str]) -> Option<Moment> {
    let wanted = |event: &&Value| {
        text(event, "eventAction")
            .is_some_and(|action| actions.iter().any(|wanted| action.eq_ignore_ascii_case(wanted)))
    };
    list(document, "events").iter().filter(wanted).filter_map(|event| Moment::parse(text(event, "eventDate")?)).max()
}

fn nameservers(document: &Value) -> Vec<Nameserver> {
    let one = |server: &Value| {
        let name = DomainName::parse(text(server, "ldhName").or_else(|| text(server, "unicodeName"))?).ok()?;
        let addresses = server.get("ipAddresses");
        let of = |family: &str| addresses.map(|all| list(all, family)).unwrap_or_default().iter();
        let mut addresses: Vec<_> = of("v4").chain(of("v6")).filter_map(|text| text.as_str()?.parse().ok()).collect();
        addresses.sort();
        Some(Nameserver { name, addresses })
    };
    let mut servers: Vec<Nameserver> = list(document, "nameservers").iter().filter_map(one).collect();
    servers.sort();
    servers.dedup_by(|a, b| a.name == b.name);
    servers
}

fn signing(document: &Value) -> (Option<Signing>, Vec<DelegationSigner>) {
    let Some(secure) = document.get("secureDNS") else { return (None, Vec::new()) };
    let number = |value: &Value, key: &str| {
        let value = value.get(key)?;
        value.as_u64().or_else(|| value.as_str()?.trim().parse().ok())
    };
    let one = |ds: &Value| {
        let digest = text(ds, "digest")?.trim().to_ascii_uppercase();
        digest.bytes().all(|b| b.is_ascii_hexdigit()).then_some(())?;
        Some(DelegationSigner {
            key_tag: number(ds, "keyTag")?.try_into().ok()?,
            algorithm: number(ds, "algorithm")?.try_into().ok()?,
            digest_type: number(ds, "digestType")?.try_into().ok()?,
            digest,
        })
    };
    let mut signers: Vec<DelegationSigner> = list(secure, "dsData").iter().filter_map(one).collect();
    signers.sort();
    let signed = secure.get("delegationSigned").and_then(Value::as_bool);
    let signing = match signed {
        Some(true) => Some(Signing::Signed),
        Some(false) => Some(Signing::Unsigned),
        None if !signers.is_empty() => Some(Signing::Signed),
        None => None,
    };
    (signing, signers)
}

/// The entity with the role `registrar`. Its organisation's name is kept; other entities are people and are not looked at.
fn registrar(value: &Value, depth: usize) -> Option<Registrar> {
    if depth > ENTITY_DEPTH_MAX {
        return None;
    }
    let entities = list(value, "entities");
    let is_registrar = |entity: &&Value| {
        list(entity, "roles")
            .iter()
            .any(|role| role.as_str().is_some_and(|role| role.eq_ignore_ascii_case("registrar")))
    };
    if let Some(entity) = entities.iter().find(is_registrar) {
        let id = list(entity, "publicIds").iter().find_map(|id| {
            let kind = text(id, "type")?.to_ascii_lowercase();
            let iana = kind.contains("iana") && kind.contains("registrar");
            let identifier = id.get("identifier")?;
            let number = identifier.as_u64().or_else(|| identifier.as_str()?.trim().parse().ok())?;
            iana.then_some(number)?.try_into().ok()
        });
        // Registries of generic TLDs use the IANA number as the handle.
        return Registrar::new(id, card_name(entity).or_else(|| text(entity, "handle")));
    }
    entities.iter().find_map(|entity| registrar(entity, depth + 1))
}

/// `fn` of a jCard, or `org` where `fn` is empty.
fn card_name(entity: &Value) -> Option<&str> {
    let properties = entity.get("vcardArray")?.as_array()?.get(1)?.as_array()?;
    let property = |name: &str| {
        properties.iter().take(LIST_ITEMS_MAX).find_map(|property| {
            let property = property.as_array()?;
            (property.first()?.as_str()? == name).then_some(())?;
            property.get(3)?.as_str().map(str::trim).filter(|value| !value.is_empty())
        })
    };
    property("fn").or_else(|| property("org"))
}

/// The registrar's own RDAP answer.
fn related(document: &Value) -> Option<String> {
    let link = |link: &Value| {
        let related = text(link, "rel").is_some_and(|rel| rel.eq_ignore_ascii_case("related"));
        let rdap = text(link, "type").is_some_and(|kind| kind.starts_with("application/rdap+json"));
        (related && rdap).then(|| text(link, "href").map(str::to_owned))?
    };
    list(document, "links").iter().find_map(link)
}

#[cfg(test)]
mod tests;
