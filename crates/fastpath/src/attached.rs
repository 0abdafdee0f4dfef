//! The program on an interface: put there, or found there and replaced, and taken off again.

use std::os::fd::BorrowedFd;

use model::InterfaceMode;
use tracing::warn;
use xdp::attach::{self, Attachment, Mode, Wanted};
use xdp::interface;

use crate::error::StartError;
use crate::interfaces::{self, Facts};
use crate::pins::Pins;
use crate::tables::Tables;

/// The program on an interface; it stays there when this is dropped.
#[derive(Debug)]
pub(crate) struct Attached {
    link: Attachment,
    taken_over: bool,
}

impl Attached {
    pub(crate) fn ifindex(&self) -> u32 {
        self.link.ifindex()
    }

    pub(crate) fn mode(&self) -> Mode {
        self.link.mode()
    }

    /// Whether a program was there before, and no packet passed by.
    pub(crate) fn taken_over(&self) -> bool {
        self.taken_over
    }
}

/// The mode that a configuration asks for.
pub(crate) fn wanted(mode: InterfaceMode) -> Wanted {
    match mode {
        InterfaceMode::Auto => Wanted::Auto,
        InterfaceMode::Native => Wanted::Native,
        InterfaceMode::Generic => Wanted::Generic,
    }
}

/// Has the interface run `program`: in the place of an earlier one of ours, if its mode is right.
pub(crate) fn attach(
    pins: &Pins,
    facts: &Facts,
    wanted: Wanted,
    program: BorrowedFd<'_>,
) -> Result<Attached, StartError> {
    let path = pins.link(facts.port.ifindex);
    if path.exists() {
        let link = Attachment::open(&path)?;
        let right = match wanted {
            Wanted::Auto => true,
            Wanted::Native => link.mode() == Mode::Native,
            Wanted::Generic => link.mode() == Mode::Generic,
        };
        if right {
            link.update(program)?;
            return Ok(Attached {
                link,
                taken_over: true,
            });
        }
        warn!(
            interface = facts.name,
            "the program is taken off and attached in another mode; the kernel has the packets in between"
        );
        link.detach()?;
    }
    let mut link = attach::attach(program, facts.port.ifindex, wanted)?;
    link.pin(&path)?;
    Ok(Attached {
        link,
        taken_over: false,
    })
}

/// Takes the program off its interface and sets the interface's switches to what they were; gives the interface's name.
pub(crate) fn release(link: Attachment, tables: &Tables) -> Result<String, StartError> {
    let ifindex = link.ifindex();
    let name = interface::name(ifindex).unwrap_or_else(|_| ifindex.to_string());
    link.detach()?;
    if tables.table(crate::names::TABLE).is_ok() {
        interfaces::restore_switches(tables, ifindex).map_err(StartError::Table)?;
    }
    Ok(name)
}
