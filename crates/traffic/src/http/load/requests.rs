//! What is asked, one request after the other: always the same, or the lines of a file in turn.

use super::super::Error;
use super::super::target::Target;
use super::{Args, Mode};
use std::fs;

/// Requests as they go over the wire, behind one another.
#[derive(Debug, Default)]
pub(super) struct Requests {
    bytes: Vec<u8>,
    /// Where each ends.
    ends: Vec<usize>,
    next: usize,
}

impl Requests {
    /// The requests of `args.from`, or else the one for the target.
    pub(super) fn new(args: &Args, target: &Target) -> Result<Self, Error> {
        let mut requests = Self::default();
        let mut add = |path: &str, cookie: &str| requests.add(args, target, path, cookie);
        match &args.from {
            None => add(&target.path, ""),
            Some(file) => {
                let bad = |why: String| Error::List {
                    path: file.clone(),
                    why,
                };
                let text = fs::read_to_string(file).map_err(|error| bad(error.to_string()))?;
                for line in text.lines().filter(|line| !line.is_empty()) {
                    let (path, cookie) = line.split_once(' ').unwrap_or((line, ""));
                    if !path.starts_with('/') {
                        return Err(bad(format!("no path begins this line: {line:?}")));
                    }
                    add(path, cookie);
                }
            }
        }
        if let (Some(path), true) = (&args.from, requests.ends.is_empty()) {
            let (path, why) = (path.clone(), "it is empty".to_owned());
            return Err(Error::List { path, why });
        }
        Ok(requests)
    }

    /// The number of the request whose turn it is.
    pub(super) fn turn(&mut self) -> usize {
        let turn = self.next;
        self.next = if turn + 1 < self.ends.len() {
            turn + 1
        } else {
            0
        };
        turn
    }

    /// The request of this number.
    pub(super) fn get(&self, number: usize) -> &[u8] {
        let start = number.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start..self.ends[number]]
    }

    fn add(&mut self, args: &Args, target: &Target, path: &str, cookie: &str) {
        let host = args.host.as_deref().unwrap_or(&target.authority);
        let mut request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n");
        if !cookie.is_empty() {
            request.push_str(&format!("Cookie: {cookie}\r\n"));
        }
        if args.mode == Mode::Close {
            request.push_str("Connection: close\r\n");
        }
        request.push_str("\r\n");
        self.bytes.extend_from_slice(request.as_bytes());
        self.ends.push(self.bytes.len());
    }
}
