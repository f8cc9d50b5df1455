//! `ip(…)` and `cidr(…)`: addresses and prefixes with strict forms, so that two texts of one address cannot slip
//! through a comparison. Zones and IPv4-mapped addresses are refused.

use std::net::{IpAddr, Ipv4Addr};

use super::address::{self, Prefix};
use super::charges;
use super::go_text::quoted;
use super::{CallContext, Library, Overload};
use crate::cost::{
    CallEstimate, CostEstimate, EstimateContext, Node, STRING_TRAVERSAL_COST_FACTOR, SizeEstimate, scale,
};
use crate::error::EvalError;
use crate::types::Type;
use crate::value::{Opaque, Value};

const IP_TYPE: &str = "net.IP";
const CIDR_TYPE: &str = "net.CIDR";

/// What `ip(…)` makes.
#[derive(Debug, PartialEq)]
struct Ip(IpAddr);

/// What `cidr(…)` makes.
#[derive(Debug, PartialEq)]
struct Cidr(Prefix);

impl Opaque for Ip {
    fn type_name(&self) -> &str {
        IP_TYPE
    }

    fn cel_type(&self) -> Type {
        Type::opaque(IP_TYPE)
    }

    fn equals(&self, other: &dyn Opaque) -> bool {
        (other as &dyn std::any::Any).downcast_ref() == Some(self)
    }

    fn size(&self) -> Option<u64> {
        Some(if self.0.is_ipv4() { 4 } else { 16 })
    }
}

impl Opaque for Cidr {
    fn type_name(&self) -> &str {
        CIDR_TYPE
    }

    fn cel_type(&self) -> Type {
        Type::opaque(CIDR_TYPE)
    }

    fn equals(&self, other: &dyn Opaque) -> bool {
        (other as &dyn std::any::Any).downcast_ref() == Some(self)
    }

    fn size(&self) -> Option<u64> {
        Some(u64::from(self.0.bits.div_ceil(8)))
    }
}

/// Addresses, as of Kubernetes 1.30.
pub fn ip() -> Library {
    let ip = || Type::opaque(IP_TYPE);
    let accessor = |id, implementation| {
        Overload::member(id, [ip()], Type::Bool, implementation)
            .with_cost(charges::nominal)
            .with_estimate(charges::nominal_estimate)
    };
    Library::new("kubernetes.net.ip")
        .declare_type(IP_TYPE, ip())
        .equality_estimate(IP_TYPE, charges::nominal_estimate)
        .overload(
            "ip",
            Overload::global("string_to_ip", [Type::String], ip(), string_to_ip)
                .with_cost(charges::scan)
                .with_estimate(charges::scan_argument),
        )
        .overload(
            "isIP",
            Overload::global("is_ip", [Type::String], Type::Bool, is_ip)
                .with_cost(charges::scan)
                .with_estimate(charges::scan_argument),
        )
        .overload(
            "ip.isCanonical",
            Overload::global("ip_is_canonical", [Type::String], Type::Bool, is_canonical)
                .with_cost(charges::scan_twice)
                .with_estimate(|ctx, _, args| {
                    let size = ctx.size_of(args.first()?);
                    Some(CallEstimate::cost(size.multiply_by_cost_factor(2.0 * STRING_TRAVERSAL_COST_FACTOR)))
                }),
        )
        .overload("family", Overload { result: Type::Int, ..accessor("ip_family", family) })
        .overload("isUnspecified", accessor("ip_is_unspecified", |args, _| bool_of(args, |ip| ip.is_unspecified())))
        .overload("isLoopback", accessor("ip_is_loopback", |args, _| bool_of(args, |ip| ip.is_loopback())))
        .overload(
            "isLinkLocalMulticast",
            accessor("ip_is_link_local_multicast", |args, _| bool_of(args, is_link_local_multicast)),
        )
        .overload(
            "isLinkLocalUnicast",
            accessor("ip_is_link_local_unicast", |args, _| bool_of(args, is_link_local_unicast)),
        )
        .overload("isGlobalUnicast", accessor("ip_is_global_unicast", |args, _| bool_of(args, is_global_unicast)))
        .overload(
            "string",
            Overload::global("ip_to_string", [ip()], Type::String, |args, _| {
                Ok(Value::string(ip_of(args)?.to_string()))
            }),
        )
}

