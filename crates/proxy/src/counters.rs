//! What traffic is counted by: each worker adds to cells of its own, whoever reads adds them up.

use crossbeam_utils::CachePadded;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

/// Cells kept apart. Workers beyond this many share, which costs time and never a count.
const STRIPES: usize = 16;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// One worker's share of a virtual's counters.
        #[derive(Default)]
        pub(crate) struct Cells {
            $(pub(crate) $name: AtomicU64,)*
        }

        /// A virtual's counters, added up.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Totals {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Totals {
            /// Every counter by its name.
            pub fn named(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name),)*].into_iter()
            }

            fn add(&mut self, cells: &Cells) {
                $(self.$name += cells.$name.load(Relaxed);)*
            }
        }
    };
}

counters! {
    /// Connections accepted.
    connections,
    /// Connections turned away: denied addresses, limits.
    connections_refused,
    /// TLS handshakes done.
    tls_handshakes,
    /// TLS handshakes that resumed a session.
    tls_resumed,
    /// TLS handshakes that failed.
    tls_failed,
    /// Requests whose head was read.
    requests,
    /// Responses with a status from 100 to 199.
    responses_1xx,
    /// Responses with a status from 200 to 299.
    responses_2xx,
    /// Responses with a status from 300 to 399.
    responses_3xx,
    /// Responses with a status from 400 to 499.
    responses_4xx,
    /// Responses with a status from 500 to 599.
    responses_5xx,
    /// Answers that Headgate gave itself: refusals, redirects, fixed responses.
    own_responses,
    /// Requests sent again to a member.
    retries,
    /// Requests that waited for a member with room.
    queued,
    /// Connections that were upgraded.
    upgrades,
    /// Exchanges cut short by the client.
    aborted_by_client,
    /// Exchanges cut short by a member.
    aborted_by_member,
    /// Bytes from clients, TLS and PROXY headers not counted.
    bytes_in,
    /// Bytes to clients, TLS not counted.
    bytes_out,
    /// Connections opened to members.
    upstream_connects,
    /// Requests sent over a connection that was kept.
    upstream_reuses,
}

/// A virtual's counters.
#[derive(Default)]
pub struct VirtualCounters {
    cells: [CachePadded<Cells>; STRIPES],
    refusals: Mutex<BTreeMap<&'static str, u64>>,
}

impl VirtualCounters {
    /// The cells that worker number `worker` adds to.
    pub(crate) fn of(&self, worker: usize) -> &Cells {
        &self.cells[worker % STRIPES]
    }

    /// Counts something that was refused, by its reason.
    pub(crate) fn refuse(&self, reason: &'static str) {
        let mut refusals = self.refusals.lock().unwrap_or_else(PoisonError::into_inner);
        *refusals.entry(reason).or_default() += 1;
    }

    /// All workers' cells added up.
    pub fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        for cells in &self.cells {
            totals.add(cells);
        }
        totals
    }

    /// Refusals by reason: malformed requests, limits, failed handshakes.
    pub fn refusals(&self) -> BTreeMap<&'static str, u64> {
        self.refusals
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

/// Adds to one of a worker's own cells.
pub(crate) fn add(cell: &AtomicU64, n: u64) {
    cell.fetch_add(n, Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_are_the_sum_over_workers() {
        let counters = VirtualCounters::default();
        for worker in 0..40 {
            add(&counters.of(worker).requests, 2);
        }
        counters.refuse("bare-lf");
        counters.refuse("bare-lf");
        assert_eq!(counters.totals().requests, 80);
        assert_eq!(counters.refusals()["bare-lf"], 2);
    }
}
