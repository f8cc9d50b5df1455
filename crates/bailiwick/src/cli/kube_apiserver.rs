//! Called by the name `kube-apiserver` this program takes that program's flags, so that what starts an API server, above
//! all controller-runtime's envtest, can start this one. Flags become those of `serve`.

mod flags;
mod parse;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::CommandFactory;

use self::flags::{FLAGS, Flag, Kind, Meaning};
use self::parse::Parsed;

/// The name to be called by.
const NAME: &str = "kube-apiserver";
/// Where upstream keeps certificates if nobody says otherwise.
const CERT_DIR: &str = "/var/run/kubernetes";
const SECURE_PORT: u16 = 6443;

/// Whether the program was called by that name.
pub fn is_called(program: &Path) -> bool {
    program.file_name().is_some_and(|name| name == NAME)
}

/// What was asked for.
pub enum Asked {
    /// To print this and end.
    Print(String),
    /// To serve, with these arguments of ours.
    Serve(Arguments),
}

/// Arguments of ours, and what is to be said about how they came about once there are logs.
pub struct Arguments {
    pub arguments: Vec<String>,
    pub notes: Vec<String>,
}

/// Reads the command line of kube-apiserver.
pub fn translate(arguments: impl IntoIterator<Item = String>) -> anyhow::Result<Asked> {
    match parse::parse(arguments).map_err(anyhow::Error::msg)? {
        Parsed::Help => Ok(Asked::Print(help())),
        Parsed::Version => Ok(Asked::Print(format!("Kubernetes {}\n", bailiwick_server::KUBERNETES_VERSION))),
        Parsed::Flags(found) => Translation { found }.serve().map(Asked::Serve),
    }
}

struct Translation {
    found: Vec<(&'static Flag, String)>,
}

impl Translation {
    fn serve(&self) -> anyhow::Result<Arguments> {
        let known = known_to_serve();
        let (mut arguments, mut notes) = (Vec::new(), Vec::new());
        for (flag, value) in &self.found {
            match flag.meaning {
                Meaning::Same if known.iter().any(|name| name == flag.name) => pass(flag, value, &mut arguments),
                Meaning::Same => notes.push(format!("--{} makes no difference here", flag.name)),
                Meaning::NoDifference(why) => notes.push(format!("--{} makes no difference here: {why}", flag.name)),
                Meaning::Refused(_) if value.is_empty() => {}
                Meaning::Refused(why) => bail!("--{} is not supported: {why}", flag.name),
                Meaning::Combined => {}
            }
        }
        self.combined(&mut arguments, &mut notes)?;
        Ok(Arguments { arguments, notes })
    }

    /// The last value given.
    fn value(&self, name: &str) -> Option<&str> {
        self.found.iter().rev().find(|(flag, _)| flag.name == name).map(|(_, value)| value.as_str())
    }

    /// All values given, taken apart at commas.
    fn list(&self, name: &str) -> Vec<&str> {
        let values = self.found.iter().filter(|(flag, _)| flag.name == name).flat_map(|(_, value)| value.split(','));
        values.filter(|value| !value.is_empty()).collect()
    }

    fn combined(&self, arguments: &mut Vec<String>, notes: &mut Vec<String>) -> anyhow::Result<()> {
        let servers = self.list("etcd-servers");
        if servers.is_empty() {
            bail!("--etcd-servers must be specified");
        }
        arguments.push(format!("--etcd-servers={}", servers.join(",")));
        if let Some(backend) = self.value("storage-backend").filter(|backend| !matches!(*backend, "" | "etcd3")) {
            bail!(
                "--storage-backend invalid, allowed values: etcd3. If not specified, it will default to 'etcd3': {backend}"
            );
        }
        arguments.push(format!("--listen={}", self.listen()?));
        self.certificates(arguments)?;
        self.authorization(arguments, notes);
        if let Some(streams) = self.value("http2-max-streams-per-connection").filter(|streams| *streams != "0") {
            arguments.push(format!("--http2-max-streams-per-connection={streams}"));
        }
        if let Some(format) = self.value("logging-format").filter(|format| !format.is_empty()) {
            arguments.push(format!("--log-format={format}"));
        }
        if let Some(verbosity) = self.value("v").and_then(|value| value.parse::<i64>().ok()) {
            arguments.push(format!("--log-level={}", level(verbosity)));
        }
        // Upstream has nothing of the kind.
        arguments.push("--without=projects".to_owned());
        if self.value("run-controllers").and_then(parse::truth) != Some(true) {
            // Upstream's run in another program.
            arguments.push("--no-controllers".to_owned());
        }
        Ok(())
    }

