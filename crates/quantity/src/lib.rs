//! Resource quantities (`100m`, `1.5Gi`, `2e3`): parsing, canonical text, comparison and arithmetic by upstream's rules.
//!
//! A quantity remembers how it was written (binary, decimal or exponent suffix) and prints in that family with the
//! largest suffix that loses nothing. Values are exact decimals of 38 digits; upstream's are unbounded, so of longer
//! numbers we keep the leading digits.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

/// The suffix family a quantity was written in and prints in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `12e6`
    DecimalExponent,
    /// `12Mi`
    BinarySi,
    /// `12M`
    DecimalSi,
}

/// Why a text is no quantity; the words are upstream's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    #[error("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")]
    Format,
    #[error("unable to parse numeric part of quantity")]
    Numeric,
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

/// An exact decimal number, `value × 10^scale`, with a preferred way to print it.
#[derive(Clone, Debug)]
pub struct Quantity {
    value: i128,
    scale: i32,
    format: Format,
    width: Width,
    /// The text it was parsed from where that is canonical already.
    text: Option<Box<str>>,
}

/// Which of its two representations upstream would hold this quantity in. Users of CEL see the difference: only the
/// narrow one converts to an integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Width {
    Int64,
    Unbounded,
}

/// The smallest power of ten a quantity keeps; anything finer is rounded up.
const NANO: i32 = -9;

const MILLI: i32 = -3;

/// Binary quantities are capped at the largest int64.
const MAX_BINARY: i128 = i64::MAX as i128;

impl Quantity {
    /// A whole number, as counts of objects are.
    pub fn from_integer(value: i64) -> Self {
        Self { value: i128::from(value), scale: 0, format: Format::DecimalSi, width: Width::Int64, text: None }
    }

    pub fn zero() -> Self {
        Self::from_integer(0)
    }

    pub fn format(&self) -> Format {
        self.format
    }

    pub fn is_zero(&self) -> bool {
        self.value == 0
    }

    /// -1, 0 or 1.
    pub fn sign(&self) -> i32 {
        self.value.signum() as i32
    }

    /// The value as an integer, rounded up away from zero, saturating.
    pub fn value(&self) -> i64 {
        let rounded = rescale_up(self.value, self.scale, 0).0;
        i64::try_from(rounded).unwrap_or(if rounded < 0 { i64::MIN } else { i64::MAX })
    }

    /// The value as an integer where upstream can tell that it is one: numbers written with a decimal point, a binary
    /// fraction or more than 18 digits do not count, whatever their value.
    pub fn as_int64(&self) -> Option<i64> {
        if self.width == Width::Unbounded || self.scale < 0 {
            return None;
        }
        10i128.checked_pow(self.scale as u32)?.checked_mul(self.value).and_then(|value| i64::try_from(value).ok())
    }

    /// The nearest floating-point number, as upstream multiplies it; infinite when too large.
    pub fn as_approximate_float(&self) -> f64 {
        let value = self.value as f64;
        if self.scale == 0 { value } else { value * go_pow10(self.scale) }
    }

    /// The sum, printed as `self` is unless `self` is zero; saturating far beyond any real amount.
    pub fn add(&self, other: &Self) -> Self {
        let format = if self.is_zero() { other.format } else { self.format };
        let (a, b, scale) = align(self, other);
        let value = a.saturating_add(b);
        let narrow = |q: &Self, aligned: i128| q.width == Width::Int64 && i64::try_from(aligned).is_ok();
        let width = if narrow(self, a) && narrow(other, b) && i64::try_from(value).is_ok() {
            Width::Int64
        } else {
            Width::Unbounded
        };
        Self { value, scale, format, width, text: None }
    }

    /// The difference, printed as `self` is unless `self` is zero.
    pub fn sub(&self, other: &Self) -> Self {
        let negated = Self { value: other.value.saturating_neg(), text: None, ..other.clone() };
        self.add(&negated)
    }

    /// Rounded away from zero to thousandths, the finest that resource lists keep.
    pub fn rounded_up_to_milli(self) -> Self {
        match rescale_up(self.value, self.scale, MILLI) {
            (_, true) => self,
            (value, false) => Self { value, scale: MILLI, text: None, ..self },
        }
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        let (a, b, _) = align(self, other);
        a.cmp(&b)
    }
}

/// Both values at the smaller of the two scales, saturating.
fn align(a: &Quantity, b: &Quantity) -> (i128, i128, i32) {
    let scale = if a.is_zero() {
        b.scale
    } else if b.is_zero() {
        a.scale
    } else {
        a.scale.min(b.scale)
    };
    let at = |q: &Quantity| {
        if q.is_zero() { 0 } else { q.value.saturating_mul(power_of_ten(q.scale.saturating_sub(scale))) }
    };
    (at(a), at(b), scale)
}

