//! Loading compiled eBPF objects that are embedded in the program.
//! What the objects contain is the business of the crate that embeds them.

use std::cell::RefCell;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::Once;

use libbpf_rs::{AsRawLibbpf, MapCore, MapHandle, Object, ObjectBuilder, OpenObject, PrintLevel};
use thiserror::Error;

use crate::map::Pod;
use crate::require;
use crate::sys::checked;

/// Opens the object in `bytes`, lets `prepare` set constants, capacities and pins, and loads it.
///
/// `name` names the object in errors and to the kernel. Needs CAP_BPF, and CAP_NET_ADMIN for XDP programs.
pub fn load(
    name: &str,
    bytes: &[u8],
    prepare: impl FnOnce(&mut OpenObject) -> Result<(), libbpf_rs::Error>,
) -> Result<Object, LoadError> {
    hear_libbpf();
    let _heard = Hearing::start();
    let mut open = ObjectBuilder::default()
        .name(name)
        .and_then(|builder| builder.open_memory(bytes))
        .map_err(|source| LoadError::Open {
            object: name.to_owned(),
            source,
        })?;
    prepare(&mut open).map_err(|source| LoadError::Prepare {
        object: name.to_owned(),
        source,
    })?;
    open.load().map_err(|source| {
        let object = name.to_owned();
        match require::capabilities() {
            Err(missing) if source.kind() == libbpf_rs::ErrorKind::PermissionDenied => {
                LoadError::NotPermitted { object, missing }
            }
            _ => LoadError::Load {
                object,
                log: last_lines(&Hearing::so_far(), LOG_LINES),
                source,
            },
        }
    })
}

/// Writes the object's constants (`const volatile` in C, section `.rodata`), which `T` mirrors.
///
/// For use in `prepare`: the verifier then knows the values and leaves out code that they switch off. Fails with
/// `InvalidInput` when there is no such section or it has another size than `T`.
pub fn set_constants<T: Pod>(open: &mut OpenObject, constants: &T) -> Result<(), libbpf_rs::Error> {
    let wrong =
        |what: String| libbpf_rs::Error::from(io::Error::new(io::ErrorKind::InvalidInput, what));
    let mut section = open
        .maps_mut()
        .find(|map| map.name().as_encoded_bytes().ends_with(b".rodata"))
        .ok_or_else(|| wrong("the object has no .rodata section".to_owned()))?;
    let value = section
        .initial_value_mut()
        .ok_or_else(|| wrong("the .rodata section has no value".to_owned()))?;
    let new = crate::map::bytes_of(constants);
    if value.len() != new.len() {
        return Err(wrong(format!(
            "the .rodata section has {} bytes, its mirror {}",
            value.len(),
            new.len()
        )));
    }
    value.copy_from_slice(new);
    Ok(())
}

/// Sets how many entries the table `map` shall have. For use in `prepare`.
pub fn set_capacity(
    open: &mut OpenObject,
    map: &str,
    entries: u32,
) -> Result<(), libbpf_rs::Error> {
    open.maps_mut()
        .find(|found| found.name() == map)
        .ok_or_else(|| libbpf_rs::Error::from(no_such("table", map)))?
        .set_max_entries(entries)
}

/// The loaded program of this name (its C function's name).
pub fn program<'o>(object: &'o Object, name: &str) -> io::Result<BorrowedFd<'o>> {
    let program = object
        .progs()
        .find(|program| program.name() == name)
        .ok_or_else(|| no_such("program", name))?;
    // SAFETY: a loaded program is alive as `program` is borrowed from `object`, which owns the descriptor and closes
    // it only when it is dropped, after `'o`.
    #[expect(unsafe_code, reason = "libbpf's accessor for the descriptor")]
    unsafe {
        let fd = checked(libbpf_sys::bpf_program__fd(
            program.as_libbpf_object().as_ptr(),
        ))?;
        Ok(BorrowedFd::borrow_raw(fd))
    }
}

/// A handle of its own on the loaded table of this name.
pub fn map(object: &Object, name: &str) -> io::Result<MapHandle> {
    let map = object
        .maps()
        .find(|map| map.name() == name)
        .ok_or_else(|| no_such("table", name))?;
    MapHandle::try_from(&map).map_err(io::Error::other)
}

