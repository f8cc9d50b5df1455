//! The authorizers that need no stored objects.

use std::sync::{Arc, LazyLock};

use bailiwick_machinery::UserInfo;

use super::explain::Verdict;
use super::{Attributes, Authorizer, Decision, PolicyRule, Reason, Rules, Step};

/// Everything, on every resource and path.
static EVERYTHING: LazyLock<[Arc<PolicyRule>; 2]> = LazyLock::new(|| {
    [PolicyRule::on_resources(&["*"], &["*"], &["*"]), PolicyRule::on_paths(&["*"], &["*"])].map(Arc::new)
});

/// Members of `system:masters` may do everything, whatever the stored roles say.
pub struct SystemMasters;

impl Authorizer for SystemMasters {
    fn authorize(&self, attributes: &Attributes<'_>) -> Decision {
        if attributes.user.in_group(UserInfo::MASTERS) {
            Decision::Allow(Reason::None)
        } else {
            Decision::NoOpinion(Reason::None)
        }
    }

    /// Nothing, as upstream: the stored `cluster-admin` says it.
    fn rules_for(&self, _user: &UserInfo, _namespace: &str, _rules: &mut Rules) {}

    fn explain(&self, attributes: &Attributes<'_>) -> Step {
        let mut step = Step::of("system:masters", &self.authorize(attributes));
        if step.verdict == Verdict::Allow {
            step.reason = "members of the group \"system:masters\" may do everything".to_owned();
        }
        step
    }
}

/// `--authorization-mode=AlwaysAllow`.
pub struct AlwaysAllow;

impl Authorizer for AlwaysAllow {
    fn authorize(&self, _attributes: &Attributes<'_>) -> Decision {
        Decision::Allow(Reason::None)
    }

    fn rules_for(&self, _user: &UserInfo, _namespace: &str, rules: &mut Rules) {
        rules.rules.extend(EVERYTHING.iter().cloned());
    }

    fn explain(&self, attributes: &Attributes<'_>) -> Step {
        Step::of("AlwaysAllow", &self.authorize(attributes))
    }
}

/// Whoever has credentials may do everything: for a control plane without roles whose clients trust each other.
pub struct AnyAuthenticated;

impl Authorizer for AnyAuthenticated {
    fn authorize(&self, attributes: &Attributes<'_>) -> Decision {
        if attributes.user.in_group(UserInfo::AUTHENTICATED) {
            Decision::Allow(Reason::None)
        } else {
            Decision::NoOpinion(Reason::None)
        }
    }

    fn rules_for(&self, user: &UserInfo, _namespace: &str, rules: &mut Rules) {
        if user.in_group(UserInfo::AUTHENTICATED) {
            rules.rules.extend(EVERYTHING.iter().cloned());
        }
    }

    fn explain(&self, attributes: &Attributes<'_>) -> Step {
        Step::of("any authenticated", &self.authorize(attributes))
    }
}

/// `--authorization-mode=AlwaysDeny`: everybody but `system:masters` is refused.
pub struct AlwaysDeny;

impl Authorizer for AlwaysDeny {
    fn authorize(&self, _attributes: &Attributes<'_>) -> Decision {
        Decision::NoOpinion(Reason::Static("Everything is forbidden."))
    }

    fn rules_for(&self, _user: &UserInfo, _namespace: &str, _rules: &mut Rules) {}

    fn explain(&self, attributes: &Attributes<'_>) -> Step {
        Step::of("AlwaysDeny", &self.authorize(attributes))
    }
}

/// What upstream's default roles grant to everybody: authenticated users may look at themselves and discover the API,
/// and anybody may ask for health and version. Stands in for those roles where no stored ones exist.
pub struct BasicAccess;

struct Grant {
    groups: &'static [&'static str],
    rules: Vec<Arc<PolicyRule>>,
    /// In the order of `groups`.
    reasons: &'static [&'static str],
}

static GRANTS: LazyLock<Vec<Grant>> = LazyLock::new(|| {
    vec![
        Grant {
            groups: &[UserInfo::AUTHENTICATED],
            rules: vec![
                Arc::new(PolicyRule::on_resources(
                    &["create"],
                    &["authorization.k8s.io"],
                    &["selfsubjectaccessreviews", "selfsubjectrulesreviews"],
                )),
                Arc::new(PolicyRule::on_resources(&["create"], &["authentication.k8s.io"], &["selfsubjectreviews"])),
            ],
            reasons: &[
                r#"RBAC: allowed by ClusterRoleBinding "system:basic-user" of ClusterRole "system:basic-user" to Group "system:authenticated""#,
            ],
        },
        Grant {
            groups: &[UserInfo::AUTHENTICATED],
            rules: vec![Arc::new(PolicyRule::on_paths(
                &["get"],
                &[
                    "/api",
                    "/api/*",
                    "/apis",
                    "/apis/*",
                    "/healthz",
                    "/livez",
                    "/openapi",
                    "/openapi/*",
                    "/readyz",
                    "/version",
                    "/version/",
                ],
            ))],
            reasons: &[
                r#"RBAC: allowed by ClusterRoleBinding "system:discovery" of ClusterRole "system:discovery" to Group "system:authenticated""#,
            ],
        },
        Grant {
            groups: &[UserInfo::AUTHENTICATED, UserInfo::UNAUTHENTICATED],
            rules: vec![Arc::new(PolicyRule::on_paths(
                &["get"],
                &["/healthz", "/livez", "/readyz", "/version", "/version/"],
            ))],
            reasons: &[
                r#"RBAC: allowed by ClusterRoleBinding "system:public-info-viewer" of ClusterRole "system:public-info-viewer" to Group "system:authenticated""#,
                r#"RBAC: allowed by ClusterRoleBinding "system:public-info-viewer" of ClusterRole "system:public-info-viewer" to Group "system:unauthenticated""#,
            ],
        },
    ]
});

impl Grant {
    fn reason_for(&self, user: &UserInfo) -> Option<&'static str> {
        let index = self.groups.iter().position(|group| user.in_group(group))?;
        self.reasons.get(index).copied()
    }
}

impl Authorizer for BasicAccess {
    fn authorize(&self, attributes: &Attributes<'_>) -> Decision {
        let allowed = |grant: &&Grant| grant.rules.iter().any(|rule| rule.allows(attributes));
        match GRANTS.iter().filter(allowed).find_map(|grant| grant.reason_for(attributes.user)) {
            Some(reason) => Decision::Allow(Reason::Static(reason)),
            None => Decision::NoOpinion(Reason::None),
        }
    }

    fn rules_for(&self, user: &UserInfo, _namespace: &str, rules: &mut Rules) {
        let granted = GRANTS.iter().filter(|grant| grant.reason_for(user).is_some());
        rules.rules.extend(granted.flat_map(|grant| grant.rules.iter().cloned()));
    }

    fn explain(&self, attributes: &Attributes<'_>) -> Step {
        Step::of("built-in discovery roles", &self.authorize(attributes))
    }
}
