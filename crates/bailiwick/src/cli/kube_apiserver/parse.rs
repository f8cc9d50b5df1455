//! Command lines as Go's pflag reads them: values are checked by kind, and what is wrong is said in upstream's words.

use std::net::IpAddr;

use super::flags::{self, Flag, Kind};
use crate::cli::duration;

/// What was asked for.
#[derive(Debug)]
pub enum Parsed {
    Help,
    Version,
    /// Flags in the order they came, each with its value.
    Flags(Vec<(&'static Flag, String)>),
}

/// Reads what follows the program's name.
pub fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Parsed, String> {
    let mut arguments = arguments.into_iter();
    let mut found = Vec::new();
    while let Some(argument) = arguments.next() {
        let (flag, value) = match long_or_short(&argument)? {
            Word::Help => return Ok(Parsed::Help),
            Word::Version => return Ok(Parsed::Version),
            Word::Value => {
                let rest: Vec<String> = std::iter::once(argument).chain(arguments).collect();
                return Err(format!("\"kube-apiserver\" does not take any arguments, got {rest:?}"));
            }
            Word::Flag(flag, value) => (flag, value),
        };
        let value = match value {
            Some(value) => value,
            // A flag that is a question is answered by asking.
            None if flag.kind == Kind::Bool => "true".to_owned(),
            None => arguments.next().ok_or_else(|| format!("flag needs an argument: {argument}"))?,
        };
        check(flag, &value).map_err(|why| format!("invalid argument {value:?} for {:?} flag: {why}", shown(flag)))?;
        found.push((flag, value));
    }
    Ok(Parsed::Flags(found))
}

enum Word {
    Help,
    Version,
    Flag(&'static Flag, Option<String>),
    Value,
}

fn long_or_short(argument: &str) -> Result<Word, String> {
    let value_of = |value: Option<&str>| value.map(str::to_owned);
    if let Some(long) = argument.strip_prefix("--").filter(|long| !long.is_empty()) {
        let (name, value) = split(long);
        // Words may be joined by either sign.
        let name = name.replace('_', "-");
        return match name.as_str() {
            "help" => Ok(Word::Help),
            "version" => Ok(Word::Version),
            name => match flags::find(name) {
                Some(flag) => Ok(Word::Flag(flag, value_of(value))),
                None => Err(format!("unknown flag: --{name}")),
            },
        };
    }
    match argument.strip_prefix('-').and_then(|short| Some((short.chars().next()?, short))) {
        None => Ok(Word::Value),
        Some(('h', "h")) => Ok(Word::Help),
        Some(('v', short)) => {
            let value = short.strip_prefix('v').filter(|rest| !rest.is_empty());
            let flag = flags::find("v").ok_or_else(|| "unknown flag: --v".to_owned())?;
            Ok(Word::Flag(flag, value_of(value.map(|value| value.strip_prefix('=').unwrap_or(value)))))
        }
        Some((other, short)) => Err(format!("unknown shorthand flag: {other:?} in -{short}")),
    }
}

fn split(text: &str) -> (&str, Option<&str>) {
    text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value)))
}

fn shown(flag: &Flag) -> String {
    if flag.name == "v" { "-v, --v".to_owned() } else { format!("--{}", flag.name) }
}

fn check(flag: &Flag, value: &str) -> Result<(), String> {
    let syntax = |function: &str| format!("strconv.{function}: parsing {value:?}: invalid syntax");
    match flag.kind {
        Kind::Bool => truth(value).map(drop).ok_or_else(|| syntax("ParseBool")),
        Kind::Int => value.parse::<i64>().map(drop).map_err(|_| syntax("ParseInt")),
        Kind::Float => value.parse::<f64>().map(drop).map_err(|_| syntax("ParseFloat")),
        Kind::Duration => duration::parse(value).map(drop).map_err(|_| match value.parse::<f64>() {
            Ok(_) => format!("time: missing unit in duration {value:?}"),
            Err(_) => format!("time: invalid duration {value:?}"),
        }),
        Kind::Ip => value.parse::<IpAddr>().map(drop).map_err(|_| format!("failed to parse IP: {value:?}")),
        Kind::Pairs if value.split(',').any(|pair| !pair.is_empty() && !pair.contains('=')) => {
            Err("malformed pair, expect string=string".to_owned())
        }
        Kind::Text | Kind::List | Kind::Repeated | Kind::Pairs => Ok(()),
    }
}

/// Yes or no as Go reads it.
pub fn truth(value: &str) -> Option<bool> {
    match value {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(arguments: &[&str]) -> Result<Vec<(String, String)>, String> {
        match parse(arguments.iter().map(|argument| (*argument).to_owned()))? {
            Parsed::Flags(flags) => Ok(flags.into_iter().map(|(flag, value)| (flag.name.to_owned(), value)).collect()),
            other => Err(format!("{other:?}")),
        }
    }

    #[test]
    fn values_stand_after_an_equals_sign_or_a_space() {
        let expected = [("secure-port", "1"), ("allow-privileged", "true"), ("v", "4"), ("etcd-servers", "http://a,b")];
        let expected: Vec<_> = expected.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let found = read(&["--secure-port=1", "--allow_privileged", "-v=4", "--etcd-servers", "http://a,b"]);
        assert_eq!(found, Ok(expected.clone()));
        let found = read(&["--secure-port", "1", "--allow-privileged=true", "-v4", "--etcd-servers=http://a,b"]);
        assert_eq!(found, Ok(expected));
    }

    /// Recorded from kube-apiserver v1.36.4.
    #[test]
    fn what_is_wrong_is_said_in_upstreams_words() {
        for (arguments, text) in [
            (&["--foo"][..], "unknown flag: --foo"),
            (&["--etcd-servers"], "flag needs an argument: --etcd-servers"),
            (&["-x"], "unknown shorthand flag: 'x' in -x"),
            (&["foo"], r#""kube-apiserver" does not take any arguments, got ["foo"]"#),
            (
                &["--secure-port=x"],
                r#"invalid argument "x" for "--secure-port" flag: strconv.ParseInt: parsing "x": invalid syntax"#,
            ),
            (
                &["--allow-privileged=maybe"],
                r#"invalid argument "maybe" for "--allow-privileged" flag: strconv.ParseBool: parsing "maybe": invalid syntax"#,
            ),
            (&["--event-ttl=3"], r#"invalid argument "3" for "--event-ttl" flag: time: missing unit in duration "3""#),
            (
                &["--oidc-required-claim=x"],
                r#"invalid argument "x" for "--oidc-required-claim" flag: malformed pair, expect string=string"#,
            ),
        ] {
            assert_eq!(read(arguments), Err(text.to_owned()));
        }
    }

    proptest::proptest! {
        #[test]
        fn no_command_line_is_too_strange(arguments in proptest::collection::vec("\\PC{0,12}|--[a-z-]{0,8}(=\\PC{0,4})?|-\\PC{0,3}", 0..4)) {
            let _ = parse(arguments);
        }
    }
}
