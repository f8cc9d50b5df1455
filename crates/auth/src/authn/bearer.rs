//! The bearer token of an `Authorization` header.

/// What an `Authorization` header carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bearer<'a> {
    Token(&'a str),
    /// Another scheme, or none: as if the header were not there.
    Absent,
    /// More than one space before the token. Ignored like upstream does, with a warning to the client.
    ExtraSpace,
}

/// The warning that goes with [`Bearer::ExtraSpace`].
pub const EXTRA_SPACE_WARNING: &str =
    "the provided Authorization header contains extra space before the bearer token, and is ignored";

/// Reads a header value.
pub fn parse(authorization: &str) -> Bearer<'_> {
    let mut parts = authorization.trim().splitn(3, ' ');
    let scheme = parts.next().unwrap_or_default();
    match parts.next() {
        Some(token) if scheme.eq_ignore_ascii_case("bearer") => match (token, parts.next()) {
            ("", Some(_)) => Bearer::ExtraSpace,
            ("", None) => Bearer::Absent,
            (token, _) => Bearer::Token(token),
        },
        _ => Bearer::Absent,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_bearer_credentials_count() {
        assert_eq!(parse("Bearer abc"), Bearer::Token("abc"));
        assert_eq!(parse("  bEaReR abc trailing words"), Bearer::Token("abc"));
        assert_eq!(parse("Basic abc"), Bearer::Absent);
        assert_eq!(parse("Bearer"), Bearer::Absent);
        assert_eq!(parse(""), Bearer::Absent);
        assert_eq!(parse("Bearer  abc"), Bearer::ExtraSpace);
    }
}
