//! `GET /auth/explain`: why a request would be allowed or refused. A path of our own, so whoever may `get` it is for roles to
//! say; it tells about bindings and roles, which those who may ask for a decision need not know.

use bailiwick_auth::authz::{Attributes, ResourceTarget, Target};
use bailiwick_machinery::query::Query;
use bailiwick_machinery::status::{ApiError, ApiResult};
use bailiwick_machinery::user::UserInfo;
use serde_json::Value;

use super::ApiServer;
use crate::tenant::Tenant;

impl ApiServer {
    /// Explains the request that the query describes: `verb`, and `path` or `resource` with `apiGroup`, `version`,
    /// `subresource`, `namespace`, `name`, `fieldSelector` and `labelSelector`; by `user` with any number of `group`s, or by the
    /// sender.
    pub(super) async fn explain(&self, tenant: &Tenant, query: &Query, sender: &UserInfo) -> ApiResult<Value> {
        let text = |name: &str| query.get(name).unwrap_or_default();
        let named = query.get("user").map(|name| UserInfo {
            name: name.to_owned(),
            uid: query.text("uid"),
            groups: query.all("group").map(str::to_owned).collect(),
            ..UserInfo::default()
        });
        let target = match (text("resource"), text("path")) {
            ("", "") => return Err(ApiError::bad_request("one of resource and path must be given")),
            ("", path) => Target::Path(path),
            (resource, _) => Target::Resource(ResourceTarget {
                group: text("apiGroup"),
                version: query.get("version").unwrap_or("*"),
                resource,
                subresource: text("subresource"),
                namespace: text("namespace"),
                name: text("name"),
                field_selector: text("fieldSelector"),
                label_selector: text("labelSelector"),
            }),
        };
        let verb = text("verb");
        if verb.is_empty() {
            return Err(ApiError::bad_request("verb must be given"));
        }
        let attributes = Attributes { user: named.as_ref().unwrap_or(sender), verb, target };
        serde_json::to_value(tenant.authorizers.explain(&attributes).await).map_err(ApiError::internal)
    }
}
