//! The project's commands (`cargo xtask …`): setting up the programs the tests use, running all tests, and the
//! differential suite against a real kube-apiserver. It is a library so that `cargo test` runs the same suite.

pub mod bench;
pub mod beside_opm;
pub mod chaos;
pub mod conformance;
pub mod dependencies;
pub mod e2e;
mod expectations;
pub mod fakenet;
pub mod go_module;
pub mod kubectl;
pub mod real_crds;
pub mod setup;
pub mod test_cmd;
pub mod test_run;
pub mod tools;
