//! A small world for the tests of plugins.

use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bailiwick_auth::authz;
use bailiwick_cel::library::{AccessDecision, AccessRequest, AccessTarget, Authorizer, Subject};
use bailiwick_machinery::query::Query;
use bailiwick_machinery::resource::Storage;
use bailiwick_machinery::selector::LabelSelector;
use bailiwick_machinery::strategy::NoRules;
use bailiwick_machinery::table::{Column, TableConvertor};
use bailiwick_machinery::{GroupResource, GroupVersion, Resource, Scope, UserInfo};
use jiff::Timestamp;
use serde_json::Value;

use crate::attributes::EquivalentsCell;
use crate::policy::{ParamKind, ParamScope};
use crate::{
    Attributes, DryRun, Equivalent, Host, KindRef, Lookup, Mapping, NamespaceState, Notes, Operation, OperationOptions,
    Reinvocation,
};

struct NoColumns;

impl TableConvertor for NoColumns {
    fn columns(&self) -> Vec<Column> {
        Vec::new()
    }

    fn cells(&self, _: &Value, _: Timestamp) -> Vec<Value> {
        Vec::new()
    }
}

pub(crate) fn resource(group: &str, kind: &str, plural: &str) -> Resource {
    Resource {
        group: group.into(),
        version: "v1".into(),
        kind: kind.into(),
        list_kind: format!("{kind}List"),
        plural: plural.into(),
        singular: kind.to_lowercase(),
        short_names: Vec::new(),
        categories: Vec::new(),
        scope: Scope::Namespaced,
        verbs: Vec::new(),
        storage: Storage::Stored(GroupResource { group: group.into(), resource: plural.into() }),
        native: None,
        custom: None,
        strategy: Arc::new(NoRules),
        table: Arc::new(NoColumns),
        selectable_fields: Vec::new(),
        subresources: Vec::new(),
    }
}

/// Stored objects. The namespace `gone` is missing in every world.
pub(crate) struct World {
    pub(crate) namespace: NamespaceState,
    pub(crate) namespace_labels: Vec<(&'static str, &'static str)>,
    pub(crate) quotas: Vec<Value>,
}

impl Default for World {
    fn default() -> Self {
        Self { namespace: NamespaceState::Active, namespace_labels: Vec::new(), quotas: Vec::new() }
    }
}

impl Lookup for World {
    fn namespace_state(&self, _: &str) -> NamespaceState {
        self.namespace
    }

    fn namespace_matches(&self, name: &str, selector: &LabelSelector) -> Option<bool> {
        let label = |key: &str| self.namespace_labels.iter().find(|(k, _)| *k == key).map(|(_, v)| *v);
        (name != "gone").then(|| selector.matches(label))
    }

    fn namespace(&self, name: &str) -> Option<Arc<Value>> {
        (name != "gone").then(|| Arc::new(serde_json::json!({"metadata": {"name": name}})))
    }

    fn resource_quotas(&self, _: &str) -> Vec<Arc<Value>> {
        self.quotas.iter().cloned().map(Arc::new).collect()
    }
}

/// A server without versions, where everybody but service accounts may do everything that is not about `forbidden`.
#[derive(Default)]
pub(crate) struct TestHost {
    pub(crate) equivalents: Vec<Equivalent>,
    /// ConfigMaps, as parameters of policies.
    pub(crate) parameters: Vec<Value>,
}

struct Everybody;

impl Authorizer for Everybody {
    fn authorize(&self, request: &AccessRequest<'_>) -> AccessDecision {
        let reason = match &request.target {
            AccessTarget::Path(path) => format!("{} {path}", request.verb),
            AccessTarget::Resource(target) => {
                format!("{} {} {} {} in {}", request.verb, target.group, target.resource, target.name, target.namespace)
            }
        };
        AccessDecision { allowed: *request.subject == Subject::Requester, reason, error: None }
    }
}

#[async_trait]
impl Host for TestHost {
    fn equivalents(&self) -> Vec<Equivalent> {
        self.equivalents.clone()
    }

    async fn convert(&self, object: &Value, to: KindRef<'_>) -> Result<Value, String> {
        let mut converted = object.clone();
        converted["apiVersion"] = to.api_version().into();
        Ok(converted)
    }

    fn settle(&self, mutated: Value, _: &Value, _: KindRef<'_>) -> Result<Value, String> {
        Ok(mutated)
    }

    fn resources_of(&self, _: &GroupVersion, kind: &str) -> Vec<Mapping> {
        vec![Mapping { resource: format!("{}s", kind.to_lowercase()), namespaced: true }]
    }

    fn merge(&self, object: &Value, configuration: &Value, _: KindRef<'_>) -> Result<Value, String> {
        let types = bailiwick_merge::apply::TypeRef::deduced();
        bailiwick_merge::apply::merge_configuration(types, object, configuration).map_err(|error| error.to_string())
    }

    fn parameter_scope(&self, kind: &ParamKind) -> Option<ParamScope> {
        (kind.kind == "ConfigMap").then_some(ParamScope::Namespaced)
    }

    fn parameter_resource(&self, kind: &ParamKind) -> Option<String> {
        (kind.kind == "ConfigMap").then(|| "configmaps".to_owned())
    }

    async fn parameter(&self, _: &ParamKind, namespace: &str, name: &str) -> Result<Option<Value>, String> {
        let found =
            self.parameters.iter().find(|p| p["metadata"]["namespace"] == namespace && p["metadata"]["name"] == name);
        Ok(found.cloned())
    }

    async fn parameters(&self, _: &ParamKind, namespace: &str, selector: &LabelSelector) -> Result<Vec<Value>, String> {
        let found = self.parameters.iter().filter(|p| {
            p["metadata"]["namespace"] == namespace && selector.matches(|key| p["metadata"]["labels"][key].as_str())
        });
        Ok(found.cloned().collect())
    }

    async fn authorize(&self, attributes: &authz::Attributes<'_>) -> authz::Decision {
        match &attributes.target {
            authz::Target::Resource(target) if target.resource == "forbidden" || target.name.contains("forbidden") => {
                authz::Decision::NoOpinion(authz::Reason::None)
            }
            _ => authz::Decision::Allow(authz::Reason::None),
        }
    }

    fn authorizer(&self, _: &UserInfo) -> Arc<dyn Authorizer> {
        Arc::new(Everybody)
    }
}

static HOST: TestHost = TestHost { equivalents: Vec::new(), parameters: Vec::new() };
static NOTES: LazyLock<Notes> = LazyLock::new(Notes::default);
static QUERY: LazyLock<Query> = LazyLock::new(Query::default);

/// More than a test takes.
const REQUEST_SECONDS: u64 = 30;

pub(crate) fn request<'a>(
    operation: Operation,
    resource: &'a Resource,
    user: &'a UserInfo,
    name: &'a str,
    object: Option<&'a mut Value>,
) -> Attributes<'a> {
    Attributes {
        operation,
        resource,
        subresource: "",
        kind: KindRef { group: &resource.group, version: &resource.version, kind: &resource.kind },
        name,
        namespace: if resource.kind == "Namespace" { "" } else { "ns" },
        object,
        old_object: None,
        user,
        dry_run: DryRun::No,
        options: OperationOptions::Create(&QUERY),
        notes: &NOTES,
        host: &HOST,
        deadline: Instant::now() + Duration::from_secs(REQUEST_SECONDS),
        reinvocation: Reinvocation::default(),
        equivalents: EquivalentsCell::default(),
    }
}
