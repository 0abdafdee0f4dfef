//! Tables shared with programs, read and written as the C structs they hold. What the structs mean, and how a table
//! that programs change meanwhile is read consistently, is left to others.

use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::sync::OnceLock;

use libbpf_rs::{MapCore, MapHandle, MapType};

use crate::sys::checked;

mod batch;
mod mapped;

pub use batch::{entries, per_cpu_entries, remove_many, set_many};
pub use mapped::Mapped;

/// Plain data laid out as in C.
///
/// # Safety
///
/// The type is `repr(C)` or `repr(transparent)`, has no padding, and every bit pattern is a value of it.
#[expect(unsafe_code, reason = "a promise about memory layout")]
pub unsafe trait Pod: Copy + 'static {}

macro_rules! numbers_are_plain_data {
    ($($number:ty)*) => {
        $(
            // SAFETY: a number has no padding, and every bit pattern is a number.
            #[expect(unsafe_code, reason = "true of every integer")]
            unsafe impl Pod for $number {}
        )*
    };
}
numbers_are_plain_data!(u8 u16 u32 u64 u128 i8 i16 i32 i64);

// SAFETY: an array has its elements one after the other and nothing in between.
#[expect(unsafe_code, reason = "an array of plain data is plain data")]
unsafe impl<T: Pod, const N: usize> Pod for [T; N] {}

/// The bytes of a value.
pub fn bytes_of<T: Pod>(value: &T) -> &[u8] {
    // SAFETY: plain data has no padding, so every byte of it is initialised; the slice borrows the value.
    #[expect(unsafe_code, reason = "plain data")]
    unsafe {
        std::slice::from_raw_parts(std::ptr::from_ref(value).cast(), size_of::<T>())
    }
}

/// The bytes of a value, to be written: the context of [`crate::run::syscall_run`], for one.
pub fn bytes_of_mut<T: Pod>(value: &mut T) -> &mut [u8] {
    // SAFETY: as above, and whatever bytes are written make a value.
    #[expect(unsafe_code, reason = "plain data")]
    unsafe {
        std::slice::from_raw_parts_mut(std::ptr::from_mut(value).cast(), size_of::<T>())
    }
}

/// The value whose bytes these are; `None` when they are too few. Bytes beyond it are left out.
pub fn from_bytes<T: Pod>(bytes: &[u8]) -> Option<T> {
    let bytes = bytes.get(..size_of::<T>())?;
    // SAFETY: there are as many bytes as the value has, and all bytes make a value; they need not be aligned.
    #[expect(unsafe_code, reason = "plain data")]
    Some(unsafe { bytes.as_ptr().cast::<T>().read_unaligned() })
}

/// Makes a table that no object describes, such as an inner one of a table of tables.
///
/// Sizes are in bytes; `flags` are the kernel's (`BPF_F_…`).
pub fn create(
    kind: MapType,
    name: &str,
    key_size: u32,
    value_size: u32,
    entries: u32,
    flags: u32,
) -> io::Result<MapHandle> {
    let opts = libbpf_sys::bpf_map_create_opts {
        sz: size_of::<libbpf_sys::bpf_map_create_opts>() as _,
        map_flags: flags,
        ..Default::default()
    };
    MapHandle::create(kind, Some(name), key_size, value_size, entries, &opts)
        .map_err(io::Error::other)
}

/// Puts the table `inner` under `key` of a table of tables; it stays alive there. Programs see the old one or the
/// new one; when this returns, after some milliseconds, none sees the old one any more.
pub fn set_map<K: Pod>(outer: &impl MapCore, key: &K, inner: &impl MapCore) -> io::Result<()> {
    set(outer, key, &inner.as_fd().as_raw_fd())
}

/// What to do about a key that is or is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Write {
    /// Write in any case.
    Any,
    /// Only a new key; else `AlreadyExists`.
    New,
    /// Only a key that is there; else `NotFound`.
    Existing,
}

/// The value under `key`, `None` when there is none.
pub fn get<K: Pod, V: Pod>(map: &impl MapCore, key: &K) -> io::Result<Option<V>> {
    fits::<K, V>(map)?;
    let mut value = MaybeUninit::<V>::uninit();
    // SAFETY: key and value are as long as the table's, which the kernel reads and writes.
    #[expect(unsafe_code, reason = "BPF_MAP_LOOKUP_ELEM")]
    let returned = unsafe {
        libbpf_sys::bpf_map_lookup_elem(
            map.as_fd().as_raw_fd(),
            std::ptr::from_ref(key).cast(),
            value.as_mut_ptr().cast(),
        )
    };
    match found(returned)? {
        // SAFETY: the kernel wrote all of it.
        #[expect(unsafe_code, reason = "written by the kernel")]
        true => Ok(Some(unsafe { value.assume_init() })),
        false => Ok(None),
    }
}

/// Writes `value` under `key`, whether there was one or not.
pub fn set<K: Pod, V: Pod>(map: &impl MapCore, key: &K, value: &V) -> io::Result<()> {
    set_if(map, key, value, Write::Any)
}

/// Writes `value` under `key` when `when` allows.
pub fn set_if<K: Pod, V: Pod>(
    map: &impl MapCore,
    key: &K,
    value: &V,
    when: Write,
) -> io::Result<()> {
    fits::<K, V>(map)?;
    let flags = match when {
        Write::Any => libbpf_sys::BPF_ANY,
        Write::New => libbpf_sys::BPF_NOEXIST,
        Write::Existing => libbpf_sys::BPF_EXIST,
    };
    // SAFETY: key and value are as long as the table's, which the kernel reads.
    #[expect(unsafe_code, reason = "BPF_MAP_UPDATE_ELEM")]
    checked(unsafe {
        libbpf_sys::bpf_map_update_elem(
            map.as_fd().as_raw_fd(),
            std::ptr::from_ref(key).cast(),
            std::ptr::from_ref(value).cast(),
            flags.into(),
        )
    })
    .map(|_| ())
}

