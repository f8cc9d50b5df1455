//! Reads an expression the way Go's parser does and writes it in the dialect of the `regex` crate.

use std::fmt::Write;

use super::PatternError;

/// An expression in the crate's dialect.
pub(super) struct Translated {
    pub text: String,
    /// The Unicode classes it names, to find the unknown one when the crate refuses the expression.
    pub unicode_classes: Vec<String>,
    /// How large it is compiled, in characters it would have without counted repetitions.
    pub weight: u64,
}

/// What a Unicode class weighs: hundreds of ranges of up to four bytes each.
const UNICODE_CLASS_WEIGHT: u64 = 1000;
/// What any other class weighs: it may stand for most of Unicode.
const CLASS_WEIGHT: u64 = 10;

/// The largest count of a repetition, and of all repetitions around one atom multiplied.
const MAX_REPEAT: u32 = 1000;

const POSIX_CLASSES: [&str; 14] = [
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space", "upper", "word",
    "xdigit",
];

type Result<T> = std::result::Result<T, PatternError>;

pub(super) fn translate(expression: &str) -> Result<Translated> {
    let mut parser = Parser {
        whole: expression,
        rest: expression,
        out: String::with_capacity(expression.len() + 16),
        groups: vec![Group::default()],
        unicode_classes: Vec::new(),
    };
    parser.expression()?;
    let weight = parser.group().weight;
    Ok(Translated { text: parser.out, unicode_classes: parser.unicode_classes, weight })
}

/// An open group: what a repetition operator that comes next would apply to.
#[derive(Default)]
struct Group {
    /// The counted repetitions inside the last atom, multiplied; `None` when there is no atom.
    last_atom: Option<u32>,
    /// The largest such product of all atoms, which is the group's when it becomes an atom itself.
    largest: u32,
    /// The weight of all atoms, and of the last alone.
    weight: u64,
    last_weight: u64,
}

struct Parser<'a> {
    whole: &'a str,
    rest: &'a str,
    out: String,
    groups: Vec<Group>,
    unicode_classes: Vec<String>,
}

impl<'a> Parser<'a> {
    fn expression(&mut self) -> Result<()> {
        // Where the repetition operator just before began.
        let mut last_repeat: Option<&str> = None;
        while let Some(c) = self.rest.chars().next() {
            let before = self.rest;
            let mut repeated = None;
            match c {
                '(' if self.rest.starts_with("(?") => self.perl_group()?,
                '(' => {
                    self.take(1);
                    self.open("(?:");
                }
                '|' => {
                    self.take(1);
                    self.out.push('|');
                    self.group().last_atom = None;
                }
                ')' => {
                    self.take(1);
                    self.close()?;
                }
                '^' | '$' | '.' => {
                    self.take(1);
                    self.out.push(c);
                    self.atom(1, CLASS_WEIGHT);
                }
                '[' => self.class()?,
                '*' | '+' | '?' => {
                    self.take(1);
                    self.repeat(before, last_repeat, None)?;
                    repeated = Some(before);
                }
                '{' => match self.counts() {
                    None => {
                        self.take(1);
                        self.literal('{');
                    }
                    Some((min, max)) => {
                        let valid = min <= MAX_REPEAT && max.is_none_or(|max| max <= MAX_REPEAT && min <= max);
                        if !valid {
                            return Err(fault("invalid repeat count", self.since(before)));
                        }
                        self.repeat(before, last_repeat, Some((min, max)))?;
                        repeated = Some(before);
                    }
                },
                '\\' => self.escape()?,
                c => {
                    self.take(c.len_utf8());
                    self.literal(c);
                }
            }
            last_repeat = repeated;
        }
        if self.groups.len() > 1 {
            return Err(fault("missing closing )", self.whole));
        }
        Ok(())
    }

    /// Reads `{n}`, `{n,}` or `{n,m}`; anything else that begins with a brace is text, and nothing is read.
    fn counts(&mut self) -> Option<(u32, Option<u32>)> {
        let body = self.rest.strip_prefix('{')?;
        let (min, body) = count(body)?;
        let (max, body) = match body.strip_prefix(',') {
            None => (Some(min), body),
            Some(open) if open.starts_with('}') => (None, open),
            Some(body) => count(body).map(|(max, body)| (Some(max), body))?,
        };
        self.rest = body.strip_prefix('}')?;
        Some((min, max))
    }

