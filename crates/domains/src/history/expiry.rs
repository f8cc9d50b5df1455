//! Warnings 30, 15, 7, 3 and 1 days before a name expires, each once. What was warned of is stored with the domain, so a
//! restart repeats nothing; a check that comes late warns of the nearest threshold and marks those it passed; a renewal
//! arms them again.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

/// Days before expiration at which the owner is warned.
pub const THRESHOLD_DAYS: [i64; 5] = [30, 15, 7, 3, 1];

/// Registries correct their clocks; a renewal moves the date by more than this. The shortest is a month.
const RENEWAL_MIN: SignedDuration = SignedDuration::from_hours(20 * 24);

const SECONDS_PER_DAY: i64 = 86_400;

/// What is remembered between checks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExpiryState {
    /// The date that was warned about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<Timestamp>,
    /// The smallest threshold that was warned of; 0 once it was said to have expired.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warned_days: Option<i64>,
}

/// A warning.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExpiryAlert {
    /// The threshold, in days; 0 when it has expired.
    pub threshold_days: i64,
    /// Thresholds that went by while nobody looked; this warning stands for them too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also_passed: Vec<i64>,
    pub expires: Timestamp,
}

impl ExpiryAlert {
    /// What the owner reads.
    pub fn sentence(&self, domain: &str, now: Timestamp) -> String {
        let left = self.expires.duration_since(now).as_secs();
        let date = self.expires.strftime("%Y-%m-%d %H:%M UTC");
        match left {
            ..0 => format!("{domain} expired on {date}: renew it today, it can be lost for good"),
            0..SECONDS_PER_DAY => format!("{domain} expires within a day, on {date}: renew it now"),
            _ => {
                let days = left / SECONDS_PER_DAY;
                format!("{domain} expires in {days} day{}, on {date}", if days == 1 { "" } else { "s" })
            }
        }
    }
}

