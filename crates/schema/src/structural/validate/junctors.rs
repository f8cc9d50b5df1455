//! `allOf`, `anyOf`, `oneOf` and `not`. Of the alternatives that all failed, the errors of the one that came nearest are
//! reported.

use serde_json::Value;

use super::{Check, Passed};
use crate::decode::go_quote;
use crate::structural::location::Location;
use crate::structural::schema::{Junctors, Schema};

impl Check<'_> {
    pub(super) fn junctors(&mut self, value: &Value, junctors: &Junctors, at: &Location<'_>) -> Passed {
        let mut passed = 0;
        if !junctors.any_of.is_empty() {
            passed += self.any_of(value, &junctors.any_of, at);
        }
        if !junctors.one_of.is_empty() && !self.stops() {
            passed += self.one_of(value, &junctors.one_of, at);
        }
        if !junctors.all_of.is_empty() && !self.stops() {
            passed += self.all_of(value, &junctors.all_of, at);
        }
        if let Some(not) = &junctors.not
            && !self.stops()
            && self.is_valid(value, not, at).is_some()
        {
            self.unplaced(|| format!("{} must not validate the schema (not)", go_quote(&at.name())));
        }
        passed
    }

    fn any_of(&mut self, value: &Value, schemas: &[impl AsRef<Schema>], at: &Location<'_>) -> Passed {
        for schema in schemas {
            if let Some(passed) = self.is_valid(value, schema.as_ref(), at) {
                return passed;
            }
        }
        self.unplaced(|| format!("{} must validate at least one schema (anyOf)", go_quote(&at.name())));
        self.nearest(value, schemas, at)
    }

    fn one_of(&mut self, value: &Value, schemas: &[impl AsRef<Schema>], at: &Location<'_>) -> Passed {
        let mut valid = schemas.iter().filter_map(|schema| self.is_valid(value, schema.as_ref(), at));
        let first = valid.next();
        let others = valid.count();
        match (first, others) {
            (Some(passed), 0) => return passed,
            (None, _) => self.not_one(at, "Found none valid"),
            (Some(_), others) => {
                self.not_one(at, &format!("Found {} valid alternatives", others + 1));
                return 0;
            }
        }
        self.nearest(value, schemas, at)
    }

    fn not_one(&mut self, at: &Location<'_>, found: &str) {
        self.unplaced(|| format!("{} must validate one and only one schema (oneOf). {found}", go_quote(&at.name())));
    }

    fn all_of(&mut self, value: &Value, schemas: &[impl AsRef<Schema>], at: &Location<'_>) -> Passed {
        let (mut passed, mut valid) = (0, 0);
        for schema in schemas {
            match self.is_valid(value, schema.as_ref(), at) {
                Some(checks) => {
                    passed += checks;
                    valid += 1;
                }
                None if self.quiet => {
                    self.failed = true;
                    return passed;
                }
                None => passed += self.checks(value, schema.as_ref(), at, None),
            }
        }
        if valid != schemas.len() {
            let none = if valid == 0 { ". None validated" } else { "" };
            self.unplaced(|| format!("{} must validate all the schemas (allOf){none}", go_quote(&at.name())));
        }
        passed
    }

    /// Reports the errors of the alternative that passed most checks, the first of equals.
    fn nearest(&mut self, value: &Value, schemas: &[impl AsRef<Schema>], at: &Location<'_>) -> Passed {
        if self.quiet {
            return 0;
        }
        let start = self.errors.len();
        let mut best: Option<(Passed, Vec<_>)> = None;
        for schema in schemas {
            let passed = self.checks(value, schema.as_ref(), at, None);
            let errors = self.errors.split_off(start);
            if best.as_ref().is_none_or(|(most, _)| passed > *most) {
                best = Some((passed, errors));
            }
        }
        let (passed, errors) = best.unwrap_or_default();
        self.errors.extend(errors);
        passed
    }
}
