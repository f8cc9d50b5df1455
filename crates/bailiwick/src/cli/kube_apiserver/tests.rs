use clap::Parser;

use super::*;

fn serve(arguments: &[&str]) -> anyhow::Result<Arguments> {
    match translate(arguments.iter().map(|argument| (*argument).to_owned()))? {
        Asked::Serve(arguments) => Ok(arguments),
        Asked::Print(text) => bail!("printed {text}"),
    }
}

/// What envtest of controller-runtime v0.24 passes.
#[test]
fn what_envtest_passes_becomes_arguments_that_serve_takes() {
    let directory = tempfile::tempdir().unwrap();
    for file in ["apiserver.crt", "apiserver.key"] {
        std::fs::write(directory.path().join(file), "").unwrap();
    }
    let dir = directory.path().display();
    let cert_dir = format!("--cert-dir={dir}");
    let translated = serve(&[
        "--allow-privileged=true",
        "--authorization-mode=RBAC",
        "--bind-address=127.0.0.1",
        &cert_dir,
        "--client-ca-file=/tmp/client-cert-auth-ca.crt",
        "--disable-admission-plugins=ServiceAccount",
        "--etcd-servers=http://127.0.0.1:2379",
        "--secure-port=40000",
        "--service-account-issuer=https://127.0.0.1:40000/",
        "--service-account-key-file=/tmp/sa-signer.crt",
        "--service-account-signing-key-file=/tmp/sa-signer.key",
        "--service-cluster-ip-range=10.0.0.0/24",
    ])
    .unwrap();
    assert_eq!(
        translated.arguments,
        [
            "--client-ca-file=/tmp/client-cert-auth-ca.crt",
            "--disable-admission-plugins=ServiceAccount",
            "--service-account-issuer=https://127.0.0.1:40000/",
            "--service-account-key-file=/tmp/sa-signer.crt",
            "--service-account-signing-key-file=/tmp/sa-signer.key",
            "--etcd-servers=http://127.0.0.1:2379",
            "--listen=127.0.0.1:40000",
            &format!("--data-dir={dir}"),
            &format!("--tls-cert-file={dir}/apiserver.crt"),
            &format!("--tls-private-key-file={dir}/apiserver.key"),
            "--authorization-mode=RBAC",
            "--without=projects",
            "--no-controllers",
        ]
    );
    assert_eq!(translated.notes.len(), 2, "privileged containers and service addresses: {:?}", translated.notes);
    let ours = ["bailiwick".to_owned(), "serve".to_owned()].into_iter().chain(translated.arguments);
    assert!(crate::cli::Cli::try_parse_from(ours).is_ok());
}

#[test]
fn without_authorization_everybody_known_may_do_everything() {
    let translated = serve(&["--etcd-servers=http://a:1"]).unwrap().arguments;
    assert!(translated.contains(&"--authorization-mode=AlwaysAllow".to_owned()), "{translated:?}");
    assert!(translated.contains(&"--anonymous-auth=false".to_owned()), "{translated:?}");
    let translated = serve(&["--etcd-servers=http://a:1", "--authorization-mode=Node,RBAC"]).unwrap().arguments;
    assert!(translated.contains(&"--authorization-mode=RBAC".to_owned()), "{translated:?}");
}

#[test]
fn what_would_be_misunderstood_is_refused() {
    for (arguments, text) in [
        (&[][..], "--etcd-servers must be specified"),
        (
            &["--etcd-servers=http://a:1", "--secure-port=0"],
            "--secure-port 0 must be between 1 and 65535, inclusive. It cannot be turned off with 0",
        ),
        (
            &["--etcd-servers=http://a:1", "--authorization-policy-file=x"],
            "--authorization-policy-file is not supported: there is no ABAC; use RBAC or Webhook",
        ),
    ] {
        assert_eq!(serve(arguments).err().map(|error| error.to_string()).as_deref(), Some(text));
    }
}

#[test]
fn help_does_not_offer_the_insecure_port_that_envtest_looks_for() {
    let Asked::Print(text) = translate(["--help".to_owned()]).unwrap() else { panic!("help is printed") };
    assert!(text.lines().any(|line| line.trim_start().starts_with("--secure-port")));
    assert!(!text.contains("--insecure-port"));
}

/// Compared with the real program where it is installed.
#[test]
fn every_flag_of_upstream_is_known() {
    let Ok(program) = bailiwick_testkit::tools::find("kube-apiserver") else {
        return bailiwick_testkit::skip("kube-apiserver is not installed: cargo xtask setup --peers");
    };
    let output = std::process::Command::new(program).arg("--help").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let names = text.lines().filter_map(|line| {
        let flag = line.trim_start().trim_start_matches("-v, ").trim_start_matches("-h, ").strip_prefix("--")?;
        let indented = line.len() - line.trim_start().len();
        (indented < 8).then(|| flag.split([' ', '=']).next().unwrap_or_default().to_owned())
    });
    let unknown: Vec<String> =
        names.filter(|name| !matches!(name.as_str(), "help" | "version") && flags::find(name).is_none()).collect();
    assert_eq!(unknown, [""; 0]);
}
