//! End-to-end tests: the program as its users meet it, over real sockets.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod admin;
mod balance;
mod bodies;
mod exhaustion;
mod failures;
mod fastpath_balance;
mod fastpath_bgp;
mod fastpath_life;
mod fastpath_nat;
mod framing;
mod headers;
mod http;
mod leaks;
mod lifecycle;
mod limits;
mod operations;
mod programs;
mod rules_among;
mod rules_changes;
mod rules_hmac;
mod rules_http;
mod rules_reach;
mod support;
mod tcp;
mod tls;
mod tour;