impl ExpiryState {
    /// Looks at the clock. Returns the warning that is due, and what to remember from now on.
    pub fn check(&self, expires: Timestamp, now: Timestamp) -> (Option<ExpiryAlert>, Self) {
        let renewed = self.expires.is_some_and(|before| expires.duration_since(before) > RENEWAL_MIN);
        let warned = if renewed { None } else { self.warned_days };
        let passed = |days: &i64| expires.duration_since(now).as_secs() <= days * SECONDS_PER_DAY;
        let due: Vec<i64> = THRESHOLD_DAYS
            .into_iter()
            .chain([0])
            .filter(|days| passed(days) && warned.is_none_or(|warned| *days < warned))
            .collect();
        // The date of the last warning stays the one to compare with, so that small corrections do not add up.
        let anchor = if renewed || self.expires.is_none() { expires } else { self.expires.unwrap_or(expires) };
        let Some((nearest, missed)) = due.split_last() else {
            return (None, Self { expires: Some(anchor), warned_days: warned });
        };
        let alert = ExpiryAlert { threshold_days: *nearest, also_passed: missed.to_vec(), expires };
        (Some(alert), Self { expires: Some(anchor), warned_days: Some(*nearest) })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HOUR: i64 = 3_600;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).expect("in range")
    }

    /// The thresholds told when looking at these times, the state written down and read again each time.
    fn told(expires: impl Fn(i64) -> i64, looks: impl IntoIterator<Item = i64>) -> Vec<(i64, Vec<i64>)> {
        let mut stored = serde_json::to_string(&ExpiryState::default()).expect("json");
        let mut alerts = Vec::new();
        for look in looks {
            let state: ExpiryState = serde_json::from_str(&stored).expect("json");
            let (alert, next) = state.check(at(expires(look)), at(look));
            alerts.extend(alert.map(|alert| (alert.threshold_days, alert.also_passed)));
            stored = serde_json::to_string(&next).expect("json");
        }
        alerts
    }

    #[test]
    fn hourly_checks_warn_once_at_each_threshold() {
        let expires = 40 * SECONDS_PER_DAY;
        let alerts = told(|_| expires, (0..45 * 24).map(|hour| hour * HOUR));
        let thresholds: Vec<i64> = alerts.iter().map(|(days, _)| *days).collect();
        assert_eq!(thresholds, [30, 15, 7, 3, 1, 0]);
        assert!(alerts.iter().all(|(_, missed)| missed.is_empty()));
    }

    #[test]
    fn the_warning_comes_at_the_threshold_and_not_a_second_before() {
        let expires = 40 * SECONDS_PER_DAY;
        assert!(told(|_| expires, [10 * SECONDS_PER_DAY - 1]).is_empty());
        assert_eq!(told(|_| expires, [10 * SECONDS_PER_DAY]), [(30, vec![])]);
    }

    #[test]
    fn a_domain_added_late_gets_one_warning() {
        assert_eq!(told(|_| 5 * SECONDS_PER_DAY, [0, HOUR]), [(7, vec![30, 15])]);
    }

    #[test]
    fn a_renewal_arms_the_thresholds_again_and_a_correction_does_not() {
        let year = 365 * SECONDS_PER_DAY;
        let renewed_at = 20 * SECONDS_PER_DAY;
        let expires = |look: i64| if look < renewed_at { 30 * SECONDS_PER_DAY } else { 30 * SECONDS_PER_DAY + year };
        let looks = (0..400 * 24).map(|hour| hour * HOUR);
        let thresholds: Vec<i64> = told(expires, looks).into_iter().map(|(days, _)| days).collect();
        assert_eq!(thresholds, [30, 15, 30, 15, 7, 3, 1, 0]);
        // The registry moves the date back and forth by hours.
        let shaky = |look: i64| 31 * SECONDS_PER_DAY + (look / HOUR % 3) * HOUR;
        let thresholds: Vec<i64> =
            told(shaky, (0..40 * 24).map(|hour| hour * HOUR)).into_iter().map(|(days, _)| days).collect();
        assert_eq!(thresholds, [30, 15, 7, 3, 1, 0]);
    }

    #[test]
    fn a_hundred_thousand_domains_are_each_warned_exactly_once_per_threshold() {
        let mut warnings = std::collections::BTreeMap::<i64, usize>::new();
        for domain in 0..100_000_i64 {
            // Looked at once a day, each at a second of its own.
            let expires = 35 * SECONDS_PER_DAY + domain * 7;
            let mut state = ExpiryState::default();
            for day in 0..45 {
                let (alert, next) = state.check(at(expires), at(day * SECONDS_PER_DAY + domain % SECONDS_PER_DAY));
                if let Some(alert) = alert {
                    for days in alert.also_passed.into_iter().chain([alert.threshold_days]) {
                        *warnings.entry(days).or_default() += 1;
                    }
                }
                state = next;
            }
        }
        for days in THRESHOLD_DAYS {
            assert_eq!(warnings.get(&days), Some(&100_000), "{days}");
        }
    }

    #[test]
    fn sentences_say_how_long_and_when() {
        let alert = ExpiryAlert { threshold_days: 7, also_passed: Vec::new(), expires: at(6 * SECONDS_PER_DAY) };
        assert_eq!(alert.sentence("q7.io", at(0)), "q7.io expires in 6 days, on 2027-01-21 08:00 UTC");
        assert_eq!(
            alert.sentence("q7.io", at(7 * SECONDS_PER_DAY)),
            "q7.io expired on 2027-01-21 08:00 UTC: renew it today, it can be lost for good"
        );
    }

    proptest! {
        #[test]
        fn however_irregular_the_checks_each_threshold_is_told_at_most_once(
            gaps in prop::collection::vec(1_i64..10 * SECONDS_PER_DAY, 1..80),
            lifetime in 0_i64..60 * SECONDS_PER_DAY,
        ) {
            let mut look = 0;
            let looks: Vec<i64> = gaps.iter().map(|gap| { look += gap; look }).collect();
            let last = *looks.last().expect("one look");
            let mut seen: Vec<i64> = Vec::new();
            for (days, missed) in told(|_| lifetime, looks) {
                seen.extend(missed);
                seen.push(days);
            }
            let mut unique = seen.clone();
            unique.sort_unstable();
            unique.dedup();
            prop_assert_eq!(unique.len(), seen.len());
            // And none that was passed is left out.
            for days in THRESHOLD_DAYS {
                prop_assert_eq!(seen.contains(&days), lifetime - last <= days * SECONDS_PER_DAY);
            }
        }
    }
}
