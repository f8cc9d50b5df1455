//! `authorizer`: expressions of admission policies may ask what a user is allowed to do. Who decides is a trait, so that
//! this crate knows nothing of rights.

use std::sync::Arc;

use super::charges;
use super::{CallContext, Library, Overload};
use crate::cost::{
    CallEstimate, CostEstimate, LIST_CREATE_BASE_COST, STRING_TRAVERSAL_COST_FACTOR, STRUCT_CREATE_BASE_COST,
    SizeEstimate,
};
use crate::error::EvalError;
use crate::types::Type;
use crate::value::{Opaque, Value};

const AUTHORIZER_TYPE: &str = "kubernetes.authorization.Authorizer";
const PATH_CHECK_TYPE: &str = "kubernetes.authorization.PathCheck";
const GROUP_CHECK_TYPE: &str = "kubernetes.authorization.GroupCheck";
const RESOURCE_CHECK_TYPE: &str = "kubernetes.authorization.ResourceCheck";
const DECISION_TYPE: &str = "kubernetes.authorization.Decision";

/// What one check costs: an expression can afford two.
const CHECK_COST: u64 = 350_000;

/// The shortest requirement of a selector is two characters long.
const REQUIREMENTS_PER_CHARACTER: f64 = 0.5;

/// Decides what expressions ask.
pub trait Authorizer: Send + Sync {
    /// Whether the request would be allowed.
    fn authorize(&self, request: &AccessRequest<'_>) -> AccessDecision;
}

/// On whose behalf an expression asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// The user of the request being admitted.
    Requester,
    ServiceAccount {
        namespace: Arc<str>,
        name: Arc<str>,
    },
}

/// What an expression asks.
#[derive(Clone, Debug)]
pub struct AccessRequest<'r> {
    pub subject: &'r Subject,
    pub verb: &'r str,
    pub target: AccessTarget<'r>,
}

/// What access is asked to.
#[derive(Clone, Debug)]
pub enum AccessTarget<'r> {
    Path(&'r str),
    Resource(&'r ResourceTarget),
}

/// A resource, in any version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceTarget {
    pub group: String,
    pub resource: String,
    pub subresource: String,
    pub namespace: String,
    pub name: String,
    pub field_selector: String,
    pub label_selector: String,
}

/// What was decided.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessDecision {
    pub allowed: bool,
    pub reason: String,
    pub error: Option<String>,
}

#[derive(Clone)]
struct AuthorizerValue {
    subject: Subject,
    authorizer: Arc<dyn Authorizer>,
}

#[derive(Debug)]
struct PathCheck {
    authorizer: AuthorizerValue,
    path: String,
}

#[derive(Debug)]
struct GroupCheck {
    authorizer: AuthorizerValue,
    group: String,
}

#[derive(Clone, Debug)]
struct ResourceCheck {
    authorizer: AuthorizerValue,
    target: ResourceTarget,
}

#[derive(Debug)]
struct Decision(AccessDecision);

impl std::fmt::Debug for AuthorizerValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AuthorizerValue").field("subject", &self.subject).finish_non_exhaustive()
    }
}

macro_rules! opaque {
    ($ty:ty, $name:expr) => {
        impl Opaque for $ty {
            fn type_name(&self) -> &str {
                $name
            }

            fn cel_type(&self) -> Type {
                Type::structure($name)
            }

            /// These have no identity that an expression could compare.
            fn equals(&self, _: &dyn Opaque) -> bool {
                false
            }
        }
    };
}

opaque!(AuthorizerValue, AUTHORIZER_TYPE);
opaque!(PathCheck, PATH_CHECK_TYPE);
opaque!(GroupCheck, GROUP_CHECK_TYPE);
opaque!(ResourceCheck, RESOURCE_CHECK_TYPE);
opaque!(Decision, DECISION_TYPE);

/// The type of the variable `authorizer`.
pub fn authorizer_type() -> Type {
    Type::structure(AUTHORIZER_TYPE)
}

/// The type of the variable `authorizer.requestResource`.
pub fn resource_check_type() -> Type {
    Type::structure(RESOURCE_CHECK_TYPE)
}

/// The value of the variable `authorizer`.
pub fn authorizer_value(authorizer: Arc<dyn Authorizer>) -> Value<'static> {
    Value::opaque(AuthorizerValue { subject: Subject::Requester, authorizer })
}

