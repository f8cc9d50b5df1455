//! Acting as somebody else: the `Impersonate-*` headers and the checks that come before they count.
//!
//! A request that asks for it is tried in upstream's modes in order: the constrained ones, which need permission both
//! for the identity and for doing this very thing under it, then the older one, which needs permission for the identity
//! alone. The refusal reported is that of the first mode that applied.

use std::collections::BTreeMap;

use bailiwick_machinery::{ApiError, UserInfo};

use crate::authz::{Attributes, Authorizers, ResourceTarget, Target, forbidden};
use crate::go_format::string_slice;
use crate::service_account::{self, split_username};

const USER_HEADER: &str = "impersonate-user";
const UID_HEADER: &str = "impersonate-uid";
const GROUP_HEADER: &str = "impersonate-group";
const EXTRA_HEADER_PREFIX: &str = "impersonate-extra-";

/// Whether a header (lower-case name) speaks of impersonation; such headers are not passed on.
pub fn is_impersonation_header(name: &str) -> bool {
    name == USER_HEADER || name == UID_HEADER || name == GROUP_HEADER || name.starts_with(EXTRA_HEADER_PREFIX)
}

/// The identity the headers ask for, exactly as they say it. `None` when they ask for none. Names are lower case, as
/// HTTP/2 and hyper have them.
pub fn requested<'a>(headers: impl Iterator<Item = (&'a str, &'a [u8])>) -> Result<Option<UserInfo>, ApiError> {
    let mut wanted = UserInfo::default();
    let mut asked = false;
    for (name, value) in headers.filter(|(name, _)| is_impersonation_header(name)) {
        let value = String::from_utf8_lossy(value).into_owned();
        match name {
            USER_HEADER if wanted.name.is_empty() => wanted.name = value,
            UID_HEADER if wanted.uid.is_empty() => {
                asked |= !value.is_empty();
                wanted.uid = value;
            }
            GROUP_HEADER => {
                asked = true;
                wanted.groups.push(value);
            }
            _ => {
                if let Some(key) = name.strip_prefix(EXTRA_HEADER_PREFIX) {
                    asked = true;
                    wanted.extra.entry(unescaped(key)).or_default().push(value);
                }
            }
        }
    }
    match (wanted.name.is_empty(), asked) {
        (false, _) => Ok(Some(wanted)),
        (true, false) => Ok(None),
        (true, true) => {
            Err(ApiError::bad_request(format!("requested {} without impersonating a user name", go_syntax(&wanted))))
        }
    }
}

/// The user as upstream's message prints it.
fn go_syntax(user: &UserInfo) -> String {
    let extra = if user.extra.is_empty() {
        "map[string][]string(nil)".to_owned()
    } else {
        let entries: Vec<String> =
            user.extra.iter().map(|(key, values)| format!("{key:?}:{}", string_slice(values))).collect();
        format!("map[string][]string{{{}}}", entries.join(", "))
    };
    let groups = string_slice(&user.groups);
    format!("&user.DefaultInfo{{Name:{:?}, UID:{:?}, Groups:{groups}, Extra:{extra}}}", user.name, user.uid)
}

/// Percent-decoding; what is badly encoded stays as it is.
pub(crate) fn unescaped(key: &str) -> String {
    fn decode(key: &str) -> Option<String> {
        let mut out = Vec::with_capacity(key.len());
        let mut bytes = key.bytes();
        while let Some(byte) = bytes.next() {
            if byte == b'%' {
                let digit = |b: u8| char::from(b).to_digit(16);
                let (high, low) = (digit(bytes.next()?)?, digit(bytes.next()?)?);
                out.push(u8::try_from(high * 16 + low).ok()?);
            } else {
                out.push(byte);
            }
        }
        String::from_utf8(out).ok()
    }
    decode(key).unwrap_or_else(|| key.to_owned())
}

/// A granted impersonation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Impersonation {
    pub user: UserInfo,
    /// The verb that allowed it, for audit; empty for the older mode.
    pub constraint: &'static str,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    ArbitraryNode,
    ServiceAccount,
    UserInfo,
    Legacy,
}

impl Mode {
    const IN_ORDER: [Self; 4] = [Self::ArbitraryNode, Self::ServiceAccount, Self::UserInfo, Self::Legacy];

    fn verb(self) -> &'static str {
        match self {
            Self::ArbitraryNode => "impersonate:arbitrary-node",
            Self::ServiceAccount => "impersonate:serviceaccount",
            Self::UserInfo => "impersonate:user-info",
            Self::Legacy => "impersonate",
        }
    }

    /// The verb for doing `verb` under another identity; the older mode has none.
    fn on(self, verb: &str) -> Option<String> {
        self.verb().strip_prefix("impersonate:").map(|mode| format!("impersonate-on:{mode}:{verb}"))
    }

    fn applies(self, wanted: &UserInfo) -> bool {
        let only_name = wanted.uid.is_empty() && wanted.groups.is_empty() && wanted.extra.is_empty();
        let (node, account) = (node_name(&wanted.name).is_some(), split_username(&wanted.name).is_some());
        match self {
            Self::ArbitraryNode => only_name && node,
            Self::ServiceAccount => only_name && account,
            Self::UserInfo => !node && !account,
            Self::Legacy => true,
        }
    }
}

const NODE_PREFIX: &str = "system:node:";
const NODES_GROUP: &str = "system:nodes";
const AUTHENTICATION_GROUP: &str = "authentication.k8s.io";

fn node_name(user: &str) -> Option<&str> {
    user.strip_prefix(NODE_PREFIX).filter(|name| !name.is_empty())
}

