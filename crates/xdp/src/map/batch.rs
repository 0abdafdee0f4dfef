//! Many entries of a table by one system call.

use std::io;
use std::mem;
use std::os::fd::AsRawFd;

use libbpf_rs::MapCore;
use libbpf_sys::bpf_map_batch_opts;

use super::{Pod, fits, found, from_bytes, key_fits, per_cpu_fits, possible_cpus, stride};
use crate::sys::checked;

/// Hands every key and value of the table to `each`, read by many at a time.
///
/// Entries that come or go meanwhile may or may not be seen, an entry of a hash may be seen twice. Works on arrays,
/// hashes and tries of prefixes.
pub fn entries<K: Pod, V: Pod>(map: &impl MapCore, mut each: impl FnMut(K, V)) -> io::Result<()> {
    fits::<K, V>(map)?;
    batches::<K>(map, size_of::<V>(), &mut |key, value| {
        if let Some(value) = from_bytes(value) {
            each(key, value);
        }
    })
}

/// As [`entries`], for per-CPU tables: `each` gets the values of all possible CPUs.
pub fn per_cpu_entries<K: Pod, V: Pod>(
    map: &impl MapCore,
    mut each: impl FnMut(K, &[V]),
) -> io::Result<()> {
    per_cpu_fits::<K, V>(map)?;
    let mut values: Vec<V> = Vec::new();
    batches::<K>(map, stride::<V>() * possible_cpus()?, &mut |key, bytes| {
        values.clear();
        values.extend(
            bytes
                .chunks_exact(stride::<V>())
                .filter_map(from_bytes::<V>),
        );
        each(key, &values);
    })
}

/// Writes `values` under `keys`, one by one, whether there were any or not.
///
/// When one cannot be written, those before it have been; a full table is `E2BIG`. Fails with `InvalidInput` when
/// there are not as many values as keys.
pub fn set_many<K: Pod, V: Pod>(map: &impl MapCore, keys: &[K], values: &[V]) -> io::Result<()> {
    fits::<K, V>(map)?;
    if keys.len() != values.len() {
        let what = format!("{} keys, but {} values", keys.len(), values.len());
        return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    }
    if keys.is_empty() {
        return Ok(());
    }
    let mut count = keys.len() as u32;
    // SAFETY: there are `count` keys and values as long as the table's, which the kernel reads.
    #[expect(unsafe_code, reason = "BPF_MAP_UPDATE_BATCH")]
    checked(unsafe {
        libbpf_sys::bpf_map_update_batch(
            map.as_fd().as_raw_fd(),
            keys.as_ptr().cast(),
            values.as_ptr().cast(),
            &mut count,
            &opts(),
        )
    })
    .map(|_| ())
}

/// Removes the keys; those that are not there are passed over. Tells how many were.
pub fn remove_many<K: Pod>(map: &impl MapCore, keys: &[K]) -> io::Result<usize> {
    key_fits::<K>(map)?;
    let mut rest = keys;
    let mut removed = 0;
    while !rest.is_empty() {
        let mut count = rest.len() as u32;
        // SAFETY: there are `count` keys as long as the table's, which the kernel reads.
        #[expect(unsafe_code, reason = "BPF_MAP_DELETE_BATCH")]
        let returned = unsafe {
            libbpf_sys::bpf_map_delete_batch(
                map.as_fd().as_raw_fd(),
                rest.as_ptr().cast(),
                &mut count,
                &opts(),
            )
        };
        let all = found(returned)?;
        removed += count as usize;
        // It stops at a key that is not there: go on behind that one.
        let done = count as usize + usize::from(!all);
        rest = rest.get(done..).unwrap_or_default();
    }
    Ok(removed)
}

/// Entries read by one call.
const BATCH: usize = 1024;

/// How often in a row a batch may be disturbed.
const RETRIES: u32 = 100;

fn batches<K: Pod>(
    map: &impl MapCore,
    value_len: usize,
    each: &mut dyn FnMut(K, &[u8]),
) -> io::Result<()> {
    let key_len = size_of::<K>();
    let mut patience = RETRIES;
    // A hash gives whole buckets; where one has more entries than there is room, the call says so and wants more.
    let mut room = BATCH.min((map.max_entries() as usize).max(1));
    // The kernel's cursor is four bytes of a hash or an array, and a key elsewhere.
    let mut cursor = vec![0u8; key_len.max(4)];
    let mut next = cursor.clone();
    let mut first = true;
    loop {
        let mut keys = vec![0u8; key_len * room];
        let mut values = vec![0u8; value_len * room];
        let mut count = room as u32;
        let from = if first {
            std::ptr::null_mut()
        } else {
            cursor.as_mut_ptr()
        };
        // SAFETY: the buffers hold `count` keys and values as long as the table's, the cursors as much as the kernel
        // writes; all live over the call.
        #[expect(unsafe_code, reason = "BPF_MAP_LOOKUP_BATCH")]
        let returned = unsafe {
            libbpf_sys::bpf_map_lookup_batch(
                map.as_fd().as_raw_fd(),
                from.cast(),
                next.as_mut_ptr().cast(),
                keys.as_mut_ptr().cast(),
                values.as_mut_ptr().cast(),
                &mut count,
                &opts(),
            )
        };
        let more = match found(returned) {
            Ok(more) => more,
            Err(error)
                if error.raw_os_error() == Some(libc::ENOSPC)
                    && room < map.max_entries() as usize =>
            {
                room = (room * 2).min(map.max_entries() as usize);
                continue;
            }
            // Programs removed keys as fast as the kernel read them; nothing of this batch has been handed out.
            Err(error) if error.kind() == io::ErrorKind::Interrupted && patience > 0 => {
                patience -= 1;
                continue;
            }
            Err(error) => return Err(error),
        };
        let pairs = keys
            .chunks_exact(key_len)
            .zip(values.chunks_exact(value_len));
        for (key, value) in pairs.take(count as usize) {
            if let Some(key) = from_bytes(key) {
                each(key, value);
            }
        }
        if !more {
            return Ok(());
        }
        mem::swap(&mut cursor, &mut next);
        first = false;
    }
}

fn opts() -> bpf_map_batch_opts {
    bpf_map_batch_opts {
        sz: size_of::<bpf_map_batch_opts>() as _,
        ..Default::default()
    }
}
