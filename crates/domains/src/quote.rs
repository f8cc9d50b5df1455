//! Texts of strangers in our own: a TXT record may have 64 KiB, and what repeats it must stay a sentence and fit its object.

/// Bytes of one foreign text that are repeated: whoever put it there knows it by its beginning.
pub const QUOTED_BYTES_MAX: usize = 1024;

/// Stands for what is left out.
const ELLIPSIS: &str = "…";

/// A foreign text as it is repeated: whole, or its beginning and a sign that there was more.
pub fn quote(text: &str) -> String {
    if text.len() <= QUOTED_BYTES_MAX {
        return text.to_owned();
    }
    cut(text.to_owned(), QUOTED_BYTES_MAX - ELLIPSIS.len()) + ELLIPSIS
}

/// At most that many bytes of a text, at a character's end.
pub fn cut(mut text: String, bytes: usize) -> String {
    if text.len() > bytes {
        let end = (0..=bytes).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        text.truncate(end);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_between_characters() {
        assert_eq!(cut("aé".to_owned(), 2), "a");
        assert_eq!(cut("aé".to_owned(), 3), "aé");
    }

    #[test]
    fn a_long_text_is_repeated_up_to_the_limit_and_shows_that_there_was_more() {
        assert_eq!(quote("v=spf1 -all"), "v=spf1 -all");
        let quoted = quote(&"é".repeat(40_000));
        assert!(quoted.len() <= QUOTED_BYTES_MAX && quoted.ends_with("é…"), "{}", quoted.len());
    }
}
