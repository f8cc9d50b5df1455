//! Registries that ask who is there, that are trusted or not, and that break off: pulls get through where they may, are
//! refused in plain words where they may not, and never leave a wrong blob behind.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bailiwick_catalog::bundle::Migration;
use bailiwick_catalog::fbc::{Output, write_catalog};
use bailiwick_catalog::oci::{
    BlobCache, BuildOptions, Credentials, Digest, Image, Images, Registry, RegistryOptions, build_catalog,
};
use bailiwick_catalog::reference::ImageReference;
use bailiwick_catalog::render::{Allowed, Renderer};
use base64::Engine as _;
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

use crate::registry;

const USER: &str = "alice";
const PASSWORD: &str = "rasmuslerdorf";
/// Of the password.
const BCRYPT: &str = "$2a$04$xfNEkAGkGtcMAOPJ8iMPt.s.kx1otrxDHqBKExSDArJ6JUu.4XtJG";

struct Request {
    path: String,
    headers: HashMap<String, String>,
}

impl Request {
    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }

    /// Where the client wants to go on.
    fn range(&self) -> Option<usize> {
        self.header("range").strip_prefix("bytes=")?.strip_suffix('-')?.parse().ok()
    }
}

#[derive(Default)]
struct Answer {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
    /// The connection breaks after so many bytes of the body.
    cut: Option<usize>,
    /// It does not break, and nothing more comes.
    stalls: bool,
}

fn found(body: &[u8]) -> Answer {
    Answer { status: 200, body: body.to_vec(), ..Answer::default() }
}

/// Path and range of every request.
type Asked = Arc<Mutex<Vec<(String, Option<usize>)>>>;

/// A registry in which anything can happen.
struct Fake {
    port: u16,
    asked: Asked,
}

impl Fake {
    fn start(answer: impl Fn(&Request, u16) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let asked = Asked::default();
        let (answer, seen) = (Arc::new(answer), asked.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (answer, seen) = (answer.clone(), seen.clone());
                std::thread::spawn(move || {
                    let Some(request) = read_request(&stream) else { return };
                    seen.lock().unwrap().push((request.path.clone(), request.range()));
                    let _ = write_answer(&stream, &answer(&request, port));
                });
            }
        });
        Fake { port, asked }
    }

    fn reference(&self) -> String {
        format!("127.0.0.1:{}/platform/catalog:main", self.port)
    }

    fn ranges_of(&self, blob: &[u8]) -> Vec<Option<usize>> {
        let path = format!("/v2/platform/catalog/blobs/{}", Digest::of(blob));
        self.asked.lock().unwrap().iter().filter(|(asked, _)| asked == &path).map(|(_, range)| *range).collect()
    }
}

fn read_request(stream: &TcpStream) -> Option<Request> {
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    let path = lines.next()?.split(' ').nth(1)?.to_owned();
    let headers = lines.take_while(|line| !line.is_empty()).filter_map(|line| {
        let (name, value) = line.split_once(':')?;
        Some((name.to_ascii_lowercase(), value.trim().to_owned()))
    });
    Some(Request { path, headers: headers.collect() })
}

fn write_answer(mut stream: &TcpStream, answer: &Answer) -> std::io::Result<()> {
    write!(stream, "HTTP/1.1 {} X\r\nConnection: close\r\nContent-Length: {}\r\n", answer.status, answer.body.len())?;
    for (name, value) in &answer.headers {
        write!(stream, "{name}: {value}\r\n")?;
    }
    stream.write_all(b"\r\n")?;
    stream.write_all(&answer.body[..answer.cut.unwrap_or(answer.body.len())])?;
    if answer.stalls {
        loop {
            std::thread::park();
        }
    }
    Ok(())
}

/// A catalog whose layer does not compress to nothing, and its text.
fn catalog() -> (Image, String) {
    let mut rng = StdRng::seed_from_u64(3);
    let noise: String = (0..200_000).map(|_| char::from(rng.random_range(b'a'..=b'z'))).collect();
    let text = format!("---\nname: {noise}\nschema: custom\n");
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("catalog.yaml"), &text).unwrap();
    (build_catalog(dir.path(), &BuildOptions::default()).unwrap(), text)
}

