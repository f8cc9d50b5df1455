//! What programs have in common that work on a server from outside: the signal that ends them, and what they show of
//! themselves.

use std::net::SocketAddr;
use std::sync::Arc;

use bailiwick_controllers::{Metrics, Standing};
use bailiwick_server::{Diagnostics, DiagnosticsListener};
use tokio::task::JoinSet;

/// Returns when a signal asks this process to end.
pub async fn told_to_end() {
    match bailiwick::stop_signal().await {
        Ok(signal) => tracing::info!(signal, "stopping"),
        Err(error) => tracing::error!(%error, "cannot wait for signals"),
    }
}

/// Where a program shows itself.
#[derive(clap::Args)]
pub struct Flags {
    /// Serve /metrics, /healthz and /readyz at this address, which must be a loopback one such as 127.0.0.1:10257: it is plain
    /// HTTP, and whoever asks is answered. The port 0 takes a free one, which the log names. Nothing is served by default.
    #[arg(long, value_name = "ADDRESS")]
    metrics_bind_address: Option<SocketAddr>,
}

impl Flags {
    /// Serves what controllers show, until the returned tasks are dropped.
    pub async fn serve(&self, metrics: Metrics) -> anyhow::Result<JoinSet<()>> {
        let shown = metrics.clone();
        let readiness = Arc::new(move || match shown.standing() {
            Standing::Starting => Err("starting"),
            Standing::Waiting => Ok("waiting"),
            Standing::Leading => Ok("leading"),
        });
        self.show(Diagnostics { metrics: Arc::new(move |text| metrics.append(text)), readiness }).await
    }

    /// Serves what a program shows, until the returned tasks are dropped.
    pub async fn show(&self, shown: Diagnostics) -> anyhow::Result<JoinSet<()>> {
        let mut serving = JoinSet::new();
        let Some(address) = self.metrics_bind_address else { return Ok(serving) };
        let listener = DiagnosticsListener::bind(address).await?;
        tracing::info!(address = %listener.local_addr()?, "metrics are served");
        serving.spawn(listener.serve(shown));
        Ok(serving)
    }
}
