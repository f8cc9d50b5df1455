//! The way into a project: who may know that it exists, and as whom they come.
//!
//! Three kinds of people get in: the project's own service accounts, those whom the root grants `use` or `admin` on the
//! Project, and those whom the project's own bindings name. All others get the same answer whether the project exists or
//! not. Inside, the project's own roles decide; `admin` makes its holder a member of a group that each project trusts
//! from the start.

use std::sync::Arc;
use std::time::Duration;

use bailiwick_auth::authn::bearer::Bearer;
use bailiwick_auth::authn::{AuthRequest, TargetAudiences};
use bailiwick_auth::authz::{Attributes, ResourceTarget, Target};
use bailiwick_auth::jwt::UnverifiedToken;
use bailiwick_machinery::status::{ApiError, ApiResult};
use bailiwick_machinery::user::UserInfo;
use bailiwick_store::{self as store, Expect, KeyRange, KeyValue, Op, RangeRequest};
use http::request::Parts;
use jiff::Timestamp;

use super::{ApiServer, Connection, bearer_of, store_error};
use crate::lookup::Loaded;
use crate::registry::TenantId;
use crate::tenant::Tenant;
use crate::tenants::{Found, GROUP, PROJECTS, Tenants, terminating_project, unknown_project};

/// The group of those whom the root makes administrators of a project.
pub const PROJECT_ADMINS: &str = "bailiwick:project-admins";
/// What the names of the root's service accounts begin with in projects, which have accounts of the same names.
const ROOT_ACCOUNT: &str = "root:";
/// Keys deleted in one transaction: etcd refuses more than 128 operations.
const ERASED_AT_ONCE: usize = 100;
const ACCOUNT_NAMES: &str = "system:serviceaccount:";
const ACCOUNT_GROUPS: &str = "system:serviceaccounts";

/// Somebody at the door of a project.
pub(super) struct Visitor {
    pub user: Arc<UserInfo>,
    /// The control plane, if they are its own service account.
    tenant: Option<Arc<Tenant>>,
}

impl Visitor {
    /// Who they count as in flow control, whomever they act as inside: seats and queues are the root's, and what a project
    /// says about users and groups gets nobody out of a queue, or into that of somebody else.
    pub fn counted(&self, project: &str) -> Arc<UserInfo> {
        match self.tenant {
            Some(_) => Arc::new(counted_account(project, &self.user)),
            None => self.user.clone(),
        }
    }
}

/// A project's own account: no account of the root, and a member of no group that the project could choose.
fn counted_account(project: &str, account: &UserInfo) -> UserInfo {
    let groups = [UserInfo::AUTHENTICATED, ACCOUNT_GROUPS].map(str::to_owned).into();
    UserInfo { name: format!("project:{project}:{}", account.name), groups, ..UserInfo::default() }
}

impl ApiServer {
    /// Who sends a request to a project.
    pub(super) async fn authenticate_visitor(
        &self,
        name: &str,
        parts: &Parts,
        connection: &Connection,
    ) -> ApiResult<Visitor> {
        if let (Some(tenants), Bearer::Token(token)) = (&self.tenants, bearer_of(parts))
            && UnverifiedToken::parse(token).is_some_and(|token| token.claimed_issuer() == self.project_issuer(name))
            && let Found::Active(project) = self.find_current(tenants, name).await?
        {
            let tenant = tenants.open(&self.caches, &project).await?;
            let user = account(&tenant, token).await?;
            return Ok(Visitor { user, tenant: Some(tenant) });
        }
        Ok(Visitor { user: self.authenticate(parts, connection).await?, tenant: None })
    }

