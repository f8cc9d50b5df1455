//! What the outside tests stand on: the real `bailiwick` program on a port and data directory of its own ([`Server`],
//! [`Controllers`]), the programs that are run against it ([`Program`], [`tools`]), and webhooks that it calls ([`Webhook`]). Nothing here knows the server's insides; a test that needs
//! something which is not installed fails and says what to run, or calls [`skip`] where it is not part of the usual set-up.

mod controllers;
mod etcd;
mod https;
mod kms;
mod program;
mod server;
pub mod tools;
mod webhook;

pub use bailiwick_skip::{skip, skip_named};
pub use controllers::Controllers;
pub use etcd::Etcd;
pub use https::{HttpsBody, HttpsOptions, HttpsServer, whole};
pub use kms::{KmsBehaviour, KmsPlugin};
pub use program::Program;
pub use server::{ADMIN_TOKEN, NOBODY_TOKEN, Server};
pub use webhook::{Asked, Said, Webhook};
