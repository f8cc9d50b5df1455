//! From a user and a request to a decision.
//!
//! [`Authorizers`] asks its authorizers in order; the first that allows or denies decides, and where none has an opinion
//! the request is refused with all their reasons. All but webhooks decide from memory and borrow everything they look at.

mod builtin;
mod chain;
pub mod config;
pub mod coverage;
pub mod defaults;
pub mod escalation;
pub mod explain;
pub mod rbac;
mod rule;
pub mod webhook;

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use bailiwick_machinery::status::Details;
use bailiwick_machinery::{ApiError, GroupResource, UserInfo};

pub use self::explain::{Explanation, Step};
pub use builtin::{AlwaysAllow, AlwaysDeny, AnyAuthenticated, BasicAccess, SystemMasters};
pub use chain::{Authorizers, Link};
pub use rule::PolicyRule;

/// A request as authorization sees it.
#[derive(Clone, Copy, Debug)]
pub struct Attributes<'a> {
    pub user: &'a UserInfo,
    /// An API verb (`get`, `list`, `watch`, `create`, …), or the lower-case HTTP method for paths.
    pub verb: &'a str,
    pub target: Target<'a>,
}

/// What a request is about.
#[derive(Clone, Copy, Debug)]
pub enum Target<'a> {
    Resource(ResourceTarget<'a>),
    /// A path that is no API resource: `/version`, `/apis/apps`.
    Path(&'a str),
}

/// The API resource a request is about; what does not apply is empty.
#[derive(Clone, Copy, Debug, Default)]
pub struct ResourceTarget<'a> {
    pub group: &'a str,
    pub version: &'a str,
    pub resource: &'a str,
    pub subresource: &'a str,
    pub namespace: &'a str,
    pub name: &'a str,
    /// As the request wrote them. RBAC does not look at selectors; webhook authorizers do.
    pub field_selector: &'a str,
    pub label_selector: &'a str,
}

/// Why a decision was made, in words; may be empty.
#[derive(Clone, Debug, Default)]
pub enum Reason {
    #[default]
    None,
    Static(&'static str),
    Owned(String),
    /// A binding allowed it.
    Granted(Box<rbac::GrantReason>),
}

impl Reason {
    pub fn as_str(&self) -> &str {
        match self {
            Self::None => "",
            Self::Static(text) => text,
            Self::Owned(text) => text,
            Self::Granted(grant) => grant.as_str(),
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Equal if they read the same.
impl PartialEq for Reason {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Reason {}

/// What an authorizer says to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    Allow(Reason),
    Deny(Reason),
    NoOpinion(Reason),
    /// The authorizer could not decide; what that comes to, and why.
    Failed {
        on_error: OnError,
        reason: Reason,
        error: String,
    },
}

/// What becomes of a request that an authorizer could not decide about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnError {
    /// It is refused.
    Deny,
    /// The next authorizer is asked.
    NoOpinion,
}

impl Decision {
    pub fn is_allowed(&self) -> bool {
        matches!(self, Self::Allow(_))
    }

    pub fn reason(&self) -> &str {
        let (Self::Allow(reason) | Self::Deny(reason) | Self::NoOpinion(reason) | Self::Failed { reason, .. }) = self;
        reason.as_str()
    }

    /// Why it could not be decided.
    pub fn error(&self) -> Option<&str> {
        match self {
            Self::Failed { error, .. } => Some(error),
            _ => None,
        }
    }

    /// The refusal of a request that is not allowed: 403, or 500 when that could not be decided.
    pub fn require(&self, attributes: &Attributes<'_>) -> Result<(), ApiError> {
        match self {
            Self::Allow(_) => Ok(()),
            Self::Failed { error, .. } => Err(ApiError::internal(error)),
            refused => Err(forbidden(attributes, refused.reason())),
        }
    }

    /// Whether the request is refused for good, so that nobody else is asked.
    pub fn is_denied(&self) -> bool {
        matches!(self, Self::Deny(_) | Self::Failed { on_error: OnError::Deny, .. })
    }
}

/// Rules in effect for a user, as far as an authorizer can list them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    pub rules: Vec<Arc<PolicyRule>>,
    /// What could not be resolved.
    pub errors: Vec<String>,
    /// Whether an authorizer that cannot list its rules may allow more.
    pub incomplete: bool,
}

/// One source of decisions, answered from memory.
pub trait Authorizer: Send + Sync {
    fn authorize(&self, attributes: &Attributes<'_>) -> Decision;

    /// Adds the rules that hold for `user` in `namespace`, for SelfSubjectRulesReview.
    fn rules_for(&self, user: &UserInfo, namespace: &str, rules: &mut Rules);

    /// What there is to say about the decision.
    fn explain(&self, attributes: &Attributes<'_>) -> Step;
}

impl<A: Authorizer + ?Sized> Authorizer for std::sync::Arc<A> {
    fn authorize(&self, attributes: &Attributes<'_>) -> Decision {
        (**self).authorize(attributes)
    }

    fn rules_for(&self, user: &UserInfo, namespace: &str, rules: &mut Rules) {
        (**self).rules_for(user, namespace, rules);
    }

    fn explain(&self, attributes: &Attributes<'_>) -> Step {
        (**self).explain(attributes)
    }
}

/// A source of decisions that has to be waited for.
#[async_trait]
pub trait RemoteAuthorizer: Send + Sync {
    async fn authorize(&self, attributes: &Attributes<'_>) -> Decision;

    /// What there is to say about the decision.
    async fn explain(&self, attributes: &Attributes<'_>) -> Step;

    /// Why it cannot list anybody's rules.
    fn rules_error(&self) -> String;
}

/// The 403 that says what was refused.
pub fn forbidden(attributes: &Attributes<'_>, reason: &str) -> ApiError {
    let mut detail = harmless(&refusal(attributes));
    if !reason.is_empty() {
        detail.push_str(": ");
        detail.push_str(reason);
    }
    match &attributes.target {
        Target::Path(_) => {
            ApiError::new(403, "Forbidden", format!("forbidden: {detail}")).with_details(Details::default())
        }
        Target::Resource(target) => {
            let resource = GroupResource { group: target.group.to_owned(), resource: target.resource.to_owned() };
            ApiError::forbidden(&resource, target.name, &detail)
        }
    }
}

fn refusal(attributes: &Attributes<'_>) -> String {
    let (user, verb) = (&attributes.user.name, attributes.verb);
    let target = match &attributes.target {
        Target::Path(path) => return format!("User {user:?} cannot {verb} path {path:?}"),
        Target::Resource(target) => target,
    };
    let mut resource = target.resource.to_owned();
    if !target.subresource.is_empty() {
        resource = format!("{resource}/{}", target.subresource);
    }
    let what = format!("User {user:?} cannot {verb} resource {resource:?} in API group {:?}", target.group);
    if target.namespace.is_empty() {
        format!("{what} at the cluster scope")
    } else {
        format!("{what} in the namespace {:?}", target.namespace)
    }
}

/// A message that no browser takes for HTML, though it repeats what a client sent.
fn harmless(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests;
