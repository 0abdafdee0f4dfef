//! Putting an XDP program on an interface by a BPF link, which can be pinned, so that the program stays when the
//! process ends, and updated, so that a new program takes over without a packet lost.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use libbpf_sys::{
    BPF_XDP, XDP_FLAGS_DRV_MODE, XDP_FLAGS_SKB_MODE, bpf_link_create_opts, bpf_link_info,
    bpf_xdp_query_opts,
};
use thiserror::Error;

use crate::pin::Kind;
use crate::sys::checked;
use crate::{interface, object};

/// Where in the receive path a program runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// In the driver, before the kernel has made a socket buffer of the frame.
    Native,
    /// In the network stack, on a socket buffer: works on every interface, and slowly.
    Generic,
}

impl Mode {
    /// As the configuration spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Generic => "generic",
        }
    }
}

/// What mode to attach in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Wanted {
    /// Native, and generic where the driver cannot.
    #[default]
    Auto,
    /// Native or nothing.
    Native,
    /// Generic.
    Generic,
}

/// Attaches an XDP program to the interface of this number in the namespace of the calling thread.
///
/// Needs CAP_NET_ADMIN and CAP_BPF.
pub fn attach(
    program: BorrowedFd<'_>,
    ifindex: u32,
    wanted: Wanted,
) -> Result<Attachment, AttachError> {
    object::hear_libbpf();
    let name = interface::name(ifindex).map_err(|_| AttachError::NoInterface { ifindex })?;
    let error = |mode: Mode, source: io::Error| AttachError::from_create(&name, mode, source);
    let link = |mode| {
        create(program, ifindex, mode).map(|link| Attachment {
            link,
            ifindex,
            mode,
            pinned: None,
        })
    };
    match wanted {
        Wanted::Native => link(Mode::Native).map_err(|source| error(Mode::Native, source)),
        Wanted::Generic => link(Mode::Generic).map_err(|source| error(Mode::Generic, source)),
        Wanted::Auto => match link(Mode::Native) {
            Ok(attachment) => Ok(attachment),
            // Where native fails for want of rights or room, generic would too; its error would only hide the reason.
            Err(source) if matters_in_every_mode(&source) => Err(error(Mode::Native, source)),
            Err(native) => {
                let attachment =
                    link(Mode::Generic).map_err(|source| error(Mode::Generic, source))?;
                tracing::warn!(
                    interface = name,
                    "no native XDP on this interface ({native}); generic XDP works, at a fraction of the speed"
                );
                Ok(attachment)
            }
        },
    }
}

/// What XDP program an interface has, whoever attached it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attached {
    /// Where it runs; a card that runs it itself counts as native.
    pub mode: Mode,
    /// The kernel's number of it, as [`crate::object::id`] tells.
    pub program: u32,
}

/// The XDP program on the interface of this number in the namespace of the calling thread.
pub fn attached(ifindex: u32) -> io::Result<Option<Attached>> {
    let answer = query(ifindex)?;
    let mode = match u32::from(answer.attach_mode) {
        libbpf_sys::XDP_ATTACHED_NONE => return Ok(None),
        libbpf_sys::XDP_ATTACHED_SKB => Mode::Generic,
        _ => Mode::Native,
    };
    Ok(Some(Attached {
        mode,
        program: answer.prog_id,
    }))
}

/// A program on an interface. When the last descriptor and the last pin of the link are gone, the kernel takes the
/// program off; so an attachment that shall outlive the process must be pinned.
#[derive(Debug)]
pub struct Attachment {
    link: OwnedFd,
    ifindex: u32,
    mode: Mode,
    pinned: Option<PathBuf>,
}

