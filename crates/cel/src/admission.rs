//! The environment of admission expressions: `object`, `oldObject`, `request`, `namespaceObject` and, where they are
//! offered, `params` and `authorizer`, with the types, libraries and cost limits that kube-apiserver 1.36 gives them.

mod composition;

use std::sync::{Arc, LazyLock, OnceLock};

use crate::decl::{DeclField, DeclKind, DeclType, ListSemantics};
use crate::library::{self, authorizer_type, resource_check_type};
use crate::types::Type;
use crate::{Checked, Env, EnvBuilder, Messages};

pub use composition::{CompileError, Compiled, Composition, Declared};

/// Names of the variables.
pub mod variables {
    pub const OBJECT: &str = "object";
    pub const OLD_OBJECT: &str = "oldObject";
    pub const PARAMS: &str = "params";
    pub const REQUEST: &str = "request";
    pub const NAMESPACE: &str = "namespaceObject";
    pub const AUTHORIZER: &str = "authorizer";
    pub const REQUEST_RESOURCE: &str = "authorizer.requestResource";
    pub const VARIABLES: &str = "variables";
}

/// What one expression may cost: about a tenth of a second.
pub const PER_CALL_LIMIT: u64 = 1_000_000;
/// What all expressions of one policy binding may cost together: about a second.
pub const POLICY_BUDGET: u64 = 10_000_000;
/// What all match conditions of one webhook or policy may cost together: about a quarter of a second.
pub const MATCH_CONDITIONS_BUDGET: u64 = 2_500_000;
/// What an evaluation that exceeds a budget says.
pub const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

/// Whether `params` is declared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Params {
    Declared,
    Absent,
}

/// Whether `authorizer` is declared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    Declared,
    Absent,
}

/// The environment with these of the optional variables.
pub fn environment(params: Params, access: Access) -> &'static Env {
    static ENVIRONMENTS: LazyLock<[Env; 4]> = LazyLock::new(|| {
        [
            build(Params::Absent, Access::Absent),
            build(Params::Absent, Access::Declared),
            build(Params::Declared, Access::Absent),
            build(Params::Declared, Access::Declared),
        ]
    });
    let [plain, access_only, params_only, both] = &*ENVIRONMENTS;
    match (params, access) {
        (Params::Absent, Access::Absent) => plain,
        (Params::Absent, Access::Declared) => access_only,
        (Params::Declared, Access::Absent) => params_only,
        (Params::Declared, Access::Declared) => both,
    }
}

/// The environment of patches: everything of the other, `Object`, `JSONPatch` and the functions for them.
pub fn patch_environment(params: Params) -> &'static Env {
    static ENVIRONMENTS: [OnceLock<Env>; 2] = [const { OnceLock::new() }; 2];
    let [plain, with_params] = &ENVIRONMENTS;
    let place = if params == Params::Declared { with_params } else { plain };
    place.get_or_init(|| {
        let env = environment(params, Access::Declared).extend();
        env.messages(Messages::Patches).library(library::json_patch()).build()
    })
}

/// Compiles an expression whose result must be exactly of one of these types; `Dyn` among them takes any. The error is the
/// text that kube-apiserver shows.
pub fn compile(env: &Env, expression: &str, returns: &[Type]) -> Result<Checked, String> {
    let checked = env.compile(expression).map_err(|issues| format!("compilation failed: {issues}"))?;
    let found = checked.output_type();
    if returns.contains(found) || returns.contains(&Type::Dyn) {
        return Ok(checked);
    }
    let found = go_name(found);
    let names: Vec<String> = returns.iter().map(go_name).collect();
    Err(match names.as_slice() {
        [only] => format!("must evaluate to {only} but got {found}"),
        several => format!("must evaluate to one of [{}] but got {found}", several.join(" ")),
    })
}

/// A type as Go prints it, which differs from what the checker's messages show in the names of simple types.
fn go_name(ty: &Type) -> String {
    match ty {
        Type::List(element) => format!("list({})", go_name(element)),
        Type::Map(entry) => format!("map({}, {})", go_name(&entry.0), go_name(&entry.1)),
        Type::Opaque(opaque) if !opaque.params.is_empty() => {
            let params: Vec<String> = opaque.params.iter().map(go_name).collect();
            format!("{}({})", opaque.name, params.join(", "))
        }
        Type::Type(Some(inner)) => format!("type({})", go_name(inner)),
        other => other.type_name().to_owned(),
    }
}

/// What all expressions in admission see, with nothing said of objects, parameters and access yet.
pub fn base() -> EnvBuilder {
    static BASE: LazyLock<Env> = LazyLock::new(|| {
        let named = |decl: &Arc<DeclType>| decl.cel_type("").unwrap_or(Type::Dyn);
        let libraries = library::kubernetes().into_iter().fold(Env::builder(), EnvBuilder::library);
        libraries
            .variable(variables::NAMESPACE, named(namespace_type()))
            .variable(variables::REQUEST, named(request_type()))
            .build()
    });
    BASE.extend()
}

fn build(params: Params, access: Access) -> Env {
    let mut builder = base().variable(variables::OBJECT, Type::Dyn).variable(variables::OLD_OBJECT, Type::Dyn);
    if params == Params::Declared {
        builder = builder.variable(variables::PARAMS, Type::Dyn);
    }
    if access == Access::Declared {
        builder = builder
            .variable(variables::AUTHORIZER, authorizer_type())
            .variable(variables::REQUEST_RESOURCE, resource_check_type());
    }
    builder.build()
}