/// 10^exponent, saturating.
fn power_of_ten(exponent: i32) -> i128 {
    u32::try_from(exponent).ok().and_then(|e| 10i128.checked_pow(e)).unwrap_or(i128::MAX)
}

/// Go's `math.Pow10`, which composes large powers of two tabled ones.
fn go_pow10(exponent: i32) -> f64 {
    const STEP: u32 = 32;
    let power = |exponent: i64| format!("1e{exponent}").parse::<f64>().unwrap_or(f64::NAN);
    let magnitude = exponent.unsigned_abs();
    let (coarse, fine) = (i64::from(magnitude / STEP * STEP), i64::from(magnitude % STEP));
    match exponent {
        309.. => f64::INFINITY,
        0..=308 => power(coarse) * power(fine),
        -323..0 => power(-coarse) / power(fine),
        _ => 0.0,
    }
}

/// Brings a value to a coarser scale, rounding away from zero; tells whether that was exact.
fn rescale_up(value: i128, scale: i32, to: i32) -> (i128, bool) {
    if scale >= to {
        return (value.saturating_mul(power_of_ten(scale.saturating_sub(to))), true);
    }
    let divisor = power_of_ten(to.saturating_sub(scale));
    let (quotient, remainder) = (value / divisor, value % divisor);
    if remainder == 0 { (quotient, true) } else { (quotient + value.signum(), false) }
}

impl FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        if text.is_empty() {
            return Err(QuantityError::Format);
        }
        let parts = split(text)?;
        let suffix = Suffix::parse(parts.suffix)?;
        let digits = [parts.integer, parts.fraction].concat();
        let small = parts.is_small(&digits, suffix);
        if !small && !parts.has_digits {
            return Err(QuantityError::Numeric);
        }
        let (magnitude, dropped) = leading_digits(&digits)?;
        let mut scale = parts.scale(suffix).saturating_add(dropped);
        let (mut value, mut format) = match suffix {
            Suffix::Decimal(_, format) => (magnitude, format),
            Suffix::Binary(exponent) => (magnitude.saturating_mul(1i128 << exponent), Format::BinarySi),
        };
        if scale < NANO && value != 0 {
            value = rescale_up(value, scale, NANO).0;
            scale = NANO;
        }
        if format == Format::BinarySi {
            let whole = rescale_up(value, scale, 0);
            if whole.0 > MAX_BINARY || (whole.0 == MAX_BINARY && !whole.1) {
                (value, scale) = (MAX_BINARY, 0);
            }
            // Below one, a binary suffix would only round.
            if value != 0 && value < power_of_ten(scale.saturating_neg()) {
                format = Format::DecimalSi;
            }
        }
        let text = (text == "0" || (small && parts.is_canonical(&digits, suffix, magnitude))).then(|| text.into());
        let value = if parts.negative { -value } else { value };
        let width = if small { Width::Int64 } else { Width::Unbounded };
        Ok(Self { value, scale, format, width, text })
    }
}

/// The number that digits write, and how many at the end did not fit. What is dropped is rounded up, as everything is.
fn leading_digits(digits: &str) -> Result<(i128, i32), QuantityError> {
    /// One less than an i128 always holds, so that rounding up has room.
    const KEPT: usize = 37;
    let digits = digits.trim_start_matches('0');
    if digits.is_empty() {
        return Ok((0, 0));
    }
    let (kept, dropped) = digits.split_at_checked(KEPT).unwrap_or((digits, ""));
    let value: i128 = kept.parse().map_err(|_| QuantityError::Numeric)?;
    let up = i128::from(dropped.bytes().any(|digit| digit != b'0'));
    Ok((value + up, i32::try_from(dropped.len()).unwrap_or(i32::MAX)))
}

/// The pieces of a quantity's text.
struct Parts<'a> {
    negative: bool,
    /// Digits before the point without leading zeros; `0` when there are none.
    integer: &'a str,
    fraction: &'a str,
    suffix: &'a str,
    /// Whether a digit was written before the suffix at all.
    has_digits: bool,
}

fn split(text: &str) -> Result<Parts<'_>, QuantityError> {
    let (negative, unsigned) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let signed = unsigned;
    let unsigned = unsigned.trim_start_matches('0');
    let digits = |s: &str| s.bytes().take_while(u8::is_ascii_digit).count();
    let (integer, rest) = unsigned.split_at(digits(unsigned));
    let (fraction, suffix) = match rest.strip_prefix('.') {
        Some(rest) => rest.split_at(digits(rest)),
        None => ("", rest),
    };
    let after_letters = suffix.trim_start_matches(['e', 'E', 'i', 'n', 'u', 'm', 'k', 'K', 'M', 'G', 'T', 'P']);
    let exponent = after_letters.strip_prefix(['+', '-']).unwrap_or(after_letters);
    if !exponent.bytes().all(|c| c.is_ascii_digit()) {
        return Err(QuantityError::Format);
    }
    let has_digits = signed.len() > unsigned.len() || !integer.is_empty() || !fraction.is_empty();
    Ok(Parts { negative, integer: if integer.is_empty() { "0" } else { integer }, fraction, suffix, has_digits })
}

