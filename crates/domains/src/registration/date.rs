//! Dates of registries. RDAP's are RFC 3339; WHOIS servers write theirs as they like, and a date that is read wrong raises
//! a false alert, so only forms that can be read one way are read.

use std::fmt;

use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A point in time as a registry wrote it. Two are the same when they are the same instant.
#[derive(Clone, Debug)]
pub struct Moment {
    at: Timestamp,
    /// RFC 3339, with the registry's own number of decimals.
    written: String,
}

impl Moment {
    pub fn at(&self) -> Timestamp {
        self.at
    }

    /// Whole days from `now`, downwards: 6 hours from now is day 0, 6 hours ago day -1.
    pub fn days_from(&self, now: Timestamp) -> i64 {
        self.at.duration_since(now).as_secs().div_euclid(SECONDS_PER_DAY)
    }

    /// Reads a date in any of the forms that registries use.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        if text.len() > DATE_CHARS_MAX || !text.is_ascii() {
            return None;
        }
        rfc3339(text).or_else(|| spelled(text).map(Self::from))
    }
}

/// No registry writes a longer date.
const DATE_CHARS_MAX: usize = 64;
const SECONDS_PER_DAY: i64 = 86_400;

impl From<Timestamp> for Moment {
    fn from(at: Timestamp) -> Self {
        Self { at, written: at.to_string() }
    }
}

impl PartialEq for Moment {
    fn eq(&self, other: &Self) -> bool {
        self.at == other.at
    }
}

impl Eq for Moment {}

impl PartialOrd for Moment {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Moment {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.at.cmp(&other.at)
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.written)
    }
}

impl Serialize for Moment {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.written)
    }
}

impl<'de> Deserialize<'de> for Moment {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| serde::de::Error::custom("this is no date"))
    }
}

/// RFC 3339, and the same with a space, without seconds' zone, or with an offset that has no colon.
fn rfc3339(text: &str) -> Option<Moment> {
    if let Ok(at) = text.parse::<Timestamp>() {
        let utc = text.ends_with('Z') && text.contains('T');
        return Some(if utc { Moment { at, written: text.to_owned() } } else { at.into() });
    }
    None
}

fn spelled(text: &str) -> Option<Timestamp> {
    // `2029-07-06 13:58:57 (UTC+8)`, `2029. 07. 06.`, `before Jan-1996`.
    if text.starts_with("before") {
        return None;
    }
    let mut words: Vec<&str> = text.split([' ', '\t']).filter(|word| !word.is_empty()).collect();
    // `2029-07-06T13:58:57+0200`
    if let Some((date, time)) =
        words.first().and_then(|first| first.split_once('T')).filter(|(date, _)| compact(date).is_some())
    {
        words.splice(..1, [date, time]);
    }
    let (date, used) = date_of(&words)?;
    let mut time = (0, 0, 0);
    let mut offset = SignedDuration::ZERO;
    for word in words.get(used..).unwrap_or_default() {
        if let Some(found) = time_of(word) {
            time = found;
        } else if let Some(found) = offset_of(word) {
            offset = found;
        } else if let Some((clock, zone)) = split_zone(word) {
            time = time_of(clock)?;
            offset = offset_of(zone)?;
        } else if !weekday(word) && !year(word) {
            return None;
        }
    }
    // A date without a zone is taken for UTC: at most half a day off.
    let (hour, minute, second) = time;
    let civil = DateTime::from_parts(date, jiff::civil::Time::new(hour, minute, second, 0).ok()?);
    let at = civil.to_zoned(TimeZone::UTC).ok()?.timestamp();
    at.checked_sub(offset).ok()
}

/// The date at the front, and how many words it took.
fn date_of(words: &[&str]) -> Option<(Date, usize)> {
    let first = *words.first()?;
    // `06 July 2029`, `July 6 2029`, `Tue Jul 6 13:58:57 UTC 2029`.
    let spoken = |day: &str, month: &str, year: &str| {
        Date::new(year.trim_end_matches('.').parse().ok()?, month_of(month)?, number(day.trim_end_matches([',', '.']))?)
            .ok()
    };
    if weekday(first) {
        let (date, used) = date_of(words.get(1..)?).or_else(|| {
            // The year comes last.
            Some((spoken(words.get(2)?, words.get(1)?, words.last()?)?, 2))
        })?;
        return Some((date, used + 1));
    }
    if let [a, b, c, ..] = words {
        if let Some(date) = spoken(a, b, c).or_else(|| spoken(b, a, c)) {
            return Some((date, 3));
        }
        // `2029. 07. 06.`
        if a.ends_with('.') && b.ends_with('.') {
            let date = Date::new(
                a.trim_end_matches('.').parse().ok()?,
                number(b.trim_end_matches('.'))?,
                number(c.trim_end_matches('.'))?,
            );
            return date.ok().map(|date| (date, 3));
        }
    }
    compact(first).map(|date| (date, 1))
}

