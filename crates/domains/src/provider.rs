//! Which DNS provider serves a zone, told by the names of its nameservers, and how that provider wants records typed: the
//! same record is `@`, nothing or the whole name, depending on whose form it is put into.

mod table;

use serde::Serialize;

use crate::name::DomainName;

/// A DNS provider and the habits of its forms.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Provider {
    pub name: &'static str,
    /// Ends of its nameservers' names.
    #[serde(skip)]
    suffixes: &'static [&'static str],
    pub names: NameStyle,
    pub targets: TargetStyle,
    pub texts: TextStyle,
    pub apex: Apex,
    /// The shortest TTL that it takes, in seconds.
    pub ttl_min: u32,
    /// What its form calls the name, the value and the TTL.
    pub labels: Labels,
}

/// How the owner name of a record is typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum NameStyle {
    /// Without the zone; `@` for the zone itself.
    RelativeAt,
    /// Without the zone; nothing for the zone itself.
    RelativeEmpty,
    /// The whole name.
    Whole,
    /// The whole name with a dot at the end.
    WholeDot,
}

/// How a name in a value is typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum TargetStyle {
    /// Without a dot at the end.
    Plain,
    /// With one: without it, the zone is appended.
    Dot,
}

/// How the value of a TXT record is typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum TextStyle {
    /// As it is; quotes would become part of it.
    Plain,
    /// In quotes.
    Quoted,
}

/// What can be done where a CNAME is not allowed: at the zone itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Apex {
    /// A CNAME may be typed; addresses are served.
    Flattening,
    /// A type of its own, by this name.
    Alias(&'static str),
    /// A type of its own that leads only to the provider's own services.
    OwnServicesOnly(&'static str),
    /// Only addresses.
    AddressesOnly,
}

/// The words of a form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Labels {
    pub name: &'static str,
    pub value: &'static str,
}

/// What the nameservers of a zone tell about who serves it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Detection {
    /// All nameservers are one provider's.
    One(&'static Provider),
    /// Several providers: every record has to be made at each of them.
    Several(Vec<&'static Provider>),
    /// Nameservers with names of the zone's own, recognised by the SOA record.
    BehindOwnNames(&'static Provider),
    /// Nobody we know.
    Unknown,
}

impl Detection {
    /// The provider whose habits to follow.
    pub fn provider(&self) -> &'static Provider {
        match self {
            Self::One(provider) | Self::BehindOwnNames(provider) => provider,
            Self::Several(providers) => providers.first().copied().unwrap_or(&table::UNKNOWN),
            Self::Unknown => &table::UNKNOWN,
        }
    }

    /// The name to show, such as `DigitalOcean` or `Cloudflare and Amazon Route 53`.
    pub fn display(&self) -> String {
        match self {
            Self::One(provider) => provider.name.to_owned(),
            Self::BehindOwnNames(provider) => format!("{} (under own names)", provider.name),
            Self::Several(providers) => {
                providers.iter().map(|provider| provider.name).collect::<Vec<_>>().join(" and ")
            }
            Self::Unknown => "unknown".to_owned(),
        }
    }
}

/// Tells the provider by the nameservers, and by the SOA record's first server and mailbox where these say nothing.
pub fn detect(nameservers: &[DomainName], soa: &[DomainName]) -> Detection {
    let mut found: Vec<&'static Provider> = Vec::new();
    for provider in nameservers.iter().filter_map(by_name) {
        if !found.contains(&provider) {
            found.push(provider);
        }
    }
    match found[..] {
        [provider] => Detection::One(provider),
        [] => match soa.iter().find_map(by_name) {
            Some(provider) => Detection::BehindOwnNames(provider),
            None => Detection::Unknown,
        },
        _ => Detection::Several(found),
    }
}

fn by_name(host: &DomainName) -> Option<&'static Provider> {
    table::PROVIDERS.iter().find(|provider| provider.suffixes.iter().any(|suffix| matches(host.as_str(), suffix)))
}

/// `example.com` matches itself and what is below; `awsdns-*` any label that begins so.
fn matches(host: &str, suffix: &str) -> bool {
    match suffix.strip_suffix('*') {
        Some(start) => host.split('.').any(|label| label.starts_with(start)),
        None => host.strip_suffix(suffix).is_some_and(|rest| rest.is_empty() || rest.ends_with('.')),
    }
}

