//! Where a service really is: one address or several. Those who connect begin with one each and pass over those that
//! cannot be reached, much as a Service spreads requests over the endpoints that are ready.

use std::sync::Arc;

use http::Uri;

use crate::dial::Origin;
use crate::services::DEFAULT_PORT;

/// Addresses of one service: as many endpoints as upstream puts into an EndpointSlice.
const LOCATIONS_MAX: usize = 100;

/// A host and a port to connect to, and who chose them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Location {
    pub host: String,
    pub port: u16,
    pub origin: Origin,
}

impl Location {
    /// From `https://host:port`; a path would be lost and is refused.
    pub fn parse(url: &str, origin: Origin) -> Result<Self, String> {
        let wrong = |why: &str| format!("{url:?} is no address such as https://host:443: {why}");
        let uri: Uri = url.trim().parse().map_err(|error: http::uri::InvalidUri| wrong(&error.to_string()))?;
        if uri.scheme_str() != Some("https") {
            return Err(wrong("it must begin with https://"));
        }
        if !matches!(uri.path(), "" | "/") || uri.query().is_some() {
            return Err(wrong("it must end after the port"));
        }
        let authority = uri.authority().map(|authority| authority.as_str()).unwrap_or_default();
        let host = uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']').to_owned();
        if host.is_empty() || authority.contains('@') {
            return Err(wrong("it must name a host and nobody"));
        }
        Ok(Self { host, port: uri.port_u16().unwrap_or(DEFAULT_PORT), origin })
    }

    /// `host:port`, as URLs have it.
    pub fn authority(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }
}

/// The addresses of a service, at least one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Locations(Arc<[Location]>);

impl Locations {
    /// From URLs with commas or spaces between them; `None` if there is none.
    pub fn parse(urls: &str, origin: Origin) -> Result<Option<Self>, String> {
        let urls = urls.split(|between: char| between == ',' || between.is_whitespace()).filter(|url| !url.is_empty());
        let locations: Vec<Location> = urls.map(|url| Location::parse(url, origin)).collect::<Result<_, _>>()?;
        if locations.len() > LOCATIONS_MAX {
            return Err(format!("{} addresses are more than {LOCATIONS_MAX}", locations.len()));
        }
        Ok(Self::all(locations))
    }

    /// All of these, if there are any.
    pub(crate) fn all(locations: impl IntoIterator<Item = Location>) -> Option<Self> {
        let locations: Arc<[Location]> = locations.into_iter().collect();
        (!locations.is_empty()).then_some(Self(locations))
    }

    /// In the order in which they are tried.
    pub fn iter(&self) -> impl Iterator<Item = &Location> {
        self.0.iter()
    }

    /// Every address on its own, to be tried first, with the others behind it.
    pub fn each_first(&self) -> impl Iterator<Item = (&Location, Self)> {
        self.0.iter().enumerate().map(move |(start, first)| (first, self.beginning_at(start)))
    }

    /// The same beginning with another one, going round.
    pub(crate) fn beginning_at(&self, start: usize) -> Self {
        let start = start % self.0.len();
        let (before, after) = self.0.split_at(start);
        Self(after.iter().chain(before).cloned().collect())
    }

    /// Whether there is but one.
    pub(crate) fn is_single(&self) -> bool {
        self.0.len() == 1
    }
}

impl From<Location> for Locations {
    fn from(location: Location) -> Self {
        Self(Arc::from([location]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_address_is_https_and_nothing_but_host_and_port() {
        for wrong in ["http://a", "https://a/path", "https://a?q", "https://u@a", "a:443", "", "https://"] {
            assert!(Location::parse(wrong, Origin::Tenant).is_err(), "{wrong}");
        }
    }

    #[test]
    fn several_addresses_are_each_the_first_in_turn() {
        let locations = Locations::parse("https://a, https://b:2\nhttps://c", Origin::Tenant);
        let locations = locations.expect("addresses").expect("some");
        let orders: Vec<Vec<&str>> = vec![vec!["a", "b", "c"], vec!["b", "c", "a"], vec!["c", "a", "b"]];
        for ((first, order), expected) in locations.each_first().zip(orders) {
            assert_eq!(order.iter().map(|location| location.host.as_str()).collect::<Vec<_>>(), expected);
            assert_eq!(first.host, expected[0]);
        }
        assert_eq!(Locations::parse(" ,\n", Origin::Tenant), Ok(None));
        assert!(Locations::parse("https://a,b", Origin::Tenant).is_err(), "one wrong address is not overlooked");
        assert!(Locations::parse(&"https://a,".repeat(LOCATIONS_MAX + 1), Origin::Tenant).is_err());
    }

    proptest! {
        #[test]
        fn any_text_is_a_list_of_addresses_or_not(text in "\\PC{0,60}") {
            let _ = Locations::parse(&text, Origin::Tenant);
        }
    }
}
