//! The flags of `bailiwick serve` about the audit log, named and checked as kube-apiserver's.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::bail;
use bailiwick::audit::{AuditLog, AuditOptions, AuditStream, AuditWebhook};
use bailiwick_audit::stream::StreamOptions;
use bailiwick_audit::{Buffering, Compress, LogFormat, LogOptions, Mode, Truncation, WebhookOptions};

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
    #[command(flatten)]
    log_batch: LogBatchFlags,
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

/// Only used in batch mode; without any of them the log is written as fast as events come.
#[derive(clap::Args)]
#[group(skip)]
struct LogBatchFlags {
    /// Events that may wait for the log in batch mode [default: 10000].
    #[arg(long, allow_hyphen_values = true)]
    audit_log_batch_buffer_size: Option<i64>,
    /// Events written to the log at once in batch mode [default: 1].
    #[arg(long, allow_hyphen_values = true)]
    audit_log_batch_max_size: Option<i64>,
    /// How long events wait for a batch to fill [default: 0s].
    #[arg(long, value_parser = duration::parse)]
    audit_log_batch_max_wait: Option<Duration>,
    /// Whether the number of batches per second is limited [default: false].
    #[arg(long, num_args = 0..=1, default_missing_value = "true")]
    audit_log_batch_throttle_enable: Option<bool>,
    /// Batches per second.
    #[arg(long, allow_hyphen_values = true)]
    audit_log_batch_throttle_qps: Option<f32>,
    /// Batches at once after a pause.
    #[arg(long, allow_hyphen_values = true)]
    audit_log_batch_throttle_burst: Option<i64>,
}

impl LogBatchFlags {
    /// How events gather, if something is said about it.
    fn buffering(&self) -> anyhow::Result<Option<Buffering>> {
        let said = self.audit_log_batch_buffer_size.is_some()
            || self.audit_log_batch_max_size.is_some()
            || self.audit_log_batch_max_wait.is_some()
            || self.audit_log_batch_throttle_enable.is_some();
        if !said {
            return Ok(None);
        }
        let default = Buffering::default();
        let count = |what: &str, value: Option<i64>, default: usize| match value {
            None => anyhow::Ok(default),
            Some(value) => {
                positive("log", what, value as f64)?;
                Ok(usize::try_from(value).unwrap_or(usize::MAX))
            }
        };
        let buffer_len = count("buffer size", self.audit_log_batch_buffer_size, default.buffer_len)?;
        let batch_len_max = count("max batch size", self.audit_log_batch_max_size, default.batch_len_max)?;
        let mut throttle = None;
        if self.audit_log_batch_throttle_enable == Some(true) {
            let per_second = self.audit_log_batch_throttle_qps.unwrap_or_default();
            let burst = self.audit_log_batch_throttle_burst.unwrap_or_default();
            positive("log", "throttle QPS", per_second.into())?;
            positive("log", "throttle burst", burst as f64)?;
            throttle = Some((per_second, u32::try_from(burst).unwrap_or(u32::MAX)));
        }
        let batch_wait_max = self.audit_log_batch_max_wait.unwrap_or(default.batch_wait_max);
        Ok(Some(Buffering { buffer_len, batch_len_max, batch_wait_max, throttle }))
    }
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
        let mode = Mode::from(self.audit_log_mode);
        let buffering = if mode == Mode::Batch { self.log_batch.buffering()? } else { None };
        Ok(Some(AuditLog { file, mode, buffering, truncation }))
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
        positive("webhook", "buffer size", self.audit_webhook_batch_buffer_size as f64)?;
        positive("webhook", "max batch size", self.audit_webhook_batch_max_size as f64)?;
        if self.audit_webhook_batch_throttle_enable {
            positive("webhook", "throttle QPS", self.audit_webhook_batch_throttle_qps.into())?;
            positive("webhook", "throttle burst", self.audit_webhook_batch_throttle_burst.into())?;
        }
        Ok(())
    }
}

fn positive(sink: &str, what: &str, value: f64) -> anyhow::Result<()> {
    if value <= 0.0 {
        bail!("invalid audit batch {sink} {what} {value}, must be a positive number");
    }
    Ok(())
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
