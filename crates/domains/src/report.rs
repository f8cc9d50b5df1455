//! What the tools print: text for people, JSON for programs, both from the same report values, so that they cannot disagree.

pub mod compare;
pub mod fqdn;
pub mod history;
pub mod plan;
pub mod scan;
mod style;
pub mod trace;
pub mod verification;
pub mod zone_check;

pub use style::{Colour, Style, Table, duration_text, time_text};
