//! `quantity(…)`: resource quantities that expressions compare and add.

use bailiwick_quantity::Quantity;

use super::charges;
use super::{CallContext, Library, Overload};
use crate::error::EvalError;
use crate::types::Type;
use crate::value::{Opaque, Value};

const QUANTITY_TYPE: &str = "kubernetes.Quantity";

impl Opaque for Quantity {
    fn type_name(&self) -> &str {
        QUANTITY_TYPE
    }

    fn cel_type(&self) -> Type {
        Type::structure(QUANTITY_TYPE)
    }

    fn equals(&self, other: &dyn Opaque) -> bool {
        (other as &dyn std::any::Any).downcast_ref() == Some(self)
    }
}

/// Quantities, as of Kubernetes 1.28.
pub fn quantity() -> Library {
    let quantity = || Type::structure(QUANTITY_TYPE);
    let parse = |id, result, implementation| {
        Overload::global(id, [Type::String], result, implementation)
            .with_cost(charges::scan)
            .with_estimate(charges::scan_argument)
    };
    let nominal = |overload: Overload| overload.with_cost(charges::nominal).with_estimate(charges::nominal_estimate);
    let accessor = |id, result, implementation| nominal(Overload::member(id, [quantity()], result, implementation));
    let compare =
        |id, result, implementation| nominal(Overload::member(id, [quantity(), quantity()], result, implementation));
    let arithmetic =
        |id, other, implementation| nominal(Overload::member(id, [quantity(), other], quantity(), implementation));
    Library::new("kubernetes.quantity")
        .declare_type(QUANTITY_TYPE, quantity())
        .equality_estimate(QUANTITY_TYPE, charges::nominal_estimate)
        .overload("quantity", parse("string_to_quantity", quantity(), make))
        .overload("isQuantity", parse("is_quantity_string", Type::Bool, is_quantity))
        // The only one that is not called on its receiver.
        .overload(
            "sign",
            nominal(Overload::global("quantity_sign", [quantity()], Type::Int, |args, _| {
                Ok(Value::Int(i64::from(of(args, 0)?.sign())))
            })),
        )
        .overload(
            "isGreaterThan",
            compare("quantity_is_greater_than", Type::Bool, |args, _| Ok(Value::Bool(of(args, 0)? > of(args, 1)?))),
        )
        .overload(
            "isLessThan",
            compare("quantity_is_less_than", Type::Bool, |args, _| Ok(Value::Bool(of(args, 0)? < of(args, 1)?))),
        )
        .overload(
            "compareTo",
            compare("quantity_compare_to", Type::Int, |args, _| Ok(Value::Int(of(args, 0)?.cmp(of(args, 1)?) as i64))),
        )
        .overload(
            "asApproximateFloat",
            accessor("quantity_get_float", Type::Double, |args, _| {
                Ok(Value::Double(of(args, 0)?.as_approximate_float()))
            }),
        )
        .overload(
            "asInteger",
            accessor("quantity_get_int", Type::Int, |args, _| {
                let integer = of(args, 0)?.as_int64();
                integer.map(Value::Int).ok_or_else(|| EvalError::new("cannot convert value to integer"))
            }),
        )
        .overload(
            "isInteger",
            accessor("quantity_is_integer", Type::Bool, |args, _| Ok(Value::Bool(of(args, 0)?.as_int64().is_some()))),
        )
        .overload(
            "add",
            arithmetic("quantity_add", quantity(), |args, _| Ok(Value::opaque(of(args, 0)?.add(of(args, 1)?)))),
        )
        .overload(
            "add",
            arithmetic("quantity_add_int", Type::Int, |args, _| Ok(Value::opaque(of(args, 0)?.add(&integer(args)?)))),
        )
        .overload(
            "sub",
            arithmetic("quantity_sub", quantity(), |args, _| Ok(Value::opaque(of(args, 0)?.sub(of(args, 1)?)))),
        )
        .overload(
            "sub",
            arithmetic("quantity_sub_int", Type::Int, |args, _| Ok(Value::opaque(of(args, 0)?.sub(&integer(args)?)))),
        )
}

fn of<'v>(args: &'v [Value<'_>], at: usize) -> Result<&'v Quantity, EvalError> {
    args.get(at).and_then(Value::as_opaque).ok_or_else(EvalError::no_such_overload)
}

fn integer(args: &[Value<'_>]) -> Result<Quantity, EvalError> {
    args.get(1).and_then(Value::as_int).map(Quantity::from_integer).ok_or_else(EvalError::no_such_overload)
}

fn make<'a>(args: &[Value<'a>], _: &mut CallContext<'_>) -> Result<Value<'a>, EvalError> {
    let [Value::String(text)] = args else { return Err(EvalError::no_such_overload()) };
    text.parse::<Quantity>().map(Value::opaque).map_err(|why| EvalError::new(why.to_string()))
}

fn is_quantity<'a>(args: &[Value<'a>], _: &mut CallContext<'_>) -> Result<Value<'a>, EvalError> {
    let [Value::String(text)] = args else { return Err(EvalError::no_such_overload()) };
    Ok(Value::Bool(text.parse::<Quantity>().is_ok()))
}
