//! `semver(…)`: semantic versions that expressions compare.

use super::charges;
use super::semver::Version;
use super::{CallContext, Library, Overload};
use crate::error::EvalError;
use crate::types::Type;
use crate::value::{Opaque, Value};

const SEMVER_TYPE: &str = "kubernetes.Semver";

impl Opaque for Version {
    fn type_name(&self) -> &str {
        SEMVER_TYPE
    }

    fn cel_type(&self) -> Type {
        Type::structure(SEMVER_TYPE)
    }

    fn equals(&self, other: &dyn Opaque) -> bool {
        (other as &dyn std::any::Any).downcast_ref() == Some(self)
    }
}

/// Versions, as of Kubernetes 1.33 with normalization.
pub fn semver() -> Library {
    let semver = || Type::structure(SEMVER_TYPE);
    let parse = |overload: Overload| overload.with_cost(charges::scan).with_estimate(charges::scan_argument);
    let nominal = |overload: Overload| overload.with_cost(charges::nominal).with_estimate(charges::nominal_estimate);
    let compare =
        |id, result, implementation| nominal(Overload::member(id, [semver(), semver()], result, implementation));
    let part = |id, implementation| nominal(Overload::member(id, [semver()], Type::Int, implementation));
    Library::new("kubernetes.Semver")
        .declare_type(SEMVER_TYPE, semver())
        .equality_estimate(SEMVER_TYPE, charges::nominal_estimate)
        .overload("semver", parse(Overload::global("string_to_semver", [Type::String], semver(), make)))
        .overload(
            "semver",
            parse(Overload::global("string_bool_to_semver", [Type::String, Type::Bool], semver(), make)),
        )
        .overload("isSemver", parse(Overload::global("is_semver_string", [Type::String], Type::Bool, is_semver)))
        .overload(
            "isSemver",
            parse(Overload::global("is_semver_string_bool", [Type::String, Type::Bool], Type::Bool, is_semver)),
        )
        .overload(
            "isGreaterThan",
            compare("semver_is_greater_than", Type::Bool, |args, _| {
                let (a, b) = two(args)?;
                Ok(Value::Bool(a > b))
            }),
        )
        .overload(
            "isLessThan",
            compare("semver_is_less_than", Type::Bool, |args, _| {
                let (a, b) = two(args)?;
                Ok(Value::Bool(a < b))
            }),
        )
        .overload(
            "compareTo",
            compare("semver_compare_to", Type::Int, |args, _| {
                let (a, b) = two(args)?;
                Ok(Value::Int(a.cmp(b) as i64))
            }),
        )
        .overload("major", part("semver_major", |args, _| Ok(Value::Int(of(args, 0)?.major as i64))))
        .overload("minor", part("semver_minor", |args, _| Ok(Value::Int(of(args, 0)?.minor as i64))))
        .overload("patch", part("semver_patch", |args, _| Ok(Value::Int(of(args, 0)?.patch as i64))))
}

fn of<'v>(args: &'v [Value<'_>], at: usize) -> Result<&'v Version, EvalError> {
    args.get(at).and_then(Value::as_opaque).ok_or_else(EvalError::no_such_overload)
}

fn two<'v>(args: &'v [Value<'_>]) -> Result<(&'v Version, &'v Version), EvalError> {
    Ok((of(args, 0)?, of(args, 1)?))
}

fn parse(args: &[Value<'_>]) -> Result<Result<Version, String>, EvalError> {
    match args {
        [Value::String(text)] | [Value::String(text), Value::Bool(false)] => Ok(Version::parse(text)),
        [Value::String(text), Value::Bool(true)] => Ok(Version::parse_lenient(text)),
        _ => Err(EvalError::no_such_overload()),
    }
}

fn make<'a>(args: &[Value<'a>], _: &mut CallContext<'_>) -> Result<Value<'a>, EvalError> {
    parse(args)?.map(Value::opaque).map_err(EvalError::new)
}

fn is_semver<'a>(args: &[Value<'a>], _: &mut CallContext<'_>) -> Result<Value<'a>, EvalError> {
    Ok(Value::Bool(parse(args)?.is_ok()))
}
