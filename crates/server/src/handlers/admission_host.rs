//! What the server does for the admission of one request: versions of its resource, decoding of what plugins made of the
//! object, decisions about access.

use std::sync::Arc;

use async_trait::async_trait;
use bailiwick_admission::policy::{ParamKind, ParamScope};
use bailiwick_admission::{Equivalent, Host, KindRef, Mapping};
use bailiwick_auth::authz;
use bailiwick_cel::library::{AccessDecision, AccessRequest, AccessTarget, Authorizer, Subject};
use bailiwick_machinery::UserInfo;
use bailiwick_machinery::resource::{GroupVersion, GroupVersionKind, Scope};
use bailiwick_machinery::selector::LabelSelector;
use bailiwick_merge::apply::{TypeRef, validate_managed_fields};
use bailiwick_schema::decode;
use bailiwick_schema::structural::{self, MalformedFields, PruneOptions, Root, UnknownFields};
use futures::FutureExt;
use serde_json::Value;

use super::body::Expected;
use super::managed_fields::types_of;
use super::patch::check_type;
use super::policy_host;
use super::request::Request;
use crate::registry::Served;
use crate::tenant::Tenant;
use crate::waiting::wait_for;

/// The server, as the admission of one request sees it.
pub struct RequestHost<'a> {
    rq: &'a Request<'a>,
}

impl<'a> RequestHost<'a> {
    pub fn new(rq: &'a Request<'_>) -> Self {
        Self { rq }
    }

    /// The request's resource in a version, under whatever group.
    fn version(&self, group: &str, version: &str) -> Option<Arc<Served>> {
        let own = self.rq.served;
        if own.resource.group == group && own.resource.version == version {
            return Some(own.clone());
        }
        let registry = self.rq.tenant.registry.load();
        let sibling = own.siblings.iter().find(|other| other.group == group && other.version == version)?;
        registry.get(&sibling.group, &sibling.version, &sibling.resource).cloned()
    }

    /// Whether the request is about a kind of its own, such as Scale, which is the same in all versions.
    fn has_own_kind(&self) -> bool {
        self.rq.subresource().is_some_and(|subresource| subresource.kind.is_some())
    }

    /// The managers of the object, unless a plugin has left them in a state that cannot be read.
    fn keep_managers(&self, settled: &mut Value, before: &Value) {
        fn managers(object: &Value) -> Option<&Value> {
            object.get("metadata")?.get("managedFields")
        }
        let Some(list) = managers(settled).filter(|list| Some(*list) != managers(before)) else { return };
        let Err(error) = validate_managed_fields(list) else { return };
        self.rq.warn(format!(
            ".metadata.managedFields was in an invalid state after admission; this could be caused by an outdated mutating \
             admission controller; please fix your requests: {error}"
        ));
        let Some(metadata) = bailiwick_machinery::object::metadata_mut(settled) else { return };
        match managers(before) {
            Some(list) => metadata.insert("managedFields".into(), list.clone()),
            None => metadata.remove("managedFields"),
        };
    }
}

