//! Loading the generator's programs: each time anew, with the constants of one stream or one receiver, which the verifier
//! then cuts them down to.

use super::error::PacketError;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use xdp::attach::{self, AttachError, Attachment, Mode, Wanted};
use xdp::libbpf_rs::{self, MapHandle, Object, OpenObject};
use xdp::map::{Pod, bytes_of};
use xdp::object;

pub(super) static SEND: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/send.bpf.o"));
pub(super) static RECEIVE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/receive.bpf.o"));
pub(super) static TCP: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/tcp.bpf.o"));

/// Sets the value of an own section of constants or variables.
pub(super) fn set_section<T: Pod>(
    open: &mut OpenObject,
    section: &str,
    value: &T,
) -> Result<(), libbpf_rs::Error> {
    let wrong = |what: &str| {
        let what = format!("section {section} {what}");
        libbpf_rs::Error::from(io::Error::new(io::ErrorKind::InvalidInput, what))
    };
    let mut map = open
        .maps_mut()
        .find(|map| map.name() == section)
        .ok_or_else(|| wrong("is missing"))?;
    let bytes = map
        .initial_value_mut()
        .ok_or_else(|| wrong("has no value"))?;
    let new = bytes_of(value);
    if bytes.len() != new.len() {
        return Err(wrong(&format!(
            "has {} bytes, its mirror {}",
            bytes.len(),
            new.len()
        )));
    }
    bytes.copy_from_slice(new);
    Ok(())
}

/// Leaves out all programs but these.
pub(super) fn only(open: &mut OpenObject, wanted: &[&str]) {
    for mut program in open.progs_mut() {
        let name = program.name().to_owned();
        program.set_autoload(wanted.iter().any(|wanted| name == *wanted));
    }
}

/// A program on an interface, which is taken off at once when this is dropped. Closing the link's descriptor would do so
/// only when every process has that was being started meanwhile and has inherited it.
pub(super) struct Attached {
    mode: Mode,
    attachment: Option<Attachment>,
}

impl Attached {
    /// Puts a program on an interface of the calling thread's namespace.
    pub(super) fn new(
        program: &OwnedFd,
        ifindex: u32,
        wanted: Wanted,
    ) -> Result<Self, AttachError> {
        let attachment = attach::attach(program.as_fd(), ifindex, wanted)?;
        Ok(Self {
            mode: attachment.mode(),
            attachment: Some(attachment),
        })
    }

    /// Where in the receive path it runs.
    pub(super) fn mode(&self) -> Mode {
        self.mode
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        if let Some(attachment) = self.attachment.take() {
            // The interface may be gone, which is as good.
            let _ = attachment.detach();
        }
    }
}

/// A loaded program, to be kept without its object.
pub(super) fn program(object: &Object, name: &str) -> Result<OwnedFd, PacketError> {
    object::program(object, name)
        .and_then(|program| program.as_fd().try_clone_to_owned())
        .map_err(PacketError::Table)
}

/// A loaded table, to be kept without its object.
pub(super) fn table(object: &Object, name: &str) -> Result<MapHandle, PacketError> {
    object::map(object, name).map_err(PacketError::Table)
}
