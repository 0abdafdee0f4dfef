//! What a loaded program was told, read back from the kernel: for those who did not load it.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use libbpf_sys::bpf_prog_info;
use xdp::libbpf_rs::{MapCore, MapFlags, MapHandle};
use xdp::map::from_bytes;

use crate::abi::Settings;

/// The settings of a program of the fast path. Needs CAP_SYS_ADMIN: the kernel gives others no tables by their numbers.
pub fn of_program(program: BorrowedFd<'_>) -> io::Result<Settings> {
    for id in tables_of(program)? {
        let table = MapHandle::from_map_id(id).map_err(io::Error::other)?;
        // The kernel cuts names: of `headgate.rodata` nothing is missing.
        if !table.name().as_encoded_bytes().ends_with(b".rodata") {
            continue;
        }
        let constants = table
            .lookup(&0u32.to_ne_bytes(), MapFlags::ANY)
            .map_err(io::Error::other)?
            .unwrap_or_default();
        if constants.len() == size_of::<Settings>()
            && let Some(settings) = from_bytes(&constants)
        {
            return Ok(settings);
        }
    }
    Err(io::Error::new(
        io::ErrorKind::InvalidData,
        "the program has no constants as this version knows them; another version of Headgate attached it",
    ))
}

/// The numbers of the tables that a program uses.
fn tables_of(program: BorrowedFd<'_>) -> io::Result<Vec<u32>> {
    // A program can use no more than 64.
    let mut ids = vec![0u32; 64];
    let mut info = bpf_prog_info {
        nr_map_ids: ids.len() as u32,
        map_ids: ids.as_mut_ptr() as u64,
        ..Default::default()
    };
    let mut len = size_of_val(&info) as u32;
    // SAFETY: `info` is a plain C struct of `len` bytes, and it names a buffer with room for as many numbers as it says;
    // both live over the call.
    #[expect(unsafe_code, reason = "BPF_OBJ_GET_INFO_BY_FD")]
    let returned =
        unsafe { libbpf_sys::bpf_prog_get_info_by_fd(program.as_raw_fd(), &mut info, &mut len) };
    if returned < 0 {
        return Err(io::Error::from_raw_os_error(-returned));
    }
    ids.truncate(info.nr_map_ids as usize);
    Ok(ids)
}
