//! The `pattern`s of schemas: Go's regular expressions, compiled when first needed and shared by all schemas that have
//! the same one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

pub use bailiwick_regexp::{PatternError, check, weight};
use regex::bytes::Regex;

/// Dead entries of the shared table are swept when it has this many more entries than before.
const SWEEP_EVERY: usize = 1024;

/// The expression, compiled; the same allocation for all who hold it at the time.
pub fn compile_shared(expression: &str) -> Result<Arc<Regex>, PatternError> {
    static TABLE: OnceLock<Mutex<Shared>> = OnceLock::new();
    let table = TABLE.get_or_init(Mutex::default);
    let known = table.lock().unwrap_or_else(PoisonError::into_inner).by_text.get(expression).and_then(Weak::upgrade);
    if let Some(regex) = known {
        return Ok(regex);
    }
    // Not under the lock: compiling can take milliseconds. Two threads may do it at once; the last stays.
    let regex = Arc::new(bailiwick_regexp::compile(expression)?);
    let mut table = table.lock().unwrap_or_else(PoisonError::into_inner);
    table.by_text.insert(expression.into(), Arc::downgrade(&regex));
    if table.by_text.len() > table.live_at_last_sweep + SWEEP_EVERY {
        table.by_text.retain(|_, entry| entry.strong_count() > 0);
        table.live_at_last_sweep = table.by_text.len();
    }
    Ok(regex)
}

#[derive(Default)]
struct Shared {
    by_text: HashMap<Box<str>, Weak<Regex>>,
    live_at_last_sweep: usize,
}

/// The compiled form of a schema's `pattern`, made when the first value is matched.
#[derive(Debug, Default)]
pub struct Pattern(OnceLock<Option<Arc<Regex>>>);

impl Pattern {
    /// Whether the value matches. An expression that cannot be compiled, which no stored definition has, matches nothing.
    pub fn matches(&self, expression: &str, value: &str) -> bool {
        let regex = self.0.get_or_init(|| compile_shared(expression).ok());
        regex.as_ref().is_some_and(|regex| regex.is_match(value.as_bytes()))
    }
}

/// Equality of schemas is that of the expression's text, which stands beside this.
impl PartialEq for Pattern {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}
