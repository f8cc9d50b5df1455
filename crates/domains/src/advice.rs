//! What to do, in words for the owner of a domain: how long a "does not exist" is remembered, when a change will be seen
//! everywhere, and in which order to change things so that nobody notices.

mod negative;
mod schedule;

pub use negative::{NegativeCaching, RESOLVER_CAPS, ResolverCap};
pub use schedule::{Forecast, Schedule, Step, forecast_change, forecast_nameservers, forecast_new};

/// Seconds as people say them: `15 minutes`, `1 hour and 30 minutes`, `2 days`.
pub fn words(seconds: u32) -> String {
    const UNITS: [(u32, &str); 4] = [(86_400, "day"), (3_600, "hour"), (60, "minute"), (1, "second")];
    let mut rest = seconds;
    let mut parts = Vec::new();
    for (size, unit) in UNITS {
        let count = rest / size;
        rest %= size;
        if count > 0 {
            parts.push(format!("{count} {unit}{}", if count == 1 { "" } else { "s" }));
        }
    }
    // Two units are exact enough for a person.
    parts.truncate(2);
    if parts.is_empty() { "0 seconds".to_owned() } else { parts.join(" and ") }
}

#[cfg(test)]
mod tests {
    use super::words;

    #[test]
    fn seconds_in_words() {
        for (seconds, text) in [
            (0, "0 seconds"),
            (1, "1 second"),
            (300, "5 minutes"),
            (900, "15 minutes"),
            (3600, "1 hour"),
            (5400, "1 hour and 30 minutes"),
            (86_400, "1 day"),
            (172_800, "2 days"),
            (90_061, "1 day and 1 hour"),
        ] {
            assert_eq!(words(seconds), text);
        }
    }
}
