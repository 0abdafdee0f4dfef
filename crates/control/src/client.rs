//! The other side of the API: asks a running process through its Unix socket. One request a connection, blocking.

use crate::view::Problem;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

/// How long an answer may take to begin, and to go on.
const LIMIT: Duration = Duration::from_secs(60);

/// The largest answer, in bytes.
const MOST: u64 = 256 * 1024 * 1024;

/// Asks the process behind a Unix socket.
#[derive(Clone, Debug)]
pub struct Client {
    socket: PathBuf,
}

/// Why there is no answer, or not the one that was hoped for.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody is there.
    #[error(
        "no running Headgate at {socket}: {source}; give its admin socket by --socket, HEADGATE_SOCKET or -c FILE"
    )]
    Unreachable {
        /// Where.
        socket: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The connection broke.
    #[error("the connection to Headgate broke: {0}")]
    Broken(#[from] io::Error),
    /// What came is no answer of Headgate's.
    #[error("what answers at {socket} is no Headgate, or one of another version")]
    Strange {
        /// Where.
        socket: PathBuf,
    },
    /// It was not done.
    #[error("{}\n{}", .0.detail, .0.help)]
    Refused(Problem),
}

impl Client {
    /// For the process whose Unix socket is there.
    pub fn new(socket: impl Into<PathBuf>) -> Self {
        Client {
            socket: socket.into(),
        }
    }

    /// Asks for something.
    ///
    /// # Errors
    ///
    /// [`ClientError`].
    pub fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        self.send("GET", path, None::<&()>)
    }

    /// Has something done.
    ///
    /// # Errors
    ///
    /// [`ClientError`].
    pub fn send<T: DeserializeOwned>(
        &self,
        method: &str,
        path: &str,
        body: Option<&impl Serialize>,
    ) -> Result<T, ClientError> {
        let strange = || ClientError::Strange {
            socket: self.socket.clone(),
        };
        let body = match body {
            Some(body) => serde_json::to_vec(body).map_err(io::Error::from)?,
            None => Vec::new(),
        };
        let mut stream =
            UnixStream::connect(&self.socket).map_err(|source| ClientError::Unreachable {
                socket: self.socket.clone(),
                source,
            })?;
        stream.set_read_timeout(Some(LIMIT))?;
        stream.set_write_timeout(Some(LIMIT))?;
        // In HTTP/1.0 an answer ends with its connection, and is never chunked.
        let head = format!(
            "{method} {path} HTTP/1.0\r\nHost: headgate\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes())?;
        stream.write_all(&body)?;
        let mut answer = Vec::new();
        stream.take(MOST).read_to_end(&mut answer)?;
        let (status, body) = parse(&answer).ok_or_else(strange)?;
        match status {
            200..300 => serde_json::from_slice(body).map_err(|_| strange()),
            _ => {
                let problem = serde_json::from_slice(body).map_err(|_| strange())?;
                Err(ClientError::Refused(problem))
            }
        }
    }
}

/// A name as one part of a path (RFC 3986, 2.1).
pub fn segment(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for byte in name.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                out.push(char::from(byte));
            }
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

/// Status and body of an answer.
fn parse(answer: &[u8]) -> Option<(u16, &[u8])> {
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n")?;
    let status = answer.strip_prefix(b"HTTP/1.")?.get(2..5)?;
    let status = std::str::from_utf8(status).ok()?.parse().ok()?;
    Some((status, &answer[end + 4..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_its_status_and_what_follows_the_empty_line() {
        let answer = b"HTTP/1.0 200 OK\r\nA: b\r\n\r\n{\"x\":\"\r\n\r\n\"}";
        assert_eq!(parse(answer), Some((200, &b"{\"x\":\"\r\n\r\n\"}"[..])));
        assert_eq!(parse(b"HTTP/1.1 500"), None);
        assert_eq!(parse(b"SSH-2.0-x\r\n\r\n"), None);
    }

    #[test]
    fn names_stay_one_part_of_a_path() {
        assert_eq!(
            segment("[2001:db8::1]:80/a b"),
            "%5B2001%3Adb8%3A%3A1%5D%3A80%2Fa%20b"
        );
    }

    #[test]
    fn nobody_there_is_told_with_the_ways_to_say_where() {
        let error = Client::new("/nowhere/admin.sock")
            .get::<()>("/v1/status")
            .unwrap_err();
        assert!(error.to_string().contains("HEADGATE_SOCKET"), "{error}");
    }
}
