//! URL query strings, read as leniently as upstream reads them, and typed access to their parameters.

use crate::status::{ApiError, ApiResult};

/// Pairs read from one query; more are ignored. No API call has a tenth of it.
const MAX_PAIRS: usize = 256;

/// The decoded parameters of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    pairs: Vec<(String, String)>,
}

impl Query {
    /// Decodes what follows the `?`. Pairs that cannot be decoded are left out, as upstream does.
    pub fn parse(raw: &str) -> Self {
        let pairs = raw
            .split('&')
            .filter(|pair| !pair.is_empty() && !pair.contains(';'))
            .filter_map(|pair| {
                let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
                Some((decode(key)?, decode(value)?))
            })
            .take(MAX_PAIRS)
            .collect();
        Self { pairs }
    }

    /// The same query with a parameter in front of all others.
    pub fn with(mut self, key: &str, value: &str) -> Self {
        self.pairs.insert(0, (key.to_owned(), value.to_owned()));
        self
    }

    /// The first value of a parameter.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.pairs.iter().find(|(k, _)| k == key).map(|(_, v)| v.as_str())
    }

    /// Every value of a parameter.
    pub fn all<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        self.pairs.iter().filter(move |(k, _)| k == key).map(|(_, v)| v.as_str())
    }

    /// The first value, empty when absent.
    pub fn text(&self, key: &str) -> String {
        self.get(key).unwrap_or_default().to_owned()
    }

    /// A boolean parameter: only `0` and `false` are false; even an empty value is true.
    pub fn flag(&self, key: &str) -> Option<bool> {
        self.get(key).map(|value| value != "0" && !value.eq_ignore_ascii_case("false"))
    }

    /// An integer parameter; anything else in it is a bad request.
    pub fn integer(&self, key: &str) -> ApiResult<Option<i64>> {
        self.get(key)
            .map(|value| {
                value
                    .parse()
                    .map_err(|e: std::num::ParseIntError| ApiError::bad_request(go_number_error("ParseInt", value, &e)))
            })
            .transpose()
    }
}

/// How upstream's number parser words its failures.
pub(crate) fn go_number_error(function: &str, value: &str, error: &std::num::ParseIntError) -> String {
    use std::num::IntErrorKind::{NegOverflow, PosOverflow};
    let why = match error.kind() {
        PosOverflow | NegOverflow => "value out of range",
        _ => "invalid syntax",
    };
    format!("strconv.{function}: parsing {value:?}: {why}")
}

/// Percent and plus decoding; `None` for a broken escape or text that is not UTF-8.
fn decode(text: &str) -> Option<String> {
    if !text.contains(['%', '+']) {
        return Some(text.to_owned());
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digit = |b: u8| char::from(b).to_digit(16).and_then(|d| u8::try_from(d).ok());
                let high = rest.next().and_then(digit)?;
                let low = rest.next().and_then(digit)?;
                high << 4 | low
            }
            other => other,
        });
    }
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn parameters_are_decoded() {
        let query = Query::parse("a=1&b=x+y%20%C3%A9&a=2&flag&broken=%zz&half=%4&semi=1;x");
        assert_eq!(query.get("a"), Some("1"));
        assert_eq!(query.all("a").collect::<Vec<_>>(), ["1", "2"]);
        assert_eq!(query.get("b"), Some("x y é"));
        assert_eq!(query.get("flag"), Some(""));
        assert_eq!((query.get("broken"), query.get("half"), query.get("semi")), (None, None, None));
    }

    #[test]
    fn flags_are_true_unless_they_say_no() {
        let query = Query::parse("a&b=1&c=nonsense&d=0&e=FALSE");
        let flags: Vec<_> = ["a", "b", "c", "d", "e", "f"].iter().map(|k| query.flag(k)).collect();
        assert_eq!(flags, [Some(true), Some(true), Some(true), Some(false), Some(false), None]);
    }

    #[test]
    fn integers_fail_in_upstreams_words() {
        let query = Query::parse("a=x&b=99999999999999999999&c=&d=-1&e=%2B7");
        let text = |key| query.integer(key).unwrap_err().message;
        assert_eq!(text("a"), "strconv.ParseInt: parsing \"x\": invalid syntax");
        assert_eq!(text("b"), "strconv.ParseInt: parsing \"99999999999999999999\": value out of range");
        assert_eq!(text("c"), "strconv.ParseInt: parsing \"\": invalid syntax");
        assert_eq!((query.integer("d"), query.integer("e"), query.integer("f")), (Ok(Some(-1)), Ok(Some(7)), Ok(None)));
    }

    proptest! {
        #[test]
        fn no_query_panics(raw in "\\PC*") {
            let _ = Query::parse(&raw);
        }
    }
}
