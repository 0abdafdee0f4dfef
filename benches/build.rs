//! Compiles the programs that measure others.

fn main() {
    bpfbuild::compile("bare");
    bpfbuild::compile("meter");
}
