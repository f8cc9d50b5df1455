//! The registries: RDAP over HTTPS and WHOIS on port 43, from the files in `fixtures/` (its README tells the layout).

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Result;
use jiff::{SignedDuration, Timestamp};

use crate::certificates::Authority;
use crate::web::{self, Request, Response};
use crate::world::{RDAP_ADDRESS, WHOIS_ADDRESSES};

/// A WHOIS query longer than this is nobody's.
const MAX_QUERY_BYTES: u64 = 1024;

/// Answers of RDAP that were changed since the bed came up, by the file that they stand for.
#[derive(Clone, Default)]
pub(crate) struct Registry(Arc<Mutex<HashMap<String, String>>>);

impl Registry {
    /// What the registry answers for a domain from now on, in the form of the files.
    pub(crate) fn set(&self, tld: &str, domain: &str, answer: String) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(format!("{tld}/{domain}.json"), answer);
    }

    fn changed(&self, tld: &str, domain: &str) -> Option<String> {
        let name = format!("{tld}/{domain}.json").to_lowercase();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&name).cloned()
    }
}

pub(crate) fn start(authority: &Authority) -> Result<Registry> {
    let names = ["data.iana.org", "rdap.registry.net", "rdap.registrar.net", "connect.registrar.net"];
    let certificate = authority.issue(authority.directory(), "rdap", &names)?;
    let up = Timestamp::now();
    let registry = Registry::default();
    let changed = registry.clone();
    let handler = Arc::new(move |request: &Request| rdap(request, &changed, up));
    web::serve(SocketAddr::new(RDAP_ADDRESS.parse()?, 443), Some(certificate.server_config()?), handler)?;
    for (name, address) in WHOIS_ADDRESSES {
        whois(name, SocketAddr::new(address.parse()?, 43), up)?;
    }
    Ok(registry)
}

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures")
}

/// A file below `fixtures/`, with its times filled in.
fn filled(parts: &[&str], up: Timestamp) -> Option<String> {
    Some(fill_in(&fixture(parts)?, up))
}

/// A file below `fixtures/`, if the name leads to one and not out of it.
pub(crate) fn fixture(parts: &[&str]) -> Option<String> {
    let mut path = fixtures();
    for part in parts {
        if part.is_empty() || part.contains("..") || part.contains('/') {
            return None;
        }
        path.push(part);
    }
    std::fs::read_to_string(path).ok()
}

/// Replaces `@{now+30d}` and its like.
fn fill_in(text: &str, up: Timestamp) -> String {
    let mut filled = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("@{now") {
        filled.push_str(before);
        let (offset, after) = after.split_once('}').unwrap_or((after, ""));
        let (number, unit) = offset.split_at(offset.len().saturating_sub(1));
        let hours = number.parse::<i64>().unwrap_or(0) * if unit == "d" { 24 } else { 1 };
        let time = up.checked_add(SignedDuration::from_hours(hours)).unwrap_or(up);
        filled.push_str(&time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
        rest = after;
    }
    filled.push_str(rest);
    filled
}

fn rdap(request: &Request, changed: &Registry, up: Timestamp) -> Response {
    let parts: Vec<&str> = request.path.trim_matches('/').split('/').collect();
    let found = match (request.host.as_str(), parts.as_slice()) {
        ("data.iana.org", ["rdap", "dns.json"]) => filled(&["rdap", "bootstrap.json"], up),
        ("rdap.registry.net", [tld, "domain", domain]) => changed
            .changed(tld, domain)
            .map(|text| fill_in(&text, up))
            .or_else(|| filled(&["rdap", tld, &format!("{domain}.json").to_lowercase()], up)),
        ("rdap.registrar.net", ["domain", domain]) => {
            filled(&["rdap", "registrar", &format!("{domain}.json").to_lowercase()], up)
        }
        // What a provider that takes templates says (Domain Connect).
        ("connect.registrar.net", ["v2", "plain.com", "settings"]) => Some(
            r#"{"providerId":"registrar.net","providerName":"Registrar Net","urlSyncUX":"https://connect.registrar.net","urlControlPanel":"https://registrar.net/zones/%domain%"}"#
                .to_owned(),
        ),
        _ => None,
    };
    let Some(text) = found else {
        let body = "{\"rdapConformance\":[\"rdap_level_0\"],\"errorCode\":404,\"title\":\"Not Found\"}";
        return response(404, Vec::new(), body);
    };
    let (mut status, mut headers, mut body) = (200, Vec::new(), text.as_str());
    while let Some((line, rest)) = body.strip_prefix("# ").and_then(|rest| rest.split_once('\n')) {
        match line.split_once(": ") {
            Some(("status", code)) => status = code.trim().parse().unwrap_or(500),
            Some(("header", header)) => {
                headers.extend(header.split_once(": ").map(|(name, value)| (name.to_owned(), value.to_owned())));
            }
            _ => {}
        }
        body = rest;
    }
    response(status, headers, body)
}

fn response(status: u16, mut headers: Vec<(String, String)>, body: &str) -> Response {
    headers.push(("content-type".to_owned(), "application/rdap+json".to_owned()));
    Response { status, headers, body: body.as_bytes().to_vec() }
}

fn whois(name: &'static str, address: SocketAddr, up: Timestamp) -> Result<()> {
    let listener = TcpListener::bind(address)?;
    std::thread::Builder::new().name(format!("whois {name}")).spawn(move || {
        for mut stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let _ = stream.set_read_timeout(Some(Duration::from_secs(5)));
                let mut query = String::new();
                let _ = BufReader::new((&mut stream).take(MAX_QUERY_BYTES)).read_line(&mut query);
                let query = query.trim().to_lowercase();
                let query = query.rsplit(' ').next().unwrap_or_default();
                let text = filled(&["whois", name, &format!("{query}.txt")], up)
                    .or_else(|| filled(&["whois", name, "default.txt"], up))
                    .unwrap_or_else(|| format!("No match for \"{}\".\n", query.to_uppercase()));
                let _ = stream.write_all(text.replace('\n', "\r\n").as_bytes());
            });
        }
    })?;
    Ok(())
}
