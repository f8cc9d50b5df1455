//! How a test says that it cannot run here: [`skip`] names the test and the reason, on standard output and in the file that
//! `cargo xtask test` reads, because cargo swallows what passing tests print. A crate of its own, without dependencies, so
//! that every crate's tests can use it.

use std::io::Write;
use std::path::Path;

/// Names the file that skipped tests are written to; `cargo xtask test` sets it and counts what is there.
pub const FILE_ENV: &str = "BAILIWICK_SKIPPED";

/// One test that did not run, or a whole program of tests when `test` is empty.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Skipped {
    /// The test program, such as `authentication`.
    pub program: String,
    /// The test's name as cargo prints it.
    pub test: String,
    /// What is missing, and how to get it.
    pub why: String,
}

/// Says that the running test does not run, and why. Its name is that of the thread, which Rust's test harness names after
/// the test; elsewhere the whole program counts as skipped.
pub fn skip(why: impl std::fmt::Display) {
    let thread = std::thread::current();
    let test = thread.name().filter(|name| *name != "main" && !name.starts_with("tokio-")).unwrap_or_default();
    skip_named(test, why);
}

/// [`skip`] for harnesses that do not give each test a thread of its name.
pub fn skip_named(test: &str, why: impl std::fmt::Display) {
    let skipped = Skipped { program: program(), test: one_line(test), why: one_line(&why.to_string()) };
    println!("SKIPPED: {skipped}");
    if let Some(file) = std::env::var_os(FILE_ENV)
        && let Err(error) = append(Path::new(&file), &skipped)
    {
        println!("{} cannot be written: {error}", file.display());
    }
}

/// What the tests of a run wrote, each once.
pub fn read(file: &Path) -> std::io::Result<Vec<Skipped>> {
    let text = match std::fs::read_to_string(file) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        read => read?,
    };
    let mut all: Vec<Skipped> = text.lines().filter_map(Skipped::from_line).collect();
    all.sort();
    all.dedup_by(|a, b| (&a.program, &a.test) == (&b.program, &b.test));
    Ok(all)
}

impl Skipped {
    fn from_line(line: &str) -> Option<Self> {
        let mut parts = line.splitn(3, '\t').map(str::to_owned);
        Some(Self { program: parts.next()?, test: parts.next()?, why: parts.next()? })
    }
}

impl std::fmt::Display for Skipped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.test.as_str() {
            "" => write!(f, "{} ({})", self.program, self.why),
            test => write!(f, "{}: {test} ({})", self.program, self.why),
        }
    }
}

fn append(file: &Path, skipped: &Skipped) -> std::io::Result<()> {
    let line = format!("{}\t{}\t{}\n", skipped.program, skipped.test, skipped.why);
    // One write of a short line to a file opened for appending: tests of several processes do not mix their lines.
    std::fs::OpenOptions::new().create(true).append(true).open(file)?.write_all(line.as_bytes())
}

/// The running program without the hash that cargo appends.
fn program() -> String {
    let path = std::env::current_exe().unwrap_or_default();
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let name = stem.rsplit_once('-').filter(|(_, hash)| hash.bytes().all(|b| b.is_ascii_hexdigit()));
    one_line(name.map_or(&*stem, |(name, _)| name))
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_is_named_after_itself_and_told_once() {
        let directory = std::env::temp_dir().join(format!("bailiwick-skip-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let file = directory.join("skipped");
        let thread = std::thread::current();
        assert_eq!(thread.name(), Some("tests::a_test_is_named_after_itself_and_told_once"));
        for (test, why) in [("b", "no tool"), ("a", "no data"), ("a", "no tool"), ("", "no right to mount")] {
            let skipped = Skipped { program: "olm".to_owned(), test: test.to_owned(), why: why.to_owned() };
            append(&file, &skipped).unwrap();
        }
        let texts: Vec<String> = read(&file).unwrap().iter().map(ToString::to_string).collect();
        std::fs::remove_dir_all(&directory).unwrap();
        assert_eq!(texts, ["olm (no right to mount)", "olm: a (no data)", "olm: b (no tool)"]);
        assert_eq!(read(&file).unwrap(), [], "no file, nothing skipped");
        assert_eq!(program(), "bailiwick_skip");
    }
}
