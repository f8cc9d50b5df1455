//! Tokens. The lexer takes the longest token at each place; what begins no token is reported up to the character
//! that cannot go on, and reading continues after it.

/// Kinds of tokens, in the order in which messages list them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    Eof,
    Equals,
    NotEquals,
    In,
    Less,
    LessEquals,
    GreaterEquals,
    Greater,
    LogicalAnd,
    LogicalOr,
    LBracket,
    RBracket,
    LBrace,
    RBrace,
    LParen,
    RParen,
    Dot,
    Comma,
    Minus,
    Exclam,
    Question,
    Colon,
    Plus,
    Star,
    Slash,
    Percent,
    True,
    False,
    Null,
    NumFloat,
    NumInt,
    NumUint,
    String,
    Bytes,
    Identifier,
    EscIdentifier,
}

const KINDS: [Kind; 36] = [
    Kind::Eof,
    Kind::Equals,
    Kind::NotEquals,
    Kind::In,
    Kind::Less,
    Kind::LessEquals,
    Kind::GreaterEquals,
    Kind::Greater,
    Kind::LogicalAnd,
    Kind::LogicalOr,
    Kind::LBracket,
    Kind::RBracket,
    Kind::LBrace,
    Kind::RBrace,
    Kind::LParen,
    Kind::RParen,
    Kind::Dot,
    Kind::Comma,
    Kind::Minus,
    Kind::Exclam,
    Kind::Question,
    Kind::Colon,
    Kind::Plus,
    Kind::Star,
    Kind::Slash,
    Kind::Percent,
    Kind::True,
    Kind::False,
    Kind::Null,
    Kind::NumFloat,
    Kind::NumInt,
    Kind::NumUint,
    Kind::String,
    Kind::Bytes,
    Kind::Identifier,
    Kind::EscIdentifier,
];

impl Kind {
    fn display(self) -> &'static str {
        match self {
            Self::Eof => "<EOF>",
            Self::Equals => "'=='",
            Self::NotEquals => "'!='",
            Self::In => "'in'",
            Self::Less => "'<'",
            Self::LessEquals => "'<='",
            Self::GreaterEquals => "'>='",
            Self::Greater => "'>'",
            Self::LogicalAnd => "'&&'",
            Self::LogicalOr => "'||'",
            Self::LBracket => "'['",
            Self::RBracket => "']'",
            Self::LBrace => "'{'",
            Self::RBrace => "'}'",
            Self::LParen => "'('",
            Self::RParen => "')'",
            Self::Dot => "'.'",
            Self::Comma => "','",
            Self::Minus => "'-'",
            Self::Exclam => "'!'",
            Self::Question => "'?'",
            Self::Colon => "':'",
            Self::Plus => "'+'",
            Self::Star => "'*'",
            Self::Slash => "'/'",
            Self::Percent => "'%'",
            Self::True => "'true'",
            Self::False => "'false'",
            Self::Null => "'null'",
            Self::NumFloat => "NUM_FLOAT",
            Self::NumInt => "NUM_INT",
            Self::NumUint => "NUM_UINT",
            Self::String => "STRING",
            Self::Bytes => "BYTES",
            Self::Identifier => "IDENTIFIER",
            Self::EscIdentifier => "ESC_IDENTIFIER",
        }
    }
}

/// A set of kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kinds(u64);

impl Kinds {
    pub const fn of(kinds: &[Kind]) -> Self {
        let mut bits = 0;
        let mut at = 0;
        while at < kinds.len() {
            bits |= 1 << kinds[at] as u8;
            at += 1;
        }
        Self(bits)
    }

    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub fn contains(self, kind: Kind) -> bool {
        self.0 & (1 << kind as u8) != 0
    }
}

impl std::fmt::Display for Kinds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&str> = KINDS.iter().filter(|kind| self.contains(**kind)).map(|kind| kind.display()).collect();
        match names.as_slice() {
            [only] => f.write_str(only),
            many => write!(f, "{{{}}}", many.join(", ")),
        }
    }
}

/// A token and the code points it covers.
#[derive(Clone, Copy, Debug)]
pub struct Token {
    pub kind: Kind,
    pub start: u32,
    pub end: u32,
}

/// Text in which no token was found.
pub struct Unrecognized {
    pub start: u32,
    pub text: String,
}

