//! Points in time and spans of time with CEL's ranges: timestamps of the years 1 to 9999, durations of as many
//! nanoseconds as fit a signed 64-bit number. Both are read and written as Go does.

use std::fmt;

use jiff::civil;
use jiff::tz::{Offset, TimeZone};

/// Nanoseconds, as in Go's `time.Duration`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Duration {
    pub nanos: i64,
}

/// Seconds since 1970 and nanoseconds within the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp {
    pub seconds: i64,
    pub nanos: u32,
}

/// 0001-01-01T00:00:00Z
pub(crate) const MIN_TIMESTAMP_SECONDS: i64 = -62_135_596_800;
/// 9999-12-31T23:59:59Z
pub(crate) const MAX_TIMESTAMP_SECONDS: i64 = 253_402_300_799;
pub(crate) const NANOS_PER_SECOND: i64 = 1_000_000_000;
const SECONDS_PER_DAY: i64 = 86_400;
const EPOCH: civil::Date = civil::date(1970, 1, 1);

impl Duration {
    /// Reads Go's notation, `1h30m` or `-1.5s`.
    pub fn parse(text: &str) -> Option<Self> {
        let (negative, mut rest) = match text.as_bytes().first()? {
            b'-' => (true, text.get(1..)?),
            b'+' => (false, text.get(1..)?),
            _ => (false, text),
        };
        if rest == "0" {
            return Some(Self { nanos: 0 });
        }
        if rest.is_empty() {
            return None;
        }
        let mut total: u64 = 0;
        while !rest.is_empty() {
            let whole_len = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
            let whole_text = rest.get(..whole_len)?;
            rest = rest.get(whole_len..)?;
            let mut fraction_text = "";
            let mut has_fraction = false;
            if let Some(after) = rest.strip_prefix('.') {
                let len = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
                fraction_text = after.get(..len)?;
                rest = after.get(len..)?;
                has_fraction = true;
            }
            if whole_text.is_empty() && (!has_fraction || fraction_text.is_empty()) {
                return None;
            }
            let unit_len = rest.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(rest.len());
            let unit: u64 = match rest.get(..unit_len)? {
                "ns" => 1,
                "us" | "µs" | "μs" => 1_000,
                "ms" => 1_000_000,
                "s" => 1_000_000_000,
                "m" => 60_000_000_000,
                "h" => 3_600_000_000_000,
                _ => return None,
            };
            rest = rest.get(unit_len..)?;
            let whole: u64 = if whole_text.is_empty() { 0 } else { whole_text.parse().ok()? };
            let mut part = whole.checked_mul(unit)?;
            if !fraction_text.is_empty() {
                let fraction: f64 = format!("0.{fraction_text}").parse().ok()?;
                part = part.checked_add((fraction * unit as f64) as u64)?;
            }
            total = total.checked_add(part)?;
            if total > 1 << 63 {
                return None;
            }
        }
        let nanos = if negative { 0i64.checked_sub_unsigned(total)? } else { i64::try_from(total).ok()? };
        Some(Self { nanos })
    }

    /// Reads what OpenAPI's `duration` format allows: Go's notation, and words as in `3 days`.
    pub fn parse_open_api(text: &str) -> Option<Self> {
        if let Some(duration) = Self::parse(text) {
            return Some(duration);
        }
        let mut nanos: i64 = 0;
        let mut found = false;
        let mut rest = text;
        while let Some(at) = rest.find(|c: char| c.is_ascii_digit()) {
            let tail = rest.get(at..)?;
            let digits = tail.find(|c: char| !c.is_ascii_digit()).unwrap_or(tail.len());
            let factor: i64 = tail.get(..digits)?.parse().ok()?;
            let unit_tail = tail.get(digits..)?.trim_start();
            let letters = unit_tail.find(|c: char| !c.is_alphabetic()).unwrap_or(unit_tail.len());
            let unit = unit_tail.get(..letters)?.to_lowercase();
            if let Some(multiplier) = unit_nanos(&unit) {
                found = true;
                nanos = nanos.wrapping_add(factor.wrapping_mul(multiplier));
            }
            rest = unit_tail.get(letters..)?;
        }
        found.then_some(Self { nanos })
    }

    /// Whole seconds and the rest in nanoseconds, both with the sign of the duration.
    pub fn split(self) -> (i64, i64) {
        (self.nanos / NANOS_PER_SECOND, self.nanos % NANOS_PER_SECOND)
    }
}

