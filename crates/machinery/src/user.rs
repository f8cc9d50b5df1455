//! Who a request comes from, as authentication established it.

use std::collections::BTreeMap;

/// An authenticated (or anonymous) caller.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserInfo {
    pub name: String,
    pub uid: String,
    pub groups: Vec<String>,
    pub extra: BTreeMap<String, Vec<String>>,
}

impl UserInfo {
    /// The group whose members may do everything.
    pub const MASTERS: &'static str = "system:masters";
    /// The group of everybody who proved who they are.
    pub const AUTHENTICATED: &'static str = "system:authenticated";
    /// The group of everybody else.
    pub const UNAUTHENTICATED: &'static str = "system:unauthenticated";
    /// The name given to callers without credentials.
    pub const ANONYMOUS: &'static str = "system:anonymous";

    /// The caller who showed no credentials.
    pub fn anonymous() -> Self {
        Self { name: Self::ANONYMOUS.into(), groups: vec![Self::UNAUTHENTICATED.into()], ..Self::default() }
    }

    pub fn in_group(&self, group: &str) -> bool {
        self.groups.iter().any(|g| g == group)
    }
}
