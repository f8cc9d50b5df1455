//! The flags of `bailiwick serve` about the audit log, named and checked as kube-apiserver's.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::bail;
use bailiwick::audit::{AuditLog, AuditOptions, AuditStream, AuditWebhook};
use bailiwick_audit::stream::StreamOptions;
use bailiwick_audit::{Compress, LogFormat, LogOptions, Mode, Truncation, WebhookOptions};

use crate::cli::duration;

#[derive(clap::Args)]
#[group(skip)]
#[command(next_help_heading = "Audit")]
pub struct Flags {
    /// The audit policy (audit.k8s.io/v1): which requests are recorded and how much of them. Without it none are.
    #[arg(long)]
    audit_policy_file: Option<PathBuf>,
    /// Record requests in this file; '-' is standard output.
    #[arg(long)]
    audit_log_path: Option<PathBuf>,
    /// How events are written: json or legacy (one line of text).
    #[arg(long, value_enum, default_value = "json")]
    audit_log_format: Format,
    /// Days that rotated files are kept; 0 is forever.
    #[arg(long, default_value_t = 0)]
    audit_log_maxage: u64,
    /// Rotated files that are kept; 0 is all.
    #[arg(long, default_value_t = 0)]
    audit_log_maxbackup: usize,
    /// Megabytes at which the file is rotated; 0 is never.
    #[arg(long, default_value_t = 100)]
    audit_log_maxsize: u64,
    /// Pack rotated files with gzip.
    #[arg(long, default_value_t = false, num_args = 0..=1, default_missing_value = "true", action = clap::ArgAction::Set)]
    audit_log_compress: bool,
    /// Whether answers wait until their events are written: batch, blocking or blocking-strict.
    #[arg(long, value_enum, default_value = "blocking")]
    audit_log_mode: ModeFlag,
    /// Whether events of the log that are too large lose their bodies.
    #[arg(long, default_value_t = false, num_args = 0..=1, default_missing_value = "true", action = clap::ArgAction::Set)]
    audit_log_truncate_enabled: bool,
    /// Bytes of an event in the log.
    #[arg(long, default_value_t = EVENT_BYTES_MAX)]
    audit_log_truncate_max_event_size: usize,
    /// Bytes of a batch for the log.
    #[arg(long, default_value_t = BATCH_BYTES_MAX)]
    audit_log_truncate_max_batch_size: usize,
    /// A kubeconfig that tells where a webhook takes events.
    #[arg(long)]
    audit_webhook_config_file: Option<PathBuf>,
    /// Whether answers wait until the webhook has their events: batch, blocking or blocking-strict.
    #[arg(long, value_enum, default_value = "batch")]
    audit_webhook_mode: ModeFlag,
    /// Events that may wait for the webhook.
    #[arg(long, default_value_t = 10_000)]
    audit_webhook_batch_buffer_size: usize,
    /// Events sent to the webhook at once.
    #[arg(long, default_value_t = 400)]
    audit_webhook_batch_max_size: usize,
    /// How long events wait for a batch to fill.
    #[arg(long, default_value = "30s", value_parser = duration::parse)]
    audit_webhook_batch_max_wait: Duration,
    /// Whether the number of batches per second is limited.
    #[arg(long, default_value_t = true, num_args = 0..=1, default_missing_value = "true", action = clap::ArgAction::Set)]
    audit_webhook_batch_throttle_enable: bool,
    /// Batches per second.
    #[arg(long, default_value_t = 10.0)]
    audit_webhook_batch_throttle_qps: f32,
    /// Batches at once after a pause.
    #[arg(long, default_value_t = 15)]
    audit_webhook_batch_throttle_burst: u32,
    /// How long to wait before the first retry.
    #[arg(long, default_value = "10s", value_parser = duration::parse)]
    audit_webhook_initial_backoff: Duration,
    /// Whether events for the webhook that are too large lose their bodies.
    #[arg(long, default_value_t = false, num_args = 0..=1, default_missing_value = "true", action = clap::ArgAction::Set)]
    audit_webhook_truncate_enabled: bool,
    /// Bytes of an event for the webhook.
    #[arg(long, default_value_t = EVENT_BYTES_MAX)]
    audit_webhook_truncate_max_event_size: usize,
    /// Bytes of a batch for the webhook.
    #[arg(long, default_value_t = BATCH_BYTES_MAX)]
    audit_webhook_truncate_max_batch_size: usize,
    /// Keep events in <data-dir>/audit-stream until every subscriber has read them.
    #[arg(long, default_value_t = false, num_args = 0..=1, default_missing_value = "true", action = clap::ArgAction::Set)]
    audit_stream: bool,
    /// Megabytes of the stream; beyond them the oldest events are lost to those who have not read them.
    #[arg(long, default_value_t = 1024)]
    audit_stream_maxsize: u64,
    /// Whether answers wait until their events are in the stream, on disk: batch, blocking or blocking-strict.
    #[arg(long, value_enum, default_value = "blocking")]
    audit_stream_mode: ModeFlag,
}