    fn listen(&self) -> anyhow::Result<SocketAddr> {
        let ip = match self.value("bind-address") {
            Some(ip) => ip.parse::<IpAddr>().context("--bind-address")?,
            None => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        };
        let port = match self.value("secure-port").map(|port| (port, port.parse::<u16>())) {
            None => SECURE_PORT,
            Some((_, Ok(port @ 1..))) => port,
            Some((port, _)) => {
                bail!("--secure-port {port} must be between 1 and 65535, inclusive. It cannot be turned off with 0")
            }
        };
        Ok(SocketAddr::new(ip, port))
    }

    /// Certificates are looked for in the directory, and made there, unless files are named.
    fn certificates(&self, arguments: &mut Vec<String>) -> anyhow::Result<()> {
        let directory = PathBuf::from(self.value("cert-dir").unwrap_or(CERT_DIR));
        arguments.push(format!("--data-dir={}", directory.display()));
        if self.value("tls-cert-file").is_some_and(|file| !file.is_empty()) {
            return Ok(());
        }
        let (certificate, key) = (directory.join("apiserver.crt"), directory.join("apiserver.key"));
        if certificate.is_file() && key.is_file() {
            arguments.push(format!("--tls-cert-file={}", certificate.display()));
            arguments.push(format!("--tls-private-key-file={}", key.display()));
        }
        Ok(())
    }

    /// As upstream, everybody may do everything if nothing is said; then nobody comes without credentials.
    fn authorization(&self, arguments: &mut Vec<String>, notes: &mut Vec<String>) {
        let modes = self.list("authorization-mode");
        let configured = self.value("authorization-config").is_some_and(|file| !file.is_empty());
        if modes.is_empty() && !configured {
            arguments.push("--authorization-mode=AlwaysAllow".to_owned());
            if self.value("anonymous-auth").is_none() {
                arguments.push("--anonymous-auth=false".to_owned());
            }
            return;
        }
        let (nodes, modes): (Vec<&str>, Vec<&str>) = modes.into_iter().partition(|mode| *mode == "Node");
        if !nodes.is_empty() {
            notes.push("--authorization-mode Node makes no difference here: there are no nodes".to_owned());
        }
        match modes.as_slice() {
            [] if configured => {}
            [] => arguments.push("--authorization-mode=AlwaysDeny".to_owned()),
            modes => arguments.push(format!("--authorization-mode={}", modes.join(","))),
        }
    }
}

/// The flags that `serve` has.
fn known_to_serve() -> Vec<String> {
    let cli = super::Cli::command();
    let serve = cli.find_subcommand("serve").into_iter().flat_map(|serve| serve.get_arguments());
    serve.filter_map(|argument| argument.get_long().map(str::to_owned)).collect()
}

fn pass(flag: &Flag, value: &str, arguments: &mut Vec<String>) {
    let push = |value: &str, arguments: &mut Vec<String>| arguments.push(format!("--{}={value}", flag.name));
    match flag.kind {
        // Ours are called true and false.
        Kind::Bool => push(if parse::truth(value) == Some(true) { "true" } else { "false" }, arguments),
        Kind::Pairs => value.split(',').filter(|pair| !pair.is_empty()).for_each(|pair| push(pair, arguments)),
        // Nothing is what a flag has that is not given.
        _ if value.is_empty() => {}
        _ => push(value, arguments),
    }
}

/// What upstream logs at a verbosity.
fn level(verbosity: i64) -> &'static str {
    match verbosity {
        ..4 => "info",
        4..6 => "debug",
        _ => "trace",
    }
}

fn help() -> String {
    let known = known_to_serve();
    let mut text = String::from(
        "Bailiwick, called by the name of the Kubernetes API server, takes that program's flags.\n\nUsage:\n  \
         kube-apiserver [flags]\n\nFlags:\n\n",
    );
    for flag in FLAGS {
        let note = match flag.meaning {
            _ if flag.name == "run-controllers" => "Run the generic controllers in this process too.".to_owned(),
            Meaning::Same if known.iter().any(|name| name == flag.name) => "As upstream.".to_owned(),
            Meaning::Combined => "As upstream.".to_owned(),
            Meaning::Same => "Accepted; makes no difference here.".to_owned(),
            Meaning::NoDifference(why) => format!("Accepted; makes no difference here: {why}."),
            Meaning::Refused(why) => format!("Refused: {why}."),
        };
        text.push_str(&format!("      --{:<46} {note}\n", flag.name));
    }
    text.push_str(&format!("      --{:<46} {}\n", "version", "Print the version."));
    text
}

#[cfg(test)]
mod tests;
