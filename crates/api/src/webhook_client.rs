//! How a server is told to call a webhook: the `url` or `service` of a client configuration. Shared by admission
//! webhooks and CRD conversion, with the checks and words of upstream.

use bailiwick_machinery::field::{Error, ErrorList, Path};
use bailiwick_machinery::validation::names::{dns1035_label, dns1123_subdomain};
use serde_json::Value;

use crate::field_errors::invalid_each;
use crate::fields::{integer, list, optional_text, present, present_mut, set_default, text, texts};
use crate::go_url;

/// The HTTPS port, which services are called at unless they say otherwise.
pub(crate) const DEFAULT_SERVICE_PORT: i64 = 443;

/// Review versions a webhook must know at least one of, as messages list them.
const ACCEPTED_REVIEW_VERSIONS: [&str; 2] = ["v1", "v1beta1"];

/// Fills in the port of the service in a client configuration or API service.
pub(crate) fn default_service_port(config: &mut Value) {
    if let Some(service) = present_mut(config, "service") {
        set_default(service, "port", || DEFAULT_SERVICE_PORT.into());
    }
}

/// Checks that exactly one of url and service is there, and that it is well formed.
pub(crate) fn validate_client_config(config: &Value, path: &Path) -> ErrorList {
    match (optional_text(config, "url"), present(config, "service")) {
        (Some(url), None) => validate_url(url, &path.child("url")),
        (None, Some(service)) => validate_service(service, &path.child("service")),
        _ => vec![Error::required(path, "exactly one of url or service is required")],
    }
}

fn validate_url(url: &str, path: &Path) -> ErrorList {
    const FORM: &str = "; desired format: https://host[/path]";
    let parsed = match go_url::parse(url) {
        Ok(parsed) => parsed,
        Err(why) => return vec![Error::required(path, format!("url must be a valid URL: {why}{FORM}"))],
    };
    let mut errors = ErrorList::new();
    if parsed.scheme != "https" {
        errors.push(Error::invalid(
            path,
            parsed.scheme.as_str(),
            format!("'https' is the only allowed URL scheme{FORM}"),
        ));
    }
    if parsed.host.is_empty() {
        errors.push(Error::invalid(path, "", format!("host must be specified{FORM}")));
    }
    if let Some(user) = parsed.user {
        errors.push(Error::invalid(path, user, "user information is not permitted in the URL"));
    }
    if !parsed.fragment.is_empty() {
        errors.push(Error::invalid(path, parsed.fragment, "fragments are not permitted in the URL"));
    }
    if !parsed.query.is_empty() {
        errors.push(Error::invalid(path, parsed.query, "query parameters are not permitted in the URL"));
    }
    errors
}

/// Upstream's checker takes namespace and name in the other order than its callers give them, so that a missing
/// namespace is reported as a missing name and the other way round. Clients see that, so it is kept.
fn validate_service(service: &Value, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    if text(service, "namespace").is_empty() {
        errors.push(Error::required(&path.child("name"), ""));
    }
    if text(service, "name").is_empty() {
        errors.push(Error::required(&path.child("namespace"), ""));
    }
    errors.extend(validate_port(integer(service, "port"), &path.child("port")));
    if let Some(url_path) = optional_text(service, "path") {
        errors.extend(validate_url_path(url_path, &path.child("path")));
    }
    errors
}

/// Checks a TCP port number.
pub(crate) fn validate_port(port: i64, path: &Path) -> Option<Error> {
    let valid = (1..=65535).contains(&port);
    (!valid).then(|| Error::invalid(path, port, "port is not valid: must be between 1 and 65535, inclusive"))
}

fn validate_url_path(url_path: &str, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    if url_path.is_empty() || url_path == "/" {
        return errors;
    }
    if url_path == "//" {
        return vec![Error::invalid(path, url_path, "segment[0] may not be empty")];
    }
    if !url_path.starts_with('/') {
        errors.push(Error::invalid(path, url_path, "must start with a '/'"));
    }
    // Whatever the first character is, the segments begin after it.
    let mut segments = url_path.chars();
    segments.next();
    let segments = segments.as_str();
    for (index, segment) in segments.strip_suffix('/').unwrap_or(segments).split('/').enumerate() {
        if segment.is_empty() {
            errors.push(Error::invalid(path, url_path, format!("segment[{index}] may not be empty")));
            continue;
        }
        for failure in dns1123_subdomain(segment) {
            errors.push(Error::invalid(path, url_path, format!("segment[{index}]: {failure}")));
        }
    }
    errors
}

/// Whether a list of review versions names one this server speaks.
pub(crate) fn has_accepted_review_version(versions: &[&str]) -> bool {
    versions.iter().any(|version| ACCEPTED_REVIEW_VERSIONS.contains(version))
}

/// Whether versions the server does not know may stand alone (objects stored before the rule).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnknownReviewVersions {
    Rejected,
    Tolerated,
}

/// Checks the review versions in field `name` of `holder`; `missing` says what to do when there are none.
pub(crate) fn validate_review_versions(
    holder: &Value,
    name: &str,
    missing: &str,
    unknown: UnknownReviewVersions,
    path: &Path,
) -> ErrorList {
    let versions = texts(holder, name);
    if versions.is_empty() {
        return vec![Error::required(path, missing)];
    }
    let mut errors = ErrorList::new();
    for (index, version) in versions.iter().enumerate() {
        let path = path.index(index);
        if versions[..index].contains(version) {
            errors.push(Error::invalid(&path, *version, "duplicate version"));
            continue;
        }
        errors.extend(invalid_each(&path, version, dns1035_label(version)));
    }
    if unknown == UnknownReviewVersions::Rejected && !has_accepted_review_version(&versions) {
        let accepted = ACCEPTED_REVIEW_VERSIONS.join(", ");
        let shown = Value::from(list(holder, name));
        errors.push(Error::invalid(path, shown, format!("must include at least one of {accepted}")));
    }
    errors
}
