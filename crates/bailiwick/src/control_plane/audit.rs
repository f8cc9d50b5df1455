//! What is recorded of requests: the options, and the auditor they make.

use std::path::PathBuf;
use std::sync::Arc;

use bailiwick_audit::stream::{self, Stream, StreamOptions};
use bailiwick_audit::{
    AuditSink, Auditor, Backend, Buffered, Buffering, LogFile, LogOptions, Mode, Policy, PolicyError, Truncation,
    WebhookOptions, WebhookSink,
};
use bailiwick_webhook::{Endpoint, KubeconfigError};

/// Which requests are recorded, and where. Without a policy none are.
#[derive(Default)]
pub struct AuditOptions {
    pub policy_file: Option<PathBuf>,
    pub log: Option<AuditLog>,
    pub webhook: Option<AuditWebhook>,
    pub stream: Option<AuditStream>,
    /// Sinks compiled in.
    pub sinks: Vec<Box<dyn AuditSink>>,
}

/// A file of events.
#[derive(Clone, Debug)]
pub struct AuditLog {
    pub file: LogOptions,
    pub mode: Mode,
    /// How events gather in [`Mode::Batch`], where the auditor's own queue is not to decide it.
    pub buffering: Option<Buffering>,
    pub truncation: Option<Truncation>,
}

/// A server that takes events.
#[derive(Clone, Debug)]
pub struct AuditWebhook {
    /// A kubeconfig that tells where the server is.
    pub config_file: PathBuf,
    pub options: WebhookOptions,
    pub truncation: Option<Truncation>,
}

/// A stream of events on disk, for [`super::Running::audit_stream`].
#[derive(Clone, Debug)]
pub struct AuditStream {
    pub options: StreamOptions,
    pub mode: Mode,
}

/// Why requests cannot be recorded.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    #[error(transparent)]
    Policy(#[from] PolicyError),
    #[error("--audit-log-path {path}: {source}")]
    Log { path: PathBuf, source: std::io::Error },
    #[error("initializing audit webhook: {0}")]
    WebhookConfig(#[from] KubeconfigError),
    #[error("initializing audit webhook: {0}")]
    Webhook(#[from] bailiwick_webhook::Error),
    #[error("the audit stream in {path}: {source}")]
    Stream { path: PathBuf, source: std::io::Error },
    #[error("the audit thread: {0}")]
    Thread(std::io::Error),
}

/// An auditor at work, and the reading end of its stream.
#[derive(Default)]
pub(super) struct Audit {
    pub auditor: Option<Arc<Auditor>>,
    pub stream: Option<Stream>,
}

impl AuditOptions {
    pub(super) fn build(self) -> Result<Audit, AuditError> {
        let Some(path) = &self.policy_file else {
            if self.log.is_some() || self.webhook.is_some() || self.stream.is_some() || !self.sinks.is_empty() {
                tracing::warn!("no audit policy file provided, no events will be recorded");
            }
            return Ok(Audit::default());
        };
        let policy = Policy::load(path)?;
        let mut backends: Vec<Backend> = Vec::new();
        if let Some(AuditLog { file, mode, buffering, truncation }) = self.log {
            let path = file.path.clone();
            let sink = LogFile::open(file).map_err(|source| AuditError::Log { path, source })?;
            let mut sink: Box<dyn AuditSink> = Box::new(sink);
            if let Some(buffering) = buffering.filter(|_| mode == Mode::Batch) {
                sink = Box::new(Buffered::new(sink, buffering).map_err(AuditError::Thread)?);
            }
            backends.push(Backend { sink, mode, truncation });
        }
        let mut stream = None;
        if let Some(AuditStream { options, mode }) = self.stream {
            let path = options.directory.clone();
            let (sink, reader) = stream::open(options).map_err(|source| AuditError::Stream { path, source })?;
            stream = Some(reader);
            backends.push(Backend { sink: Box::new(sink), mode, truncation: None });
        }
        if let Some(AuditWebhook { config_file, options, truncation }) = self.webhook {
            let endpoint = Endpoint::from_kubeconfig(&config_file)?;
            let sink = WebhookSink::new(endpoint, options, tokio::runtime::Handle::current())?;
            backends.push(Backend { sink: Box::new(sink), mode: options.mode, truncation });
        }
        let compiled_in = self.sinks.into_iter().map(|sink| Backend { sink, mode: Mode::Batch, truncation: None });
        backends.extend(compiled_in);
        if backends.is_empty() {
            return Ok(Audit::default());
        }
        let auditor = Arc::new(Auditor::start(policy, backends).map_err(AuditError::Thread)?);
        Ok(Audit { auditor: Some(auditor), stream })
    }
}
