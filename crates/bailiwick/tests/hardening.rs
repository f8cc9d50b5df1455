//! What protects the server and its clients besides limits: panics stay where they happen, certificates are replaced
//! without a restart, old protocols are refused, and what clients send is not sent back as something else.

#[path = "limits/wire.rs"]
#[allow(dead_code, reason = "not every test needs all of it")]
mod wire;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bailiwick::{AuthenticationOptions, Builder, ControlPlane, Running, TlsOptions};
use bailiwick_auth::pki::{Pki, ServingNames, default_route_addresses};
use bailiwick_auth::tls::{Protocols, TlsVersion};
use bailiwick_machinery::field::ErrorList;
use bailiwick_machinery::strategy::{Context, Strategy};
use rustls::pki_types::{IpAddr, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use wire::Wire;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
/// Far more than anything here takes; only a bug runs into it.
const DEADLINE: Duration = Duration::from_secs(120);

struct Plane {
    running: Running,
    dir: tempfile::TempDir,
}

impl Plane {
    async fn start(configure: impl FnOnce(Builder, AuthenticationOptions) -> Builder) -> Self {
        Self::start_in(tempfile::tempdir().unwrap(), configure).await
    }

    async fn start_in(
        dir: tempfile::TempDir,
        configure: impl FnOnce(Builder, AuthenticationOptions) -> Builder,
    ) -> Self {
        let tokens = dir.path().join("tokens.csv");
        std::fs::write(&tokens, "admin-token,admin,admin,\"system:masters\"\n").unwrap();
        let authentication =
            AuthenticationOptions { token_auth_file: Some(tokens), ..AuthenticationOptions::default() };
        let builder = ControlPlane::builder(dir.path().join("data")).controllers(&[]);
        Self { running: configure(builder, authentication).start().await.unwrap(), dir }
    }

    async fn connect(&self) -> Wire {
        Wire::connect(self.running.address, &self.ca()).await.unwrap()
    }

    fn ca(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("data/pki/ca.crt")).unwrap()
    }
}

/// A type whose rules have a bug.
#[derive(Debug)]
struct Buggy;

