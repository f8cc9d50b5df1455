//! Measures the embedded store on this machine's disk: writes per second and CPU per write by number of writers, memory
//! per object, list pages, and the time to open again.
//!
//! `cargo run --release -p bailiwick-store --example store_bench [DIR] [OBJECTS]`

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bailiwick_store::embedded::{EmbeddedStore, Options};
use bailiwick_store::{Expect, KeyRange, Op, RangeRequest, Revision, Store};
use bytes::Bytes;
use futures::StreamExt;

const VALUE_LEN: usize = 1024;
const PAGE_LEN: usize = 500;
const WRITE_TIME: Duration = Duration::from_secs(5);

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let dir = arguments.next().map_or_else(|| std::env::temp_dir().join("store-bench"), PathBuf::from);
    let objects: u64 = arguments.next().map_or(Ok(1_000_000), |count| count.parse())?;
    let _ = std::fs::remove_dir_all(&dir);

    let started = Instant::now();
    let store = EmbeddedStore::open(&dir, Options::default())?;
    println!("open empty                {:>10.2?}, {} KiB on disk", started.elapsed(), disk_kib(&dir)?);
    sync_cost(&dir)?;
    for writers in [1, 16, 64, 256] {
        write(&store, writers).await?;
    }
    drop(store);
    std::fs::remove_dir_all(&dir)?;

    let store = EmbeddedStore::open(&dir, Options::default())?;
    let before = memory()?;
    load(&store, objects).await?;
    let stats = store.stats();
    let used = memory()? - before;
    println!(
        "memory, after load        {:>10} bytes per object, of which {} key and value ({} changes of history)",
        used / objects,
        stats.live_bytes / stats.key_count,
        stats.history_changes,
    );
    list(&store).await?;
    let backup = dir.with_extension("backup");
    let (started, cpu) = (Instant::now(), cpu_time()?);
    let status = store.save_snapshot(&backup)?;
    println!(
        "backup and verify         {:>10.2?}, {:?} CPU, {} MiB",
        started.elapsed(),
        cpu_time()? - cpu,
        status.file_bytes >> 20
    );
    std::fs::remove_file(&backup)?;
    let (started, cpu) = (Instant::now(), cpu_time()?);
    drop(store);
    println!(
        "close                     {:>10.2?}, {:?} CPU, {} MiB on disk",
        started.elapsed(),
        cpu_time()? - cpu,
        disk_kib(&dir)? >> 10
    );

    let before = memory()?;
    let (started, cpu) = (Instant::now(), cpu_time()?);
    let store = EmbeddedStore::open(&dir, Options::default())?;
    println!(
        "open again                {:>10.2?}, {:?} CPU, {} keys, {} changes of history",
        started.elapsed(),
        cpu_time()? - cpu,
        store.stats().key_count,
        store.stats().history_changes,
    );
    println!(
        "memory, after reopening   {:>10} bytes per object (allocator may still hold earlier memory)",
        (memory()?.saturating_sub(before)) / objects
    );
    list(&store).await?;
    drop(store);
    std::fs::remove_dir_all(&dir)?;
    Ok(())
}

/// What the disk itself costs: a 1 KiB append and its sync.
fn sync_cost(dir: &Path) -> anyhow::Result<()> {
    use std::io::Write;
    let path = dir.join("probe");
    let mut file = std::fs::File::create(&path)?;
    let mut times: Vec<_> = Vec::new();
    for _ in 0..300 {
        let started = Instant::now();
        file.write_all(&[1; VALUE_LEN])?;
        file.sync_data()?;
        times.push(started.elapsed());
    }
    times.sort();
    println!("append 1 KiB + fdatasync  {:>10.2?} median", times[times.len() / 2]);
    Ok(std::fs::remove_file(path)?)
}

