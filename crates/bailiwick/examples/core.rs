//! The API server and nothing else: the core group without events, no controllers, an embedded store, a free port.
//!
//! `cargo run --example core -- ./core-data`, then use the kubeconfig it names.

use bailiwick::{ControlPlane, Feature};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let data_dir = std::env::args().nth(1).unwrap_or_else(|| "./core-data".to_owned());
    let running = ControlPlane::builder(data_dir)
        .keep_resources(|resource| resource.group.is_empty())
        .without([Feature::Events, Feature::Projects, Feature::Rbac])
        .controllers(&[])
        .start()
        .await?;
    println!("ready at {}; try: kubectl --kubeconfig {} get ns", running.url, running.kubeconfig.display());
    running.until_signal().await?;
    Ok(())
}
