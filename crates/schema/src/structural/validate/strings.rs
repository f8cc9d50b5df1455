//! Strings, and values that are not among those enumerated.

use serde_json::Value;

use super::{Check, Passed, error};
use crate::decode::go_quote;
use crate::field::ErrorKind;
use crate::structural::location::Location;
use crate::structural::schema::ValueValidation;

impl Check<'_> {
    /// Length and pattern, of which the first fault is reported, and the format.
    pub(super) fn string(&mut self, text: &str, validation: Option<&ValueValidation>, at: &Location<'_>) -> Passed {
        let Some(validation) = validation else { return 1 };
        self.length_and_pattern(text, validation, at);
        let Some(format) = validation.checked_format.filter(|format| format.is_of_strings()) else { return 1 };
        if !format.accepts(text) {
            self.fail(|check| {
                let name = at.name();
                let detail = format!("{name} in body must be of type {}: {}", validation.format, go_quote(text));
                error(ErrorKind::TypeInvalid, check.field_named(&name), Some(text.into()), detail)
            });
        }
        2
    }

    fn length_and_pattern(&mut self, text: &str, validation: &ValueValidation, at: &Location<'_>) {
        if let Some(max) = validation.max_length
            && is_longer(text, max)
        {
            self.fail(|check| {
                let detail = match max {
                    1 => "may not be more than 1 byte".to_owned(),
                    max if max < 0 => "value is too long".to_owned(),
                    max => format!("may not be more than {max} bytes"),
                };
                error(ErrorKind::TooLong, check.field_named(&at.name()), None, detail)
            });
        } else if let Some(min) = validation.min_length
            && min > 0
            && !is_longer(text, min - 1)
        {
            self.invalid(at, text, |name| format!("{name} in body should be at least {min} chars long"));
        } else if !validation.pattern.is_empty() && !validation.matcher.matches(&validation.pattern, text) {
            self.invalid(at, text, |name| format!("{name} in body should match '{}'", validation.pattern));
        }
    }

    pub(super) fn enumeration(&mut self, value: &Value, validation: Option<&ValueValidation>, at: &Location<'_>) {
        let Some(validation) = validation.filter(|v| !v.enumeration.is_empty()) else { return };
        if validation.members.contain(&validation.enumeration, value) {
            return;
        }
        self.fail(|check| {
            let shown = |allowed: &Value| match allowed {
                Value::String(text) => go_quote(text),
                other => go_quote(&other.to_string()),
            };
            let allowed: Vec<String> = validation.enumeration.iter().map(shown).collect();
            let detail = format!("supported values: {}", allowed.join(", "));
            error(ErrorKind::NotSupported, check.field_named(&at.name()), Some(value.clone()), detail)
        });
    }
}

/// Whether a text has more than `length` characters; bytes tell most of the time.
fn is_longer(text: &str, length: i64) -> bool {
    let Ok(length) = usize::try_from(length) else { return true };
    text.len() > length && text.chars().nth(length).is_some()
}