async fn write(store: &Arc<EmbeddedStore>, writers: u64) -> anyhow::Result<()> {
    let watched = Arc::new(AtomicU64::new(0));
    let mut changes = store.watch(KeyRange { start: Bytes::new(), end: None }, store.revision().await?).await?;
    let watcher = tokio::spawn({
        let watched = Arc::clone(&watched);
        async move {
            while let Some(Ok(bailiwick_store::WatchItem::Events(events))) = changes.next().await {
                watched.fetch_add(events.len() as u64, Ordering::Relaxed);
            }
        }
    });
    let value = Bytes::from(vec![7; VALUE_LEN]);
    let (started, cpu) = (Instant::now(), cpu_time()?);
    let mut tasks = tokio::task::JoinSet::new();
    for writer in 0..writers {
        let (store, value) = (Arc::clone(store), value.clone());
        tasks.spawn(async move {
            let mut latencies = Vec::new();
            let mut sequence = 0;
            while started.elapsed() < WRITE_TIME {
                let key = Bytes::from(format!("/registry/things/default/thing-{writer}-{}", sequence % 1000));
                sequence += 1;
                let asked = Instant::now();
                store.txn(vec![Op::Put { key, value: value.clone(), expect: Expect::Any, ttl: None }]).await?;
                latencies.push(asked.elapsed());
            }
            anyhow::Ok(latencies)
        });
    }
    let mut latencies = Vec::new();
    while let Some(task) = tasks.join_next().await {
        latencies.extend(task??);
    }
    let elapsed = started.elapsed();
    latencies.sort();
    println!(
        "{writers:>4} writers, watched     {:>10.0} writes/s, {:.1} µs CPU per write, p50 {:.2?}, p99 {:.2?}, {} events seen",
        latencies.len() as f64 / elapsed.as_secs_f64(),
        (cpu_time()? - cpu).as_secs_f64() * 1e6 / latencies.len() as f64,
        latencies[latencies.len() / 2],
        latencies[latencies.len() * 99 / 100],
        watched.load(Ordering::Relaxed),
    );
    watcher.abort();
    Ok(())
}

async fn load(store: &Arc<EmbeddedStore>, objects: u64) -> anyhow::Result<()> {
    let (started, cpu) = (Instant::now(), cpu_time()?);
    let mut tasks = tokio::task::JoinSet::new();
    const LOADERS: u64 = 256;
    for loader in 0..LOADERS {
        let store = Arc::clone(store);
        tasks.spawn(async move {
            for n in (loader..objects).step_by(LOADERS as usize) {
                // Scattered over the key space, as names are.
                let key = Bytes::from(format!(
                    "/registry/things/default/thing-{:016x}",
                    n.wrapping_mul(0x9e37_79b9_7f4a_7c15)
                ));
                let value = Bytes::from(vec![n as u8; VALUE_LEN]);
                store.txn(vec![Op::Put { key, value, expect: Expect::Absent, ttl: None }]).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(task) = tasks.join_next().await {
        task??;
    }
    let elapsed = started.elapsed();
    println!(
        "load {objects} objects      {:>10.2?}, {:.0} writes/s, {:.1} µs CPU per write",
        elapsed,
        objects as f64 / elapsed.as_secs_f64(),
        (cpu_time()? - cpu).as_secs_f64() * 1e6 / objects as f64
    );
    Ok(())
}

async fn list(store: &Arc<EmbeddedStore>) -> anyhow::Result<()> {
    let prefix = KeyRange::prefix("/registry/things/");
    let (started, mut pages, mut keys) = (Instant::now(), 0u32, 0usize);
    let (mut start, mut at) = (prefix.start.clone(), None::<Revision>);
    loop {
        let range = KeyRange { start, end: prefix.end.clone() };
        let response = store.range(RangeRequest { range, at, limit: Some(PAGE_LEN) }).await?;
        pages += 1;
        keys += response.entries.len();
        at = Some(response.revision);
        match response.entries.last() {
            Some(last) if response.more() => start = [&last.key[..], b"\0"].concat().into(),
            _ => break,
        }
    }
    println!(
        "list {keys} in pages      {:>10.2?}, {:.1?} per page of {PAGE_LEN}",
        started.elapsed(),
        started.elapsed() / pages
    );
    let started = Instant::now();
    let response = store.range(RangeRequest { range: prefix, at: None, limit: None }).await?;
    println!("list {} at once      {:>10.2?}", response.entries.len(), started.elapsed());
    Ok(())
}

/// User and system time of this process. The kernel counts in hundredths of a second.
fn cpu_time() -> anyhow::Result<Duration> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks: u64 = after_name.split_whitespace().skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    Ok(Duration::from_millis(ticks * 10))
}

/// Resident memory in bytes.
fn memory() -> anyhow::Result<u64> {
    let statm = std::fs::read_to_string("/proc/self/statm")?;
    let pages: u64 = statm.split_whitespace().nth(1).unwrap_or("0").parse()?;
    Ok(pages * 4096)
}

fn disk_kib(dir: &Path) -> anyhow::Result<u64> {
    use std::os::unix::fs::MetadataExt;
    let mut blocks = 0;
    for entry in std::fs::read_dir(dir)? {
        blocks += entry?.metadata()?.blocks();
    }
    Ok(blocks / 2)
}