impl Provider {
    /// The owner name, a wildcard too, as its form wants it.
    pub fn type_name(&self, name: &str, zone: &DomainName) -> String {
        let whole = name.trim_end_matches('.');
        let relative = whole.strip_suffix(zone.as_str()).map(|rest| rest.trim_end_matches('.'));
        match (self.names, relative) {
            (NameStyle::RelativeAt, Some("")) => "@".to_owned(),
            (NameStyle::RelativeAt | NameStyle::RelativeEmpty, Some(relative)) => relative.to_owned(),
            (NameStyle::WholeDot, _) => format!("{whole}."),
            (NameStyle::Whole, _) | (_, None) => whole.to_owned(),
        }
    }

    /// A name in a value as its form wants it.
    pub fn type_target(&self, target: &DomainName) -> String {
        match self.targets {
            TargetStyle::Plain => target.to_string(),
            TargetStyle::Dot => target.absolute(),
        }
    }

    /// A text as its form wants it.
    pub fn type_text(&self, text: &str) -> String {
        match self.texts {
            TextStyle::Plain => text.to_owned(),
            TextStyle::Quoted => format!("\"{text}\""),
        }
    }

    /// What stands for "leave this field empty" when a person reads it.
    pub fn show_name(&self, typed: &str) -> String {
        if typed.is_empty() { "(leave empty)".to_owned() } else { typed.to_owned() }
    }

    /// A hint about the habit that most often goes wrong here.
    pub fn name_hint(&self, zone: &DomainName) -> String {
        match self.names {
            NameStyle::RelativeAt | NameStyle::RelativeEmpty => {
                format!("{} appends .{zone} by itself: typing it doubles it", self.name)
            }
            NameStyle::Whole => format!("{} wants the whole name", self.name),
            NameStyle::WholeDot => format!("{} wants the whole name with a dot at the end", self.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(texts: &[&str]) -> Vec<DomainName> {
        texts.iter().map(|text| DomainName::parse(text).expect("a name")).collect()
    }

    fn told(nameservers: &[&str], soa: &[&str]) -> String {
        detect(&names(nameservers), &names(soa)).display()
    }

    #[test]
    fn nameservers_tell_the_provider() {
        assert_eq!(told(&["ns1.digitalocean.com", "ns2.digitalocean.com"], &[]), "DigitalOcean");
        assert_eq!(told(&["ns-2.awsdns-00.com", "ns-1027.awsdns-00.org"], &[]), "Amazon Route 53");
        assert_eq!(told(&["ada.ns.cloudflare.com"], &[]), "Cloudflare");
        assert_eq!(told(&["ns1080.ui-dns.de", "ns1080.ui-dns.com"], &[]), "IONOS");
        assert_eq!(told(&["ns1.notdigitalocean.com"], &[]), "unknown");
    }

    #[test]
    fn two_providers_are_both_named_and_own_names_are_seen_through() {
        assert_eq!(told(&["ada.ns.cloudflare.com", "ns-2.awsdns-00.com"], &[]), "Cloudflare and Amazon Route 53");
        assert_eq!(told(&["ns1.example.com"], &["ns-1.awsdns-07.co.uk"]), "Amazon Route 53 (under own names)");
    }

    #[test]
    fn the_same_record_is_typed_as_each_form_wants_it() {
        let zone = DomainName::parse("example.com").expect("a name");
        let provider = |ns: &str| detect(&names(&[ns]), &[]).provider();
        let cloudflare = provider("ada.ns.cloudflare.com");
        assert_eq!(cloudflare.type_name("example.com", &zone), "@");
        assert_eq!(cloudflare.type_name("_x-challenge.www.example.com", &zone), "_x-challenge.www");
        let route53 = provider("ns-2.awsdns-00.com");
        assert_eq!(route53.type_name("example.com", &zone), "");
        assert_eq!(route53.type_text("token"), "\"token\"");
        let ovh = provider("dns19.ovh.net");
        assert_eq!(ovh.type_target(&DomainName::parse("target.net").expect("a name")), "target.net.");
        assert_eq!(table::UNKNOWN.type_name("*.example.com", &zone), "*");
    }

    #[test]
    fn no_two_providers_claim_the_same_suffix() {
        let mut suffixes: Vec<&str> =
            table::PROVIDERS.iter().flat_map(|provider| provider.suffixes.iter().copied()).collect();
        let count = suffixes.len();
        suffixes.sort_unstable();
        suffixes.dedup();
        assert_eq!(suffixes.len(), count);
    }
}
