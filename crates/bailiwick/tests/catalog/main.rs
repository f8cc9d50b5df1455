//! `bailiwick catalog` as people meet it: the program, its files, its exit codes and what it says.

#[path = "../../../catalog/tests/it/batch.rs"]
mod batch;
mod beside_opm;
mod broken_input;
mod first_steps;
mod images;
#[path = "../../../catalog/tests/it/mutation.rs"]
mod mutation;
mod olm_client;
mod opm_verbs;
mod program;
