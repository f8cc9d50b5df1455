//! `url(…)`, `isURL(…)` and the parts of a URL.

use super::charges;
use super::go_url::{self, Url};
use super::{CallContext, Library, Overload};
use crate::cost::{CallEstimate, CostEstimate, EstimateContext, Node, STRING_TRAVERSAL_COST_FACTOR, SizeEstimate};
use crate::error::EvalError;
use crate::types::Type;
use crate::value::{Key, Map, Opaque, Value};

const URL_TYPE: &str = "kubernetes.URL";

impl Opaque for Url {
    fn type_name(&self) -> &str {
        URL_TYPE
    }

    fn cel_type(&self) -> Type {
        Type::structure(URL_TYPE)
    }

    fn equals(&self, other: &dyn Opaque) -> bool {
        (other as &dyn std::any::Any).downcast_ref::<Self>().is_some_and(|other| self.to_string() == other.to_string())
    }
}

/// URLs, as of Kubernetes 1.23.
pub fn urls() -> Library {
    let part = |id, implementation| {
        Overload::member(id, [Type::structure(URL_TYPE)], Type::String, implementation)
            .with_cost(charges::nominal)
            .with_estimate(charges::nominal_estimate)
    };
    Library::new("kubernetes.urls")
        .declare_type(URL_TYPE, Type::structure(URL_TYPE))
        .equality_estimate(URL_TYPE, equality_estimate)
        .overload(
            "url",
            Overload::global("string_to_url", [Type::String], Type::structure(URL_TYPE), url)
                .with_cost(charges::scan)
                .with_estimate(charges::scan_argument_sized),
        )
        .overload("isURL", Overload::global("is_url_string", [Type::String], Type::Bool, is_url))
        .overload("getScheme", part("url_get_scheme", |args, _| Ok(Value::string(of(args)?.scheme.clone()))))
        .overload("getHost", part("url_get_host", |args, _| Ok(Value::string(of(args)?.host()))))
        .overload("getHostname", part("url_get_hostname", |args, _| Ok(Value::string(of(args)?.hostname()))))
        .overload("getPort", part("url_get_port", |args, _| Ok(Value::string(of(args)?.port()))))
        .overload("getEscapedPath", part("url_get_escaped_path", |args, _| Ok(Value::string(of(args)?.escaped_path()))))
        .overload(
            "getQuery",
            Overload { result: Type::map(Type::String, Type::list(Type::String)), ..part("url_get_query", query) },
        )
}

fn of<'v>(args: &'v [Value<'_>]) -> Result<&'v Url, EvalError> {
    args.first().and_then(Value::as_opaque).ok_or_else(EvalError::no_such_overload)
}

fn url<'a>(args: &[Value<'a>], _: &mut CallContext<'_>) -> Result<Value<'a>, EvalError> {
    let [Value::String(text)] = args else { return Err(EvalError::no_such_overload()) };
    go_url::parse_absolute(text)
        .map(Value::opaque)
        .map_err(|why| EvalError::new(format!("URL parse error during conversion from string: {why}")))
}

fn is_url<'a>(args: &[Value<'a>], _: &mut CallContext<'_>) -> Result<Value<'a>, EvalError> {
    let [Value::String(text)] = args else { return Err(EvalError::no_such_overload()) };
    Ok(Value::Bool(go_url::check_request_uri(text).is_ok()))
}

fn query<'a>(args: &[Value<'a>], _: &mut CallContext<'_>) -> Result<Value<'a>, EvalError> {
    let entries = of(args)?
        .query()
        .into_iter()
        .map(|(key, values)| (Key::String(key.into()), Value::list(values.into_iter().map(Value::string).collect())));
    Ok(Value::Map(Map::owned(entries.collect())))
}

/// Upstream takes the size of the right side for both.
fn equality_estimate(_: &EstimateContext<'_>, _: Option<&Node<'_>>, args: &[Node<'_>]) -> Option<CallEstimate> {
    let [_, right] = args else { return None };
    let size = right.computed_size.unwrap_or(SizeEstimate::fixed(1));
    let cost = CostEstimate { min: 1, max: size.max }.multiply_by_cost_factor(STRING_TRAVERSAL_COST_FACTOR);
    Some(CallEstimate::cost(cost))
}
