//! How the API fails: errors that become `Status` objects with upstream's codes, reasons and words.

use serde_json::{Map, Value, json};

use crate::field::ErrorList;
use crate::resource::{GroupKind, GroupResource};

/// One entry of `details.causes`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    pub reason: String,
    pub message: String,
    pub field: String,
}

/// What an error is about, the `details` of a Status.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Details {
    pub name: String,
    pub group: String,
    /// Upstream puts a resource or a kind here, depending on the error.
    pub kind: String,
    pub uid: String,
    pub causes: Vec<Cause>,
    pub retry_after_seconds: u32,
}

/// A failed API call, ready to be sent as a `Status`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ApiError {
    pub code: u16,
    /// Empty means upstream leaves the reason out.
    pub reason: &'static str,
    pub message: String,
    pub details: Option<Box<Details>>,
    /// For 410 on a list: a token that continues inconsistently.
    pub continue_token: Option<String>,
    /// A Status that somebody else wrote, an admission webhook, and that is sent as it is.
    pub foreign: Option<Box<Value>>,
}

/// Everything that can fail with a Status.
pub type ApiResult<T> = Result<T, ApiError>;

impl ApiError {
    pub fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self { code, reason, message: message.into(), details: None, continue_token: None, foreign: None }
    }

    fn about(mut self, resource: &GroupResource, name: &str) -> Self {
        self.details = Some(Box::new(Details {
            name: name.into(),
            group: resource.group.clone(),
            kind: resource.resource.clone(),
            ..Details::default()
        }));
        self
    }

    pub fn with_details(mut self, details: Details) -> Self {
        self.details = Some(Box::new(details));
        self
    }

    pub fn not_found(resource: &GroupResource, name: &str) -> Self {
        Self::new(404, "NotFound", format!("{resource} {name:?} not found")).about(resource, name)
    }

    /// The path leads to nothing we serve.
    pub fn unknown_path() -> Self {
        let mut error = Self::new(404, "NotFound", "the server could not find the requested resource");
        error.details = Some(Box::default());
        error
    }

    pub fn already_exists(resource: &GroupResource, name: &str) -> Self {
        Self::new(409, "AlreadyExists", format!("{resource} {name:?} already exists")).about(resource, name)
    }

    pub fn conflict(resource: &GroupResource, name: &str, detail: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {resource} {name:?}: {detail}");
        Self::new(409, "Conflict", message).about(resource, name)
    }

    pub fn forbidden(resource: &GroupResource, name: &str, detail: &str) -> Self {
        let message = if name.is_empty() {
            format!("{resource} is forbidden: {detail}")
        } else {
            format!("{resource} {name:?} is forbidden: {detail}")
        };
        Self::new(403, "Forbidden", message).about(resource, name)
    }

    pub fn unauthorized() -> Self {
        Self::new(401, "Unauthorized", "Unauthorized")
    }

    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// 422 with one cause per field error.
    pub fn invalid(kind: &GroupKind, name: &str, errors: &ErrorList) -> Self {
        // Equal texts are said once in the message, as upstream does; the causes keep them all.
        let mut texts: Vec<String> = Vec::with_capacity(errors.len());
        for text in errors.iter().map(ToString::to_string) {
            if !texts.contains(&text) {
                texts.push(text);
            }
        }
        let list = match texts.as_slice() {
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let causes = errors
            .iter()
            .map(|e| Cause { reason: e.kind.reason().into(), message: e.body(), field: e.field.clone() })
            .collect();
        let message = if errors.is_empty() {
            format!("{kind} {name:?} is invalid")
        } else {
            format!("{kind} {name:?} is invalid: {list}")
        };
        Self::new(422, "Invalid", message).with_details(Details {
            name: name.into(),
            group: kind.group.clone(),
            kind: kind.kind.clone(),
            causes,
            ..Details::default()
        })
    }

    pub fn method_not_supported(resource: &GroupResource, action: &str) -> Self {
        let message = format!("{action} is not supported on resources of kind {:?}", resource.to_string());
        let mut error = Self::new(405, "MethodNotAllowed", message);
        error.details = Some(Box::new(Details {
            group: resource.group.clone(),
            kind: resource.resource.clone(),
            ..Details::default()
        }));
        error
    }

    /// The history a list or watch asked for is gone.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    pub fn gone(message: impl Into<String>) -> Self {
        Self::new(410, "Gone", message)
    }

    pub fn not_acceptable(message: impl Into<String>) -> Self {
        Self::new(406, "NotAcceptable", message)
    }

    pub fn unsupported_media_type(message: impl Into<String>) -> Self {
        Self::new(415, "UnsupportedMediaType", message)
    }

    pub fn request_entity_too_large(message: impl Into<String>) -> Self {
        Self::new(413, "RequestEntityTooLarge", message)
    }

    pub fn too_many_requests(message: impl Into<String>, retry_after_seconds: u32) -> Self {
        Self::new(429, "TooManyRequests", message).with_details(Details { retry_after_seconds, ..Details::default() })
    }

    /// The request was not wrong, but nothing was done in time: try again.
    pub fn timeout(message: impl Into<String>, retry_after_seconds: u32) -> Self {
        Self::new(504, "Timeout", message).with_details(Details { retry_after_seconds, ..Details::default() })
    }

    pub fn service_unavailable(message: impl Into<String>) -> Self {
        Self::new(503, "ServiceUnavailable", message)
    }

    pub fn internal(message: impl std::fmt::Display) -> Self {
        let message = message.to_string();
        Self::new(500, "InternalError", format!("Internal error occurred: {message}")).with_details(Details {
            causes: vec![Cause { reason: String::new(), message, field: String::new() }],
            ..Details::default()
        })
    }

    /// What is not built yet and says so.
    pub fn not_implemented(what: impl std::fmt::Display) -> Self {
        Self::new(501, "NotImplemented", format!("not implemented: {what}"))
    }

    /// The `Status` object.
    pub fn to_status(&self) -> Value {
        if let Some(foreign) = &self.foreign {
            return Value::clone(foreign);
        }
        let mut metadata = Map::new();
        if let Some(token) = &self.continue_token {
            metadata.insert("continue".into(), token.clone().into());
        }
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": metadata,
            "status": "Failure", "message": self.message, "code": self.code,
        });
        if !self.reason.is_empty() {
            status["reason"] = self.reason.into();
        }
        if let Some(details) = &self.details {
            status["details"] = details.to_json();
        }
        status
    }
}

