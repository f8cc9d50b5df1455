//! What a tool is doing while it takes its time: one line on the terminal that is gone when the result is there. Nothing at all
//! where errors go to a file or a pipe, or where a program reads the output.

use std::future::Future;
use std::io::{IsTerminal, Write};
use std::time::Duration;

use tokio::time::Instant;

/// Tools that are quicker say nothing.
const QUIET: Duration = Duration::from_millis(400);
/// Between two looks of the line.
const BEAT: Duration = Duration::from_millis(120);
/// Shown one after the other.
const FRAMES: [&str; 4] = ["|", "/", "-", "\\"];
/// Back to the first column, and nothing right of it.
const CLEAR: &str = "\r\x1b[K";

/// Whether and where progress is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// On the terminal that errors go to.
    Shown,
    /// Not at all.
    Hidden,
}

impl Progress {
    /// Shown to a person who waits for text.
    pub fn for_output(is_text: bool) -> Self {
        let is_dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        match is_text && !is_dumb && std::io::stderr().is_terminal() {
            true => Self::Shown,
            false => Self::Hidden,
        }
    }

    /// Says something that stays.
    pub fn say(self, text: &str) {
        if self == Self::Shown {
            show(&format!("{text}\n"));
        }
    }

    /// Waits for `work` and shows what `says` tells meanwhile.
    pub async fn during<T>(self, work: impl Future<Output = T>, says: impl Fn() -> String) -> T {
        tokio::pin!(work);
        if self == Self::Hidden {
            return work.await;
        }
        let begin = Instant::now();
        let mut beats = tokio::time::interval_at(begin + QUIET, BEAT);
        let mut drawn = 0_usize;
        let result = loop {
            tokio::select! {
                result = &mut work => break result,
                _ = beats.tick() => {
                    show(&line(drawn, &says(), begin.elapsed()));
                    drawn += 1;
                }
            }
        };
        if drawn > 0 {
            show(CLEAR);
        }
        result
    }
}

/// Columns of a line: one that is wider than the terminal could not be taken back.
const COLUMNS: usize = 79;

/// One look of the line.
fn line(drawn: usize, says: &str, elapsed: Duration) -> String {
    let frame = FRAMES.get(drawn % FRAMES.len()).copied().unwrap_or_default();
    let text: String = format!("{frame} {says}, {} s", elapsed.as_secs()).chars().take(COLUMNS).collect();
    format!("{CLEAR}{text}")
}

fn show(text: &str) {
    let mut stderr = std::io::stderr().lock();
    // A terminal that is gone is no reason to fail.
    let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_replaces_the_one_before_and_tells_the_time() {
        assert_eq!(line(1, "scanning good.com", Duration::from_millis(2_300)), "\r\x1b[K/ scanning good.com, 2 s");
        assert_eq!(line(4, "x", Duration::ZERO), "\r\x1b[K| x, 0 s");
        assert_eq!(line(0, &"ä".repeat(200), Duration::ZERO).chars().count(), CLEAR.len() + COLUMNS);
    }

    #[tokio::test(start_paused = true)]
    async fn hidden_progress_never_asks_what_to_say() {
        let work = tokio::time::sleep(Duration::from_secs(5));
        Progress::Hidden.during(work, || panic!("nobody is shown anything")).await;
        assert_eq!(Progress::for_output(false), Progress::Hidden, "a program reads the output");
    }
}
