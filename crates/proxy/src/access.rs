//! The access log: a line for each exchange or TCP connection, in JSON or in a text form, written by a thread of its own
//! so that no worker ever waits for a disk or a reader. What happened is told by a [`Record`]; when one is written is
//! for the protocols.
//!
//! # How it ended
//!
//! Two letters as HAProxy users know them: who ended it, and in which phase.
//!
//! | 1st | who                                   | 2nd | phase                                             |
//! | --- | ------------------------------------- | --- | ------------------------------------------------- |
//! | `-` | nobody: it ended in order             | `-` | all was done                                      |
//! | `C` | the client closed or broke it         | `R` | the request was being read (or TLS, PROXY header) |
//! | `S` | the member closed, broke or refused it| `Q` | waiting in the queue for a member                 |
//! | `P` | Headgate: the protocol or a rule      | `C` | connecting to the member                          |
//! | `c` | the client was silent too long        | `H` | waiting for the response's head                   |
//! | `s` | the member was silent too long        | `D` | data was passing                                  |
//! | `R` | a limit or lack of resources          | `L` | the last data was on its way to the client        |
//! | `L` | Headgate answered itself              | `T` | held back on purpose                              |
//! | `K` | the operator: drain, stop             |     |                                                   |
//! | `D` | the member was taken out of service   |     |                                                   |
//! | `I` | an error within Headgate              |     |                                                   |
//!
//! # The text form
//!
//! ```text
//! 2026-01-02T03:04:05.678901Z 192.0.2.1:5000 web app/app1 0.412/0.000/0.201/1.250/1.998 200 87/1311 -- 1 "GET /x HTTP/1.1" host="a.example"
//! ```
//!
//! Time of the start (UTC), client, virtual, pool/member, timers in milliseconds
//! (request/queue/connect/response/total; 0 for what was never reached), status, bytes in/out, ending, attempts, the request line, then `name="value"`
//! for whatever else is known: `reason`, `host`, `id`, `local`, `proto`, `tls`, `cipher`, `sni`, `identity`, `agent`,
//! `referer`. What there is not is `-`. Within quotes `"` and `\` have a `\` before them, and bytes that are not printable
//! ASCII are written `\xHH`: what a client sends can never begin a line.
//!
//! # The JSON form
//!
//! An object a line; timers are in microseconds; texts that there are not are left out. Bytes that are not UTF-8 are written as
//! the four characters `\xHH`.

mod form;
mod record;
mod sink;

pub use record::{By, Ending, Phase, Record};

use self::sink::{Sink, Target};
use std::cell::RefCell;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// An access log's file could not be opened.
#[derive(Debug, thiserror::Error)]
#[error("cannot open the access log {path}: {source}")]
pub struct OpenError {
    /// What was to be opened.
    pub path: String,
    /// Why it was not.
    pub source: io::Error,
}

/// An access log that is open. Several may write to one output; they share its buffer and its thread.
#[derive(Debug)]
pub struct AccessLog {
    json: bool,
    /// A record is written when 64 random bits lie below; all ones: always.
    below: u64,
    sink: Sink,
}

impl AccessLog {
    /// Opens a log as configured; `None` if it is off.
    ///
    /// # Errors
    ///
    /// If its file can neither be opened nor made.
    pub fn open(config: &model::AccessLog) -> Result<Option<Arc<Self>>, OpenError> {
        let json = match config.format {
            model::AccessFormat::Off => return Ok(None),
            model::AccessFormat::Text => false,
            model::AccessFormat::Json => true,
        };
        let target = match &config.output {
            model::AccessOutput::Stdout => Target::Stdout,
            model::AccessOutput::Stderr => Target::Stderr,
            model::AccessOutput::File(path) => Target::File(path.clone()),
        };
        let sink = Sink::open(target, config.buffer.as_usize())?;
        Ok(Some(Arc::new(AccessLog {
            json,
            below: threshold(config.sample),
            sink,
        })))
    }

    /// Whether a record is to be written, given 64 random bits; errors of Headgate's own always are.
    pub fn wants(&self, random: u64, own_error: bool) -> bool {
        own_error || self.below == u64::MAX || random < self.below
    }

    /// Writes a record. Never waits: where the buffer is full, the line is dropped and counted.
    pub fn write(&self, record: &Record<'_>) {
        thread_local! {
            static LINE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
        }
        LINE.with_borrow_mut(|line| {
            line.clear();
            if self.json {
                form::json(record, line);
            } else {
                form::text(record, line);
            }
            self.sink.append(line);
        });
    }

    /// Whether both write to the same output, and so share its counts.
    pub fn shares_output(&self, other: &Self) -> bool {
        self.sink.is_same(&other.sink)
    }

    /// Lines that were taken, over all logs with this output.
    pub fn lines(&self) -> u64 {
        self.sink.lines()
    }

    /// Lines that were dropped for want of room, over all logs with this output.
    pub fn dropped(&self) -> u64 {
        self.sink.dropped()
    }

    /// Writes that failed, over all logs with this output. They are tried again.
    pub fn failures(&self) -> u64 {
        self.sink.failures()
    }

    /// Has the file opened anew, after it was moved away; what was taken before still goes to the old one.
    pub fn reopen(&self) {
        self.sink.reopen();
    }

    /// Waits until what was taken has been written, but no longer than `limit`. Returns whether it was.
    pub fn flush(&self, limit: Duration) -> bool {
        self.sink.flush(limit)
    }
}

/// As [`AccessLog::flush`], for all logs together: what a process does before it exits.
pub fn flush_all(limit: Duration) -> bool {
    sink::flush_all(limit)
}

fn threshold(share: f64) -> u64 {
    // Saturates: a share of 1 becomes all ones.
    (share.clamp(0.0, 1.0) * 18_446_744_073_709_551_616.0) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(sample: f64) -> Arc<AccessLog> {
        let config = model::AccessLog {
            sample,
            ..model::AccessLog::default()
        };
        AccessLog::open(&config).unwrap().unwrap()
    }

    #[test]
    fn a_share_of_the_records_is_wanted_and_every_error() {
        let quarter = log(0.25);
        let wanted = (0..1000u64)
            .filter(|n| quarter.wants(n << 54, false))
            .count();
        assert!((240..=260).contains(&wanted), "{wanted}");
        assert!(quarter.wants(u64::MAX, true));
        assert!(log(1.0).wants(u64::MAX, false));
        assert!(!log(0.0).wants(0, false));
    }

    #[test]
    fn a_log_that_is_off_is_none() {
        let config = model::AccessLog {
            format: model::AccessFormat::Off,
            ..model::AccessLog::default()
        };
        assert!(AccessLog::open(&config).unwrap().is_none());
    }

    #[test]
    fn a_file_that_cannot_be_made_is_an_error_that_names_it() {
        let config = model::AccessLog {
            output: model::AccessOutput::File("/nowhere/at/all.log".into()),
            ..model::AccessLog::default()
        };
        let error = AccessLog::open(&config).unwrap_err();
        assert!(error.to_string().contains("/nowhere/at/all.log"));
    }
}
