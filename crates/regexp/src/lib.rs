//! Regular expressions with the syntax and meaning of Go's `regexp`, on the `regex` crate.
//!
//! Both are linear-time and close relatives, but not the same: in Go `\d`, `\w`, `\s` and `\b` are ASCII, brackets mean
//! nothing inside a class, a brace that begins no counted repetition is a brace. An expression is read as Go reads it,
//! with Go's errors, and written out in the crate's dialect.

mod translate;

use regex::bytes::{Regex, RegexBuilder};

/// Largest compiled expression, which bounds what a hostile one costs in memory and time.
const MAX_PROGRAM_BYTES: usize = 10 << 20;
/// Cache of the lazy automaton, per expression and thread that is matching.
const MAX_AUTOMATON_BYTES: usize = 1 << 20;

/// An expression that does not parse, worded as Go words it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("error parsing regexp: {code}: `{expression}`")]
pub struct PatternError {
    /// What is wrong: `missing closing )`.
    pub code: &'static str,
    /// The part of the expression at fault.
    pub expression: String,
}

/// The weight up to which an expression certainly compiles within [`MAX_PROGRAM_BYTES`], at 2 KiB a character: the program
/// of the heaviest character, one class of all letters, is less per unit of its weight.
const LIGHT: u64 = (MAX_PROGRAM_BYTES / 2048) as u64;

/// Whether Go would accept the expression, and we can run it. Most expressions are only read for that: compiling them
/// would take as long as everything else about a definition.
pub fn check(expression: &str) -> Result<(), PatternError> {
    let translated = translate::translate(expression)?;
    let readable = regex_syntax::ParserBuilder::new().utf8(false).build().parse(&translated.text).is_ok();
    if readable && translated.weight <= LIGHT { Ok(()) } else { compile(expression).map(drop) }
}

/// Roughly how large an expression is compiled, in characters; nothing for one that does not parse. Takes no longer than
/// reading it, so it tells what compiling many of them would cost.
pub fn weight(expression: &str) -> u64 {
    translate::translate(expression).map_or(0, |translated| translated.weight)
}

