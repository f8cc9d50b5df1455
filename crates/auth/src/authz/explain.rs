//! Why a request is allowed or refused, in full: who was asked, which binding, role and rule allowed it, or what was nearest
//! to allowing it. For people and programs that ask; decisions themselves never pay for it.

use serde::{Deserialize, Serialize};

use super::{Decision, OnError, PolicyRule};

/// The whole story of a decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    pub allowed: bool,
    /// As the decision has it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The authorizers that were asked, in order. The last one decided, unless nobody did.
    pub steps: Vec<Step>,
}

/// What one authorizer said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Step {
    pub authorizer: String,
    pub verdict: Verdict,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grant: Option<Grant>,
    /// What came near, nearest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub misses: Vec<Miss>,
}

/// What an authorizer decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Verdict {
    Allow,
    Deny,
    NoOpinion,
}

impl Step {
    /// A decision that has no more to tell than its reason.
    pub fn of(authorizer: &str, decision: &Decision) -> Self {
        let verdict = match decision {
            Decision::Allow(_) => Verdict::Allow,
            Decision::Deny(_) => Verdict::Deny,
            Decision::NoOpinion(_) => Verdict::NoOpinion,
            Decision::Failed { on_error: OnError::Deny, .. } => Verdict::Deny,
            Decision::Failed { on_error: OnError::NoOpinion, .. } => Verdict::NoOpinion,
        };
        let reason = match decision.error() {
            Some(error) => format!("failed: {error}"),
            None => decision.reason().to_owned(),
        };
        Self { authorizer: authorizer.to_owned(), verdict, reason, grant: None, misses: Vec::new() }
    }
}

/// An object of RBAC.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectRef {
    pub kind: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    pub name: String,
}

/// What a binding gives to the user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Grant {
    pub binding: ObjectRef,
    /// Whom the binding names, such as `Group "dev"`.
    pub subject: String,
    pub role: ObjectRef,
    pub rule: PolicyRule,
}

/// Something that nearly allowed the request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "missing")]
pub enum Miss {
    /// The user is bound to a role that does not exist.
    Role { binding: ObjectRef, subject: String, role: ObjectRef },
    /// All but the verb is right.
    Verb { grant: Grant },
    /// All but the name of the object is right.
    ResourceName { grant: Grant },
    /// The rule is on the resource itself or on another of its subresources.
    Subresource { grant: Grant },
    /// The rule is on a resource of this name in another API group.
    ApiGroup { grant: Grant },
    /// The rule would do, but the binding is in another namespace.
    Namespace { grant: Grant },
    /// A role that would do exists, and nothing binds the user to it here.
    Binding { role: ObjectRef },
}
