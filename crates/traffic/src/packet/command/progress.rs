//! A line on standard error each second while something runs.

use crate::http::Stop;
use std::io::Write;
use std::thread;
use std::time::{Duration, Instant};

/// How often it is looked whether something has ended.
const LOOK: Duration = Duration::from_millis(20);

/// How often a line is written.
const LINE: Duration = Duration::from_secs(1);

/// Waits until `ended` says so, or for `time`, or until somebody wishes to stop; writes what `line` says of each second,
/// which is given how long the second was and says nothing by an empty line.
pub(super) fn watch<E>(
    stop: &Stop,
    time: Option<Duration>,
    mut ended: impl FnMut() -> Result<bool, E>,
    mut line: impl FnMut(Duration) -> Result<String, E>,
) -> Result<Duration, E> {
    let start = Instant::now();
    let mut last = start;
    loop {
        let now = Instant::now();
        if ended()? || stop.is_stopped() || time.is_some_and(|time| now - start >= time) {
            return Ok(now - start);
        }
        if now - last >= LINE {
            let text = line(now - last)?;
            last = now;
            if !text.is_empty() {
                let seconds = (now - start).as_secs_f64().round();
                // Nobody is to be told when nobody listens.
                let _ = writeln!(std::io::stderr(), "{seconds:>4} s  {text}");
            }
        }
        let left = time.map_or(LOOK, |time| time.saturating_sub(now - start));
        thread::sleep(LOOK.min(left));
    }
}

/// Waits until `count` no longer changes, for `grace` at most.
pub(super) fn settle<E>(
    grace: Duration,
    enough: u64,
    mut count: impl FnMut() -> Result<u64, E>,
) -> Result<(), E> {
    let end = Instant::now() + grace;
    while count()? < enough && Instant::now() < end {
        thread::sleep(LOOK / 4);
    }
    Ok(())
}

/// How much a counter has grown since it was last looked at, a second.
#[derive(Default)]
pub(super) struct Growth(u64);

impl Growth {
    pub(super) fn rate(&mut self, now: u64, second: Duration) -> f64 {
        let grown = now.saturating_sub(self.0);
        self.0 = now;
        grown as f64 / second.as_secs_f64().max(1e-9)
    }
}
