//! What admission leaves beside the object: warnings to the client and annotations of the audit event.

use std::sync::{Mutex, MutexGuard, PoisonError};

use bailiwick_machinery::validation::names::qualified_name;

/// Collected over all rounds of one request, also by calls that run at the same time.
#[derive(Debug, Default)]
pub struct Notes {
    /// Advice to the client, in order.
    pub warnings: Mutex<Vec<String>>,
    annotations: Mutex<Vec<AuditAnnotation>>,
}

/// From which audit level on an annotation is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnnotationLevel {
    Metadata,
    /// Holds parts of the object.
    Request,
}

/// An annotation of the audit event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditAnnotation {
    /// A qualified name: `<prefix>/<name>`.
    pub key: String,
    pub value: String,
    pub level: AnnotationLevel,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Notes {
    /// Sends advice to the client along with the answer.
    pub fn warn(&self, warning: impl Into<String>) {
        locked(&self.warnings).push(warning.into());
    }

    /// Adds to the audit event. A key that is no qualified name, or that already has another value, is left out and
    /// logged, as upstream does.
    pub fn annotate(&self, key: impl Into<String>, value: impl Into<String>, level: AnnotationLevel) {
        let annotation = AuditAnnotation { key: key.into(), value: value.into(), level };
        let key = &annotation.key;
        if key.split('/').count() != 2 || !qualified_name(key).is_empty() {
            return tracing::warn!(key, "an audit annotation has an invalid key and is left out");
        }
        let mut annotations = locked(&self.annotations);
        match annotations.iter().find(|known| known.key == *key) {
            None => annotations.push(annotation),
            Some(known) if *known == annotation => {}
            Some(_) => tracing::warn!(key, "an audit annotation is set twice; the first value stays"),
        }
    }

    /// The warnings so far, which are taken.
    pub fn take_warnings(&self) -> Vec<String> {
        std::mem::take(&mut locked(&self.warnings))
    }

    /// The annotations so far, which are taken.
    pub fn take_annotations(&self) -> Vec<AuditAnnotation> {
        std::mem::take(&mut locked(&self.annotations))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn annotations_have_qualified_keys_and_keep_their_first_value() {
        let notes = Notes::default();
        for (key, value) in
            [("a.example.com/x", "1"), ("a.example.com/x", "2"), ("x", "3"), ("a/b/c", "4"), ("a/ b", "5")]
        {
            notes.annotate(key, value, AnnotationLevel::Metadata);
        }
        let kept: Vec<(String, String)> = notes.take_annotations().into_iter().map(|a| (a.key, a.value)).collect();
        assert_eq!(kept, [("a.example.com/x".to_owned(), "1".to_owned())]);
    }
}