impl Details {
    fn to_json(&self) -> Value {
        let mut map = Map::new();
        let mut put = |key: &str, value: &str| {
            if !value.is_empty() {
                map.insert(key.into(), value.into());
            }
        };
        put("name", &self.name);
        put("group", &self.group);
        put("kind", &self.kind);
        put("uid", &self.uid);
        if !self.causes.is_empty() {
            map.insert("causes".into(), self.causes.iter().map(Cause::to_json).collect());
        }
        if self.retry_after_seconds > 0 {
            map.insert("retryAfterSeconds".into(), self.retry_after_seconds.into());
        }
        Value::Object(map)
    }
}

impl Cause {
    fn to_json(&self) -> Value {
        let mut map = Map::new();
        for (key, value) in [("reason", &self.reason), ("message", &self.message), ("field", &self.field)] {
            if !value.is_empty() {
                map.insert(key.into(), value.as_str().into());
            }
        }
        Value::Object(map)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::{Error, Path};

    #[test]
    fn invalid_lists_every_cause() {
        let kind = GroupKind { group: "rbac.authorization.k8s.io".into(), kind: "Role".into() };
        let name = Path::new("metadata").child("name");
        let error = ApiError::invalid(&kind, "r", &vec![Error::required(&name, "a"), Error::required(&name, "b")]);
        assert_eq!(
            error.message,
            "Role.rbac.authorization.k8s.io \"r\" is invalid: [metadata.name: Required value: a, metadata.name: Required value: b]"
        );
        assert_eq!(error.to_status()["details"]["causes"][1]["message"], "Required value: b");
    }

    #[test]
    fn not_found_names_the_resource() {
        let resource = GroupResource { group: String::new(), resource: "configmaps".into() };
        let status = ApiError::not_found(&resource, "x").to_status();
        assert_eq!(status["message"], "configmaps \"x\" not found");
        assert_eq!(status["details"], json!({"name": "x", "kind": "configmaps"}));
        assert_eq!(status["code"], 404);
    }
}
