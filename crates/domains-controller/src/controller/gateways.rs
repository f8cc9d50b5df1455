//! Gateways whose hosts are in a Domain of their namespace have a DomainCheck of their own, which plans their records and looks
//! again and again whether they are live. It belongs to the Gateway and goes with it.

use std::time::Duration;

use bailiwick_controllers::work_queue::Outcome;
use bailiwick_domains::name::{DomainName, Subject};
use bailiwick_domains::plan::{Host, service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{DeleteParams, DynamicObject, ListParams, PostParams, Preconditions};
use kube::core::TypeMeta;
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use super::Context;
use crate::Error;
use crate::definition::{GATEWAY_GROUP, checks, domains, gateways, routes};
use crate::index::Key;

/// What the names of such checks begin with.
const PREFIX: &str = "gateway-";
/// How often the plan is looked at when it is fulfilled.
const REPEAT_SECONDS: u32 = 3_600;

/// Before it is looked again whether a Domain has been read.
pub(super) const CLAIMS_WAIT: Duration = Duration::from_secs(1);

/// Where a Gateway's check is.
fn check_of(gateway: &Key) -> Key {
    Key { name: format!("{PREFIX}{}", gateway.name), ..gateway.clone() }
}

/// The Gateway that a check may belong to.
pub(super) fn gateway_of(check: &Key) -> Option<Key> {
    let name = check.name.strip_prefix(PREFIX)?.to_owned();
    Some(Key { name, ..check.clone() })
}

impl Context {
    /// Has the Gateways of an object's namespace looked at, as what they are planned with has changed.
    pub(super) fn look_at_gateways_beside(&self, key: &Key) {
        let beside = self.index().gateways_beside(key);
        beside.into_iter().for_each(|gateway| self.gateways.add(gateway));
    }

    /// Sees to it that a Gateway has a check if it should have one, and none if not.
    pub(super) async fn look_at_gateway(&self, key: &Key) -> Result<Outcome, Error> {
        let own = check_of(key);
        let may_concern_us = {
            let index = self.index();
            index.domains.has_any_of(&key.tenant()) || index.checks.has(&own)
        };
        if !may_concern_us {
            return Ok(Outcome::Done);
        }
        let objects = self.service(key, &key.name).await?;
        let gateway = objects.first();
        let hosts = service::hosts(&objects);
        if !self.knows_claims(&hosts, key).await? {
            return Ok(Outcome::After(CLAIMS_WAIT));
        }
        let is_claimed = hosts.iter().any(|host| self.is_claimed(host, key));
        let uid = gateway.filter(|_| is_claimed).and_then(|gateway| gateway.pointer("/metadata/uid")?.as_str());
        let found = self.read(&checks(), &own).await?;
        match (uid, found) {
            (Some(uid), Some(check)) if belongs_to(&check, uid) => self.checks.add(own),
            // What somebody else made under the name is theirs.
            (_, Some(check)) if owner(&check).is_none_or(|owner| owner.name != key.name) => {}
            (_, Some(check)) => {
                self.delete_check(&own, &check).await?;
                // The name is free in a moment.
                return Ok(if uid.is_some() { Outcome::Backoff } else { Outcome::Done });
            }
            (Some(uid), None) => self.create_check(key, &own, uid).await?,
            (None, None) => {}
        }
        Ok(Outcome::Done)
    }

    /// Whether a host is in a Domain of this namespace.
    pub(super) fn is_claimed(&self, host: &Host, beside: &Key) -> bool {
        !self.index().claims_above(&host.base, beside).is_empty()
    }

    /// Whether all claims to hosts in this namespace are known. Just after a start some objects have not been read yet, and
    /// nothing must be taken for unclaimed by that.
    pub(super) async fn knows_claims(&self, hosts: &[Host], beside: &Key) -> Result<bool, Error> {
        let api: Api<DynamicObject> = Api::namespaced_with(self.client(&beside.plane), &beside.namespace, &domains());
        for host in hosts.iter().filter(|host| !self.is_claimed(host, beside)) {
            let above = std::iter::successors(Some(host.base.clone()), DomainName::parent);
            // Names that nobody can claim are in no Domain, whatever an object says.
            for name in above.filter(|name| Subject::parse(name.as_str()).is_ok()) {
                let claims = ListParams::default().fields(&format!("spec.name={name}")).limit(1);
                let claims = api.list(&claims).await?.items;
                if claims.iter().any(|claim| claim.metadata.deletion_timestamp.is_none()) {
                    return Ok(self.is_claimed(host, beside));
                }
            }
        }
        Ok(true)
    }

    async fn create_check(&self, gateway: &Key, own: &Key, uid: &str) -> Result<(), Error> {
        let mut check = DynamicObject::new(&own.name, &checks());
        check.metadata.owner_references = Some(vec![OwnerReference {
            api_version: format!("{GATEWAY_GROUP}/v1"),
            kind: "Gateway".to_owned(),
            name: gateway.name.clone(),
            uid: uid.to_owned(),
            controller: Some(true),
            ..OwnerReference::default()
        }]);
        check.data = json!({"spec": {
            "tool": "plan", "gateway": gateway.name, "analyze": true, "repeatSeconds": REPEAT_SECONDS,
        }});
        let api: Api<DynamicObject> = Api::namespaced_with(self.client(&own.plane), &own.namespace, &checks());
        match api.create(&PostParams::default(), &check).await {
            Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => Ok(()),
            other => Ok(other.map(|_| ())?),
        }
    }

    /// Removes a check, if it is still this one.
    pub(super) async fn delete_check(&self, key: &Key, check: &DynamicObject) -> Result<(), Error> {
        let api: Api<DynamicObject> = Api::namespaced_with(self.client(&key.plane), &key.namespace, &checks());
        let same = Preconditions { uid: check.uid(), resource_version: None };
        let parameters = DeleteParams { preconditions: Some(same), ..DeleteParams::default() };
        match api.delete(&key.name, &parameters).await {
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
            other => Ok(other.map(|_| ())?),
        }
    }

    /// A Gateway of an object's own namespace, first, and the namespace's routes; nothing if there is no such Gateway. Nobody
    /// plans with objects that they may not see.
    pub(super) async fn service(&self, beside: &Key, name: &str) -> Result<Vec<Value>, Error> {
        let key = Key { name: name.to_owned(), ..beside.clone() };
        let Some(gateway) = self.read(&gateways(), &key).await? else { return Ok(Vec::new()) };
        let api: Api<DynamicObject> = Api::namespaced_with(self.client(&key.plane), &key.namespace, &routes());
        // Routes are a type of their own that a server may lack.
        let routes = match api.list(&ListParams::default()).await {
            Ok(list) => list.items,
            Err(kube::Error::Api(status)) if status.is_not_found() => Vec::new(),
            Err(error) => return Err(error.into()),
        };
        let typed = |mut object: DynamicObject, kind: &str| {
            let api_version = format!("{GATEWAY_GROUP}/v1");
            object.types = Some(TypeMeta { api_version, kind: kind.to_owned() });
            json!(object)
        };
        let routes = routes.into_iter().map(|route| typed(route, "HTTPRoute"));
        Ok(std::iter::once(typed(gateway, "Gateway")).chain(routes).collect())
    }
}

/// The Gateway that a check says it belongs to.
fn owner(check: &DynamicObject) -> Option<&OwnerReference> {
    let is_gateway = |owner: &&OwnerReference| {
        owner.kind == "Gateway" && owner.api_version.starts_with(GATEWAY_GROUP) && owner.controller == Some(true)
    };
    check.owner_references().iter().find(is_gateway)
}

fn belongs_to(check: &DynamicObject, gateway_uid: &str) -> bool {
    owner(check).is_some_and(|owner| owner.uid == gateway_uid)
}

#[cfg(test)]
mod tests {
    use bailiwick_controllers::plane::Plane;

    use super::*;

    #[test]
    fn a_check_is_found_by_its_gateway_and_the_other_way_round() {
        let edge = Key { plane: Plane::ROOT, namespace: "web".into(), name: "edge".into() };
        assert_eq!(check_of(&edge).name, "gateway-edge");
        assert_eq!(gateway_of(&check_of(&edge)), Some(edge.clone()));
        assert_eq!(gateway_of(&edge), None);
    }
}
