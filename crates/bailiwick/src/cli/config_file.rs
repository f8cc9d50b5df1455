//! `--config FILE`: flags in a YAML file, by their names without the dashes. What the command line says wins.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use bailiwick_machinery::yaml;
use clap::{ArgAction, Command, CommandFactory};
use serde_json::{Map, Value};

use super::Cli;

/// How many keys a file may have: more than there are flags.
const KEYS_MAX: usize = 1000;

/// The command line with what a file says that `--config` names, if it does.
pub fn expand(mut arguments: Vec<String>) -> anyhow::Result<Vec<String>> {
    let Some(path) = take_config(&mut arguments)? else { return Ok(arguments) };
    let mut cli = Cli::command();
    cli.build();
    let position = arguments.iter().skip(1).position(|argument| cli.find_subcommand(argument).is_some());
    let Some((place, command)) = position.and_then(|at| Some((at + 1, cli.find_subcommand(arguments.get(at + 1)?)?)))
    else {
        bail!("--config needs a subcommand, such as serve, whose flags the file has");
    };
    let settings = read(&path)?;
    let given = |name: &str| {
        let long = format!("--{name}");
        arguments.iter().any(|argument| *argument == long || argument.starts_with(&format!("{long}=")))
    };
    let mut added = Vec::new();
    for (key, value) in settings {
        let fault = |why: String| anyhow::anyhow!("{}: {key}: {why}", path.display());
        let Some(argument) = find(command, &key) else { return Err(fault(unknown(command, &key))) };
        if !given(&key) {
            added.extend(flags(&key, argument, &value).map_err(fault)?);
        }
    }
    arguments.splice(place + 1..place + 1, added);
    Ok(arguments)
}

/// Takes `--config FILE` out of the command line.
fn take_config(arguments: &mut Vec<String>) -> anyhow::Result<Option<PathBuf>> {
    let mut path = None;
    let mut at = 1;
    while let Some(argument) = arguments.get(at) {
        if let Some(value) = argument.strip_prefix("--config=") {
            path = Some(PathBuf::from(value));
            arguments.remove(at);
        } else if argument == "--config" {
            arguments.remove(at);
            if at >= arguments.len() {
                bail!("--config needs a file");
            }
            path = Some(PathBuf::from(arguments.remove(at)));
        } else {
            at += 1;
        }
    }
    Ok(path)
}

fn read(path: &Path) -> anyhow::Result<Map<String, Value>> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let decoded = yaml::decode(&text).map_err(|error| anyhow::anyhow!("{}: {error}", path.display()))?;
    if let Some(fault) = decoded.strict_error() {
        bail!("{}: {fault}", path.display());
    }
    match decoded.value {
        Value::Object(settings) if settings.len() > KEYS_MAX => bail!("{}: too many keys", path.display()),
        Value::Object(settings) => Ok(settings),
        Value::Null => Ok(Map::new()),
        _ => bail!("{}: flags by name are expected, such as `listen: 127.0.0.1:6443`", path.display()),
    }
}

fn find<'a>(command: &'a Command, key: &str) -> Option<&'a clap::Arg> {
    let settable = |argument: &&clap::Arg| {
        matches!(argument.get_action(), ArgAction::Set | ArgAction::Append | ArgAction::SetTrue)
    };
    command.get_arguments().filter(settable).find(|argument| argument.get_long() == Some(key) && key != "config")
}

fn unknown(command: &Command, key: &str) -> String {
    let name = command.get_name();
    let names = command.get_arguments().filter_map(clap::Arg::get_long).filter(|name| *name != "config");
    match names.map(|known| (distance(known, key), known)).min() {
        Some((distance, known)) if distance <= 3 => {
            format!("`bailiwick {name}` has no flag of this name; did you mean {known}?")
        }
        _ => format!("`bailiwick {name}` has no flag of this name"),
    }
}

/// How many characters must be changed, added or taken away to turn one word into the other.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().take(100).collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.iter().enumerate() {
            let changed = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