    fn repeat(&mut self, before: &'a str, last: Option<&'a str>, counts: Option<(u32, Option<u32>)>) -> Result<()> {
        let operator_end = self.rest;
        if self.rest.starts_with('?') {
            self.take(1);
        }
        if let Some(last) = last {
            return Err(fault("invalid nested repetition operator", self.since(last)));
        }
        let operator = self.since(before);
        let Some(inside) = self.group().last_atom else {
            return Err(fault("missing argument to repetition operator", operator));
        };
        if let Some((min, max)) = counts {
            let times = max.unwrap_or(min);
            let product = inside.saturating_mul(times.max(1));
            if (min >= 2 || times >= 2) && product > MAX_REPEAT {
                return Err(fault("invalid repeat count", operator));
            }
            let group = self.group();
            let weight = group.last_weight.saturating_mul(u64::from(times.max(1)));
            group.weight = group.weight.saturating_add(weight - group.last_weight);
            group.last_weight = weight;
            group.last_atom = Some(product);
            group.largest = group.largest.max(product);
        }
        let symbol = before.get(..before.len() - operator_end.len()).unwrap_or_default();
        self.out.push_str(symbol);
        if operator.len() > symbol.len() {
            self.out.push('?');
        }
        Ok(())
    }

    /// `(?:`, `(?i)`, `(?P<name>` and their like.
    fn perl_group(&mut self) -> Result<()> {
        let start = self.rest;
        let name_at = match start {
            s if s.len() > 4 && s.starts_with("(?P<") => Some(4),
            s if s.len() > 3 && s.starts_with("(?<") => Some(3),
            _ => None,
        };
        if let Some(at) = name_at {
            let Some(end) = start.find('>') else { return Err(fault("invalid named capture", start)) };
            let name = start.get(at..end).unwrap_or_default();
            if name.is_empty() || !name.chars().all(|c| c == '_' || c.is_ascii_alphanumeric()) {
                return Err(fault("invalid named capture", start.get(..=end).unwrap_or(start)));
            }
            self.take(end + 1);
            self.open("(?:");
            return Ok(());
        }
        self.take(2);
        let (mut negated, mut saw_flag) = (false, false);
        while let Some(c) = self.rest.chars().next() {
            self.take(c.len_utf8());
            match c {
                'i' | 'm' | 's' | 'U' => saw_flag = true,
                '-' if !negated => (negated, saw_flag) = (true, false),
                ':' | ')' if !negated || saw_flag => {
                    let text = self.since(start).to_owned();
                    if c == ':' {
                        self.open(&text);
                    } else if text != "(?)" {
                        self.out.push_str(&text);
                    }
                    return Ok(());
                }
                _ => break,
            }
        }
        Err(fault("invalid or unsupported Perl syntax", self.since(start)))
    }

    fn escape(&mut self) -> Result<()> {
        let start = self.rest;
        match start.as_bytes().get(1) {
            Some(b'A') => self.assertion(r"\A"),
            Some(b'z') => self.assertion(r"\z"),
            Some(b'b') => self.assertion(r"(?-u:\b)"),
            Some(b'B') => self.assertion(r"(?-u:\B)"),
            Some(b'C') => return Err(fault("invalid escape sequence", r"\C")),
            Some(b'Q') => {
                let quoted = start.get(2..).unwrap_or_default();
                let (text, rest) = quoted.split_once(r"\E").unwrap_or((quoted, ""));
                self.rest = rest;
                text.chars().for_each(|c| self.literal(c));
            }
            Some(b'p' | b'P') => {
                let class = self.unicode_class()?;
                self.out.push_str(&class);
                self.atom(1, UNICODE_CLASS_WEIGHT);
            }
            Some(d @ (b'd' | b'D' | b's' | b'S' | b'w' | b'W')) => {
                self.take(2);
                let _ = write!(self.out, "[{}]", perl_class(*d));
                self.atom(1, CLASS_WEIGHT);
            }
            _ => {
                let c = self.escaped_char()?;
                self.literal_code(c);
            }
        }
        Ok(())
    }

    fn assertion(&mut self, text: &str) {
        self.take(2);
        self.out.push_str(text);
        self.atom(1, 1);
    }

