//! Roles and bindings: whoever writes one may not hand on rights they do not hold. One of the few places that knows types
//! by name, because what is granted here is what authorization is made of.

use bailiwick_auth::authz::escalation::{self, Written};
use bailiwick_auth::authz::rbac::RbacKind;
use bailiwick_machinery::status::ApiResult;
use serde_json::Value;

use super::request::Request;

/// Refuses a role or binding by which its author would gain rights or give away what they do not have. After admission
/// may have changed it, before it is validated.
pub async fn check(rq: &Request<'_>, object: &Value, old: Option<&Value>) -> ApiResult<()> {
    let resource = &rq.served.group_resource;
    if resource.group != RbacKind::GROUP || rq.served.resource.custom.is_some() {
        return Ok(());
    }
    let Some(kind) = RbacKind::from_plural(&resource.resource) else { return Ok(()) };
    let written = Written { user: rq.user, kind, namespace: &rq.info.namespace, path_name: &rq.info.name, object, old };
    escalation::check(&rq.tenant.authorizers, &written).await
}
