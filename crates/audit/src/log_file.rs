//! Events as lines of a file, or on standard output. The file is rotated by size; old files are named, kept and packed as
//! kube-apiserver's are, so that the same tools collect them.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use jiff::Timestamp;
use serde_json::Value;

use crate::batch::Batch;
use crate::sink::{AuditSink, SinkError};

/// How an event is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    Json,
    /// One line of text with the most important fields.
    Legacy,
}

/// Where and how events are written.
#[derive(Clone, Debug)]
pub struct LogOptions {
    /// `-` is standard output.
    pub path: PathBuf,
    pub format: LogFormat,
    /// The size at which the file is rotated; 0 is never.
    pub bytes_max: u64,
    /// How many rotated files are kept; 0 is all.
    pub backups_max: usize,
    /// How long rotated files are kept; zero is forever.
    pub age_max: Duration,
    pub compress: Compress,
}

/// Whether rotated files are packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compress {
    No,
    Gzip,
}

/// The log file.
pub struct LogFile {
    options: LogOptions,
    out: Out,
    /// The earliest time that the next rotated file may be named by.
    rotated: Option<Timestamp>,
}

enum Out {
    Stdout,
    File { file: File, bytes: u64 },
}

impl LogFile {
    /// Opens the file, making it and its directory if need be; only its owner can read it.
    pub fn open(options: LogOptions) -> io::Result<Self> {
        let out = if options.path.as_os_str() == "-" { Out::Stdout } else { open(&options.path)? };
        Ok(Self { options, out, rotated: None })
    }

    fn write_lines(&mut self, events: &Batch) -> io::Result<()> {
        match self.options.format {
            LogFormat::Json => self.write_all(events),
            LogFormat::Legacy => self.write_all(&events.iter().map(legacy_line).collect()),
        }
    }

    /// Writes lines, at once as far as one file goes.
    fn write_all(&mut self, events: &Batch) -> io::Result<()> {
        let lines = events.lines();
        let (mut written, mut start) = (0, 0);
        for &end in events.ends() {
            // An event is never split between files.
            if let Out::File { bytes, .. } = &self.out
                && self.options.bytes_max > 0
                && *bytes + (start - written) as u64 > 0
                && *bytes + (end - written) as u64 > self.options.bytes_max
            {
                self.write(lines.get(written..start).unwrap_or_default())?;
                self.rotate()?;
                written = start;
            }
            start = end;
        }
        self.write(lines.get(written..).unwrap_or_default())
    }

    fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        match &mut self.out {
            Out::Stdout => io::stdout().lock().write_all(lines),
            Out::File { file, bytes } => {
                file.write_all(lines)?;
                *bytes += lines.len() as u64;
                Ok(())
            }
        }
    }

    fn rotate(&mut self) -> io::Result<()> {
        let path = self.options.path.clone();
        // Later than the one before, which may have taken a name of the future: names that were given up are not used again.
        let (time, backup) =
            backup_name(&path, self.rotated.map_or(Timestamp::now(), |last| last.max(Timestamp::now())));
        std::fs::rename(&path, backup)?;
        self.rotated = Some(time + ONE_NAME);
        self.out = open(&path)?;
        // Old files are no reason not to write new ones.
        if let Err(error) = tidy(&self.options, Timestamp::now()) {
            tracing::warn!(%error, "old audit logs could not be packed or removed");
        }
        Ok(())
    }
}

impl AuditSink for LogFile {
    fn name(&self) -> &'static str {
        "log"
    }

    fn accept(&mut self, events: &Batch) -> Result<(), SinkError> {
        Ok(self.write_lines(events)?)
    }
}

fn open(path: &Path) -> io::Result<Out> {
    if let Some(directory) = path.parent().filter(|directory| !directory.as_os_str().is_empty()) {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    }
    let file = OpenOptions::new().create(true).append(true).mode(0o600).open(path)?;
    let bytes = file.metadata()?.len();
    Ok(Out::File { file, bytes })
}

/// How far names of rotated files are apart.
const ONE_NAME: jiff::SignedDuration = jiff::SignedDuration::from_millis(1);
const BACKUP_TIME: &str = "%Y-%m-%dT%H-%M-%S.%3f";