    /// The control plane of the project, and the visitor as it sees them.
    pub(super) async fn enter(&self, name: &str, visitor: Visitor) -> ApiResult<(Arc<Tenant>, Arc<UserInfo>)> {
        if let Some(tenant) = visitor.tenant {
            return Ok((tenant, visitor.user));
        }
        let user = visitor.user;
        // Without projects the path leads nowhere, for everybody.
        let Some(tenants) = &self.tenants else { return Err(ApiError::unknown_path()) };
        let admin = self.root_grants(&user, "admin", name).await;
        let may_use = admin || self.root_grants(&user, "use", name).await;
        let found = match may_use {
            true => self.find_current(tenants, name).await?,
            false => tenants.find(&self.root, &self.caches, name),
        };
        let project = match found {
            Found::Active(project) => project,
            Found::Terminating if may_use => return Err(terminating_project(name)),
            Found::Unknown if may_use => return Err(unknown_project(name)),
            Found::Terminating | Found::Unknown => return Err(stranger(&user, name)),
        };
        if !may_use && !user.groups.iter().any(|group| group == UserInfo::AUTHENTICATED) {
            return Err(stranger(&user, name));
        }
        let tenant = tenants.open(&self.caches, &project).await?;
        let guest = guest(&user, admin);
        if may_use || tenant.authorizers.roles().names(&guest) {
            return Ok((tenant, guest));
        }
        Err(stranger(&user, name))
    }

    /// What is known of a project, also of one that another server has just made: as consistent as reads of objects are.
    async fn find_current(&self, tenants: &Tenants, name: &str) -> ApiResult<Found> {
        match tenants.find(&self.root, &self.caches, name) {
            Found::Unknown => {
                self.caches.wait_current().await.map_err(|error| store_error(&error))?;
                Ok(tenants.find(&self.root, &self.caches, name))
            }
            found => Ok(found),
        }
    }

    async fn root_grants(&self, user: &UserInfo, verb: &str, name: &str) -> bool {
        self.root.authorizers.authorize(&on_project(user, verb, name)).await.is_allowed()
    }

    /// The issuer of the tokens of a project's service accounts.
    pub fn project_issuer(&self, name: &str) -> String {
        project_issuer(self.root.issuer.issuer(), name)
    }

    /// The control planes of projects, where there are any.
    pub fn tenants(&self) -> Option<&Tenants> {
        self.tenants.as_ref()
    }

    /// Drops control planes of projects that nobody has used for `idle`, and of more than `open_max` the longest unused.
    pub fn drop_idle_tenants(&self, idle: Duration, open_max: usize) -> usize {
        self.tenants.as_ref().map_or(0, |tenants| tenants.drop_idle(&self.caches, idle, open_max))
    }

    /// Removes everything a control plane has stored; how many keys that were. The one write that is not made up of requests:
    /// nobody can send any to a project that is going away. What its objects wait for is not waited for.
    pub async fn erase_tenant(&self, id: &TenantId) -> store::Result<usize> {
        let mut erased = 0;
        loop {
            let range = KeyRange::prefix(id.key_prefix());
            let request = RangeRequest { range, at: None, limit: Some(ERASED_AT_ONCE) };
            let found = self.caches.store().range(request).await?.entries;
            if found.is_empty() {
                return Ok(erased);
            }
            erased += found.len();
            let delete = |kv: KeyValue| Op::Delete { key: kv.key, expect: Expect::Any };
            self.caches.commit(found.into_iter().map(delete).collect()).await?;
        }
    }

    /// Closes the control plane of a project that is going away.
    pub fn close_tenant(&self, name: &str, uid: &str) {
        if let Some(tenants) = &self.tenants {
            tenants.close(&self.caches, name, uid);
        }
    }
}

/// The issuer of a project's tokens, on a server whose own issuer is `root`.
pub fn project_issuer(root: &str, name: &str) -> String {
    format!("{}/projects/{name}", root.trim_end_matches('/'))
}

async fn account(tenant: &Tenant, token: &str) -> ApiResult<Arc<UserInfo>> {
    let Some(accounts) = &tenant.accounts else { return Err(ApiError::unauthorized()) };
    let request = AuthRequest {
        bearer_token: Some(token),
        peer: None,
        headers: None,
        path: "",
        audiences: TargetAudiences::Server,
        now: Timestamp::now(),
    };
    let complete = tenant.lookup.is_complete();
    let mut known = accounts.authenticate(&request).await;
    // The token may be bound to a secret, and those are loaded only when one is asked for.
    if known.is_err() && !complete && tenant.loaded_missed().await? == Loaded::More {
        known = accounts.authenticate(&request).await;
    }
    match known {
        Ok(authentication) => Ok(authentication.user),
        Err(error) => {
            tracing::debug!(%error, "authentication failed");
            Err(ApiError::unauthorized())
        }
    }
}