/// `2029-07-06`, `2029/07/06`, `2029.07.06`, `06.07.2029`, `06-Jul-2029`, `20290706`. Not `06/07/2029`: who can tell.
fn compact(word: &str) -> Option<Date> {
    let word = word.trim_end_matches(['.', ',']);
    if word.len() == 8 && word.bytes().all(|b| b.is_ascii_digit()) {
        return Date::new(word.get(..4)?.parse().ok()?, number(word.get(4..6)?)?, number(word.get(6..)?)?).ok();
    }
    let parts: Vec<&str> = word.split(['-', '/', '.']).collect();
    let [a, b, c] = parts[..] else { return None };
    if a.len() == 4 {
        let month = number(b).or_else(|| month_of(b))?;
        return Date::new(a.parse().ok()?, month, number(c)?).ok();
    }
    if c.len() != 4 {
        return None;
    }
    if let Some(month) = month_of(b) {
        return Date::new(c.parse().ok()?, month, number(a)?).ok();
    }
    // Dots put the day first everywhere; hyphens and strokes do not.
    if word.contains('.') { Date::new(c.parse().ok()?, number(b)?, number(a)?).ok() } else { slashed(a, b, c) }
}

/// Strokes put the day or the month first; only where one of both is above twelve is it clear which.
fn slashed(a: &str, b: &str, year: &str) -> Option<Date> {
    let (a, b): (i8, i8) = (number(a)?, number(b)?);
    let (day, month) = match (a > 12, b > 12) {
        (true, false) => (a, b),
        (false, true) => (b, a),
        (false, false) if a == b => (a, b),
        _ => return None,
    };
    Date::new(year.parse().ok()?, month, day).ok()
}

fn number(text: &str) -> Option<i8> {
    if text.is_empty() || text.len() > 2 { None } else { text.parse().ok() }
}

const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];

fn month_of(text: &str) -> Option<i8> {
    let text = text.trim_end_matches([',', '.']).to_ascii_lowercase();
    if text.len() < 3 {
        return None;
    }
    let found = MONTHS.iter().position(|month| month.starts_with(&text))?;
    i8::try_from(found + 1).ok()
}

fn weekday(text: &str) -> bool {
    let text = text.trim_end_matches([',', '.']).to_ascii_lowercase();
    let days = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];
    text.len() >= 3 && days.iter().any(|day| day.starts_with(&text))
}

/// A year behind the time, as `date` of Unix puts it.
fn year(text: &str) -> bool {
    text.len() == 4 && text.bytes().all(|b| b.is_ascii_digit())
}

fn time_of(word: &str) -> Option<(i8, i8, i8)> {
    let word = word.split('.').next()?;
    let parts: Vec<&str> = word.split(':').collect();
    match parts[..] {
        [hour, minute] => Some((number(hour)?, number(minute)?, 0)),
        [hour, minute, second] => Some((number(hour)?, number(minute)?, number(second)?)),
        _ => None,
    }
}

/// `13:58:57+0200`, `13:58:57Z`.
fn split_zone(word: &str) -> Option<(&str, &str)> {
    if let Some(clock) = word.strip_suffix('Z') {
        return Some((clock, "Z"));
    }
    let at = word.find(['+', '-'])?;
    Some(word.split_at(at))
}

/// Zones by name that registries use, in hours east of UTC. Names that mean several zones are not here.
const ZONES: &[(&str, i64)] = &[
    ("z", 0),
    ("utc", 0),
    ("gmt", 0),
    ("cet", 1),
    ("cest", 2),
    ("eet", 2),
    ("eest", 3),
    ("msk", 3),
    ("jst", 9),
    ("kst", 9),
    ("nzst", 12),
    ("nzdt", 13),
    ("clt", -4),
    ("clst", -3),
    ("brt", -3),
];

