//! From a user and a request to a decision.
//!
//! [`Authorizers`] asks its authorizers in order; the first that allows or denies decides, and where none has an opinion
//! the request is refused with all their reasons. Decisions are made from memory and borrow everything they look at.

mod builtin;
pub mod rbac;
mod rule;

use std::fmt;
use std::sync::Arc;

use bailiwick_machinery::status::Details;
use bailiwick_machinery::{ApiError, GroupResource, UserInfo};

pub use builtin::{AlwaysAllow, BasicAccess, SystemMasters};
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
    Shared(Arc<str>),
    Owned(String),
}

impl Reason {
    pub fn as_str(&self) -> &str {
        match self {
            Self::None => "",
            Self::Static(text) => text,
            Self::Shared(text) => text,
            Self::Owned(text) => text,
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
}

impl Decision {
    pub fn is_allowed(&self) -> bool {
        matches!(self, Self::Allow(_))
    }

    pub fn reason(&self) -> &str {
        let (Self::Allow(reason) | Self::Deny(reason) | Self::NoOpinion(reason)) = self;
        reason.as_str()
    }
}

/// Rules in effect for a user, as far as an authorizer can list them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    pub rules: Vec<Arc<PolicyRule>>,
    /// What could not be resolved.
    pub errors: Vec<String>,
}

/// One source of decisions, answered from memory.
pub trait Authorizer: Send + Sync {
    fn authorize(&self, attributes: &Attributes<'_>) -> Decision;

    /// Adds the rules that hold for `user` in `namespace`, for SelfSubjectRulesReview.
    fn rules_for(&self, user: &UserInfo, namespace: &str, rules: &mut Rules);
}

/// The whole of authorization.
pub struct Authorizers {
    local: Vec<Box<dyn Authorizer>>,
}

impl Authorizers {
    pub fn new(local: Vec<Box<dyn Authorizer>>) -> Self {
        Self { local }
    }

    /// Decides. Asynchronous because remote authorizers (webhooks) belong here too.
    pub async fn authorize(&self, attributes: &Attributes<'_>) -> Decision {
        let mut reasons: Vec<Reason> = Vec::new();
        for authorizer in &self.local {
            match authorizer.authorize(attributes) {
                Decision::NoOpinion(reason) if reason.as_str().is_empty() => {}
                Decision::NoOpinion(reason) => reasons.push(reason),
                decided => return decided,
            }
        }
        Decision::NoOpinion(match reasons.len() {
            0 | 1 => reasons.pop().unwrap_or_default(),
            _ => Reason::Owned(reasons.iter().map(Reason::as_str).collect::<Vec<_>>().join("\n")),
        })
    }

    /// The 403 of a request that is not allowed.
    pub async fn require(&self, attributes: &Attributes<'_>) -> Result<(), ApiError> {
        match self.authorize(attributes).await {
            Decision::Allow(_) => Ok(()),
            refused => Err(forbidden(attributes, refused.reason())),
        }
    }

    /// The rules that hold for `user` in `namespace`.
    pub fn rules_for(&self, user: &UserInfo, namespace: &str) -> Rules {
        let mut rules = Rules::default();
        for authorizer in &self.local {
            authorizer.rules_for(user, namespace, &mut rules);
        }
        rules
    }
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
