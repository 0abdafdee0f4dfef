//! One client's connection: requests are read, understood and answered, one after the other.

use super::super::sys::Event;
use super::answer::{Answer, Answers, Prepared, Wanted};
use super::request::{Body, Head};
use super::transport::Transport;
use rustls::ServerConfig;
use socket2::Socket;
use std::io;
use std::sync::Arc;

/// A connection and where it stands.
pub(super) struct Connection {
    transport: Transport,
    /// Received, not yet understood.
    pending: Vec<u8>,
    /// A request whose body is still coming.
    incoming: Option<Incoming>,
    /// An answer that is still leaving.
    outgoing: Option<Outgoing>,
}

struct Incoming {
    wanted: Wanted,
    body: Body,
    content: Vec<u8>,
    head_only: bool,
    close: bool,
}

struct Outgoing {
    answer: Arc<Answer>,
    at: u64,
    end: u64,
    close: bool,
}

/// Whether a connection goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    Open,
    Done,
}

/// A head longer than this is refused, in bytes.
const LONGEST_HEAD: usize = 256 * 1024;
/// An echoed body longer than this is refused, in bytes.
const LONGEST_ECHO: usize = 64 << 20;

impl Progress {
    pub(super) fn is_done(self) -> bool {
        self == Self::Done
    }
}

impl Connection {
    pub(super) fn new(socket: Socket, tls: Option<&Arc<ServerConfig>>) -> Option<Self> {
        Some(Self {
            transport: Transport::new(socket, tls)?,
            pending: Vec::new(),
            incoming: None,
            outgoing: None,
        })
    }

    /// Do what can be done now.
    pub(super) fn ready(
        &mut self,
        event: Event,
        answers: &mut Answers,
        scratch: &mut [u8],
    ) -> Progress {
        let may_read = event.readable || self.outgoing.is_some();
        match self.go_on(may_read, event.ended, answers, scratch) {
            Ok(progress) => progress,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Progress::Open,
            Err(_) => Progress::Done,
        }
    }

    fn go_on(
        &mut self,
        may_read: bool,
        ended: bool,
        answers: &mut Answers,
        scratch: &mut [u8],
    ) -> io::Result<Progress> {
        let mut may_read = may_read;
        loop {
            if let Some(outgoing) = &mut self.outgoing {
                while outgoing.at < outgoing.end {
                    let sent = self.transport.send(
                        &outgoing.answer,
                        outgoing.at,
                        outgoing.end,
                        scratch,
                    )?;
                    outgoing.at += sent;
                }
                self.transport.flush()?;
                if outgoing.close {
                    return Ok(Progress::Done);
                }
                self.outgoing = None;
            }
            if !self.pending.is_empty() {
                let pending = std::mem::take(&mut self.pending);
                let taken = self.understand(&pending, answers)?;
                self.pending = pending;
                self.pending.drain(..taken);
                if self.outgoing.is_some() {
                    continue;
                }
            }
            if !may_read {
                return Ok(Progress::Open);
            }
            let n = self.transport.receive(scratch, &mut self.pending)?;
            if n == 0 {
                return Ok(Progress::Done);
            }
            // A short read has emptied the socket; only an end can still be behind it.
            may_read = n == scratch.len() || ended;
            if self.transport.is_tls() {
                continue;
            }
            if self.pending.is_empty() {
                let taken = self.understand(&scratch[..n], answers)?;
                self.pending.extend_from_slice(&scratch[taken..n]);
            } else {
                self.pending.extend_from_slice(&scratch[..n]);
            }
        }
    }

    /// Take a request off the beginning of `data`, or what of one is there; says how much was taken.
    fn understand(&mut self, data: &[u8], answers: &mut Answers) -> io::Result<usize> {
        let mut taken = 0;
        let rest = &data[taken..];
        let incoming = match &mut self.incoming {
            Some(incoming) => incoming,
            None => {
                let head = match Head::parse(rest) {
                    Ok(Some(head)) => head,
                    Ok(None) if rest.len() <= LONGEST_HEAD => return Ok(taken),
                    _ => return self.refuse(data.len(), answers),
                };
                taken += head.length;
                let wanted = Wanted::of(&rest[head.target.clone()]);
                if let (Wanted::Known(prepared), true) = (wanted, head.body.is_done()) {
                    let answer = answers.find(prepared, head.close)?;
                    self.answer(answer, head.head_only, head.close);
                    return Ok(taken);
                }
                if head.expects {
                    self.outgoing = Some(Outgoing::go_on());
                }
                let content = match wanted {
                    Wanted::Request => rest[..head.length].to_vec(),
                    Wanted::Cookie => rest[head.target.clone()].to_vec(),
                    _ => Vec::new(),
                };
                self.incoming.insert(Incoming {
                    wanted,
                    body: head.body,
                    content,
                    head_only: head.head_only,
                    close: head.close,
                })
            }
        };
        let content = incoming
            .wanted
            .keeps_body()
            .then_some(&mut incoming.content);
        let Ok(n) = incoming.body.take(&data[taken..], content) else {
            return self.refuse(data.len(), answers);
        };
        taken += n;
        if incoming.content.len() > LONGEST_ECHO {
            return self.refuse(data.len(), answers);
        }
        if !incoming.body.is_done() {
            return Ok(taken);
        }
        let Some(done) = self.incoming.take() else {
            return Ok(taken);
        };
        let answer = match done.wanted {
            Wanted::Known(prepared) => answers.find(prepared, done.close)?,
            Wanted::Cookie => Arc::new(answers.cookie(&done.content, done.close)),
            Wanted::Echo | Wanted::Request => Arc::new(answers.of(&done.content, done.close)),
        };
        self.answer(answer, done.head_only, done.close);
        Ok(taken)
    }

    fn answer(&mut self, answer: Arc<Answer>, head_only: bool, close: bool) {
        let end = if head_only {
            answer.head
        } else {
            answer.length
        };
        self.outgoing = Some(Outgoing {
            answer,
            at: 0,
            end,
            close,
        });
    }

    /// Answer 400 and close; nothing that follows can be trusted.
    fn refuse(&mut self, length: usize, answers: &mut Answers) -> io::Result<usize> {
        let answer = answers.find(Prepared::status(400), true)?;
        self.incoming = None;
        self.answer(answer, false, true);
        Ok(length)
    }
}

impl Outgoing {
    /// The interim answer to a client that waits before it sends its body.
    fn go_on() -> Self {
        let answer = Answer::interim(b"HTTP/1.1 100 Continue\r\n\r\n");
        Self {
            at: 0,
            end: answer.length,
            answer: Arc::new(answer),
            close: false,
        }
    }
}
