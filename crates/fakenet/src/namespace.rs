//! The unprivileged namespace: a network of its own in which we may use any address and any port, and a process tree that ends
//! as a whole.

use std::io::Write;
use std::net::IpAddr;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

/// Set inside the namespace.
const INSIDE_ENV: &str = "BAILIWICK_FAKENET_INSIDE";

/// Whether this process is in the namespace.
pub fn is_inside() -> bool {
    std::env::var_os(INSIDE_ENV).is_some()
}

/// A command that runs `program` in a new namespace.
pub fn command(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--map-root-user", "--net", "--pid", "--fork", "--kill-child"]).arg(program).env(INSIDE_ENV, "1");
    command
}

/// Why namespaces cannot be had here, if they cannot.
pub fn unavailable() -> Option<String> {
    match command("true").stdout(Stdio::null()).stderr(Stdio::piped()).output() {
        Ok(output) if output.status.success() => None,
        Ok(output) => Some(format!("unshare: {}", String::from_utf8_lossy(&output.stderr).trim())),
        Err(error) => Some(format!("unshare: {error}")),
    }
}

/// Brings the loopback interface up with these addresses.
pub(crate) fn configure(addresses: &[IpAddr]) -> Result<()> {
    ensure!(is_inside(), "the fake internet must be brought up inside its namespace");
    let mut batch = String::from("link set lo up\n");
    for address in addresses {
        match address {
            IpAddr::V4(v4) => batch.push_str(&format!("addr add {v4}/32 dev lo\n")),
            IpAddr::V6(v6) => batch.push_str(&format!("addr add {v6}/128 dev lo nodad\n")),
        }
    }
    let mut ip = Command::new("ip").args(["-batch", "-"]).stdin(Stdio::piped()).spawn().context("running ip")?;
    ip.stdin.take().context("ip has no standard input")?.write_all(batch.as_bytes())?;
    ensure!(ip.wait()?.success(), "the addresses could not be set");
    Ok(())
}