/// A user of the root as a project sees them. Service accounts of the root are told apart from the project's own, and
/// nobody brings along the membership that only the root's grant gives.
fn guest(user: &Arc<UserInfo>, admin: bool) -> Arc<UserInfo> {
    let is_account = user.name.starts_with(ACCOUNT_NAMES);
    let claims = user.groups.iter().any(|group| group.starts_with(ACCOUNT_GROUPS) || group == PROJECT_ADMINS);
    if !is_account && !claims && !admin {
        return user.clone();
    }
    let mut guest = UserInfo::clone(user);
    if is_account {
        guest.name.insert_str(0, ROOT_ACCOUNT);
    }
    guest.groups.retain(|group| group != PROJECT_ADMINS);
    for group in guest.groups.iter_mut().filter(|group| group.starts_with(ACCOUNT_GROUPS)) {
        group.insert_str(0, ROOT_ACCOUNT);
    }
    if admin {
        guest.groups.push(PROJECT_ADMINS.to_owned());
    }
    Arc::new(guest)
}

/// The answer to those who may not know whether there is such a project.
fn stranger(user: &UserInfo, name: &str) -> ApiError {
    let attributes = on_project(user, "use", name);
    let refused = bailiwick_auth::authz::Decision::NoOpinion(bailiwick_auth::authz::Reason::None).require(&attributes);
    refused.err().unwrap_or_else(ApiError::unauthorized)
}

fn on_project<'a>(user: &'a UserInfo, verb: &'a str, name: &'a str) -> Attributes<'a> {
    let target = ResourceTarget {
        group: GROUP,
        version: "v1alpha1",
        resource: PROJECTS,
        subresource: "",
        namespace: "",
        name,
        field_selector: "",
        label_selector: "",
    };
    Attributes { user, verb, target: Target::Resource(target) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(name: &str, groups: &[&str]) -> Arc<UserInfo> {
        let groups = groups.iter().map(|group| (*group).to_owned()).collect();
        Arc::new(UserInfo { name: name.to_owned(), groups, ..UserInfo::default() })
    }

    #[test]
    fn accounts_of_the_root_are_told_apart_from_the_projects_own() {
        let account = user("system:serviceaccount:kube-system:x", &["system:serviceaccounts", "system:authenticated"]);
        let guest = guest(&account, false);
        assert_eq!(guest.name, "root:system:serviceaccount:kube-system:x");
        assert_eq!(guest.groups, ["root:system:serviceaccounts", "system:authenticated"]);
    }

    #[test]
    fn accounts_of_projects_count_as_nobody_of_the_root_and_not_as_each_other() {
        let account = user(
            "system:serviceaccount:kube-system:default",
            &["system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"],
        );
        let (one, two) = (counted_account("p1", &account), counted_account("p2", &account));
        assert_eq!(one.name, "project:p1:system:serviceaccount:kube-system:default");
        assert_eq!(one.groups, ["system:authenticated", "system:serviceaccounts"]);
        assert_ne!(one.name, two.name);
    }

    #[test]
    fn guests_count_as_who_they_are_in_the_root() {
        let account = user("system:serviceaccount:kube-system:x", &["system:serviceaccounts:kube-system"]);
        assert_eq!(Visitor { user: account.clone(), tenant: None }.counted("p1"), account);
    }

    #[test]
    fn only_the_roots_grant_makes_an_administrator() {
        let pretender = user("eve", &[PROJECT_ADMINS]);
        assert!(guest(&pretender, false).groups.is_empty());
        assert_eq!(guest(&user("ann", &[]), true).groups, [PROJECT_ADMINS]);
    }
}
