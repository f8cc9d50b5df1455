//! Credentials for registries, from where Docker and Podman keep them.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use base64::Engine as _;
use serde::Deserialize;

/// Files of credentials, in the order in which they are asked.
#[derive(Clone, Debug, Default)]
pub struct Credentials {
    files: Vec<DockerConfig>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct DockerConfig {
    auths: BTreeMap<String, Auth>,
    creds_store: Option<String>,
    cred_helpers: BTreeMap<String, String>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "lowercase", default)]
struct Auth {
    auth: String,
    username: String,
    password: String,
    identitytoken: String,
}

impl std::fmt::Debug for Auth {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Auth")
    }
}

/// A user and a password, or a token that stands for both.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Login {
    Password(String, String),
    Token(String),
}

impl Credentials {
    /// Reads the files that exist: `$REGISTRY_AUTH_FILE`, `$XDG_RUNTIME_DIR/containers/auth.json`,
    /// `$DOCKER_CONFIG/config.json` or `~/.docker/config.json`.
    pub fn from_environment() -> Self {
        let variable = |name: &str| std::env::var_os(name).filter(|it| !it.is_empty()).map(PathBuf::from);
        let docker = variable("DOCKER_CONFIG").or_else(|| std::env::home_dir().map(|home| home.join(".docker")));
        let candidates = [
            variable("REGISTRY_AUTH_FILE"),
            variable("XDG_RUNTIME_DIR").map(|dir| dir.join("containers/auth.json")),
            docker.map(|dir| dir.join("config.json")),
        ];
        let read = |path: PathBuf| serde_json::from_slice(&std::fs::read(path).ok()?).ok();
        Credentials { files: candidates.into_iter().flatten().filter_map(read).collect() }
    }

    /// Reads one text.
    pub fn from_text(text: &str) -> Result<Self, serde_json::Error> {
        Ok(Credentials { files: vec![serde_json::from_str(text)?] })
    }

    /// The login for a repository: the one kept for the longest part of its name, as Podman and pull secrets have them,
    /// or the registry's.
    pub(super) fn for_repository(&self, domain: &str, path: &str) -> Option<Login> {
        self.files.iter().find_map(|file| file.login_for_path(domain, path).or_else(|| file.login(domain)))
    }
}

impl DockerConfig {
    fn login_for_path(&self, domain: &str, path: &str) -> Option<Login> {
        let mut name = format!("{domain}/{path}");
        while name.len() > domain.len() {
            if let Some(login) = self.auths.get(&name).and_then(Auth::login) {
                return Some(login);
            }
            name.truncate(name.rfind('/')?);
        }
        None
    }

    fn login(&self, domain: &str) -> Option<Login> {
        let names: &[&str] = match domain {
            "docker.io" => &["https://index.docker.io/v1/", "index.docker.io", "docker.io"],
            _ => &[domain],
        };
        names.iter().find_map(|name| {
            if let Some(helper) = self.cred_helpers.get(*name) {
                return ask_helper(helper, name);
            }
            let spelt = |(key, _): &(&String, &Auth)| registry_of(key) == registry_of(name);
            let auth = self.auths.get(*name).or_else(|| self.auths.iter().find(spelt).map(|(_, auth)| auth));
            let stored = auth.and_then(Auth::login);
            stored.or_else(|| self.creds_store.as_ref().and_then(|helper| ask_helper(helper, name)))
        })
    }
}

/// The registry that a key of `auths` names: `https://quay.io/v1/` and `quay.io/` are `quay.io`.
fn registry_of(key: &str) -> &str {
    let key = key.strip_prefix("https://").or_else(|| key.strip_prefix("http://")).unwrap_or(key);
    let key = key.trim_end_matches('/');
    key.strip_suffix("/v1").or_else(|| key.strip_suffix("/v2")).unwrap_or(key)
}

impl Auth {
    fn login(&self) -> Option<Login> {
        if !self.identitytoken.is_empty() {
            return Some(Login::Token(self.identitytoken.clone()));
        }
        if !self.username.is_empty() {
            return Some(Login::Password(self.username.clone(), self.password.clone()));
        }
        let decoded = base64::engine::general_purpose::STANDARD.decode(self.auth.trim()).ok()?;
        let text = String::from_utf8(decoded).ok()?;
        let (user, password) = text.split_once(':')?;
        Some(Login::Password(user.to_owned(), password.trim_end_matches('\0').to_owned()))
    }
}

/// Runs `docker-credential-<helper> get`.
fn ask_helper(helper: &str, domain: &str) -> Option<Login> {
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Answer {
        username: String,
        secret: String,
    }
    if helper.contains('/') {
        return None;
    }
    let mut child = Command::new(format!("docker-credential-{helper}"))
        .arg("get")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    child.stdin.take()?.write_all(domain.as_bytes()).ok()?;
    let answer: Answer = serde_json::from_slice(&child.wait_with_output().ok()?.stdout).ok()?;
    if answer.username == "<token>" {
        return Some(Login::Token(answer.secret));
    }
    Some(Login::Password(answer.username, answer.secret))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logins_are_found_by_registry() {
        let text = r#"{"auths": {"quay.io": {"auth": "dXNlcjpwYTpzcw=="}, "https://index.docker.io/v1/": {"identitytoken": "t"}}}"#;
        let credentials = Credentials::from_text(text).unwrap();
        let password = Login::Password("user".to_owned(), "pa:ss".to_owned());
        assert!(credentials.for_repository("quay.io", "org/catalog") == Some(password));
        assert!(credentials.for_repository("docker.io", "library/x") == Some(Login::Token("t".to_owned())));
        assert!(credentials.for_repository("ghcr.io", "x").is_none());
        assert!(!format!("{credentials:?}").contains("dXNl"));
    }

    #[test]
    fn the_login_for_the_longest_part_of_a_name_counts() {
        let text = r#"{"auths": {"quay.io/org": {"identitytoken": "org"}, "quay.io/org/team": {"identitytoken": "team"},
            "https://quay.io/v1/": {"identitytoken": "all"}}}"#;
        let credentials = Credentials::from_text(text).unwrap();
        let token = |path: &str| match credentials.for_repository("quay.io", path) {
            Some(Login::Token(token)) => token,
            _ => String::new(),
        };
        assert_eq!(token("org/team/catalog"), "team");
        assert_eq!(token("org/catalog"), "org");
        assert_eq!(token("organization/catalog"), "all");
    }
}
