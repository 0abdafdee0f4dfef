//! An array table in this process's memory: read and written without system calls, while programs use it.

use std::io;
use std::mem;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use libbpf_rs::{MapCore, MapType};

use super::Pod;

/// The elements of an array made with `BPF_F_MMAPABLE`, as words that programs on other cores may change any time.
///
/// One element starts each [`Mapped::stride`] bytes. Values that belong together can change between two loads: the
/// table's layout must offer a way to notice.
#[derive(Debug)]
pub struct Mapped {
    at: NonNull<u8>,
    bytes: usize,
    stride: usize,
    elements: usize,
}

impl Mapped {
    /// Maps all of the array. Fails with `EPERM` when it is frozen, and with `InvalidInput` when it is not an array of
    /// this kind.
    pub fn new(map: &impl MapCore) -> io::Result<Self> {
        if map.map_type() != MapType::Array {
            return Err(unmappable(map, "is no array"));
        }
        let flags = map.info().map_err(io::Error::other)?.info.map_flags;
        if flags & libbpf_sys::BPF_F_MMAPABLE == 0 {
            return Err(unmappable(map, "was made without BPF_F_MMAPABLE"));
        }
        let stride = (map.value_size() as usize).next_multiple_of(8);
        let elements = map.max_entries() as usize;
        let bytes = stride * elements;
        // SAFETY: a new mapping anywhere; the kernel checks that the table has so many bytes.
        #[expect(unsafe_code, reason = "mmap")]
        let at = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                map.as_fd().as_raw_fd(),
                0,
            )
        };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let at = NonNull::new(at.cast())
            .ok_or_else(|| io::Error::other("the kernel mapped a table at address 0"))?;
        Ok(Self {
            at,
            bytes,
            stride,
            elements,
        })
    }

    /// How many elements there are.
    pub fn len(&self) -> usize {
        self.elements
    }

    /// Whether there are none; there always are.
    pub fn is_empty(&self) -> bool {
        self.elements == 0
    }

    /// Bytes from one element to the next: the value's size rounded up to eight.
    pub fn stride(&self) -> usize {
        self.stride
    }

    /// All of it in words of four bytes.
    pub fn words(&self) -> &[AtomicU32] {
        // SAFETY: the mapping is page-aligned, `bytes` long and lives as long as `self`; others change it only by the
        // processor's stores, and it is read and written through atomics alone.
        #[expect(unsafe_code, reason = "shared memory as atomics")]
        unsafe {
            std::slice::from_raw_parts(self.at.as_ptr().cast(), self.bytes / size_of::<AtomicU32>())
        }
    }

    /// All of it in words of eight bytes.
    pub fn long_words(&self) -> &[AtomicU64] {
        // SAFETY: as in `words`.
        #[expect(unsafe_code, reason = "shared memory as atomics")]
        unsafe {
            std::slice::from_raw_parts(self.at.as_ptr().cast(), self.bytes / size_of::<AtomicU64>())
        }
    }

    /// The words of four bytes of one element; `None` beyond the end.
    pub fn element(&self, index: usize) -> Option<&[AtomicU32]> {
        let words = self.stride / size_of::<AtomicU32>();
        let start = index.checked_mul(words)?;
        self.words().get(start..start.checked_add(words)?)
    }

    /// The words of eight bytes of one element; `None` beyond the end.
    pub fn element_long(&self, index: usize) -> Option<&[AtomicU64]> {
        let words = self.stride / size_of::<AtomicU64>();
        let start = index.checked_mul(words)?;
        self.long_words().get(start..start.checked_add(words)?)
    }

    /// A copy of one element, loaded word by word (acquire), so that it may be torn between words; `None` beyond the
    /// end or when `T` is longer than an element.
    pub fn read<T: Pod>(&self, index: usize) -> Option<T> {
        let words = self.element_long(index)?;
        if size_of::<T>() > self.stride {
            return None;
        }
        let mut copy = mem::MaybeUninit::<T>::zeroed();
        let to = copy.as_mut_ptr().cast::<u8>();
        let mut done = 0;
        for word in words {
            let bytes = word.load(Ordering::Acquire).to_ne_bytes();
            let part = bytes.len().min(size_of::<T>() - done);
            // SAFETY: `done + part` never exceeds the size of the value.
            #[expect(unsafe_code, reason = "a copy into a value of plain data")]
            unsafe {
                std::ptr::copy_nonoverlapping(bytes.as_ptr(), to.add(done), part);
            }
            done += part;
        }
        // SAFETY: every bit pattern is a value of plain data, and all of it was written.
        #[expect(unsafe_code, reason = "plain data")]
        Some(unsafe { copy.assume_init() })
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: the mapping is this one's own, and every slice of it borrowed `self`.
        #[expect(unsafe_code, reason = "munmap")]
        unsafe {
            libc::munmap(self.at.as_ptr().cast(), self.bytes);
        }
    }
}

// SAFETY: the mapping belongs to the process, not to a thread.
#[expect(unsafe_code, reason = "memory of the process")]
unsafe impl Send for Mapped {}
// SAFETY: it is read and written through atomics alone.
#[expect(unsafe_code, reason = "atomics")]
unsafe impl Sync for Mapped {}

fn unmappable(map: &impl MapCore, why: &str) -> io::Error {
    let name = map.name().to_string_lossy();
    io::Error::new(
        io::ErrorKind::InvalidInput,
        format!("table {name} {why} and cannot be mapped"),
    )
}
