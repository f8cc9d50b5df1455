//! A small web server for registries and customers' sites: one request for each connection, HTTP/1.1, plain or TLS. Its
//! threads end with the process.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Result;

use crate::certificates::Authority;
use crate::registry;
use crate::world::{
    BROKEN_WEB_ADDRESS, FORGOTTEN_PLACE, OTHER_ISSUER_ADDRESS, PLACES_WEB_ADDRESS, SILENT_PLACE, WEB_ADDRESS,
    WRONG_CERTIFICATE_ADDRESS,
};

/// A request line longer than this is nobody's.
const MAX_HEAD_BYTES: u64 = 16 * 1024;
/// A peer that stops talking is let go.
const IDLE: Duration = Duration::from_secs(5);

/// What is asked of a web server.
pub(crate) struct Request {
    pub(crate) host: String,
    pub(crate) path: String,
    /// Who asks.
    pub(crate) visitor: Option<IpAddr>,
}

/// What it answers.
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Response {
    pub(crate) fn text(status: u16, body: &str) -> Self {
        let headers = vec![("content-type".to_owned(), "text/plain".to_owned())];
        Self { status, headers, body: body.as_bytes().to_vec() }
    }
}

type Handler = Arc<dyn Fn(&Request) -> Response + Send + Sync>;

/// Files that owners put on their sites since the bed came up, by host and path.
#[derive(Clone, Default)]
pub(crate) struct Sites(Arc<Mutex<Files>>);

#[derive(Default)]
struct Files {
    put: HashMap<(String, String), String>,
    /// Sites that show such files to everybody but one place.
    hidden: HashMap<String, IpAddr>,
}

impl Sites {
    pub(crate) fn put(&self, host: &str, path: &str, body: &str) {
        self.files().put.insert((host.to_owned(), path.to_owned()), body.to_owned());
    }

    pub(crate) fn hide(&self, host: &str, from: Option<IpAddr>) {
        let mut files = self.files();
        match from {
            Some(visitor) => files.hidden.insert(host.to_owned(), visitor),
            None => files.hidden.remove(host),
        };
    }

    fn files(&self) -> MutexGuard<'_, Files> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn file(&self, request: &Request) -> Option<String> {
        let files = self.files();
        let is_hidden = request.visitor.is_some() && files.hidden.get(&request.host).copied() == request.visitor;
        files.put.get(&(request.host.clone(), request.path.clone())).filter(|_| !is_hidden).cloned()
    }
}

/// The customers' sites.
pub(crate) fn start(authority: &Authority) -> Result<Sites> {
    let names =
        ["good.com", "*.good.com", "plain.com", "www.plain.com", "q7.io", "moving.com", "www.moving.com", "claims.com"];
    // A file of the site's owner, or the end of the path again, as careless sites answer: the latter must prove nothing.
    let sites = Sites::default();
    let put = sites.clone();
    let ok: Handler = Arc::new(move |request| match request.path.strip_prefix("/.well-known/bailiwick-challenge/") {
        Some(name) => match put.file(request).or_else(|| registry::fixture(&["web", &request.host, name])) {
            Some(text) => Response::text(200, &text),
            None => Response::text(200, &format!("{name}\n")),
        },
        None => Response::text(200, &format!("welcome to {}\n", request.host)),
    });
    let broken: Handler = Arc::new(|_| Response::text(503, "no healthy backend\n"));
    let other = authority.below("DigiCert of the fake internet")?;
    let served: [(&str, &[&str], &Handler, &Authority); 4] = [
        (WEB_ADDRESS, &names, &ok, authority),
        (WRONG_CERTIFICATE_ADDRESS, &["somebody-else.example"], &ok, authority),
        (OTHER_ISSUER_ADDRESS, &["bank.good.com"], &ok, &other),
        (BROKEN_WEB_ADDRESS, &["down.com", "malware.com", "*.target.net"], &broken, authority),
    ];
    for (address, names, handler, issuer) in served {
        let certificate = issuer.issue(authority.directory(), address, names)?;
        serve(SocketAddr::new(address.parse()?, 80), None, handler.clone())?;
        serve(SocketAddr::new(address.parse()?, 443), Some(certificate.server_config()?), handler.clone())?;
    }
    start_at_places(authority, &ok)?;
    Ok(sites)
}

