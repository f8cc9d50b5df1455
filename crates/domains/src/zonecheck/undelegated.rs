//! A check of servers that the parent does not know yet: "what would be said if the zone were delegated like this", before a move.

use std::net::IpAddr;

use hickory_proto::dnssec::rdata::DS;
use hickory_proto::dnssec::{Algorithm, DigestType};

use crate::resolve::{AddressSource, Cut, Nameserver, Run};
use crate::wire::{InvalidName, Name, parse_name, show_name};

/// Servers that may be named; a zone has no more than thirteen.
const SERVERS_MAX: usize = 13;

/// What the parent would say.
#[derive(Clone, Debug, Default)]
pub struct Undelegated {
    /// The servers; those without addresses are looked up.
    pub servers: Vec<(Name, Vec<IpAddr>)>,
    /// The DS records.
    pub ds: Vec<DS>,
}

/// Text that names no server or no DS record.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UndelegatedError {
    /// The name of a server.
    #[error(transparent)]
    Name(#[from] InvalidName),
    /// The address of a server.
    #[error("{0:?} is not an address")]
    Address(String),
    /// A DS record.
    #[error("{0:?} is not a DS record: key tag, algorithm, digest type and digest are separated by commas")]
    Ds(String),
    /// Too many servers.
    #[error("at most {SERVERS_MAX} servers can be named")]
    TooMany,
}

impl Undelegated {
    /// From `name` or `name/address`, several for one name, and `tag,algorithm,type,digest`, as zonemaster-cli has them.
    pub fn parse(servers: &[String], ds: &[String]) -> Result<Self, UndelegatedError> {
        let mut parsed = Self::default();
        for text in servers {
            let (name, address) = text.split_once('/').map_or((text.as_str(), None), |(name, at)| (name, Some(at)));
            let name = parse_name(name)?.to_lowercase();
            let parse = |text: &str| text.parse().map_err(|_| UndelegatedError::Address(text.to_owned()));
            let address: Option<IpAddr> = address.map(parse).transpose()?;
            match parsed.servers.iter_mut().find(|(known, _)| *known == name) {
                Some((_, addresses)) => addresses.extend(address),
                None => parsed.servers.push((name, address.into_iter().collect())),
            }
        }
        if parsed.servers.len() > SERVERS_MAX {
            return Err(UndelegatedError::TooMany);
        }
        for text in ds {
            parsed.ds.push(parse_ds(text).ok_or_else(|| UndelegatedError::Ds(text.clone()))?);
        }
        Ok(parsed)
    }

    /// The cut that the parent would refer to.
    pub(super) async fn cut(&self, run: &Run<'_>, zone: &Name, parent: Option<Name>) -> Cut {
        let mut servers = Vec::new();
        for (name, given) in &self.servers {
            let (addresses, source) = match given.is_empty() {
                true => (run.addresses_of(name).await, AddressSource::Lookup),
                false => (given.clone(), AddressSource::Glue),
            };
            servers.push(Nameserver { name: name.clone(), addresses, source });
        }
        servers.sort_by_key(|server| show_name(&server.name));
        Cut { zone: zone.clone(), parent, servers, ns_ttl: None, security: Vec::new() }
    }
}

fn parse_ds(text: &str) -> Option<DS> {
    let mut fields = text.split([',', ' ']).filter(|field| !field.is_empty());
    let (tag, algorithm, digest_type) =
        (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?, fields.next()?.parse::<u8>().ok()?);
    let digits: String = fields.collect();
    let pairs = digits.as_bytes().chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok());
    let digest: Vec<u8> = pairs.collect::<Option<_>>()?;
    (!digest.is_empty()).then(|| DS::new(tag, Algorithm::from_u8(algorithm), DigestType::from(digest_type), digest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_and_signers_are_read_as_zonemaster_writes_them() {
        let text = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let parsed = Undelegated::parse(
            &text(&["ns1.example/192.0.2.1", "NS1.example/2001:db8::1", "ns2.example"]),
            &text(&["4711,13,2,00AAbb"]),
        )
        .expect("valid");
        assert_eq!(parsed.servers.len(), 2);
        assert_eq!(parsed.servers[0].1.len(), 2);
        assert!(parsed.servers[1].1.is_empty());
        assert_eq!((parsed.ds[0].key_tag(), parsed.ds[0].digest()), (4711, [0, 0xaa, 0xbb].as_slice()));
        assert!(Undelegated::parse(&text(&["ns1.example/host"]), &[]).is_err());
        assert!(Undelegated::parse(&[], &text(&["13,2"])).is_err());
    }
}
