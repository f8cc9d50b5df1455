//! Upgrade graphs, drawn: as mermaid text with opm's wording, and as SVG to look at.

mod mermaid;
mod svg;

pub use mermaid::{GraphOptions, SkippedEdges, mermaid};
pub use svg::svg;