impl Parts<'_> {
    /// Whether upstream computes with int64 here; its other path is stricter and forgets the text.
    fn is_small(&self, digits: &str, suffix: Suffix) -> bool {
        /// Any number of this many digits fits an int64.
        const INT64_DIGITS: usize = 18;
        match suffix {
            Suffix::Decimal(..) => digits.len() <= INT64_DIGITS && self.scale(suffix) >= NANO,
            // Ten binary digits are about three decimal ones.
            Suffix::Binary(exponent) => {
                self.fraction.is_empty() && self.integer.len() + exponent as usize * 3 / 10 < 15
            }
        }
    }

    /// The power of ten of the last digit.
    fn scale(&self, suffix: Suffix) -> i32 {
        let fraction_digits = i32::try_from(self.fraction.len()).unwrap_or(i32::MAX);
        match suffix {
            Suffix::Decimal(exponent, _) => exponent.saturating_sub(fraction_digits),
            Suffix::Binary(_) => fraction_digits.saturating_neg(),
        }
    }

    /// Upstream reuses the text it parsed when no smaller form can exist, even with a plus sign or leading zeros.
    fn is_canonical(&self, digits: &str, suffix: Suffix, magnitude: i128) -> bool {
        match suffix {
            Suffix::Decimal(..) => self.scale(suffix) % 3 == 0 && !digits.ends_with("000") && !digits.starts_with('0'),
            Suffix::Binary(_) => magnitude & 7 != 0,
        }
    }
}

#[derive(Clone, Copy)]
enum Suffix {
    Decimal(i32, Format),
    Binary(u32),
}

impl Suffix {
    fn parse(suffix: &str) -> Result<Self, QuantityError> {
        let decimal = |exponent| Ok(Self::Decimal(exponent, Format::DecimalSi));
        match suffix {
            "n" => decimal(-9),
            "u" => decimal(-6),
            "m" => decimal(-3),
            "" => decimal(0),
            "k" => decimal(3),
            "M" => decimal(6),
            "G" => decimal(9),
            "T" => decimal(12),
            "P" => decimal(15),
            "E" => decimal(18),
            "Ki" => Ok(Self::Binary(10)),
            "Mi" => Ok(Self::Binary(20)),
            "Gi" => Ok(Self::Binary(30)),
            "Ti" => Ok(Self::Binary(40)),
            "Pi" => Ok(Self::Binary(50)),
            "Ei" => Ok(Self::Binary(60)),
            _ => {
                let exponent = suffix.strip_prefix(['e', 'E']).ok_or(QuantityError::Suffix)?;
                let exponent = exponent.parse::<i32>().map_err(|_| QuantityError::Suffix)?;
                Ok(Self::Decimal(exponent, Format::DecimalExponent))
            }
        }
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(text) = &self.text {
            return f.write_str(text);
        }
        if self.is_zero() {
            return f.write_str("0");
        }
        if self.format == Format::BinarySi {
            let (whole, exact) = rescale_up(self.value, self.scale, 0);
            if exact && whole.abs() >= 1024 {
                return write_binary(f, whole);
            }
        }
        self.write_decimal(f)
    }
}

fn write_binary(f: &mut fmt::Formatter<'_>, mut amount: i128) -> fmt::Result {
    let mut suffixes = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"].into_iter();
    let mut suffix = "";
    while amount % 1024 == 0 {
        let Some(next) = suffixes.next() else { break };
        amount /= 1024;
        suffix = next;
    }
    write!(f, "{amount}{suffix}")
}

impl Quantity {
    /// Writes the shortest integer mantissa whose exponent is a multiple of three.
    fn write_decimal(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mut amount, mut exponent) = (self.value, self.scale);
        while amount % 10 == 0 {
            amount /= 10;
            exponent += 1;
        }
        while exponent % 3 != 0 {
            amount = amount.saturating_mul(10);
            exponent -= 1;
        }
        if self.format == Format::DecimalExponent {
            return if exponent == 0 { write!(f, "{amount}") } else { write!(f, "{amount}e{exponent}") };
        }
        let suffix = match exponent {
            -9 => "n",
            -6 => "u",
            -3 => "m",
            3 => "k",
            6 => "M",
            9 => "G",
            12 => "T",
            15 => "P",
            18 => "E",
            // Upstream has no suffix beyond and prints the bare mantissa; the digits in full keep the value.
            e if e > 18 => return write!(f, "{}E", amount.saturating_mul(power_of_ten(e - 18))),
            _ => "",
        };
        write!(f, "{amount}{suffix}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn canonical(text: &str) -> Result<String, QuantityError> {
        text.parse::<Quantity>().map(|q| q.to_string())
    }

