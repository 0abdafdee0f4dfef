//! Compiles the programs, and makes the list of reasons in C one in Rust.

use std::fmt::Write;
use std::path::PathBuf;
use std::{env, fs};

fn main() {
    bpfbuild::compile("clock");
    bpfbuild::compile("decap");
    bpfbuild::compile("headgate");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("Cargo sets it"));
    let list = fs::read_to_string("bpf/reasons.h").expect("bpf/reasons.h can be read");
    fs::write(out.join("reasons.rs"), reasons(&list)).expect("OUT_DIR can be written");
}

/// The enum and its table, from lines `X(NAME, "name", "help") \`.
fn reasons(list: &str) -> String {
    let mut variants = String::new();
    let mut rows = String::new();
    let mut count = 0;
    for line in list.lines() {
        let Some(call) = line.trim_start().strip_prefix("X(") else {
            continue;
        };
        let parts: Vec<&str> = call.split('"').collect();
        let [name, text, _, help, _] = parts[..] else {
            panic!("bpf/reasons.h: not of the form X(NAME, \"name\", \"help\"): {line}");
        };
        let variant: String = name
            .trim_end_matches([',', ' '])
            .split('_')
            .map(|word| word[..1].to_owned() + &word[1..].to_lowercase())
            .collect();
        writeln!(variants, "    #[doc = {help:?}]\n    {variant},").expect("memory");
        writeln!(rows, "    (Reason::{variant}, {text:?}, {help:?}),").expect("memory");
        count += 1;
    }
    format!(
        "/// Why a packet was dropped, passed to the kernel or sent on, and what happens to flows: each is counted.\n\
         #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]\n#[repr(u32)]\npub enum Reason {{\n{variants}}}\n\n\
         const REASONS: [(Reason, &str, &str); {count}] = [\n{rows}];\n"
    )
}