fn offset_of(word: &str) -> Option<SignedDuration> {
    let word = word.trim_matches(|c| matches!(c, '(' | ')')).to_ascii_lowercase();
    if let Some((_, hours)) = ZONES.iter().find(|(name, _)| *name == word) {
        return Some(SignedDuration::from_hours(*hours));
    }
    let signed = word.strip_prefix("utc").or_else(|| word.strip_prefix("gmt")).unwrap_or(&word);
    let (sign, digits) =
        if let Some(rest) = signed.strip_prefix('+') { (1, rest) } else { (-1, signed.strip_prefix('-')?) };
    let digits: String = digits.chars().filter(|c| *c != ':').collect();
    if digits.is_empty() || digits.len() > 4 || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let (hours, minutes) = digits.split_at(digits.len().min(2));
    let minutes: i64 = if minutes.is_empty() { 0 } else { minutes.parse().ok()? };
    Some(SignedDuration::from_mins(sign * (hours.parse::<i64>().ok()? * 60 + minutes)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Option<String> {
        Moment::parse(text).map(|moment| moment.at().to_string())
    }

    #[test]
    fn registries_write_dates_in_many_ways() {
        for (text, expected) in [
            ("2029-07-06T13:58:57Z", "2029-07-06T13:58:57Z"),
            ("2029-07-06T13:58:57.0Z", "2029-07-06T13:58:57Z"),
            ("2029-07-06T15:58:57+02:00", "2029-07-06T13:58:57Z"),
            ("2029-07-06T15:58:57+0200", "2029-07-06T13:58:57Z"),
            ("2029-07-06 13:58:57", "2029-07-06T13:58:57Z"),
            ("2029-07-06 13:58:57+00", "2029-07-06T13:58:57Z"),
            ("2029-07-06 21:58:57 (UTC+8)", "2029-07-06T13:58:57Z"),
            ("2029-07-06", "2029-07-06T00:00:00Z"),
            ("2029/07/06", "2029-07-06T00:00:00Z"),
            ("2029/07/06 09:00:00 (JST)", "2029-07-06T00:00:00Z"),
            ("2029.07.06 13:58:57", "2029-07-06T13:58:57Z"),
            ("2029. 07. 06.", "2029-07-06T00:00:00Z"),
            ("06.07.2029", "2029-07-06T00:00:00Z"),
            ("6.7.2029 13:58:57", "2029-07-06T13:58:57Z"),
            ("06-Jul-2029", "2029-07-06T00:00:00Z"),
            ("06-jul-2029 13:58:57 UTC", "2029-07-06T13:58:57Z"),
            ("06 July 2029", "2029-07-06T00:00:00Z"),
            ("July 6 2029", "2029-07-06T00:00:00Z"),
            ("20290706", "2029-07-06T00:00:00Z"),
            ("Fri Jul 6 13:58:57 UTC 2029", "2029-07-06T13:58:57Z"),
            ("Fri Jul  6 2029", "2029-07-06T00:00:00Z"),
            ("31/12/2029", "2029-12-31T00:00:00Z"),
            ("2028-02-29T23:59:59Z", "2028-02-29T23:59:59Z"),
        ] {
            assert_eq!(read(text).as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn what_can_be_read_two_ways_is_not_read() {
        for text in ["06/07/2029", "before Jan-1996", "never", "", "2029-13-01", "2029-02-30", "0000-00-00", "N/A"] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn the_registrys_own_decimals_are_kept() {
        let moment = Moment::parse("2012-07-06T13:58:57.00Z").expect("a date");
        assert_eq!(moment.to_string(), "2012-07-06T13:58:57.00Z");
        assert_eq!(moment, Moment::parse("2012-07-06T13:58:57Z").expect("a date"));
    }

    #[test]
    fn days_left_are_whole_days() {
        let expires = Moment::parse("2029-07-06T12:00:00Z").expect("a date");
        let at = |text: &str| expires.days_from(text.parse().expect("a time"));
        assert_eq!(at("2029-07-05T12:00:00Z"), 1);
        assert_eq!(at("2029-07-05T12:00:01Z"), 0);
        assert_eq!(at("2029-07-06T12:00:00Z"), 0);
        assert_eq!(at("2029-07-06T12:00:01Z"), -1);
        // Over a leap day.
        let expires = Moment::parse("2028-03-01T00:00:00Z").expect("a date");
        assert_eq!(expires.days_from("2028-02-28T00:00:00Z".parse().expect("a time")), 2);
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC{0,40}") {
            let _ = Moment::parse(&text);
        }

        #[test]
        fn no_text_made_of_date_parts_panics(text in "[0-9 :./+ZTUCJul-]{0,30}") {
            let _ = Moment::parse(&text);
        }

        #[test]
        fn every_instant_is_read_back(seconds in 0_i64..4_000_000_000) {
            let at = Timestamp::from_second(seconds).expect("in range");
            prop_assert_eq!(Moment::parse(&at.to_string()).map(|moment| moment.at()), Some(at));
        }
    }
}
