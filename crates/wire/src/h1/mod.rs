//! HTTP/1.0 and HTTP/1.1 messages (RFC 9110, RFC 9112): heads, chunked bodies, and heads written anew.
//!
//! Strict by design: whatever two parties could read differently is refused here, with a status and a reason that can
//! be counted. Connection handling, timeouts and bodies of known length are left to the caller.

mod chunked;
mod encode;
mod error;
mod fields;
mod head;
mod meaning;
mod name;
mod parse;
pub(crate) mod scan;

pub use chunked::{Advance, ChunkError, ChunkLimits, ChunkedDecoder, Piece};
pub use encode::{
    finish, push_field, status_reason, write_request, write_response, write_status_line,
};
pub use error::HeadError;
pub use fields::{get, known, named};
pub use head::{
    Field, Framing, HeadLimits, Method, Progress, RequestHead, ResponseHead, Span, TargetForm,
    Version,
};
pub use name::Known;
