//! What befalls the processes: one etcd member at most is down or paused at a time, two servers at most.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::cluster::Cluster;
use super::machine::{Kind, Machine};
use super::report::Findings;
use crate::conformance::generated::random::Random;

/// Between one fault and the next of the same kind of process.
const CALM_MS: std::ops::Range<usize> = 300..4_000;
/// How long a process stays away or frozen.
const AWAY_MS: std::ops::Range<usize> = 0..6_000;
/// One pause of a server in so many is a long one.
const LONG_PAUSE_ONE_IN: usize = 6;
/// Longer than history is kept, and than a lease lasts.
const LONG_PAUSE: Duration = Duration::from_secs(40);
/// Servers that may be away at once: one is left, as a load balancer would find it.
const SERVERS_AWAY_MAX: usize = 2;

#[derive(Clone, Copy)]
enum Fault {
    Kill,
    Terminate,
    Pause,
}

/// Troubles the cluster until `end`; everything is healthy again when this returns.
pub async fn release(cluster: &Arc<Cluster>, findings: &Arc<Findings>, seed: u64, end: Instant) {
    let etcd = trouble(&cluster.etcd, 1, findings, Random::new(seed ^ 0xe7cd), end);
    let servers = trouble(&cluster.servers, SERVERS_AWAY_MAX, findings, Random::new(seed ^ 0x5e74e4), end);
    tokio::join!(etcd, servers);
}

/// Lets faults happen to `machines`, at most `at_once` of them in trouble at a time, each by a task of its own.
async fn trouble(
    machines: &[Arc<Machine>],
    at_once: usize,
    findings: &Arc<Findings>,
    mut random: Random,
    end: Instant,
) {
    let mut idle: Vec<Arc<Machine>> = machines.to_vec();
    let mut busy = tokio::task::JoinSet::new();
    while Instant::now() < end {
        tokio::time::sleep(random_ms(&mut random, CALM_MS)).await;
        for machine in &idle {
            if let Some(status) = machine.has_ended().await {
                findings.violation(format!("{} ended by itself: {status}\n{}", machine.name, machine.last_words()));
                restart(machine, findings).await;
            }
        }
        if busy.len() == at_once
            && let Some(Ok(machine)) = busy.join_next().await
        {
            idle.push(machine);
        }
        while let Some(Ok(machine)) = busy.try_join_next() {
            idle.push(machine);
        }
        let machine = idle.swap_remove(random.below(idle.len()));
        let fault = random.pick(&[Fault::Kill, Fault::Kill, Fault::Terminate, Fault::Pause]);
        let mut away = random_ms(&mut random, AWAY_MS);
        let is_short = Instant::now() + LONG_PAUSE > end;
        if machine.kind == Kind::Server && random.chance(LONG_PAUSE_ONE_IN) && !is_short {
            away = LONG_PAUSE;
        }
        let findings = findings.clone();
        busy.spawn(async move {
            strike(&machine, fault, away, &findings).await;
            machine
        });
    }
    while busy.join_next().await.is_some() {}
}

fn random_ms(random: &mut Random, range: std::ops::Range<usize>) -> Duration {
    Duration::from_millis((range.start + random.below(range.len())) as u64)
}

/// One fault, and its end.
async fn strike(machine: &Machine, fault: Fault, away: Duration, findings: &Findings) {
    let kind = machine.kind.name();
    match fault {
        Fault::Kill => {
            findings.fault(format!("{kind}: kill -9"));
            machine.kill().await;
            tokio::time::sleep(away.min(AWAY_LONGEST)).await;
            restart(machine, findings).await;
        }
        Fault::Terminate => {
            findings.fault(format!("{kind}: SIGTERM"));
            match machine.terminate().await {
                Ok((status, took)) if machine.kind == Kind::Server => {
                    findings.drained(took);
                    if !status.success() {
                        let words = machine.last_words();
                        findings.violation(format!("{} ended with {status} after SIGTERM\n{words}", machine.name));
                    }
                }
                Ok(_) => {}
                Err(error) => findings.violation(format!("{error:#}\n{}", machine.last_words())),
            }
            tokio::time::sleep(away.min(AWAY_LONGEST)).await;
            restart(machine, findings).await;
        }
        Fault::Pause => {
            let length = if away >= LONG_PAUSE { "paused for 40 s" } else { "paused" };
            findings.fault(format!("{kind}: {length}"));
            for signal in ["STOP", "CONT"] {
                if let Err(error) = machine.signal(signal).await {
                    findings.violation(format!("{error:#}"));
                }
                if signal == "STOP" {
                    tokio::time::sleep(away).await;
                }
            }
            await_healthy(machine, findings).await;
        }
    }
}

/// Only pauses are long.
const AWAY_LONGEST: Duration = Duration::from_millis(AWAY_MS.end as u64);

async fn restart(machine: &Machine, findings: &Findings) {
    match machine.start().await {
        Ok(started) => findings.started(&started),
        Err(error) => findings.violation(format!("{error:#}")),
    }
}

/// How long a process may take to be healthy after a pause.
const RECOVERY: Duration = Duration::from_secs(60);

async fn await_healthy(machine: &Machine, findings: &Findings) {
    let begun = Instant::now();
    while !machine.is_healthy().await {
        if begun.elapsed() > RECOVERY {
            findings.violation(format!("{} is not healthy {RECOVERY:?} after a pause", machine.name));
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
