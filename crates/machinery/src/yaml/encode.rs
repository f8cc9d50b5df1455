//! From JSON values to YAML text, byte for byte as Go's library for Kubernetes writes it: block style, keys in natural
//! order, lists not indented below their key, long texts wrapped at spaces. Clients compare and store these texts.

use serde_json::{Map, Value};

use super::natural;
use super::scalar::{is_ambiguous, write_float};

/// Texts are broken at the first space beyond this column.
const BEST_WIDTH: usize = 80;
/// Longer keys are written as `? key`.
const MAX_SIMPLE_KEY: usize = 128;

/// Writes a value as one document.
pub fn encode(value: &Value) -> String {
    let mut out = String::new();
    encode_to(&mut out, value);
    out
}

/// Appends a value as one document.
pub fn encode_to(out: &mut String, value: &Value) {
    let line_start = out.len();
    let mut emitter = Emitter { out, line_start };
    match value {
        Value::Object(fields) if !fields.is_empty() => emitter.mapping(fields, 0),
        Value::Array(items) if !items.is_empty() => emitter.sequence(items, 0),
        // A text that is the whole document is indented as if it had a key.
        scalar => emitter.scalar(scalar, 2),
    }
}

struct Emitter<'a> {
    out: &'a mut String,
    /// Where the current line begins in `out`.
    line_start: usize,
}

/// How a scalar may be written, after a look at each of its characters.
struct Analysis {
    plain: bool,
    single_quoted: bool,
    block: bool,
    multiline: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Style {
    Plain,
    SingleQuoted,
    DoubleQuoted,
    Literal,
}

/// Whether a text may go over several lines.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    SimpleKey,
    Value,
}

impl Emitter<'_> {
    /// The cursor stands where the first key goes.
    fn mapping(&mut self, fields: &Map<String, Value>, indent: usize) {
        let mut fields: Vec<_> = fields.iter().collect();
        fields.sort_by(|(a, _), (b, _)| natural::compare(a, b));
        for (i, (key, value)) in fields.into_iter().enumerate() {
            if i > 0 {
                self.pad(indent);
            }
            let analysis = analyze(key);
            if analysis.multiline || key.len() > MAX_SIMPLE_KEY {
                self.out.push_str("? ");
                if self.text(key, &analysis, indent + 2, Place::Value) != Style::Literal {
                    self.newline();
                }
                self.pad(indent);
            } else {
                self.text(key, &analysis, indent + 2, Place::SimpleKey);
            }
            self.out.push(':');
            match value {
                Value::Object(inner) if !inner.is_empty() => {
                    self.newline();
                    self.pad(indent + 2);
                    self.mapping(inner, indent + 2);
                }
                Value::Array(items) if !items.is_empty() => {
                    self.newline();
                    self.pad(indent);
                    self.sequence(items, indent);
                }
                scalar => {
                    self.out.push(' ');
                    self.scalar(scalar, indent + 2);
                }
            }
        }
    }

    fn sequence(&mut self, items: &[Value], indent: usize) {
        for (i, item) in items.iter().enumerate() {
            if i > 0 {
                self.pad(indent);
            }
            self.out.push_str("- ");
            match item {
                Value::Object(inner) if !inner.is_empty() => self.mapping(inner, indent + 2),
                Value::Array(inner) if !inner.is_empty() => self.sequence(inner, indent + 2),
                scalar => self.scalar(scalar, indent + 2),
            }
        }
    }

    /// Writes what is no filled collection, and ends the line.
    fn scalar(&mut self, value: &Value, indent: usize) {
        match value {
            Value::Object(_) => self.out.push_str("{}"),
            Value::Array(_) => self.out.push_str("[]"),
            Value::Null => self.out.push_str("null"),
            Value::Bool(true) => self.out.push_str("true"),
            Value::Bool(false) => self.out.push_str("false"),
            Value::Number(number) => match number.as_f64() {
                Some(float) if number.is_f64() => write_float(self.out, float),
                _ => self.out.push_str(&number.to_string()),
            },
            Value::String(text) => {
                let analysis = analyze(text);
                if self.text(text, &analysis, indent, Place::Value) == Style::Literal {
                    return;
                }
            }
        }
        self.newline();
    }

    /// Writes a text; only a literal block ends its line itself.
    fn text(&mut self, text: &str, analysis: &Analysis, indent: usize, place: Place) -> Style {
        let style = style_of(text, analysis, place);
        match style {
            Style::Plain => self.wrapped(text, indent, place, |out, c| out.push(c)),
            Style::SingleQuoted => {
                self.out.push('\'');
                self.wrapped(text, indent, place, |out, c| {
                    if c == '\'' {
                        out.push('\'');
                    }
                    out.push(c);
                });
                self.out.push('\'');
            }
            Style::DoubleQuoted => self.double_quoted(text, indent, place),
            Style::Literal => self.literal(text, indent),
        }
        style
    }

    fn wrapped(&mut self, text: &str, indent: usize, place: Place, put: impl Fn(&mut String, char)) {
        let mut after_space = false;
        let mut chars = text.chars().peekable();
        let mut first = true;
        while let Some(c) = chars.next() {
            let single = !matches!(chars.peek(), Some(' ') | None);
            if c == ' ' && place == Place::Value && !after_space && single && !first && self.beyond_width() {
                self.newline();
                self.pad(indent);
            } else {
                put(self.out, c);
            }
            after_space = c == ' ';
            first = false;
        }
    }

    fn double_quoted(&mut self, text: &str, indent: usize, place: Place) {
        self.out.push('"');
        let mut after_space = false;
        let mut chars = text.chars().peekable();
        let mut first = true;
        while let Some(c) = chars.next() {
            if c == ' '
                && place == Place::Value
                && !after_space
                && !first
                && chars.peek().is_some()
                && self.beyond_width()
            {
                self.newline();
                self.pad(indent);
                if chars.peek() == Some(&' ') {
                    self.out.push('\\');
                }
            } else if !is_printable(c) || is_break(c) || matches!(c, '"' | '\\') {
                push_escape(self.out, c);
            } else {
                self.out.push(c);
            }
            after_space = c == ' ';
            first = false;
        }
        self.out.push('"');
    }

    fn literal(&mut self, text: &str, indent: usize) {
        self.out.push('|');
        if text.starts_with(|c| c == ' ' || is_break(c)) {
            self.out.push('2');
        }
        let mut backwards = text.chars().rev();
        match (backwards.next().is_some_and(is_break), backwards.next()) {
            (false, _) => self.out.push('-'),
            (true, Some(before)) if !is_break(before) => {}
            (true, _) => self.out.push('+'),
        }
        self.newline();
        let mut lines = text.split('\n').peekable();
        while let Some(line) = lines.next() {
            if line.is_empty() && lines.peek().is_none() {
                return;
            }
            if !line.is_empty() {
                self.pad(indent);
                self.out.push_str(line);
            }
            self.newline();
        }
    }

    fn beyond_width(&self) -> bool {
        let line = self.out.get(self.line_start..).unwrap_or_default();
        // Most lines are short, and bytes are never fewer than characters.
        line.len() > BEST_WIDTH && line.chars().nth(BEST_WIDTH).is_some()
    }

    fn newline(&mut self) {
        self.out.push('\n');
        self.line_start = self.out.len();
    }

    fn pad(&mut self, indent: usize) {
        self.out.extend(std::iter::repeat_n(' ', indent));
    }
}

