//! Compiles the packet generator's eBPF programs.

fn main() {
    for program in ["send", "receive", "tcp"] {
        bpfbuild::compile(program);
    }
}
