//! Instants as the Kubernetes API writes them: RFC 3339 in UTC, to the second (`Time`) or microsecond (`MicroTime`).
//!
//! Parsing accepts what Go's `time.Parse` accepts and fails with its words. The year one is Go's zero time and stands
//! for "not set".

use std::fmt;

/// How much of a second is written, which is also the layout that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    Seconds,
    Microseconds,
}

/// A point in time, in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Instant {
    pub unix_seconds: i64,
    pub nanoseconds: u32,
}

/// A text that is no time, in Go's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ParseError(String);

/// Unix seconds of 0001-01-01T00:00:00Z.
const ZERO_UNIX_SECONDS: i64 = -62_135_596_800;

impl Instant {
    /// Go's zero time.
    pub const ZERO: Self = Self { unix_seconds: ZERO_UNIX_SECONDS, nanoseconds: 0 };

    /// From seconds and nanoseconds, of which any number may be given.
    pub fn from_unix(seconds: i64, nanoseconds: i32) -> Self {
        const PER_SECOND: i32 = 1_000_000_000;
        Self {
            unix_seconds: seconds.saturating_add(i64::from(nanoseconds.div_euclid(PER_SECOND))),
            nanoseconds: nanoseconds.rem_euclid(PER_SECOND).unsigned_abs(),
        }
    }

    pub fn is_zero(self) -> bool {
        self == Self::ZERO
    }

    /// The canonical text.
    pub fn format(self, precision: Precision) -> String {
        let days = self.unix_seconds.div_euclid(86_400);
        let second_of_day = self.unix_seconds.rem_euclid(86_400);
        let (year, month, day) = civil_from_days(days);
        let (hour, minute, second) = (second_of_day / 3600, second_of_day / 60 % 60, second_of_day % 60);
        let year = if year < 0 { format!("-{:04}", -year) } else { format!("{year:04}") };
        match precision {
            Precision::Seconds => format!("{year}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z"),
            Precision::Microseconds => {
                format!("{year}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:06}Z", self.nanoseconds / 1000)
            }
        }
    }
}

/// Parses an instant; `precision` chooses the layout.
pub fn parse(text: &str, precision: Precision) -> Result<Instant, ParseError> {
    let mut parser = Parser { text, rest: text.as_bytes(), precision };
    parser.instant()
}

/// Whether a text that parses is already what formatting would give.
pub(crate) fn is_canonical(text: &str, precision: Precision) -> bool {
    let fraction = text.as_bytes().get(19);
    text.ends_with('Z')
        && match precision {
            Precision::Seconds => text.len() == "2006-01-02T15:04:05Z".len(),
            Precision::Microseconds => text.len() == "2006-01-02T15:04:05.000000Z".len() && fraction == Some(&b'.'),
        }
}

struct Parser<'a> {
    text: &'a str,
    rest: &'a [u8],
    precision: Precision,
}

