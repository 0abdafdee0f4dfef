//! What the programs are told when they are loaded, in words of a configuration.

use std::time::Duration;

use crate::abi::{FORWARD_TRACKED, Settings, State};
use crate::clock::jiffies;

/// How long flows are kept without a packet.
pub type Timeouts = model::FastPathTimeouts;

impl Settings {
    /// Settings with `hz` jiffies a second, a hash of this seed, and the usual timeouts, that follow connections.
    pub fn new(hz: u32, seed: [u64; 2]) -> Self {
        let mut settings = Self {
            seed,
            hz,
            forward: FORWARD_TRACKED,
            ..Self::default()
        };
        settings.set_timeouts(&Timeouts::default());
        settings
    }

    /// Sets how long flows of each state are kept.
    pub fn set_timeouts(&mut self, timeouts: &Timeouts) {
        for (state, timeout) in by_state(timeouts) {
            self.timeout[state as usize] = jiffies(timeout, self.hz);
        }
        self.fragment_timeout = jiffies(timeouts.fragment, self.hz);
    }
}

fn by_state(timeouts: &Timeouts) -> [(State, Duration); 14] {
    [
        (State::Free, Duration::ZERO),
        (State::SynSent, timeouts.tcp_syn),
        (State::SynReceived, timeouts.tcp_syn),
        (State::Established, timeouts.tcp_established),
        (State::FinClient, timeouts.tcp_closing),
        (State::FinServer, timeouts.tcp_closing),
        (State::Closing, timeouts.tcp_closing),
        (State::TimeWait, timeouts.tcp_time_wait),
        (State::Reset, timeouts.tcp_reset),
        (State::Udp, timeouts.udp),
        (State::UdpStream, timeouts.udp_stream),
        (State::Icmp, timeouts.icmp),
        (State::Other, timeouts.other),
        (State::Ended, Duration::ZERO),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_has_its_timeout_and_what_is_ended_has_none() {
        let settings = Settings::new(250, [1, 2]);
        for state in State::ALL {
            let timeout = settings.timeout[*state as usize];
            let none = matches!(state, State::Free | State::Ended);
            assert_eq!(timeout == 0, none, "{}", state.name());
        }
        assert_eq!(settings.timeout[State::SynSent as usize], 30 * 250);
        assert_eq!(settings.fragment_timeout, 5 * 250);
    }
}
