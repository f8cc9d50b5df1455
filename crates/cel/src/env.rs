//! The environment expressions are written in: variables, types, functions, macros and the rules for literals.

use std::collections::HashMap;
use std::sync::Arc;

use crate::checker;
use crate::library::{Estimate, Library, Overload};
use crate::parser::{self, Feature, Macros, Syntax};
use crate::program::Checked;
use crate::source::Issues;
use crate::standard;
use crate::types::Type;
use crate::value::Value;

/// What is known while an expression is compiled. Cheap to clone and to extend.
#[derive(Clone, Debug)]
pub struct Env {
    pub(crate) inner: Arc<EnvData>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct EnvData {
    pub(crate) variables: Vec<(Box<str>, Type)>,
    pub(crate) constants: HashMap<Box<str>, (Type, Value<'static>)>,
    pub(crate) functions: HashMap<Box<str>, Vec<Arc<Overload>>>,
    pub(crate) equality: HashMap<Box<str>, Estimate>,
    pub(crate) container: Box<str>,
    pub(crate) syntax: Syntax,
    pub(crate) literals: AggregateLiterals,
    pub(crate) validation: LiteralValidation,
    pub(crate) checking: Checking,
    pub(crate) messages: Messages,
}

/// Which element types list and map literals may mix.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AggregateLiterals {
    /// All elements agree, as in Kubernetes.
    #[default]
    Homogeneous,
    /// Elements that differ make the literal dynamic, as in plain CEL.
    Dynamic,
}

/// Whether constant arguments of `duration`, `timestamp` and `matches` are looked at while compiling.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LiteralValidation {
    /// As in Kubernetes.
    #[default]
    Compile,
    /// Only when the expression runs.
    Evaluate,
}

/// What becomes of type errors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Checking {
    /// They are reported.
    #[default]
    Strict,
    /// They wait for the run, which may never come to them.
    Deferred,
}

/// Which types expressions may construct.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Messages {
    /// None, as nearly everywhere.
    #[default]
    None,
    /// `Object`, `Object.<path of fields>` and `JSONPatch`, of which mutating admission policies make patches.
    Patches,
}

impl Env {
    /// An environment with the standard functions, macros and optional values.
    pub fn builder() -> EnvBuilder {
        let syntax = Syntax {
            macros: Macros::STANDARD | Macros::OPTIONAL,
            optionals: Feature::Enabled,
            escaped_identifiers: Feature::Disabled,
        };
        let builder = EnvBuilder { data: EnvData { syntax, ..EnvData::default() } };
        builder.library(standard::library()).library(standard::optional_library())
    }

    /// An environment with everything of this one, to add to.
    pub fn extend(&self) -> EnvBuilder {
        EnvBuilder { data: EnvData::clone(&self.inner) }
    }

    /// Parses and checks an expression.
    pub fn compile(&self, text: &str) -> Result<Checked, Issues> {
        let ast = parser::parse(text, self.inner.syntax)?;
        checker::check(self, text, ast)
    }

    /// The type of a variable.
    pub fn variable_type(&self, name: &str) -> Option<&Type> {
        self.inner.variable(name).map(|(_, ty)| ty)
    }
}

impl EnvData {
    pub(crate) fn variable(&self, name: &str) -> Option<(usize, &Type)> {
        self.variables.iter().enumerate().rev().find(|(_, (known, _))| **known == *name).map(|(at, (_, ty))| (at, ty))
    }

    /// The names a name may stand for, most specific first.
    pub(crate) fn candidates<'n>(&self, name: &'n str) -> Vec<std::borrow::Cow<'n, str>> {
        if let Some(absolute) = name.strip_prefix('.') {
            return vec![absolute.into()];
        }
        let mut candidates = Vec::new();
        let mut container: &str = &self.container;
        while !container.is_empty() {
            candidates.push(format!("{container}.{name}").into());
            container = container.rfind('.').and_then(|dot| container.get(..dot)).unwrap_or_default();
        }
        candidates.push(name.into());
        candidates
    }
}

/// Puts an [`Env`] together.
#[derive(Clone, Debug)]
pub struct EnvBuilder {
    data: EnvData,
}

impl EnvBuilder {
    /// Declares a variable; a later declaration of the same name takes its place.
    #[must_use]
    pub fn variable(mut self, name: &str, ty: Type) -> Self {
        match self.data.variables.iter_mut().find(|(known, _)| **known == *name) {
            Some(known) => known.1 = ty,
            None => self.data.variables.push((Box::from(name), ty)),
        }
        self
    }

    /// Adds the functions, types and macros of a library.
    #[must_use]
    pub fn library(mut self, library: Library) -> Self {
        for (name, overload) in library.overloads {
            let overloads = self.data.functions.entry(Box::from(&*name)).or_default();
            match overloads.iter_mut().find(|known| known.id == overload.id) {
                Some(known) => *known = overload,
                None => overloads.push(overload),
            }
        }
        for (name, ty) in library.types {
            let value = Value::Type(Arc::new(ty.clone()));
            self.data.constants.insert(Box::from(&*name), (Type::type_of(ty), value));
        }
        for (name, ty, value) in library.constants {
            self.data.constants.insert(Box::from(&*name), (ty, value));
        }
        for (name, estimate) in library.equality {
            self.data.equality.insert(Box::from(&*name), estimate);
        }
        self.data.syntax.macros = self.data.syntax.macros | library.macros;
        self
    }

    /// The namespace names are looked up in first.
    #[must_use]
    pub fn container(mut self, container: &str) -> Self {
        self.data.container = Box::from(container);
        self
    }

    /// Replaces the set of macros.
    #[must_use]
    pub fn macros(mut self, macros: Macros) -> Self {
        self.data.syntax.macros = macros;
        self
    }

    /// Whether fields may be written in backquotes.
    #[must_use]
    pub fn escaped_identifiers(mut self, feature: Feature) -> Self {
        self.data.syntax.escaped_identifiers = feature;
        self
    }

    /// Which elements literals may mix.
    #[must_use]
    pub fn aggregate_literals(mut self, literals: AggregateLiterals) -> Self {
        self.data.literals = literals;
        self
    }

    /// When constant durations, timestamps and patterns are validated.
    #[must_use]
    pub fn literal_validation(mut self, validation: LiteralValidation) -> Self {
        self.data.validation = validation;
        self
    }

    /// Whether type errors are reported or left to the run.
    #[must_use]
    pub fn checking(mut self, checking: Checking) -> Self {
        self.data.checking = checking;
        self
    }

    /// Which types expressions may construct.
    #[must_use]
    pub fn messages(mut self, messages: Messages) -> Self {
        self.data.messages = messages;
        self
    }

    /// The finished environment.
    pub fn build(self) -> Env {
        Env { inner: Arc::new(self.data) }
    }
}
