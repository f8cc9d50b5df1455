//! `serviceaccounts/token`: answering a TokenRequest.

use bailiwick_machinery::field::{Error, ErrorList, Path};
use bailiwick_machinery::object::{metadata_mut, name, namespace, set_meta_str, str_at, uid};
use bailiwick_machinery::status::ApiResult;
use bailiwick_machinery::{ApiError, GroupKind, GroupResource, GroupVersion};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::service_account::{Reference, ServiceAccountGetter, Subject, TokenIssuer};

const MIN_EXPIRATION_SECONDS: i64 = 10 * 60;
const MAX_EXPIRATION_SECONDS: i64 = 1 << 32;
/// For requests that ask for no particular lifetime.
const DEFAULT_EXPIRATION_SECONDS: i64 = 60 * 60;

/// The answer to a TokenRequest.
pub struct TokenResponse {
    /// The request with status and metadata filled in.
    pub object: Value,
    pub warnings: Vec<String>,
    /// For the audit annotation `authentication.kubernetes.io/issued-credential-id`.
    pub credential_id: String,
}

/// Fills in how long a token lives if nobody says.
pub fn default(request: &mut Value) {
    let spec = request.get_mut("spec").and_then(Value::as_object_mut);
    if let Some(lifetime) =
        spec.map(|spec| spec.entry("expirationSeconds").or_insert(Value::Null)).filter(|v| v.is_null())
    {
        *lifetime = DEFAULT_EXPIRATION_SECONDS.into();
    }
}

/// Issues the token that `request`, a TokenRequest, asks for, for the service account named by the URL.
pub fn create(
    issuer: &TokenIssuer,
    getter: &dyn ServiceAccountGetter,
    account_namespace: &str,
    account_name: &str,
    request: &Value,
    now: Timestamp,
) -> ApiResult<TokenResponse> {
    check_identity(account_namespace, account_name, request)?;
    let account = getter
        .service_account(account_namespace, account_name)
        .ok_or_else(|| ApiError::not_found(&core("serviceaccounts"), account_name))?;
    if !uid(request).is_empty() && uid(request) != account.uid {
        let detail = format!(
            "the UID in the token request ({}) does not match the UID of the service account ({})",
            uid(request),
            account.uid
        );
        return Err(ApiError::conflict(&authentication("TokenRequest"), account_name, &detail));
    }

    let spec = request.get("spec");
    let mut expiration_seconds =
        spec.and_then(|s| s.get("expirationSeconds")).and_then(Value::as_i64).unwrap_or(DEFAULT_EXPIRATION_SECONDS);
    check_expiration(expiration_seconds)?;
    let requested: Vec<String> = strings(spec.and_then(|s| s.get("audiences")));
    let audiences = if requested.is_empty() { issuer.audiences().to_vec() } else { requested };
    let bound = spec.and_then(|s| s.get("boundObjectRef")).filter(|reference| !reference.is_null());
    let secret = bound.map(|reference| bound_secret(getter, account_namespace, reference)).transpose()?;

    let mut warnings = Vec::new();
    if let Some(max) = issuer.max_expiration_seconds().filter(|max| expiration_seconds > *max) {
        warnings.push(format!("requested expiration of {expiration_seconds} seconds shortened to {max} seconds"));
        expiration_seconds = max;
    }
    let subject = Subject { namespace: account_namespace, name: account_name, uid: &account.uid };
    let issued = issuer
        .issue(subject, &audiences, expiration_seconds, secret, now)
        .map_err(|error| ApiError::internal(format!("failed to generate token: {error}")))?;

    let mut object = json!({
        "kind": "TokenRequest",
        "apiVersion": "authentication.k8s.io/v1",
        "metadata": request.get("metadata").filter(|m| m.is_object()).cloned().unwrap_or_else(|| Map::new().into()),
        "spec": {
            "audiences": audiences,
            "expirationSeconds": expiration_seconds,
            "boundObjectRef": bound,
        },
        "status": {
            "token": issued.token,
            "expirationTimestamp": seconds(now.as_second().saturating_add(expiration_seconds)),
        },
    });
    set_meta_str(&mut object, "name", account_name);
    set_meta_str(&mut object, "namespace", account_namespace);
    set_meta_str(&mut object, "uid", &account.uid);
    if let Some(meta) = metadata_mut(&mut object) {
        meta.insert("creationTimestamp".into(), seconds(now.as_second()).into());
    }
    Ok(TokenResponse { object, warnings, credential_id: issued.credential_id })
}