/// What a registry that works answers.
fn honest(image: &Image, request: &Request) -> Answer {
    if request.path.ends_with("/manifests/main") {
        let mut answer = found(&image.manifest);
        answer.headers.push(("Content-Type", image.media_type().to_owned()));
        return answer;
    }
    let blob = [&image.config, &image.layer].into_iter().find(|it| request.path.ends_with(Digest::of(it).hex()));
    match (blob, request.range()) {
        (None, _) => Answer { status: 404, ..Answer::default() },
        (Some(blob), None) => found(blob),
        (Some(blob), Some(from)) if from < blob.len() => Answer { status: 206, ..found(&blob[from..]) },
        (Some(_), Some(_)) => Answer { status: 416, ..Answer::default() },
    }
}

fn is_layer(image: &Image, request: &Request) -> bool {
    request.path.ends_with(Digest::of(&image.layer).hex())
}

fn pull(reference: &str, options: &RegistryOptions, credentials: Credentials, cache: &Path) -> Result<String, String> {
    let registry = Registry::new(options, credentials).map_err(|error| error.to_string())?;
    let mut images = Images::new(registry, BlobCache::new(cache));
    let mut renderer = Renderer {
        images: &mut images,
        allowed: Allowed::Catalogs,
        migration: Migration::None,
        image_template: None,
        warnings: Vec::new(),
    };
    renderer.render(&[reference.to_owned()]).map(|catalog| write_catalog(&catalog, Output::Yaml))
}

fn plain() -> RegistryOptions {
    RegistryOptions { plain_http: true, ..RegistryOptions::default() }
}

fn blobs(cache: &Path) -> Vec<String> {
    let folder = cache.join("blobs/sha256");
    let names =
        std::fs::read_dir(folder).into_iter().flatten().map(|it| it.unwrap().file_name().into_string().unwrap());
    names.collect()
}

#[test]
fn a_broken_download_goes_on_where_it_stopped() {
    let (image, text) = catalog();
    let half = image.layer.len() / 2;
    let served = image.clone();
    let fake = Fake::start(move |request, _| {
        let mut answer = honest(&served, request);
        if is_layer(&served, request) && request.range().is_none() {
            answer.cut = Some(half);
        }
        answer
    });
    let cache = tempfile::tempdir().unwrap();
    assert_eq!(pull(&fake.reference(), &plain(), Credentials::default(), cache.path()), Ok(text));
    assert_eq!(fake.ranges_of(&image.layer), [None, Some(half)]);
}

#[test]
fn what_one_process_began_the_next_one_ends() {
    let (image, text) = catalog();
    let served = image.clone();
    // Each answer breaks after a tenth.
    let fake = Fake::start(move |request, _| {
        let mut answer = honest(&served, request);
        if is_layer(&served, request) {
            answer.cut = Some(answer.body.len().min(served.layer.len() / 10 + 1));
        }
        answer
    });
    let cache = tempfile::tempdir().unwrap();
    let error = pull(&fake.reference(), &plain(), Credentials::default(), cache.path()).unwrap_err();
    assert!(error.contains(&Digest::of(&image.layer).to_string()), "{error}");
    let first = fake.ranges_of(&image.layer).len();
    let mut outcome = Err(error);
    for _ in 0..10 {
        outcome = pull(&fake.reference(), &plain(), Credentials::default(), cache.path());
        if outcome.is_ok() {
            break;
        }
    }
    assert_eq!(outcome, Ok(text));
    let ranges = fake.ranges_of(&image.layer);
    assert!(ranges[first].is_some(), "the second process began again: {ranges:?}");
    assert!(ranges.windows(2).all(|pair| pair[0] < pair[1]), "{ranges:?}");
}

