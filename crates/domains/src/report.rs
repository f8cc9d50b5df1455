//! What the tools print: text for people, JSON for programs, both from the same report values, so that they cannot disagree.

mod style;
pub mod trace;

pub use style::{Colour, Style, Table, duration_text, time_text};
