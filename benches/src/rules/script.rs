//! One small script in the engine: the same loop in a procedure as tclsh runs, made longer until it takes long enough.

use crate::engine::Engine;
use anyhow::{Context, Result};
use rules::event::Event;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// Time a script and print nanoseconds each time, how many times, and what was left in `out`.
pub(crate) fn time(file: &Path, milliseconds: u64) -> Result<()> {
    let text =
        fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let text = format!("\n{text}");
    let (setup, body) = text
        .split_once("\n# body\n")
        .context("the script has no line `# body`")?;
    let least = Duration::from_millis(milliseconds);
    let mut times: u64 = 1;
    loop {
        let (elapsed, out) = run(setup, body, times)?;
        if elapsed > least {
            let each = elapsed.as_nanos() as f64 / times as f64;
            println!("{each} {times} {}", escaped(&out));
            return Ok(());
        }
        let aim = least.as_secs_f64() * 1.1 / elapsed.as_secs_f64().max(1e-9);
        times = if elapsed < Duration::from_micros(100) {
            times * 10
        } else {
            (times + 1).max((times as f64 * aim) as u64)
        };
    }
}

fn run(setup: &str, body: &str, times: u64) -> Result<(Duration, String)> {
    // Procedures stand outside of others, each on a line of its own.
    let (procs, setup): (Vec<&str>, Vec<&str>) =
        setup.lines().partition(|line| line.starts_with("proc "));
    let (procs, setup) = (procs.join("\n"), setup.join("\n"));
    let rule = format!(
        "{procs}\nproc run {{times}} {{\n{setup}\nfor {{set times_left $times}} {{$times_left > 0}} {{incr times_left -1}} {{\n{body}\n}}\n\
         return $out\n}}\nwhen CLIENT_ACCEPTED {{ set static::out [call run {times}] }}\n"
    );
    let mut engine = Engine::load(&[("script".to_owned(), rule.into_bytes())])?;
    let began = Instant::now();
    engine.connect(Event::ClientAccepted)?;
    let elapsed = began.elapsed();
    let out = engine.variable("out").context("the script has no result")?;
    Ok((elapsed, out))
}

fn escaped(text: &str) -> String {
    text.replace('\n', "\\n").replace('\r', "\\r")
}
