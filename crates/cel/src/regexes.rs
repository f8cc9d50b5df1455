//! Regular expressions in RE2's dialect, and a small cache of those that an evaluation meets.

use std::sync::Arc;

use regex::bytes::Regex;

use crate::error::EvalError;

/// How many different patterns an evaluation keeps compiled; comprehensions over patterns may meet more.
const CACHED_PATTERNS: usize = 16;

/// Compiled patterns by source.
#[derive(Debug, Default)]
pub struct RegexCache {
    entries: Vec<(Box<str>, Arc<Regex>)>,
}

impl RegexCache {
    /// The compiled pattern.
    pub fn get(&mut self, pattern: &str) -> Result<Arc<Regex>, EvalError> {
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

/// Compiles a pattern as Go reads it, or says why not in Go's words.
pub fn compile(pattern: &str) -> Result<Regex, String> {
    bailiwick_regexp::compile(pattern).map_err(|error| error.to_string())
}
