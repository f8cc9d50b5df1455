//! What a first start makes, and what later starts keep.

use std::os::unix::fs::PermissionsExt;

use super::*;

fn now() -> Timestamp {
    Timestamp::from_second(1_800_000_000).expect("a time")
}

fn after_days(days: i64) -> Timestamp {
    Timestamp::from_second(now().as_second() + days * 86_400).expect("a time")
}

fn certificates(pki: &Pki) -> [&str; 3] {
    [&pki.ca_pem, &pki.serving.certificate_pem, &pki.admin.certificate_pem]
}

#[test]
fn a_second_start_changes_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    let first = Pki::ensure(directory.path(), &ServingNames::default(), now()).expect("made");
    let second = Pki::ensure(directory.path(), &ServingNames::default(), after_days(30)).expect("loaded");
    assert_eq!(certificates(&first), certificates(&second));
    assert_eq!(first.serving.key_pem, second.serving.key_pem);
    assert_eq!(first.service_account_key.0, second.service_account_key.0);
}

#[test]
fn keys_are_private() {
    let directory = tempfile::tempdir().expect("a directory");
    let pki = Pki::ensure(directory.path(), &ServingNames::default(), now()).expect("made");
    let kubeconfig = directory.path().join("admin.kubeconfig");
    pki.write_admin_kubeconfig(&kubeconfig, "https://127.0.0.1:6443").expect("written");
    let mode =
        |name: &str| std::fs::metadata(directory.path().join(name)).expect("is there").permissions().mode() & 0o777;
    for secret in ["ca.key", "apiserver.key", "admin.key", "service-account.key", "admin.kubeconfig"] {
        assert_eq!(mode(secret), 0o600, "{secret}");
    }
    assert_eq!(mode("ca.crt"), 0o644);
    let left = std::fs::read_dir(directory.path()).expect("listed");
    assert!(left.flatten().all(|f| !f.file_name().to_string_lossy().ends_with(".tmp")), "no temporary file is left");
}

#[test]
fn leaves_are_renewed_near_their_end_and_keep_their_keys() {
    let directory = tempfile::tempdir().expect("a directory");
    let first = Pki::ensure(directory.path(), &ServingNames::default(), now()).expect("made");
    let later = Pki::ensure(directory.path(), &ServingNames::default(), after_days(330)).expect("renewed");
    assert_eq!(first.ca_pem, later.ca_pem);
    assert_ne!(first.serving.certificate_pem, later.serving.certificate_pem);
    assert_ne!(first.admin.certificate_pem, later.admin.certificate_pem);
    assert_eq!(first.serving.key_pem, later.serving.key_pem);
}

#[test]
fn the_authority_is_renewed_under_its_old_key() {
    let directory = tempfile::tempdir().expect("a directory");
    let first = Pki::ensure(directory.path(), &ServingNames::default(), now()).expect("made");
    let later = Pki::ensure(directory.path(), &ServingNames::default(), after_days(3400)).expect("renewed");
    assert_ne!(first.ca_pem, later.ca_pem);
    let key_id = |pem: &str| super::certificates::inspect(pem).expect("readable").not_after;
    assert!(key_id(&later.ca_pem) > key_id(&first.ca_pem));
    // A third start finds everything in order, so the renewed certificate was written and chains hold.
    let third = Pki::ensure(directory.path(), &ServingNames::default(), after_days(3400)).expect("loaded");
    assert_eq!(certificates(&later), certificates(&third));
}

#[test]
fn another_name_needs_another_serving_certificate() {
    let directory = tempfile::tempdir().expect("a directory");
    let first = Pki::ensure(directory.path(), &ServingNames::default(), now()).expect("made");
    let wanted = ["api.example.com", "192.0.2.7", "[2001:db8::1]"].map(|name| name.parse().expect("a name"));
    let names = wanted.into_iter().fold(ServingNames::default(), ServingNames::with);
    let second = Pki::ensure(directory.path(), &names, now()).expect("renewed");
    assert_ne!(first.serving.certificate_pem, second.serving.certificate_pem);
    assert_eq!(first.admin.certificate_pem, second.admin.certificate_pem);
    // Fewer names than the certificate has are fine.
    let third = Pki::ensure(directory.path(), &ServingNames::default(), now()).expect("loaded");
    assert_eq!(second.serving.certificate_pem, third.serving.certificate_pem);
}

#[test]
fn a_lost_authority_key_stops_the_start() {
    let directory = tempfile::tempdir().expect("a directory");
    Pki::ensure(directory.path(), &ServingNames::default(), now()).expect("made");
    std::fs::remove_file(directory.path().join("ca.key")).expect("removed");
    let error = Pki::ensure(directory.path(), &ServingNames::default(), now()).expect_err("refused");
    assert!(matches!(error, PkiError::CaKeyMissing { .. }), "{error}");
}

#[test]
fn garbage_is_named_and_kept() {
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::write(directory.path().join("service-account.key"), "garbage").expect("written");
    let error = Pki::ensure(directory.path(), &ServingNames::default(), now()).expect_err("refused");
    assert!(error.to_string().contains("service-account.key"), "{error}");
    let kept = std::fs::read_to_string(directory.path().join("service-account.key")).expect("readable");
    assert_eq!(kept, "garbage");
}

#[test]
fn a_debug_print_shows_no_key() {
    let directory = tempfile::tempdir().expect("a directory");
    let pki = Pki::ensure(directory.path(), &ServingNames::default(), now()).expect("made");
    assert!(!format!("{pki:?}").contains("PRIVATE KEY"));
}

#[test]
fn servers_that_share_a_directory_make_one_authority() {
    let dir = tempfile::tempdir().unwrap();
    let authorities: Vec<String> = std::thread::scope(|scope| {
        let start = || Pki::ensure(dir.path(), &ServingNames::default(), now()).unwrap().ca_pem;
        let servers: Vec<_> = (0..4).map(|_| scope.spawn(start)).collect();
        servers.into_iter().map(|server| server.join().unwrap()).collect()
    });
    assert!(authorities.windows(2).all(|pair| pair[0] == pair[1]));
}