impl Parser<'_> {
    fn instant(&mut self) -> Result<Instant, ParseError> {
        let year = self.year()?;
        self.separator("-")?;
        let month = self.two_digits("01")?;
        if !(1..=12).contains(&month) {
            return Err(self.out_of_range("month"));
        }
        self.separator("-")?;
        let day = self.two_digits("02")?;
        self.separator("T")?;
        // Go reads one digit here as well.
        let hour = match self.rest {
            [d, rest @ ..] if d.is_ascii_digit() && !rest.first().is_some_and(u8::is_ascii_digit) => {
                self.rest = rest;
                i64::from(d - b'0')
            }
            _ => self.two_digits("15")?,
        };
        if hour >= 24 {
            return Err(self.out_of_range("hour"));
        }
        self.separator(":")?;
        let minute = self.two_digits("04")?;
        if minute >= 60 {
            return Err(self.out_of_range("minute"));
        }
        self.separator(":")?;
        let second = self.two_digits("05")?;
        if second >= 60 {
            return Err(self.out_of_range("second"));
        }
        let nanoseconds = self.fraction()?;
        let offset = self.zone()?;
        if !self.rest.is_empty() {
            return Err(self.error(&format!(": extra text: {}", quote(self.rest))));
        }
        if day < 1 || day > days_in(month, year) {
            return Err(self.error(": day out of range"));
        }
        let unix_seconds = days_from_civil(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second - offset;
        Ok(Instant { unix_seconds, nanoseconds })
    }

    fn year(&mut self) -> Result<i64, ParseError> {
        let Some((digits, rest)) = self.rest.split_at_checked(4) else { return Err(self.cannot("2006", self.rest)) };
        let mut year = 0;
        for &d in digits {
            if !d.is_ascii_digit() {
                return Err(self.cannot("2006", self.rest));
            }
            year = year * 10 + i64::from(d - b'0');
        }
        self.rest = rest;
        Ok(year)
    }

    fn two_digits(&mut self, element: &str) -> Result<i64, ParseError> {
        match self.rest {
            [a, b, rest @ ..] if a.is_ascii_digit() && b.is_ascii_digit() => {
                self.rest = rest;
                Ok(i64::from(a - b'0') * 10 + i64::from(b - b'0'))
            }
            _ => Err(self.cannot(element, self.rest)),
        }
    }

    fn separator(&mut self, separator: &str) -> Result<(), ParseError> {
        match self.rest.strip_prefix(separator.as_bytes()) {
            Some(rest) => {
                self.rest = rest;
                Ok(())
            }
            None => Err(self.cannot(separator, self.rest)),
        }
    }

    /// Seconds may have any fraction although the layout has none; microseconds must have exactly six digits.
    fn fraction(&mut self) -> Result<u32, ParseError> {
        let starts = matches!(self.rest, [b'.' | b',', d, ..] if d.is_ascii_digit());
        let length = match self.precision {
            Precision::Seconds if !starts => return Ok(0),
            Precision::Seconds => 1 + self.rest.iter().skip(1).take_while(|c| c.is_ascii_digit()).count(),
            Precision::Microseconds => 7,
        };
        let Some((fraction, rest)) = self.rest.split_at_checked(length) else {
            return Err(self.cannot(".000000", self.rest));
        };
        if !starts || !fraction.iter().skip(1).all(u8::is_ascii_digit) {
            return Err(self.cannot(".000000", self.rest));
        }
        let mut nanoseconds = 0;
        for place in 1..=9 {
            let digit = fraction.get(place).map_or(0, |d| u32::from(d - b'0'));
            nanoseconds = nanoseconds * 10 + digit;
        }
        self.rest = rest;
        Ok(nanoseconds)
    }

    /// The offset from UTC in seconds.
    fn zone(&mut self) -> Result<i64, ParseError> {
        let hold = self.rest;
        if let [b'Z', rest @ ..] = hold {
            self.rest = rest;
            return Ok(0);
        }
        let [sign, h1, h2, b':', m1, m2, rest @ ..] = hold else { return Err(self.cannot("Z07:00", hold)) };
        self.rest = rest;
        let number = |a: &u8, b: &u8| {
            (a.is_ascii_digit() && b.is_ascii_digit()).then(|| i64::from(a - b'0') * 10 + i64::from(b - b'0'))
        };
        let (hours, minutes) = (number(h1, h2), number(m1, m2));
        if hours.is_some_and(|h| h > 24) {
            return Err(self.out_of_range("time zone offset hour"));
        }
        if hours.is_some() && minutes.is_some_and(|m| m > 60) {
            return Err(self.out_of_range("time zone offset minute"));
        }
        match (sign, hours, minutes) {
            (b'+', Some(hours), Some(minutes)) => Ok((hours * 60 + minutes) * 60),
            (b'-', Some(hours), Some(minutes)) => Ok(-(hours * 60 + minutes) * 60),
            _ => Err(self.cannot("Z07:00", hold)),
        }
    }

    fn cannot(&self, element: &str, rest: &[u8]) -> ParseError {
        let layout = match self.precision {
            Precision::Seconds => "2006-01-02T15:04:05Z07:00",
            Precision::Microseconds => "2006-01-02T15:04:05.000000Z07:00",
        };
        self.error(&format!(" as \"{layout}\": cannot parse {} as {}", quote(rest), quote(element.as_bytes())))
    }

    fn out_of_range(&self, what: &str) -> ParseError {
        self.error(&format!(": {what} out of range"))
    }

    fn error(&self, detail: &str) -> ParseError {
        ParseError(format!("parsing time {}{detail}", quote(self.text.as_bytes())))
    }
}

