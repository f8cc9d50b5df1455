//! The flags of `bailiwick serve` that say how many requests run at once.

use bailiwick::{Fairness, FlowControlOptions};

#[derive(clap::Args)]
#[group(skip)]
#[command(next_help_heading = "Flow control")]
pub struct Flags {
    /// Let requests beyond the limits wait in fair queues, as FlowSchemas and PriorityLevelConfigurations say; otherwise
    /// they are turned away.
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set)]
    enable_priority_and_fairness: bool,
    /// Requests that read, at once; 0 is no limit. The sum with the other limit is what priority levels share.
    #[arg(long, default_value_t = FlowControlOptions::default().max_requests_inflight)]
    max_requests_inflight: u32,
    /// Requests that write, at once; 0 is no limit.
    #[arg(long, default_value_t = FlowControlOptions::default().max_mutating_requests_inflight)]
    max_mutating_requests_inflight: u32,
}

impl Flags {
    pub fn options(&self) -> FlowControlOptions {
        FlowControlOptions {
            fairness: if self.enable_priority_and_fairness { Fairness::PriorityAndFairness } else { Fairness::Off },
            max_requests_inflight: self.max_requests_inflight,
            max_mutating_requests_inflight: self.max_mutating_requests_inflight,
        }
    }
}
