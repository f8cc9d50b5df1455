//! FlowSchemas and PriorityLevelConfigurations as flow control reads them from stored JSON. Validation has happened when
//! they were written; what is missing all the same is read as its default.

use serde::Deserialize;
use serde_json::Value;

/// The level that is never limited, and the schema that leads to it.
pub const EXEMPT: &str = "exempt";
/// The level and schema of whoever matches nothing else.
pub const CATCH_ALL: &str = "catch-all";

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Metadata {
    #[serde(default)]
    pub name: String,
    #[serde(default)]
    pub uid: String,
}

/// Which requests belong to a flow of a level.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct FlowSchema {
    pub metadata: Metadata,
    pub spec: FlowSchemaSpec,
}

impl FlowSchema {
    /// Reads an object of that kind, and no other.
    pub fn deserialize_value(object: &Value) -> Result<Self, serde_json::Error> {
        Self::deserialize(object)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FlowSchemaSpec {
    pub priority_level_configuration: LevelReference,
    #[serde(default = "precedence_default")]
    pub matching_precedence: i32,
    #[serde(default)]
    pub distinguisher_method: Option<DistinguisherMethod>,
    #[serde(default)]
    pub rules: Vec<Rules>,
}

fn precedence_default() -> i32 {
    1000
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct LevelReference {
    pub name: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct DistinguisherMethod {
    #[serde(rename = "type")]
    pub by: Distinguisher,
}

/// What tells the flows of a schema apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Distinguisher {
    ByUser,
    ByNamespace,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Rules {
    #[serde(default)]
    pub subjects: Vec<Subject>,
    #[serde(default)]
    pub resource_rules: Vec<ResourceRule>,
    #[serde(default)]
    pub non_resource_rules: Vec<NonResourceRule>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "kind")]
pub enum Subject {
    User {
        user: Named,
    },
    Group {
        group: Named,
    },
    ServiceAccount {
        #[serde(rename = "serviceAccount")]
        service_account: AccountName,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Named {
    pub name: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct AccountName {
    pub namespace: String,
    pub name: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceRule {
    #[serde(default)]
    pub verbs: Vec<String>,
    #[serde(default)]
    pub api_groups: Vec<String>,
    #[serde(default)]
    pub resources: Vec<String>,
    #[serde(default)]
    pub cluster_scope: bool,
    #[serde(default)]
    pub namespaces: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct NonResourceRule {
    #[serde(default)]
    pub verbs: Vec<String>,
    #[serde(default, rename = "nonResourceURLs")]
    pub urls: Vec<String>,
}

/// How much of the server a class of requests gets.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct PriorityLevel {
    pub metadata: Metadata,
    pub spec: LevelSpec,
}

impl PriorityLevel {
    /// Reads an object of that kind, and no other.
    pub fn deserialize_value(object: &Value) -> Result<Self, serde_json::Error> {
        Self::deserialize(object)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "type")]
pub enum LevelSpec {
    Exempt {
        #[serde(default)]
        exempt: Exempt,
    },
    Limited {
        limited: Limited,
    },
}

impl LevelSpec {
    pub fn shares(&self) -> u32 {
        let shares = match self {
            Self::Exempt { exempt } => exempt.nominal_concurrency_shares.unwrap_or(0),
            Self::Limited { limited } => limited.nominal_concurrency_shares,
        };
        u32::try_from(shares).unwrap_or(0)
    }

    pub fn lendable_percent(&self) -> u32 {
        let percent = match self {
            Self::Exempt { exempt } => exempt.lendable_percent,
            Self::Limited { limited } => limited.lendable_percent,
        };
        u32::try_from(percent.unwrap_or(0)).unwrap_or(0).min(100)
    }

    /// How much it may borrow, in percent of its own; without a limit if not set.
    pub fn borrowing_limit_percent(&self) -> Option<u32> {
        match self {
            Self::Exempt { .. } => None,
            Self::Limited { limited } => limited.borrowing_limit_percent.map(|p| u32::try_from(p).unwrap_or(0)),
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Exempt {
    pub nominal_concurrency_shares: Option<i32>,
    pub lendable_percent: Option<i32>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Limited {
    #[serde(default = "shares_default")]
    pub nominal_concurrency_shares: i32,
    pub lendable_percent: Option<i32>,
    pub borrowing_limit_percent: Option<i32>,
    #[serde(default)]
    pub limit_response: LimitResponse,
}

fn shares_default() -> i32 {
    30
}

/// What happens to requests beyond the limit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(tag = "type")]
pub enum LimitResponse {
    #[default]
    Reject,
    Queue {
        #[serde(default)]
        queuing: Queuing,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Queuing {
    pub queues: u32,
    pub hand_size: u32,
    pub queue_length_limit: u32,
}

impl Default for Queuing {
    fn default() -> Self {
        Self { queues: 64, hand_size: 8, queue_length_limit: 50 }
    }
}
