//! How long a certificate signing request is kept; upstream's durations.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;

use super::Status;

const HOUR: Duration = Duration::from_secs(60 * 60);
/// After approval, denial or failure: time enough to fetch the result.
const DECIDED: Duration = HOUR;
/// While nobody has decided.
const PENDING: Duration = Duration::from_secs(24 * 60 * 60);

/// How much longer a request is kept; zero when its time is over.
pub(super) fn remaining(created: Option<Timestamp>, status: &Status, now: Timestamp) -> Duration {
    let until = |since: Option<Timestamp>, kept: Duration| {
        let since = since.unwrap_or(now).as_second();
        let end = since.saturating_add_unsigned(kept.as_secs());
        // Over only after the very second has passed.
        Duration::from_secs(u64::try_from(end.saturating_sub(now.as_second()).saturating_add(1)).unwrap_or_default())
    };
    if status.conditions.is_empty() {
        return until(created, PENDING);
    }
    let decided = status.conditions.iter().filter(|c| matches!(c.kind.as_str(), "Approved" | "Denied" | "Failed"));
    let by_decision = decided.map(|condition| until(condition.last_update_time, DECIDED)).min();
    let by_expiry = certificate_end(&status.certificate).map(|end| until(Some(end), Duration::ZERO));
    by_decision.into_iter().chain(by_expiry).min().unwrap_or(PENDING)
}

fn certificate_end(certificate: &str) -> Option<Timestamp> {
    let pem = String::from_utf8(STANDARD.decode(certificate).ok()?).ok()?;
    Timestamp::from_second(bailiwick_auth::pki::certificate_end_seconds(&pem)?).ok()
}

#[cfg(test)]
mod tests {
    use super::super::Condition;
    use super::*;

    const NOW: i64 = 1_800_000_000;

    fn ago(seconds: i64) -> Option<Timestamp> {
        Timestamp::from_second(NOW - seconds).ok()
    }

    fn left(created_ago: i64, conditions: &[(&str, i64)]) -> Duration {
        let conditions = conditions.iter().map(|(kind, seconds)| Condition {
            kind: (*kind).to_owned(),
            last_update_time: ago(*seconds),
            ..Condition::default()
        });
        let status = Status { conditions: conditions.collect(), certificate: String::new() };
        remaining(ago(created_ago), &status, Timestamp::from_second(NOW).expect("a time"))
    }

    #[test]
    fn undecided_requests_have_a_day_and_decided_ones_an_hour() {
        assert!(left(24 * 3600 - 1, &[]) > Duration::ZERO);
        assert_eq!(left(24 * 3600 + 2, &[]), Duration::ZERO);
        for kind in ["Approved", "Denied", "Failed"] {
            assert!(left(90_000, &[(kind, 3599)]) > Duration::ZERO, "{kind}");
            assert_eq!(left(90_000, &[(kind, 3602)]), Duration::ZERO, "{kind}");
        }
        assert!(left(90_000, &[("Other", 90_000)]) > Duration::ZERO, "a condition nobody knows decides nothing");
    }
}