/// Upstream's limits on events and batches.
const EVENT_BYTES_MAX: usize = 100 * 1024;
const BATCH_BYTES_MAX: usize = 10 * 1024 * 1024;
const MEGABYTE: u64 = 1024 * 1024;
const DAY: Duration = Duration::from_secs(24 * 3600);

#[derive(Clone, Copy, clap::ValueEnum)]
enum Format {
    Json,
    Legacy,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum ModeFlag {
    Batch,
    Blocking,
    BlockingStrict,
}

impl From<ModeFlag> for Mode {
    fn from(mode: ModeFlag) -> Self {
        match mode {
            ModeFlag::Batch => Mode::Batch,
            ModeFlag::Blocking => Mode::Blocking,
            ModeFlag::BlockingStrict => Mode::BlockingStrict,
        }
    }
}

impl Flags {
    pub fn options(&self, data_dir: &Path) -> anyhow::Result<AuditOptions> {
        Ok(AuditOptions {
            policy_file: self.audit_policy_file.clone(),
            log: self.log()?,
            webhook: self.webhook()?,
            stream: self.audit_stream.then(|| AuditStream {
                options: StreamOptions {
                    bytes_max: self.audit_stream_maxsize.saturating_mul(MEGABYTE),
                    ..StreamOptions::new(data_dir.join("audit-stream"))
                },
                mode: self.audit_stream_mode.into(),
            }),
            sinks: Vec::new(),
        })
    }

    fn log(&self) -> anyhow::Result<Option<AuditLog>> {
        let Some(path) = &self.audit_log_path else { return Ok(None) };
        let file = LogOptions {
            path: path.clone(),
            format: match self.audit_log_format {
                Format::Json => LogFormat::Json,
                Format::Legacy => LogFormat::Legacy,
            },
            bytes_max: self.audit_log_maxsize.saturating_mul(MEGABYTE),
            backups_max: self.audit_log_maxbackup,
            age_max: DAY.saturating_mul(u32::try_from(self.audit_log_maxage).unwrap_or(u32::MAX)),
            compress: if self.audit_log_compress { Compress::Gzip } else { Compress::No },
        };
        let truncation = truncation(
            "log",
            self.audit_log_truncate_enabled,
            self.audit_log_truncate_max_event_size,
            self.audit_log_truncate_max_batch_size,
        )?;
        Ok(Some(AuditLog { file, mode: self.audit_log_mode.into(), truncation }))
    }

    fn webhook(&self) -> anyhow::Result<Option<AuditWebhook>> {
        let Some(config_file) = &self.audit_webhook_config_file else { return Ok(None) };
        let mode = Mode::from(self.audit_webhook_mode);
        if mode == Mode::Batch {
            self.check_batches()?;
        }
        let truncation = truncation(
            "webhook",
            self.audit_webhook_truncate_enabled,
            self.audit_webhook_truncate_max_event_size,
            self.audit_webhook_truncate_max_batch_size,
        )?;
        let throttle = (self.audit_webhook_batch_throttle_qps, self.audit_webhook_batch_throttle_burst);
        let options = WebhookOptions {
            mode,
            buffer_len: self.audit_webhook_batch_buffer_size,
            batch_len_max: self.audit_webhook_batch_max_size,
            batch_wait_max: self.audit_webhook_batch_max_wait,
            throttle: self.audit_webhook_batch_throttle_enable.then_some(throttle),
            initial_backoff: self.audit_webhook_initial_backoff,
        };
        Ok(Some(AuditWebhook { config_file: config_file.clone(), options, truncation }))
    }

    fn check_batches(&self) -> anyhow::Result<()> {
        let positive = |what: &str, value: f64| {
            if value <= 0.0 {
                bail!("invalid audit batch webhook {what} {value}, must be a positive number");
            }
            Ok(())
        };
        positive("buffer size", self.audit_webhook_batch_buffer_size as f64)?;
        positive("max batch size", self.audit_webhook_batch_max_size as f64)?;
        if self.audit_webhook_batch_throttle_enable {
            positive("throttle QPS", self.audit_webhook_batch_throttle_qps.into())?;
            positive("throttle burst", self.audit_webhook_batch_throttle_burst.into())?;
        }
        Ok(())
    }
}

fn truncation(sink: &str, enabled: bool, event: usize, batch: usize) -> anyhow::Result<Option<Truncation>> {
    if event == 0 {
        bail!("invalid audit truncate {sink} max event size {event}, must be a positive number");
    }
    if batch < event {
        bail!("invalid audit truncate {sink} max batch size {batch}, must be greater than max event size ({event})");
    }
    Ok(enabled.then_some(Truncation { event_bytes_max: event, batch_bytes_max: batch }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_checked_as_upstream() {
        let refusal = truncation("log", true, 100, 50).expect_err("too small").to_string();
        assert_eq!(refusal, "invalid audit truncate log max batch size 50, must be greater than max event size (100)");
    }
}
