//! The world of the scenarios: the fake internet, and engines on it.

use std::sync::Arc;

use anyhow::Result;
use bailiwick_domains::engine::Engine;
use bailiwick_domains::report::Style;
use bailiwick_domains::report::trace::TraceReport;
use bailiwick_domains::resolve::{Run, Thoroughness};
use bailiwick_domains::seams::{Roots, VantagePoint};
use bailiwick_domains::wire::{Question, RecordType, parse_name};
use bailiwick_fakenet::Bed;

/// What scenarios are given.
pub struct World {
    pub bed: Bed,
    pub roots: Arc<Roots>,
}

/// A scenario of ours.
pub type Scenario = bailiwick_fakenet::scenarios::Scenario<World>;

impl World {
    pub fn up() -> Result<Self> {
        let bed = Bed::up()?;
        let roots = Arc::new(Roots::from_file(&bed.roots_file())?);
        Ok(Self { bed, roots })
    }

    /// An engine at the first place.
    pub fn engine(&self) -> Engine {
        self.engine_at(0)
    }

    /// An engine at one of the places.
    pub fn engine_at(&self, index: usize) -> Engine {
        let from = self.roots.vantage_points().into_iter().nth(index).unwrap_or_else(VantagePoint::here);
        Engine::at(from, self.roots.clone())
    }

    /// What `dns trace` prints.
    pub async fn trace(&self, name: &str, rtype: RecordType) -> Result<String> {
        let engine = self.engine();
        let question = Question::new(parse_name(name)?, rtype);
        let run = Run::new(&engine);
        let resolution = run.resolve(&question, Thoroughness::EveryServer).await;
        let validation = bailiwick_domains::dnssec::validate(&Run::new(&engine), &resolution).await;
        Ok(TraceReport::new(&resolution, Some(validation)).text(Style::Plain))
    }
}

/// Asserts that a text tells something.
#[track_caller]
pub fn tells(text: &str, what: &str) {
    assert!(text.contains(what), "the user is not told {what:?} in:\n{text}");
}
