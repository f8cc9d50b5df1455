//! Who signs what: the rules of upstream's signers for clients of the API server, and custom signers without rules.

use bailiwick_auth::pki::{CertificateAuthority, CertificateRequest};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;

use super::Spec;

/// How long certificates live unless their request asks for less; upstream's default.
const LIFETIME_SECONDS: i64 = 365 * 24 * 60 * 60;
/// The shortest lifetime, whatever a request asks for; upstream's value.
const LIFETIME_SECONDS_MIN: i64 = 10 * 60;

const KUBE_APISERVER_CLIENT: &str = "kubernetes.io/kube-apiserver-client";
const KUBE_APISERVER_CLIENT_KUBELET: &str = "kubernetes.io/kube-apiserver-client-kubelet";
const LEGACY_UNKNOWN: &str = "kubernetes.io/legacy-unknown";

/// The authorities that sign.
#[derive(Clone, Debug)]
pub struct Signing {
    /// Vouches for clients of the API server.
    pub authority: CertificateAuthority,
    /// Signer names with authorities of their own.
    pub custom: Vec<(String, CertificateAuthority)>,
}

impl Signing {
    /// The certificate in base64, `None` if the signer is not one of ours, an error if the request is not one that it
    /// signs.
    pub(super) fn sign(&self, spec: &Spec, now: Timestamp) -> Result<Option<String>, String> {
        let authority = match spec.signer_name.as_str() {
            KUBE_APISERVER_CLIENT | KUBE_APISERVER_CLIENT_KUBELET | LEGACY_UNKNOWN => &self.authority,
            name => match self.custom.iter().find(|(known, _)| known == name) {
                Some((_, authority)) => authority,
                None => return Ok(None),
            },
        };
        let pem = STANDARD.decode(&spec.request).map_err(|error| error.to_string())?;
        match spec.signer_name.as_str() {
            KUBE_APISERVER_CLIENT => check_client_usages(&spec.usages)?,
            KUBE_APISERVER_CLIENT_KUBELET => {
                check_kubelet(&CertificateRequest::from_pem(&pem).map_err(|error| error.to_string())?, &spec.usages)?;
            }
            _ => {}
        }
        let lifetime = spec.expiration_seconds.unwrap_or(LIFETIME_SECONDS);
        let lifetime = lifetime.clamp(LIFETIME_SECONDS_MIN, LIFETIME_SECONDS);
        let certificate = authority.sign(&pem, &spec.usages, lifetime, now).map_err(|error| error.to_string())?;
        Ok(Some(STANDARD.encode(certificate)))
    }
}

fn check_client_usages(usages: &[String]) -> Result<(), String> {
    let allowed = ["digital signature", "key encipherment", "client auth"];
    if let Some(usage) = usages.iter().find(|usage| !allowed.contains(&usage.as_str())) {
        return Err(format!("invalid usage for client certificate: {usage}"));
    }
    if !usages.iter().any(|usage| usage == "client auth") {
        return Err("missing required usage for client certificate: client auth".into());
    }
    Ok(())
}

fn check_kubelet(request: &CertificateRequest, usages: &[String]) -> Result<(), String> {
    let mut sorted: Vec<&str> = usages.iter().map(String::as_str).collect();
    sorted.sort_unstable();
    sorted.dedup();
    let with_rsa = ["client auth", "digital signature", "key encipherment"];
    let without_rsa = ["client auth", "digital signature"];
    for (wrong, reason) in [
        (request.organizations != ["system:nodes"], "subject organization is not system:nodes"),
        (!request.dns_names.is_empty(), "DNS subjectAltNames are not allowed"),
        (!request.email_addresses.is_empty(), "Email subjectAltNames are not allowed"),
        (request.ip_addresses > 0, "IP subjectAltNames are not allowed"),
        (request.uris > 0, "URI subjectAltNames are not allowed"),
        (!request.common_name.starts_with("system:node:"), "subject common name does not begin with system:node:"),
        (
            sorted != with_rsa && sorted != without_rsa,
            "usages did not match [client auth digital signature key encipherment]",
        ),
    ] {
        if wrong {
            return Err(reason.to_owned());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usages(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn clients_get_client_certificates_only() {
        assert_eq!(check_client_usages(&usages(&["client auth"])), Ok(()));
        assert_eq!(check_client_usages(&usages(&["client auth", "key encipherment", "digital signature"])), Ok(()));
        let error = check_client_usages(&usages(&["client auth", "server auth"])).expect_err("refused");
        assert_eq!(error, "invalid usage for client certificate: server auth");
        let error = check_client_usages(&usages(&["digital signature"])).expect_err("refused");
        assert_eq!(error, "missing required usage for client certificate: client auth");
    }

    #[test]
    fn kubelets_are_nodes_and_nothing_else() {
        let node = CertificateRequest {
            common_name: "system:node:a".into(),
            organizations: vec!["system:nodes".into()],
            ..CertificateRequest::default()
        };
        let good = usages(&["digital signature", "client auth"]);
        assert_eq!(check_kubelet(&node, &good), Ok(()));
        let refused = |request: &CertificateRequest, usages: &[String]| check_kubelet(request, usages).expect_err("no");
        let other = CertificateRequest { organizations: vec!["system:masters".into()], ..node.clone() };
        assert_eq!(refused(&other, &good), "subject organization is not system:nodes");
        let other = CertificateRequest { dns_names: vec!["a".into()], ..node.clone() };
        assert_eq!(refused(&other, &good), "DNS subjectAltNames are not allowed");
        let other = CertificateRequest { common_name: "admin".into(), ..node.clone() };
        assert_eq!(refused(&other, &good), "subject common name does not begin with system:node:");
        let wrong = usages(&["client auth"]);
        assert_eq!(refused(&node, &wrong), "usages did not match [client auth digital signature key encipherment]");
    }
}
