//! What one server's answers say about that server: fine, or what is wrong with it, in words for its operator's customer.

use std::fmt;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::resolve::{Lame, Reply, Says};
use crate::transport::{Failure, Remark};

/// How bad something is (the levels of Zonemaster).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Severity {
    /// As it should be.
    Info,
    /// Worth knowing.
    Notice,
    /// Will hurt somebody some day.
    Warning,
    /// Hurts now.
    Error,
    /// Nothing works.
    Critical,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Info => "INFO",
            Self::Notice => "NOTICE",
            Self::Warning => "WARNING",
            Self::Error => "ERROR",
            Self::Critical => "CRITICAL",
        })
    }
}

/// A verdict on a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum Verdict {
    /// Answers as it should.
    Ok,
    /// Does not answer.
    Timeout,
    /// Nothing listens there.
    PortClosed,
    /// There is no way there from here: no verdict on the server.
    Unreachable {
        /// What the system says.
        detail: String,
    },
    /// Answers from another address than the one asked.
    WrongSource {
        /// That address.
        from: SocketAddr,
    },
    /// Sends something that is no answer.
    Garbage {
        /// What is wrong with it.
        detail: String,
    },
    /// Is listed for the zone but does not serve it.
    Lame {
        /// How that shows.
        how: Lame,
    },
    /// Offers recursion to strangers.
    RecursionOffered,
    /// The answer needed TCP, which worked.
    TruncatedThenTcp,
    /// The answer needed TCP, which failed.
    TcpFailed {
        /// How.
        failure: Failure,
    },
    /// Drops questions with EDNS.
    EdnsDropped,
    /// Refuses questions with EDNS.
    EdnsRefused {
        /// With which code.
        code: String,
    },
    /// The parent lists it, the zone does not.
    ParentOnly,
    /// The zone lists it, the parent does not.
    ChildOnly,
    /// Serves an old version of the zone.
    StaleSerial {
        /// The version it serves.
        has: u32,
        /// The newest version seen.
        newest: u32,
    },
    /// The parent gives other addresses for it than the zone.
    GlueMismatch {
        /// What the parent says.
        parent: Vec<String>,
        /// What the zone says.
        zone: Vec<String>,
    },
    /// Was not asked.
    NotAsked {
        /// Why.
        detail: String,
    },
}

impl Verdict {
    /// How bad it is.
    pub fn severity(&self) -> Severity {
        match self {
            Self::Ok | Self::TruncatedThenTcp => Severity::Info,
            Self::Unreachable { .. } | Self::NotAsked { .. } => Severity::Notice,
            Self::RecursionOffered
            | Self::EdnsDropped
            | Self::EdnsRefused { .. }
            | Self::ParentOnly
            | Self::ChildOnly => Severity::Warning,
            Self::Timeout
            | Self::PortClosed
            | Self::WrongSource { .. }
            | Self::Garbage { .. }
            | Self::Lame { .. }
            | Self::TcpFailed { .. }
            | Self::StaleSerial { .. }
            | Self::GlueMismatch { .. } => Severity::Error,
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ok => f.write_str("ok"),
            Self::Timeout => f.write_str("does not answer"),
            Self::PortClosed => f.write_str("port 53 is closed"),
            Self::Unreachable { detail } => write!(f, "not reachable from here ({detail})"),
            Self::WrongSource { from } => write!(f, "answers from another address ({})", from.ip()),
            Self::Garbage { detail } => write!(f, "sends no usable answer: {detail}"),
            Self::Lame { how } => write!(f, "does not serve the zone: {how}"),
            Self::RecursionOffered => f.write_str("offers recursion to everybody"),
            Self::TruncatedThenTcp => f.write_str("too long for UDP, fine by TCP"),
            Self::TcpFailed { failure } => write!(f, "too long for UDP, and TCP fails: {failure}"),
            Self::EdnsDropped => f.write_str("answers only without EDNS"),
            Self::EdnsRefused { code } => write!(f, "refuses EDNS ({code})"),
            Self::ParentOnly => f.write_str("is listed by the parent but not by the zone itself"),
            Self::ChildOnly => f.write_str("is listed by the zone itself but not by the parent"),
            Self::StaleSerial { has, newest } => write!(f, "serves an old version: serial {has}, others have {newest}"),
            Self::GlueMismatch { parent, zone } => {
                write!(f, "the parent says {}, the zone says {}", list(parent), list(zone))
            }
            Self::NotAsked { detail } => f.write_str(detail),
        }
    }
}

fn list(addresses: &[String]) -> String {
    if addresses.is_empty() { "nothing".to_owned() } else { addresses.join(", ") }
}

/// What a reply says about its server: the first is the most important.
pub fn judge(reply: &Reply) -> Vec<Verdict> {
    let mut verdicts = match &reply.exchange.outcome {
        Err(failure) => vec![of_failure(failure)],
        Ok(answer) => {
            let mut verdicts = match &reply.says {
                Says::Lame(how) => vec![Verdict::Lame { how: how.clone() }],
                _ => Vec::new(),
            };
            if answer.offers_recursion() {
                verdicts.push(Verdict::RecursionOffered);
            }
            verdicts
        }
    };
    for remark in &reply.exchange.remarks {
        match remark {
            Remark::Truncated => verdicts.push(Verdict::TruncatedThenTcp),
            Remark::TcpFailed { failure } => verdicts.push(Verdict::TcpFailed { failure: failure.clone() }),
            Remark::EdnsDropped => verdicts.push(Verdict::EdnsDropped),
            Remark::EdnsRefused { code } => verdicts.push(Verdict::EdnsRefused { code: code.clone() }),
            Remark::Retried | Remark::StraySource { .. } => {}
        }
    }
    if verdicts.is_empty() {
        verdicts.push(Verdict::Ok);
    }
    verdicts
}

fn of_failure(failure: &Failure) -> Verdict {
    match failure {
        Failure::Timeout => Verdict::Timeout,
        Failure::PortClosed => Verdict::PortClosed,
        Failure::Unreachable(detail) => Verdict::Unreachable { detail: detail.clone() },
        Failure::WrongSource(from) => Verdict::WrongSource { from: *from },
        Failure::Malformed(_) | Failure::Mismatch | Failure::Stream(_) => {
            Verdict::Garbage { detail: failure.to_string() }
        }
        Failure::NotPublic(_) | Failure::BudgetSpent => Verdict::NotAsked { detail: failure.to_string() },
    }
}
