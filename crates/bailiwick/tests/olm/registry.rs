//! Debian's docker-registry for a test: open, behind a login, or with TLS.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Result, anyhow};
use bailiwick_catalog::oci::{BlobCache, Credentials, Image, Images, Registry, RegistryOptions};
use bailiwick_catalog::reference::ImageReference;
use bailiwick_testkit::tools;

/// A user of registries with a login, with the password that the hash is of.
pub const LOGIN: (&str, &str) = ("alice", "U*U");
const LOGIN_HASH: &str = "$2a$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW";

pub struct DockerRegistry {
    child: Child,
    pub port: u16,
    storage: tempfile::TempDir,
}

impl Drop for DockerRegistry {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Who gets in, and how.
#[derive(Clone, Debug)]
pub enum Door {
    Open,
    Login,
    /// At an address that is not the loopback's, with a certificate for it by an authority of its own.
    Tls(IpAddr),
}

fn program() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let system = std::env::split_paths(&path).map(|it| it.join("docker-registry")).find(|it| it.is_file());
    let found = tools::find("docker-registry").ok().or(system);
    if found.is_none() {
        bailiwick_testkit::skip("docker-registry is not installed: cargo xtask setup");
    }
    found
}

impl DockerRegistry {
    /// `None`, with a line that says so, where it is not installed.
    pub fn start(door: &Door) -> Result<Option<Self>> {
        let Some(program) = program() else { return Ok(None) };
        let storage = tempfile::tempdir()?;
        let host = match door {
            Door::Tls(address) => *address,
            _ => Ipv4Addr::LOCALHOST.into(),
        };
        let port = std::net::TcpListener::bind((host, 0))?.local_addr()?.port();
        let at = |name: &str| storage.path().join(name).display().to_string();
        let mut config = format!(
            "version: 0.1\nstorage:\n  filesystem:\n    rootdirectory: {}\nhttp:\n  addr: {host}:{port}\n",
            at("data")
        );
        match door {
            Door::Open => {}
            Door::Login => {
                std::fs::write(at("htpasswd"), format!("{}:{LOGIN_HASH}\n", LOGIN.0))?;
                config.push_str(&format!("auth:\n  htpasswd:\n    realm: test\n    path: {}\n", at("htpasswd")));
            }
            Door::Tls(address) => {
                let certified = rcgen::generate_simple_self_signed([address.to_string()])?;
                std::fs::write(at("tls.crt"), certified.cert.pem())?;
                std::fs::write(at("tls.key"), certified.signing_key.serialize_pem())?;
                config.push_str(&format!("  tls:\n    certificate: {}\n    key: {}\n", at("tls.crt"), at("tls.key")));
            }
        }
        std::fs::write(at("config.yml"), config)?;
        let child = Command::new(program)
            .arg("serve")
            .arg(at("config.yml"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let registry = Self { child, port, storage };
        for _ in 0..600 {
            if std::net::TcpStream::connect((host, port)).is_ok() {
                return Ok(Some(registry));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Err(anyhow!("the registry does not start"))
    }

    /// The certificate to trust, of a registry with TLS.
    pub fn ca_file(&self) -> PathBuf {
        self.storage.path().join("tls.crt")
    }

    /// A client that gets in.
    pub fn client(&self, door: &Door) -> Result<Images> {
        let ca = match door {
            Door::Tls(_) => Some(std::fs::read(self.ca_file())?),
            _ => None,
        };
        let options = RegistryOptions { plain_http: ca.is_none(), ca, ..RegistryOptions::default() };
        let credentials = match door {
            Door::Login => Credentials::from_text(&self.docker_config()).unwrap_or_default(),
            _ => Credentials::default(),
        };
        Ok(Images::new(Registry::new(&options, credentials)?, BlobCache::new(&self.storage.path().join("cache"))))
    }

    /// What `docker login` writes.
    pub fn docker_config(&self) -> String {
        use base64::Engine as _;
        let login = base64::engine::general_purpose::STANDARD.encode(format!("{}:{}", LOGIN.0, LOGIN.1));
        format!(r#"{{"auths":{{"127.0.0.1:{}":{{"auth":"{login}"}}}}}}"#, self.port)
    }

    /// Pushes an image under `name:latest`.
    pub fn push(&self, door: &Door, image: &Image, name: &str) -> Result<String> {
        let host = match door {
            Door::Tls(address) => address.to_string(),
            _ => "127.0.0.1".to_owned(),
        };
        let name = format!("{host}:{}/{name}", self.port);
        let reference = ImageReference::parse(&name).map_err(|error| anyhow!(error))?;
        self.client(door)?.push(image, &reference, &["latest".to_owned()])?;
        Ok(format!("{name}:latest"))
    }
}