/// Removes `key` and tells whether it was there.
pub fn remove<K: Pod>(map: &impl MapCore, key: &K) -> io::Result<bool> {
    key_fits::<K>(map)?;
    // SAFETY: the key is as long as the table's, which the kernel reads.
    #[expect(unsafe_code, reason = "BPF_MAP_DELETE_ELEM")]
    found(unsafe {
        libbpf_sys::bpf_map_delete_elem(map.as_fd().as_raw_fd(), std::ptr::from_ref(key).cast())
    })
}

/// The values under `key` of all CPUs that the machine could have, in a per-CPU table; `None` when there are none.
pub fn per_cpu<K: Pod, V: Pod>(map: &impl MapCore, key: &K) -> io::Result<Option<Vec<V>>> {
    per_cpu_fits::<K, V>(map)?;
    let mut values = vec![0u8; stride::<V>() * possible_cpus()?];
    // SAFETY: the key is as long as the table's, and there is room for a value of every possible CPU, each rounded up
    // to eight bytes, as the kernel writes them.
    #[expect(unsafe_code, reason = "BPF_MAP_LOOKUP_ELEM")]
    let returned = unsafe {
        libbpf_sys::bpf_map_lookup_elem(
            map.as_fd().as_raw_fd(),
            std::ptr::from_ref(key).cast(),
            values.as_mut_ptr().cast(),
        )
    };
    Ok(found(returned)?.then(|| {
        values
            .chunks_exact(stride::<V>())
            .filter_map(from_bytes)
            .collect()
    }))
}

/// The sum over all CPUs of a value of `N` counters, in a per-CPU table; zeroes when the key is not there.
pub fn per_cpu_sum<K: Pod, const N: usize>(map: &impl MapCore, key: &K) -> io::Result<[u64; N]> {
    Ok(summed(
        &per_cpu::<K, [u64; N]>(map, key)?.unwrap_or_default(),
    ))
}

/// Adds up counters, each by itself.
pub fn summed<const N: usize>(values: &[[u64; N]]) -> [u64; N] {
    let mut sum = [0u64; N];
    for value in values {
        for (sum, counter) in sum.iter_mut().zip(value) {
            *sum = sum.wrapping_add(*counter);
        }
    }
    sum
}

/// How many CPUs this machine could have, plugged in or not: so many values has a key of a per-CPU table.
pub fn possible_cpus() -> io::Result<usize> {
    static CPUS: OnceLock<usize> = OnceLock::new();
    if let Some(cpus) = CPUS.get() {
        return Ok(*cpus);
    }
    let text = fs::read_to_string(POSSIBLE)?;
    let cpus = cpus_of(&text).ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::InvalidData,
            format!("{POSSIBLE}: \"{}\" is no list of CPUs", text.trim()),
        )
    })?;
    Ok(*CPUS.get_or_init(|| cpus))
}

const POSSIBLE: &str = "/sys/devices/system/cpu/possible";

/// CPUs of a list such as `0-3,8`.
fn cpus_of(list: &str) -> Option<usize> {
    list.trim()
        .split(',')
        .map(|range| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
            (last + 1).checked_sub(first)
        })
        .sum()
}

/// Bytes from one CPU's value to the next.
fn stride<V>() -> usize {
    size_of::<V>().next_multiple_of(8)
}

/// `ENOENT` as an answer, not an error.
fn found(returned: i32) -> io::Result<bool> {
    match checked(returned) {
        Ok(_) => Ok(true),
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(false),
        Err(error) => Err(error),
    }
}

fn fits<K, V>(map: &impl MapCore) -> io::Result<()> {
    key_fits::<K>(map)?;
    if is_per_cpu(map.map_type()) {
        return Err(wrong(
            map,
            "has a value for each CPU; read it with the calls for such tables",
        ));
    }
    value_fits::<V>(map)
}

fn per_cpu_fits<K, V>(map: &impl MapCore) -> io::Result<()> {
    key_fits::<K>(map)?;
    if !is_per_cpu(map.map_type()) {
        return Err(wrong(
            map,
            "has one value for all CPUs; read it with the calls for such tables",
        ));
    }
    value_fits::<V>(map)
}

fn key_fits<K>(map: &impl MapCore) -> io::Result<()> {
    if map.key_size() as usize != size_of::<K>() {
        let what = format!(
            "has keys of {} bytes, not of {}",
            map.key_size(),
            size_of::<K>()
        );
        return Err(wrong(map, &what));
    }
    Ok(())
}

fn value_fits<V>(map: &impl MapCore) -> io::Result<()> {
    if map.value_size() as usize != size_of::<V>() {
        let what = format!(
            "has values of {} bytes, not of {}",
            map.value_size(),
            size_of::<V>()
        );
        return Err(wrong(map, &what));
    }
    Ok(())
}

fn wrong(map: &impl MapCore, what: &str) -> io::Error {
    let name = map.name().to_string_lossy();
    io::Error::new(io::ErrorKind::InvalidInput, format!("table {name} {what}"))
}

fn is_per_cpu(kind: MapType) -> bool {
    matches!(
        kind,
        MapType::PercpuArray | MapType::PercpuHash | MapType::LruPercpuHash
    )
}