/// Units that are words: plural, singular and short forms; only the beginning of the last form must agree.
fn unit_nanos(unit: &str) -> Option<i64> {
    const DAY: i64 = 24 * 3_600 * NANOS_PER_SECOND;
    let table: [(&[&str], i64); 8] = [
        (&["ns", "nano"], 1),
        (&["us", "µs", "micro"], 1_000),
        (&["ms", "milli"], 1_000_000),
        (&["s", "sec"], NANOS_PER_SECOND),
        (&["m", "min"], 60 * NANOS_PER_SECOND),
        (&["h", "hr", "hour"], 3_600 * NANOS_PER_SECOND),
        (&["d", "day"], DAY),
        (&["w", "wk", "week"], 7 * DAY),
    ];
    table.iter().find_map(|(variants, nanos)| {
        let (last, exact) = variants.split_last()?;
        (exact.contains(&unit) || unit.starts_with(last)).then_some(*nanos)
    })
}

impl fmt::Display for Duration {
    /// Seconds with as many decimals as needed, `90s` or `0.5s`: what `string(duration)` gives.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, nanos) = self.split();
        if self.nanos < 0 {
            f.write_str("-")?;
        }
        write!(f, "{}", seconds.unsigned_abs())?;
        if nanos != 0 {
            let digits = format!("{:09}", nanos.unsigned_abs());
            write!(f, ".{}", digits.trim_end_matches('0'))?;
        }
        f.write_str("s")
    }
}

impl Timestamp {
    /// From seconds and nanoseconds within CEL's range.
    pub fn new(seconds: i64, nanos: u32) -> Option<Self> {
        ((MIN_TIMESTAMP_SECONDS..=MAX_TIMESTAMP_SECONDS).contains(&seconds) && i64::from(nanos) < NANOS_PER_SECOND)
            .then_some(Self { seconds, nanos })
    }

    /// Reads RFC 3339 with an offset, as Go's `time.Parse(time.RFC3339, …)`.
    pub fn parse_rfc3339(text: &str) -> Option<Self> {
        parse_date_time(text, Zone::Required)
    }

    /// Reads what OpenAPI's `date-time` format allows: RFC 3339 or local time without an offset; nothing is 1970.
    pub fn parse_open_api(text: &str) -> Option<Self> {
        if text.is_empty() {
            return Some(Self { seconds: 0, nanos: 0 });
        }
        parse_date_time(text, Zone::Optional)
    }

    /// Reads `2006-01-02`.
    pub fn parse_date(text: &str) -> Option<Self> {
        let date = parse_civil_date(text)?;
        Some(Self { seconds: days_from_epoch(date) * SECONDS_PER_DAY, nanos: 0 })
    }

    /// The clock on the wall at an offset of so many seconds from UTC; `None` outside of years jiff knows.
    pub fn civil(self, offset_seconds: i64) -> Option<civil::DateTime> {
        let local = self.seconds.checked_add(offset_seconds)?;
        let days = local.div_euclid(SECONDS_PER_DAY);
        let second = local.rem_euclid(SECONDS_PER_DAY);
        let date = EPOCH.checked_add(jiff::Span::new().try_days(days).ok()?).ok()?;
        let time = civil::Time::new(
            i8::try_from(second / 3_600).ok()?,
            i8::try_from(second % 3_600 / 60).ok()?,
            i8::try_from(second % 60).ok()?,
            i32::try_from(self.nanos).ok()?,
        )
        .ok()?;
        Some(date.to_datetime(time))
    }

    /// The clock on the wall in a zone: a name of the tz database, `UTC`, `Local`, or an offset such as `-05:30`.
    pub fn civil_in(self, zone: &str) -> Result<civil::DateTime, ZoneError> {
        let offset = if zone.is_empty() || zone == "UTC" || zone == "Local" {
            0
        } else if let Some(colon) = zone.find(':') {
            let hours: i64 = zone.get(..colon).and_then(|text| text.parse().ok()).ok_or(ZoneError::Offset)?;
            let minutes: i64 = zone.get(colon + 1..).and_then(|text| text.parse().ok()).ok_or(ZoneError::Offset)?;
            let signed = if zone.starts_with('-') { hours * 60 - minutes } else { hours * 60 + minutes };
            signed * 60
        } else {
            let tz = TimeZone::get(zone).map_err(|_| ZoneError::Unknown(zone.to_owned()))?;
            // jiff's timestamps end a day early on both sides; the offset there is that of the nearest it knows.
            let clamped = self.seconds.clamp(jiff::Timestamp::MIN.as_second(), jiff::Timestamp::MAX.as_second());
            let at = jiff::Timestamp::from_second(clamped).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
            i64::from(tz.to_offset(at).seconds())
        };
        self.civil(offset).ok_or(ZoneError::Offset)
    }

