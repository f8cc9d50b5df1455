//! Finding the registration of a name: IANA's list, the registry's RDAP, the registrar's beside it; WHOIS where there is no
//! RDAP or it cannot be used. Servers are asked politely, and one that says "later" decides when.

use std::sync::{Arc, Mutex, PoisonError};

use jiff::{SignedDuration, Timestamp};

use super::bootstrap::Bootstrap;
use super::exchange::Exchange;
use super::pace::{Pace, Turn};
use super::tally::{Budget, Counts, Tally};
use super::{Consulted, Facts, Registration, Role, Source, rdap, whois};
use crate::https::{Reply, join};
use crate::name::DomainName;
use crate::seams::{Clock, Roots};

/// RFC 7480 says that clients follow redirects; more than this is a loop.
const REDIRECTS_MAX: usize = 3;
/// One question per second and host, which registries tolerate.
const HOST_GAP: SignedDuration = SignedDuration::from_secs(1);
/// A person waits for this.
const PATIENCE: SignedDuration = SignedDuration::from_secs(4);
/// IANA's list changes a few times a month.
const BOOTSTRAP_KEPT_MAX: SignedDuration = SignedDuration::from_hours(24);
/// And is not asked for more often than this, whatever its header says.
const BOOTSTRAP_KEPT_MIN: SignedDuration = SignedDuration::from_mins(15);

/// How a question is counted that got no answer.
const FAILED: &str = "failed";

/// Why there is no registration data.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RegistrationError {
    /// The registry says that the name is free.
    #[error("{domain} is not registered, says {server}")]
    NotRegistered { domain: DomainName, server: String },
    /// The server wants to be asked later.
    #[error("{server} wants to be asked again after {until}")]
    Later { server: String, until: Timestamp },
    /// Nobody could be asked; each attempt with its reason.
    #[error("no server could tell: {}", .0.join("; "))]
    Unavailable(Vec<String>),
}

/// Looks registrations up.
pub struct Registrations {
    exchange: Arc<dyn Exchange>,
    clock: Arc<dyn Clock>,
    bootstrap_url: String,
    whois_root: String,
    pace: Pace,
    counts: Counts,
    bootstrap: Mutex<Option<Kept>>,
}

/// The list, and until when it is good.
#[derive(Clone)]
struct Kept {
    list: Arc<Bootstrap>,
    until: Timestamp,
}

/// How asking one server ended, when it did not end with facts.
enum Failure {
    NotFound,
    Later(Timestamp),
    Unusable(String),
}

impl Registrations {
    pub fn new(exchange: Arc<dyn Exchange>, clock: Arc<dyn Clock>, roots: &Roots) -> Self {
        Self {
            exchange,
            clock,
            bootstrap_url: roots.rdap_bootstrap.clone(),
            whois_root: roots.whois.clone(),
            pace: Pace::new(HOST_GAP, PATIENCE),
            counts: Counts::default(),
            bootstrap: Mutex::default(),
        }
    }

    /// Whom was asked how often, and what is left of the budget of each.
    pub fn tally(&self) -> Tally {
        let (lookups, now) = (self.counts.read(), self.clock.now());
        let mut hosts: Vec<&str> = lookups.iter().map(|one| one.host.as_str()).collect();
        hosts.dedup();
        let budgets = hosts.into_iter().map(|host| Budget { host: host.to_owned(), left: self.pace.left(host, now) });
        Tally { budgets: budgets.collect(), lookups }
    }

    /// The registration of a registered name (see [`crate::name::Subject::registered`]).
    pub async fn lookup(&self, domain: &DomainName) -> Result<Registration, RegistrationError> {
        let mut failures = Vec::new();
        let mut later = None;
        match self.servers(domain).await {
            Ok(servers) if servers.is_empty() => failures.push(format!("no RDAP server is listed for {domain}")),
            Ok(servers) => {
                for base in servers {
                    let url = format!("{base}domain/{domain}");
                    match self.rdap(&url, domain).await {
                        Ok((facts, url)) => return Ok(self.with_registrar(domain, facts, url).await),
                        Err(Failure::NotFound) => {
                            return Err(RegistrationError::NotRegistered {
                                domain: domain.clone(),
                                server: host(&url),
                            });
                        }
                        Err(Failure::Later(until)) => {
                            later = Some(RegistrationError::Later { server: host(&url), until })
                        }
                        Err(Failure::Unusable(reason)) => failures.push(format!("RDAP {}: {reason}", host(&url))),
                    }
                }
            }
            Err(reason) => failures.push(format!("RDAP bootstrap: {reason}")),
        }
        // A registry that is busy does not become less so by being asked at another door.
        if let Some(later) = later {
            return Err(later);
        }
        self.by_whois(domain, failures).await
    }

