//! What is wrong with a signing request, on creation and when its approval, status or metadata is updated.

use bailiwick_machinery::field::{Error, ErrorList, Path};
use bailiwick_machinery::validation::names::{dns1123_label, dns1123_subdomain};
use serde_json::Value;

use super::x509::{check_certificate, check_request};
use crate::field_errors::invalid_each;
use crate::fields::{list, optional_integer, present, text, texts};

const LEGACY_SIGNER: &str = "kubernetes.io/legacy-unknown";
/// Shorter certificates would be expired before they are in use.
const MIN_EXPIRATION_SECONDS: i64 = 600;
/// What a DNS name may be.
const MAX_DOMAIN_BYTES: usize = 253;
/// A domain, a slash, a namespace, a dot and an object name.
const MAX_SIGNER_BYTES: usize = 253 + 1 + 63 + 1 + 253;

const USAGES: &[&str] = &[
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];

/// Which fields of the status an update may set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Via {
    Main,
    Approval,
    Status,
}

/// What an update may keep although a new object could not have it.
#[derive(Debug, Default)]
struct Tolerance {
    both_approved_and_denied: bool,
    legacy_signer: bool,
    duplicate_condition_types: bool,
    empty_condition_type: bool,
    any_certificate: bool,
    duplicate_usages: bool,
    unknown_usages: bool,
}

impl Tolerance {
    fn of_update(object: &Value, old: &Value) -> Self {
        let usages = texts(&old["spec"], "usages");
        let types: Vec<&str> = conditions(old).iter().map(|condition| text(condition, "type")).collect();
        let certificate = |object: &Value| text(&object["status"], "certificate").to_owned();
        Self {
            both_approved_and_denied: types.contains(&"Approved") && types.contains(&"Denied"),
            legacy_signer: text(&old["spec"], "signerName") == LEGACY_SIGNER,
            duplicate_condition_types: has_repetition(&types),
            empty_condition_type: types.contains(&""),
            any_certificate: certificate(object) == certificate(old) || check_certificate(&certificate(old)).is_err(),
            duplicate_usages: has_repetition(&usages),
            unknown_usages: usages.iter().any(|usage| !USAGES.contains(usage)),
        }
    }
}

fn has_repetition(words: &[&str]) -> bool {
    words.iter().enumerate().any(|(index, word)| words[..index].contains(word))
}

fn conditions(object: &Value) -> &[Value] {
    present(object, "status").map(|status| list(status, "conditions")).unwrap_or_default()
}

pub(super) fn validate_create(object: &Value) -> ErrorList {
    validate(object, &Tolerance::default())
}

fn validate(object: &Value, tolerance: &Tolerance) -> ErrorList {
    let mut errors = ErrorList::new();
    let nothing = Value::Null;
    let spec = present(object, "spec").unwrap_or(&nothing);
    let path = Path::new("spec");
    let request = text(spec, "request");
    if let Err(why) = check_request(request) {
        let shown = spec.get("request").cloned().unwrap_or_default();
        errors.push(Error::invalid(&path.child("request"), shown, why));
    }
    errors.extend(validate_usages(spec, tolerance, &path.child("usages")));
    let signer = text(spec, "signerName");
    let signer_path = path.child("signerName");
    if signer == LEGACY_SIGNER && !tolerance.legacy_signer {
        let detail = "the legacy signerName is not allowed via this API version";
        errors.push(Error::invalid(&signer_path, signer, detail));
    } else {
        errors.extend(validate_signer_name(signer, &signer_path));
    }
    if let Some(seconds) = optional_integer(spec, "expirationSeconds").filter(|s| *s < MIN_EXPIRATION_SECONDS) {
        let detail = "may not specify a duration less than 600 seconds (10 minutes)";
        errors.push(Error::invalid(&path.child("expirationSeconds"), seconds, detail));
    }
    let status = Path::new("status");
    errors.extend(validate_conditions(conditions(object), tolerance, &status.child("conditions")));
    if !tolerance.any_certificate
        && let Err(why) = check_certificate(text(&object["status"], "certificate"))
    {
        errors.push(Error::invalid(&status.child("certificate"), "<certificate data>", why));
    }
    errors
}

fn validate_usages(spec: &Value, tolerance: &Tolerance, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    let usages = texts(spec, "usages");
    if usages.is_empty() {
        errors.push(Error::required(path, ""));
    }
    if !tolerance.unknown_usages {
        let unknown = usages.iter().enumerate().filter(|(_, usage)| !USAGES.contains(usage));
        errors.extend(unknown.map(|(index, usage)| Error::not_supported(&path.index(index), *usage, USAGES)));
    }
    if !tolerance.duplicate_usages {
        let repeated = usages.iter().enumerate().filter(|(index, usage)| usages[..*index].contains(usage));
        errors.extend(repeated.map(|(index, usage)| Error::duplicate(&path.index(index), *usage)));
    }
    errors
}

