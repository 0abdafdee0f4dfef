//! Compiles the programs.

fn main() {
    bpfbuild::compile("headgate");
}
