//! kubectl against the whole server, controllers included: what deleting does to the objects that others own, and that kubectl
//! sees it through. What kubectl prints is compared with recordings in `conformance/kubectl`; those were made without
//! controllers, so that nothing happens behind their back.

use std::path::Path;

use anyhow::{Context, Result};
use bailiwick_testkit::{Program, Server, tools};

/// The current minor and the two before it.
const KUBECTLS: [&str; 3] = ["kubectl-1.36", "kubectl-1.35", "kubectl-1.34"];

#[test]
fn background_deletion_removes_the_dependents_afterwards() -> Result<()> {
    each_kubectl(|kubectl| {
        kubectl.family()?;
        kubectl.run(&["delete", "configmap", "owner", "--cascade=background"])?;
        kubectl.run(&["wait", "configmap/dependent", "--for=delete", "--timeout=60s"])?;
        assert_eq!(kubectl.names()?, "");
        Ok(())
    })
}

#[test]
fn foreground_deletion_ends_when_the_dependents_are_gone() -> Result<()> {
    each_kubectl(|kubectl| {
        kubectl.family()?;
        kubectl.run(&["delete", "configmap", "owner", "--cascade=foreground", "--timeout=60s"])?;
        assert_eq!(kubectl.names()?, "");
        Ok(())
    })
}

#[test]
fn orphaning_deletion_leaves_the_dependents_without_owner() -> Result<()> {
    each_kubectl(|kubectl| {
        kubectl.family()?;
        kubectl.run(&["delete", "configmap", "owner", "--cascade=orphan", "--timeout=60s"])?;
        assert_eq!(kubectl.names()?, "configmap/dependent\n");
        let owners = ["get", "configmap", "dependent", "-o", "jsonpath={.metadata.ownerReferences}"];
        assert_eq!(kubectl.run(&owners)?, "");
        Ok(())
    })
}

#[test]
fn deleting_a_namespace_waits_until_everything_in_it_is_gone() -> Result<()> {
    each_kubectl(|kubectl| {
        kubectl.family()?;
        let namespace = kubectl.run(&["get", "configmap", "owner", "-o", "jsonpath={.metadata.namespace}"])?;
        kubectl.run(&["delete", "namespace", &namespace, "--timeout=60s"])?;
        assert_eq!(kubectl.run(&["get", "namespace", &namespace, "--ignore-not-found", "-o", "name"])?, "");
        assert_eq!(kubectl.names()?, "");
        Ok(())
    })
}

#[test]
fn a_namespace_gets_its_service_account_and_root_certificate() -> Result<()> {
    each_kubectl(|kubectl| {
        kubectl.run(&["wait", "serviceaccount/default", "--for=create", "--timeout=60s"])?;
        kubectl.run(&["wait", "configmap/kube-root-ca.crt", "--for=create", "--timeout=60s"])?;
        let certificate = kubectl.run(&["get", "configmap", "kube-root-ca.crt", "-o", r"jsonpath={.data.ca\.crt}"])?;
        assert!(certificate.starts_with("-----BEGIN CERTIFICATE-----"), "{certificate}");
        Ok(())
    })
}

/// One kubectl with a namespace of its own.
struct Kubectl<'a> {
    program: &'a Path,
    server: &'a Server,
    namespace: &'a str,
}

/// Runs the body with every kubectl, against one server.
fn each_kubectl(body: impl Fn(&Kubectl<'_>) -> Result<()>) -> Result<()> {
    let server = Server::start(env!("CARGO_BIN_EXE_bailiwick"))?;
    for name in KUBECTLS {
        let program = tools::find(name)?;
        let namespace = name.replace('.', "-");
        let kubectl = Kubectl { program: &program, server: &server, namespace: &namespace };
        let body = || {
            kubectl.run(&["create", "namespace", &namespace])?;
            body(&kubectl)
        };
        body().with_context(|| format!("{name}; the server's log:\n{}", server.log()))?;
    }
    Ok(())
}

impl Kubectl<'_> {
    fn run(&self, arguments: &[&str]) -> Result<String> {
        Program::new(self.program)
            .args(arguments)
            .args(["--namespace", self.namespace, "--kubeconfig"])
            .arg(self.server.kubeconfig())
            // Discovery is cached below it, and servers of other tests had the same port.
            .env("HOME", self.server.data_dir())
            .run()
    }

    /// Makes an owner and a dependent that blocks the owner's foreground deletion.
    fn family(&self) -> Result<()> {
        self.run(&["create", "configmap", "owner"])?;
        self.run(&["label", "configmap", "owner", "family=yes"])?;
        let uid = self.run(&["get", "configmap", "owner", "-o", "jsonpath={.metadata.uid}"])?;
        self.run(&["create", "configmap", "dependent"])?;
        let patch = format!(
            r#"{{"metadata":{{"labels":{{"family":"yes"}},"ownerReferences":[{{"apiVersion":"v1","kind":"ConfigMap","name":"owner","uid":"{uid}","blockOwnerDeletion":true}}]}}}}"#
        );
        self.run(&["patch", "configmap", "dependent", "--patch", &patch]).map(drop)
    }

    fn names(&self) -> Result<String> {
        self.run(&["get", "configmaps", "-l", "family=yes", "-o", "name"])
    }
}
