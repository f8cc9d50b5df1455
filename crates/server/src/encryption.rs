//! What the server can do about the encryption of its store: tell whether its key services answer, and have everything
//! rewritten under the first key.

use async_trait::async_trait;
use serde_json::Value;

/// The hand on the keys of a store.
#[async_trait]
pub trait StorageEncryption: Send + Sync {
    /// Whether the key services answer; the error says what is wrong.
    async fn health(&self) -> Result<(), String>;

    /// Whether there are key services whose health matters.
    fn has_key_services(&self) -> bool;

    /// Takes up a changed configuration and starts to rewrite what is not under the first key.
    async fn reencrypt(&self) -> Result<(), String>;

    /// How far the last or present rewriting is.
    fn progress(&self) -> Value;
}