fn stem_and_extension(path: &Path) -> (String, String) {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    match name.rfind('.') {
        Some(dot) => (name[..dot].to_owned(), name[dot..].to_owned()),
        None => (name, String::new()),
    }
}

/// `audit.log` becomes `audit-2026-11-16T04-10-07.297.log`; a later name if that is taken.
fn backup_name(path: &Path, now: Timestamp) -> (Timestamp, PathBuf) {
    let (stem, extension) = stem_and_extension(path);
    let mut time = now;
    loop {
        let backup = path.with_file_name(format!("{stem}-{}{extension}", time.strftime(BACKUP_TIME)));
        let packed = PathBuf::from(format!("{}.gz", backup.display()));
        if !backup.exists() && !packed.exists() {
            return (time, backup);
        }
        time += ONE_NAME;
    }
}

/// Rotated files of a log with the time they were, newest first.
fn backups(path: &Path) -> io::Result<Vec<(Timestamp, PathBuf)>> {
    let (stem, extension) = stem_and_extension(path);
    let directory = path.parent().filter(|d| !d.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let time = name
            .strip_prefix(&stem)
            .and_then(|rest| rest.strip_prefix('-'))
            .map(|rest| rest.strip_suffix(".gz").unwrap_or(rest))
            .and_then(|rest| rest.strip_suffix(extension.as_str()))
            .and_then(|time| jiff::civil::DateTime::strptime("%Y-%m-%dT%H-%M-%S%.f", time).ok())
            .and_then(|time| time.to_zoned(jiff::tz::TimeZone::UTC).ok());
        if let Some(time) = time {
            found.push((time.timestamp(), entry.path()));
        }
    }
    found.sort_by(|a, b| b.cmp(a));
    Ok(found)
}

/// Removes rotated files that are too many or too old and packs the rest.
fn tidy(options: &LogOptions, now: Timestamp) -> io::Result<()> {
    for (index, (time, path)) in backups(&options.path)?.into_iter().enumerate() {
        let too_many = options.backups_max > 0 && index >= options.backups_max;
        let age = now.duration_since(time).unsigned_abs();
        if too_many || (!options.age_max.is_zero() && age > options.age_max) {
            std::fs::remove_file(&path)?;
        } else if options.compress == Compress::Gzip && path.extension().is_none_or(|extension| extension != "gz") {
            pack(&path)?;
        }
    }
    Ok(())
}

fn pack(path: &Path) -> io::Result<()> {
    let packed = PathBuf::from(format!("{}.gz", path.display()));
    let out = OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(&packed)?;
    let mut encoder = GzEncoder::new(out, Compression::default());
    io::copy(&mut File::open(path)?, &mut encoder)?;
    encoder.finish()?.sync_all()?;
    std::fs::remove_file(path)
}

