//! Real handshakes over memory.

use std::io::{Read, Write};

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, ServerConnection};

use super::*;
use crate::pki::{KeyedCertificate, Pki, ServingNames};

fn pki() -> Pki {
    let directory = tempfile::tempdir().expect("a directory");
    Pki::ensure(
        directory.path(),
        &ServingNames::default().with_listening([192, 0, 2, 7].into()),
        jiff::Timestamp::now(),
    )
    .expect("made")
}

fn roots(pki: &Pki) -> RootCertStore {
    let mut roots = RootCertStore::empty();
    add_roots(&mut roots, "ca", &pki.ca_pem).expect("a root");
    roots
}

/// Shakes hands as a client of `host`, with a certificate or without. Gives the server's view of the client.
fn shake(
    server: &Pki,
    trusted: &Pki,
    host: &str,
    identity: Option<&KeyedCertificate>,
) -> Result<ServerConnection, rustls::Error> {
    let config =
        server_config(&server.serving.certificate_pem, &server.serving.key_pem, &roots(server), &Protocols::default())
            .expect("a config");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots(trusted));
    let mut client_config = match identity {
        Some(identity) => {
            let chain = certificates_from_pem("client", &identity.certificate_pem).expect("a chain");
            let key = private_key_from_pem("client", &identity.key_pem).expect("a key");
            builder.with_client_auth_cert(chain, key).expect("an identity")
        }
        None => builder.with_no_client_auth(),
    };
    client_config.alpn_protocols = vec![b"h2".to_vec()];
    let name = ServerName::try_from(host.to_owned()).expect("a name");
    let mut client = ClientConnection::new(Arc::new(client_config), name)?;
    let mut server = ServerConnection::new(Arc::new(config))?;
    while client.is_handshaking() || server.is_handshaking() {
        let mut wire = Vec::new();
        client.write_tls(&mut wire).expect("written");
        server.read_tls(&mut wire.as_slice()).expect("read");
        server.process_new_packets()?;
        wire.clear();
        server.write_tls(&mut wire).expect("written");
        client.read_tls(&mut wire.as_slice()).expect("read");
        client.process_new_packets()?;
    }
    client.writer().write_all(b"hello").expect("written");
    let mut wire = Vec::new();
    client.write_tls(&mut wire).expect("written");
    server.read_tls(&mut wire.as_slice()).expect("read");
    server.process_new_packets()?;
    let mut received = [0; 5];
    server.reader().read_exact(&mut received).expect("received");
    assert_eq!(&received, b"hello");
    Ok(server)
}

#[test]
fn our_certificate_is_good_for_our_names() {
    let pki = pki();
    for host in ["localhost", "127.0.0.1", "::1", "kubernetes.default.svc", "192.0.2.7"] {
        let connection = shake(&pki, &pki, host, None).expect(host);
        assert!(connection.peer_certificates().is_none());
        assert_eq!(connection.alpn_protocol(), Some(&b"h2"[..]));
    }
    shake(&pki, &pki, "example.com", None).expect_err("not ours");
}

#[test]
fn any_client_certificate_passes_the_handshake() {
    let (ours, theirs) = (pki(), pki());
    for identity in [&ours.admin, &theirs.admin] {
        let connection = shake(&ours, &ours, "localhost", Some(identity)).expect("accepted");
        assert_eq!(connection.peer_certificates().map(<[_]>::len), Some(1));
    }
}

#[test]
fn files_without_certificates_or_keys_are_named() {
    let pki = pki();
    let mut roots = RootCertStore::empty();
    assert!(
        add_roots(&mut roots, "--client-ca-file", "").is_err_and(|e| e.to_string().starts_with("--client-ca-file"))
    );
    let error = server_config(&pki.serving.certificate_pem, "", &roots, &Protocols::default()).expect_err("refused");
    assert_eq!(error.to_string(), "serving certificate: no private key found");
    server_config(&pki.serving.certificate_pem, &pki.admin.key_pem, &roots, &Protocols::default())
        .expect_err("another key");
}
