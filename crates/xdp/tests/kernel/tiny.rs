//! Programs of a few instructions, assembled by hand so that these tests need no compiler, and an ELF object of one.

use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use libbpf_rs::{MapHandle, MapType};
use libbpf_sys::bpf_insn;
use xdp::map;

pub(crate) const DROP: i32 = 1;
pub(crate) const PASS: i32 = 2;

/// Gives every packet this verdict.
pub(crate) fn verdict(verdict: i32) -> OwnedFd {
    load(libbpf_sys::BPF_PROG_TYPE_XDP, &[set(0, verdict), exit()])
}

/// Its verdict is the number of the interface the packet came in by.
pub(crate) fn ingress() -> OwnedFd {
    load(libbpf_sys::BPF_PROG_TYPE_XDP, &[read(0, 1, 12), exit()])
}

/// Redirects every packet to an interface.
pub(crate) fn redirect(ifindex: u32) -> OwnedFd {
    load(
        libbpf_sys::BPF_PROG_TYPE_XDP,
        &[set(1, ifindex as i32), set(2, 0), call(23), exit()],
    )
}

/// Adds one to the first eight bytes of element `index` of an array, then gives the verdict.
pub(crate) fn count(array: &MapHandle, index: u32, verdict: i32) -> OwnedFd {
    let [low, high] = address_of(array);
    load(
        libbpf_sys::BPF_PROG_TYPE_XDP,
        &[
            // The key, on the stack.
            insn(0x62, 10, 0, -4, index as i32),
            low,
            high,
            insn(0xbf, 2, 10, 0, 0),
            insn(0x07, 2, 0, 0, -4),
            call(1),
            insn(0x15, 0, 0, 2, 0),
            set(1, 1),
            // Atomically: *(u64 *)(r0 + 0) += r1.
            insn(0xdb, 0, 1, 0, 0),
            set(0, verdict),
            exit(),
        ],
    )
}

/// Adds one to the first four bytes of its context and returns seven.
pub(crate) fn increment() -> OwnedFd {
    load(
        libbpf_sys::BPF_PROG_TYPE_SYSCALL,
        &[
            read(2, 1, 0),
            insn(0x07, 2, 0, 0, 1),
            insn(0x63, 1, 2, 0, 0),
            set(0, 7),
            exit(),
        ],
    )
}

pub(crate) fn array(kind: MapType, value_size: u32, entries: u32, flags: u32) -> MapHandle {
    table(kind, 4, value_size, entries, flags)
}

pub(crate) fn table(
    kind: MapType,
    key_size: u32,
    value_size: u32,
    entries: u32,
    flags: u32,
) -> MapHandle {
    map::create(kind, "tiny", key_size, value_size, entries, flags).unwrap()
}

/// An array of tables like `inner`.
pub(crate) fn tables(inner: &MapHandle, entries: u32) -> MapHandle {
    let opts = libbpf_sys::bpf_map_create_opts {
        sz: size_of::<libbpf_sys::bpf_map_create_opts>() as _,
        inner_map_fd: inner.as_fd().as_raw_fd() as u32,
        ..Default::default()
    };
    MapHandle::create(MapType::ArrayOfMaps, Some("tables"), 4, 4, entries, &opts).unwrap()
}