/// Prefixes, as of Kubernetes 1.30.
pub fn cidr() -> Library {
    let cidr = || Type::opaque(CIDR_TYPE);
    let accessor = |id, result, implementation| {
        Overload::member(id, [cidr()], result, implementation)
            .with_cost(charges::nominal)
            .with_estimate(charges::nominal_estimate)
    };
    let parse = |id, result, implementation| {
        Overload::global(id, [Type::String], result, implementation)
            .with_cost(charges::scan)
            .with_estimate(charges::scan_argument)
    };
    let relation = |id, other, implementation| Overload::member(id, [cidr(), other], Type::Bool, implementation);
    Library::new("kubernetes.net.cidr")
        .declare_type(CIDR_TYPE, cidr())
        .equality_estimate(CIDR_TYPE, charges::nominal_estimate)
        .overload("cidr", parse("string_to_cidr", cidr(), string_to_cidr))
        .overload("isCIDR", parse("is_cidr", Type::Bool, is_cidr))
        .overload(
            "containsIP",
            relation("cidr_contains_ip_string", Type::String, contains_ip_string)
                .with_cost(|args, _| Some(compare_cost(args)?.saturating_add(other_cost(args)?)))
                .with_estimate(|ctx, _, args| {
                    Some(CallEstimate::cost(compare_estimate().add(other_estimate(ctx, args)?)))
                }),
        )
        .overload(
            "containsIP",
            relation("cidr_contains_ip_ip", Type::opaque(IP_TYPE), contains_ip)
                .with_cost(|args, _| compare_cost(args))
                .with_estimate(|_, _, _| Some(CallEstimate::cost(compare_estimate()))),
        )
        .overload(
            "containsCIDR",
            relation("cidr_contains_cidr_string", Type::String, contains_cidr_string)
                .with_cost(|args, _| {
                    Some(compare_cost(args)?.saturating_add(mask_cost(args)?).saturating_add(other_cost(args)?))
                })
                .with_estimate(|ctx, _, args| {
                    Some(CallEstimate::cost(compare_estimate().add(mask_estimate()).add(other_estimate(ctx, args)?)))
                }),
        )
        .overload(
            "containsCIDR",
            relation("cidr_contains_cidr", cidr(), contains_cidr)
                .with_cost(|args, _| Some(compare_cost(args)?.saturating_add(mask_cost(args)?)))
                .with_estimate(|_, _, _| Some(CallEstimate::cost(compare_estimate().add(mask_estimate())))),
        )
        .overload("ip", accessor("cidr_ip", Type::opaque(IP_TYPE), |args, _| Ok(Value::opaque(Ip(cidr_of(args)?.ip)))))
        .overload(
            "prefixLength",
            accessor("cidr_prefix_length", Type::Int, |args, _| Ok(Value::Int(i64::from(cidr_of(args)?.bits)))),
        )
        .overload("masked", accessor("cidr_masked", cidr(), |args, _| Ok(Value::opaque(Cidr(cidr_of(args)?.masked())))))
        .overload(
            "string",
            Overload::global("cidr_to_string", [cidr()], Type::String, |args, _| {
                Ok(Value::string(cidr_of(args)?.to_string()))
            }),
        )
}

fn ip_of(args: &[Value<'_>]) -> Result<IpAddr, EvalError> {
    args.first().and_then(Value::as_opaque::<Ip>).map(|ip| ip.0).ok_or_else(EvalError::no_such_overload)
}

fn cidr_of(args: &[Value<'_>]) -> Result<Prefix, EvalError> {
    args.first().and_then(Value::as_opaque::<Cidr>).map(|cidr| cidr.0).ok_or_else(EvalError::no_such_overload)
}

fn text_of<'v>(args: &'v [Value<'_>], at: usize) -> Result<&'v str, EvalError> {
    args.get(at).and_then(Value::as_str).ok_or_else(EvalError::no_such_overload)
}

fn bool_of<'a>(args: &[Value<'a>], test: fn(&IpAddr) -> bool) -> Result<Value<'a>, EvalError> {
    Ok(Value::Bool(test(&ip_of(args)?)))
}

fn is_mapped(ip: IpAddr) -> bool {
    matches!(ip, IpAddr::V6(ip) if ip.to_ipv4_mapped().is_some())
}

fn parse_ip(text: &str) -> Result<IpAddr, EvalError> {
    let address = address::parse_address(text).map_err(|why| {
        EvalError::new(format!("IP Address {} parse error during conversion from string: {why}", quoted(text)))
    })?;
    if address.zone.is_some() {
        return Err(EvalError::new(format!("IP address {} with zone value is not allowed", quoted(text))));
    }
    if is_mapped(address.ip) {
        return Err(EvalError::new(format!("IPv4-mapped IPv6 address {} is not allowed", quoted(text))));
    }
    Ok(address.ip)
}

fn parse_cidr(text: &str) -> Result<Prefix, EvalError> {
    // Upstream wraps the error twice.
    const CONTEXT: &str = "network address parse error during conversion from string";
    let prefix = address::parse_prefix(text).map_err(|why| EvalError::new(format!("{CONTEXT}: {CONTEXT}: {why}")))?;
    if is_mapped(prefix.ip) {
        return Err(EvalError::new(format!("{CONTEXT}: IPv4-mapped IPv6 address {} is not allowed", quoted(text))));
    }
    Ok(prefix)
}

