//! Sending by a packet socket: for frames that are longer than a live frame can be, and for interfaces whose drivers do
//! not take live frames. The frames are the same, made here instead of in the kernel.

use super::error::PacketError;
use super::generator::Steps;
use super::place::{Place, monotonic};
use super::sender::{Sent, What};
use super::sizes::{SHORTEST, Sizes};
use super::stream::Part;
use socket2::{Domain, SockAddr, Socket, Type};
use std::io;
use std::os::fd::AsRawFd;
use std::thread;
use std::time::Duration;

/// Frames a step at most, between which a wish to stop is seen.
const STEP: u64 = 256;

/// How late a sender that keeps a rate may be and still catch up: nanoseconds.
const MISSED: u64 = 100_000_000;

/// How long it sleeps at least when nothing is due: nanoseconds.
const NAP: u64 = 100_000;

/// One thread's sender, as [`super::Sender`] is.
pub struct SocketSender {
    interface: String,
    socket: Socket,
    what: What,
    // Of a stream's frames.
    sizes: Sizes,
    part: Part,
    sent: Sent,
    limit: u64,
    interval: Option<f64>,
    next: f64,
}

impl SocketSender {
    /// Gets ready to send part `part` of something out of an interface of this thread's namespace.
    pub fn new(place: &Place, what: &What, part: Part) -> Result<Self, PacketError> {
        let failed = |source| PacketError::Send {
            interface: place.interface().to_owned(),
            source,
        };
        let sizes = match what {
            What::Stream(stream) => {
                // Says now what would be wrong with each.
                stream.frame(part, 0)?;
                stream.true_sizes()
            }
            What::Capture(_) => Sizes::fixed(SHORTEST),
        };
        // Protocol 0: it receives nothing.
        let socket = Socket::new(Domain::PACKET, Type::RAW, None).map_err(failed)?;
        socket.bind(&address(place.ifindex()?)).map_err(failed)?;
        bypass_queues(&socket).map_err(failed)?;
        Ok(Self {
            interface: place.interface().to_owned(),
            socket,
            what: what.clone(),
            sizes,
            part,
            sent: Sent::default(),
            limit: u64::MAX,
            interval: None,
            next: 0.0,
        })
    }

    fn frame(&self, number: u64) -> Result<Vec<u8>, PacketError> {
        match &self.what {
            What::Stream(stream) => {
                let time = if stream.stamped { monotonic() } else { 0 };
                Ok(stream.frame_at(self.part, number, time, &self.sizes)?)
            }
            What::Capture(capture) => {
                let frames = capture.frames();
                Ok(frames[(number % frames.len() as u64) as usize].clone())
            }
        }
    }

    /// How many frames are due, having waited for one.
    fn due(&mut self) -> u64 {
        let Some(interval) = self.interval else {
            return STEP;
        };
        let now = monotonic() as f64;
        if now < self.next {
            let ahead = (self.next - now) as u64;
            thread::sleep(Duration::from_nanos(ahead.clamp(NAP, 20 * NAP)));
            return 0;
        }
        self.next = self.next.max(now - MISSED as f64);
        (((now - self.next) / interval) as u64 + 1).min(STEP)
    }
}

impl Steps for SocketSender {
    fn step(&mut self, left: u64) -> Result<(), PacketError> {
        let due = self.due().min(left).min(self.limit - self.sent.frames);
        for _ in 0..due {
            let frame = self.frame(self.sent.frames)?;
            match self.socket.send(&frame) {
                Ok(_) => {}
                // The other end has no room.
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => self.sent.refused += 1,
                Err(source) => {
                    return Err(PacketError::Send {
                        interface: self.interface.clone(),
                        source,
                    });
                }
            }
            self.sent.frames += 1;
            self.sent.bytes += frame.len() as u64;
            self.next += self.interval.unwrap_or_default();
        }
        Ok(())
    }

    fn limit(&mut self, limit: u64) {
        self.limit = limit;
    }

    fn pace(&mut self, rate: Option<f64>) {
        self.interval = rate.filter(|rate| *rate > 0.0).map(|rate| 1e9 / rate);
        self.next = monotonic() as f64;
    }

    fn sent(&self) -> Sent {
        self.sent
    }
}

/// The address of an interface for a packet socket.
fn address(ifindex: u32) -> SockAddr {
    // SAFETY: the storage is large enough for every address and zeroed, which is a valid one; the length is that of what
    // was written.
    #[expect(unsafe_code, reason = "socket2 has no packet addresses")]
    let ((), address) = unsafe {
        SockAddr::try_init(|storage, length| {
            let to = storage.cast::<libc::sockaddr_ll>();
            (*to).sll_family = libc::AF_PACKET as u16;
            (*to).sll_ifindex = ifindex as i32;
            *length = size_of::<libc::sockaddr_ll>() as u32;
            Ok(())
        })
        .expect("nothing in it fails")
    };
    address
}

/// Has frames go to the driver directly.
fn bypass_queues(socket: &Socket) -> io::Result<()> {
    let on: libc::c_int = 1;
    // SAFETY: the option's value is an int that outlives the call.
    #[expect(unsafe_code, reason = "socket2 has no such option")]
    let set = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_QDISC_BYPASS,
            (&raw const on).cast(),
            size_of_val(&on) as u32,
        )
    };
    if set < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