/// Name and namespace in the body, if there, are those of the URL.
fn check_identity(account_namespace: &str, account_name: &str, request: &Value) -> ApiResult<()> {
    let (found_name, found_namespace) = (name(request), namespace(request));
    if !found_namespace.is_empty() && found_namespace != account_namespace {
        let text = "the namespace of the provided object does not match the namespace sent on the request";
        return Err(ApiError::bad_request(text));
    }
    if !found_name.is_empty() && found_name != account_name {
        let detail = "must match the service account name if specified";
        let path = Path::new("metadata").child("name");
        return Err(invalid(account_name, vec![Error::invalid(&path, found_name, detail)]));
    }
    Ok(())
}

fn check_expiration(seconds: i64) -> ApiResult<()> {
    let detail = match seconds {
        ..MIN_EXPIRATION_SECONDS => "may not specify a duration less than 10 minutes",
        MIN_EXPIRATION_SECONDS..=MAX_EXPIRATION_SECONDS => return Ok(()),
        _ => "may not specify a duration larger than 2^32 seconds",
    };
    let path = Path::new("spec").child("expirationSeconds");
    Err(invalid("", vec![Error::invalid(&path, seconds, detail)]))
}

fn bound_secret(getter: &dyn ServiceAccountGetter, namespace: &str, reference: &Value) -> ApiResult<Reference> {
    let (api_version, kind) = (str_at(reference, &["apiVersion"]), str_at(reference, &["kind"]));
    let (name, uid) = (str_at(reference, &["name"]), str_at(reference, &["uid"]));
    // What does not parse has neither group nor version, as in Go.
    let gv = GroupVersion::parse(api_version).unwrap_or_else(|| GroupVersion::new("", ""));
    if gv.group.is_empty() && matches!(kind, "Secret" | "Pod" | "Node") && name.is_empty() {
        return Err(ApiError::bad_request("Name parameter required."));
    }
    let stored = match (gv.group.as_str(), kind) {
        ("", "Secret") => getter.secret(namespace, name).ok_or_else(|| ApiError::not_found(&core("secrets"), name))?,
        // Kinds tokens can be bound to elsewhere, of which none exist here.
        ("", "Pod") => return Err(ApiError::not_found(&core("pods"), name)),
        ("", "Node") => return Err(ApiError::not_found(&core("nodes"), name)),
        (group, kind) => {
            let text = format!("cannot bind token to object of type {group}/{}, Kind={kind}", gv.version);
            return Err(ApiError::bad_request(text));
        }
    };
    if !uid.is_empty() && uid != stored.uid {
        let resource = GroupResource { group: gv.group, resource: kind.to_owned() };
        let detail = format!(
            "the UID in the bound object reference ({uid}) does not match the UID in record. The object might have been deleted and then recreated"
        );
        return Err(ApiError::conflict(&resource, name, &detail));
    }
    Ok(Reference { name: name.to_owned(), uid: stored.uid })
}

fn strings(list: Option<&Value>) -> Vec<String> {
    let items = list.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    items.iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn seconds(second: i64) -> String {
    // Out of range only for clocks beyond the year 9999.
    Timestamp::from_second(second).unwrap_or(Timestamp::MAX).strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

fn core(resource: &str) -> GroupResource {
    GroupResource { group: String::new(), resource: resource.to_owned() }
}

fn authentication(resource: &str) -> GroupResource {
    GroupResource { group: "authentication.k8s.io".to_owned(), resource: resource.to_owned() }
}

fn invalid(name: &str, errors: ErrorList) -> ApiError {
    let kind = GroupKind { group: "authentication.k8s.io".to_owned(), kind: "TokenRequest".to_owned() };
    ApiError::invalid(&kind, name, &errors)
}

#[cfg(test)]
mod tests;