/// A setting as arguments.
fn flags(key: &str, argument: &clap::Arg, value: &Value) -> Result<Vec<String>, String> {
    if matches!(argument.get_action(), ArgAction::SetTrue) {
        return match value {
            Value::Bool(true) => Ok(vec![format!("--{key}")]),
            Value::Bool(false) => Ok(Vec::new()),
            _ => Err("must be true or false".to_owned()),
        };
    }
    match value {
        Value::Array(_) if !matches!(argument.get_action(), ArgAction::Append) => {
            Err("takes one value, not a list".to_owned())
        }
        Value::Array(values) => values.iter().map(|value| Ok(format!("--{key}={}", scalar(value)?))).collect(),
        value => Ok(vec![format!("--{key}={}", scalar(value)?)]),
    }
}

fn scalar(value: &Value) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Number(number) => Ok(number.to_string()),
        Value::Bool(truth) => Ok(truth.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => {
            Err("must be a string, a number, true, false or a list of them".to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(file: &str, arguments: &[&str]) -> anyhow::Result<Vec<String>> {
        let directory = tempfile::tempdir()?;
        let path = directory.path().join("config.yaml");
        std::fs::write(&path, file)?;
        let config = format!("--config={}", path.display());
        let line = ["bailiwick", "serve", &config].into_iter().chain(arguments.iter().copied());
        expand(line.map(str::to_owned).collect())
    }

    fn fault(file: &str) -> String {
        let text = expanded(file, &[]).unwrap_err().to_string();
        text.split_once("config.yaml: ").map(|(_, why)| why.to_owned()).unwrap_or(text)
    }

    #[test]
    fn flags_come_from_the_file_unless_the_command_line_has_them() {
        let file = "listen: 127.0.0.1:1\nno-controllers: true\nmax-connections: 7\n\
                    etcd-servers: [http://a:1, http://b:1]\naudit-stream: false\nlog-format: json\n";
        let line = expanded(file, &["--listen", "127.0.0.1:2", "--etcd-servers=http://c:1"]).unwrap();
        let mut added: Vec<&str> = line.iter().map(String::as_str).collect();
        added.sort_unstable();
        assert_eq!(
            added,
            [
                "--audit-stream=false",
                "--etcd-servers=http://c:1",
                "--listen",
                "--log-format=json",
                "--max-connections=7",
                "--no-controllers",
                "127.0.0.1:2",
                "bailiwick",
                "serve"
            ]
        );
        let parsed = <Cli as clap::Parser>::try_parse_from(line);
        assert!(parsed.is_ok(), "{:?}", parsed.err().map(|error| error.to_string()));
    }

    #[test]
    fn what_is_wrong_is_said_with_its_key() {
        assert_eq!(fault("lisen: x"), "lisen: `bailiwick serve` has no flag of this name; did you mean listen?");
        assert_eq!(fault("pods: x"), "pods: `bailiwick serve` has no flag of this name");
        assert_eq!(fault("config: x"), "config: `bailiwick serve` has no flag of this name");
        assert_eq!(fault("listen: [a, b]"), "listen: takes one value, not a list");
        assert_eq!(fault("no-controllers: maybe"), "no-controllers: must be true or false");
        assert_eq!(fault("listen: {a: b}"), "listen: must be a string, a number, true, false or a list of them");
        assert!(fault("[a]").starts_with("flags by name are expected"));
        assert!(fault("listen: a\nlisten: b").contains("listen"), "given twice");
    }

    #[test]
    fn words_are_as_far_apart_as_their_letters() {
        assert_eq!(distance("listen", "lisen"), 1);
        assert_eq!(distance("a", "bcd"), 3);
        assert_eq!(distance("same", "same"), 0);
    }

    proptest::proptest! {
        #[test]
        fn no_file_is_too_strange(file in "\\PC{0,60}(\n\\PC{0,30})?") {
            let _ = expanded(&file, &[]);
        }
    }
}