fn string_to_ip<'a>(args: &[Value<'a>], _: &mut CallContext<'_>) -> Result<Value<'a>, EvalError> {
    Ok(Value::opaque(Ip(parse_ip(text_of(args, 0)?)?)))
}

fn is_ip<'a>(args: &[Value<'a>], _: &mut CallContext<'_>) -> Result<Value<'a>, EvalError> {
    Ok(Value::Bool(parse_ip(text_of(args, 0)?).is_ok()))
}

fn is_canonical<'a>(args: &[Value<'a>], _: &mut CallContext<'_>) -> Result<Value<'a>, EvalError> {
    let text = text_of(args, 0)?;
    Ok(Value::Bool(parse_ip(text)?.to_string() == text))
}

fn family<'a>(args: &[Value<'a>], _: &mut CallContext<'_>) -> Result<Value<'a>, EvalError> {
    Ok(Value::Int(if ip_of(args)?.is_ipv4() { 4 } else { 6 }))
}

fn is_link_local_unicast(ip: &IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    }
}

fn is_link_local_multicast(ip: &IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => matches!(ip.octets(), [224, 0, 0, _]),
        // The low four bits of the second byte are the scope; 2 is link-local.
        IpAddr::V6(ip) => matches!(ip.octets(), [0xff, scope, ..] if scope & 0x0f == 2),
    }
}

fn is_global_unicast(ip: &IpAddr) -> bool {
    !(ip.is_unspecified()
        || ip.is_loopback()
        || ip.is_multicast()
        || is_link_local_unicast(ip)
        || *ip == IpAddr::V4(Ipv4Addr::BROADCAST))
}

fn string_to_cidr<'a>(args: &[Value<'a>], _: &mut CallContext<'_>) -> Result<Value<'a>, EvalError> {
    Ok(Value::opaque(Cidr(parse_cidr(text_of(args, 0)?)?)))
}

fn is_cidr<'a>(args: &[Value<'a>], _: &mut CallContext<'_>) -> Result<Value<'a>, EvalError> {
    Ok(Value::Bool(parse_cidr(text_of(args, 0)?).is_ok()))
}

fn contains_ip_string<'a>(args: &[Value<'a>], _: &mut CallContext<'_>) -> Result<Value<'a>, EvalError> {
    // Upstream hides what is wrong with the text.
    let ip = parse_ip(text_of(args, 1)?).map_err(|_| EvalError::no_such_overload())?;
    Ok(Value::Bool(cidr_of(args)?.contains(ip)))
}

fn contains_ip<'a>(args: &[Value<'a>], _: &mut CallContext<'_>) -> Result<Value<'a>, EvalError> {
    Ok(Value::Bool(cidr_of(args)?.contains(ip_of(args.get(1..).unwrap_or_default())?)))
}

fn contains_cidr_string<'a>(args: &[Value<'a>], _: &mut CallContext<'_>) -> Result<Value<'a>, EvalError> {
    Ok(Value::Bool(cidr_of(args)?.contains_prefix(&parse_cidr(text_of(args, 1)?)?)))
}

fn contains_cidr<'a>(args: &[Value<'a>], _: &mut CallContext<'_>) -> Result<Value<'a>, EvalError> {
    Ok(Value::Bool(cidr_of(args)?.contains_prefix(&cidr_of(args.get(1..).unwrap_or_default())?)))
}

/// Comparing bytes up to the length of the prefix.
fn compare_cost(args: &[Value<'_>]) -> Option<u64> {
    Some(scale(args.first()?.cost_size() * 2, STRING_TRAVERSAL_COST_FACTOR))
}

/// Masking the prefix and comparing lengths.
fn mask_cost(args: &[Value<'_>]) -> Option<u64> {
    Some(scale(args.first()?.cost_size(), STRING_TRAVERSAL_COST_FACTOR) + 1)
}

/// Parsing the other side.
fn other_cost(args: &[Value<'_>]) -> Option<u64> {
    Some(scale(args.get(1)?.cost_size(), STRING_TRAVERSAL_COST_FACTOR))
}

/// The bytes of an address of either family.
const ADDRESS_SIZE: SizeEstimate = SizeEstimate { min: 4, max: 16 };

fn compare_estimate() -> CostEstimate {
    ADDRESS_SIZE.add(ADDRESS_SIZE).multiply_by_cost_factor(STRING_TRAVERSAL_COST_FACTOR)
}

fn mask_estimate() -> CostEstimate {
    ADDRESS_SIZE.multiply_by_cost_factor(STRING_TRAVERSAL_COST_FACTOR).add(CostEstimate::fixed(1))
}

fn other_estimate(ctx: &EstimateContext<'_>, args: &[Node<'_>]) -> Option<CostEstimate> {
    Some(ctx.size_of(args.first()?).multiply_by_cost_factor(STRING_TRAVERSAL_COST_FACTOR))
}