/// The type of JSON that is seen as it is: whole objects.
pub fn dyn_type() -> &'static DeclType {
    &crate::decl::DYN
}

/// The type of `request`: an AdmissionRequest without its uid and objects.
pub fn request_type() -> &'static Arc<DeclType> {
    static TYPE: LazyLock<Arc<DeclType>> = LazyLock::new(|| {
        let named = |name: &str, third: &str| {
            Arc::new(DeclType::named_object(
                name,
                vec![required("group", text()), required("version", text()), required(third, text())],
            ))
        };
        let kind = named("kubernetes.GroupVersionKind", "kind");
        let resource = named("kubernetes.GroupVersionResource", "resource");
        let user = Arc::new(DeclType::named_object(
            "kubernetes.UserInfo",
            vec![
                optional("username", text()),
                optional("uid", text()),
                optional("groups", texts()),
                optional("extra", Arc::new(DeclType::map(texts(), UNBOUNDED))),
            ],
        ));
        Arc::new(DeclType::named_object(
            "kubernetes.AdmissionRequest",
            vec![
                required("kind", kind.clone()),
                required("resource", resource.clone()),
                optional("subResource", text()),
                required("requestKind", kind),
                required("requestResource", resource),
                optional("requestSubResource", text()),
                required("name", text()),
                optional("namespace", text()),
                required("operation", text()),
                required("userInfo", user),
                optional("dryRun", Arc::new(DeclType::new(DeclKind::Bool))),
                optional("options", Arc::new(DeclType::new(DeclKind::Dyn))),
            ],
        ))
    });
    &TYPE
}

/// The type of `namespaceObject`. Upstream calls its uid `UID`, which no object has.
pub fn namespace_type() -> &'static Arc<DeclType> {
    static TYPE: LazyLock<Arc<DeclType>> = LazyLock::new(|| {
        let time = || Arc::new(DeclType::new(DeclKind::DateTime));
        let int = || Arc::new(DeclType::new(DeclKind::Int));
        let labels = || Arc::new(DeclType::map(text(), UNBOUNDED));
        let metadata = Arc::new(DeclType::named_object(
            "kubernetes.NamespaceMetadata",
            vec![
                required("name", text()),
                required("generateName", text()),
                required("namespace", text()),
                required("labels", labels()),
                required("annotations", labels()),
                required("UID", text()),
                required("creationTimestamp", time()),
                required("deletionGracePeriodSeconds", int()),
                required("deletionTimestamp", time()),
                required("generation", int()),
                required("resourceVersion", text()),
                required("finalizers", texts()),
            ],
        ));
        let spec = Arc::new(DeclType::named_object("kubernetes.NamespaceSpec", vec![required("finalizers", texts())]));
        let condition = Arc::new(DeclType::named_object(
            "kubernetes.NamespaceCondition",
            vec![
                required("status", text()),
                required("type", text()),
                required("lastTransitionTime", time()),
                required("message", text()),
                required("reason", text()),
            ],
        ));
        let conditions = Arc::new(DeclType::list(condition, ListSemantics::Atomic, UNBOUNDED));
        let status = Arc::new(DeclType::named_object(
            "kubernetes.NamespaceStatus",
            vec![required("conditions", conditions), required("phase", text())],
        ));
        let mut namespace = DeclType::named_object(
            "kubernetes.Namespace",
            vec![required("metadata", metadata), required("spec", spec), required("status", status)],
        );
        // Requests about cluster-scoped resources have no namespace, and webhooks are never shown one.
        namespace.nullable = true;
        Arc::new(namespace)
    });
    &TYPE
}

/// Containers of which nothing says how large they may be.
const UNBOUNDED: u64 = u64::MAX;

fn text() -> Arc<DeclType> {
    Arc::new(DeclType::new(DeclKind::String))
}

fn texts() -> Arc<DeclType> {
    Arc::new(DeclType::list(text(), ListSemantics::Atomic, UNBOUNDED))
}

fn required(name: &str, decl: Arc<DeclType>) -> DeclField {
    DeclField { name: name.into(), decl, required: true }
}

fn optional(name: &str, decl: Arc<DeclType>) -> DeclField {
    DeclField { name: name.into(), decl, required: false }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_see_the_variables_they_are_offered() {
        let plain = environment(Params::Absent, Access::Absent);
        plain.compile("request.userInfo.groups.exists(g, g == 'x') && object.spec.a == 1").expect("compiles");
        plain.compile("namespaceObject.metadata.labels['a'] == 'b'").expect("compiles");
        let error = plain.compile("params.a").expect_err("no params").to_string();
        assert!(error.contains("undeclared reference to 'params'"), "{error}");
        let error = plain.compile("request.foo").expect_err("no such field").to_string();
        assert!(error.contains("undefined field 'foo'"), "{error}");
        let full = environment(Params::Declared, Access::Declared);
        full.compile("authorizer.requestResource.check('update').allowed() && params.x").expect("compiles");
        full.compile("authorizer.group('').resource('pods').check('get').allowed()").expect("compiles");
    }
}
