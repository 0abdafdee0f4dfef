//! F5's commands: HTTP, TCP, balancing, tables, cryptography and the rest of the world of a rule.

mod date;
mod http;
mod ip;
mod log;
pub mod missing;
mod payload;
mod ssl;
mod stream;
mod strings;
mod tcp;
mod udp;
mod uri;
mod x509;
mod x509_text;

mod aes;
mod class;
mod crypto;
mod geo;
#[cfg(test)]
mod hostile;
mod hsl;
mod lb;
mod misc;
pub mod persist;
mod policy;
mod pool;
mod resolv;
mod sideband;
mod table;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod whole_rules;

use crate::command::Command;

pub(crate) use missing::missing;

/// The tables of all of them.
pub(crate) const TABLES: &[&[Command]] = &[
    http::answer::COMMANDS,
    http::body::COMMANDS,
    http::cookie::COMMANDS,
    http::header::COMMANDS,
    http::line::COMMANDS,
    ip::COMMANDS,
    log::COMMANDS,
    ssl::COMMANDS,
    stream::COMMANDS,
    strings::COMMANDS,
    tcp::COMMANDS,
    udp::COMMANDS,
    uri::COMMANDS,
    x509::COMMANDS,
    aes::COMMANDS,
    class::COMMANDS,
    crypto::COMMANDS,
    geo::COMMANDS,
    hsl::COMMANDS,
    misc::COMMANDS,
    resolv::COMMANDS,
    sideband::COMMANDS,
    lb::COMMANDS,
    persist::COMMANDS,
    policy::COMMANDS,
    pool::COMMANDS,
    table::COMMANDS,
];
