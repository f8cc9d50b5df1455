//! The kubeconfig by which an operator tells where a webhook is: `--authentication-token-webhook-config-file`,
//! `--authorization-webhook-config-file` and the like. The current context counts, or the only one there is.

use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use crate::dial::Origin;
use crate::endpoint::{Credentials, Endpoint, Identity, Transport, Trust};

/// Why a kubeconfig does not tell.
#[derive(Debug, thiserror::Error)]
pub enum KubeconfigError {
    #[error("{path}: {source}")]
    Io { path: PathBuf, source: std::io::Error },
    #[error("{path}: {reason}")]
    Malformed { path: PathBuf, reason: String },
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Config {
    #[serde(default)]
    clusters: Vec<NamedCluster>,
    #[serde(default)]
    users: Vec<NamedUser>,
    #[serde(default)]
    contexts: Vec<NamedContext>,
    #[serde(default)]
    current_context: String,
}

#[derive(Deserialize)]
struct NamedCluster {
    name: String,
    cluster: Cluster,
}

#[derive(Deserialize)]
struct NamedUser {
    name: String,
    #[serde(default)]
    user: User,
}

#[derive(Deserialize)]
struct NamedContext {
    name: String,
    context: Context,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
struct Cluster {
    server: String,
    certificate_authority: Option<PathBuf>,
    certificate_authority_data: Option<String>,
    insecure_skip_tls_verify: bool,
    tls_server_name: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
struct User {
    client_certificate: Option<PathBuf>,
    client_certificate_data: Option<String>,
    client_key: Option<PathBuf>,
    client_key_data: Option<String>,
    token: Option<String>,
    #[serde(rename = "tokenFile")]
    token_file: Option<PathBuf>,
    username: Option<String>,
    password: Option<String>,
    exec: Option<serde_json::Value>,
    auth_provider: Option<serde_json::Value>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Context {
    cluster: String,
    user: String,
}

impl Endpoint {
    /// Reads where to call and with which credentials from a kubeconfig. Files it names are relative to it.
    pub fn from_kubeconfig(path: &Path) -> Result<Self, KubeconfigError> {
        let text =
            std::fs::read_to_string(path).map_err(|source| KubeconfigError::Io { path: path.to_owned(), source })?;
        let malformed = |reason: String| KubeconfigError::Malformed { path: path.to_owned(), reason };
        let config: Config = serde_saphyr::from_str(&text).map_err(|error| malformed(error.to_string()))?;
        let directory = path.parent().unwrap_or_else(|| Path::new(""));
        parse(config, Files::Below(directory)).map_err(malformed)
    }

