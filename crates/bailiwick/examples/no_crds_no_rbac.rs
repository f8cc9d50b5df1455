//! A control plane without custom resources, roles, aggregation and projects, for clients that trust each other: whoever
//! has credentials may do everything. Deleting namespaces and owners still works, since their controllers run.
//!
//! `cargo run --example no_crds_no_rbac -- ./plain-data`

use bailiwick::{ControlPlane, Feature};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let data_dir = std::env::args().nth(1).unwrap_or_else(|| "./plain-data".to_owned());
    let running = ControlPlane::builder(data_dir)
        .without([Feature::CustomResourceDefinitions, Feature::Rbac, Feature::Aggregation, Feature::Projects])
        .start()
        .await?;
    println!("ready at {}; try: kubectl --kubeconfig {} get ns", running.url, running.kubeconfig.display());
    running.until_signal().await?;
    Ok(())
}
