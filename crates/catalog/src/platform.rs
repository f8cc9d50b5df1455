//! Platforms: sets of operators that work together, and the tests that say so before anybody installs them.
//!
//! A [`Platform`] names operators with channels and version ranges, and the Kubernetes versions it is for. [`test`] looks
//! at a catalog in layers: is every operator sound by itself (sanity), does the catalog still serve those who installed
//! the last one (integration), do the operators get along (interoperability). Installing them for real is a layer too,
//! which needs a control plane and so lives elsewhere; [`journeys`] says what it has to do, and [`Stages`] gives it the
//! catalogs for that.

mod crd;
mod document;
mod integration;
mod interoperability;
mod journeys;
mod manifests;
mod removed_apis;
mod report;
mod sample;
mod sanity;
mod stages;
mod subject;
mod template;

pub use crd::{CrdChange, Severity, crd_changes};
pub use document::{Images, Operator, Platform, PlatformError};
pub use journeys::{Hop, Journey, journeys};
pub use manifests::Manifests;
pub use report::{Check, Layer, Report, Verdict};
pub use stages::Stages;
pub use subject::Subject;

/// Runs layers of a test, in their order.
pub fn test(subject: &mut Subject, layers: &[Layer]) -> Report {
    let mut report = Report::new(&subject.platform.name);
    for layer in layers {
        let checks = match layer {
            Layer::Sanity => sanity::run(subject),
            Layer::Integration => integration::run(subject),
            Layer::Interoperability => interoperability::run(subject),
            // Whoever has a control plane adds its checks.
            Layer::EndToEnd => Vec::new(),
        };
        report.add(&subject.platform, *layer, checks);
    }
    report
}
