//! `bailiwick snapshot`: backups of the embedded store, also of one that a running server holds.

use std::path::{Path, PathBuf};

use anyhow::Context;
use bailiwick_encryption::LocalKey;
use bailiwick_store::embedded;

/// What belongs to a data directory and is not in a backup of its store, and what is lost without it.
const KEPT_APART: [(&str, &str); 2] = [
    (LocalKey::FILE, "the keys of Secrets; on encrypted ones no server starts without them"),
    ("pki", "the CA and the service-account key; without them clients and tokens of before are not accepted"),
];

/// Save, restore and inspect backups.
#[derive(clap::Subcommand)]
pub enum Command {
    /// Write a consistent backup of a data directory's store to a file; the server may be running.
    ///
    /// Keys are not in it: keep encryption.yaml and pki of the data directory too, where they are safe.
    Save {
        /// The backup to write.
        file: PathBuf,
        /// The data directory of the server.
        #[arg(long, default_value = "./bailiwick-data")]
        data_dir: PathBuf,
    },
    /// Put a backup into a new data directory, and say what else belongs there.
    Restore {
        /// The backup to read.
        file: PathBuf,
        /// The data directory to fill; its store must not exist yet.
        #[arg(long, default_value = "./bailiwick-data")]
        data_dir: PathBuf,
    },
    /// Check a backup and say what it holds.
    Status {
        /// The backup to read.
        file: PathBuf,
    },
    /// Check every byte of a data directory that no server is using.
    Verify {
        /// The data directory of the server.
        #[arg(long, default_value = "./bailiwick-data")]
        data_dir: PathBuf,
    },
}

pub fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Save { file, data_dir } => {
            let status = embedded::save_from_dir(data_dir.join("store"), &file)
                .with_context(|| format!("cannot save {}", data_dir.display()))?;
            print("saved", &file, &status);
            for (name, what) in KEPT_APART.iter().filter(|(name, _)| data_dir.join(name).exists()) {
                println!("not in it: {} ({what})", data_dir.join(name).display());
            }
        }
        Command::Restore { file, data_dir } => {
            let status = embedded::restore(&file, data_dir.join("store"))
                .with_context(|| format!("cannot restore {}", file.display()))?;
            print("restored", &data_dir, &status);
            for (name, what) in KEPT_APART.iter().filter(|(name, _)| !data_dir.join(name).exists()) {
                let path = data_dir.join(name);
                println!("bring along {}, from the data directory that the backup is of: {what}", path.display());
            }
            println!("resourceVersion is back at {}: whoever watched before must list anew", status.revision);
        }
        Command::Status { file } => {
            let status = embedded::status(&file).with_context(|| format!("{} is not a good backup", file.display()))?;
            print("good", &file, &status);
        }
        Command::Verify { data_dir } => {
            let status = embedded::verify(data_dir.join("store"))
                .with_context(|| format!("{} is damaged", data_dir.display()))?;
            println!(
                "good {}: revision {}, {} keys, {} snapshots, {} log segments",
                data_dir.display(),
                status.revision,
                status.key_count,
                status.snapshot_count,
                status.segment_count
            );
            if let Some(torn) = status.torn_tail {
                println!("a commit was cut off by a crash and will be removed at the next start: {torn}");
            }
        }
    }
    Ok(())
}

fn print(done: &str, path: &Path, status: &embedded::SnapshotStatus) {
    println!("{done} {}: revision {}, {} keys", path.display(), status.revision, status.key_count);
}
