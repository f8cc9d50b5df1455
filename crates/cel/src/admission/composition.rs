//! The variables of a policy: each is an expression that those after it can name as `variables.<name>`.

use std::sync::Arc;

use super::{Access, PER_CALL_LIMIT, Params, compile, environment, patch_environment, variables};
use crate::decl::{DeclField, DeclKind, DeclType};
use crate::env::Env;
use crate::program::{LazyVariable, Program};
use crate::types::Type;

/// What messages call its type.
const VARIABLES_TYPE: &str = "kubernetes.variables";

/// Which of the optional variables and types an expression of a policy sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Declared {
    /// No `authorizer`: messages.
    WithoutAccess(Params),
    WithAccess(Params),
    /// With access and the types of patches.
    Patches(Params),
}

impl Declared {
    /// The environment of expressions without variables.
    pub fn environment(self) -> &'static Env {
        match self {
            Self::WithoutAccess(params) => environment(params, Access::Absent),
            Self::WithAccess(params) => environment(params, Access::Declared),
            Self::Patches(params) => patch_environment(params),
        }
    }
}

/// Why an expression cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    /// The expression is wrong.
    #[error("{0}")]
    Invalid(String),
    /// It is right, but fails in every run.
    #[error("{0}")]
    Internal(String),
}

/// An expression that can be run.
#[derive(Debug)]
pub struct Compiled {
    pub program: Program,
    pub output_type: Type,
}

impl Compiled {
    /// Compiles an expression whose value must be of one of the types `returns`; [`Type::Dyn`] among them admits any.
    pub fn new(env: &Env, text: &str, returns: &[Type]) -> Result<Self, CompileError> {
        let checked = compile(env, text, returns).map_err(CompileError::Invalid)?;
        match checked.program() {
            Ok(program) => Ok(Self { program, output_type: checked.output_type().clone() }),
            Err(why) => Err(CompileError::Internal(format!("program instantiation failed: {why}"))),
        }
    }
}

/// Variables in the order they were declared, and environments in which expressions can name them.
#[derive(Debug, Default)]
pub struct Composition {
    names: Vec<(Box<str>, Type)>,
    variables: Vec<LazyVariable>,
}

impl Composition {
    /// No variables yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Compiles a variable, which sees those before it, and declares it. One that does not compile is declared all the
    /// same, so that its mistake is not reported again wherever it is used; using it fails.
    pub fn declare(&mut self, name: &str, text: &str, declared: Declared) -> Result<(), CompileError> {
        let compiled = self.compile(text, &[Type::Dyn], declared);
        let (ty, outcome, program) = match compiled {
            Ok(Compiled { program, output_type }) => (as_field(&output_type), Ok(()), Ok(program)),
            Err(error) => (Type::Dyn, Err(error.clone()), Err(error.to_string())),
        };
        self.declare_type(name, ty);
        self.variables.push(LazyVariable {
            name: full_name(name),
            label: name.into(),
            program,
            cost_limit: PER_CALL_LIMIT,
        });
        outcome
    }

    /// Declares a variable of which only the type matters.
    pub fn declare_type(&mut self, name: &str, output_type: Type) {
        self.names.push((name.into(), as_field(&output_type)));
    }

    /// Compiles an expression that may name the variables.
    pub fn compile(&self, text: &str, returns: &[Type], declared: Declared) -> Result<Compiled, CompileError> {
        Compiled::new(&self.extend(declared.environment()), text, returns)
    }

    /// The environment with the variables that are declared so far.
    pub fn extend(&self, env: &Env) -> Env {
        let fields = self.names.iter().map(|(name, _)| DeclField {
            name: name.clone(),
            decl: Arc::new(DeclType::new(DeclKind::Dyn)),
            required: true,
        });
        let object = Arc::new(DeclType::object(fields.collect()));
        let mut builder = env.extend();
        if let Some(ty) = object.cel_type(VARIABLES_TYPE) {
            builder = builder.variable(variables::VARIABLES, ty);
        }
        for (name, ty) in &self.names {
            builder = builder.variable(&full_name(name), ty.clone());
        }
        builder.build()
    }

    /// What computes the variables.
    pub fn into_variables(self) -> Vec<LazyVariable> {
        self.variables
    }
}

fn full_name(name: &str) -> Box<str> {
    format!("{}.{name}", variables::VARIABLES).into()
}

/// The type a variable has for those that use it: what is neither simple nor a list or map of such is dynamic.
fn as_field(ty: &Type) -> Type {
    match ty {
        Type::Bool
        | Type::Bytes
        | Type::Double
        | Type::Duration
        | Type::Int
        | Type::Null
        | Type::String
        | Type::Timestamp
        | Type::Uint => ty.clone(),
        Type::List(element) => Type::list(as_field(element)),
        Type::Map(entry) => Type::map(as_field(&entry.0), as_field(&entry.1)),
        _ => Type::Dyn,
    }
}
