//! Proof by a file on the site, for those who cannot change DNS. The site's address is chosen by whoever claims the name, so
//! it is called through the guarded dialer, few redirects are followed, and little is read.

use super::Challenge;
use super::slip::recognise;
use crate::https::{Ask, HttpClient, Scheme, join};

/// The token and a line's end; an error page needs no more to be told as one.
const FILE_BYTES_MAX: usize = 4 * 1024;

/// From http to https and to a canonical host.
const REDIRECTS_MAX: usize = 3;

/// Whether the file is there. The error is a sentence for the owner.
pub async fn check(http: &HttpClient, challenge: &Challenge) -> Result<(), String> {
    let mut url = format!("http://{}{}", challenge.domain, challenge.http_path());
    for _ in 0..=REDIRECTS_MAX {
        let ask = Ask { accept: "text/plain, */*;q=0.1", scheme: Scheme::HttpAllowed, bytes_max: FILE_BYTES_MAX };
        let reply = http.get(&url, ask).await.map_err(|error| format!("{url} cannot be read: {error}"))?;
        match reply.status {
            200 => return judge(challenge, &url, &reply.body),
            301 | 302 | 303 | 307 | 308 => {
                let next = reply.location.as_deref().and_then(|location| join(&url, location));
                let next = next.ok_or_else(|| format!("{url} redirects to nowhere"))?;
                if !within(challenge, &next) {
                    return Err(format!(
                        "{url} redirects to {next}, which is another domain: the file must be on this one"
                    ));
                }
                url = next;
            }
            404 => return Err(format!("there is no file at {url} (status 404)")),
            status => return Err(format!("{url} answers with status {status} instead of the file")),
        }
    }
    Err(format!("{url} redirects more than {REDIRECTS_MAX} times"))
}

/// A redirect may change the scheme and go to a name below, such as www.
fn within(challenge: &Challenge, url: &str) -> bool {
    let host = url.parse::<http::Uri>().ok().and_then(|uri| uri.host().map(str::to_owned));
    let name = host.and_then(|host| crate::name::DomainName::parse(&host).ok());
    name.is_some_and(|name| name.is_within(&challenge.domain))
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
    use crate::name::DomainName;
    use crate::verification::Scope;

    fn challenge() -> Challenge {
        let domain = DomainName::parse("example.com").expect("a name");
        let now = "2026-11-16T10:00:00Z".parse().expect("a time");
        Challenge::new(&domain, Scope::Domain, "bailiwick", now, &mut |_| ())
            .expect("a challenge")
            .with_token("mzxw6ytboi4dsnrz")
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
        assert!(within(&challenge(), "https://www.example.com/x") && within(&challenge(), "https://example.com/x"));
        assert!(!within(&challenge(), "https://example.com.evil.example/x"));
        assert!(!within(&challenge(), "http://169.254.169.254/"));
    }
}
