//! The kubeconfig that lets the administrator in.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::KeyedCertificate;

/// A kubeconfig with the certificates embedded, so that it works wherever it is copied to.
pub fn admin_kubeconfig(server_url: &str, ca_pem: &str, admin: &KeyedCertificate) -> String {
    // JSON strings are YAML strings, whatever the URL contains.
    let server = serde_json::Value::from(server_url);
    let ca = STANDARD.encode(ca_pem);
    let certificate = STANDARD.encode(&admin.certificate_pem);
    let key = STANDARD.encode(&admin.key_pem);
    format!(
        "apiVersion: v1
kind: Config
clusters:
- name: bailiwick
  cluster:
    server: {server}
    certificate-authority-data: {ca}
users:
- name: kubernetes-admin
  user:
    client-certificate-data: {certificate}
    client-key-data: {key}
contexts:
- name: kubernetes-admin@bailiwick
  context:
    cluster: bailiwick
    user: kubernetes-admin
current-context: kubernetes-admin@bailiwick
"
    )
}
