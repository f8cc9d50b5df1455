//! A running `bailiwick controllers`, or another program that works on a [`Server`] from outside and shows itself as they do, on a
//! port the system picked.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::{Program, Server};

/// What its log says before the address it shows itself at.
const SHOWN_AT: &str = "metrics are served address=";
/// How long it may take to answer; only a bug takes so long.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// Controllers, ended when dropped.
pub struct Controllers {
    process: Child,
    address: SocketAddr,
}

impl Controllers {
    /// Starts the program, given as `env!("CARGO_BIN_EXE_bailiwick")`, and waits until it can be asked how it stands.
    pub fn start(binary: impl AsRef<Path>, server: &Server) -> Result<Self> {
        let mut command = Command::new(binary.as_ref());
        command.args(["controllers", "--kubeconfig"]).arg(server.kubeconfig());
        Self::start_as(command)
    }

    /// Starts a program that takes `--metrics-bind-address` as they do.
    pub fn start_as(mut command: Command) -> Result<Self> {
        let mut process = command
            .args(["--metrics-bind-address", "127.0.0.1:0"])
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()?;
        let mut lines = BufReader::new(process.stderr.take().context("invariant: stderr is piped")?).lines();
        let mut started = Self { process, address: ([127, 0, 0, 1], 0).into() };
        let mut before = String::new();
        for line in &mut lines {
            let line = line?;
            if let Some((_, address)) = line.split_once(SHOWN_AT) {
                started.address = address.parse().with_context(|| line.clone())?;
                // The pipe must stay drained, or a chatty program would block on it.
                std::thread::spawn(move || lines.map_while(Result::ok).for_each(|line| eprintln!("{line}")));
                return Ok(started);
            }
            before += &format!("{line}\n");
        }
        bail!("the controllers ended before they could be asked:\n{before}")
    }

    /// The status and text of what they show at a path.
    pub fn get(&self, path: &str) -> Result<(u16, String)> {
        let mut stream = TcpStream::connect(self.address)?;
        stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {}\r\n\r\n", self.address)?;
        // One answer is all that a connection carries.
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let (head, body) = answer.split_once("\r\n\r\n").context("no end of a head")?;
        let status = head.split(' ').nth(1).context("no status")?;
        Ok((status.parse()?, body.to_owned()))
    }

    /// Ends them as an operator does, by SIGTERM.
    pub fn terminate(mut self) -> Result<()> {
        Program::new("kill").args(["-TERM", &self.process.id().to_string()]).run()?;
        let status = self.process.wait()?;
        ensure!(status.success(), "the controllers ended with {status}");
        Ok(())
    }
}

impl Drop for Controllers {
    fn drop(&mut self) {
        // Nothing to be done about a process that is already gone.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
