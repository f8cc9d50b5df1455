//! What is expected of tests that others wrote (`conformance/e2e.txt`, `conformance/test-cmd.txt`): one per line, with what the
//! reference did, and why it cannot pass if it cannot.

use std::path::Path;

use anyhow::{Context, Result, bail};

/// What is expected of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// It passes.
    Pass,
    /// It cannot pass, for the reason given.
    Fail,
    /// It cannot even be tried: without what it needs it waits for many minutes, or takes the whole program down.
    Unrunnable,
}

impl std::fmt::Display for Expected {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Expected::Pass => "pass",
            Expected::Fail => "cannot",
            Expected::Unrunnable => "never",
        })
    }
}

/// A line of the file.
#[derive(Debug, PartialEq, Eq)]
pub struct Expectation {
    pub expected: Expected,
    /// What it did on upstream's generic control plane with kube-controller-manager: `passed`, `failed`, or `-` if nobody tried.
    pub reference: String,
    /// Why it cannot pass.
    pub reason: String,
    /// The test's full name.
    pub name: String,
}

/// Reads the file.
pub fn read(path: &Path) -> Result<Vec<Expectation>> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    parse(&text).with_context(|| path.display().to_string())
}

fn parse(text: &str) -> Result<Vec<Expectation>> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    lines.map(|(number, line)| parse_line(line).with_context(|| format!("line {}", number + 1))).collect()
}

fn parse_line(line: &str) -> Result<Expectation> {
    let mut columns = line.splitn(4, '\t');
    let mut column = |name| columns.next().with_context(|| format!("no column for the {name}"));
    let expected = match column("expectation")? {
        "pass" => Expected::Pass,
        "cannot" => Expected::Fail,
        "never" => Expected::Unrunnable,
        other => bail!("{other:?} is neither pass, cannot nor never"),
    };
    let (reference, reason, name) = (column("reference")?, column("reason")?, column("name")?);
    if (expected == Expected::Pass) != (reason == "-") {
        bail!("a test has a reason if and only if it cannot pass");
    }
    Ok(Expectation { expected, reference: reference.into(), reason: reason.into(), name: name.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_four_columns_and_a_reason_unless_it_passes() {
        let specs = parse("# comment\n\npass\tpassed\t-\t[a] works\ncannot\tfailed\tneeds pods\t[b] fails\n").unwrap();
        assert_eq!(specs.len(), 2);
        assert_eq!((specs[0].expected, specs[0].name.as_str()), (Expected::Pass, "[a] works"));
        assert_eq!((specs[1].expected, specs[1].reason.as_str()), (Expected::Fail, "needs pods"));
        for wrong in ["pass\tpassed\twhy\t[a]", "cannot\tfailed\t-\t[a]", "perhaps\t-\t-\t[a]", "pass\tpassed"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