    #[test]
    fn quantities_print_in_their_canonical_form() {
        for (text, expected) in [
            ("0", "0"),
            ("0m", "0"),
            ("1", "1"),
            ("1000", "1k"),
            ("1500", "1500"),
            ("1.5", "1500m"),
            ("0.5", "500m"),
            (".5", "500m"),
            ("100m", "100m"),
            ("1000m", "1"),
            ("1024", "1024"),
            ("1Ki", "1Ki"),
            ("1024Ki", "1Mi"),
            ("1.5Gi", "1536Mi"),
            ("0.5Mi", "512Ki"),
            ("512Mi", "512Mi"),
            ("1e3", "1e3"),
            ("1000e0", "1e3"),
            ("12E6", "12E6"),
            ("+5", "+5"),
            ("-5", "-5"),
            ("-1000", "-1k"),
            ("0.1n", "1n"),
            ("1.1n", "2n"),
            ("10G", "10G"),
            ("2000M", "2G"),
            ("0.0001Ki", "102400u"),
            ("100E", "100E"),
            ("9223372036854775807", "9223372036854775807"),
            ("8Ei", "9223372036854775807"),
        ] {
            assert_eq!(canonical(text).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_quantity_says_why() {
        assert_eq!(canonical(""), Err(QuantityError::Format));
        assert_eq!(canonical("a"), Err(QuantityError::Format));
        assert_eq!(canonical("1x"), Err(QuantityError::Format));
        assert_eq!(canonical("1.2.3"), Err(QuantityError::Format));
        assert_eq!(canonical("1Kii"), Err(QuantityError::Suffix));
        assert_eq!(canonical("1mm"), Err(QuantityError::Suffix));
    }

    #[test]
    fn arithmetic_is_exact_and_keeps_the_format_of_the_left() {
        let q = |t: &str| t.parse::<Quantity>().expect("valid quantity");
        assert_eq!(q("1Gi").add(&q("1Mi")).to_string(), "1025Mi");
        assert_eq!(q("1").sub(&q("100m")).to_string(), "900m");
        assert_eq!(q("0").add(&q("1Ki")).to_string(), "1Ki");
        assert!(q("1000m") == q("1"));
        assert!(q("1Ki") > q("1k"));
        assert!(q("1e100") > q("1e99"));
        assert!(q("-1e100") < q("1"));
        assert_eq!(q("1.1").value(), 2);
    }

    #[test]
    fn integers_are_what_upstream_holds_as_integers() {
        let q = |t: &str| t.parse::<Quantity>().expect("valid quantity");
        for (text, integer) in [
            ("-5", Some(-5)),
            ("512Ki", Some(524_288)),
            ("0.5Mi", None),
            ("1.0", None),
            ("1.5k", Some(1500)),
            ("200M", Some(200_000_000)),
            ("10E", None),
            ("100000000000000000", Some(100_000_000_000_000_000)),
            ("1000000000000000000", None),
            ("50000000000000000000", None),
        ] {
            assert_eq!(q(text).as_int64(), integer, "{text}");
        }
        assert_eq!(q("50M").add(&q("50M")).as_int64(), Some(100_000_000));
        assert_eq!(q("9E").add(&q("9E")).as_int64(), None);
        assert_eq!(q("500000000000000000").add(&Quantity::from_integer(9_000_000_000_000_000_000)).as_int64(), None);
    }

    #[test]
    fn floats_are_computed_as_go_does() {
        for (text, float) in [
            ("100m", 0.1),
            ("0.1Ki", 102.4),
            ("333n", 3.3300000000000003e-07),
            ("12345678901234567890123", 1.2345678901234568e+22),
            ("1e400", f64::INFINITY),
        ] {
            assert_eq!(text.parse::<Quantity>().map(|q| q.as_approximate_float()), Ok(float), "{text}");
        }
    }

    #[test]
    fn numbers_longer_than_we_keep_are_still_quantities() {
        let long = "1".repeat(60);
        let parsed: Quantity = long.parse().expect("valid quantity");
        assert!(parsed > "1e58".parse().expect("valid quantity"));
        assert!(parsed < "1e60".parse().expect("valid quantity"));
        assert!(format!("1.{long}").parse::<Quantity>().is_ok());
    }
}
