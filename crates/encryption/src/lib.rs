//! Values encrypted at rest: between the server, which sees plaintext, and the store, which does not.
//!
//! An [`EncryptionConfig`] is kube-apiserver's EncryptionConfiguration; a [`Keyring`] made of it seals and opens values in
//! the same formats, bound to the key they are stored under. [`EncryptedStore`] puts a keyring in front of any store.
//! Values are opened once, when they are read into a cache; errors name keys, never contents.

mod cipher;
mod config;
mod encrypted_store;
mod keyring;
mod kms;
mod local_key;
mod reencrypt;
mod sealed;
mod under_way;

pub use config::{ConfigError, EncryptionConfig};
pub use encrypted_store::EncryptedStore;
pub use keyring::{Keyring, OpenError, Opened};
pub use local_key::LocalKey;
pub use reencrypt::Progress;
pub use sealed::first_sealed;
