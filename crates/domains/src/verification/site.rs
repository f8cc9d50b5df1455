//! Proof by a file on the site, for those who cannot change DNS. The site's address is chosen by whoever claims the name, so
//! it is called through the guarded dialer, few redirects are followed, and little is read. A site that cannot be reached, or
//! says that it is in trouble, says nothing about the file.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::Challenge;
use super::slip::recognise;
use crate::dial::DialError;
use crate::evidence::sha256;
use crate::https::{Ask, HttpClient, HttpError, Reply, Scheme, join};
use crate::name::DomainName;
use crate::quote::quote;

/// The token and a line's end; an error page needs no more to be told as one.
const FILE_BYTES_MAX: usize = 4 * 1024;

/// From http to https and to a canonical host.
const REDIRECTS_MAX: usize = 3;

/// What the site said when it was asked for the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SiteEvidence {
    /// What was asked for last, after redirects.
    pub url: String,
    /// The address that was called, where one was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<IpAddr>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The digest of what was read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body_sha256: Option<String>,
    pub file: File,
    /// Why it is no proof, as a sentence for the owner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// How the file stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum File {
    Present,
    /// The site answered, and not with the file.
    Absent,
    /// Could not be checked: there is no answer, or one that says nothing about the file.
    Unchecked,
}

impl SiteEvidence {
    /// Whether the site said that the file is not there.
    pub fn denies(&self) -> bool {
        self.file == File::Absent
    }

    /// Whether this is about the file of a domain, as far as can be told from what another machine says.
    pub(crate) fn is_about(&self, domain: &DomainName) -> bool {
        let proves = self.file != File::Present || (self.status == Some(200) && self.problem.is_none());
        proves && within(domain, &self.url)
    }

    /// Texts of strangers are repeated up to a limit.
    pub(crate) fn shorten(&mut self) {
        let texts = self.problem.iter_mut().chain(&mut self.body_sha256).chain([&mut self.url]);
        texts.for_each(|text| *text = quote(text));
    }

    fn of(url: String, reply: &Reply, file: File, problem: Option<String>) -> Self {
        let body_sha256 = Some(sha256(&reply.body));
        Self { url, address: reply.address, status: Some(reply.status), body_sha256, file, problem }
    }

    /// Of a site that too many wait for to be asked.
    pub(super) fn not_asked(challenge: &Challenge) -> Self {
        let host = &challenge.domain;
        let problem = format!("{host} is asked for many proofs at once and was not asked for this one");
        let url = format!("http://{host}{}", challenge.http_path());
        Self { url, address: None, status: None, body_sha256: None, file: File::Unchecked, problem: Some(problem) }
    }

    /// Of a site that gave no answer, or one too long to be the file.
    fn without_reply(url: String, error: &HttpError) -> Self {
        let address = match error {
            HttpError::Dial(DialError::Connect { address, .. }) => Some(address.ip()),
            HttpError::Dial(DialError::NotPublic { address, .. }) => Some(*address),
            _ => None,
        };
        let (status, file) = match error {
            HttpError::TooLong { status, .. } => (Some(*status), by_status(*status)),
            _ => (None, File::Unchecked),
        };
        let problem = match file {
            File::Unchecked => format!("{url} could not be checked: {error}"),
            _ => format!("{url} is not the file: {error}"),
        };
        Self { url, address, status, body_sha256: None, file, problem: Some(problem) }
    }
}

/// What a status other than that of the file itself says about it. Trouble of the server's own, and being asked to come back
/// later, say nothing.
fn by_status(status: u16) -> File {
    match status {
        408 | 425 | 429 | 500.. => File::Unchecked,
        _ => File::Absent,
    }
}

/// Asks for the file.
pub async fn look(http: &HttpClient, challenge: &Challenge) -> SiteEvidence {
    let mut site = follow(http, challenge).await;
    site.shorten();
    site
}

async fn follow(http: &HttpClient, challenge: &Challenge) -> SiteEvidence {
    let mut url = format!("http://{}{}", challenge.domain, challenge.http_path());
    let mut redirects = 0;
    loop {
        let ask = Ask { accept: "text/plain, */*;q=0.1", scheme: Scheme::HttpAllowed, bytes_max: FILE_BYTES_MAX };
        let reply = match http.get(&url, ask).await {
            Ok(reply) => reply,
            Err(error) => return SiteEvidence::without_reply(url, &error),
        };
        match read(challenge, &url, &reply) {
            Said::File(file, problem) => return SiteEvidence::of(url, &reply, file, problem),
            Said::Redirect(_) if redirects == REDIRECTS_MAX => {
                let problem = format!("{url} redirects more than {REDIRECTS_MAX} times");
                return SiteEvidence::of(url, &reply, File::Absent, Some(problem));
            }
            Said::Redirect(next) => url = next,
        }
        redirects += 1;
    }
}

/// What one reply says.
#[derive(Debug, PartialEq, Eq)]
enum Said {
    File(File, Option<String>),
    Redirect(String),
}