fn style_of(text: &str, analysis: &Analysis, place: Place) -> Style {
    let wanted = if text.contains('\n') {
        Style::Literal
    } else if is_ambiguous(text) {
        Style::DoubleQuoted
    } else {
        Style::Plain
    };
    let quoted = if analysis.single_quoted { Style::SingleQuoted } else { Style::DoubleQuoted };
    match wanted {
        _ if place == Place::SimpleKey && analysis.multiline => Style::DoubleQuoted,
        Style::Plain if !analysis.plain || (text.is_empty() && place == Place::SimpleKey) => quoted,
        Style::Literal if !analysis.block || place == Place::SimpleKey => Style::DoubleQuoted,
        style => style,
    }
}

fn analyze(text: &str) -> Analysis {
    if text.is_empty() {
        return Analysis { plain: true, single_quoted: true, block: false, multiline: false };
    }
    let mut indicators = text.starts_with("---") || text.starts_with("...");
    let (mut multiline, mut special, mut break_space, mut space_break) = (false, false, false, false);
    let mut before = None;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let blank_follows = chars.peek().is_none_or(|c| matches!(c, ' ' | '\t'));
        let after_blank = before.is_none_or(|c| matches!(c, ' ' | '\t' | '\0') || is_break(c));
        indicators |= match c {
            ',' | '[' | ']' | '{' | '}' | '&' | '*' | '!' | '|' | '>' | '\'' | '"' | '%' | '@' | '`' => {
                before.is_none()
            }
            '#' => after_blank,
            ':' => blank_follows,
            '?' | '-' => before.is_none() && blank_follows,
            _ => false,
        };
        special |= !is_printable(c);
        if c == ' ' {
            break_space |= before.is_some_and(is_break);
        } else if is_break(c) {
            multiline = true;
            space_break |= before == Some(' ');
        }
        before = Some(c);
    }
    let is_edge = |c: char| c == ' ' || is_break(c);
    let edges = text.starts_with(is_edge) || text.ends_with(is_edge);
    let unfit = space_break || special;
    Analysis {
        plain: !(edges || break_space || unfit || multiline || indicators),
        single_quoted: !(break_space || unfit),
        block: !(text.ends_with(' ') || unfit),
        multiline,
    }
}

fn is_break(c: char) -> bool {
    matches!(c, '\n' | '\r' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// What may be written as it is: nothing beyond the basic plane, as upstream has it.
fn is_printable(c: char) -> bool {
    matches!(c, '\n' | ' '..='~' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}') && c != '\u{feff}'
}

fn push_escape(out: &mut String, c: char) {
    let short = match c {
        '\0' => '0',
        '\u{7}' => 'a',
        '\u{8}' => 'b',
        '\t' => 't',
        '\n' => 'n',
        '\u{b}' => 'v',
        '\u{c}' => 'f',
        '\r' => 'r',
        '\u{1b}' => 'e',
        '"' => '"',
        '\\' => '\\',
        '\u{85}' => 'N',
        '\u{2028}' => 'L',
        '\u{2029}' => 'P',
        _ => {
            let code = u32::from(c);
            out.push_str(&match code {
                0..=0xff => format!("\\x{code:02X}"),
                0x100..=0xffff => format!("\\u{code:04X}"),
                _ => format!("\\U{code:08X}"),
            });
            return;
        }
    };
    out.push('\\');
    out.push(short);
}