/// How many instructions the verifier walked through before it accepted the program (its limit is one million).
pub fn verified_instructions(program: &impl AsFd) -> io::Result<u32> {
    Ok(info(program.as_fd())?.verified_insns)
}

/// The kernel's number of the program, the same for every descriptor and pin of it.
pub fn id(program: &impl AsFd) -> io::Result<u32> {
    Ok(info(program.as_fd())?.id)
}

fn info(program: BorrowedFd<'_>) -> io::Result<libbpf_sys::bpf_prog_info> {
    let mut info = libbpf_sys::bpf_prog_info::default();
    let mut len = size_of_val(&info) as u32;
    // SAFETY: `info` is a plain C struct of `len` bytes that the call fills, with no buffers asked for.
    #[expect(unsafe_code, reason = "BPF_OBJ_GET_INFO_BY_FD")]
    checked(unsafe {
        libbpf_sys::bpf_prog_get_info_by_fd(program.as_raw_fd(), &mut info, &mut len)
    })?;
    Ok(info)
}

fn no_such(kind: &str, name: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::NotFound,
        format!("the object has no {kind} named {name}"),
    )
}

/// Why an object could not be loaded.
#[derive(Debug, Error)]
pub enum LoadError {
    /// The bytes are not an object that libbpf understands.
    #[error(
        "eBPF object {object}: cannot be opened: {source}; was it compiled for the bpf target?"
    )]
    Open {
        /// The name given to [`load`].
        object: String,
        /// What libbpf said.
        source: libbpf_rs::Error,
    },
    /// A constant, a capacity or a pin could not be set.
    #[error("eBPF object {object}: cannot be prepared: {source}")]
    Prepare {
        /// The name given to [`load`].
        object: String,
        /// What `prepare` returned.
        source: libbpf_rs::Error,
    },
    /// The process may not load eBPF.
    #[error("eBPF object {object}: not permitted to load it: {missing}")]
    NotPermitted {
        /// The name given to [`load`].
        object: String,
        /// What the process lacks.
        missing: require::Missing,
    },
    /// The kernel refused a table or a program.
    #[error("eBPF object {object}: the kernel refused it: {source}{}{log}", if log.is_empty() { "" } else { "; libbpf and the verifier said last:\n" })]
    Load {
        /// The name given to [`load`].
        object: String,
        /// What the kernel said.
        source: libbpf_rs::Error,
        /// The last lines of libbpf's messages, the verifier's among them.
        log: String,
    },
}

/// Lines of libbpf's messages kept in an error: the verifier tells its reason last.
const LOG_LINES: usize = 30;

thread_local! {
    /// What libbpf said on this thread, while somebody listens. libbpf calls back on the thread that called it.
    static HEARD: RefCell<Option<String>> = const { RefCell::new(None) };
}

struct Hearing;

impl Hearing {
    fn start() -> Self {
        HEARD.with(|heard| *heard.borrow_mut() = Some(String::new()));
        Self
    }

    fn so_far() -> String {
        HEARD.with(|heard| heard.borrow().clone().unwrap_or_default())
    }
}

impl Drop for Hearing {
    fn drop(&mut self) {
        HEARD.with(|heard| *heard.borrow_mut() = None);
    }
}

/// Sends libbpf's messages to the log instead of to standard error, once for the process.
pub(crate) fn hear_libbpf() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        libbpf_rs::set_print(Some((PrintLevel::Info, said)));
    });
}

fn said(_: PrintLevel, message: String) {
    tracing::debug!(target: "libbpf", "{}", message.trim_end());
    HEARD.with(|heard| {
        if let Some(heard) = heard.borrow_mut().as_mut() {
            heard.push_str(&message);
        }
    });
}

fn last_lines(text: &str, lines: usize) -> String {
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_kept_in_order() {
        assert_eq!(last_lines("a\nb\nc\n", 2), "b\nc");
        assert_eq!(last_lines("a", 2), "a");
        assert_eq!(last_lines("", 2), "");
    }

    #[test]
    fn bytes_that_are_no_object_are_named_in_the_error() {
        let error = load("nonsense", b"not an ELF file", |_| Ok(())).unwrap_err();
        assert!(matches!(error, LoadError::Open { .. }), "{error}");
        assert!(error.to_string().contains("nonsense"), "{error}");
    }
}