/// All tokens, ending with one of kind [`Kind::Eof`], and the places that are no tokens.
pub fn tokenize(chars: &[char]) -> (Vec<Token>, Vec<Unrecognized>) {
    let mut tokens = Vec::new();
    let mut unrecognized = Vec::new();
    let mut at = 0;
    while at < chars.len() {
        let rest = chars.get(at..).unwrap_or_default();
        match next_token(rest) {
            Ok((None, len)) => at += len,
            Ok((Some(kind), len)) => {
                tokens.push(Token { kind, start: offset(at), end: offset(at + len) });
                at += len;
            }
            Err(dead_at) => {
                let len = (dead_at + 1).min(rest.len());
                let text: String = rest.iter().take(len).collect();
                unrecognized.push(Unrecognized { start: offset(at), text });
                at += len;
            }
        }
    }
    let end = offset(chars.len());
    tokens.push(Token { kind: Kind::Eof, start: end, end });
    (tokens, unrecognized)
}

fn offset(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

/// The longest token at the beginning and its length; `None` for space and comments. An error is the position of the
/// first character with which nothing can go on.
fn next_token(chars: &[char]) -> Result<(Option<Kind>, usize), usize> {
    let peek = |at: usize| chars.get(at).copied();
    let Some(first) = peek(0) else { return Err(0) };
    let two = |second: char, long: Kind, short: Kind| {
        if peek(1) == Some(second) { Ok((Some(long), 2)) } else { Ok((Some(short), 1)) }
    };
    match first {
        ' ' | '\t' | '\r' | '\n' | '\u{c}' => {
            let len = chars.iter().take_while(|c| matches!(c, ' ' | '\t' | '\r' | '\n' | '\u{c}')).count();
            Ok((None, len))
        }
        '/' if peek(1) == Some('/') => Ok((None, chars.iter().take_while(|c| **c != '\n').count())),
        '=' if peek(1) == Some('=') => Ok((Some(Kind::Equals), 2)),
        '&' if peek(1) == Some('&') => Ok((Some(Kind::LogicalAnd), 2)),
        '|' if peek(1) == Some('|') => Ok((Some(Kind::LogicalOr), 2)),
        '=' | '&' | '|' => Err(1),
        '!' => two('=', Kind::NotEquals, Kind::Exclam),
        '<' => two('=', Kind::LessEquals, Kind::Less),
        '>' => two('=', Kind::GreaterEquals, Kind::Greater),
        '[' => Ok((Some(Kind::LBracket), 1)),
        ']' => Ok((Some(Kind::RBracket), 1)),
        '{' => Ok((Some(Kind::LBrace), 1)),
        '}' => Ok((Some(Kind::RBrace), 1)),
        '(' => Ok((Some(Kind::LParen), 1)),
        ')' => Ok((Some(Kind::RParen), 1)),
        ',' => Ok((Some(Kind::Comma), 1)),
        '-' => Ok((Some(Kind::Minus), 1)),
        '?' => Ok((Some(Kind::Question), 1)),
        ':' => Ok((Some(Kind::Colon), 1)),
        '+' => Ok((Some(Kind::Plus), 1)),
        '*' => Ok((Some(Kind::Star), 1)),
        '/' => Ok((Some(Kind::Slash), 1)),
        '%' => Ok((Some(Kind::Percent), 1)),
        '.' if peek(1).is_some_and(|c| c.is_ascii_digit()) => Ok(number(chars)),
        '.' => Ok((Some(Kind::Dot), 1)),
        '0'..='9' => Ok(number(chars)),
        '"' | '\'' => string(chars, Escapes::Interpreted).map(|len| (Some(Kind::String), len)),
        '`' => backquoted(chars),
        'a'..='z' | 'A'..='Z' | '_' => Ok(word(chars)),
        _ => Err(0),
    }
}

fn digits(chars: &[char], from: usize, is_digit: fn(&char) -> bool) -> usize {
    chars.iter().skip(from).take_while(|c| is_digit(c)).count()
}

fn number(chars: &[char]) -> (Option<Kind>, usize) {
    let peek = |at: usize| chars.get(at).copied();
    let is_unsigned = |at: usize| matches!(peek(at), Some('u' | 'U'));
    if peek(0) == Some('0') && peek(1) == Some('x') {
        let hex = digits(chars, 2, char::is_ascii_hexdigit);
        if hex > 0 {
            let len = 2 + hex;
            return if is_unsigned(len) { (Some(Kind::NumUint), len + 1) } else { (Some(Kind::NumInt), len) };
        }
    }
    let mut len = digits(chars, 0, char::is_ascii_digit);
    if is_unsigned(len) {
        return (Some(Kind::NumUint), len + 1);
    }
    let mut kind = Kind::NumInt;
    if peek(len) == Some('.') {
        let fraction = digits(chars, len + 1, char::is_ascii_digit);
        if fraction > 0 {
            len += 1 + fraction;
            kind = Kind::NumFloat;
        }
    }
    if matches!(peek(len), Some('e' | 'E')) {
        let sign = usize::from(matches!(peek(len + 1), Some('+' | '-')));
        let exponent = digits(chars, len + 1 + sign, char::is_ascii_digit);
        if exponent > 0 {
            len += 1 + sign + exponent;
            kind = Kind::NumFloat;
        }
    }
    (Some(kind), len)
}

fn word(chars: &[char]) -> (Option<Kind>, usize) {
    // Prefixes of strings: r, b, rb is not one but br is.
    let lower = |at: usize| chars.get(at).map(char::to_ascii_lowercase);
    let (prefix, escapes, kind) = match (lower(0), lower(1)) {
        (Some('b'), Some('r')) => (2, Escapes::Raw, Kind::Bytes),
        (Some('b'), _) => (1, Escapes::Interpreted, Kind::Bytes),
        (Some('r'), _) => (1, Escapes::Raw, Kind::String),
        _ => (0, Escapes::Raw, Kind::Identifier),
    };
    if prefix > 0
        && let Some(rest @ ['"' | '\'', ..]) = chars.get(prefix..)
        && let Ok(len) = string(rest, escapes)
    {
        return (Some(kind), prefix + len);
    }
    let len = chars.iter().take_while(|c| c.is_ascii_alphanumeric() || **c == '_').count();
    let text: String = chars.iter().take(len).collect();
    let kind = match text.as_str() {
        "in" => Kind::In,
        "true" => Kind::True,
        "false" => Kind::False,
        "null" => Kind::Null,
        _ => Kind::Identifier,
    };
    (Some(kind), len)
}

fn backquoted(chars: &[char]) -> Result<(Option<Kind>, usize), usize> {
    let len = chars
        .iter()
        .skip(1)
        .take_while(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-' | '/' | ' '))
        .count();
    if len > 0 && chars.get(len + 1) == Some(&'`') { Ok((Some(Kind::EscIdentifier), len + 2)) } else { Err(len + 1) }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Escapes {
    Interpreted,
    Raw,
}

/// The length of the string literal at the beginning, quotes included, or where it goes wrong.
fn string(chars: &[char], escapes: Escapes) -> Result<usize, usize> {
    let Some(quote) = chars.first().copied() else { return Err(0) };
    if chars.get(1) == Some(&quote) {
        if chars.get(2) != Some(&quote) {
            return Ok(2);
        }
        // An unfinished long string falls back to the empty one it begins with.
        return Ok(long_string(chars, quote, escapes).unwrap_or(2));
    }
    let mut at = 1;
    loop {
        match chars.get(at) {
            None | Some('\n' | '\r') => return Err(at),
            Some(c) if *c == quote => return Ok(at + 1),
            Some('\\') if escapes == Escapes::Interpreted => at = escape(chars, at)?,
            Some(_) => at += 1,
        }
    }
}

fn long_string(chars: &[char], quote: char, escapes: Escapes) -> Result<usize, usize> {
    let mut at = 3;
    loop {
        match chars.get(at) {
            None => return Err(at),
            Some(c) if *c == quote && chars.get(at + 1) == Some(&quote) && chars.get(at + 2) == Some(&quote) => {
                return Ok(at + 3);
            }
            Some('\\') if escapes == Escapes::Interpreted => at = escape(chars, at)?,
            Some(_) => at += 1,
        }
    }
}

/// The position after the escape sequence at `at`, or where it goes wrong.
fn escape(chars: &[char], at: usize) -> Result<usize, usize> {
    let hex = |count: usize| -> Result<usize, usize> {
        for offset in 0..count {
            let position = at + 2 + offset;
            if !chars.get(position).is_some_and(char::is_ascii_hexdigit) {
                return Err(position);
            }
        }
        Ok(at + 2 + count)
    };
    match chars.get(at + 1) {
        Some('a' | 'b' | 'f' | 'n' | 'r' | 't' | 'v' | '"' | '\'' | '\\' | '?' | '`') => Ok(at + 2),
        Some('x' | 'X') => hex(2),
        Some('u') => hex(4),
        Some('U') => hex(8),
        Some('0'..='3') => {
            for position in [at + 2, at + 3] {
                if !matches!(chars.get(position), Some('0'..='7')) {
                    return Err(position);
                }
            }
            Ok(at + 4)
        }
        _ => Err(at + 1),
    }
}
