//! Passes on where libbpf's headers are: Cargo tells it those alone that depend on libbpf-sys.

use std::env;

fn main() {
    let include = env::var("DEP_BPF_INCLUDE").unwrap_or_default();
    println!("cargo::rustc-env=LIBBPF_INCLUDE={include}");
}
