//! What travels on the wire, as bytes in and values out: HTTP/1 heads and bodies, the PROXY protocol, a TLS ClientHello.
//!
//! Nothing here opens a socket, reads a clock or keeps a thread. Buffers belong to the caller; what is parsed is
//! described by offsets into them. Policy (what to answer, whom to trust) is left to the callers.
#![forbid(unsafe_code)]

pub mod client_hello;
pub mod h1;
pub mod proxy_protocol;
pub mod uri;