    /// Until when the registry of a domain is too busy to be asked, as far as that is known without asking anybody.
    pub fn later(&self, domain: &DomainName) -> Option<Timestamp> {
        let kept = self.bootstrap.lock().unwrap_or_else(PoisonError::into_inner).clone()?;
        let turns =
            kept.list.servers(domain).into_iter().map(|base| self.pace.busy_until(&host(&base), self.clock.now()));
        turns.collect::<Option<Vec<Timestamp>>>()?.into_iter().min()
    }

    async fn servers(&self, domain: &DomainName) -> Result<Vec<String>, String> {
        let now = self.clock.now();
        let kept = self.bootstrap.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(kept) = kept.as_ref().filter(|kept| kept.until > now) {
            return Ok(kept.list.servers(domain));
        }
        let fetched = match self.document(&self.bootstrap_url).await {
            Ok((reply, _)) if reply.status == 200 => Bootstrap::parse(&reply.body).map(|list| (list, reply.expires)),
            Ok((reply, _)) => Err(format!("status {}", reply.status)),
            Err(Failure::Unusable(reason)) => Err(reason),
            Err(Failure::Later(until)) => Err(format!("not before {until}")),
            Err(Failure::NotFound) => Err("not found".to_owned()),
        };
        match (fetched, kept) {
            (Ok((list, expires)), _) => {
                let earliest = now.checked_add(BOOTSTRAP_KEPT_MIN).unwrap_or(now);
                let latest = now.checked_add(BOOTSTRAP_KEPT_MAX).unwrap_or(now);
                let kept = Kept { list: Arc::new(list), until: expires.unwrap_or(latest).clamp(earliest, latest) };
                let servers = kept.list.servers(domain);
                *self.bootstrap.lock().unwrap_or_else(PoisonError::into_inner) = Some(kept);
                Ok(servers)
            }
            // An old list is better than none: servers move rarely.
            (Err(_), Some(kept)) => Ok(kept.list.servers(domain)),
            (Err(reason), None) => Err(reason),
        }
    }

    /// The facts at an RDAP URL, and the URL that had them in the end.
    async fn rdap(&self, url: &str, domain: &DomainName) -> Result<(Facts, String), Failure> {
        let (reply, url) = self.document(url).await?;
        match reply.status {
            200 => match rdap::parse(&reply.body, domain) {
                Ok(facts) => Ok((facts, url)),
                Err(rdap::RdapError::Server { code: 404, .. }) => Err(Failure::NotFound),
                Err(error) => Err(Failure::Unusable(error.to_string())),
            },
            404 => Err(Failure::NotFound),
            429 | 503 => Err(Failure::Later(self.pace.back_off(&host(&url), reply.retry_after, self.clock.now()))),
            status => Err(Failure::Unusable(format!("status {status}"))),
        }
    }

    /// The document at `url`, redirects followed, and the URL it was at.
    async fn document(&self, url: &str) -> Result<(Reply, String), Failure> {
        let mut url = url.to_owned();
        for _ in 0..=REDIRECTS_MAX {
            self.turn(&host(&url)).await?;
            let reply = self.exchange.document(&url).await;
            let code = reply.as_ref().map_or_else(|_| FAILED.to_owned(), |reply| reply.status.to_string());
            self.counts.count(&host(&url), &code);
            let reply = reply.map_err(Failure::Unusable)?;
            if !matches!(reply.status, 301 | 302 | 303 | 307 | 308) {
                return Ok((reply, url));
            }
            let next = reply.location.as_deref().and_then(|location| join(&url, location));
            let next = next.ok_or_else(|| Failure::Unusable("a redirect that leads nowhere".to_owned()))?;
            if !next.starts_with("https://") {
                return Err(Failure::Unusable(format!("a redirect away from https, to {}", host(&next))));
            }
            url = next;
        }
        Err(Failure::Unusable(format!("more than {REDIRECTS_MAX} redirects")))
    }

    /// Waits for the turn at a host.
    async fn turn(&self, host: &str) -> Result<(), Failure> {
        match self.pace.reserve(host, self.clock.now()) {
            Turn::NotBefore(until) => {
                self.counts.count(host, "later");
                Err(Failure::Later(until))
            }
            Turn::After(wait) => {
                let wait = wait.unsigned_abs();
                if !wait.is_zero() {
                    tokio::time::sleep(wait).await;
                }
                Ok(())
            }
        }
    }