/// One address with a machine at each place, as anycast has it.
fn start_at_places(authority: &Authority, handler: &Handler) -> Result<()> {
    let issue = |file: &str, name: &str| {
        let certificate = authority.issue(authority.directory(), &format!("{PLACES_WEB_ADDRESS}-{file}"), &[name]);
        certificate.and_then(|certificate| certificate.server_config())
    };
    let (usual, former) = (issue("usual", "pops.plain.com")?, issue("former", "former.plain.com")?);
    let (forgotten, silent): (IpAddr, IpAddr) = (FORGOTTEN_PLACE.parse()?, SILENT_PLACE.parse()?);
    let machine = move |visitor: IpAddr| match visitor {
        place if place == silent => None,
        place if place == forgotten => Some(former.clone()),
        _ => Some(usual.clone()),
    };
    let listener = TcpListener::bind(SocketAddr::new(PLACES_WEB_ADDRESS.parse()?, 443))?;
    let handler = handler.clone();
    std::thread::Builder::new().name(format!("web {PLACES_WEB_ADDRESS}")).spawn(move || {
        for stream in listener.incoming().flatten() {
            let Some(tls) = stream.peer_addr().ok().and_then(|visitor| machine(visitor.ip())) else { continue };
            let handler = handler.clone();
            std::thread::spawn(move || {
                let _ = answer(stream, Some(tls), &handler);
            });
        }
    })?;
    Ok(())
}

/// Serves an address, with TLS when there is a configuration for it.
pub(crate) fn serve(address: SocketAddr, tls: Option<Arc<rustls::ServerConfig>>, handler: Handler) -> Result<()> {
    let listener = TcpListener::bind(address)?;
    std::thread::Builder::new().name(format!("web {address}")).spawn(move || {
        for stream in listener.incoming().flatten() {
            let (tls, handler) = (tls.clone(), handler.clone());
            std::thread::spawn(move || {
                let _ = answer(stream, tls, &handler);
            });
        }
    })?;
    Ok(())
}

fn answer(stream: TcpStream, tls: Option<Arc<rustls::ServerConfig>>, handler: &Handler) -> Result<()> {
    stream.set_read_timeout(Some(IDLE))?;
    let visitor = stream.peer_addr().ok().map(|visitor| visitor.ip());
    match tls {
        None => converse(stream, visitor, handler),
        Some(config) => {
            let connection = rustls::ServerConnection::new(config)?;
            let mut stream = rustls::StreamOwned::new(connection, stream);
            converse(&mut stream, visitor, handler)?;
            stream.conn.send_close_notify();
            stream.flush()?;
            Ok(())
        }
    }
}

fn converse(mut stream: impl Read + Write, visitor: Option<IpAddr>, handler: &Handler) -> Result<()> {
    let mut reader = BufReader::new((&mut stream).take(MAX_HEAD_BYTES));
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let path = line.split(' ').nth(1).unwrap_or("/").to_owned();
    let mut host = String::new();
    loop {
        line.clear();
        if reader.read_line(&mut line)? == 0 || line.trim().is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("host")
        {
            host = value.trim().split(':').next().unwrap_or_default().to_owned();
        }
    }
    drop(reader);
    let response = handler(&Request { host, path, visitor });
    let mut head =
        format!("HTTP/1.1 {} x\r\ncontent-length: {}\r\nconnection: close\r\n", response.status, response.body.len());
    for (name, value) in &response.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    stream.write_all(format!("{head}\r\n").as_bytes())?;
    stream.write_all(&response.body)?;
    Ok(stream.flush()?)
}
