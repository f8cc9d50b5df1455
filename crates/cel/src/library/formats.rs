//! `format.dns1123Label().validate(…)` and `format.named(…)`: Kubernetes' own validations as values.

use super::charges;
use super::named_format::{self, NamedFormat};
use super::{CallContext, Library, Overload};
use crate::cost::{CallEstimate, CostEstimate, REGEX_STRING_LENGTH_COST_FACTOR, STRING_TRAVERSAL_COST_FACTOR};
use crate::error::EvalError;
use crate::types::Type;
use crate::value::{Opaque, Value};

const FORMAT_TYPE: &str = "kubernetes.NamedFormat";

/// The longest name that estimates of `==` count with.
const MAX_FORMAT_SIZE: u64 = 64;

/// The length of pattern that estimates of `validate` count with, whatever the format.
const MAX_NAME_FORMAT_REGEX_SIZE: f64 = 128.0;

/// A named format as a value.
#[derive(Debug)]
struct Format(&'static NamedFormat);

impl Opaque for Format {
    fn type_name(&self) -> &str {
        FORMAT_TYPE
    }

    fn cel_type(&self) -> Type {
        Type::structure(FORMAT_TYPE)
    }

    fn equals(&self, other: &dyn Opaque) -> bool {
        (other as &dyn std::any::Any).downcast_ref::<Self>().is_some_and(|other| other.0.name == self.0.name)
    }
}

/// Named formats, as of Kubernetes 1.31.
pub fn format() -> Library {
    let format = || Type::structure(FORMAT_TYPE);
    let library = Library::new("kubernetes.format")
        .declare_type(FORMAT_TYPE, format())
        .equality_estimate(FORMAT_TYPE, |_, _, _| {
            let cost = CostEstimate { min: 1, max: MAX_FORMAT_SIZE };
            Some(CallEstimate::cost(cost.multiply_by_cost_factor(STRING_TRAVERSAL_COST_FACTOR)))
        })
        .overload(
            "format.named",
            Overload::global("format-named", [Type::String], Type::optional(format()), named)
                .with_cost(charges::nominal)
                .with_estimate(charges::nominal_estimate),
        )
        .overload(
            "validate",
            Overload::member(
                "format-validate",
                [format(), Type::String],
                Type::optional(Type::list(Type::String)),
                validate,
            )
            .with_cost(|args, _| {
                let [format, text] = args else { return None };
                let format: &Format = format.as_opaque()?;
                Some(charges::match_cost(text.cost_size(), format.0.regex_size))
            })
            .with_estimate(|ctx, _, args| {
                let scan = ctx.size_of(args.first()?).multiply_by_cost_factor(STRING_TRAVERSAL_COST_FACTOR);
                let factor = MAX_NAME_FORMAT_REGEX_SIZE * REGEX_STRING_LENGTH_COST_FACTOR;
                Some(CallEstimate::cost(scan.multiply_by_cost_factor(factor)))
            }),
        );
    macro_rules! constants {
        ($library:expr, $($function:literal => $name:literal,)*) => {
            $library$(.overload($function, Overload::global($function, [], format(), |_, _| constant($name))))*
        };
    }
    constants!(library,
        "format.dns1123Label" => "dns1123Label",
        "format.dns1123Subdomain" => "dns1123Subdomain",
        "format.dns1035Label" => "dns1035Label",
        "format.qualifiedName" => "qualifiedName",
        "format.dns1123LabelPrefix" => "dns1123LabelPrefix",
        "format.dns1123SubdomainPrefix" => "dns1123SubdomainPrefix",
        "format.dns1035LabelPrefix" => "dns1035LabelPrefix",
        "format.labelValue" => "labelValue",
        "format.uri" => "uri",
        "format.uuid" => "uuid",
        "format.byte" => "byte",
        "format.date" => "date",
        "format.datetime" => "datetime",
    )
}

fn constant<'a>(name: &str) -> Result<Value<'a>, EvalError> {
    named_format::named(name).map(|format| Value::opaque(Format(format))).ok_or_else(EvalError::no_such_overload)
}

fn named<'a>(args: &[Value<'a>], _: &mut CallContext<'_>) -> Result<Value<'a>, EvalError> {
    let [Value::String(name)] = args else { return Err(EvalError::no_such_overload()) };
    Ok(match named_format::named(name) {
        Some(format) => Value::some(Value::opaque(Format(format))),
        None => Value::none(),
    })
}

fn validate<'a>(args: &[Value<'a>], _: &mut CallContext<'_>) -> Result<Value<'a>, EvalError> {
    let [format, Value::String(text)] = args else { return Err(EvalError::no_such_overload()) };
    let format: &Format = format.as_opaque().ok_or_else(EvalError::no_such_overload)?;
    let wrong = (format.0.validate)(text);
    Ok(if wrong.is_empty() {
        Value::none()
    } else {
        Value::some(Value::list(wrong.into_iter().map(Value::string).collect()))
    })
}
