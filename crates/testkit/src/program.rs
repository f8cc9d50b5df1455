//! A program that a test runs to its end. It is ended when it takes too long, and when it fails the error has everything
//! it printed.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Seek};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// How often a running program is looked at; the standard library cannot wait with a time limit.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// A command and how long it may take.
pub struct Program {
    command: Command,
    timeout: Duration,
}

impl Program {
    /// A program by path, or by name on PATH.
    pub fn new(program: impl AsRef<OsStr>) -> Self {
        let mut command = Command::new(program);
        command.stdin(Stdio::null());
        Self { command, timeout: Duration::from_secs(60) }
    }

    /// Adds an argument.
    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.command.arg(argument);
        self
    }

    /// Adds arguments.
    pub fn args<A: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = A>) -> Self {
        self.command.args(arguments);
        self
    }

    /// Sets a variable of its environment.
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Sets its working directory.
    pub fn current_dir(mut self, directory: impl AsRef<Path>) -> Self {
        self.command.current_dir(directory);
        self
    }

    /// Ends it after this time; a minute unless said.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Runs it to its end and returns what it printed, on either stream, in order. An error when it fails or takes too long.
    pub fn run(mut self) -> Result<String> {
        let title = format!("{:?}", self.command);
        let mut output = tempfile::tempfile()?;
        self.command.stdout(output.try_clone()?).stderr(output.try_clone()?);
        let ended = self.wait(&title)?;
        let printed = read_back(&mut output)?;
        match ended {
            Some(status) if status.success() => Ok(printed),
            Some(status) => bail!("{title} failed ({status}):\n{printed}"),
            None => bail!("{title} was ended after {} s:\n{printed}", self.timeout.as_secs()),
        }
    }

    /// The exit status, or nothing when the time was up.
    fn wait(&mut self, title: &str) -> Result<Option<ExitStatus>> {
        let mut child = self.command.spawn().with_context(|| format!("running {title}"))?;
        let deadline = Instant::now() + self.timeout;
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(Some(status));
            }
            if Instant::now() > deadline {
                child.kill()?;
                child.wait()?;
                return Ok(None);
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }
}

fn read_back(file: &mut File) -> Result<String> {
    file.rewind()?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_failing_program_printed_is_in_the_error() {
        let error = Program::new("sh").args(["-c", "echo out; echo err >&2; exit 3"]).run().unwrap_err().to_string();
        assert!(error.contains("out\nerr\n") && error.contains("exit status: 3"), "{error}");
    }

    #[test]
    fn a_program_that_takes_too_long_is_ended() {
        let run =
            Program::new("sh").args(["-c", "echo begun; exec sleep 600"]).timeout(Duration::from_millis(200)).run();
        let error = run.unwrap_err().to_string();
        assert!(error.contains("was ended") && error.contains("begun"), "{error}");
    }
}
