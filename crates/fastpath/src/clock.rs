//! The kernel's jiffies, by which the programs measure time: what they are now, and how many there are in a second.

use std::io;
use std::thread;
use std::time::Duration;

use xdp::libbpf_rs::Object;
use xdp::map::{Pod, bytes_of_mut};
use xdp::object::{self, LoadError};
use xdp::run;

/// The kernel's clock in jiffies.
#[derive(Debug)]
pub struct Clock {
    object: Object,
    hz: u32,
}

impl Clock {
    /// Measures how long a jiffy is, which takes some 50 ms. Needs CAP_BPF.
    pub fn start() -> Result<Self, ClockError> {
        let mut clock = Self::with_hz(0)?;
        let before = clock.moment()?;
        thread::sleep(MEASURED);
        let after = clock.moment()?;
        clock.hz = usual(after.jiffies - before.jiffies, after.nanos - before.nanos);
        Ok(clock)
    }

    /// Where it is known how many jiffies a second has.
    pub fn with_hz(hz: u32) -> Result<Self, ClockError> {
        let object = object::load("clock", OBJECT, |_| Ok(()))?;
        Ok(Self { object, hz })
    }

    /// Jiffies a second.
    pub fn hz(&self) -> u32 {
        self.hz
    }

    /// Now, as records hold it: differences must be taken modulo 2³².
    pub fn now(&self) -> io::Result<u32> {
        Ok(self.moment()?.jiffies as u32)
    }

    /// A duration in jiffies, at least one unless it is zero, and no more than can be compared.
    pub fn jiffies(&self, duration: Duration) -> u32 {
        jiffies(duration, self.hz)
    }

    /// A span of jiffies as a duration.
    pub fn duration(&self, jiffies: u32) -> Duration {
        Duration::from_secs_f64(f64::from(jiffies) / f64::from(self.hz.max(1)))
    }

    fn moment(&self) -> io::Result<Moment> {
        let program = object::program(&self.object, "headgate_clock")?;
        let mut moment = Moment::default();
        run::syscall_run(program, bytes_of_mut(&mut moment))?;
        Ok(moment)
    }
}

/// A duration in jiffies of which there are `hz` in a second.
pub fn jiffies(duration: Duration, hz: u32) -> u32 {
    let exact = duration.as_nanos() * u128::from(hz) / 1_000_000_000;
    let some = u128::from(!duration.is_zero());
    u32::try_from(exact.max(some)).map_or(LONGEST, |jiffies| jiffies.min(LONGEST))
}

/// The programs compare times as signed differences.
const LONGEST: u32 = i32::MAX as u32;

/// For how long jiffies are counted to find how many there are in a second.
const MEASURED: Duration = Duration::from_millis(50);

/// What kernels are built with.
const USUAL: [u32; 4] = [100, 250, 300, 1000];

const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/clock.bpf.o"));

#[derive(Clone, Copy, Default)]
#[repr(C)]
struct Moment {
    jiffies: u64,
    nanos: u64,
}

// SAFETY: two numbers of eight bytes.
#[expect(unsafe_code, reason = "plain data")]
unsafe impl Pod for Moment {}

/// Which of the usual numbers of jiffies a second `jiffies` in `nanos` are: one jiffy may be missing or too many.
fn usual(jiffies: u64, nanos: u64) -> u32 {
    let measured = jiffies as f64 * 1e9 / nanos.max(1) as f64;
    let distance = |hz: &u32| (measured.ln() - f64::from(*hz).ln()).abs();
    USUAL
        .into_iter()
        .min_by(|a, b| distance(a).total_cmp(&distance(b)))
        .unwrap_or(250)
}

/// Why the kernel's jiffies cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ClockError {
    /// The program that reads them was not loaded.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// It was not run.
    #[error("cannot read the kernel's jiffies: {0}")]
    Read(#[from] io::Error),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tick_more_or_less_does_not_change_what_is_found() {
        for hz in USUAL {
            let exact = u64::from(hz) / 20;
            for jiffies in [exact, exact + 1] {
                assert_eq!(usual(jiffies, 50_000_000), hz, "{jiffies} in 50 ms");
            }
        }
    }

    #[test]
    fn durations_are_at_least_a_jiffy_and_can_be_compared() {
        assert_eq!(jiffies(Duration::from_secs(30), 250), 7500);
        assert_eq!(jiffies(Duration::from_micros(1), 250), 1);
        assert_eq!(jiffies(Duration::ZERO, 250), 0);
        assert_eq!(
            jiffies(Duration::from_secs(u64::MAX), 1000),
            i32::MAX as u32
        );
    }
}
