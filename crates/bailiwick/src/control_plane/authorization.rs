//! Who may do what: the options, and the authorizers they make.

use bailiwick_auth::authz::rbac::Rbac;
use bailiwick_auth::authz::{AlwaysAllow, Authorizer, Authorizers, BasicAccess, SystemMasters};

/// Who may do what.
#[derive(Clone, Debug, Default)]
pub struct AuthorizationOptions {
    pub mode: AuthorizationMode,
}

/// Who may do what, besides members of `system:masters`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AuthorizationMode {
    /// What stored roles and bindings grant.
    #[default]
    Rbac,
    /// Everybody who is authenticated may do everything.
    AlwaysAllow,
}

impl AuthorizationOptions {
    /// Puts the authorizers together; `rbac` is fed with the stored roles and bindings.
    pub(super) fn build(&self, rbac: Rbac) -> Authorizers {
        let authorizers: Vec<Box<dyn Authorizer>> = match self.mode {
            AuthorizationMode::AlwaysAllow => vec![Box::new(AlwaysAllow)],
            AuthorizationMode::Rbac => vec![Box::new(SystemMasters), Box::new(BasicAccess), Box::new(rbac)],
        };
        Authorizers::new(authorizers)
    }
}
