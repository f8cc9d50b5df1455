//! The values of string and bytes literals.

/// What a literal stands for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Target {
    Text,
    Bytes,
}

/// The contents of a quoted literal without its `b` prefix, escapes resolved. For text the bytes are UTF-8.
pub fn unquote(literal: &str, target: Target) -> Result<Vec<u8>, &'static str> {
    const BROKEN: &str = "unable to unescape string";
    let normalized = literal.replace("\r\n", "\n").replace('\r', "\n");
    let (raw, quoted) = match normalized.strip_prefix(['r', 'R']) {
        Some(rest) => (true, rest),
        None => (false, normalized.as_str()),
    };
    let quotes = if quoted.len() >= 6 && (quoted.starts_with("'''") || quoted.starts_with("\"\"\"")) { 3 } else { 1 };
    let inside = quoted.get(quotes..quoted.len().saturating_sub(quotes)).ok_or(BROKEN)?;
    if raw || !inside.contains('\\') {
        return Ok(inside.as_bytes().to_vec());
    }
    let mut result = Vec::with_capacity(inside.len());
    let mut rest = inside;
    while let Some(c) = rest.chars().next() {
        if c != '\\' {
            result.extend_from_slice(rest.get(..c.len_utf8()).unwrap_or_default().as_bytes());
            rest = rest.get(c.len_utf8()..).unwrap_or_default();
            continue;
        }
        rest = one_escape(rest.get(1..).unwrap_or_default(), target, &mut result)?;
    }
    Ok(result)
}

fn one_escape<'t>(text: &'t str, target: Target, result: &mut Vec<u8>) -> Result<&'t str, &'static str> {
    const BROKEN: &str = "unable to unescape string";
    let Some(letter) = text.chars().next() else {
        return Err("unable to unescape string, found '\\' as last character");
    };
    let rest = text.get(letter.len_utf8()..).unwrap_or_default();
    let simple = match letter {
        'a' => Some(7),
        'b' => Some(8),
        'f' => Some(12),
        'n' => Some(b'\n'),
        'r' => Some(b'\r'),
        't' => Some(b'\t'),
        'v' => Some(11),
        '\\' | '\'' | '"' | '`' | '?' => u8::try_from(letter).ok(),
        _ => None,
    };
    if let Some(byte) = simple {
        result.push(byte);
        return Ok(rest);
    }
    let (digits, radix, number) = match letter {
        'x' | 'X' => (2, 16, rest),
        'u' if target == Target::Text => (4, 16, rest),
        'U' if target == Target::Text => (8, 16, rest),
        '0'..='3' => (3, 8, text),
        _ => return Err(BROKEN),
    };
    let value = number.get(..digits).and_then(|text| u32::from_str_radix(text, radix).ok()).ok_or(BROKEN)?;
    match target {
        Target::Bytes => result.push(u8::try_from(value).map_err(|_| BROKEN)?),
        Target::Text => {
            let c = char::from_u32(value).ok_or("invalid unicode code point")?;
            result.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
        }
    }
    Ok(number.get(digits..).unwrap_or_default())
}
