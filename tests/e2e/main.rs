//! End-to-end tests: the program as its users meet it, over real sockets.

#![allow(clippy::unwrap_used, reason = "a test may panic")]
