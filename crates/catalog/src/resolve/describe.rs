//! A resolution in words: each bundle with the chain that led to it.

use std::fmt::Write;

use super::request::{Because, Resolution, Step};

/// A chain longer than this goes in a circle.
const MAX_CHAIN: usize = 16;

/// What is installed and why, bundle by bundle.
pub fn describe(resolution: &Resolution) -> String {
    if resolution.steps.is_empty() {
        return "nothing to install: everything that is wanted is there, in the version to have\n".to_owned();
    }
    let mut out = String::new();
    for step in &resolution.steps {
        let _ = write!(out, "{} from channel {} of {}", step.bundle, step.channel, step.source);
        if let Some(replaces) = &step.replaces {
            let _ = write!(out, ", in place of {replaces}");
        }
        out.push('\n');
        chain(resolution, step, &mut out);
        if !step.passed_over.is_empty() {
            let _ = writeln!(out, "  not possible here: {} (--why-not tells why)", step.passed_over.join(", "));
        }
    }
    out
}

fn chain(resolution: &Resolution, step: &Step, out: &mut String) {
    let mut current = Some(step);
    for depth in 1..=MAX_CHAIN {
        let Some(step) = current else { return };
        let indent = "  ".repeat(depth);
        match &step.because {
            Because::Wanted(want) => {
                let _ = writeln!(out, "{indent}because {want} asks for package {}", step.package);
                return;
            }
            Because::Required { by, requirement } => {
                let _ = writeln!(out, "{indent}because {by} requires {requirement}");
                current = resolution.steps.iter().find(|it| &it.bundle == by);
            }
        }
    }
}