    /// A backslash and what stands for one character. Surrogates are legal in Go and match nothing.
    fn escaped_char(&mut self) -> Result<u32> {
        let start = self.rest;
        self.take(1);
        let Some(c) = self.rest.chars().next() else {
            return Err(fault("trailing backslash at end of expression", ""));
        };
        self.take(c.len_utf8());
        let simple = match c {
            'a' => Some('\u{7}'),
            'f' => Some('\u{c}'),
            'n' => Some('\n'),
            'r' => Some('\r'),
            't' => Some('\t'),
            'v' => Some('\u{b}'),
            c if c.is_ascii() && !c.is_ascii_alphanumeric() => Some(c),
            _ => None,
        };
        if let Some(c) = simple {
            return Ok(u32::from(c));
        }
        let code = match c {
            '0' => Some(self.octal(0)),
            '1'..='7' if self.rest.starts_with(|c| ('0'..='7').contains(&c)) => {
                c.to_digit(8).map(|digit| self.octal(digit))
            }
            'x' => self.hexadecimal(),
            _ => None,
        };
        code.ok_or_else(|| fault("invalid escape sequence", self.since(start)))
    }

    /// Up to two octal digits after the first.
    fn octal(&mut self, first: u32) -> u32 {
        let mut code = first;
        for _ in 0..2 {
            let Some(digit) = self.rest.chars().next().and_then(|c| c.to_digit(8)) else { break };
            self.take(1);
            code = code * 8 + digit;
        }
        code
    }

    fn hexadecimal(&mut self) -> Option<u32> {
        if self.rest.starts_with('{') {
            self.take(1);
            let (mut code, mut digits) = (0_u32, 0);
            loop {
                let c = self.rest.chars().next()?;
                self.take(c.len_utf8());
                if c == '}' {
                    return (digits > 0).then_some(code);
                }
                code = code * 16 + c.to_digit(16)?;
                if code > u32::from(char::MAX) {
                    return None;
                }
                digits += 1;
            }
        }
        let mut code = 0;
        let mut valid = true;
        for _ in 0..2 {
            let c = self.rest.chars().next()?;
            self.take(c.len_utf8());
            match c.to_digit(16) {
                Some(digit) => code = code * 16 + digit,
                None => valid = false,
            }
        }
        valid.then_some(code)
    }

