//! What is measured: the kinds of traffic, who takes part in each, and how much better Headgate means to be.

use crate::peer::Peer;
use serde::Serialize;

/// One kind of traffic.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    pub(crate) way: Way,
    /// Bytes of the body.
    pub(crate) size: u64,
    pub(crate) connections: usize,
    pub(crate) mode: Mode,
    pub(crate) workers: usize,
    /// Times the best peer's requests per CPU-second; nothing where it is only watched.
    pub(crate) target: Option<f64>,
}

/// Which of a peer's listeners is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) enum Way {
    Http,
    /// HTTP as the peer is best set for large bodies.
    HttpLarge,
    P256,
    Rsa,
    Reencrypt,
    Tcp,
}

/// What a connection is for; the load's modes by the same names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) enum Mode {
    KeepAlive,
    Close,
    Handshake,
}

impl Scenario {
    /// All of them, those with the same number of workers together.
    pub(crate) fn all() -> Vec<Self> {
        use Mode::{Close, Handshake};
        use Way::{Http, HttpLarge, P256, Reencrypt, Rsa, Tcp};
        const K: u64 = 1024;
        vec![
            Self::get("keepalive-1k", "1 KB, 64 connections", Http, K, Some(1.3)),
            Self::get(
                "keepalive-10k",
                "10 KB, 64 connections",
                Http,
                10 * K,
                Some(1.3),
            ),
            Self::get(
                "keepalive-64k",
                "64 KB, 64 connections",
                HttpLarge,
                64 * K,
                Some(1.5),
            ),
            Self::get(
                "keepalive-512k",
                "512 KB, 64 connections",
                HttpLarge,
                512 * K,
                Some(1.4),
            ),
            Self::get(
                "keepalive-10m",
                "10 MB, 64 connections",
                HttpLarge,
                10 * K * K,
                None,
            ),
            Self {
                connections: 512,
                ..Self::get(
                    "keepalive-1k-512",
                    "1 KB, 512 connections",
                    Http,
                    K,
                    Some(1.8),
                )
            },
            Self {
                connections: 512,
                ..Self::get(
                    "keepalive-10k-512",
                    "10 KB, 512 connections",
                    Http,
                    10 * K,
                    Some(1.8),
                )
            },
            Self {
                mode: Close,
                ..Self::get("close-1k", "1 KB, a connection each", Http, K, Some(1.4))
            },
            Self {
                mode: Handshake,
                ..Self::get(
                    "handshake-p256",
                    "TLS 1.3 handshakes, P-256",
                    P256,
                    0,
                    Some(1.5),
                )
            },
            Self {
                mode: Handshake,
                ..Self::get(
                    "handshake-rsa",
                    "TLS 1.3 handshakes, RSA-2048",
                    Rsa,
                    0,
                    Some(1.2),
                )
            },
            Self::get("tls-10k", "TLS, 10 KB", P256, 10 * K, Some(1.3)),
            Self::get("tls-512k", "TLS, 512 KB", P256, 512 * K, Some(1.3)),
            Self::get(
                "reencrypt-10k",
                "TLS on both sides, 10 KB",
                Reencrypt,
                10 * K,
                Some(1.3),
            ),
            Self {
                mode: Close,
                ..Self::get(
                    "tcp-512k",
                    "TCP, 512 KB, a connection each",
                    Tcp,
                    512 * K,
                    None,
                )
            },
            Self {
                workers: 2,
                ..Self::get(
                    "two-workers-1k",
                    "1 KB, 64 connections, 2 workers",
                    Http,
                    K,
                    None,
                )
            },
            Self {
                workers: 2,
                mode: Close,
                ..Self::get(
                    "two-workers-close",
                    "1 KB, a connection each, 2 workers",
                    Http,
                    K,
                    None,
                )
            },
        ]
    }

    fn get(
        name: &'static str,
        title: &'static str,
        way: Way,
        size: u64,
        target: Option<f64>,
    ) -> Self {
        Self {
            name,
            title,
            way,
            size,
            connections: 64,
            mode: Mode::KeepAlive,
            workers: 1,
            target,
        }
    }

    /// Whether a peer takes part: it must know the way.
    pub(crate) fn is_for(&self, peer: Peer) -> bool {
        let plain = matches!(self.way, Way::Http | Way::HttpLarge);
        match peer {
            Peer::Relay => plain && self.mode == Mode::KeepAlive && self.workers == 1,
            Peer::Pingora => plain,
            _ => true,
        }
    }

    /// Whether the target is set against this peer: beyond plain HTTP it is against HAProxy and nginx, others are only watched.
    pub(crate) fn is_against(&self, peer: Peer) -> bool {
        match self.way {
            Way::Http | Way::HttpLarge => peer.is_rival(),
            _ => matches!(peer, Peer::Haproxy | Peer::Nginx),
        }
    }

    /// How much longer than others it runs: large bodies are few in a second, and only whole ones count.
    pub(crate) fn patience(&self) -> f64 {
        if self.size > 1 << 20 { 2.0 } else { 1.0 }
    }

    /// Where a peer is asked, and for what.
    pub(crate) fn url(&self, peer: Peer) -> String {
        let offset = match self.way {
            Way::Http => 0,
            Way::HttpLarge if peer == Peer::Relay => 0,
            Way::HttpLarge => 1,
            Way::P256 => 2,
            Way::Rsa => 3,
            Way::Reencrypt => 4,
            Way::Tcp => 5,
        };
        let scheme = match self.way {
            Way::Http | Way::HttpLarge | Way::Tcp => "http",
            Way::P256 | Way::Rsa | Way::Reencrypt => "https",
        };
        format!(
            "{scheme}://127.0.0.1:{}/bytes/{}",
            peer.port() + offset,
            self.size
        )
    }
}

impl Mode {
    /// The load's name for it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::KeepAlive => "keep-alive",
            Self::Close => "close",
            Self::Handshake => "handshake",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn names_are_unique_and_workers_are_grouped() {
        let all = Scenario::all();
        let names: HashSet<_> = all.iter().map(|scenario| scenario.name).collect();
        assert_eq!(names.len(), all.len());
        assert!(all.is_sorted_by_key(|scenario| scenario.workers));
    }
}