fn read(challenge: &Challenge, url: &str, reply: &Reply) -> Said {
    let no_file = |problem: String| Said::File(File::Absent, Some(problem));
    match reply.status {
        200 => match judge(challenge, url, &reply.body) {
            Ok(()) => Said::File(File::Present, None),
            Err(problem) => no_file(problem),
        },
        301 | 302 | 303 | 307 | 308 => match reply.location.as_deref().and_then(|location| join(url, location)) {
            None => no_file(format!("{url} redirects to nowhere")),
            Some(next) if !within(&challenge.domain, &next) => no_file(format!(
                "{url} redirects to {}, which is another domain: the file must be on this one",
                quote(&next)
            )),
            Some(next) => Said::Redirect(next),
        },
        404 => no_file(format!("there is no file at {url} (status 404)")),
        status => match by_status(status) {
            File::Unchecked => {
                let problem = format!("{url} could not be checked: the site answers with status {status}");
                Said::File(File::Unchecked, Some(problem))
            }
            file => Said::File(file, Some(format!("{url} answers with status {status} instead of the file"))),
        },
    }
}

/// A redirect may change the scheme and go to a name below, such as www.
fn within(domain: &DomainName, url: &str) -> bool {
    let host = url.parse::<http::Uri>().ok().and_then(|uri| uri.host().map(str::to_owned));
    let name = host.and_then(|host| DomainName::parse(&host).ok());
    name.is_some_and(|name| name.is_within(domain))
}

fn judge(challenge: &Challenge, url: &str, body: &[u8]) -> Result<(), String> {
    let text = String::from_utf8_lossy(body);
    let text = text.trim_start_matches('\u{feff}');
    // Editors end files with a line's end; that is no slip.
    if text.trim_end_matches(['\n', '\r']) == challenge.http_body() {
        return Ok(());
    }
    let page = text.trim_start().get(..1) == Some("<");
    if page {
        return Err(format!("{url} is a web page and not the file: the site answers every path with its page"));
    }
    match recognise(challenge, text.trim_end_matches(['\n', '\r'])) {
        Some(slip) => Err(format!("the file at {url} is nearly right: {}", slip.explain())),
        None => Err(format!("the file at {url} has something else in it")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verification::Scope;

    fn challenge() -> Challenge {
        let domain = DomainName::parse("example.com").expect("a name");
        let now = "2026-11-16T10:00:00Z".parse().expect("a time");
        Challenge::new(&domain, Scope::Domain, "bailiwick", now, &mut |_| ())
            .expect("a challenge")
            .with_token("mzxw6ytboi4dsnrz")
    }

    fn replied(status: u16, location: Option<&str>) -> Said {
        let location = location.map(str::to_owned);
        let reply = Reply { status, location, body: b"no healthy backend".to_vec(), ..Reply::default() };
        read(&challenge(), "http://example.com/f", &reply)
    }

    #[test]
    fn a_site_in_trouble_says_nothing_about_the_file() {
        let file = |status| match replied(status, None) {
            Said::File(file, _) => file,
            Said::Redirect(to) => panic!("a redirect to {to}"),
        };
        for status in [500, 502, 503, 504, 429, 408] {
            assert_eq!(file(status), File::Unchecked, "{status}");
        }
        for status in [200, 204, 301, 403, 404, 410] {
            assert_eq!(file(status), File::Absent, "{status}");
        }
        let told = "http://example.com/f could not be checked: the site answers with status 503".to_owned();
        assert_eq!(replied(503, None), Said::File(File::Unchecked, Some(told)));
        assert_eq!(replied(302, Some("/g")), Said::Redirect("http://example.com/g".into()));
    }

    #[test]
    fn no_answer_is_no_absence_and_a_long_page_is() {
        let of = |error: &HttpError| SiteEvidence::without_reply("http://example.com/f".into(), error);
        let silent = of(&HttpError::Timeout);
        assert_eq!(silent.file, File::Unchecked);
        assert_eq!(
            silent.problem.as_deref(),
            Some("http://example.com/f could not be checked: no answer within 10 seconds")
        );
        let address = "192.0.2.1:80".parse().expect("an address");
        let refused =
            of(&HttpError::Dial(DialError::Connect { address, source: std::io::ErrorKind::ConnectionRefused.into() }));
        assert_eq!((refused.file, refused.address), (File::Unchecked, Some(address.ip())));
        let long = |status| of(&HttpError::TooLong { status, bytes_max: FILE_BYTES_MAX });
        assert_eq!((long(200).file, long(404).file, long(503).file), (File::Absent, File::Absent, File::Unchecked));
    }

    fn told(body: &str) -> String {
        judge(&challenge(), "http://example.com/f", body.as_bytes()).err().unwrap_or_default()
    }

    #[test]
    fn the_file_has_the_token_and_perhaps_a_lines_end() {
        assert_eq!(told("mzxw6ytboi4dsnrz"), "");
        assert_eq!(told("mzxw6ytboi4dsnrz\r\n"), "");
        assert_eq!(told("\u{feff}mzxw6ytboi4dsnrz\n"), "");
    }

    #[test]
    fn what_is_wrong_with_it_is_said() {
        assert_eq!(
            told("<!doctype html>"),
            "http://example.com/f is a web page and not the file: the site answers every path with its page"
        );
        assert_eq!(
            told("\"mzxw6ytboi4dsnrz\""),
            "the file at http://example.com/f is nearly right: the quotation marks became part of the value: type it without them"
        );
        assert_eq!(told("hello"), "the file at http://example.com/f has something else in it");
    }

    #[test]
    fn redirects_stay_on_the_domain() {
        let domain = challenge().domain;
        assert!(within(&domain, "https://www.example.com/x") && within(&domain, "https://example.com/x"));
        assert!(!within(&domain, "https://example.com.evil.example/x"));
        assert!(!within(&domain, "http://169.254.169.254/"));
    }
}
