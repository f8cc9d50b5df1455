//! `cargo xtask bench --audit`: what recording requests costs, level by level, beside not recording any.

use std::path::Path;

use anyhow::Result;

use super::{drive, sum_of};
use crate::conformance::servers;

/// Each way of recording is measured this often, in turns, and the best of each counts: a shared machine has bad moments.
const ROUNDS: usize = 3;

/// A way of recording: its name, the level of the policy, and the mode of the log.
const WAYS: [(&str, Option<(&str, &str)>); 4] = [
    ("not recorded", None),
    ("Metadata", Some(("Metadata", "batch"))),
    ("RequestResponse", Some(("RequestResponse", "batch"))),
    ("RequestResponse, blocking", Some(("RequestResponse", "blocking"))),
];

/// Measures and prints a table.
pub fn run(binary: &Path, loadgen: &Path, operations: u32) -> Result<()> {
    let directory = tempfile::tempdir()?;
    let scenarios = [
        ("create", format!("create --ns b1 --c 64 --n {operations}")),
        ("get", format!("get --ns b1 --c 64 --n {} --objects {operations}", operations * 2)),
        ("update", format!("update --ns b1 --c 64 --n {operations}")),
    ];
    let mut best = vec![[(0.0_f64, f64::INFINITY); WAYS.len()]; scenarios.len()];
    for round in 0..ROUNDS {
        for (way, (name, recording)) in WAYS.iter().enumerate() {
            let log = directory.path().join("audit.log");
            let _ = std::fs::remove_file(&log);
            let mut arguments: Vec<String> = Vec::new();
            if let Some((level, mode)) = recording {
                let policy = directory.path().join("policy.yaml");
                let text = format!("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{{level: {level}}}]\n");
                std::fs::write(&policy, text)?;
                arguments.extend(["--audit-policy-file".to_owned(), policy.display().to_string()]);
                arguments.extend(["--audit-log-path".to_owned(), log.display().to_string()]);
                arguments.extend(["--audit-log-mode".to_owned(), (*mode).to_owned()]);
            }
            let running = servers::start_bailiwick_with(binary, &arguments)?;
            for (index, (scenario, load)) in scenarios.iter().enumerate() {
                let load: Vec<String> = load.split_whitespace().map(str::to_owned).collect();
                let answer = drive(loadgen, &running, &load)?;
                println!("round {round}, {name}, {scenario}: {answer}");
                let (rate, cpu) = (sum_of(&answer, "ops_per_s"), sum_of(&answer, "cpu_s_per_1000"));
                let (best_rate, best_cpu) = best[index][way];
                best[index][way] = (best_rate.max(rate), best_cpu.min(cpu));
            }
        }
    }
    println!(
        "\n| scenario | recorded | ops/s | of not recorded | CPU us/op | more CPU |\n|---|---|---:|---:|---:|---:|"
    );
    for (index, (scenario, _)) in scenarios.iter().enumerate() {
        let (none_rate, none_cpu) = best[index][0];
        for (way, (name, _)) in WAYS.iter().enumerate() {
            let (rate, cpu) = best[index][way];
            println!(
                "| {scenario} | {name} | {rate:.0} | {:.0} % | {:.1} | {:+.0} % |",
                rate / none_rate * 100.0,
                cpu * 1000.0,
                (cpu / none_cpu - 1.0) * 100.0
            );
        }
    }
    Ok(())
}