/// Upstream's one-line text form.
fn legacy_line(json: &[u8]) -> String {
    let event: Value = serde_json::from_slice(json).unwrap_or_default();
    let text = |path: &str| event.pointer(path).and_then(Value::as_str);
    let or = |path: &str, other: &str| text(path).filter(|t| !t.is_empty()).unwrap_or(other).to_owned();
    let groups = |path: &str, other: &str| match event.pointer(path).and_then(Value::as_array) {
        Some(groups) if !groups.is_empty() => {
            groups.iter().filter_map(Value::as_str).map(|group| format!("{group:?}")).collect::<Vec<_>>().join(",")
        }
        _ => other.to_owned(),
    };
    let response = event.pointer("/responseStatus").map_or_else(
        || "<deferred>".to_owned(),
        |status| status.get("code").and_then(Value::as_u64).unwrap_or_default().to_string(),
    );
    format!(
        "{} AUDIT: id={:?} stage={:?} ip={:?} method={:?} user={:?} groups={:?} as={:?} asgroups={:?} user-agent={:?} \
         namespace={:?} uri={:?} response=\"{response}\"",
        or("/requestReceivedTimestamp", ""),
        or("/auditID", ""),
        or("/stage", ""),
        or("/sourceIPs/0", "<unknown>"),
        or("/verb", ""),
        or("/user/username", "<none>"),
        groups("/user/groups", "<none>"),
        or("/impersonatedUser/username", "<self>"),
        groups("/impersonatedUser/groups", "<lookup>"),
        or("/userAgent", ""),
        or("/objectRef/namespace", "<none>"),
        or("/requestURI", ""),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn options(directory: &Path, compress: Compress) -> LogOptions {
        LogOptions {
            path: directory.join("logs/audit.log"),
            format: LogFormat::Json,
            bytes_max: 100,
            backups_max: 2,
            age_max: Duration::ZERO,
            compress,
        }
    }

    fn events(numbers: std::ops::Range<usize>) -> Batch {
        numbers.map(|number| format!("{{\"n\":{number},\"pad\":\"{}\"}}", "x".repeat(30))).collect()
    }

    fn names(directory: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(directory).expect("listed");
        let mut names: Vec<String> =
            entries.map(|entry| entry.expect("entry").file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    #[test]
    fn rotates_between_lines_and_keeps_the_newest_backups() {
        let directory = tempfile::tempdir().expect("directory");
        let mut log = LogFile::open(options(directory.path(), Compress::No)).expect("opened");
        for number in 0..10 {
            log.accept(&events(number..number + 1)).expect("written");
        }
        let files = names(&directory.path().join("logs"));
        assert_eq!(files.len(), 3, "{files:?}");
        let mut seen = Vec::new();
        for file in files.iter().filter(|file| *file != "audit.log").chain(["audit.log".to_owned()].iter()) {
            let text = std::fs::read_to_string(directory.path().join("logs").join(file)).expect("read");
            assert!(text.len() <= 100 && text.ends_with('\n'), "{file}: {text}");
            seen.extend(text.lines().map(|line| serde_json::from_str::<Value>(line).expect("a line")["n"].clone()));
        }
        assert_eq!(seen, [4, 5, 6, 7, 8, 9]);
    }

    #[test]
    fn a_batch_larger_than_a_file_is_spread_over_several() {
        let directory = tempfile::tempdir().expect("directory");
        let mut options = options(directory.path(), Compress::No);
        options.backups_max = 0;
        let mut log = LogFile::open(options).expect("opened");
        log.accept(&events(0..10)).expect("written");
        assert_eq!(names(&directory.path().join("logs")).len(), 5);
    }

    #[test]
    fn packs_rotated_files_and_lets_nobody_else_read() {
        let directory = tempfile::tempdir().expect("directory");
        let mut log = LogFile::open(options(directory.path(), Compress::Gzip)).expect("opened");
        for number in 0..5 {
            log.accept(&events(number..number + 1)).expect("written");
        }
        let files = names(&directory.path().join("logs"));
        assert!(files.iter().any(|file| file.ends_with(".log.gz")), "{files:?}");
        for file in files {
            let mode = std::fs::metadata(directory.path().join("logs").join(&file)).expect("stat").permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{file}");
        }
    }

    #[test]
    fn goes_on_in_the_file_it_finds() {
        let directory = tempfile::tempdir().expect("directory");
        for number in 0..2 {
            let mut log = LogFile::open(options(directory.path(), Compress::No)).expect("opened");
            log.accept(&events(number..number + 1)).expect("written");
        }
        let text = std::fs::read_to_string(directory.path().join("logs/audit.log")).expect("read");
        assert_eq!(text.lines().count(), 2);
    }

    #[test]
    fn the_legacy_form_is_upstreams() {
        let json = br#"{"auditID":"i","stage":"ResponseComplete","requestURI":"/a?b=c","verb":"get","user":{"username":"u","groups":["g","h"]},"sourceIPs":["::1"],"responseStatus":{"code":200},"requestReceivedTimestamp":"2026-11-16T04:10:04.104676Z"}"#;
        assert_eq!(
            legacy_line(json),
            r#"2026-11-16T04:10:04.104676Z AUDIT: id="i" stage="ResponseComplete" ip="::1" method="get" user="u" groups="\"g\",\"h\"" as="<self>" asgroups="<lookup>" user-agent="" namespace="<none>" uri="/a?b=c" response="200""#
        );
    }
}
