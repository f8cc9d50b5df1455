//! kubectl against the whole server, controllers included: what deleting does to the objects that others own, that kubectl
//! sees it through, and that it finds in the OpenAPI documents of a custom kind what it asks of them. What kubectl prints is compared with recordings in `conformance/kubectl`; those were made without
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

/// A custom kind of which kubectl knows nothing but what its documents say.
const DEFINITION: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: cups.kubectl.example.com}
spec:
  group: kubectl.example.com
  scope: Namespaced
  names: {plural: cups, kind: Cup}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        description: A cup of something.
        properties:
          spec:
            type: object
            description: What is in it.
            properties:
              drink: {type: string, enum: [tea, coffee]}
              sips: {type: array, items: {type: object, properties: {millilitres: {type: integer}}}}
";

#[test]
fn documents_of_a_custom_kind_serve_explain_validation_and_apply() -> Result<()> {
    let files = tempfile::tempdir()?;
    let file = |name: &str, text: &str| -> Result<String> {
        let path = files.path().join(name);
        std::fs::write(&path, text)?;
        Ok(path.display().to_string())
    };
    let cup =
        |spec: &str| format!("apiVersion: kubectl.example.com/v1\nkind: Cup\nmetadata: {{name: mine}}\nspec: {spec}\n");
    let definition = file("definition.yaml", DEFINITION)?;
    let tea = file("tea.yaml", &cup("{drink: tea, sips: [{millilitres: 7}]}"))?;
    let coffee = file("coffee.yaml", &cup("{drink: coffee, sips: [{millilitres: 7}]}"))?;
    let misspelt = file("misspelt.yaml", &cup("{drnk: tea}"))?;
    each_kubectl(|kubectl| {
        kubectl.run(&["apply", "-f", &definition])?;
        kubectl.run(&["wait", "crd/cups.kubectl.example.com", "--for=condition=Established", "--timeout=60s"])?;
        let explained = kubectl.run(&["explain", "cups", "--recursive"])?;
        for expected in ["KIND:       Cup", "A cup of something.", "millilitres", "ownerReferences"] {
            assert!(explained.contains(expected), "{expected} in {explained}");
        }
        let explained = kubectl.run(&["explain", "cups.spec.drink"])?;
        assert!(explained.contains("FIELD: drink <string>") && explained.contains("tea"), "{explained}");

        // kubectl asks the documents whether PATCH knows dryRun and fieldValidation.
        assert!(kubectl.run(&["apply", "--dry-run=server", "-f", &tea])?.contains("created (server dry run)"));
        assert_eq!(kubectl.run(&["get", "cups", "-o", "name"])?, "");
        let refused = kubectl.run(&["create", "--validate=strict", "-f", &misspelt]);
        let refused = format!("{:#}", refused.expect_err("an unknown field"));
        assert!(refused.contains("strict decoding error: unknown field \"spec.drnk\""), "{refused}");
        kubectl.run(&["create", "--validate=strict", "-f", &tea, "--save-config"])?;

        let drink = ["get", "cup", "mine", "-o", "jsonpath={.spec.drink}"];
        assert!(kubectl.run(&["apply", "--dry-run=server", "-f", &coffee])?.contains("configured (server dry run)"));
        assert_eq!(kubectl.run(&drink)?, "tea");
        kubectl.run(&["apply", "-f", &coffee])?;
        assert_eq!(kubectl.run(&drink)?, "coffee");
        kubectl.run(&["apply", "--server-side", "--dry-run=server", "--force-conflicts", "-f", &tea])?;
        assert_eq!(kubectl.run(&drink)?, "coffee");
        kubectl.run(&["apply", "--server-side", "--force-conflicts", "-f", &tea])?;
        assert_eq!(kubectl.run(&drink)?, "tea");
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
