//! Reviews: questions about tokens and permissions, posted and answered without being stored. Here is that they exist;
//! they are checked and answered where authenticators and authorizers are known.

use bailiwick_machinery::field::{Error, ErrorList, Path};
use bailiwick_machinery::{Context, Resource, Scope, Strategy};
use serde_json::{Value, json};

use crate::descriptor::Named;
use crate::fields::{optional_integer, present, set_default};

/// The reviews of `authentication.k8s.io/v1` and `authorization.k8s.io/v1`.
pub fn resources() -> Vec<Resource> {
    let authentication = |kind, plural| Named { group: "authentication.k8s.io", version: "v1", kind, plural };
    let authorization = |kind, plural| Named { group: "authorization.k8s.io", version: "v1", kind, plural };
    vec![
        authentication("SelfSubjectReview", "selfsubjectreviews").posted(Scope::Cluster, Question),
        authentication("TokenReview", "tokenreviews").posted(Scope::Cluster, Question),
        authorization("LocalSubjectAccessReview", "localsubjectaccessreviews").posted(Scope::Namespaced, Question),
        authorization("SelfSubjectAccessReview", "selfsubjectaccessreviews").posted(Scope::Cluster, Question),
        authorization("SelfSubjectRulesReview", "selfsubjectrulesreviews").posted(Scope::Cluster, Question),
        authorization("SubjectAccessReview", "subjectaccessreviews").posted(Scope::Cluster, Question),
    ]
}

/// A review: whether it asks something answerable is found out by whoever answers it.
struct Question;

impl Strategy for Question {
    fn default(&self, object: &mut Value) {
        set_default(object, "spec", || json!({}));
    }
}

/// How long a requested token lives unless the request says otherwise.
const DEFAULT_TOKEN_SECONDS: i64 = 60 * 60;
/// Tokens live long enough to be worth caching: ten minutes at least.
const MIN_TOKEN_SECONDS: i64 = 10 * 60;
/// Upstream's ceiling on what may be asked for.
const MAX_TOKEN_SECONDS: i64 = 1 << 32;

/// Rules of the TokenRequest that the `token` subresource of service accounts takes.
pub struct TokenRequest;

impl Strategy for TokenRequest {
    fn default(&self, object: &mut Value) {
        set_default(object, "spec", || json!({}));
        if let Some(spec) = object.get_mut("spec") {
            set_default(spec, "expirationSeconds", || json!(DEFAULT_TOKEN_SECONDS));
        }
    }

    fn validate(&self, _cx: &Context<'_>, object: &Value) -> ErrorList {
        let seconds = present(object, "spec").and_then(|spec| optional_integer(spec, "expirationSeconds"));
        let seconds = seconds.unwrap_or(DEFAULT_TOKEN_SECONDS);
        let complaint = match seconds {
            ..MIN_TOKEN_SECONDS => "may not specify a duration less than 10 minutes",
            MIN_TOKEN_SECONDS..=MAX_TOKEN_SECONDS => return ErrorList::new(),
            _ => "may not specify a duration larger than 2^32 seconds",
        };
        vec![Error::invalid(&Path::new("spec").child("expirationSeconds"), seconds, complaint)]
    }
}