#[test]
fn a_registry_that_falls_silent_is_not_waited_for() {
    let (image, _) = catalog();
    let impatient = RegistryOptions { silence: Some(Duration::from_millis(300)), ..plain() };
    for (what, silent) in
        [("manifests", "/manifests/main".to_owned()), ("layers", Digest::of(&image.layer).to_string())]
    {
        let (image, cache) = (image.clone(), tempfile::tempdir().unwrap());
        let registry = Fake::start(move |request, _| {
            let answer = honest(&image, request);
            match request.path.ends_with(&silent) {
                true => Answer { cut: Some(answer.body.len() / 2), stalls: true, ..answer },
                false => answer,
            }
        });
        let refusal = pull(&registry.reference(), &impatient, Credentials::default(), cache.path()).unwrap_err();
        assert!(refusal.contains(&registry.reference()) && refusal.contains("timed out"), "{what}: {refusal}");
        assert!(!blobs(cache.path()).contains(&Digest::of(&catalog().0.layer).hex().to_owned()), "{what}");
    }
}

#[test]
fn a_registry_without_ranges_is_asked_for_everything_again() {
    let (image, text) = catalog();
    let served = image.clone();
    let fake = Fake::start(move |request, _| {
        let mut answer = honest(&served, request);
        match request.range() {
            None if is_layer(&served, request) => answer.cut = Some(1000),
            Some(_) => answer = found(&served.layer),
            None => {}
        }
        answer
    });
    let cache = tempfile::tempdir().unwrap();
    assert_eq!(pull(&fake.reference(), &plain(), Credentials::default(), cache.path()), Ok(text));
}

#[test]
fn a_range_that_the_registry_refuses_is_forgotten() {
    let (image, text) = catalog();
    let served = image.clone();
    let fake = Fake::start(move |request, _| match request.range() {
        Some(_) => Answer { status: 416, body: b"{}".to_vec(), ..Answer::default() },
        None => honest(&served, request),
    });
    let cache = tempfile::tempdir().unwrap();
    let partial = cache.path().join("blobs/sha256").join(format!("{}.part", Digest::of(&image.layer).hex()));
    std::fs::create_dir_all(partial.parent().unwrap()).unwrap();
    std::fs::write(partial, b"something else").unwrap();
    assert_eq!(pull(&fake.reference(), &plain(), Credentials::default(), cache.path()), Ok(text));
    assert_eq!(fake.ranges_of(&image.layer), [Some(14), None]);
}

#[test]
fn content_of_another_digest_is_refused_by_name_and_not_kept() {
    let (image, _) = catalog();
    let served = image.clone();
    let fake = Fake::start(move |request, _| {
        let mut answer = honest(&served, request);
        if is_layer(&served, request) {
            answer.body[100] ^= 1;
        }
        answer
    });
    let cache = tempfile::tempdir().unwrap();
    let error = pull(&fake.reference(), &plain(), Credentials::default(), cache.path()).unwrap_err();
    let digest = Digest::of(&image.layer);
    assert!(error.contains(&format!("the content of {digest} is sha256:")), "{error}");
    assert_eq!(blobs(cache.path()), [Digest::of(&image.config).hex()]);
}

#[test]
fn more_than_was_announced_is_refused() {
    let (image, _) = catalog();
    let served = image.clone();
    let fake = Fake::start(move |request, _| {
        let mut answer = honest(&served, request);
        if is_layer(&served, request) {
            answer.body.extend(vec![0; 1 << 20]);
        }
        answer
    });
    let cache = tempfile::tempdir().unwrap();
    let error = pull(&fake.reference(), &plain(), Credentials::default(), cache.path()).unwrap_err();
    assert!(error.contains(&Digest::of(&image.layer).to_string()), "{error}");
}

