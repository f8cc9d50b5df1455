//! Where a walk over an object is: a chain of steps on the stack, written out only when there is something to report.

use std::fmt::Write;

use crate::field::Path;

/// One step below the place of the parent.
#[derive(Clone, Copy, Debug)]
enum Step<'a> {
    Root,
    /// A declared property.
    Field(&'a str),
    /// A key that falls under `additionalProperties`.
    Key(&'a str),
    Index(usize),
}

/// A place in an object.
#[derive(Clone, Copy, Debug)]
pub(super) struct Location<'a> {
    parent: Option<&'a Location<'a>>,
    step: Step<'a>,
}

impl<'a> Location<'a> {
    pub(super) const ROOT: Location<'static> = Location { parent: None, step: Step::Root };

    pub(super) fn field(&'a self, name: &'a str) -> Self {
        Self { parent: Some(self), step: Step::Field(name) }
    }

    pub(super) fn key(&'a self, name: &'a str) -> Self {
        Self { parent: Some(self), step: Step::Key(name) }
    }

    pub(super) fn index(&'a self, index: usize) -> Self {
        Self { parent: Some(self), step: Step::Index(index) }
    }

    pub(super) fn is_root(&self) -> bool {
        matches!(self.step, Step::Root)
    }

    /// As messages of value validation name it: dots everywhere, one even before an additional property of the root.
    pub(super) fn name(&self) -> String {
        self.write(|out, step| match step {
            Step::Root => {}
            Step::Field(name) if out.is_empty() => out.push_str(name),
            Step::Field(name) | Step::Key(name) => {
                out.push('.');
                out.push_str(name);
            }
            Step::Index(index) => push_index(out, index),
        })
    }

    /// As unknown fields are reported.
    pub(super) fn dotted(&self) -> String {
        self.write(|out, step| match step {
            Step::Root => {}
            Step::Field(name) | Step::Key(name) => {
                if !out.is_empty() {
                    out.push('.');
                }
                out.push_str(name);
            }
            Step::Index(index) => push_index(out, index),
        })
    }

    /// As a field path below `base`, keys of maps in brackets.
    pub(super) fn path(&self, base: &Path) -> Path {
        match (self.parent, self.step) {
            (None, _) | (_, Step::Root) => base.clone(),
            (Some(parent), Step::Field(name)) => parent.path(base).child(name),
            (Some(parent), Step::Key(name)) => parent.path(base).key(name),
            (Some(parent), Step::Index(index)) => parent.path(base).index(index),
        }
    }

    fn write(&self, mut each: impl FnMut(&mut String, Step<'_>)) -> String {
        let mut steps = Vec::new();
        let mut at = Some(self);
        while let Some(location) = at {
            steps.push(location.step);
            at = location.parent;
        }
        let mut out = String::new();
        for step in steps.into_iter().rev() {
            each(&mut out, step);
        }
        out
    }
}

fn push_index(out: &mut String, index: usize) {
    let _ = write!(out, "[{index}]");
}