/// Quotes as Go's `time` package does: bytes outside printable ASCII in hexadecimal.
fn quote(text: &[u8]) -> String {
    use fmt::Write;
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for &byte in text {
        match byte {
            b'"' | b'\\' => {
                out.push('\\');
                out.push(char::from(byte));
            }
            b' '..=0x7f => out.push(char::from(byte)),
            _ => {
                let _ = write!(out, "\\x{byte:02x}");
            }
        }
    }
    out.push('"');
    out
}

fn days_in(month: i64, year: i64) -> i64 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if (year % 4 == 0 && year % 100 != 0) || year % 400 == 0 => 29,
        2 => 28,
        _ => 31,
    }
}

/// Days since 1970-01-01 of a date of the proleptic Gregorian calendar, counting years from March.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(text: &str) -> Result<String, String> {
        parse(text, Precision::Seconds).map(|i| i.format(Precision::Seconds)).map_err(|e| e.to_string())
    }

    fn micros(text: &str) -> Result<String, String> {
        parse(text, Precision::Microseconds).map(|i| i.format(Precision::Microseconds)).map_err(|e| e.to_string())
    }

    #[test]
    fn times_are_normalised_to_utc_seconds() {
        assert_eq!(seconds("2024-02-29T23:59:59Z").as_deref(), Ok("2024-02-29T23:59:59Z"));
        assert_eq!(seconds("2024-01-01T01:00:00.987+02:00").as_deref(), Ok("2023-12-31T23:00:00Z"));
        assert_eq!(seconds("1969-12-31T16:00:00-08:00").as_deref(), Ok("1970-01-01T00:00:00Z"));
        assert_eq!(seconds("0001-01-01T00:00:00Z").as_deref(), Ok("0001-01-01T00:00:00Z"));
        assert!(parse("0001-01-01T00:00:00Z", Precision::Seconds).expect("valid").is_zero());
    }

    #[test]
    fn micro_times_need_six_digits() {
        assert_eq!(micros("2024-02-29T23:59:59.123456Z").as_deref(), Ok("2024-02-29T23:59:59.123456Z"));
        assert_eq!(
            micros("2024-02-29T23:59:59Z"),
            Err(r#"parsing time "2024-02-29T23:59:59Z" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "Z" as ".000000""#.into())
        );
    }

    #[test]
    fn errors_are_go_s() {
        assert_eq!(
            seconds("x"),
            Err(r#"parsing time "x" as "2006-01-02T15:04:05Z07:00": cannot parse "x" as "2006""#.into())
        );
        assert_eq!(
            seconds("2024-13-01T00:00:00Z"),
            Err(r#"parsing time "2024-13-01T00:00:00Z": month out of range"#.into())
        );
        assert_eq!(
            seconds("2023-02-29T00:00:00Z"),
            Err(r#"parsing time "2023-02-29T00:00:00Z": day out of range"#.into())
        );
        assert_eq!(
            seconds("2023-02-28T00:00:00Zz"),
            Err(r#"parsing time "2023-02-28T00:00:00Zz": extra text: "z""#.into())
        );
    }
}
