//! Running a program on purpose: on a packet given by the caller, on frames sent as if an interface had received them,
//! and programs that user space calls like a function.

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd};

use libbpf_sys::{BPF_F_TEST_XDP_LIVE_FRAMES, bpf_prog_test_run_opts, bpf_test_run_opts, xdp_md};

use crate::sys::checked;

/// One packet to run an XDP program on.
#[derive(Debug, Clone, Copy)]
pub struct Run<'a> {
    /// The frame, from its Ethernet header on; at least 14 bytes.
    pub packet: &'a [u8],
    /// The interface it is to have come in by, in the namespace of the calling thread. Without one it is that
    /// namespace's loopback; FIB lookups of the program see the namespace of this interface.
    pub ingress: Option<u32>,
    /// How often the program runs, at least once. The packet is not reset in between.
    pub repeat: u32,
    /// Bytes by which the program may make the packet longer.
    pub room: usize,
}

impl<'a> Run<'a> {
    /// `packet` once, from loopback, with room for as much as an XDP program can put in front of it.
    pub fn new(packet: &'a [u8]) -> Self {
        Self {
            packet,
            ingress: None,
            repeat: 1,
            room: 256,
        }
    }

    /// The same, as if received on this interface.
    pub fn from_interface(self, ifindex: u32) -> Self {
        Self {
            ingress: Some(ifindex),
            ..self
        }
    }

    /// The same, `repeat` times over.
    pub fn repeat(self, repeat: u32) -> Self {
        Self { repeat, ..self }
    }
}

/// What a program did with a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// The return code of the last run: an XDP action.
    pub verdict: u32,
    /// The packet as the last run left it.
    pub packet: Vec<u8>,
    /// Nanoseconds a run, the mean over all of them as the kernel measured it.
    pub nanos: u32,
}

/// Runs an XDP program on a packet (BPF_PROG_TEST_RUN); nothing is sent.
///
/// Fails with `EINVAL` when the packet is shorter than an Ethernet header or longer than a page allows, `ENODEV` when
/// there is no such ingress interface, `ENOSPC` when the result does not fit in the room.
pub fn test_run(program: BorrowedFd<'_>, run: &Run<'_>) -> io::Result<Outcome> {
    let mut packet = vec![0u8; run.packet.len() + run.room];
    let context = context(run.packet.len(), run.ingress);
    loop {
        let mut opts = bpf_test_run_opts {
            sz: size_of::<bpf_test_run_opts>() as _,
            data_in: run.packet.as_ptr().cast(),
            data_size_in: run.packet.len() as u32,
            data_out: packet.as_mut_ptr().cast(),
            data_size_out: packet.len() as u32,
            repeat: run.repeat.max(1) as i32,
            ..Default::default()
        };
        if run.ingress.is_some() {
            opts.ctx_in = (&raw const context).cast();
            opts.ctx_size_in = size_of_val(&context) as u32;
        }
        match call(program, &mut opts) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
            Ok(()) => {
                packet.truncate(opts.data_size_out as usize);
                return Ok(Outcome {
                    verdict: opts.retval,
                    packet,
                    nanos: opts.duration,
                });
            }
        }
    }
}

/// Calls a `SEC("syscall")` program with `ctx`, which it may change, and gives its return value.
///
/// `ctx` is at most 65,535 bytes long. Such a program may sleep and is never interrupted.
pub fn syscall_run(program: BorrowedFd<'_>, ctx: &mut [u8]) -> io::Result<i32> {
    let mut opts = bpf_test_run_opts {
        sz: size_of::<bpf_test_run_opts>() as _,
        // The kernel writes the context back to where it read it from.
        ctx_in: ctx.as_mut_ptr().cast(),
        ctx_size_in: ctx.len() as u32,
        ..Default::default()
    };
    call(program, &mut opts)?;
    Ok(opts.retval as i32)
}

/// Runs an XDP program on `repeat` copies of `frame` on the calling thread, as if queue 0 of the interface had received
/// them, and lets its verdict happen: XDP_TX and XDP_REDIRECT send, XDP_PASS goes up the stack.
///
/// The kernel recycles the frames, so a program that changes one finds its own changes in a later run: it must write
/// all that matters each time. `batch` frames (at most 256) are sent together. Signals for this thread wait until the
/// call is over, so that exactly `repeat` frames are run: choose `repeat` for a fraction of a second. Should the
/// kernel stop early all the same, the error's kind is `Interrupted`.
pub fn live(
    program: BorrowedFd<'_>,
    frame: &[u8],
    ifindex: u32,
    repeat: u32,
    batch: u32,
) -> io::Result<()> {
    let context = context(frame.len(), Some(ifindex));
    let mut opts = bpf_test_run_opts {
        sz: size_of::<bpf_test_run_opts>() as _,
        data_in: frame.as_ptr().cast(),
        data_size_in: frame.len() as u32,
        ctx_in: (&raw const context).cast(),
        ctx_size_in: size_of_val(&context) as u32,
        repeat: repeat.max(1) as i32,
        flags: BPF_F_TEST_XDP_LIVE_FRAMES,
        batch_size: batch,
        ..Default::default()
    };
    let _quiet = SignalsHeld::hold()?;
    call(program, &mut opts)
}

fn context(len: usize, ingress: Option<u32>) -> xdp_md {
    xdp_md {
        data_end: len as u32,
        ingress_ifindex: ingress.unwrap_or(0),
        ..Default::default()
    }
}

fn call(program: BorrowedFd<'_>, opts: &mut bpf_test_run_opts) -> io::Result<()> {
    // SAFETY: every pointer in `opts` comes from a buffer that its maker keeps borrowed over the call, with that
    // buffer's length beside it.
    #[expect(unsafe_code, reason = "BPF_PROG_TEST_RUN")]
    checked(unsafe { bpf_prog_test_run_opts(program.as_raw_fd(), opts) }).map(|_| ())
}

/// While it lives, this thread takes no signals: a pending one would end a live run early, after an unknown number of
/// frames.
struct SignalsHeld {
    before: libc::sigset_t,
}

impl SignalsHeld {
    fn hold() -> io::Result<Self> {
        // SAFETY: signal sets are plain data; both are initialised by the calls before they are read.
        #[expect(unsafe_code, reason = "this thread's signal mask")]
        unsafe {
            let mut all = mem::zeroed();
            let mut before = mem::zeroed();
            libc::sigfillset(&mut all);
            match libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before) {
                0 => Ok(Self { before }),
                error => Err(io::Error::from_raw_os_error(error)),
            }
        }
    }
}

impl Drop for SignalsHeld {
    fn drop(&mut self) {
        // SAFETY: `before` was written by the kernel in `hold`.
        #[expect(unsafe_code, reason = "this thread's signal mask")]
        unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, &self.before, std::ptr::null_mut());
        }
    }
}
