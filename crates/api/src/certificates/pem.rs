//! PEM blocks, found the way Go's `encoding/pem` finds them: text around blocks and broken blocks are passed over.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// One decoded block.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Block {
    pub label: String,
    pub has_headers: bool,
    pub der: Vec<u8>,
}

/// The first block, and the text after it.
pub(super) fn first_block(text: &str) -> Option<(Block, &str)> {
    let mut rest = text;
    loop {
        let start = if rest.starts_with("-----BEGIN ") { 0 } else { rest.find("\n-----BEGIN ")? + 1 };
        rest = rest.get(start + "-----BEGIN ".len()..)?;
        if let Some(found) = block_after_begin(rest) {
            return Some(found);
        }
    }
}

/// Reads what follows `-----BEGIN `; `None` when it is no block after all.
fn block_after_begin(text: &str) -> Option<(Block, &str)> {
    let (line, mut rest) = take_line(text);
    let label = line.strip_suffix("-----")?;
    let mut has_headers = false;
    loop {
        let (line, next) = take_line(rest);
        if next.is_empty() || !line.contains(':') {
            break;
        }
        has_headers = true;
        rest = next;
    }
    let (body, after) = if !has_headers && rest.starts_with("-----END ") {
        ("", rest.strip_prefix("-----END ")?)
    } else {
        rest.split_once("\n-----END ")?
    };
    let (end, rest) = take_line(after.strip_prefix(label)?.strip_prefix("-----")?);
    if !end.is_empty() {
        return None;
    }
    let compact: String = body.chars().filter(|c| !matches!(c, ' ' | '\t' | '\r' | '\n')).collect();
    let der = STANDARD.decode(compact).ok()?;
    Some((Block { label: label.to_owned(), has_headers, der }, rest))
}

/// A line without the white space at its end, and the lines after it.
fn take_line(text: &str) -> (&str, &str) {
    let (line, rest) = text.split_once('\n').unwrap_or((text, ""));
    (line.trim_end_matches([' ', '\t', '\r']), rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn broken_blocks_are_passed_over() {
        let text =
            "hello\n-----BEGIN A-----\n!!\n-----END A-----\n-----BEGIN B-----\nk: v\n\naGk=\n-----END B-----\nrest";
        let (block, rest) = first_block(text).expect("a block");
        assert_eq!(block, Block { label: "B".into(), has_headers: true, der: b"hi".to_vec() });
        assert_eq!(rest, "rest");
        assert_eq!(first_block("-----BEGIN A-----\naGk=\n-----END B-----\n"), None);
        assert_eq!(first_block("-----BEGIN A-----\n-----END A-----").map(|(b, _)| b.der), Some(Vec::new()));
    }

    proptest! {
        #[test]
        fn no_input_panics(text in "(-----(BEGIN|END) [A-B]?-----|\n|:|a|é| )*") {
            let _ = first_block(&text);
        }
    }
}
