//! The controller of domains beside a server: `KUBECONFIG=… cargo run -p bailiwick-domains-controller --example watch_domains`.
//! On the fake internet, `cargo xtask fakenet` sets BAILIWICK_DNS_ROOTS.

use std::sync::Arc;

use bailiwick_domains::seams::{Roots, SystemClock};
use bailiwick_domains_controller::{Options, run};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let client = kube::Client::try_default().await?;
    let roots = Arc::new(Roots::from_environment()?);
    let interrupted = async {
        let _ = tokio::signal::ctrl_c().await;
    };
    run(client, Options::new(Arc::new(SystemClock), roots), interrupted).await?;
    Ok(())
}
