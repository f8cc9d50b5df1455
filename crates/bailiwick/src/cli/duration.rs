//! Durations on the command line, as kube-apiserver takes them: `2m0s`, `1.5h`, `0s`.

use std::time::Duration;

/// Reads a duration that is not negative.
pub fn parse(text: &str) -> Result<Duration, String> {
    let invalid = || format!("{text:?} is no duration such as 2m0s");
    let parsed = if text == "0" { bailiwick_cel::Duration::parse("0s") } else { bailiwick_cel::Duration::parse(text) };
    let nanos = parsed.ok_or_else(invalid)?.nanos;
    u64::try_from(nanos).map(Duration::from_nanos).map_err(|_| invalid())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gos_notation_is_read() {
        assert_eq!(parse("2m0s"), Ok(Duration::from_secs(120)));
        assert_eq!(parse("1.5h"), Ok(Duration::from_secs(5400)));
        assert_eq!(parse("0"), Ok(Duration::ZERO));
        assert!(parse("-1s").is_err());
        assert!(parse("10").is_err());
    }
}