/// An object of one XDP program `tiny` and eight bytes of constants.
pub(crate) fn object(good: bool) -> Vec<u8> {
    // A program that does not set its return value is refused.
    let code: &[bpf_insn] = if good {
        &[set(0, PASS), exit()]
    } else {
        &[exit()]
    };
    let code: Vec<u8> = code.iter().flat_map(bytes).collect();
    let names = b"\0.strtab\0.symtab\0xdp\0license\0.rodata\0tiny\0";
    let name = |name: &str| {
        let at = names
            .windows(name.len())
            .position(|found| found == name.as_bytes());
        at.unwrap() as u32
    };
    let mut symbols = vec![0u8; 24];
    symbols.extend(name("tiny").to_le_bytes());
    // A global function in section 1, at its start.
    symbols.extend([0x12, 0, 1, 0]);
    symbols.extend(0u64.to_le_bytes());
    symbols.extend((code.len() as u64).to_le_bytes());
    // Name, contents; type, flags, link, info and the size of an entry.
    let sections: [(&str, &[u8], [u32; 5]); 5] = [
        ("xdp", &code, [1, 6, 0, 0, 0]),
        ("license", b"GPL\0", [1, 3, 0, 0, 0]),
        (".rodata", &[1, 2, 3, 4, 5, 6, 7, 8], [1, 2, 0, 0, 0]),
        (".symtab", &symbols, [2, 0, 5, 1, 24]),
        (".strtab", names, [3, 0, 0, 0, 0]),
    ];
    let mut elf = vec![0u8; 64];
    let mut headers = vec![0u8; 64];
    for (title, contents, [kind, flags, link, info, entry]) in sections {
        elf.resize(elf.len().next_multiple_of(8), 0);
        headers.extend(name(title).to_le_bytes());
        headers.extend(kind.to_le_bytes());
        for field in [flags.into(), 0, elf.len() as u64, contents.len() as u64] {
            headers.extend(field.to_le_bytes());
        }
        headers.extend(link.to_le_bytes());
        headers.extend(info.to_le_bytes());
        headers.extend(8u64.to_le_bytes());
        headers.extend(u64::from(entry).to_le_bytes());
        elf.extend(contents);
    }
    elf.resize(elf.len().next_multiple_of(8), 0);
    let sections_at = elf.len() as u64;
    elf.extend(headers);
    elf[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
    // Relocatable, for eBPF, version 1.
    elf[16..24].copy_from_slice(&[1, 0, 247, 0, 1, 0, 0, 0]);
    elf[40..48].copy_from_slice(&sections_at.to_le_bytes());
    // Sizes of this header and of a section's, how many sections, and which has the names.
    for (at, value) in [(52, 64u16), (58, 64), (60, 6), (62, 5)] {
        elf[at..at + 2].copy_from_slice(&value.to_le_bytes());
    }
    elf
}

fn bytes(insn: &bpf_insn) -> [u8; 8] {
    let [off_low, off_high] = insn.off.to_le_bytes();
    let [a, b, c, d] = insn.imm.to_le_bytes();
    [
        insn.code,
        insn.dst_reg() | insn.src_reg() << 4,
        off_low,
        off_high,
        a,
        b,
        c,
        d,
    ]
}

fn insn(code: u8, to: u8, from: u8, offset: i16, value: i32) -> bpf_insn {
    let mut insn = bpf_insn {
        code,
        off: offset,
        imm: value,
        ..Default::default()
    };
    insn.set_dst_reg(to);
    insn.set_src_reg(from);
    insn
}

fn set(register: u8, value: i32) -> bpf_insn {
    insn(0xb7, register, 0, 0, value)
}

/// Four bytes from memory.
fn read(to: u8, at: u8, offset: i16) -> bpf_insn {
    insn(0x61, to, at, offset, 0)
}

fn call(helper: i32) -> bpf_insn {
    insn(0x85, 0, 0, 0, helper)
}

fn exit() -> bpf_insn {
    insn(0x95, 0, 0, 0, 0)
}

/// The table's address into register 1: the two halves of one instruction.
fn address_of(map: &MapHandle) -> [bpf_insn; 2] {
    [
        insn(0x18, 1, 1, 0, map.as_fd().as_raw_fd()),
        insn(0, 0, 0, 0, 0),
    ]
}

#[expect(unsafe_code, reason = "BPF_PROG_LOAD")]
fn load(kind: u32, code: &[bpf_insn]) -> OwnedFd {
    let mut opts = libbpf_sys::bpf_prog_load_opts {
        sz: size_of::<libbpf_sys::bpf_prog_load_opts>() as _,
        ..Default::default()
    };
    if kind == libbpf_sys::BPF_PROG_TYPE_SYSCALL {
        opts.prog_flags = libbpf_sys::BPF_F_SLEEPABLE;
    }
    // SAFETY: name, licence and code live over the call; what it returns is a new descriptor or an error.
    unsafe {
        let fd = libbpf_sys::bpf_prog_load(
            kind,
            c"tiny".as_ptr(),
            c"GPL".as_ptr(),
            code.as_ptr(),
            code.len() as _,
            &mut opts,
        );
        assert!(
            fd >= 0,
            "the program was refused: {}",
            std::io::Error::from_raw_os_error(-fd)
        );
        OwnedFd::from_raw_fd(fd)
    }
}
