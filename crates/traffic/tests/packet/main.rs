//! The packet generator in network namespaces, with the kernel as the judge of what it sends.

mod acted;
mod commands;
mod streams;
mod world;