    /// Asks the registrar that the registry names; what it does not tell is no failure.
    async fn with_registrar(&self, domain: &DomainName, registry: Facts, url: String) -> Registration {
        let mut consulted = vec![Consulted { source: Source::Rdap, server: url.clone(), role: Role::Registry }];
        let related = registry.registrar_server.clone().filter(|related| *related != url);
        let mut registrar = None;
        if let Some(related) = related.filter(|related| related.starts_with("https://"))
            && let Ok((facts, server)) = self.rdap(&related, domain).await
        {
            consulted.push(Consulted { source: Source::Rdap, server, role: Role::Registrar });
            registrar = Some(facts);
        }
        Registration::merge(domain, Source::Rdap, consulted, registry, registrar, self.clock.now())
    }

    async fn by_whois(
        &self,
        domain: &DomainName,
        mut failures: Vec<String>,
    ) -> Result<Registration, RegistrationError> {
        let tld = domain.labels().next_back().unwrap_or_default().to_owned();
        let referral = self.whois_text(&self.whois_root, &tld).await;
        let server = match referral {
            Ok(text) => whois::referral(&text),
            Err(Failure::Later(until)) => {
                return Err(RegistrationError::Later { server: self.whois_root.clone(), until });
            }
            Err(Failure::Unusable(reason)) => {
                failures.push(format!("WHOIS {}: {reason}", self.whois_root));
                return Err(RegistrationError::Unavailable(failures));
            }
            Err(Failure::NotFound) => None,
        };
        let Some(server) = server else {
            failures.push(format!("no WHOIS server is known for .{tld}"));
            return Err(RegistrationError::Unavailable(failures));
        };
        let registry = match self.whois_facts(&server, domain).await {
            Ok(facts) => facts,
            Err(Failure::NotFound) => return Err(RegistrationError::NotRegistered { domain: domain.clone(), server }),
            Err(Failure::Later(until)) => return Err(RegistrationError::Later { server, until }),
            Err(Failure::Unusable(reason)) => {
                failures.push(format!("WHOIS {server}: {reason}"));
                return Err(RegistrationError::Unavailable(failures));
            }
        };
        let mut consulted = vec![Consulted { source: Source::Whois, server: server.clone(), role: Role::Registry }];
        let mut registrar = None;
        if let Some(theirs) = registry.registrar_server.clone().filter(|theirs| *theirs != server)
            && let Ok(facts) = self.whois_facts(&theirs, domain).await
        {
            consulted.push(Consulted { source: Source::Whois, server: theirs, role: Role::Registrar });
            registrar = Some(facts);
        }
        Ok(Registration::merge(domain, Source::Whois, consulted, registry, registrar, self.clock.now()))
    }

    async fn whois_facts(&self, server: &str, domain: &DomainName) -> Result<Facts, Failure> {
        let text = self.whois_text(server, &question(server, domain)).await?;
        match whois::parse(&text, domain) {
            whois::Answer::Found(facts) => Ok(*facts),
            whois::Answer::NotFound => Err(Failure::NotFound),
            whois::Answer::Quota(_) => Err(Failure::Later(self.pace.back_off(server, None, self.clock.now()))),
            whois::Answer::Unreadable => Err(Failure::Unusable("the answer cannot be read".to_owned())),
        }
    }

    async fn whois_text(&self, server: &str, question: &str) -> Result<String, Failure> {
        self.turn(server).await?;
        let answer = self.exchange.whois(server, question).await;
        self.counts.count(server, if answer.is_ok() { "answered" } else { FAILED });
        let answer = answer.map_err(Failure::Unusable)?;
        Ok(whois::decode(&answer))
    }
}

/// How a server wants to be asked for a domain and nothing else, in English and ASCII.
fn question(server: &str, domain: &DomainName) -> String {
    match server {
        "whois.verisign-grs.com" => format!("domain {domain}"),
        "whois.denic.de" => format!("-T dn,ace {domain}"),
        "whois.jprs.jp" => format!("{domain}/e"),
        "whois.dk-hostmaster.dk" | "whois.punktum.dk" => format!("--show-handles {domain}"),
        _ => domain.to_string(),
    }
}

/// The host of a URL, for messages and limits.
fn host(url: &str) -> String {
    let uri = url.parse::<http::Uri>().ok();
    uri.as_ref().and_then(http::Uri::host).unwrap_or("a server without a name").to_ascii_lowercase()
}

#[cfg(test)]
mod tests;
