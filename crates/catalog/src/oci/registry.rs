//! A client of the distribution API: what is needed to pull and push images, with every digest checked.

use std::collections::HashMap;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use reqwest::StatusCode;
use reqwest::blocking::{Client, RequestBuilder, Response};
use reqwest::header::{self, HeaderMap};

use super::auth::{Credentials, Login};
use super::blobs::BlobCache;
use super::digest::{Digest, DigestWriter};
use super::guard::Guard;
use super::manifest::{ACCEPT, Descriptor, Manifest};
use crate::reference::ImageReference;

/// Manifests are a few kilobytes; registries refuse more than this themselves.
const MAX_MANIFEST_BYTES: u64 = 4 * 1024 * 1024;
/// How often a broken download is taken up again.
const RETRIES: usize = 4;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);
/// How long a registry may be silent, whatever it was asked; not of the whole transfer.
const SILENCE: Duration = Duration::from_secs(60);
/// How long the registry may take to accept a blob, which it does not tell about while it is sent.
const UPLOAD_TIMEOUT: Duration = Duration::from_secs(900);
/// Tokens are a few kilobytes.
const MAX_TOKEN_BYTES: u64 = 1024 * 1024;

/// Why an image could not be had or put.
#[derive(Debug, thiserror::Error)]
pub enum OciError {
    #[error("{reference}: {error}")]
    Transport { reference: String, error: String },
    #[error("{reference}: the registry answers {status}{detail}")]
    Refused { reference: String, status: StatusCode, detail: String },
    #[error("{reference}: the content of {expected} is {found}")]
    WrongDigest { reference: String, expected: String, found: String },
    #[error("{reference}: {message}")]
    Invalid { reference: String, message: String },
    #[error("{path}: {error}")]
    File { path: PathBuf, error: std::io::Error },
}

/// How to reach registries.
#[derive(Clone, Debug, Default)]
pub struct RegistryOptions {
    /// Plain HTTP instead of TLS.
    pub plain_http: bool,
    pub skip_tls_verify: bool,
    /// A certificate authority, as PEM.
    pub ca: Option<Vec<u8>>,
    /// Judges every address, where strangers name registries. Proxies of the environment are then not used: they would
    /// call what we may not.
    pub guard: Option<Guard>,
    /// How long the registry may be silent; a minute if not said.
    pub silence: Option<Duration>,
}

/// The client; tokens are kept for as long as it lives.
pub struct Registry {
    /// Made for the first request: most commands on directories need none, and its certificates take memory.
    http: OnceLock<Client>,
    skip_tls_verify: bool,
    authorities: Vec<reqwest::Certificate>,
    scheme: &'static str,
    guard: Option<Guard>,
    silence: Duration,
    credentials: Credentials,
    /// What worked, by registry and scope.
    authorizations: Mutex<HashMap<(String, String), String>>,
}

impl Registry {
    /// Makes a client.
    pub fn new(options: &RegistryOptions, credentials: Credentials) -> Result<Self, OciError> {
        let authorities = match &options.ca {
            Some(ca) => reqwest::Certificate::from_pem_bundle(ca).map_err(|error| no_client(&error))?,
            None => Vec::new(),
        };
        if options.ca.is_some() && authorities.is_empty() {
            return Err(no_client(&"the certificate authority has no certificate in PEM"));
        }
        Ok(Registry {
            http: OnceLock::new(),
            skip_tls_verify: options.skip_tls_verify,
            authorities,
            scheme: if options.plain_http { "http" } else { "https" },
            guard: options.guard.clone(),
            silence: options.silence.unwrap_or(SILENCE),
            credentials,
            authorizations: Mutex::default(),
        })
    }