    /// The same of a text that a tenant wrote, such as one in a Secret: it may name no files of this machine, must use TLS,
    /// and leads where tenants' configurations may lead. The URL may have a path.
    pub fn from_tenants_kubeconfig(text: &str) -> Result<Self, String> {
        let config: Config = serde_saphyr::from_str(text).map_err(|error| error.to_string())?;
        let endpoint = parse(config, Files::None)?;
        Ok(Self { transport: Transport::HttpsOnly, origin: Origin::Tenant, ..endpoint })
    }
}

/// Where files are that a kubeconfig names.
#[derive(Clone, Copy)]
enum Files<'p> {
    Below(&'p Path),
    /// It may not name any.
    None,
}

impl Files<'_> {
    fn find(self, file: PathBuf) -> Result<PathBuf, String> {
        match self {
            Files::Below(directory) => Ok(directory.join(file)),
            Files::None => Err("files cannot be named here; put the data inline".into()),
        }
    }
}

fn parse(config: Config, directory: Files) -> Result<Endpoint, String> {
    let context = match config.contexts.as_slice() {
        contexts if !config.current_context.is_empty() => {
            let named = contexts.iter().find(|context| context.name == config.current_context);
            named.ok_or_else(|| format!("context {:?} does not exist", config.current_context))?
        }
        [only] => only,
        _ => return Err("no current-context".into()),
    };
    let cluster_name = &context.context.cluster;
    let cluster = config.clusters.into_iter().find(|cluster| cluster.name == *cluster_name);
    let cluster = cluster.ok_or_else(|| format!("cluster {cluster_name:?} does not exist"))?.cluster;
    let user_name = &context.context.user;
    let user = match config.users.into_iter().find(|user| user.name == *user_name) {
        Some(user) => user.user,
        None if user_name.is_empty() => User::default(),
        None => return Err(format!("user {user_name:?} does not exist")),
    };
    if user.exec.is_some() || user.auth_provider.is_some() {
        return Err("credential plugins (exec, auth-provider) are not supported for webhooks".into());
    }
    if cluster.server.is_empty() {
        return Err(format!("cluster {cluster_name:?} has no server"));
    }
    let authority = inline_or_file(cluster.certificate_authority_data, cluster.certificate_authority, directory)?;
    let trust = match authority {
        _ if cluster.insecure_skip_tls_verify => Trust::Anybody,
        Some(pem) => Trust::Bundle(pem),
        None => Trust::System,
    };
    let certificate = inline_or_file(user.client_certificate_data, user.client_certificate, directory)?;
    let key = inline_or_file(user.client_key_data, user.client_key, directory)?;
    let identity = match (certificate, key) {
        (Some(certificate_pem), Some(key_pem)) => Some(Identity { certificate_pem, key_pem }),
        (None, None) => None,
        _ => return Err(format!("user {user_name:?} needs both a client certificate and its key")),
    };
    let credentials = match (user.token_file, user.token, user.username) {
        (Some(file), ..) => Credentials::BearerFile(directory.find(file)?),
        (None, Some(token), _) => Credentials::Bearer(token),
        (None, None, Some(username)) => Credentials::Basic { username, password: user.password.unwrap_or_default() },
        (None, None, None) => Credentials::None,
    };
    Ok(Endpoint {
        url: cluster.server,
        trust,
        identity,
        credentials,
        server_name: cluster.tls_server_name.filter(|name| !name.is_empty()),
        transport: Transport::HttpAllowed,
        origin: Origin::Operator,
        locations: None,
    })
}

/// Inline data goes before a file.
fn inline_or_file(data: Option<String>, file: Option<PathBuf>, directory: Files) -> Result<Option<Vec<u8>>, String> {
    if let Some(data) = data.filter(|data| !data.is_empty()) {
        let decoded = STANDARD.decode(data.trim()).map_err(|error| format!("inline certificate or key: {error}"))?;
        return Ok(Some(decoded));
    }
    let Some(file) = file.filter(|file| !file.as_os_str().is_empty()) else { return Ok(None) };
    let path = directory.find(file)?;
    std::fs::read(&path).map(Some).map_err(|error| format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Endpoint, String> {
        parse(serde_saphyr::from_str(text).map_err(|error| error.to_string())?, Files::Below(Path::new("/etc/hooks")))
    }

    #[test]
    fn a_tenants_kubeconfig_names_no_files() {
        let text = |user: &str, cluster: &str| {
            format!(
                "clusters: [{{name: c, cluster: {{server: 'https://h/path'{cluster}}}}}]\n\
                 users: [{{name: u, user: {user}}}]\ncontexts: [{{name: x, context: {{cluster: c, user: u}}}}]\n"
            )
        };
        let endpoint = Endpoint::from_tenants_kubeconfig(&text("{token: t}", "")).expect("inline data");
        assert_eq!(endpoint.origin, Origin::Tenant);
        assert_eq!(endpoint.transport, Transport::HttpsOnly);
        for (user, cluster) in [
            ("{tokenFile: /etc/shadow}", ""),
            ("{client-key: k, client-certificate: c}", ""),
            ("{token: t}", ", certificate-authority: /etc/passwd"),
        ] {
            let error = Endpoint::from_tenants_kubeconfig(&text(user, cluster)).expect_err(user);
            assert_eq!(error, "files cannot be named here; put the data inline");
        }
    }

    #[test]
    fn the_current_context_says_where_and_as_whom() {
        let endpoint = read(
            "clusters: [{name: c, cluster: {server: 'https://hook/authenticate', certificate-authority-data: Y2E=, tls-server-name: n}}]\n\
             users: [{name: u, user: {tokenFile: token}}]\n\
             contexts: [{name: other, context: {cluster: x, user: y}}, {name: this, context: {cluster: c, user: u}}]\n\
             current-context: this\n",
        )
        .expect("well-formed");
        assert_eq!(endpoint.url, "https://hook/authenticate");
        assert_eq!(endpoint.trust, Trust::Bundle(b"ca".to_vec()));
        assert_eq!(endpoint.credentials, Credentials::BearerFile("/etc/hooks/token".into()));
        assert_eq!(endpoint.server_name.as_deref(), Some("n"));
    }

    #[test]
    fn what_cannot_be_used_is_refused() {
        let base = "clusters: [{name: c, cluster: {server: 'https://h'}}]\ncontexts: [{name: x, context: {cluster: c, user: u}}]\n";
        for (more, reason) in [
            ("current-context: y\n", "context \"y\" does not exist"),
            ("users: []\n", "user \"u\" does not exist"),
            (
                "users: [{name: u, user: {exec: {command: aws}}}]\n",
                "credential plugins (exec, auth-provider) are not supported for webhooks",
            ),
            (
                "users: [{name: u, user: {client-certificate-data: Y2E=}}]\n",
                "user \"u\" needs both a client certificate and its key",
            ),
        ] {
            assert_eq!(read(&format!("{base}{more}")).expect_err(more), reason);
        }
    }
}