    /// Moves by a duration, within CEL's range.
    pub fn checked_add(self, duration: Duration) -> Option<Self> {
        let total = i128::from(self.seconds) * i128::from(NANOS_PER_SECOND)
            + i128::from(self.nanos)
            + i128::from(duration.nanos);
        let seconds = i64::try_from(total.div_euclid(i128::from(NANOS_PER_SECOND))).ok()?;
        let nanos = u32::try_from(total.rem_euclid(i128::from(NANOS_PER_SECOND))).ok()?;
        Self::new(seconds, nanos)
    }

    /// The time from `earlier` to this.
    pub fn checked_since(self, earlier: Self) -> Option<Duration> {
        let nanos = (i128::from(self.seconds) - i128::from(earlier.seconds)) * i128::from(NANOS_PER_SECOND)
            + i128::from(self.nanos)
            - i128::from(earlier.nanos);
        Some(Duration { nanos: i64::try_from(nanos).ok()? })
    }
}

impl fmt::Display for Timestamp {
    /// RFC 3339 in UTC with as many decimals as needed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(at) = self.civil(0) else { return write!(f, "{}s", self.seconds) };
        write!(
            f,
            "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}",
            at.year(),
            at.month(),
            at.day(),
            at.hour(),
            at.minute(),
            at.second()
        )?;
        if self.nanos != 0 {
            let digits = format!("{:09}", self.nanos);
            write!(f, ".{}", digits.trim_end_matches('0'))?;
        }
        f.write_str("Z")
    }
}

/// Why a time zone cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ZoneError {
    #[error("unknown time zone {0}")]
    Unknown(String),
    #[error("invalid time zone offset")]
    Offset,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Zone {
    Required,
    Optional,
}

fn parse_civil_date(text: &str) -> Option<civil::Date> {
    let bytes = text.as_bytes();
    if bytes.len() != 10 || bytes.get(4) != Some(&b'-') || bytes.get(7) != Some(&b'-') {
        return None;
    }
    let year = digits(text.get(..4)?)?;
    let month = digits(text.get(5..7)?)?;
    let day = digits(text.get(8..10)?)?;
    civil::Date::new(i16::try_from(year).ok()?, i8::try_from(month).ok()?, i8::try_from(day).ok()?).ok()
}

fn days_from_epoch(date: civil::Date) -> i64 {
    date.since(EPOCH).map(|span| i64::from(span.get_days())).unwrap_or_default()
}

fn digits(text: &str) -> Option<i64> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) { text.parse().ok() } else { None }
}

fn parse_date_time(text: &str, zone: Zone) -> Option<Timestamp> {
    let date = parse_civil_date(text.get(..10)?)?;
    let rest = text.get(10..)?;
    let bytes = rest.as_bytes();
    if bytes.len() < 9 || bytes.first() != Some(&b'T') || bytes.get(3) != Some(&b':') || bytes.get(6) != Some(&b':') {
        return None;
    }
    let hour = digits(rest.get(1..3)?)?;
    let minute = digits(rest.get(4..6)?)?;
    let second = digits(rest.get(7..9)?)?;
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let mut tail = rest.get(9..)?;
    let mut nanos = 0u32;
    if let Some(after) = tail.strip_prefix(['.', ',']) {
        let len = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
        if len == 0 {
            return None;
        }
        let padded: String = after.get(..len)?.chars().chain("000000000".chars()).take(9).collect();
        nanos = padded.parse().ok()?;
        tail = after.get(len..)?;
    }
    let offset = match tail {
        "Z" => 0,
        "" if zone == Zone::Optional => 0,
        _ => parse_offset(tail)?,
    };
    let seconds = days_from_epoch(date) * SECONDS_PER_DAY + hour * 3_600 + minute * 60 + second - offset;
    Some(Timestamp { seconds, nanos })
}

fn parse_offset(text: &str) -> Option<i64> {
    let sign = match text.as_bytes().first()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    if text.len() != 6 || text.as_bytes().get(3) != Some(&b':') {
        return None;
    }
    let hours = digits(text.get(1..3)?)?;
    let minutes = digits(text.get(4..6)?)?;
    let offset = Offset::from_seconds(i32::try_from(sign * (hours * 3_600 + minutes * 60)).ok()?).ok()?;
    (hours <= 24 && minutes <= 59).then(|| i64::from(offset.seconds()))
}

impl Timestamp {
    /// Whether it is of the years 1 to 9999.
    pub fn is_in_range(self) -> bool {
        (MIN_TIMESTAMP_SECONDS..=MAX_TIMESTAMP_SECONDS).contains(&self.seconds)
    }
}
