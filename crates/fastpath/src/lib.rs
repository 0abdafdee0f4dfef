//! The XDP data path: programs in C under `bpf/`, and what loads, fills and reads them.

pub mod abi;
