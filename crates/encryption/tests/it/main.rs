//! Encrypted stores from outside: the contract of stores, the files on disk, rotation under load and a key service in a
//! process of its own.

mod files;
mod kms;
mod rotation;
mod under_way;

use std::sync::Arc;

use bailiwick_encryption::{EncryptedStore, EncryptionConfig, Keyring};
use bailiwick_store::Store;
use bailiwick_store::embedded::{EmbeddedStore, Options};

const ONE: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
const TWO: &str = "Hx4dHBsaGRgXFhUUExIREA8ODQwLCgkIBwYFBAMCAQA=";

/// The providers of secrets, as the configuration writes them.
fn ring(providers: &str) -> Keyring {
    let text = format!(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources: [{{resources: [secrets], \
         providers: [{providers}]}}]"
    );
    Keyring::new(&EncryptionConfig::parse(&text).expect("a configuration")).expect("a keyring")
}

fn aesgcm(keys: &[(&str, &str)]) -> String {
    let keys: Vec<String> = keys.iter().map(|(name, secret)| format!("{{name: {name}, secret: {secret}}}")).collect();
    format!("{{aesgcm: {{keys: [{}]}}}}", keys.join(", "))
}

fn embedded(directory: &std::path::Path) -> Arc<EmbeddedStore> {
    EmbeddedStore::open(directory, Options::default()).expect("opened")
}

async fn encrypted(inner: Arc<dyn Store>, providers: &str) -> Arc<EncryptedStore> {
    EncryptedStore::new(inner, ring(providers)).await
}
