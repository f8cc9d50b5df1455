//! Runs upstream's specs by name with the program built from `clients/e2e`, and reads Ginkgo's report.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::test_run::target_dir;

/// A run that takes longer is broken off; what it has not done counts as failed.
const TIMEOUT: &str = "15m";
/// What is shown of the output of a program that died.
const OUTPUT_TAIL_BYTES: usize = 4000;

/// The suite, pointed at a server.
pub struct Suite {
    program: PathBuf,
    kubectl: PathBuf,
    kubeconfig: PathBuf,
    /// Reports and output, kept for whoever wants to know more.
    directory: PathBuf,
}

/// What became of a spec.
pub struct Ran {
    pub name: String,
    /// Ginkgo's word: passed, failed, panicked, skipped, timedout, …
    pub state: String,
    pub seconds: f64,
    /// Why it did not pass.
    pub message: String,
}

impl Suite {
    pub fn new(program: PathBuf, kubectl: PathBuf, kubeconfig: PathBuf) -> Result<Self> {
        let directory = target_dir().join("e2e");
        std::fs::create_dir_all(&directory).with_context(|| directory.display().to_string())?;
        Ok(Suite { program, kubectl, kubeconfig, directory })
    }

    /// Spreads the specs over several programs.
    pub fn run_in_parallel(&self, specs: &[&str], processes: usize) -> Result<Vec<Ran>> {
        let mut shares = vec![Vec::new(); processes];
        for (index, spec) in specs.iter().enumerate() {
            shares[index % processes].push(*spec);
        }
        let results = std::thread::scope(|scope| {
            let shares = shares.iter().enumerate().filter(|(_, share)| !share.is_empty());
            let running: Vec<_> =
                shares.map(|(number, share)| scope.spawn(move || self.run(share, &number.to_string()))).collect();
            running.into_iter().map(|thread| thread.join()).collect::<Vec<_>>()
        });
        let mut all = Vec::new();
        for result in results {
            all.extend(result.map_err(|_| anyhow::anyhow!("a thread of the suite panicked"))??);
        }
        Ok(all)
    }

    /// Runs the specs one after another in one program.
    pub fn run(&self, specs: &[&str], label: &str) -> Result<Vec<Ran>> {
        let report = self.directory.join(format!("{label}.json"));
        let output = self.directory.join(format!("{label}.log"));
        // An old report must not be taken for a new one.
        let _ = std::fs::remove_file(&report);
        let log = std::fs::File::create(&output)?;
        let home = self.directory.join(format!("{label}.home"));
        std::fs::create_dir_all(&home)?;
        let mut command = Command::new(&self.program);
        command
            .current_dir(&self.directory)
            .env("HOME", &home)
            .args(["--provider=skeleton", "--num-nodes=1", "--allowed-not-ready-nodes=-1"])
            .args(["--dump-logs-on-failure=false", "--disable-log-dump=true", "--ginkgo.no-color"])
            .arg(format!("--kubeconfig={}", self.kubeconfig.display()))
            .arg(format!("--kubectl-path={}", self.kubectl.display()))
            .arg(format!("--ginkgo.timeout={TIMEOUT}"))
            .arg(format!("--ginkgo.json-report={}", report.display()))
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log);
        for spec in specs {
            command.arg(format!("--ginkgo.focus= {}$", regex::escape(spec)));
        }
        // Its exit code says no more than the report.
        command.status().with_context(|| format!("running {}", self.program.display()))?;
        match std::fs::read_to_string(&report) {
            Ok(text) => parse(&text, &report),
            Err(_) => Ok(died(specs, &output)),
        }
    }
}

/// Ginkgo's report, as far as it is read.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct SuiteReport {
    #[serde(default)]
    spec_reports: Option<Vec<SpecReport>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct SpecReport {
    #[serde(default)]
    container_hierarchy_texts: Option<Vec<String>>,
    leaf_node_type: String,
    leaf_node_text: String,
    state: String,
    /// Nanoseconds.
    #[serde(default)]
    run_time: u64,
    failure: Option<Failure>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Failure {
    #[serde(default)]
    message: String,
    #[serde(default)]
    location: Location,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
struct Location {
    file_name: String,
    line_number: u64,
}

fn parse(text: &str, path: &Path) -> Result<Vec<Ran>> {
    let suites: Vec<SuiteReport> = serde_json::from_str(text).with_context(|| path.display().to_string())?;
    let specs = suites.into_iter().flat_map(|suite| suite.spec_reports.unwrap_or_default());
    // Specs that were not asked for are in the report as skipped without having been begun.
    let specs =
        specs.filter(|spec| spec.leaf_node_type == "It" && !(spec.state == "skipped" && spec.failure.is_none()));
    Ok(specs.map(Ran::from).collect())
}

impl From<SpecReport> for Ran {
    fn from(spec: SpecReport) -> Self {
        let mut texts = spec.container_hierarchy_texts.unwrap_or_default();
        texts.push(spec.leaf_node_text);
        let message = spec.failure.map(|failure| {
            let Location { file_name, line_number } = failure.location;
            format!("{file_name}:{line_number}: {}", failure.message)
        });
        Ran {
            name: texts.join(" "),
            state: spec.state,
            seconds: spec.run_time as f64 / 1e9,
            message: message.unwrap_or_default(),
        }
    }
}

/// No report: the program died, and nobody can say of which spec.
fn died(specs: &[&str], output: &Path) -> Vec<Ran> {
    let text = std::fs::read_to_string(output).unwrap_or_default();
    let tail: String = text.chars().rev().take(OUTPUT_TAIL_BYTES).collect::<Vec<_>>().into_iter().rev().collect();
    let message = format!("the program died; its output is in {}\n{tail}", output.display());
    let ran = |spec: &&str| Ran {
        name: (*spec).to_owned(),
        state: "died".to_owned(),
        seconds: 0.0,
        message: message.clone(),
    };
    specs.iter().map(ran).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_names_specs_by_their_containers_and_leaves_out_what_was_not_asked_for() {
        let text = r#"[{"SpecReports": [
            {"ContainerHierarchyTexts": null, "LeafNodeType": "BeforeSuite", "LeafNodeText": "", "State": "passed"},
            {"ContainerHierarchyTexts": ["[sig-a] B"], "LeafNodeType": "It", "LeafNodeText": "works", "State": "passed", "RunTime": 1500000000},
            {"ContainerHierarchyTexts": ["[sig-a] B"], "LeafNodeType": "It", "LeafNodeText": "other", "State": "skipped"},
            {"ContainerHierarchyTexts": ["[sig-a] B"], "LeafNodeType": "It", "LeafNodeText": "needs nodes", "State": "skipped",
             "Failure": {"Message": "no nodes", "Location": {"FileName": "b.go", "LineNumber": 7}}}]}]"#;
        let ran = parse(text, Path::new("report.json")).unwrap();
        let shown: Vec<_> =
            ran.iter().map(|ran| (ran.name.as_str(), ran.state.as_str(), ran.message.as_str())).collect();
        assert_eq!(
            shown,
            [("[sig-a] B works", "passed", ""), ("[sig-a] B needs nodes", "skipped", "b.go:7: no nodes")]
        );
        assert!((ran[0].seconds - 1.5).abs() < 1e-9);
    }
}
