//! Type variables and assignability: whether one type may stand where another is expected, and what that says about
//! variables on both sides.

use std::sync::Arc;

use crate::types::{OpaqueType, Type};

/// What is known about type variables.
#[derive(Debug, Default)]
pub(super) struct Substitutions {
    known: Vec<Option<Type>>,
    /// Former values of what was set, so that a failed attempt leaves no traces.
    journal: Vec<(u32, Option<Type>)>,
}

/// What becomes of variables about which nothing is known.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Unbound {
    Keep,
    Dyn,
}

impl Substitutions {
    pub(super) fn fresh(&mut self) -> Type {
        self.known.push(None);
        Type::Variable(u32::try_from(self.known.len() - 1).unwrap_or(u32::MAX))
    }

    /// Whether `from` fits `to`, pairwise; only success is remembered.
    pub(super) fn assignable(&mut self, pairs: &[(&Type, &Type)]) -> bool {
        let mark = self.journal.len();
        let fits = pairs.iter().all(|(from, to)| self.fits(from, to));
        if !fits {
            while self.journal.len() > mark {
                let Some((variable, former)) = self.journal.pop() else { break };
                if let Some(slot) = self.known.get_mut(variable as usize) {
                    *slot = former;
                }
            }
        }
        fits
    }

    fn find(&self, variable: u32) -> Option<&Type> {
        self.known.get(variable as usize).and_then(Option::as_ref)
    }

    fn set(&mut self, variable: u32, ty: Type) {
        if let Some(slot) = self.known.get_mut(variable as usize) {
            let former = slot.replace(ty);
            self.journal.push((variable, former));
        }
    }

    fn fits(&mut self, t1: &Type, t2: &Type) -> bool {
        if let Type::Variable(variable) = t2 {
            match self.substitutes(t1, *variable) {
                Substituted::Valid => return true,
                Substituted::Contradicts => return false,
                Substituted::Recursive => {}
            }
        }
        if let Type::Variable(variable) = t1 {
            return self.substitutes(t2, *variable) == Substituted::Valid;
        }
        if t1.is_dyn_or_error() || t2.is_dyn_or_error() {
            return true;
        }
        match (t1, t2) {
            (Type::Null, other) | (other, Type::Null) => nullable(other),
            (Type::List(a), Type::List(b)) => self.fits(a, b),
            (Type::Map(a), Type::Map(b)) => self.fits(&a.0, &b.0) && self.fits(&a.1, &b.1),
            (Type::Type(_), Type::Type(_)) => true,
            (Type::Opaque(a), Type::Opaque(b)) => {
                a.name == b.name
                    && a.params.len() == b.params.len()
                    && a.params.iter().zip(&b.params).all(|(a, b)| self.fits(a, b))
            }
            (Type::Wrapper(a), Type::Wrapper(b)) => a == b,
            (Type::Wrapper(wrapped), other) | (other, Type::Wrapper(wrapped)) => wrapped.as_type() == *other,
            _ => t1 == t2,
        }
    }

    /// Whether `variable` may stand for `ty`.
    fn substitutes(&mut self, ty: &Type, variable: u32) -> Substituted {
        if *ty == Type::Variable(variable) {
            return Substituted::Valid;
        }
        if let Some(known) = self.find(variable).cloned() {
            if *ty == known {
                return Substituted::Valid;
            }
            if !self.fits(ty, &known) {
                return Substituted::Contradicts;
            }
            let general = most_general(ty, &known).clone();
            if !self.occurs(variable, &general) {
                self.set(variable, general);
            }
            return Substituted::Valid;
        }
        if self.occurs(variable, ty) {
            return Substituted::Recursive;
        }
        self.set(variable, ty.clone());
        Substituted::Valid
    }

    /// Whether the variable is a part of the type.
    fn occurs(&self, variable: u32, within: &Type) -> bool {
        match within {
            Type::Variable(other) if *other == variable => true,
            Type::Variable(other) => self.find(*other).is_some_and(|known| self.occurs(variable, known)),
            Type::List(element) => self.occurs(variable, element),
            Type::Map(entry) => self.occurs(variable, &entry.0) || self.occurs(variable, &entry.1),
            Type::Opaque(opaque) => opaque.params.iter().any(|param| self.occurs(variable, param)),
            Type::Type(Some(inner)) => self.occurs(variable, inner),
            _ => false,
        }
    }

    /// The type with all that is known about its variables.
    pub(super) fn resolve(&self, ty: &Type, unbound: Unbound) -> Type {
        match ty {
            Type::Variable(variable) => match self.find(*variable) {
                Some(known) => self.resolve(known, unbound),
                None if unbound == Unbound::Dyn => Type::Dyn,
                None => ty.clone(),
            },
            Type::List(element) => Type::list(self.resolve(element, unbound)),
            Type::Map(entry) => Type::map(self.resolve(&entry.0, unbound), self.resolve(&entry.1, unbound)),
            Type::Opaque(opaque) if !opaque.params.is_empty() => Type::Opaque(Arc::new(OpaqueType {
                name: opaque.name.clone(),
                params: opaque.params.iter().map(|param| self.resolve(param, unbound)).collect(),
            })),
            Type::Type(Some(inner)) => Type::type_of(self.resolve(inner, unbound)),
            other => other.clone(),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Substituted {
    Valid,
    Contradicts,
    Recursive,
}

fn nullable(ty: &Type) -> bool {
    matches!(
        ty,
        Type::Null
            | Type::Wrapper(_)
            | Type::Opaque(_)
            | Type::Struct(_)
            | Type::Object(_)
            | Type::Duration
            | Type::Timestamp
    )
}

/// The less specific of two types that fit each other.
pub(super) fn most_general<'t>(t1: &'t Type, t2: &'t Type) -> &'t Type {
    if equal_or_less_specific(t1, t2) { t1 } else { t2 }
}

fn equal_or_less_specific(t1: &Type, t2: &Type) -> bool {
    match (t1, t2) {
        (Type::Dyn | Type::Variable(_), _) => true,
        (_, Type::Dyn | Type::Variable(_)) => false,
        (Type::Opaque(a), Type::Opaque(b)) => {
            a.name == b.name
                && a.params.len() == b.params.len()
                && a.params.iter().zip(&b.params).all(|(a, b)| equal_or_less_specific(a, b))
        }
        (Type::List(a), Type::List(b)) => equal_or_less_specific(a, b),
        (Type::Map(a), Type::Map(b)) => equal_or_less_specific(&a.0, &b.0) && equal_or_less_specific(&a.1, &b.1),
        (Type::Type(_), Type::Type(_)) => true,
        _ => t1 == t2,
    }
}
