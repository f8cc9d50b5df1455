use std::time::Duration;

use bailiwick_auth::authn::x509::ClientCertificates;

use super::*;

fn certificates(dir: &Path, options: TlsOptions, authentication: AuthenticationOptions) -> Certificates {
    let (pki_dir, names, kubeconfig) = (dir.join("pki"), ServingNames::default(), dir.join("admin.kubeconfig"));
    let pki = Pki::ensure(&pki_dir, &names, Timestamp::now()).unwrap();
    pki.write_admin_kubeconfig(&kubeconfig, "https://x").unwrap();
    let roots = authentication.client_roots(&pki).unwrap();
    let config = Arc::new(ArcSwap::from_pointee(options.build(&pki, &roots).unwrap()));
    let client_roots = ClientCertificates::new(Arc::new(roots)).unwrap().roots();
    let places = Places { pki_dir, kubeconfig: &kubeconfig, url: "https://x" };
    Certificates::new(&options, &authentication, places, names, &pki, config, client_roots)
}

fn after_days(days: u64) -> Timestamp {
    Timestamp::now() + Duration::from_secs(days * 24 * 3600)
}

#[test]
fn our_own_certificates_are_renewed_while_running_and_the_kubeconfig_with_them() {
    let dir = tempfile::tempdir().unwrap();
    let mut certificates = certificates(dir.path(), TlsOptions::default(), AuthenticationOptions::default());
    let kubeconfig = || std::fs::read_to_string(dir.path().join("admin.kubeconfig")).unwrap();
    let (config, first) = (certificates.config.load_full(), kubeconfig());
    assert_eq!(certificates.refresh(after_days(200)).unwrap(), Refreshed::Nothing);
    assert!(Arc::ptr_eq(&config, &certificates.config.load_full()));
    assert_eq!(kubeconfig(), first);
    assert_eq!(certificates.refresh(after_days(310)).unwrap(), Refreshed::Certificates);
    assert!(!Arc::ptr_eq(&config, &certificates.config.load_full()));
    assert_ne!(kubeconfig(), first);
    assert_eq!(certificates.refresh(after_days(311)).unwrap(), Refreshed::Nothing);
}

#[test]
fn files_that_others_replace_are_put_to_use_once_they_fit_together() {
    let dir = tempfile::tempdir().unwrap();
    let other = |name: &str| Pki::ensure(&dir.path().join(name), &ServingNames::default(), Timestamp::now()).unwrap();
    let (one, two) = (other("one"), other("two"));
    let (certificate, key, authorities) =
        (dir.path().join("tls.crt"), dir.path().join("tls.key"), dir.path().join("ca.crt"));
    let write = |path: &Path, text: &str| std::fs::write(path, text).unwrap();
    write(&certificate, &one.serving.certificate_pem);
    write(&key, &one.serving.key_pem);
    write(&authorities, &one.ca_pem);
    let options = TlsOptions { serving_certificate: Some((certificate.clone(), key.clone())), ..TlsOptions::default() };
    let authentication =
        AuthenticationOptions { client_ca_file: Some(authorities.clone()), ..AuthenticationOptions::default() };
    let mut certificates = certificates(dir.path(), options, authentication);
    let config = certificates.config.load_full();

    write(&certificate, &two.serving.certificate_pem);
    assert!(certificates.refresh(Timestamp::now()).is_err(), "the key is still the other one's");
    assert!(Arc::ptr_eq(&config, &certificates.config.load_full()));
    write(&key, &two.serving.key_pem);
    assert_eq!(certificates.refresh(Timestamp::now()).unwrap(), Refreshed::Certificates);
    write(&authorities, &two.ca_pem);
    assert_eq!(certificates.refresh(Timestamp::now()).unwrap(), Refreshed::Certificates);
    assert_eq!(certificates.refresh(Timestamp::now()).unwrap(), Refreshed::Nothing);
    write(&authorities, "");
    assert!(certificates.refresh(Timestamp::now()).is_err(), "nobody is locked out by an empty file");
}
