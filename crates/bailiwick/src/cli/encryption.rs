//! `bailiwick encryption`: the keys that secrets are encrypted with at rest.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use bailiwick_encryption::LocalKey;
use serde_json::Value;

use crate::cli::kubeconfig;

/// How often a running server is asked how far it is.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Rotate keys and re-encrypt what is stored.
#[derive(clap::Subcommand)]
pub enum Command {
    /// Put a fresh key first in <data-dir>/encryption.yaml. The server takes it up at its next start or with `reencrypt`.
    Rotate {
        /// The data directory of the server.
        #[arg(long, default_value = "./bailiwick-data")]
        data_dir: PathBuf,
    },
    /// Have a running server take up its configuration and rewrite everything that is not under the first key.
    ///
    /// Reads and writes go on meanwhile. Safe to interrupt and to repeat. Afterwards old keys can be removed.
    Reencrypt {
        /// The data directory of the server, for its admin.kubeconfig.
        #[arg(long, default_value = "./bailiwick-data")]
        data_dir: PathBuf,
        /// The server and the credentials to use, instead of the data directory's.
        #[arg(long)]
        kubeconfig: Option<PathBuf>,
    },
}

pub fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Rotate { data_dir } => {
            let key = LocalKey::of(&data_dir);
            if !data_dir.is_dir() {
                bail!("{} is no data directory", data_dir.display());
            }
            let name = key.rotate()?;
            println!("{name} is the first key in {}; now run: bailiwick encryption reencrypt", key.path().display());
            Ok(())
        }
        Command::Reencrypt { data_dir, kubeconfig } => {
            let path = kubeconfig.unwrap_or_else(|| data_dir.join("admin.kubeconfig"));
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start")?;
            runtime.block_on(reencrypt(&path))
        }
    }
}

async fn reencrypt(path: &Path) -> anyhow::Result<()> {
    let client = kubeconfig::client(path).await?;
    let start = http::Request::post("/encryption/reencrypt").body(Vec::new())?;
    client.request::<Value>(start).await.context("the server did not start: is it running, with encryption on?")?;
    loop {
        let ask = http::Request::get("/encryption/status").body(Vec::new())?;
        let status: Value = client.request(ask).await?;
        let count = |field: &str| status[field].as_u64().unwrap_or_default();
        let (examined, rewritten, failed) = (count("examined"), count("rewritten"), count("failed"));
        println!("{examined} values examined, {rewritten} rewritten, {failed} failed");
        if status["running"] != true {
            if failed > 0 {
                bail!("{failed} values could not be re-encrypted: the server's log says why");
            }
            return Ok(());
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}