impl Attachment {
    /// The attachment pinned at `path`, as another process left it there.
    ///
    /// The calling thread must be in the interface's namespace: the mode is asked of the interface.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, LinkError> {
        let path = path.as_ref();
        let failed = |source| LinkError::Open {
            path: path.to_owned(),
            source,
        };
        let not_xdp = || LinkError::NotXdp {
            path: path.to_owned(),
        };
        let link = crate::pin::open(path, Kind::Link).map_err(|source| match source.kind() {
            io::ErrorKind::InvalidData => not_xdp(),
            _ => failed(source),
        })?;
        let ifindex = link_ifindex(link.as_fd())
            .map_err(failed)?
            .ok_or_else(not_xdp)?;
        if ifindex == 0 {
            return Err(LinkError::InterfaceGone {
                path: path.to_owned(),
            });
        }
        Ok(Self {
            link,
            ifindex,
            mode: attached(ifindex)
                .map_err(failed)?
                .map_or(Mode::Native, |attached| attached.mode),
            pinned: Some(path.to_owned()),
        })
    }

    /// Where the program runs.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// The interface's number.
    pub fn ifindex(&self) -> u32 {
        self.ifindex
    }

    /// The path the link is pinned at.
    pub fn pinned(&self) -> Option<&Path> {
        self.pinned.as_deref()
    }

    /// Pins the link at `path` in a mounted bpffs (see [`crate::pin::mounted`]), so that it stays when this is dropped.
    pub fn pin(&mut self, path: impl AsRef<Path>) -> Result<(), LinkError> {
        let path = path.as_ref();
        crate::pin::pin(self.link.as_fd(), path).map_err(|source| LinkError::Pin {
            path: path.to_owned(),
            source,
        })?;
        self.pinned = Some(path.to_owned());
        Ok(())
    }

    /// Replaces the program by `program`: each packet meets the one or the other.
    pub fn update(&self, program: BorrowedFd<'_>) -> Result<(), LinkError> {
        // SAFETY: both descriptors are open, and no options are given.
        #[expect(unsafe_code, reason = "BPF_LINK_UPDATE")]
        checked(unsafe {
            libbpf_sys::bpf_link_update(
                self.link.as_raw_fd(),
                program.as_raw_fd(),
                std::ptr::null(),
            )
        })
        .map(|_| ())
        .map_err(|source| LinkError::Update {
            ifindex: self.ifindex,
            source,
        })
    }

    /// Takes the program off the interface and removes the pin.
    pub fn detach(self) -> Result<(), LinkError> {
        let failed = |source| LinkError::Detach {
            ifindex: self.ifindex,
            source,
        };
        // SAFETY: the descriptor is open.
        #[expect(unsafe_code, reason = "BPF_LINK_DETACH")]
        checked(unsafe { libbpf_sys::bpf_link_detach(self.link.as_raw_fd()) }).map_err(failed)?;
        match &self.pinned {
            Some(path) => crate::pin::unpin(path).map_err(failed),
            None => Ok(()),
        }
    }
}

impl AsFd for Attachment {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.link.as_fd()
    }
}

/// Why a program could not be put on an interface.
#[derive(Debug, Error)]
pub enum AttachError {
    /// There is no such interface here.
    #[error(
        "there is no interface with number {ifindex} in this network namespace; `ip link` lists those there are"
    )]
    NoInterface {
        /// The number asked for.
        ifindex: u32,
    },
    /// The process may not.
    #[error(
        "interface {interface}: not permitted to attach an XDP program; run as root or give CAP_BPF and CAP_NET_ADMIN"
    )]
    NotPermitted {
        /// Its name.
        interface: String,
    },
    /// Somebody else's program is there already.
    #[error(
        "interface {interface}: another XDP program is attached; see `bpftool net show dev {interface}`, and take it off"
    )]
    Occupied {
        /// Its name.
        interface: String,
    },
    /// The frames would not fit in what the driver has for one.
    #[error("interface {interface}: its MTU is too large for {} XDP; lower it, or ask for mode generic", mode.as_str())]
    MtuTooLarge {
        /// Its name.
        interface: String,
        /// The mode tried.
        mode: Mode,
    },
    /// The driver has no XDP.
    #[error("interface {interface}: its driver cannot do {} XDP; ask for mode generic or auto", mode.as_str())]
    Unsupported {
        /// Its name.
        interface: String,
        /// The mode tried.
        mode: Mode,
    },
    /// The kernel refused for another reason, which drivers tell in the kernel's log.
    #[error("interface {interface}: cannot attach in mode {}: {source}; the kernel's log (dmesg) may say more", mode.as_str())]
    Refused {
        /// Its name.
        interface: String,
        /// The mode tried.
        mode: Mode,
        /// What the kernel said.
        source: io::Error,
    },
}

