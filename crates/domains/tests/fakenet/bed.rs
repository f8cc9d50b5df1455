//! The harness: enters the namespace, brings the fake internet up once and runs every scenario on it.

use std::os::unix::process::CommandExt;
use std::pin::Pin;
use std::sync::Arc;

use anyhow::{Context, Result};
use bailiwick_domains::engine::Engine;
use bailiwick_domains::report::Style;
use bailiwick_domains::report::trace::TraceReport;
use bailiwick_domains::resolve::{Run, Thoroughness};
use bailiwick_domains::seams::{Roots, VantagePoint};
use bailiwick_domains::wire::{Question, RecordType, parse_name};
use bailiwick_fakenet::{Bed, namespace};

/// What scenarios are given.
pub struct World {
    pub bed: Bed,
    pub roots: Arc<Roots>,
}

type Outcome<'a> = Pin<Box<dyn Future<Output = Result<()>> + 'a>>;

/// A named scenario.
pub struct Scenario {
    pub name: &'static str,
    pub run: for<'a> fn(&'a World) -> Outcome<'a>,
}

/// A scenario from an async function.
#[macro_export]
macro_rules! scenario {
    ($function:ident) => {
        $crate::bed::Scenario { name: stringify!($function), run: |world| Box::pin($function(world)) }
    };
}

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

pub fn run(scenarios: Vec<Scenario>, up: fn() -> Result<World>) -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument == "--list") {
        scenarios.iter().for_each(|scenario| println!("{}: test", scenario.name));
        return Ok(());
    }
    if !namespace::is_inside() {
        if let Some(reason) = bailiwick_fakenet::missing() {
            println!("SKIPPED: scenarios on the fake internet ({reason})");
            return Ok(());
        }
        // Only returns when it fails.
        let error = namespace::command(std::env::current_exe()?).args(&arguments).exec();
        return Err(error).context("running unshare");
    }
    let filter = arguments.iter().find(|argument| !argument.starts_with('-')).cloned().unwrap_or_default();
    let chosen: Vec<&Scenario> = scenarios.iter().filter(|scenario| scenario.name.contains(&filter)).collect();
    println!("\nrunning {} tests", chosen.len());
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let begin = std::time::Instant::now();
    let world = up()?;
    println!("the fake internet is up after {:?}", begin.elapsed());
    let mut failed = 0;
    for scenario in &chosen {
        let run = || runtime.block_on((scenario.run)(&world));
        let verdict = match std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)) {
            Ok(Ok(())) => "ok",
            Ok(Err(error)) => {
                println!("{}: {error:#}", scenario.name);
                "FAILED"
            }
            Err(_) => "FAILED",
        };
        failed += usize::from(verdict != "ok");
        println!("test {} ... {verdict}", scenario.name);
    }
    let verdict = if failed == 0 { "ok" } else { "FAILED" };
    let filtered = scenarios.len() - chosen.len();
    let passed = chosen.len() - failed;
    println!(
        "\ntest result: {verdict}. {passed} passed; {failed} failed; 0 ignored; 0 measured; {filtered} filtered out\n"
    );
    drop(world);
    std::process::exit(i32::from(failed > 0));
}