/// The value of the variable `authorizer.requestResource`: a check that is already aimed at the request's resource.
pub fn resource_check_value(authorizer: Arc<dyn Authorizer>, target: ResourceTarget) -> Value<'static> {
    Value::opaque(ResourceCheck { authorizer: AuthorizerValue { subject: Subject::Requester, authorizer }, target })
}

/// Authorization checks with selectors, as of Kubernetes 1.31.
pub fn authorizer() -> Library {
    let [authorizer, path, group, resource, decision] =
        [AUTHORIZER_TYPE, PATH_CHECK_TYPE, GROUP_CHECK_TYPE, RESOURCE_CHECK_TYPE, DECISION_TYPE].map(Type::structure);
    let nominal = |overload: Overload| overload.with_cost(charges::nominal).with_estimate(charges::nominal_estimate);
    let check = |overload: Overload| {
        overload
            .with_cost(|_, _| Some(CHECK_COST))
            .with_estimate(|_, _, _| Some(CallEstimate::cost(CostEstimate::fixed(CHECK_COST))))
    };
    let selector = |overload: Overload| {
        overload
            .with_cost(|args, _| Some(selector_estimate(SizeEstimate::fixed(args.get(1)?.cost_size())).max))
            .with_estimate(|ctx, _, args| Some(CallEstimate::cost(selector_estimate(ctx.size_of(args.first()?)))))
    };
    let step = |id, from: &Type, to: &Type, implementation| {
        Overload::member(id, [from.clone(), Type::String], to.clone(), implementation)
    };
    let outcome =
        |id, result, implementation| nominal(Overload::member(id, [decision.clone()], result, implementation));
    let mut library = Library::new("kubernetes.authz");
    for name in [AUTHORIZER_TYPE, PATH_CHECK_TYPE, GROUP_CHECK_TYPE, RESOURCE_CHECK_TYPE, DECISION_TYPE] {
        library = library.declare_type(name, Type::structure(name)).equality_estimate(name, charges::nominal_estimate);
    }
    library
        .overload("path", nominal(step("authorizer_path", &authorizer, &path, to_path)))
        .overload("group", nominal(step("authorizer_group", &authorizer, &group, to_group)))
        .overload(
            "serviceAccount",
            nominal(Overload::member(
                "authorizer_serviceaccount",
                [authorizer.clone(), Type::String, Type::String],
                authorizer.clone(),
                service_account,
            )),
        )
        .overload("resource", nominal(step("groupcheck_resource", &group, &resource, to_resource)))
        .overload(
            "subresource",
            nominal(step("resourcecheck_subresource", &resource, &resource, |args, _| {
                aimed(args, |target, text| target.subresource = text)
            })),
        )
        .overload(
            "namespace",
            nominal(step("resourcecheck_namespace", &resource, &resource, |args, _| {
                aimed(args, |target, text| target.namespace = text)
            })),
        )
        .overload(
            "name",
            nominal(step("resourcecheck_name", &resource, &resource, |args, _| {
                aimed(args, |target, text| target.name = text)
            })),
        )
        .overload(
            "fieldSelector",
            selector(step("authorizer_fieldselector", &resource, &resource, |args, _| {
                aimed(args, |target, text| target.field_selector = text)
            })),
        )
        .overload(
            "labelSelector",
            selector(step("authorizer_labelselector", &resource, &resource, |args, _| {
                aimed(args, |target, text| target.label_selector = text)
            })),
        )
        .overload("check", check(step("pathcheck_check", &path, &decision, check_path)))
        .overload("check", check(step("resourcecheck_check", &resource, &decision, check_resource)))
        .overload("allowed", outcome("decision_allowed", Type::Bool, |args, _| Ok(Value::Bool(decided(args)?.allowed))))
        .overload(
            "reason",
            outcome("decision_reason", Type::String, |args, _| Ok(Value::string(decided(args)?.reason.clone()))),
        )
        .overload(
            "errored",
            outcome("decision_errored", Type::Bool, |args, _| Ok(Value::Bool(decided(args)?.error.is_some()))),
        )
        .overload(
            "error",
            outcome("decision_error", Type::String, |args, _| {
                Ok(Value::string(decided(args)?.error.clone().unwrap_or_default()))
            }),
        )
}

