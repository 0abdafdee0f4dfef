//! Compiles eBPF programs in C at build time, for the build scripts of the crates that embed them.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The compiler, unless the environment variable `CLANG` names another.
const CLANG: &str = "clang-19";

/// Where libbpf's headers are.
const LIBBPF_INCLUDE: &str = env!("LIBBPF_INCLUDE");

/// Where Debian keeps the headers of its architecture, which clang does not look for when it compiles for BPF.
const SYSTEM_INCLUDES: [&str; 2] = [
    "/usr/include/x86_64-linux-gnu",
    "/usr/include/aarch64-linux-gnu",
];

/// Compiles `bpf/NAME.bpf.c` of the crate that is being built to `OUT_DIR/NAME.bpf.o`, and has Cargo do so again whenever
/// anything in `bpf/` changes.
///
/// # Panics
///
/// Ends the build with what the compiler said.
pub fn compile(name: &str) {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("Cargo sets it"));
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("Cargo sets it"));
    let folder = root.join("bpf");
    let source = folder.join(format!("{name}.bpf.c"));
    let object = out.join(format!("{name}.bpf.o"));
    let clang = env::var("CLANG").unwrap_or_else(|_| CLANG.to_owned());
    println!("cargo::rerun-if-changed={}", folder.display());
    println!("cargo::rerun-if-env-changed=CLANG");
    let mut command = Command::new(&clang);
    command
        .args(["-target", "bpf", "-mcpu=v4", "-O2", "-g", "-c"])
        .args([
            "-Wall",
            "-Wextra",
            "-Werror",
            "-Wno-unused-parameter",
            "-Wno-address-of-packed-member",
        ])
        // Paths of the machine it was built on don't belong into the object.
        .arg(format!("-ffile-prefix-map={}=.", root.display()))
        .arg("-I")
        .arg(LIBBPF_INCLUDE)
        .arg("-I")
        .arg(&folder);
    for include in SYSTEM_INCLUDES {
        if Path::new(include).is_dir() {
            command.arg("-I").arg(include);
        }
    }
    let status = command.arg(&source).arg("-o").arg(&object).status();
    match status {
        Ok(status) if status.success() => {}
        Ok(_) => panic!(
            "{clang} did not compile {}; what it said stands above",
            source.display()
        ),
        Err(error) => panic!(
            "cannot run {clang}: {error}; install clang-19 (or set CLANG to the compiler's name)"
        ),
    }
}
