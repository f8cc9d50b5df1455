//! Names of images: `registry/repository:tag@digest`, with Docker's defaults for what is left out.

use std::fmt;
use std::sync::LazyLock;

use regex::Regex;

const MAX_NAME_LENGTH: usize = 255;
const DEFAULT_DOMAIN: &str = "docker.io";

static NAME_AND_REST: LazyLock<Regex> = LazyLock::new(|| {
    let component = "[a-z0-9]+(?:(?:[._]|__|[-]*)[a-z0-9]+)*";
    let domain_part = "(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])";
    let domain = format!(r"{domain_part}(?:\.{domain_part})*(?::[0-9]+)?");
    let name = format!("(?:(?P<domain>{domain})/)?(?P<path>{component}(?:/{component})*)");
    let tag = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}";
    let digest = "[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9A-Fa-f]{32,}";
    Regex::new(&format!("^(?P<name>{name})(?::(?P<tag>{tag}))?(?:@(?P<digest>{digest}))?$"))
        .expect("invariant: the pattern is constant")
});

/// A parsed image name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ImageReference {
    /// The registry's host, with its port.
    pub domain: String,
    /// The repository in it.
    pub path: String,
    pub tag: Option<String>,
    /// `sha256:…`.
    pub digest: Option<String>,
}

impl ImageReference {
    /// Reads a name as Docker does. The texts of errors are those of Docker's library.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.len() == 64 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')) {
            return Err(format!("invalid repository name ({text}), cannot specify 64-byte hexadecimal strings"));
        }
        let (domain, path) = split_domain(text);
        let repository = path.split(':').next().unwrap_or_default();
        if repository.chars().any(char::is_uppercase) {
            return Err("invalid reference format: repository name must be lowercase".to_owned());
        }
        let whole = format!("{domain}/{path}");
        let Some(found) = NAME_AND_REST.captures(&whole) else {
            let lower = whole.to_lowercase();
            let only_case = NAME_AND_REST.is_match(&lower);
            let reason = if only_case { "repository name must be lowercase" } else { "invalid reference format" };
            return Err(reason.to_owned());
        };
        let group = |name: &str| found.name(name).map(|found| found.as_str().to_owned());
        if group("name").is_some_and(|name| name.len() > MAX_NAME_LENGTH) {
            return Err(format!("repository name must not be more than {MAX_NAME_LENGTH} characters"));
        }
        let digest = group("digest");
        if let Some(digest) = &digest {
            check_digest(digest)?;
        }
        Ok(ImageReference {
            domain: group("domain").unwrap_or_default(),
            path: group("path").unwrap_or_default(),
            tag: group("tag"),
            digest,
        })
    }

    /// The digest, or the tag, or `latest`: what a registry is asked for.
    pub fn target(&self) -> &str {
        self.digest.as_deref().or(self.tag.as_deref()).unwrap_or("latest")
    }
}

impl fmt::Display for ImageReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.domain, self.path)?;
        if let Some(tag) = &self.tag {
            write!(f, ":{tag}")?;
        }
        match &self.digest {
            Some(digest) => write!(f, "@{digest}"),
            None => Ok(()),
        }
    }
}

fn split_domain(text: &str) -> (&str, String) {
    let (domain, path) = match text.split_once('/') {
        Some((first, rest)) if first.contains(['.', ':']) || first == "localhost" => (first, rest),
        _ => (DEFAULT_DOMAIN, text),
    };
    let domain = if domain == "index.docker.io" { DEFAULT_DOMAIN } else { domain };
    if domain == DEFAULT_DOMAIN && !path.contains('/') {
        return (domain, format!("library/{path}"));
    }
    (domain, path.to_owned())
}

fn check_digest(digest: &str) -> Result<(), String> {
    let (algorithm, hex) = digest.split_once(':').unwrap_or((digest, ""));
    if algorithm.bytes().any(|b| b.is_ascii_uppercase()) {
        return Err("invalid checksum digest format".to_owned());
    }
    let length = match algorithm {
        "sha256" => 64,
        "sha384" => 96,
        "sha512" => 128,
        _ => return Err("unsupported digest algorithm".to_owned()),
    };
    if hex.len() != length {
        return Err("invalid checksum digest length".to_owned());
    }
    if hex.bytes().any(|b| b.is_ascii_uppercase()) {
        return Err("invalid checksum digest format".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_docker_s() {
        assert_eq!(ImageReference::parse("nginx").unwrap().to_string(), "docker.io/library/nginx");
        assert_eq!(ImageReference::parse("quay.io/a/b:v1").unwrap().target(), "v1");
        let local = ImageReference::parse("127.0.0.1:5055/test/foo:v1.0.0_a").unwrap();
        assert_eq!((local.domain.as_str(), local.path.as_str()), ("127.0.0.1:5055", "test/foo"));
        assert_eq!(ImageReference::parse("a/b").unwrap().target(), "latest");
    }

    #[test]
    fn refusals_are_docker_s() {
        let digest = "a".repeat(63);
        for (text, message) in [
            ("UPPER/bad image", "invalid reference format: repository name must be lowercase"),
            ("bad image", "invalid reference format"),
            ("a@sha256:abc", "invalid reference format"),
            (&format!("a@sha256:{digest}"), "invalid checksum digest length"),
            ("", "invalid reference format"),
        ] {
            assert_eq!(ImageReference::parse(text).unwrap_err(), message, "{text}");
        }
    }
}