#[async_trait]
impl Host for RequestHost<'_> {
    fn equivalents(&self) -> Vec<Equivalent> {
        let own = self.rq.served;
        if own.siblings.is_empty() {
            return Vec::new();
        }
        let registry = self.rq.tenant.registry.load();
        let others = own.siblings.iter().filter_map(|s| registry.get(&s.group, &s.version, &s.resource));
        let others = others.filter_map(|served| {
            let resource = &served.resource;
            let whole = || GroupVersionKind {
                group: resource.group.clone(),
                version: resource.version.clone(),
                kind: resource.kind.clone(),
            };
            let kind = match self.rq.info.subresource.as_str() {
                "" => whole(),
                name => resource.subresource(name)?.kind.clone().unwrap_or_else(whole),
            };
            Some(Equivalent {
                group: resource.group.clone(),
                version: resource.version.clone(),
                resource: resource.plural.clone(),
                kind,
            })
        });
        others.collect()
    }

    async fn convert(&self, object: &Value, to: KindRef<'_>) -> Result<Value, String> {
        if self.has_own_kind() {
            return Ok(object.clone());
        }
        let api_version = bailiwick_machinery::object::str_at(object, &["apiVersion"]);
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let unknown = |what: &str| format!("request to convert to an invalid group/version: {what}");
        let from = self.version(group, version).ok_or_else(|| unknown(api_version))?;
        let target = self.version(to.group, to.version).ok_or_else(|| unknown(&to.api_version()))?;
        from.convert_to(&target, object.clone()).await.map_err(|error| error.message)
    }

    fn settle(&self, mutated: Value, before: &Value, kind: KindRef<'_>) -> Result<Value, String> {
        let served = self.version(kind.group, kind.version).filter(|_| !self.has_own_kind());
        let mut expected = Expected::of(self.rq);
        if let Some(served) = &served {
            expected = Expected {
                group: &served.resource.group,
                version: &served.resource.version,
                kind: &served.resource.kind,
                native: served.resource.native,
                custom: served.resource.custom.as_deref(),
                sensitivity: expected.sensitivity,
            };
        }
        let mut settled = match (expected.native, expected.custom) {
            (Some(native), _) => {
                check_type(&mutated, &expected)?;
                let mut decoded = decode::decode_value(native, &mutated).map_err(|error| error.to_string())?.value;
                if let Some(fields) = decoded.as_object_mut() {
                    fields.insert("kind".into(), kind.kind.into());
                    fields.insert("apiVersion".into(), kind.api_version().into());
                }
                decoded
            }
            (None, Some(custom)) => {
                let mut value = mutated;
                structural::whole_floats(&mut value);
                // Dropped rather than refused, as upstream does with what did not come from the client.
                structural::coerce_metadata(&mut value, MalformedFields::Drop).map_err(|error| error.to_string())?;
                if let Some(schema) = custom.schema() {
                    if !custom.preserve_unknown_fields {
                        let options = PruneOptions { root: Root::Resource, unknown_fields: UnknownFields::Ignore };
                        structural::prune(&mut value, schema, options);
                        structural::drop_nulls(&mut value, schema);
                    }
                    structural::coerce(&mut value, schema, Root::Value, MalformedFields::Drop)
                        .map_err(|error| error.to_string())?;
                }
                value
            }
            (None, None) => mutated,
        };
        if let Some(served) = &served {
            served.resource.strategy.default(&mut settled);
        }
        self.keep_managers(&mut settled, before);
        Ok(settled)
    }

    fn resources_of(&self, group_version: &GroupVersion, kind: &str) -> Vec<Mapping> {
        let registry = self.rq.tenant.registry.load();
        let served = registry.resources_of(&group_version.group, &group_version.version).into_iter();
        let served = served.filter(|served| served.resource.kind == kind);
        served
            .map(|served| Mapping {
                resource: served.resource.plural.clone(),
                namespaced: served.resource.namespaced(),
            })
            .collect()
    }

    fn unknown_fields(&self, object: &Value, kind: KindRef<'_>) -> Vec<String> {
        let served = self.version(kind.group, kind.version).filter(|_| !self.has_own_kind());
        served.map_or_else(Vec::new, |served| policy_host::unknown_fields(&served, object))
    }

    fn merge(&self, object: &Value, configuration: &Value, kind: KindRef<'_>) -> Result<Value, String> {
        if self.has_own_kind() {
            let expected = Expected::of(self.rq);
            let types = expected.native.map_or_else(TypeRef::deduced, TypeRef::native);
            return policy_host::merge(types, object, configuration);
        }
        let served = self.version(kind.group, kind.version).ok_or("type converter must not be nil")?;
        policy_host::merge(types_of(&served), object, configuration)
    }

    fn parameter_scope(&self, kind: &ParamKind) -> Option<ParamScope> {
        Some(match policy_host::parameter(self.rq.tenant, kind)?.resource.scope {
            Scope::Namespaced => ParamScope::Namespaced,
            Scope::Cluster => ParamScope::Cluster,
        })
    }

    fn parameter_resource(&self, kind: &ParamKind) -> Option<String> {
        policy_host::parameter(self.rq.tenant, kind).map(|served| served.resource.plural.clone())
    }

    async fn parameter(&self, kind: &ParamKind, namespace: &str, name: &str) -> Result<Option<Value>, String> {
        policy_host::one(self.rq.tenant, kind, namespace, name).await
    }

    async fn parameters(
        &self,
        kind: &ParamKind,
        namespace: &str,
        selector: &LabelSelector,
    ) -> Result<Vec<Value>, String> {
        policy_host::matching(self.rq.tenant, kind, namespace, selector).await
    }

    async fn authorize(&self, attributes: &authz::Attributes<'_>) -> authz::Decision {
        self.rq.tenant.authorizers.authorize(attributes).await
    }

    fn authorizer(&self, user: &UserInfo) -> Arc<dyn Authorizer> {
        Arc::new(ServerAuthorizer { tenant: self.rq.tenant.clone(), user: user.clone() })
    }
}

/// Answers what expressions ask.
struct ServerAuthorizer {
    tenant: Arc<Tenant>,
    user: UserInfo,
}

impl Authorizer for ServerAuthorizer {
    fn authorize(&self, request: &AccessRequest<'_>) -> AccessDecision {
        let account;
        let user = match request.subject {
            Subject::Requester => &self.user,
            Subject::ServiceAccount { namespace, name } => {
                account = UserInfo {
                    name: format!("system:serviceaccount:{namespace}:{name}"),
                    groups: vec![
                        "system:serviceaccounts".to_owned(),
                        format!("system:serviceaccounts:{namespace}"),
                        UserInfo::AUTHENTICATED.to_owned(),
                    ],
                    ..UserInfo::default()
                };
                &account
            }
        };
        let target = match &request.target {
            AccessTarget::Path(path) => authz::Target::Path(path),
            AccessTarget::Resource(target) => authz::Target::Resource(authz::ResourceTarget {
                group: &target.group,
                version: "*",
                resource: &target.resource,
                subresource: &target.subresource,
                namespace: &target.namespace,
                name: &target.name,
                field_selector: &target.field_selector,
                label_selector: &target.label_selector,
            }),
        };
        let attributes = authz::Attributes { user, verb: request.verb, target };
        let decision = match self.tenant.authorizers.authorize(&attributes).now_or_never() {
            Some(decision) => decision,
            // Expressions are computations; only those that ask a remote authorizer wait here.
            None => match wait_for(self.tenant.authorizers.authorize(&attributes)) {
                Ok(decision) => decision,
                Err(error) => {
                    return AccessDecision { allowed: false, reason: String::new(), error: Some(error.to_owned()) };
                }
            },
        };
        AccessDecision {
            allowed: decision.is_allowed(),
            reason: decision.reason().to_owned(),
            error: decision.error().map(str::to_owned),
        }
    }
}