/// Checks that the sender of the request may act as `wanted`, and says as whom the request goes on.
pub async fn authorize(
    authorizers: &Authorizers,
    request: &Attributes<'_>,
    wanted: &UserInfo,
) -> Result<Impersonation, ApiError> {
    let mut first_refusal = None;
    for mode in Mode::IN_ORDER {
        if !mode.applies(wanted) {
            continue;
        }
        match attempt(authorizers, request, wanted, mode).await {
            Ok(impersonation) => return Ok(impersonation),
            Err(refusal) => first_refusal = first_refusal.or(Some(refusal)),
        }
    }
    Err(first_refusal.unwrap_or_else(|| ApiError::internal("all impersonation modes failed")))
}

async fn attempt(
    authorizers: &Authorizers,
    request: &Attributes<'_>,
    wanted: &UserInfo,
    mode: Mode,
) -> Result<Impersonation, ApiError> {
    if let Some(verb) = mode.on(request.verb) {
        authorizers.require(&Attributes { verb: &verb, ..*request }).await?;
    }
    let check = async |target: ResourceTarget<'_>| {
        let attributes = Attributes { user: request.user, verb: mode.verb(), target: Target::Resource(target) };
        authorizers.require(&attributes).await
    };
    let mut user = wanted.clone();
    // Users and groups are in the core group for the older mode only.
    let group = if mode == Mode::Legacy { "" } else { AUTHENTICATION_GROUP };
    let target = ResourceTarget { group, version: "v1", ..ResourceTarget::default() };
    if mode != Mode::Legacy
        && let Some(name) = node_name(&wanted.name)
    {
        user.groups = vec![NODES_GROUP.to_owned()];
        check(ResourceTarget { resource: "nodes", name, ..target }).await?;
    } else if let Some((namespace, name)) = split_username(&wanted.name) {
        if wanted.groups.is_empty() {
            user.groups = service_account::groups(namespace);
        }
        check(ResourceTarget { resource: "serviceaccounts", namespace, name, ..target }).await?;
    } else {
        check(ResourceTarget { resource: "users", name: &wanted.name, ..target }).await?;
    }

    let details = ResourceTarget { group: AUTHENTICATION_GROUP, ..target };
    if !wanted.uid.is_empty() {
        check(ResourceTarget { resource: "uids", name: &wanted.uid, ..details }).await?;
    }
    let groups = ResourceTarget { resource: "groups", ..target };
    if mode != Mode::Legacy {
        check_groups(request, &wanted.groups, groups, mode)?;
    }
    for group in &wanted.groups {
        check(ResourceTarget { name: group, ..groups }).await?;
    }
    let extras = ResourceTarget { resource: "userextras", ..details };
    if mode != Mode::Legacy {
        check_extra(request, &wanted.extra, extras, mode)?;
    }
    for (key, values) in &wanted.extra {
        for value in values {
            check(ResourceTarget { subresource: key, name: value, ..extras }).await?;
        }
    }
    complete_groups(&mut user);
    Ok(Impersonation { user, constraint: if mode == Mode::Legacy { "" } else { mode.verb() } })
}

/// What constrained modes never allow.
fn check_groups(
    request: &Attributes<'_>,
    groups: &[String],
    target: ResourceTarget<'_>,
    mode: Mode,
) -> Result<(), ApiError> {
    let (name, reason) = if groups.iter().any(String::is_empty) {
        ("", "impersonating the empty string group is not allowed")
    } else if groups.iter().any(|group| group == UserInfo::MASTERS) {
        (UserInfo::MASTERS, "impersonating the system:masters group is not allowed")
    } else {
        return Ok(());
    };
    let target = Target::Resource(ResourceTarget { name, ..target });
    Err(forbidden(&Attributes { user: request.user, verb: mode.verb(), target }, reason))
}

fn check_extra(
    request: &Attributes<'_>,
    extra: &BTreeMap<String, Vec<String>>,
    target: ResourceTarget<'_>,
    mode: Mode,
) -> Result<(), ApiError> {
    for (key, values) in extra {
        let reason = if key.is_empty() {
            "impersonating the empty string key in extra is not allowed".to_owned()
        } else if !is_domain_prefixed_path(key) {
            format!(
                "impersonating an invalid key in extra is not allowed: extra.key: Invalid value: {key:?}: must be a domain-prefixed path (such as \"acme.io/foo\")"
            )
        } else if *key != key.to_lowercase() {
            format!("impersonating a non-lowercase key in extra is not allowed: {key:?}")
        } else if values.iter().any(String::is_empty) {
            "impersonating the empty string value in extra is not allowed".to_owned()
        } else {
            continue;
        };
        let attributes = Attributes { user: request.user, verb: mode.verb(), target: Target::Resource(target) };
        return Err(forbidden(&attributes, &reason));
    }
    Ok(())
}

/// `domain/path`, as the keys Kubernetes itself uses.
fn is_domain_prefixed_path(key: &str) -> bool {
    key.split_once('/').is_some_and(|(domain, path)| !domain.is_empty() && !path.is_empty())
}

fn complete_groups(user: &mut UserInfo) {
    let group = if user.name == UserInfo::ANONYMOUS {
        UserInfo::UNAUTHENTICATED
    } else if user.in_group(UserInfo::UNAUTHENTICATED) {
        return;
    } else {
        UserInfo::AUTHENTICATED
    };
    if !user.in_group(group) {
        user.groups.push(group.to_owned());
    }
}

#[cfg(test)]
mod tests;
