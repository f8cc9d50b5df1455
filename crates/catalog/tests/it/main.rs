//! The outside view: opm's goldens and, where it is installed, opm itself.

mod golden_render;
mod golden_validate;
mod paths;
