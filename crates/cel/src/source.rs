//! The text of an expression and the messages about it, printed the way cel-go prints them: position, the line, and
//! a caret under the place.

use std::fmt;

/// A line longer than this is not shown with a message.
const MAX_SNIPPET_BYTES: usize = 16_384;
/// Messages beyond these are only counted.
const MAX_ERRORS_REPORTED: usize = 100;

/// Where something is: a line from 1 and a column from 0, both −1 for no place at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Location {
    pub line: i32,
    pub column: i32,
}

impl Location {
    /// About the expression as a whole.
    pub const NONE: Self = Self { line: -1, column: -1 };
}

/// One message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issue {
    pub location: Location,
    pub message: String,
}

/// Everything that is wrong with an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issues {
    text: String,
    issues: Vec<Issue>,
    count: usize,
}

impl Issues {
    /// None so far.
    pub(crate) fn new(text: &str) -> Self {
        Self { text: text.to_owned(), issues: Vec::new(), count: 0 }
    }

    pub(crate) fn report(&mut self, location: Location, message: impl Into<String>) {
        self.count += 1;
        if self.count <= MAX_ERRORS_REPORTED {
            self.issues.push(Issue { location, message: message.into() });
        }
    }

    /// Whether nothing is wrong.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The messages in the order they were found.
    pub fn iter(&self) -> impl Iterator<Item = &Issue> {
        self.issues.iter()
    }
}

impl std::error::Error for Issues {}

impl fmt::Display for Issues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut sorted: Vec<&Issue> = self.issues.iter().collect();
        sorted.sort_by_key(|issue| issue.location);
        for (at, issue) in sorted.iter().enumerate() {
            if at > 0 {
                f.write_str("\n")?;
            }
            self.write_issue(f, issue)?;
        }
        if self.count > MAX_ERRORS_REPORTED {
            write!(f, "\n{} more errors were truncated", self.count - MAX_ERRORS_REPORTED)?;
        }
        Ok(())
    }
}

impl Issues {
    fn write_issue(&self, f: &mut fmt::Formatter<'_>, issue: &Issue) -> fmt::Result {
        let Location { line, column } = issue.location;
        write!(f, "ERROR: <input>:{line}:{}: {}", column + 1, issue.message)?;
        let Some(snippet) = self.line(line) else { return Ok(()) };
        if snippet.len() > MAX_SNIPPET_BYTES {
            return Ok(());
        }
        let snippet = snippet.replace('\t', " ");
        write!(f, "\n | {snippet}\n | ")?;
        let mut chars = snippet.chars();
        for _ in 0..column {
            match chars.next() {
                Some(c) if c.len_utf8() > 1 => f.write_str("\u{ff0e}")?,
                Some(_) => f.write_str(".")?,
                None => break,
            }
        }
        match chars.next() {
            Some(c) if c.len_utf8() > 1 => f.write_str("\u{ff3e}"),
            _ => f.write_str("^"),
        }
    }

    fn line(&self, line: i32) -> Option<&str> {
        let wanted = usize::try_from(line).ok()?.checked_sub(1)?;
        if self.text.is_empty() {
            return None;
        }
        self.text.split('\n').nth(wanted)
    }
}

/// Finds lines and columns of offsets in code points.
#[derive(Clone, Debug)]
pub(crate) struct Lines {
    /// Offsets at which lines after the first begin.
    starts: Vec<u32>,
}

impl Lines {
    pub(crate) fn new(chars: &[char]) -> Self {
        let starts = chars.iter().zip(1u32..).filter(|(c, _)| **c == '\n').map(|(_, next)| next).collect();
        Self { starts }
    }

    pub(crate) fn locate(&self, offset: u32) -> Location {
        let before = self.starts.partition_point(|start| *start <= offset);
        let start = before.checked_sub(1).and_then(|at| self.starts.get(at)).copied().unwrap_or(0);
        Location {
            line: i32::try_from(before + 1).unwrap_or(i32::MAX),
            column: i32::try_from(offset - start).unwrap_or(i32::MAX),
        }
    }
}
