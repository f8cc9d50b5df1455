//! Traces of requests: the options, and the tracer they make.

use std::path::PathBuf;
use std::sync::Arc;

use bailiwick_traces::{ConfigError, Exporting, Tracer, TracingConfiguration};

use super::{Error, read};

/// The name of the server to collectors, as upstream's.
const SERVICE: &str = "apiserver";

/// Whether requests are traced.
#[derive(Clone, Debug, Default)]
pub enum TracingOptions {
    #[default]
    Off,
    /// As a TracingConfiguration in this file says.
    ConfigFile(PathBuf),
    Configuration(TracingConfiguration),
}

/// Why traces cannot be kept.
#[derive(Debug, thiserror::Error)]
pub enum TracingError {
    #[error("--tracing-config-file: {path}: {source}")]
    Config { path: PathBuf, source: ConfigError },
    #[error("traces: {0}")]
    Endpoint(String),
}

impl TracingOptions {
    /// The tracer and the task that sends its spans.
    pub(super) fn build(&self) -> Result<Option<(Arc<Tracer>, Exporting)>, Error> {
        let configuration = match self {
            Self::Off => return Ok(None),
            Self::Configuration(configuration) => configuration.clone(),
            Self::ConfigFile(path) => TracingConfiguration::parse(&read(path)?)
                .map_err(|source| TracingError::Config { path: path.clone(), source })?,
        };
        let started = Tracer::start(&configuration, SERVICE).map_err(TracingError::Endpoint)?;
        Ok(Some(started))
    }
}