impl Strategy for Buggy {
    fn validate(&self, _cx: &Context<'_>, object: &Value) -> ErrorList {
        assert_ne!(object["metadata"]["name"], "bad", "a bug, on purpose");
        ErrorList::new()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_is_a_500_that_is_counted_and_nobody_else_notices() {
    let mut resources = bailiwick_api::native_resources();
    let maps = resources.iter_mut().find(|resource| resource.plural == "configmaps").unwrap();
    maps.strategy = Arc::new(Buggy);
    let plane =
        Plane::start(|builder, authentication| builder.resources(resources).authentication(authentication)).await;
    let mut wire = plane.connect().await;
    for _ in 0..3 {
        let answer = wire.request("POST", MAPS, &json!({"metadata": {"name": "bad"}})).await;
        assert_eq!(answer.status, 500);
        assert_eq!(answer.json()["reason"], "InternalError");
        assert!(!answer.json().to_string().contains("on purpose"), "what went wrong is for the operator");
    }
    let good = wire.request("POST", MAPS, &json!({"metadata": {"name": "good"}})).await;
    assert_eq!(good.status, 201, "on the same connection");
    let metrics = String::from_utf8(wire.request("GET", "/metrics", &Value::Null).await.body).unwrap();
    assert!(metrics.lines().any(|line| line == "apiserver_request_panics_total 3"), "{metrics}");
    let inflight = "apiserver_current_inflight_requests{request_kind=\"mutating\"} 0";
    assert!(metrics.lines().any(|line| line == inflight), "a panicked request is over");
}

/// Tries a handshake that trusts `ca_pem` and speaks at most `newest`; gives the server's certificate.
async fn shake(
    address: SocketAddr,
    ca_pem: &str,
    versions: &[&'static rustls::SupportedProtocolVersion],
) -> std::io::Result<Vec<u8>> {
    shake_with(address, ServerName::IpAddress(IpAddr::from(address.ip())), ca_pem, versions).await
}

/// As [`shake`], with a server that must prove to be `name`.
async fn shake_with(
    address: SocketAddr,
    name: ServerName<'static>,
    ca_pem: &str,
    versions: &[&'static rustls::SupportedProtocolVersion],
) -> std::io::Result<Vec<u8>> {
    let mut roots = RootCertStore::empty();
    bailiwick_auth::tls::add_roots(&mut roots, "CA", ca_pem).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_protocol_versions(versions)
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = TlsConnector::from(Arc::new(config)).connect(name, TcpStream::connect(address).await?).await?;
    Ok(stream.get_ref().1.peer_certificates().and_then(<[_]>::first).map(|der| der.to_vec()).unwrap_or_default())
}

#[tokio::test(flavor = "multi_thread")]
async fn versions_below_the_configured_one_are_refused() {
    let (old, new) = (&[&rustls::version::TLS12][..], &[&rustls::version::TLS13][..]);
    let plane = Plane::start(|builder, _| builder).await;
    shake(plane.running.address, &plane.ca(), old).await.unwrap();
    shake(plane.running.address, &plane.ca(), new).await.unwrap();
    let protocols = Protocols::new(TlsVersion::Tls13, &[]).unwrap();
    let plane = Plane::start(|builder, _| builder.tls(TlsOptions { protocols, ..TlsOptions::default() })).await;
    shake(plane.running.address, &plane.ca(), old).await.unwrap_err();
    shake(plane.running.address, &plane.ca(), new).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_certificate_is_for_every_name_by_which_other_machines_come() {
    let all = [&rustls::version::TLS12, &rustls::version::TLS13];
    let any = SocketAddr::from(([0, 0, 0, 0], 0));
    let pki = tempfile::tempdir().unwrap();
    let plane = Plane::start(|builder, _| builder.listen(any).pki_dir(pki.path())).await;
    let ca = std::fs::read_to_string(pki.path().join("ca.crt")).unwrap();
    for ip in default_route_addresses(any.ip()) {
        let address = SocketAddr::new(ip, plane.running.address.port());
        shake(address, &ca, &all).await.expect("a client that comes by the machine's own address");
    }

    // With more names to go by, another certificate is made, of the same authority.
    let tls = TlsOptions {
        advertise_address: Some([192, 0, 2, 7].into()),
        further_names: vec!["api.example.com".parse().unwrap()],
        ..TlsOptions::default()
    };
    let plane =
        Plane::start(|builder, authentication| builder.tls(tls).authentication(authentication).pki_dir(pki.path()))
            .await;
    let address = plane.running.address;
    for name in ["api.example.com", "192.0.2.7", "127.0.0.1"] {
        let wanted = ServerName::try_from(name).unwrap();
        shake_with(address, wanted, &ca, &all).await.unwrap_or_else(|error| panic!("{name}: {error}"));
    }
    let stranger = ServerName::try_from("other.example.com").unwrap();
    shake_with(address, stranger, &ca, &all).await.expect_err("nobody said this name");
    let mut wire = Wire::connect(address, &ca).await.unwrap();
    let document = wire.request("GET", "/api", &Value::Null).await.json();
    let told = format!("192.0.2.7:{}", address.port());
    assert_eq!(document["serverAddressByClientCIDRs"][0]["serverAddress"], told);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replaced_serving_certificate_and_client_authority_hold_without_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let other =
        |name: &str| Pki::ensure(&dir.path().join(name), &ServingNames::default(), jiff::Timestamp::now()).unwrap();
    let (one, two) = (other("one"), other("two"));
    let (certificate, key, authority) =
        (dir.path().join("tls.crt"), dir.path().join("tls.key"), dir.path().join("client-ca.crt"));
    let install = |pki: &Pki| {
        std::fs::write(&certificate, &pki.serving.certificate_pem).unwrap();
        std::fs::write(&key, &pki.serving.key_pem).unwrap();
        std::fs::write(&authority, &pki.ca_pem).unwrap();
    };
    install(&one);
    let tls = TlsOptions {
        serving_certificate: Some((certificate.clone(), key.clone())),
        reload_period: Duration::from_millis(20),
        ..TlsOptions::default()
    };
    let client_ca_file = Some(authority.clone());
    let plane = Plane::start_in(tempfile::tempdir().unwrap(), |builder, authentication| {
        builder.tls(tls).authentication(AuthenticationOptions { client_ca_file, ..authentication })
    })
    .await;
    let address = plane.running.address;
    let mut open = Wire::connect(address, &one.ca_pem).await.unwrap();
    let who = async |ca: &Pki, admin: &Pki| who(address, &ca.ca_pem, admin).await;
    assert_eq!(who(&one, &one).await.as_deref(), Some("kubernetes-admin"));
    assert_eq!(who(&one, &two).await, None, "an authority that is not trusted yet");

    install(&two);
    tokio::time::timeout(DEADLINE, async {
        while who(&two, &two).await.is_none() {
            tokio::task::yield_now().await;
        }
    })
    .await
    .expect("the new certificate and authority should be used");
    assert_eq!(who(&two, &one).await, None, "the old authority is no longer trusted");
    let all = [&rustls::version::TLS12, &rustls::version::TLS13];
    shake(address, &one.ca_pem, &all).await.unwrap_err();
    assert_eq!(open.request("GET", "/version", &Value::Null).await.status, 200, "open connections go on");
}

/// Who the server takes the holder of another control plane's administrator certificate for; `None` if it does not know
/// them or cannot be trusted itself.
async fn who(address: SocketAddr, ca_pem: &str, admin: &Pki) -> Option<String> {
    let client = wire::Identity { certificate_pem: &admin.admin.certificate_pem, key_pem: &admin.admin.key_pem };
    let mut wire = Wire::connect_as(address, ca_pem, Some(client)).await.ok()?;
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let answer = wire.request_without_token("POST", path, &review).await;
    (answer.status == 201).then(|| answer.json()["status"]["userInfo"]["username"].as_str().unwrap().to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn browsers_are_told_to_stay_with_https_and_texts_are_not_to_be_guessed_at() {
    let plane = Plane::start(|builder, authentication| {
        let directives = vec!["max-age=31536000".into(), "includeSubDomains".into()];
        let tls = TlsOptions { strict_transport_security_directives: directives, ..TlsOptions::default() };
        builder.tls(tls).authentication(authentication)
    })
    .await;
    let mut wire = plane.connect().await;
    for path in ["/version", "/nothing/here", "/healthz", "/api/v1/nothing"] {
        wire.send(&wire::head("GET", path, "application/json", 0)).await;
        let headers = wire.headers().await;
        wire.body().await;
        let value = |name: &str| headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
        assert_eq!(value("strict-transport-security"), Some("max-age=31536000; includesubdomains"), "{path}");
        assert_eq!(value("cache-control"), Some("no-cache, private"), "{path}");
        if value("content-type").is_some_and(|kind| kind.starts_with("text/plain")) {
            assert_eq!(value("x-content-type-options"), Some("nosniff"), "{path}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_a_request_comes_back_as_a_header_or_as_html() {
    let plane = Plane::start(|builder, authentication| builder.authentication(authentication)).await;
    for path in [
        "/%0d%0aset-cookie:%20a=b",
        "/<script>alert(1)</script>",
        "/api/v1/namespaces/%3Cscript%3E/configmaps",
        "/apis/%0d%0ax:y/v1",
    ] {
        let mut wire = plane.connect().await;
        wire.send(
            &wire::head("GET", path, "application/json", 0).replace("host: x", "host: x\r\norigin: https://evil"),
        )
        .await;
        let headers = wire.headers().await;
        let body = wire.body().await;
        let kind = headers.iter().find(|(name, _)| name == "content-type").map(|(_, value)| value.as_str());
        assert!(kind.is_none_or(|kind| !kind.contains("html")), "{path}: {kind:?}");
        assert!(kind.is_some() || body.is_empty(), "{path}: a body of no kind");
        for (name, value) in &headers {
            assert!(!matches!(name.as_str(), "set-cookie" | "x"), "{path} made a header");
            assert!(!value.contains("evil") && name != "access-control-allow-origin", "{path}: {name}: {value}");
        }
    }
}