/// A signer is `domain.of.two.labels/path`.
fn validate_signer_name(signer: &str, path: &Path) -> ErrorList {
    if signer.is_empty() {
        return vec![Error::required(path, "")];
    }
    let (domain, name) = match signer.split_once('/') {
        Some((domain, name)) if !name.contains('/') => (domain, name),
        _ => {
            let detail = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
            return vec![Error::invalid(path, signer, detail)];
        }
    };
    let mut errors = ErrorList::new();
    if domain.len() > MAX_DOMAIN_BYTES {
        errors.push(Error::too_long(path, MAX_DOMAIN_BYTES));
    }
    errors.extend(first_bad_label(domain, dns1123_label, path));
    if !domain.contains('.') {
        let detail = "should be a domain with at least two segments separated by dots";
        errors.push(Error::invalid(path, domain, detail));
    }
    errors.extend(first_bad_label(name, dns1123_subdomain, path));
    if signer.len() > MAX_SIGNER_BYTES {
        errors.push(Error::too_long(path, MAX_SIGNER_BYTES));
    }
    errors
}

/// Only the first bad label is reported: the rest would read the same.
fn first_bad_label(segment: &str, check: fn(&str) -> Vec<String>, path: &Path) -> ErrorList {
    let bad = segment.split('.').map(|label| (label, check(label))).find(|(_, faults)| !faults.is_empty());
    let Some((label, faults)) = bad else { return ErrorList::new() };
    let faults = faults.into_iter().map(|fault| format!("validating label {label:?}: {fault}")).collect();
    invalid_each(path, segment, faults)
}

fn validate_conditions(conditions: &[Value], tolerance: &Tolerance, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    for (index, condition) in conditions.iter().enumerate() {
        let kind = text(condition, "type");
        let item = path.index(index);
        let earlier = |other: &str| conditions[..index].iter().any(|c| text(c, "type") == other);
        if kind.is_empty() && !tolerance.empty_condition_type {
            errors.push(Error::required(&item.child("type"), ""));
        }
        let allowed: &[&str] = match kind {
            "Approved" | "Denied" | "Failed" => &["True"],
            _ => &["False", "True", "Unknown"],
        };
        match text(condition, "status") {
            "" => errors.push(Error::required(&item.child("status"), "")),
            status if !allowed.contains(&status) => {
                errors.push(Error::not_supported(&item.child("status"), status, allowed));
            }
            _ => {}
        }
        let opposite = match kind {
            "Approved" => "Denied",
            "Denied" => "Approved",
            _ => "",
        };
        if !opposite.is_empty() && earlier(opposite) && !tolerance.both_approved_and_denied {
            errors.push(Error::invalid(path, kind, "Approved and Denied conditions are mutually exclusive"));
        }
        if earlier(kind) && !tolerance.duplicate_condition_types {
            errors.push(Error::duplicate(&item.child("type"), kind));
        }
    }
    errors
}

pub(super) fn validate_update(object: &Value, old: &Value, via: Via) -> ErrorList {
    let mut errors = validate(object, &Tolerance::of_update(object, old));
    let of_type = |object: &'_ Value, kind: &str| -> Vec<Value> {
        conditions(object).iter().filter(|condition| text(condition, "type") == kind).cloned().collect()
    };
    let conditions_path = Path::new("status").child("conditions");
    for kind in ["Approved", "Denied", "Failed"] {
        if of_type(object, kind).len() < of_type(old, kind).len() {
            let detail = format!("updates may not remove a condition of type {kind:?}");
            errors.push(Error::forbidden(&conditions_path, detail));
        }
    }
    if via != Via::Approval {
        for kind in ["Approved", "Denied"] {
            let (new, old) = (of_type(object, kind), of_type(old, kind));
            if new.len() > old.len() {
                let detail = format!("updates may not add a condition of type {kind:?}");
                errors.push(Error::forbidden(&conditions_path, detail));
            } else if new.len() == old.len() && new != old {
                let detail = format!("updates may not modify a condition of type {kind:?}");
                errors.push(Error::forbidden(&conditions_path, detail));
            }
        }
    }
    let (new, old) = (text(&object["status"], "certificate"), text(&old["status"], "certificate"));
    let certificate_path = Path::new("status").child("certificate");
    if new != old {
        if via != Via::Status {
            errors.push(Error::forbidden(&certificate_path, "updates may not set certificate content"));
        } else if !old.is_empty() {
            errors.push(Error::forbidden(&certificate_path, "updates may not modify existing certificate content"));
        }
    }
    errors
}
