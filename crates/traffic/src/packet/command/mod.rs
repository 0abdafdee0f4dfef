//! The commands `headgate gen packets`, `tcp`, `search` and `receive`: what can be said to them, what they do with it, and
//! their reports.

mod frames;
mod numbers;
mod packets;
mod progress;
mod receive;
mod search;
mod tcp;

pub use packets::{Direction, PacketsArgs, PacketsReport, packets};
pub use receive::{ReceiveArgs, ReceiveReport, receive};
pub use search::{SearchArgs, SearchReport, search};
pub use tcp::{TcpArgs, TcpReport, tcp};
