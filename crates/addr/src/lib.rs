//! Addresses as policy sees them: prefixes, sets of prefixes that answer "is this address in it?", and the
//! plain-text feeds such sets come from. Where the text is read from is the caller's business.
#![forbid(unsafe_code)]

mod feed;
mod prefix;
mod set;

pub use feed::{FeedError, parse_feed};
pub use prefix::{Prefix, PrefixError};
pub use set::PrefixSet;
