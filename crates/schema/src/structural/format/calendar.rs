//! Dates, times and durations.

/// `2006-01-02`, a day that exists.
pub(super) fn is_date(text: &str) -> bool {
    // The time of day makes it an instant, for which the calendar is known already.
    text.len() == 10 && crate::time::parse(&format!("{text}T00:00:00Z"), crate::time::Precision::Seconds).is_ok()
}

/// A date, a `t` and a time with a zone. What follows a second `t` is not looked at.
pub(super) fn is_date_time(text: &str) -> bool {
    let lower = text.to_lowercase();
    let mut parts = lower.split('t');
    let (Some(date), Some(time)) = (parts.next(), parts.next()) else { return false };
    is_date(date) && is_time_of_day(time)
}

/// Compares digits as text, so every field is two digits; a fraction may begin with any character.
fn is_time_of_day(text: &str) -> bool {
    let bytes = text.as_bytes();
    let Some((clock, rest)) = bytes.split_at_checked(8) else { return false };
    let &[h1, h2, b':', m1, m2, b':', s1, s2] = clock else { return false };
    if ![h1, h2, m1, m2, s1, s2].iter().all(u8::is_ascii_digit) {
        return false;
    }
    let in_range = [h1, h2] <= *b"23" && [m1, m2] <= *b"59" && [s1, s2] <= *b"59";
    in_range && (is_zone(rest) || fraction_ends(text.get(8..).unwrap_or_default()).any(is_zone))
}

fn is_zone(text: &[u8]) -> bool {
    match text {
        b"z" => true,
        &[b'+' | b'-', h1, h2, b':', m1, m2] => [h1, h2, m1, m2].iter().all(u8::is_ascii_digit),
        _ => false,
    }
}

/// What may follow a fraction, which is any character and then digits: as the character may be a digit or sign itself,
/// every split is tried.
fn fraction_ends(text: &str) -> impl Iterator<Item = &[u8]> {
    let after_first = text.char_indices().nth(1).map_or(text.len(), |(at, _)| at);
    let newline = text.starts_with('\n');
    let digits = text.as_bytes().get(after_first..).unwrap_or_default();
    let count = if newline { 0 } else { digits.iter().take_while(|b| b.is_ascii_digit()).count() };
    (1..=count).filter_map(move |length| digits.get(length..))
}

/// Go's durations, or any text with a number and a unit of time in words somewhere in it.
pub(super) fn is_duration(text: &str) -> bool {
    is_go_duration(text) || is_duration_in_words(text)
}

fn is_go_duration(text: &str) -> bool {
    const MAX: u128 = 1 << 63;
    let (negative, mut rest) = match text.as_bytes() {
        [sign @ (b'-' | b'+'), rest @ ..] => (*sign == b'-', rest),
        all => (false, all),
    };
    if rest == b"0" {
        return true;
    }
    if rest.is_empty() {
        return false;
    }
    let mut total: u128 = 0;
    while !rest.is_empty() {
        let digits = |bytes: &[u8]| bytes.iter().take_while(|b| b.is_ascii_digit()).count();
        let whole_length = digits(rest);
        let Some((whole, after)) = rest.split_at_checked(whole_length) else { return false };
        let mut value: u128 = 0;
        for digit in whole {
            value = value * 10 + u128::from(digit - b'0');
            if value > MAX {
                return false;
            }
        }
        let (mut fraction_length, mut fraction) = (0, 0.0);
        rest = after;
        if let [b'.', after @ ..] = after {
            fraction_length = digits(after);
            let text = after.get(..fraction_length).unwrap_or_default();
            fraction = format!("0.{}", String::from_utf8_lossy(text)).parse().unwrap_or_default();
            rest = after.get(fraction_length..).unwrap_or_default();
        }
        if whole_length + fraction_length == 0 {
            return false;
        }
        let unit_length = rest.iter().take_while(|b| **b != b'.' && !b.is_ascii_digit()).count();
        let Some((unit, after)) = rest.split_at_checked(unit_length) else { return false };
        let Some(unit) = go_unit(unit) else { return false };
        value = value * unit + (fraction * unit as f64) as u128;
        total += value;
        if value > MAX || total > MAX {
            return false;
        }
        rest = after;
    }
    negative || total < MAX
}

fn go_unit(name: &[u8]) -> Option<u128> {
    Some(match std::str::from_utf8(name).ok()? {
        "ns" => 1,
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    })
}

/// Every unit has its exact names and one that other words may begin with.
const UNITS: [(&[&str], &str); 8] = [
    (&["ns"], "nano"),
    (&["us", "µs"], "micro"),
    (&["ms"], "milli"),
    (&["s"], "sec"),
    (&["m"], "min"),
    (&["h", "hr"], "hour"),
    (&["d"], "day"),
    (&["w", "wk"], "week"),
];

fn is_duration_in_words(text: &str) -> bool {
    let mut found = false;
    let mut rest = text;
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        rest = rest.get(start..).unwrap_or_default();
        let number = rest.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
        rest = rest.get(number.len()..).unwrap_or_default();
        let spaced = rest.trim_start_matches(['\t', '\n', '\u{c}', '\r', ' ']);
        let word = spaced.split(|c: char| !(c.is_ascii_alphabetic() || c == 'µ')).next().unwrap_or_default();
        if word.is_empty() {
            continue;
        }
        if number.parse::<i64>().is_err() {
            return false;
        }
        rest = spaced.get(word.len()..).unwrap_or_default();
        let word = word.to_lowercase();
        found |= UNITS.iter().any(|(names, stem)| names.contains(&word.as_str()) || word.starts_with(stem));
    }
    found
}
