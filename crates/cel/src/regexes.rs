//! Regular expressions in RE2's dialect, and a small cache of those that an evaluation meets.

use std::sync::Arc;

use crate::error::EvalError;

/// How many different patterns an evaluation keeps compiled; comprehensions over patterns may meet more.
const CACHED_PATTERNS: usize = 16;

/// The largest compiled program of a pattern: large enough for every schema in the wild, small enough to forget.
const COMPILED_SIZE_LIMIT_BYTES: usize = 4 * 1024 * 1024;

/// Compiled patterns by source.
#[derive(Debug, Default)]
pub struct RegexCache {
    entries: Vec<(Box<str>, Arc<regex::Regex>)>,
}

impl RegexCache {
    /// The compiled pattern.
    pub fn get(&mut self, pattern: &str) -> Result<Arc<regex::Regex>, EvalError> {
        if let Some((_, compiled)) = self.entries.iter().find(|(known, _)| **known == *pattern) {
            return Ok(compiled.clone());
        }
        let compiled = Arc::new(compile(pattern).map_err(EvalError::new)?);
        if self.entries.len() >= CACHED_PATTERNS {
            self.entries.remove(0);
        }
        self.entries.push((Box::from(pattern), compiled.clone()));
        Ok(compiled)
    }
}

/// Compiles a pattern, or says why not in Go's words as far as they are known.
pub fn compile(pattern: &str) -> Result<regex::Regex, String> {
    regex::RegexBuilder::new(pattern)
        .size_limit(COMPILED_SIZE_LIMIT_BYTES)
        .build()
        .map_err(|error| go_message(pattern, &error))
}

fn go_message(pattern: &str, error: &regex::Error) -> String {
    match error {
        regex::Error::Syntax(text) => {
            let reason = text.lines().last().unwrap_or_default().trim_start_matches("error: ");
            let go = match reason {
                "unclosed group" => "missing closing )",
                "unopened group" => "unexpected )",
                "unclosed character class" => "missing closing ]",
                "repetition operator missing expression" => "missing argument to repetition operator",
                "unrecognized escape sequence" => "invalid escape sequence",
                "incomplete escape sequence, reached end of pattern prematurely" => {
                    "trailing backslash at end of expression"
                }
                "look-around, including look-ahead and look-behind, is not supported" => {
                    "invalid or unsupported Perl syntax"
                }
                other => other,
            };
            match go {
                "missing closing )" | "unexpected )" => format!("error parsing regexp: {go}: `{pattern}`"),
                _ => format!("error parsing regexp: {go}: `{pattern}`"),
            }
        }
        other => format!("error parsing regexp: {other}"),
    }
}
