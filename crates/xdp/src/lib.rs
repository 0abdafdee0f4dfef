//! Loading, attaching, pinning and testing eBPF programs, and network namespaces to test them in.
