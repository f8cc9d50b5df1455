//! What a test found, for people at a terminal, for CI systems and for pull requests.

use std::fmt::Write;

use super::document::Platform;
use crate::go::columns;

/// A kind of test, from cheap to dear.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Layer {
    Sanity,
    Integration,
    Interoperability,
    EndToEnd,
}

impl Layer {
    /// All of them.
    pub const ALL: [Layer; 4] = [Layer::Sanity, Layer::Integration, Layer::Interoperability, Layer::EndToEnd];

    pub fn name(self) -> &'static str {
        match self {
            Layer::Sanity => "sanity",
            Layer::Integration => "integration",
            Layer::Interoperability => "interoperability",
            Layer::EndToEnd => "e2e",
        }
    }
}

/// How a check ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Passed,
    /// Something to look at that stops nobody.
    Warned(Vec<String>),
    Failed(Vec<String>),
    /// It could not be made, and why.
    Skipped(String),
}

impl Verdict {
    /// Failed if there are findings.
    pub fn of(findings: Vec<String>) -> Self {
        if findings.is_empty() { Verdict::Passed } else { Verdict::Failed(findings) }
    }

    /// Failed if there are errors, warned if there are only warnings.
    pub fn of_both(errors: Vec<String>, warnings: Vec<String>) -> Self {
        match (errors.is_empty(), warnings.is_empty()) {
            (true, true) => Verdict::Passed,
            (true, false) => Verdict::Warned(warnings),
            (false, _) => Verdict::Failed(errors.into_iter().chain(warnings).collect()),
        }
    }

    fn word(&self) -> &'static str {
        match self {
            Verdict::Passed => "passed",
            Verdict::Warned(_) => "warning",
            Verdict::Failed(_) => "FAILED",
            Verdict::Skipped(_) => "skipped",
        }
    }

    fn details(&self) -> &[String] {
        match self {
            Verdict::Passed => &[],
            Verdict::Warned(details) | Verdict::Failed(details) => details,
            Verdict::Skipped(reason) => std::slice::from_ref(reason),
        }
    }
}

/// One question and its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// A package, two with a plus between them, or the platform's name.
    pub operator: String,
    pub name: &'static str,
    pub verdict: Verdict,
}

impl Check {
    pub fn new(operator: &str, name: &'static str, verdict: Verdict) -> Self {
        Check { operator: operator.to_owned(), name, verdict }
    }
}

/// All answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    platform: String,
    checks: Vec<(Layer, Check)>,
}

impl Report {
    pub fn new(platform: &str) -> Self {
        Report { platform: platform.to_owned(), checks: Vec::new() }
    }

    /// Adds the checks of a layer. What failed in a candidate channel, or is accepted by the platform, only warns.
    pub fn add(&mut self, platform: &Platform, layer: Layer, checks: Vec<Check>) {
        for mut check in checks {
            if let Verdict::Failed(details) = &mut check.verdict {
                let accepted = platform.accepted.contains(&format!("{}/{}", check.operator, check.name));
                let parts: Vec<&str> = check.operator.split('+').collect();
                let candidate = platform
                    .operators
                    .iter()
                    .any(|operator| parts.contains(&operator.package.as_str()) && operator.is_candidate());
                if accepted || candidate {
                    let why = if accepted { "accepted by the platform" } else { "a candidate channel" };
                    details.insert(0, format!("({why})"));
                    check.verdict = Verdict::Warned(std::mem::take(details));
                }
            }
            self.checks.push((layer, check));
        }
    }

    pub fn checks(&self) -> impl Iterator<Item = (Layer, &Check)> {
        self.checks.iter().map(|(layer, check)| (*layer, check))
    }

    /// Whether nothing failed.
    pub fn passed(&self) -> bool {
        self.count("FAILED") == 0
    }

    fn count(&self, word: &str) -> usize {
        self.checks.iter().filter(|(_, check)| check.verdict.word() == word).count()
    }

    /// One line that sums up.
    pub fn summary(&self) -> String {
        format!(
            "platform {}: {} passed, {} warnings, {} failed, {} skipped",
            self.platform,
            self.count("passed"),
            self.count("warning"),
            self.count("FAILED"),
            self.count("skipped")
        )
    }

    /// A table, then the details of what did not pass.
    pub fn table(&self) -> String {
        let mut rows = vec![["LAYER", "OPERATOR", "CHECK", "RESULT"].map(str::to_owned).to_vec()];
        for (layer, check) in &self.checks {
            let cells = [layer.name(), &check.operator, check.name, check.verdict.word()];
            rows.push(cells.map(str::to_owned).to_vec());
        }
        let mut out = columns(&rows);
        for (layer, check) in self.checks.iter().filter(|(_, check)| !check.verdict.details().is_empty()) {
            let _ = write!(out, "\n{} {}/{}/{}\n", check.verdict.word(), layer.name(), check.operator, check.name);
            for detail in check.verdict.details() {
                for line in detail.lines() {
                    let _ = writeln!(out, "  {line}");
                }
            }
        }
        let _ = write!(out, "\n{}\n", self.summary());
        out
    }