    fn http(&self) -> Result<&Client, OciError> {
        if let Some(http) = self.http.get() {
            return Ok(http);
        }
        let mut builder = Client::builder()
            .user_agent(concat!("bailiwick/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(self.silence)
            .danger_accept_invalid_certs(self.skip_tls_verify);
        for authority in &self.authorities {
            builder = builder.add_root_certificate(authority.clone());
        }
        if let Some(guard) = &self.guard {
            builder = builder.no_proxy().dns_resolver(Arc::new(guard.clone())).redirect(guard.redirects());
        }
        let made = builder.build().map_err(|error| no_client(&error))?;
        Ok(self.http.get_or_init(|| made))
    }

    fn url(&self, reference: &ImageReference, rest: &str) -> String {
        // Docker's own registry has another name than its images.
        let host = if reference.domain == "docker.io" { "registry-1.docker.io" } else { &reference.domain };
        format!("{}://{host}/v2/{}/{rest}", self.scheme, reference.path)
    }

    /// Sends a request, logging in when the registry asks for it.
    fn send(
        &self,
        reference: &ImageReference,
        scope: &str,
        request: impl Fn(&Client) -> RequestBuilder,
    ) -> Result<Response, OciError> {
        let key = (reference.domain.clone(), format!("repository:{}:{scope}", reference.path));
        let known = self.authorizations.lock().unwrap_or_else(std::sync::PoisonError::into_inner).get(&key).cloned();
        let http = self.http()?;
        let authorized = |authorization: &Option<String>| {
            let request = request(http);
            match authorization {
                Some(value) => request.header(header::AUTHORIZATION, value),
                None => request,
            }
        };
        let response = self.execute(reference, authorized(&known))?;
        if response.status() != StatusCode::UNAUTHORIZED {
            return Ok(response);
        }
        let Some(authorization) = self.authorize(reference, &key.1, response.headers())? else {
            return Ok(response);
        };
        self.authorizations
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .insert(key, authorization.clone());
        self.execute(reference, authorized(&Some(authorization)))
    }

    /// Sends a request where it may go.
    fn execute(&self, reference: &ImageReference, request: RequestBuilder) -> Result<Response, OciError> {
        let failed = |error: String| OciError::Transport { reference: reference.to_string(), error };
        let request = request.build().map_err(|error| failed(sources(&error.without_url())))?;
        if let Some(guard) = &self.guard {
            guard.check_url(request.url()).map_err(|error| failed(error.to_string()))?;
        }
        self.http()?.execute(request).map_err(|error| failed(sources(&error.without_url())))
    }

    /// Answers a challenge.
    fn authorize(
        &self,
        reference: &ImageReference,
        scope: &str,
        headers: &HeaderMap,
    ) -> Result<Option<String>, OciError> {
        let login = self.credentials.for_repository(&reference.domain, &reference.path);
        let challenge = headers.get(header::WWW_AUTHENTICATE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let (kind, parameters) = challenge.split_once(' ').unwrap_or((challenge, ""));
        if kind.eq_ignore_ascii_case("basic") {
            let Some(Login::Password(user, password)) = login else { return Ok(None) };
            return Ok(Some(basic(&user, &password)));
        }
        if !kind.eq_ignore_ascii_case("bearer") {
            return Ok(None);
        }
        let parameters = challenge_parameters(parameters);
        let Some(realm) = parameters.get("realm") else { return Ok(None) };
        let mut query = vec![("scope", scope.to_owned())];
        if let Some(service) = parameters.get("service") {
            query.push(("service", service.clone()));
        }
        let http = self.http()?;
        let request = match login {
            Some(Login::Token(token)) => {
                query.extend([("grant_type", "refresh_token".to_owned()), ("refresh_token", token)]);
                query.push(("client_id", "bailiwick".to_owned()));
                http.post(realm).form(&query)
            }
            Some(Login::Password(user, password)) => {
                http.get(realm).query(&query).header(header::AUTHORIZATION, basic(&user, &password))
            }
            None => http.get(realm).query(&query),
        };
        let failed = |error: String| OciError::Transport { reference: reference.to_string(), error };
        let response = self.execute(reference, request)?;
        if !response.status().is_success() {
            return Err(refused(reference, response));
        }
        let mut body = Vec::new();
        response.take(MAX_TOKEN_BYTES).read_to_end(&mut body).map_err(|error| failed(sources(&error)))?;
        let unreadable = |error| failed(format!("the answer of the registry's token service is not readable: {error}"));
        let answer: TokenAnswer = serde_json::from_slice(&body).map_err(unreadable)?;
        let unusable = || failed("the registry's token service answered without a token".to_owned());
        Ok(Some(format!("Bearer {}", answer.into_token().ok_or_else(unusable)?)))
    }

    /// The manifest of an image, or of the index it has, and its digest.
    pub fn manifest(&self, reference: &ImageReference, target: &str) -> Result<(Digest, Vec<u8>), OciError> {
        let url = self.url(reference, &format!("manifests/{target}"));
        let response = self.send(reference, "pull", |http| http.get(&url).header(header::ACCEPT, ACCEPT.join(", ")))?;
        if !response.status().is_success() {
            return Err(refused(reference, response));
        }
        let announced = response.headers().get("docker-content-digest").and_then(|it| it.to_str().ok());
        let announced = announced.and_then(Digest::parse);
        let mut body = Vec::new();
        response
            .take(MAX_MANIFEST_BYTES + 1)
            .read_to_end(&mut body)
            .map_err(|error| OciError::Transport { reference: reference.to_string(), error: sources(&error) })?;
        if body.len() as u64 > MAX_MANIFEST_BYTES {
            return Err(invalid(reference, "the manifest is too large"));
        }
        let found = Digest::of(&body);
        let wanted = if target.contains(':') { Digest::parse(target) } else { announced };
        match wanted {
            Some(wanted) if wanted != found => Err(wrong(reference, &wanted, &found)),
            _ => Ok((found, body)),
        }
    }

    /// The manifest of the image itself, through indexes.
    pub fn image_manifest(&self, reference: &ImageReference) -> Result<(Digest, Manifest), OciError> {
        let mut target = reference.target().to_owned();
        // An index of indexes is allowed, endless ones are not.
        for _ in 0..3 {
            let (digest, body) = self.manifest(reference, &target)?;
            let manifest: Manifest = serde_json::from_slice(&body)
                .map_err(|error| invalid(reference, &format!("the manifest {digest} is not readable: {error}")))?;
            if manifest.manifests.is_empty() {
                return Ok((digest, manifest));
            }
            target = manifest.choose().map(|chosen| chosen.digest.clone()).unwrap_or_default();
        }
        Err(invalid(reference, "the index does not lead to an image"))
    }

    /// Brings a blob into the cache, taking up a broken download where it stopped.
    pub fn blob(
        &self,
        reference: &ImageReference,
        descriptor: &Descriptor,
        cache: &BlobCache,
    ) -> Result<PathBuf, OciError> {
        let digest = Digest::parse(&descriptor.digest)
            .ok_or_else(|| invalid(reference, &format!("unsupported digest {:?}", descriptor.digest)))?;
        if let Some(path) = cache.get(&digest) {
            return Ok(path);
        }
        let mut last = None;
        for _ in 0..RETRIES {
            match self.download(reference, descriptor, &digest, cache) {
                Err(OciError::Transport { reference, error }) => last = Some(OciError::Transport { reference, error }),
                done => return done,
            }
        }
        Err(last.unwrap_or_else(|| invalid(reference, "no download was tried")))
    }

    fn download(
        &self,
        reference: &ImageReference,
        descriptor: &Descriptor,
        digest: &Digest,
        cache: &BlobCache,
    ) -> Result<PathBuf, OciError> {
        let mut partial = cache.partial(digest)?;
        let at = |error| OciError::File { path: cache.path_of(digest), error };
        let broken = |error: String| OciError::Transport { reference: reference.to_string(), error };
        // Another process may be at it; then it is here when that one is done.
        partial.lock().map_err(at)?;
        if let Some(path) = cache.get(digest) {
            return Ok(path);
        }
        let mut have = partial.seek(SeekFrom::End(0)).map_err(at)?;
        if have >= descriptor.size {
            // Nothing is left to ask for, and yet it was not found right.
            partial.set_len(0).map_err(at)?;
            have = 0;
        }
        let url = self.url(reference, &format!("blobs/{digest}"));
        let mut response = self.send(reference, "pull", |http| {
            let request = http.get(&url);
            if have > 0 { request.header(header::RANGE, format!("bytes={have}-")) } else { request }
        })?;
        let resumed = response.status() == StatusCode::PARTIAL_CONTENT;
        if response.status() == StatusCode::RANGE_NOT_SATISFIABLE {
            partial.set_len(0).map_err(at)?;
            return Err(broken(format!("{digest}: the registry does not go on where the download stopped")));
        }
        if !response.status().is_success() {
            return Err(refused(reference, response));
        }
        if !resumed {
            partial.set_len(0).map_err(at)?;
            partial.seek(SeekFrom::Start(0)).map_err(at)?;
        }
        let mut writer = DigestWriter::new(partial);
        if resumed {
            rehash(&mut writer, have).map_err(at)?;
        }
        // One byte more than announced is enough to know.
        let limit = descriptor.size.saturating_add(1).saturating_sub(writer.length);
        let mut buffer = vec![0; 64 * 1024];
        let mut body = response.by_ref().take(limit);
        loop {
            let read = body.read(&mut buffer).map_err(|error| broken(format!("{digest}: {}", sources(&error))))?;
            if read == 0 {
                break;
            }
            writer.write_all(buffer.get(..read).unwrap_or_default()).map_err(at)?;
        }
        // The file is locked until it has its name.
        let (_file, found, length) = writer.finish();
        if length < descriptor.size {
            return Err(broken(format!("{digest}: {length} of {} bytes arrived", descriptor.size)));
        }
        if &found != digest {
            cache.discard(digest);
            return Err(wrong(reference, digest, &found));
        }
        cache.finish(digest)
    }

    /// Puts a blob, unless it is there.
    pub fn push_blob(&self, reference: &ImageReference, data: &[u8]) -> Result<(), OciError> {
        let digest = Digest::of(data);
        let url = self.url(reference, &format!("blobs/{digest}"));
        if self.send(reference, "pull,push", |http| http.head(&url))?.status().is_success() {
            return Ok(());
        }
        let start = self.url(reference, "blobs/uploads/");
        let response = self.send(reference, "pull,push", |http| http.post(&start))?;
        if response.status() != StatusCode::ACCEPTED {
            return Err(refused(reference, response));
        }
        let location = response.headers().get(header::LOCATION).and_then(|it| it.to_str().ok()).unwrap_or_default();
        let location = response
            .url()
            .join(location)
            .map_err(|_| invalid(reference, "the registry names no place for the upload"))?;
        let response = self.send(reference, "pull,push", |http| {
            http.put(location.clone())
                .query(&[("digest", digest.to_string())])
                .header(header::CONTENT_TYPE, "application/octet-stream")
                .timeout(UPLOAD_TIMEOUT)
                .body(data.to_vec())
        })?;
        if response.status().is_success() { Ok(()) } else { Err(refused(reference, response)) }
    }

    /// Puts a manifest under a tag.
    pub fn push_manifest(
        &self,
        reference: &ImageReference,
        target: &str,
        media_type: &str,
        data: &[u8],
    ) -> Result<(), OciError> {
        let url = self.url(reference, &format!("manifests/{target}"));
        let response = self.send(reference, "pull,push", |http| {
            http.put(&url).header(header::CONTENT_TYPE, media_type).body(data.to_vec())
        })?;
        if response.status().is_success() { Ok(()) } else { Err(refused(reference, response)) }
    }
}

/// Digests what is already on disk.
fn rehash(writer: &mut DigestWriter<std::fs::File>, have: u64) -> std::io::Result<()> {
    writer.inner.seek(SeekFrom::Start(0))?;
    let mut buffer = vec![0; 64 * 1024];
    let mut left = have;
    while left > 0 {
        let read = writer.inner.read(&mut buffer)?;
        if read == 0 {
            break;
        }
        writer.seen(buffer.get(..read).unwrap_or_default());
        left = left.saturating_sub(read as u64);
    }
    writer.inner.seek(SeekFrom::End(0)).map(|_| ())
}

fn basic(user: &str, password: &str) -> String {
    use base64::Engine as _;
    let encoded = base64::engine::general_purpose::STANDARD.encode(format!("{user}:{password}"));
    format!("Basic {encoded}")
}

fn challenge_parameters(text: &str) -> HashMap<String, String> {
    let mut parameters = HashMap::new();
    let mut rest = text;
    while let Some((name, after)) = rest.split_once('=') {
        let name = name.trim_matches(|c: char| c == ',' || c.is_whitespace()).to_ascii_lowercase();
        let (value, after) = match after.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').unwrap_or((quoted, "")),
            None => after.split_once(',').unwrap_or((after, "")),
        };
        parameters.insert(name, value.to_owned());
        rest = after;
    }
    parameters
}

/// An error with what caused it: reqwest's first line says too little.
fn sources(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text = format!("{text}: {error}");
        source = error.source();
    }
    text
}

fn no_client(error: &dyn std::fmt::Display) -> OciError {
    OciError::Invalid { reference: "registry client".to_owned(), message: error.to_string() }
}

fn invalid(reference: &ImageReference, message: &str) -> OciError {
    OciError::Invalid { reference: reference.to_string(), message: message.to_owned() }
}

fn wrong(reference: &ImageReference, expected: &Digest, found: &Digest) -> OciError {
    OciError::WrongDigest { reference: reference.to_string(), expected: expected.to_string(), found: found.to_string() }
}

/// The registry's own words, cut to a line.
fn refused(reference: &ImageReference, response: Response) -> OciError {
    const MAX_DETAIL: u64 = 2048;
    let status = response.status();
    let mut body = String::new();
    let _ = response.take(MAX_DETAIL).read_to_string(&mut body);
    let parsed: serde_json::Value = serde_json::from_str(&body).unwrap_or_default();
    let message = parsed.pointer("/errors/0/message").and_then(|it| it.as_str()).unwrap_or_default();
    let detail = if message.is_empty() { String::new() } else { format!(" ({message})") };
    OciError::Refused { reference: reference.to_string(), status, detail }
}

/// What a token service answers. Docker Hub and others say the token twice, under both names.
#[derive(serde::Deserialize)]
struct TokenAnswer {
    token: Option<String>,
    access_token: Option<String>,
}

impl TokenAnswer {
    fn into_token(self) -> Option<String> {
        [self.token, self.access_token].into_iter().flatten().find(|token| !token.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn challenges_are_read() {
        let parameters = challenge_parameters(r#"realm="https://auth.x/token",service="reg, istry",scope=a"#);
        assert_eq!(parameters["realm"], "https://auth.x/token");
        assert_eq!(parameters["service"], "reg, istry");
        assert_eq!(parameters["scope"], "a");
    }
}
