//! TokenReview and SelfSubjectReview: who is this, and who am I.

use bailiwick_machinery::object::str_at;
use bailiwick_machinery::status::ApiResult;
use bailiwick_machinery::{ApiError, UserInfo};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::authn::{AuthRequest, RequestAuthenticator, TargetAudiences};

/// Authenticates the token of a TokenReview. `audiences` are the server's own.
pub async fn token_review(
    authenticator: &RequestAuthenticator,
    audiences: &[String],
    review: &Value,
    now: Timestamp,
) -> ApiResult<Value> {
    let token = str_at(review, &["spec", "token"]);
    if token.is_empty() {
        return Err(ApiError::bad_request("token is required for TokenReview in authentication"));
    }
    let named = review.get("spec").and_then(|s| s.get("audiences")).and_then(Value::as_array);
    let named: Vec<String> = named.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect();
    let wanted = if named.is_empty() { audiences } else { &named };
    let target = if wanted.is_empty() { TargetAudiences::Server } else { TargetAudiences::Named(wanted) };
    let request =
        AuthRequest { bearer_token: Some(token), peer: None, headers: None, path: "", audiences: target, now };
    let status = match authenticator.authenticate(&request).await {
        Ok(authentication) => {
            let mut status = json!({ "authenticated": true, "user": user_info(&authentication.user) });
            if !authentication.audiences.is_empty() {
                status["audiences"] = authentication.audiences.into();
            }
            status
        }
        Err(error) => {
            // As upstream, what the sender claims of the user stays when nobody is authenticated.
            let mut status = review.get("status").and_then(Value::as_object).cloned().unwrap_or_default();
            status.remove("authenticated");
            status.entry("user").or_insert_with(|| json!({}));
            status.insert("error".into(), error.to_string().into());
            status.into()
        }
    };
    Ok(with_status(review, status))
}

/// Tells the sender of a SelfSubjectReview who they are. Nothing of the request is in the answer.
pub fn self_subject_review(user: &UserInfo, now: Timestamp) -> Value {
    json!({
        "kind": "SelfSubjectReview",
        "apiVersion": "authentication.k8s.io/v1",
        "metadata": { "creationTimestamp": now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string() },
        "status": { "userInfo": user_info(user) },
    })
}

/// A user in the form of the authentication API; what is empty is left out.
fn user_info(user: &UserInfo) -> Value {
    let mut info = Map::new();
    for (field, value) in [("username", &user.name), ("uid", &user.uid)] {
        if !value.is_empty() {
            info.insert(field.into(), value.as_str().into());
        }
    }
    if !user.groups.is_empty() {
        info.insert("groups".into(), user.groups.as_slice().into());
    }
    if !user.extra.is_empty() {
        let extra: Map<String, Value> =
            user.extra.iter().map(|(key, values)| (key.clone(), values.as_slice().into())).collect();
        info.insert("extra".into(), extra.into());
    }
    info.into()
}

/// The review with this status.
pub(super) fn with_status(review: &Value, status: Value) -> Value {
    let mut answer = review.as_object().cloned().unwrap_or_default();
    answer.insert("status".into(), status);
    answer.into()
}