/// The compiled expression. It matches bytes, which for text are whole characters.
pub fn compile(expression: &str) -> Result<Regex, PatternError> {
    let translated = translate::translate(expression)?;
    let built =
        RegexBuilder::new(&translated.text).size_limit(MAX_PROGRAM_BYTES).dfa_size_limit(MAX_AUTOMATON_BYTES).build();
    built.map_err(|error| {
        let fault = |code, expression: &str| PatternError { code, expression: expression.to_owned() };
        match error {
            regex::Error::CompiledTooBig(_) => fault("expression too large", expression),
            error if error.to_string().contains("nest") => fault("expression nests too deeply", expression),
            _ => {
                let unknown = translated.unicode_classes.iter().find(|class| Regex::new(class).is_err());
                unknown.map_or_else(
                    || fault("invalid or unsupported Perl syntax", expression),
                    |class| fault("invalid character class range", class),
                )
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(expression: &str, value: &str) -> bool {
        compile(expression).expect(expression).is_match(value.as_bytes())
    }

    #[test]
    fn classes_are_ascii_as_in_go() {
        assert!(matches(r"^\d+$", "42") && !matches(r"^\d+$", "٤٢"));
        assert!(matches(r"^\w+$", "a_1") && !matches(r"^\w+$", "é"));
        assert!(matches(r"^\S+$", "é") && matches(r"^[\S]+$", "é\u{b}"));
        assert!(!matches(r"^\s$", "\u{b}") && matches(r"^[\s]$", "\t") && !matches(r"^\s$", "\u{a0}"));
        assert!(matches(r"^[^\d]$", "٤") && matches(r"^[\D]$", "٤") && matches(r"\bé", "aé"));
        assert!(!matches(r"é\b", "é"));
        assert!(matches(r"^[[:alpha:]-]+$", "a-b") && matches(r"^[[:^alpha:]]$", "é"));
    }

    #[test]
    fn brackets_braces_and_operators_mean_what_they_mean_in_go() {
        assert!(matches(r"^[[]$", "[") && matches(r"^[]a]+$", "]a") && matches(r"^[^]]$", "x"));
        assert!(matches(r"^[a&&b]+$", "a&b") && matches(r"^[a~~b]$", "~") && matches(r"^[+--]$", ","));
        assert!(matches(r"^a{$", "a{") && matches(r"^a{,3}$", "a{,3}") && matches(r"^a{2}$", "aa"));
        assert!(matches(r"^\Qa.b\E$", "a.b") && !matches(r"^\Qa.b\E$", "axb"));
        assert!(matches(r"^\<\>\_\-$", "<>_-") && matches(r"^\101\x41\x{41}$", "AAA"));
        assert!(matches(r"^(?P<n>a)(?<m>b)(?i:C)$", "abc") && matches(r"(?U)^a+$", "aa"));
        assert!(matches(r"^\pL\p{Greek}\P{^Lu}$", "aαA") && matches(r"^[\p{L}-]$", "-"));
        assert!(matches(r"^\z", "") && matches("^.$", "é") && !matches("^.$", "\n"));
    }

    #[test]
    fn the_heaviest_expressions_that_are_only_read_compile() {
        for unit in [r"\pL", r"[^\pL\pN]", r"(?i:\pL)", ".", "(?i)k", r"\S", "[^a]"] {
            let times = (1..=1000).take_while(|times| weight(&format!("{unit}{{{times}}}")) <= LIGHT).last();
            let heaviest = format!("^{unit}{{{}}}$", times.expect(unit));
            compile(&heaviest).unwrap_or_else(|error| panic!("{heaviest} of weight {}: {error}", weight(&heaviest)));
        }
    }

    #[test]
    fn errors_are_go_s() {
        let error = |expression: &str| check(expression).expect_err(expression).to_string();
        for (expression, fault) in [
            ("(", "missing closing ): `(`"),
            ("a)", "unexpected ): `a)`"),
            ("x[a", "missing closing ]: `[a`"),
            ("[z-a]", "invalid character class range: `z-a`"),
            ("[a[:foo:]]", "invalid character class range: `[:foo:]`"),
            (r"\p{Foo}", r"invalid character class range: `\p{Foo}`"),
            ("a**", "invalid nested repetition operator: `**`"),
            ("a*+", "invalid nested repetition operator: `*+`"),
            ("*a", "missing argument to repetition operator: `*`"),
            ("(?:|*)", "missing argument to repetition operator: `*`"),
            ("a{1001}", "invalid repeat count: `{1001}`"),
            ("a{2,1}", "invalid repeat count: `{2,1}`"),
            ("(a{100}){11}", "invalid repeat count: `{11}`"),
            ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
            ("(?!a)", "invalid or unsupported Perl syntax: `(?!`"),
            ("(?P<a-b>c)", "invalid named capture: `(?P<a-b>`"),
            ("(?P<n", "invalid named capture: `(?P<n`"),
            (r"\1", r"invalid escape sequence: `\1`"),
            (r"\q", r"invalid escape sequence: `\q`"),
            (r"\C", r"invalid escape sequence: `\C`"),
            (r"\x{110000}", r"invalid escape sequence: `\x{110000`"),
            ("a\\", "trailing backslash at end of expression: ``"),
        ] {
            assert_eq!(error(expression), format!("error parsing regexp: {fault}"));
        }
    }

    #[test]
    fn what_would_be_huge_is_refused() {
        let huge = format!("({}){{1000}}", r"\pL".repeat(500));
        assert_eq!(check(&huge).expect_err("too large").code, "expression too large");
    }

    #[test]
    fn counted_repetitions_weigh_what_they_repeat() {
        assert_eq!(weight("abc"), 3);
        assert_eq!(weight("(ab){10}c"), 21);
        assert_eq!(weight("((ab){10}){10}"), 200);
        assert_eq!(weight("a{5,}|b*"), 6);
        assert_eq!(weight("("), 0);
        assert!(weight(r"\pL{1000}") >= 1_000_000);
    }

    proptest::proptest! {
        #[test]
        fn checking_never_panics(expression in r"(?s)[\[\](){}|*+?\\^$.:a-c0-9,\-pPQExé&<>!=isU]{0,24}") {
            let _ = check(&expression);
        }
    }
}
