//! Which RDAP server knows a name (RFC 9224): IANA's list of suffixes and URLs, of which the longest suffix counts.

use serde_json::Value;

use crate::name::DomainName;

/// IANA lists about 1,200 top-level domains.
const ENTRIES_MAX: usize = 20_000;

/// The list, ready to be asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bootstrap {
    /// Suffixes in lower case with their https URLs, each ending in a stroke.
    services: Vec<(String, Vec<String>)>,
}

/// Servers that exist and that IANA's list does not have, or did not have for long.
const UNLISTED: &[(&str, &str)] = &[
    ("ac", "https://rdap.identitydigital.services/rdap/"),
    ("ch", "https://rdap.nic.ch/"),
    ("de", "https://rdap.denic.de/"),
    ("io", "https://rdap.identitydigital.services/rdap/"),
    ("li", "https://rdap.nic.li/"),
    ("me", "https://rdap.identitydigital.services/rdap/"),
    ("sh", "https://rdap.identitydigital.services/rdap/"),
];

impl Bootstrap {
    /// Reads `dns.json`. Entries that are not as they should be are passed over.
    pub fn parse(body: &[u8]) -> Result<Self, String> {
        let document: Value = serde_json::from_slice(body).map_err(|error| format!("the list is no JSON: {error}"))?;
        let services = document.get("services").and_then(Value::as_array).ok_or("the list has no services")?;
        let mut found = Vec::new();
        for service in services.iter().take(ENTRIES_MAX) {
            let part = |at: usize| service.get(at).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
            let urls: Vec<String> = part(1).iter().filter_map(Value::as_str).filter_map(base).collect();
            if urls.is_empty() {
                continue;
            }
            let suffixes = part(0).iter().filter_map(Value::as_str).take(ENTRIES_MAX);
            found.extend(suffixes.map(|suffix| (suffix.trim_matches('.').to_ascii_lowercase(), urls.clone())));
        }
        Ok(Self { services: found })
    }

    /// The URLs to ask about `domain`, best first.
    pub fn servers(&self, domain: &DomainName) -> Vec<String> {
        let mut suffix = domain.as_str();
        loop {
            if let Some((_, urls)) = self.services.iter().find(|(listed, _)| listed == suffix) {
                return urls.clone();
            }
            match suffix.split_once('.') {
                Some((_, parent)) => suffix = parent,
                None => break,
            }
        }
        UNLISTED.iter().filter(|(tld, _)| *tld == suffix).map(|(_, url)| (*url).to_owned()).collect()
    }
}

fn base(url: &str) -> Option<String> {
    let url = url.trim();
    url.starts_with("https://").then(|| if url.ends_with('/') { url.to_owned() } else { format!("{url}/") })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LIST: &[u8] = br#"{"version": "1.0", "services": [
        [["com", "net"], ["http://plain.example/", "https://rdap.registry.example/v1"]],
        [["uk", "co.uk"], ["https://uk.example/"]],
        [["central.co.uk"], ["https://central.example/"]],
        [["broken"], "no list"], 7, [["plain"], ["http://only.example/"]]
    ]}"#;

    fn servers(domain: &str) -> Vec<String> {
        Bootstrap::parse(LIST).expect("a list").servers(&DomainName::parse(domain).expect("a name"))
    }

    #[test]
    fn the_longest_suffix_counts_and_only_https_is_used() {
        assert_eq!(servers("example.com"), ["https://rdap.registry.example/v1/"]);
        assert_eq!(servers("a.central.co.uk"), ["https://central.example/"]);
        assert_eq!(servers("a.other.co.uk"), ["https://uk.example/"]);
        assert!(servers("example.plain").is_empty() && servers("example.broken").is_empty());
    }

    #[test]
    fn a_server_that_iana_does_not_list_is_known() {
        assert_eq!(servers("q7.io"), ["https://rdap.identitydigital.services/rdap/"]);
        assert!(servers("example.zz").is_empty());
    }

    proptest! {
        #[test]
        fn no_list_panics(body in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Bootstrap::parse(&body);
        }
    }
}