impl AttachError {
    fn from_create(interface: &str, mode: Mode, source: io::Error) -> Self {
        let interface = interface.to_owned();
        match source.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => Self::NotPermitted { interface },
            Some(libc::EBUSY | libc::EEXIST) => Self::Occupied { interface },
            Some(libc::ERANGE) => Self::MtuTooLarge { interface, mode },
            Some(libc::EOPNOTSUPP) => Self::Unsupported { interface, mode },
            _ => Self::Refused {
                interface,
                mode,
                source,
            },
        }
    }
}

/// What went wrong with an attachment that exists or existed.
#[derive(Debug, Error)]
pub enum LinkError {
    /// The pin cannot be opened.
    #[error("link {}: cannot be opened: {source}", path.display())]
    Open {
        /// The pin.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// Something else is pinned there.
    #[error("{}: pinned there is no link of an XDP program; remove it", path.display())]
    NotXdp {
        /// The pin.
        path: PathBuf,
    },
    /// The link is a dead one.
    #[error("link {}: its interface is gone; remove the pin and attach anew", path.display())]
    InterfaceGone {
        /// The pin.
        path: PathBuf,
    },
    /// The pin cannot be made.
    #[error("link {}: cannot be pinned: {source}", path.display())]
    Pin {
        /// The pin.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// The program was not replaced; the old one runs on.
    #[error("the XDP program of interface number {ifindex} cannot be replaced: {source}")]
    Update {
        /// The interface.
        ifindex: u32,
        /// What the kernel said.
        source: io::Error,
    },
    /// The program could not be taken off, or its pin not removed.
    #[error("the XDP program of interface number {ifindex} cannot be taken off: {source}")]
    Detach {
        /// The interface.
        ifindex: u32,
        /// What the kernel said.
        source: io::Error,
    },
}

fn create(program: BorrowedFd<'_>, ifindex: u32, mode: Mode) -> io::Result<OwnedFd> {
    let opts = bpf_link_create_opts {
        sz: size_of::<bpf_link_create_opts>() as _,
        flags: match mode {
            Mode::Native => XDP_FLAGS_DRV_MODE,
            Mode::Generic => XDP_FLAGS_SKB_MODE,
        },
        ..Default::default()
    };
    // SAFETY: `opts` lives over the call and holds no pointers; what the call returns is a new descriptor or an error.
    #[expect(unsafe_code, reason = "BPF_LINK_CREATE")]
    unsafe {
        let fd = checked(libbpf_sys::bpf_link_create(
            program.as_raw_fd(),
            ifindex as i32,
            BPF_XDP,
            &opts,
        ))?;
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

fn matters_in_every_mode(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EPERM | libc::EACCES | libc::EBUSY | libc::EEXIST | libc::ENODEV | libc::ENOMEM)
    )
}

/// The interface of an XDP link, 0 when it is gone; `None` for another kind of link.
fn link_ifindex(link: BorrowedFd<'_>) -> io::Result<Option<u32>> {
    let mut info = bpf_link_info::default();
    let mut len = size_of_val(&info) as u32;
    // SAFETY: `info` is a plain C struct of `len` bytes that the call fills, with no buffers asked for.
    #[expect(unsafe_code, reason = "BPF_OBJ_GET_INFO_BY_FD")]
    checked(unsafe { libbpf_sys::bpf_link_get_info_by_fd(link.as_raw_fd(), &mut info, &mut len) })?;
    if info.type_ != libbpf_sys::BPF_LINK_TYPE_XDP {
        return Ok(None);
    }
    // SAFETY: the type says which member of the union the kernel wrote; it is a plain number.
    #[expect(unsafe_code, reason = "a C union")]
    Ok(Some(unsafe { info.__bindgen_anon_1.xdp.ifindex }))
}

fn query(ifindex: u32) -> io::Result<bpf_xdp_query_opts> {
    let mut opts = bpf_xdp_query_opts {
        sz: size_of::<bpf_xdp_query_opts>() as _,
        ..Default::default()
    };
    // SAFETY: `opts` is a plain C struct that the call fills.
    #[expect(unsafe_code, reason = "a netlink query by libbpf")]
    checked(unsafe { libbpf_sys::bpf_xdp_query(ifindex as i32, 0, &mut opts) })?;
    Ok(opts)
}