fn docker_config(port: u16, password: &str) -> Credentials {
    let auth = base64::engine::general_purpose::STANDARD.encode(format!("{USER}:{password}"));
    Credentials::from_text(&format!(r#"{{"auths": {{"127.0.0.1:{port}": {{"auth": "{auth}"}}}}}}"#)).unwrap()
}

#[test]
fn a_token_is_asked_for_with_the_login_of_the_docker_config() {
    let (image, text) = catalog();
    let expected = format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(format!("{USER}:{PASSWORD}")));
    let fake = Fake::start(move |request, port| {
        if request.path.starts_with("/token") {
            let scoped = request.path.contains("scope=repository%3Aplatform%2Fcatalog%3Apull");
            let known = request.header("authorization") == expected && request.path.contains("service=reg");
            return match scoped && known {
                true => found(br#"{"token": "for-an-hour", "access_token": "for-an-hour", "expires_in": 3600}"#),
                false => Answer { status: 401, ..Answer::default() },
            };
        }
        if request.header("authorization") == "Bearer for-an-hour" {
            return honest(&image, request);
        }
        let challenge = format!("Bearer realm=\"http://127.0.0.1:{port}/token\",service=\"reg\"");
        Answer { status: 401, headers: vec![("WWW-Authenticate", challenge)], ..Answer::default() }
    });
    let cache = tempfile::tempdir().unwrap();
    let login = docker_config(fake.port, PASSWORD);
    assert_eq!(pull(&fake.reference(), &plain(), login, cache.path()), Ok(text));
    let cache = tempfile::tempdir().unwrap();
    for login in [Credentials::default(), docker_config(fake.port, "wrong-password")] {
        let error = pull(&fake.reference(), &plain(), login, cache.path()).unwrap_err();
        assert!(error.contains("401") && !error.contains("wrong-password"), "{error}");
    }
}

#[test]
fn a_real_registry_lets_in_whom_the_docker_config_names() {
    let dir = tempfile::tempdir().unwrap();
    let passwords = dir.path().join("htpasswd");
    std::fs::write(&passwords, format!("{USER}:{BCRYPT}\n")).unwrap();
    let section = format!("auth:\n  htpasswd:\n    realm: test\n    path: {}\n", passwords.display());
    let Some(server) = registry::start_with("", &section) else { return };
    let (image, text) = catalog();
    let name = format!("127.0.0.1:{}/platform/catalog", server.port);
    let reference = ImageReference::parse(&name).unwrap();
    let cache = dir.path().join("cache");
    let images = |login| Images::new(Registry::new(&plain(), login).unwrap(), BlobCache::new(&cache));
    let refused = images(Credentials::default()).push(&image, &reference, &["main".to_owned()]).unwrap_err();
    assert!(refused.to_string().contains("401"), "{refused}");
    images(docker_config(server.port, PASSWORD)).push(&image, &reference, &["main".to_owned()]).unwrap();
    let tagged = format!("{name}:main");
    assert!(pull(&tagged, &plain(), docker_config(server.port, "wrong"), &cache).unwrap_err().contains("401"));
    assert_eq!(pull(&tagged, &plain(), docker_config(server.port, PASSWORD), &cache), Ok(text));
}

#[test]
fn certificates_are_checked_unless_told_otherwise() {
    let dir = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let (certificate, key) = (dir.path().join("cert.pem"), dir.path().join("key.pem"));
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let tls = format!("  tls:\n    certificate: {}\n    key: {}\n", certificate.display(), key.display());
    let Some(server) = registry::start_with(&tls, "") else { return };
    let (image, text) = catalog();
    let name = format!("127.0.0.1:{}/platform/catalog", server.port);
    let trusting = RegistryOptions { ca: Some(made.cert.pem().into_bytes()), ..RegistryOptions::default() };
    let cache = dir.path().join("cache");
    let images = Images::new(Registry::new(&trusting, Credentials::default()).unwrap(), BlobCache::new(&cache));
    images.push(&image, &ImageReference::parse(&name).unwrap(), &["main".to_owned()]).unwrap();
    let pull = |options: &RegistryOptions| pull(&format!("{name}:main"), options, Credentials::default(), &cache);
    let error = pull(&RegistryOptions::default()).unwrap_err();
    assert!(error.to_lowercase().contains("certificate"), "{error}");
    assert_eq!(pull(&trusting), Ok(text.clone()));
    assert_eq!(pull(&RegistryOptions { skip_tls_verify: true, ..RegistryOptions::default() }), Ok(text));
    let nonsense = RegistryOptions { ca: Some(b"not PEM".to_vec()), ..RegistryOptions::default() };
    assert!(pull(&nonsense).unwrap_err().contains("certificate"));
}