fn receiver<'v, T: Opaque>(args: &'v [Value<'_>]) -> Result<&'v T, EvalError> {
    args.first().and_then(Value::as_opaque).ok_or_else(EvalError::no_such_overload)
}

fn text<'v>(args: &'v [Value<'_>], at: usize) -> Result<&'v str, EvalError> {
    args.get(at).and_then(Value::as_str).ok_or_else(EvalError::no_such_overload)
}

fn to_path<'a>(args: &[Value<'a>], _: &mut CallContext<'_>) -> Result<Value<'a>, EvalError> {
    let authorizer: &AuthorizerValue = receiver(args)?;
    let path = text(args, 1)?;
    if path.trim().is_empty() {
        return Err(EvalError::new("path must not be empty"));
    }
    Ok(Value::opaque(PathCheck { authorizer: authorizer.clone(), path: path.to_owned() }))
}

fn to_group<'a>(args: &[Value<'a>], _: &mut CallContext<'_>) -> Result<Value<'a>, EvalError> {
    let authorizer: &AuthorizerValue = receiver(args)?;
    Ok(Value::opaque(GroupCheck { authorizer: authorizer.clone(), group: text(args, 1)?.to_owned() }))
}

fn service_account<'a>(args: &[Value<'a>], _: &mut CallContext<'_>) -> Result<Value<'a>, EvalError> {
    let authorizer: &AuthorizerValue = receiver(args)?;
    let (namespace, name) = (text(args, 1)?, text(args, 2)?);
    let fits = |format, value: &str| {
        super::named_format::named(format).is_some_and(|format| (format.validate)(value).is_empty())
    };
    if !fits("dns1123Subdomain", name) {
        return Err(EvalError::new("Invalid service account name"));
    }
    if !fits("dns1123Label", namespace) {
        return Err(EvalError::new("Invalid service account namespace"));
    }
    let subject = Subject::ServiceAccount { namespace: Arc::from(namespace), name: Arc::from(name) };
    Ok(Value::opaque(AuthorizerValue { subject, authorizer: authorizer.authorizer.clone() }))
}

fn to_resource<'a>(args: &[Value<'a>], _: &mut CallContext<'_>) -> Result<Value<'a>, EvalError> {
    let check: &GroupCheck = receiver(args)?;
    let resource = text(args, 1)?;
    if resource.trim().is_empty() {
        return Err(EvalError::new("resource must not be empty"));
    }
    let target =
        ResourceTarget { group: check.group.clone(), resource: resource.to_owned(), ..ResourceTarget::default() };
    Ok(Value::opaque(ResourceCheck { authorizer: check.authorizer.clone(), target }))
}

fn aimed<'a>(args: &[Value<'a>], set: fn(&mut ResourceTarget, String)) -> Result<Value<'a>, EvalError> {
    let mut check: ResourceCheck = receiver::<ResourceCheck>(args)?.clone();
    set(&mut check.target, text(args, 1)?.to_owned());
    Ok(Value::opaque(check))
}

fn check_path<'a>(args: &[Value<'a>], _: &mut CallContext<'_>) -> Result<Value<'a>, EvalError> {
    let check: &PathCheck = receiver(args)?;
    Ok(check.authorizer.decide(text(args, 1)?, AccessTarget::Path(&check.path)))
}

fn check_resource<'a>(args: &[Value<'a>], _: &mut CallContext<'_>) -> Result<Value<'a>, EvalError> {
    let check: &ResourceCheck = receiver(args)?;
    Ok(check.authorizer.decide(text(args, 1)?, AccessTarget::Resource(&check.target)))
}

impl AuthorizerValue {
    fn decide<'a>(&self, verb: &str, target: AccessTarget<'_>) -> Value<'a> {
        let request = AccessRequest { subject: &self.subject, verb, target };
        Value::opaque(Decision(self.authorizer.authorize(&request)))
    }
}

fn decided<'v>(args: &'v [Value<'_>]) -> Result<&'v AccessDecision, EvalError> {
    receiver::<Decision>(args).map(|decision| &decision.0)
}

/// A selector is scanned and becomes a list of requirements.
fn selector_estimate(length: SizeEstimate) -> CostEstimate {
    let per_requirement = (LIST_CREATE_BASE_COST + STRUCT_CREATE_BASE_COST) as f64;
    CostEstimate::fixed(LIST_CREATE_BASE_COST)
        .add(length.multiply_by_cost_factor(STRING_TRAVERSAL_COST_FACTOR))
        .add(length.multiply_by_cost_factor(REQUIREMENTS_PER_CHARACTER).multiply_by_cost_factor(per_requirement))
}