    /// What CI systems read.
    pub fn junit(&self) -> String {
        let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
        let _ = writeln!(
            out,
            "<testsuites name=\"{}\" tests=\"{}\" failures=\"{}\" skipped=\"{}\">",
            xml(&self.platform),
            self.checks.len(),
            self.count("FAILED"),
            self.count("skipped")
        );
        for layer in Layer::ALL {
            let checks: Vec<&Check> = self.checks.iter().filter(|(it, _)| *it == layer).map(|(_, it)| it).collect();
            if checks.is_empty() {
                continue;
            }
            let count = |word: &str| checks.iter().filter(|check| check.verdict.word() == word).count();
            let _ = writeln!(
                out,
                "  <testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" skipped=\"{}\">",
                layer.name(),
                checks.len(),
                count("FAILED"),
                count("skipped")
            );
            for check in checks {
                let (class, name) = (format!("{}.{}", layer.name(), check.operator), check.name);
                let details = xml(&check.verdict.details().join("\n"));
                let inside = match &check.verdict {
                    Verdict::Passed => String::new(),
                    Verdict::Warned(_) => format!("<system-out>{details}</system-out>"),
                    Verdict::Failed(_) => {
                        let first = check.verdict.details().first().map_or("", |it| it.lines().next().unwrap_or(""));
                        format!("<failure message=\"{}\">{details}</failure>", xml(first))
                    }
                    Verdict::Skipped(reason) => format!("<skipped message=\"{}\"/>", xml(reason)),
                };
                let _ =
                    writeln!(out, "    <testcase classname=\"{}\" name=\"{name}\">{inside}</testcase>", xml(&class));
            }
            out.push_str("  </testsuite>\n");
        }
        out.push_str("</testsuites>\n");
        out
    }

    /// A comment for a pull request: what needs eyes first, everything else folded.
    pub fn markdown(&self) -> String {
        let mut out = format!("## {}\n", self.summary());
        let open: Vec<&(Layer, Check)> = self
            .checks
            .iter()
            .filter(|(_, check)| matches!(check.verdict, Verdict::Failed(_) | Verdict::Warned(_)))
            .collect();
        for (layer, check) in open {
            let mark = if matches!(check.verdict, Verdict::Failed(_)) { "❌" } else { "⚠️" };
            let _ = write!(out, "\n### {mark} {} · {} · {}\n\n```\n", layer.name(), check.operator, check.name);
            for detail in check.verdict.details() {
                // A fence inside would end this one.
                let _ = writeln!(out, "{}", detail.trim_end().replace("```", "'''"));
            }
            out.push_str("```\n");
        }
        out.push_str(
            "\n<details><summary>All checks</summary>\n\n| layer | operator | check | result |\n|---|---|---|---|\n",
        );
        for (layer, check) in &self.checks {
            let operator = check.operator.replace('|', "\\|");
            let _ = writeln!(out, "| {} | {operator} | {} | {} |", layer.name(), check.name, check.verdict.word());
        }
        out.push_str("\n</details>\n");
        out
    }
}

fn xml(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' | '\t' => out.push(c),
            // XML cannot hold these at all.
            c if c.is_control() => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let text = "apiVersion: catalog.bailiwick.dev/v1alpha1\nkind: Platform\nmetadata: {name: p}\nspec:\n  \
            accepted: [a/known]\n  operators:\n  - {package: a}\n  - {package: b, channel: candidate-v1}\n";
        let platform = Platform::parse(text).unwrap();
        let failed = || Verdict::Failed(vec!["x < \"y\" & z".to_owned()]);
        let mut report = Report::new("p");
        let checks = vec![
            Check::new("a", "known", failed()),
            Check::new("b", "images", failed()),
            Check::new("a", "images", failed()),
            Check::new("a", "valid", Verdict::Passed),
            Check::new("a", "path", Verdict::Skipped("no previous catalog".to_owned())),
        ];
        report.add(&platform, Layer::Sanity, checks);
        report
    }

    #[test]
    fn candidates_and_accepted_findings_only_warn() {
        let report = report();
        assert_eq!(report.summary(), "platform p: 1 passed, 2 warnings, 1 failed, 1 skipped");
        assert!(!report.passed());
    }

    #[test]
    fn junit_and_markdown_are_escaped() {
        let report = report();
        let junit = report.junit();
        assert!(junit.contains("<failure message=\"x &lt; &quot;y&quot; &amp; z\">"), "{junit}");
        assert!(junit.contains("tests=\"5\" failures=\"1\" skipped=\"1\""), "{junit}");
        assert!(report.markdown().contains("### ❌ sanity · a · images"), "{}", report.markdown());
        assert!(report.table().contains("FAILED sanity/a/images\n  x < \"y\" & z\n"), "{}", report.table());
    }
}