    /// `\pL` or `\p{Greek}`, as the crate writes it.
    fn unicode_class(&mut self) -> Result<String> {
        let start = self.rest;
        let bad = |sequence: &str| fault("invalid character class range", sequence);
        let mut negated = start.as_bytes().get(1) == Some(&b'P');
        self.take(2);
        let c = self.rest.chars().next().ok_or_else(|| bad(start))?;
        let name = if c == '{' {
            let end = start.find('}').ok_or_else(|| bad(start))?;
            self.take(end + 1 - 2);
            start.get(3..end).unwrap_or_default()
        } else {
            self.take(c.len_utf8());
            start.get(2..2 + c.len_utf8()).unwrap_or_default()
        };
        let sequence = self.since(start);
        let name = match name.strip_prefix('^') {
            Some(name) => {
                negated = !negated;
                name
            }
            None => name,
        };
        // The crate knows more kinds of names than Go, which have these characters.
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || "_- ".contains(c)) {
            return Err(bad(sequence));
        }
        self.unicode_classes.push(sequence.to_owned());
        Ok(format!(r"\{}{{{name}}}", if negated { 'P' } else { 'p' }))
    }

    fn class(&mut self) -> Result<()> {
        let start = self.rest;
        self.take(1);
        self.out.push('[');
        if self.rest.starts_with('^') {
            self.take(1);
            self.out.push('^');
        }
        let (mut first, mut weight) = (true, CLASS_WEIGHT);
        while first || !self.rest.starts_with(']') {
            first = false;
            if self.rest.starts_with("[:") && self.posix_class()? {
                continue;
            }
            match self.rest.as_bytes() {
                [b'\\', b'p' | b'P', ..] => {
                    let class = self.unicode_class()?;
                    self.out.push_str(&class);
                    weight = weight.saturating_add(UNICODE_CLASS_WEIGHT);
                    continue;
                }
                [b'\\', d @ (b'd' | b'D' | b's' | b'S' | b'w' | b'W'), ..] => {
                    let inside = perl_class(*d);
                    self.take(2);
                    let _ = write!(self.out, "[{inside}]");
                    continue;
                }
                _ => {}
            }
            let range = self.rest;
            let low = self.class_char(start)?;
            let mut high = low;
            if self.rest.starts_with('-') && self.rest.len() >= 2 && !self.rest.starts_with("-]") {
                self.take(1);
                high = self.class_char(start)?;
                if high < low {
                    return Err(fault("invalid character class range", self.since(range)));
                }
            }
            self.class_range(low, high);
            weight = weight.saturating_add(1);
        }
        self.take(1);
        // Surrogates may have left nothing: `[&&a]` keeps an empty class legal, a lone `[` would not be.
        if self.out.ends_with('[') {
            self.out.push_str("a&&b");
        }
        self.out.push(']');
        self.atom(1, weight);
        Ok(())
    }

    fn class_char(&mut self, class: &str) -> Result<u32> {
        match self.rest.chars().next() {
            None => Err(fault("missing closing ]", class)),
            Some('\\') => self.escaped_char(),
            Some(c) => {
                self.take(c.len_utf8());
                Ok(u32::from(c))
            }
        }
    }

    /// Surrogates cannot be in a string, so a range leaves them out.
    fn class_range(&mut self, low: u32, high: u32) {
        const SURROGATES: std::ops::RangeInclusive<u32> = 0xD800..=0xDFFF;
        let low = if SURROGATES.contains(&low) { SURROGATES.end() + 1 } else { low };
        let high = if SURROGATES.contains(&high) { SURROGATES.start() - 1 } else { high };
        if low <= high {
            let _ = write!(self.out, r"\x{{{low:x}}}-\x{{{high:x}}}");
        }
    }

    /// `[:alpha:]`; false when it is not closed, which makes the bracket a character.
    fn posix_class(&mut self) -> Result<bool> {
        let start = self.rest;
        let Some(end) = start.get(2..).and_then(|s| s.find(":]")) else { return Ok(false) };
        let text = start.get(..end + 4).unwrap_or(start);
        let name = start.get(2..end + 2).unwrap_or_default();
        if !POSIX_CLASSES.contains(&name.strip_prefix('^').unwrap_or(name)) {
            return Err(fault("invalid character class range", text));
        }
        self.out.push_str(text);
        self.take(end + 4);
        Ok(true)
    }

    fn open(&mut self, text: &str) {
        self.out.push_str(text);
        self.groups.push(Group::default());
    }

    fn close(&mut self) -> Result<()> {
        let closed = self.groups.pop().filter(|_| !self.groups.is_empty());
        let Some(closed) = closed else { return Err(fault("unexpected )", self.whole)) };
        self.out.push(')');
        self.atom(closed.largest.max(1), closed.weight.max(1));
        Ok(())
    }

    fn group(&mut self) -> &mut Group {
        if self.groups.is_empty() {
            self.groups.push(Group::default());
        }
        self.groups.last_mut().expect("invariant: a group was just pushed")
    }

    fn atom(&mut self, repeats: u32, weight: u64) {
        let group = self.group();
        group.weight = group.weight.saturating_add(weight);
        group.last_weight = weight;
        group.last_atom = Some(repeats);
        group.largest = group.largest.max(repeats);
    }

    fn literal(&mut self, c: char) {
        self.literal_code(u32::from(c));
    }

    fn literal_code(&mut self, code: u32) {
        match char::from_u32(code) {
            Some(c) if c.is_alphanumeric() => self.out.push(c),
            Some(_) => {
                let _ = write!(self.out, r"\x{{{code:x}}}");
            }
            None => self.out.push_str("[a&&b]"),
        }
        self.atom(1, 1);
    }

    fn take(&mut self, bytes: usize) {
        self.rest = self.rest.get(bytes..).unwrap_or_default();
    }

    /// What has been read since `start`, an earlier rest.
    fn since(&self, start: &'a str) -> &'a str {
        start.get(..start.len() - self.rest.len()).unwrap_or(start)
    }
}

fn fault(code: &'static str, expression: &str) -> PatternError {
    PatternError { code, expression: expression.to_owned() }
}

/// The inside of a class with the meaning of a Perl class in Go.
fn perl_class(letter: u8) -> &'static str {
    match letter {
        b'd' => "0-9",
        b'D' => "^0-9",
        b's' => r"\t\n\x0C\r\x20",
        b'S' => r"^\t\n\x0C\r\x20",
        b'w' => "0-9A-Za-z_",
        _ => "^0-9A-Za-z_",
    }
}

/// A decimal count without leading zeros; counts too large for a repetition are all the same.
fn count(text: &str) -> Option<(u32, &str)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, rest) = text.split_at_checked(digits)?;
    if number.is_empty() || (number.len() > 1 && number.starts_with('0')) {
        return None;
    }
    Some((number.parse().unwrap_or(u32::MAX), rest))
}
