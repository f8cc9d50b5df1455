//! The key a server makes for itself, so that secrets are encrypted without anybody asking: a file in the data directory
//! that only its owner can read, an EncryptionConfiguration like any other.
//!
//! It is not part of a backup of the store: whoever restores one elsewhere brings the file along.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::cipher::random;
use crate::config::{ConfigError, EncryptionConfig};

/// The key file of a data directory.
pub struct LocalKey {
    path: PathBuf,
}

impl LocalKey {
    /// The name of the file in the data directory.
    pub const FILE: &str = "encryption.yaml";

    pub fn of(data_dir: &Path) -> Self {
        Self { path: data_dir.join(Self::FILE) }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether there is a file. Where there is none, [`crate::first_sealed`] says whether a fresh key would do.
    pub fn exists(&self) -> bool {
        self.path.exists()
    }

    /// The configuration in the file, which is made if there is none. Secrets written before are still read.
    pub fn ensure(&self) -> Result<EncryptionConfig, ConfigError> {
        let failed = |source: io::Error| ConfigError::Io { path: self.path.display().to_string(), source };
        if !self.exists() {
            let key = random::<32>().map_err(|error| failed(io::Error::other(error.to_string())))?;
            self.write(&configuration(&[("key1".to_owned(), STANDARD.encode(key))])).map_err(failed)?;
        }
        EncryptionConfig::load(&self.path)
    }

    /// Puts a fresh key before those there are, of which there must be one. Returns its name.
    pub fn rotate(&self) -> Result<String, ConfigError> {
        let failed = |source: io::Error| ConfigError::Io { path: self.path.display().to_string(), source };
        let config = EncryptionConfig::load(&self.path)?;
        let old = config.resources.iter().flat_map(|r| &r.providers).filter_map(|provider| provider.aesgcm.as_ref());
        let mut keys: Vec<(String, String)> =
            old.flat_map(|keys| &keys.keys).map(|key| (key.name.clone(), key.secret.clone())).collect();
        let numbers = keys.iter().filter_map(|(name, _)| name.strip_prefix("key")?.parse::<u32>().ok());
        let name = format!("key{}", numbers.max().unwrap_or(0) + 1);
        let key = random::<32>().map_err(|error| failed(io::Error::other(error.to_string())))?;
        keys.insert(0, (name.clone(), STANDARD.encode(key)));
        self.write(&configuration(&keys)).map_err(failed)?;
        Ok(name)
    }

    /// Replaces the file; whoever reads it sees the old or the new one.
    fn write(&self, text: &str) -> io::Result<()> {
        if let Some(directory) = self.path.parent() {
            std::fs::create_dir_all(directory)?;
        }
        let temporary = self.path.with_extension("new");
        let _ = std::fs::remove_file(&temporary);
        let mut file = OpenOptions::new().create_new(true).write(true).mode(0o600).open(&temporary)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&temporary, &self.path)?;
        match self.path.parent() {
            Some(directory) => std::fs::File::open(directory)?.sync_all(),
            None => Ok(()),
        }
    }
}

fn configuration(keys: &[(String, String)]) -> String {
    let keys: String =
        keys.iter().map(|(name, secret)| format!("      - name: {name}\n        secret: {secret}\n")).collect();
    format!(
        "# The keys that secrets in this data directory are encrypted with. Without them the secrets are lost:\n\
         # back this file up, but not beside the data.\n\
         apiVersion: apiserver.config.k8s.io/v1\n\
         kind: EncryptionConfiguration\n\
         resources:\n\
         - resources: [secrets]\n\
         \x20 providers:\n\
         \x20 - aesgcm:\n\
         \x20     keys:\n{keys}\
         \x20 - identity: {{}}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Keyring;
    use std::os::unix::fs::PermissionsExt;

    #[tokio::test]
    async fn the_key_is_made_once_and_only_its_owner_reads_it() {
        let directory = tempfile::tempdir().expect("directory");
        let key = LocalKey::of(directory.path());
        assert!(!key.exists() && key.rotate().is_err(), "there is nothing to rotate yet");
        let stored = b"root/core/secrets/a/b";
        let sealed =
            Keyring::new(&key.ensure().expect("made")).expect("a keyring").seal(stored, "v".into()).expect("sealed");
        let again = Keyring::new(&key.ensure().expect("read")).expect("a keyring");
        assert!(!again.open(stored, sealed.clone()).await.expect("opened").stale);
        let mode = std::fs::metadata(key.path()).expect("stat").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);

        assert_eq!(key.rotate().expect("rotated"), "key2");
        let rotated = Keyring::new(&key.ensure().expect("read")).expect("a keyring");
        assert!(rotated.open(stored, sealed).await.expect("opened").stale);
        assert!(rotated.seal(stored, "v".into()).expect("sealed").starts_with(b"k8s:enc:aesgcm:v1:key2:"));
    }
}
