//! Many random cases, judged beside opm: each has its own seed, so that one can be run again alone, and several are
//! judged at a time.
//!
//! `CATALOG_CASES` sets how many there are (a few dozen otherwise; thousands take minutes), `CATALOG_SEED` which,
//! `CATALOG_CASE` runs only one. `cargo xtask beside-opm` runs thousands of each.

use std::process::{Command, Output};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use rand::SeedableRng as _;
use rand::rngs::StdRng;

/// How many differences are shown in full.
const SHOWN: usize = 8;
/// opm iterates over maps in random order; so often it is asked again when it says something else than we do.
const RANDOM_ORDERS: usize = 12;
/// Whoever waits for more cases than this is told now and then how far it is.
const TOLD_EVERY: usize = 500;

/// What a comparison came to.
pub enum Verdict {
    Accepted,
    Refused,
    /// What we said, what opm said, and about what.
    Different(String),
}

#[derive(Default)]
struct Tally {
    accepted: usize,
    refused: usize,
    different: Vec<(u64, String)>,
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|it| it.parse().ok())
}

/// Judges cases; every difference is reported, and at least a tenth must be accepted and refused each.
pub fn run(what: &str, default: u64, judge: impl Fn(&mut StdRng) -> Verdict + Sync) {
    let seed = number("CATALOG_SEED").unwrap_or(7);
    let (first, count) = match number("CATALOG_CASE") {
        Some(case) => (case, 1),
        None => (0, number("CATALOG_CASES").unwrap_or(default)),
    };
    let next = AtomicU64::new(first);
    let tally = Mutex::new(Tally::default());
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let case = next.fetch_add(1, Ordering::Relaxed);
                    if case >= first + count {
                        return;
                    }
                    let mut rng = StdRng::seed_from_u64(seed.wrapping_mul(1_000_003).wrapping_add(case));
                    let verdict = judge(&mut rng);
                    let mut tally = tally.lock().unwrap();
                    match verdict {
                        Verdict::Accepted => tally.accepted += 1,
                        Verdict::Refused => tally.refused += 1,
                        Verdict::Different(how) => tally.different.push((case, how)),
                    }
                    let done = tally.accepted + tally.refused + tally.different.len();
                    if done.is_multiple_of(TOLD_EVERY) {
                        eprintln!("{what}: {done} of {count}, {} different", tally.different.len());
                    }
                }
            });
        }
    });
    let tally = tally.into_inner().unwrap();
    let (accepted, refused, different) = (tally.accepted, tally.refused, tally.different.len());
    println!(
        "{what}: {count} cases of seed {seed}, {accepted} accepted and {refused} refused by both, {different} different"
    );
    for (case, how) in tally.different.iter().take(SHOWN) {
        println!("--- {what}, CATALOG_SEED={seed} CATALOG_CASE={case}\n{how}");
    }
    assert_eq!(different, 0, "{what}: we and opm differ");
    if count > 20 {
        let tenth = usize::try_from(count / 10).unwrap();
        assert!(accepted >= tenth && refused >= tenth, "the cases are one-sided");
    }
}

/// Asks opm until it says what we say, or often enough.
pub fn ask<T: PartialEq>(mut command: impl FnMut() -> Command, ours: &T, read: impl Fn(Output) -> T) -> T {
    // opm leaves an empty cache of images behind whenever it runs.
    let temporary = tempfile::tempdir().unwrap();
    let mut asked = || read(command().env("TMPDIR", temporary.path()).output().unwrap());
    let mut theirs = asked();
    for _ in 0..RANDOM_ORDERS {
        if &theirs == ours {
            break;
        }
        theirs = asked();
    }
    theirs
}

/// Stands for a refusal of opm that is a crash: whatever we say instead is better.
pub const CRASHED: &str = "opm crashed";

/// The message of a line that opm logs with `level=fatal` or prints as `Error: …`.
pub fn refusal(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    if text.contains("\ngoroutine ") {
        return CRASHED.to_owned();
    }
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("Error: ") {
            return text[text.find(rest).unwrap()..].split("\nUsage:").next().unwrap().trim_end().to_owned();
        }
        if line.contains("level=fatal")
            && let Some((_, message)) = line.split_once(" msg=")
        {
            return unquoted(message);
        }
    }
    // `render` has a logger of its own: date, time, message.
    let message = text.splitn(3, ' ').nth(2).filter(|_| text.starts_with(|c: char| c.is_ascii_digit()));
    message.map_or_else(|| text.to_string(), |message| message.trim_end().to_owned())
}

/// A text as Go's `%q` wrote it; texts without anything special are not quoted.
fn unquoted(text: &str) -> String {
    let Some(inner) = text.strip_prefix('"').and_then(|it| it.strip_suffix('"')) else { return text.to_owned() };
    let mut out = String::new();
    let mut chars = inner.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        let escape = chars.next().unwrap();
        let digits = match escape {
            'x' => 2,
            'u' => 4,
            'U' => 8,
            _ => 0,
        };
        let code: String = chars.by_ref().take(digits).collect();
        out.push(match escape {
            'a' => '\u{7}',
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'v' => '\u{b}',
            'x' | 'u' | 'U' => u32::from_str_radix(&code, 16).ok().and_then(char::from_u32).unwrap(),
            other => other,
        });
    }
    out
}

/// A tree of reasons without its order, which is random upstream.
pub fn unordered(message: &str) -> String {
    struct Node<'t> {
        text: &'t str,
        below: Vec<Node<'t>>,
    }
    fn draw(mut nodes: Vec<Node>, depth: usize) -> String {
        let mut drawn: Vec<String> = nodes
            .drain(..)
            .map(|node| format!("{}{}\n{}", "  ".repeat(depth), node.text, draw(node.below, depth + 1)))
            .collect();
        drawn.sort_unstable();
        drawn.concat()
    }
    fn add<'t>(nodes: &mut Vec<Node<'t>>, depth: usize, text: &'t str) {
        match nodes.last_mut() {
            Some(last) if depth > 0 => add(&mut last.below, depth - 1, text),
            _ => nodes.push(Node { text, below: Vec::new() }),
        }
    }
    let mut roots = Vec::new();
    for line in message.lines() {
        let text = line.trim_start_matches(['│', '├', '└', '─', ' ']);
        let indent = line.chars().count() - text.chars().count();
        add(&mut roots, indent / 4, text);
    }
    draw(roots, 0)
}
