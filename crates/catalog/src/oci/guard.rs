//! Where registries may be when strangers name them: every address is judged before it is called, whether it comes from a
//! name, a literal in a URL, a redirect or the place where a registry sends its clients to log in.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::{Url, redirect};

/// What judges an address: the error says of what kind it is.
type Judge = dyn Fn(IpAddr) -> Result<(), String> + Send + Sync;

/// More redirects than any registry needs.
const REDIRECTS_MAX: usize = 10;

/// See the module.
#[derive(Clone)]
pub struct Guard {
    judge: Arc<Judge>,
    /// A host that somebody vouches for: it may be anywhere.
    vouched: Option<Arc<str>>,
}

impl std::fmt::Debug for Guard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Guard").field("vouched", &self.vouched).finish_non_exhaustive()
    }
}

/// An address that is not called. Says of what kind it is, not which: names are resolved where strangers cannot see.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the address of {host} must not be called: {why}")]
pub struct NotCalled {
    host: String,
    why: String,
}

impl Guard {
    /// Calls only what the judge lets pass.
    pub fn new(judge: impl Fn(IpAddr) -> Result<(), String> + Send + Sync + 'static) -> Self {
        Self { judge: Arc::new(judge), vouched: None }
    }

    /// The same, but for one host, which may be anywhere.
    pub fn vouching_for(&self, host: &str) -> Self {
        Self { vouched: Some(bare(host).into()), ..self.clone() }
    }

    /// Whether a host may be called at an address.
    pub fn check(&self, host: &str, address: IpAddr) -> Result<(), NotCalled> {
        if self.vouched.as_deref() == Some(bare(host)) {
            return Ok(());
        }
        (self.judge)(address).map_err(|why| NotCalled { host: host.to_owned(), why })
    }

    /// The addresses of a host. One that may not be called among others is how names are rebound: such a name is not
    /// called at all.
    pub async fn resolve(&self, host: &str, port: u16) -> Result<Vec<SocketAddr>, std::io::Error> {
        let addresses: Vec<SocketAddr> = tokio::net::lookup_host((bare(host), port)).await?.collect();
        for address in &addresses {
            let checked = self.check(host, address.ip());
            checked.map_err(|error| std::io::Error::new(std::io::ErrorKind::PermissionDenied, error))?;
        }
        Ok(addresses)
    }

    /// Whether a URL names an address that may not be called; names are judged when they are resolved.
    pub(super) fn check_url(&self, url: &Url) -> Result<(), NotCalled> {
        let host = url.host_str().unwrap_or_default();
        match bare(host).parse::<IpAddr>() {
            Ok(address) => self.check(host, address),
            Err(_) => Ok(()),
        }
    }

    pub(super) fn redirects(&self) -> redirect::Policy {
        let guard = self.clone();
        redirect::Policy::custom(move |attempt| {
            if attempt.previous().len() > REDIRECTS_MAX {
                return attempt.error("too many redirects");
            }
            match guard.check_url(attempt.url()) {
                Ok(()) => attempt.follow(),
                Err(error) => attempt.error(error),
            }
        })
    }
}

/// A host without the brackets of IPv6.
fn bare(host: &str) -> &str {
    host.trim_start_matches('[').trim_end_matches(']')
}

impl Resolve for Guard {
    fn resolve(&self, name: Name) -> Resolving {
        let guard = self.clone();
        Box::pin(async move {
            let addresses = Guard::resolve(&guard, name.as_str(), 0).await?;
            Ok(Box::new(addresses.into_iter()) as Addrs)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guard() -> Guard {
        Guard::new(|address| if address.is_loopback() { Err("loopback".to_owned()) } else { Ok(()) })
    }

    #[test]
    fn literals_in_urls_are_judged_in_every_form() {
        for url in ["http://127.0.0.1:5000/v2/", "http://[::1]/", "http://0x7f.1/", "http://2130706433/"] {
            let refused = guard().check_url(&Url::parse(url).unwrap());
            assert!(refused.is_err_and(|error| error.to_string().ends_with("must not be called: loopback")), "{url}");
        }
        assert_eq!(guard().check_url(&Url::parse("https://192.0.2.1/").unwrap()), Ok(()));
    }

    #[test]
    fn who_is_vouched_for_may_be_anywhere() {
        let guard = guard().vouching_for("127.0.0.1");
        assert_eq!(guard.check_url(&Url::parse("http://127.0.0.1:5000/v2/").unwrap()), Ok(()));
        assert!(guard.check_url(&Url::parse("http://127.0.0.2:5000/v2/").unwrap()).is_err());
    }

    #[tokio::test]
    async fn names_are_judged_by_their_addresses() {
        let refused = guard().resolve("localhost", 80).await.unwrap_err();
        assert_eq!(refused.kind(), std::io::ErrorKind::PermissionDenied);
        assert_eq!(refused.to_string(), "the address of localhost must not be called: loopback");
    }
}
