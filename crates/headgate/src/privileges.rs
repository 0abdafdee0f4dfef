//! What the process may do: file descriptors, the user it runs as, its capabilities. Settled once, before there are threads,
//! since capabilities belong to threads.
#![expect(
    unsafe_code,
    reason = "calls to the kernel and the C library that nothing wraps"
)]

use caps::{CapSet, Capability, CapsHashSet};
use model::{AccessOutput, Config, FileDescriptors, VirtualAccessLog};
use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, chown};
use std::path::Path;

/// Descriptors beside those of connections: listeners, logs, members kept idle.
const SPARE_DESCRIPTORS: u64 = 4096;

/// Ports below this need a capability.
const FIRST_FREE_PORT: u16 = 1024;

/// The process cannot become what its configuration asks.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PrivilegeError {
    /// A name that the system does not know.
    #[error("{field}: there is no {kind} {name:?} on this machine; `{make} {name}` makes one")]
    Unknown {
        field: &'static str,
        kind: &'static str,
        name: String,
        make: &'static str,
    },
    /// Only root can become somebody else.
    #[error(
        "user: only root can become {0:?}; start as root, or as that user, or leave `user` and `group` out"
    )]
    NotRoot(String),
    /// A call was refused.
    #[error("cannot {what}: {source}")]
    Refused {
        what: &'static str,
        source: io::Error,
    },
    /// Capabilities were not given up as they should.
    #[error("cannot give up capabilities: {0}")]
    Capabilities(#[from] caps::errors::CapsError),
}

/// What is worth a warning, to be logged once there is a log.
pub(crate) type Warnings = Vec<String>;

/// Becomes the user that the configuration asks for, with no more rights than it needs.
///
/// # Errors
///
/// When that cannot be: it is not safe to go on then.
pub(crate) fn settle(config: &Config, pid_file: Option<&Path>) -> Result<Warnings, PrivilegeError> {
    let mut warnings = Warnings::new();
    raise_descriptors(config, &mut warnings)?;
    let identity = Identity::of(config)?;
    let needed = needed(config);
    if let Some(path) = &config.fast_path {
        // Mounting takes a right that is given up below. Should it fail, the fast path says why.
        let _ = xdp::pin::mounted(&path.pin);
    }
    if let Some(identity) = &identity {
        prepare_files(config, pid_file, identity, &mut warnings);
    }
    // As long as the right to do so is there.
    for capability in caps::all().difference(&needed) {
        let _ = caps::drop(None, CapSet::Bounding, *capability);
    }
    if let Some(identity) = &identity {
        identity.assume()?;
    }
    let permitted = caps::read(None, CapSet::Permitted)?;
    let kept: CapsHashSet = permitted.intersection(&needed).copied().collect();
    // What is inheritable and ambient stays through an upgrade, which is an exec.
    caps::clear(None, CapSet::Ambient).or_else(unsupported)?;
    caps::set(None, CapSet::Effective, &kept)?;
    caps::set(None, CapSet::Permitted, &kept)?;
    caps::set(None, CapSet::Inheritable, &kept)?;
    for capability in &kept {
        caps::raise(None, CapSet::Ambient, *capability).or_else(unsupported)?;
    }
    // SAFETY: a system call on plain numbers.
    let result = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    checked(result, "give up gaining rights by running other programs")?;
    Ok(warnings)
}

/// Who the process is to be.
struct Identity {
    user: CString,
    uid: libc::uid_t,
    gid: libc::gid_t,
}

impl Identity {
    /// Whom the configuration asks for; `None` if the process is that already or nobody is asked for.
    fn of(config: &Config) -> Result<Option<Self>, PrivilegeError> {
        // SAFETY: these calls have no arguments and cannot fail.
        let (uid, gid) = unsafe { (libc::geteuid(), libc::getegid()) };
        if config.user.is_none() && config.group.is_none() {
            return Ok(None);
        }
        let mut identity = match &config.user {
            Some(name) => Self::of_user(name)?,
            None => Identity {
                user: CString::default(),
                uid,
                gid,
            },
        };
        if let Some(name) = &config.group {
            identity.gid = group_id(name)?;
        }
        if (identity.uid, identity.gid) == (uid, gid) {
            return Ok(None);
        }
        if uid != 0 {
            let name = config.user.as_ref().or(config.group.as_ref());
            return Err(PrivilegeError::NotRoot(name.cloned().unwrap_or_default()));
        }
        Ok(Some(identity))
    }

    fn of_user(name: &str) -> Result<Self, PrivilegeError> {
        let unknown = || PrivilegeError::Unknown {
            field: "user",
            kind: "user",
            name: name.to_owned(),
            make: "useradd --system",
        };
        let user = CString::new(name).map_err(|_| unknown())?;
        // SAFETY: the name ends in NUL. The entry returned is valid until the next such call, and
        // there are no other threads to make one.
        let entry = unsafe { libc::getpwnam(user.as_ptr()).as_ref() };
        let entry = entry.ok_or_else(unknown)?;
        Ok(Identity {
            uid: entry.pw_uid,
            gid: entry.pw_gid,
            user,
        })
    }

    /// Becomes it, for good. Capabilities stay permitted, to be given up by the caller.
    fn assume(&self) -> Result<(), PrivilegeError> {
        // SAFETY: system calls on plain numbers, and a name that ends in NUL.
        unsafe {
            checked(
                libc::prctl(libc::PR_SET_KEEPCAPS, 1, 0, 0, 0),
                "keep capabilities",
            )?;
            match self.user.is_empty() {
                true => checked(libc::setgroups(1, &raw const self.gid), "set groups")?,
                false => checked(libc::initgroups(self.user.as_ptr(), self.gid), "set groups")?,
            }
            checked(
                libc::setresgid(self.gid, self.gid, self.gid),
                "become the group",
            )?;
            checked(
                libc::setresuid(self.uid, self.uid, self.uid),
                "become the user",
            )
        }
    }
}

fn group_id(name: &str) -> Result<libc::gid_t, PrivilegeError> {
    let unknown = || PrivilegeError::Unknown {
        field: "group",
        kind: "group",
        name: name.to_owned(),
        make: "groupadd --system",
    };
    let text = CString::new(name).map_err(|_| unknown())?;
    // SAFETY: as with the user's entry.
    let entry = unsafe { libc::getgrnam(text.as_ptr()).as_ref() };
    Ok(entry.ok_or_else(unknown)?.gr_gid)
}

/// The capabilities that the configuration needs.
fn needed(config: &Config) -> CapsHashSet {
    let virtuals = config.virtuals.values();
    let mut addresses = virtuals
        .filter(|service| service.protocol != model::Protocol::Fast)
        .flat_map(|service| service.listen.iter().map(model::Listen::socket))
        .chain(config.admin.listen);
    let low = addresses.any(|address| (1..FIRST_FREE_PORT).contains(&address.port()));
    let mut needed: CapsHashSet = low
        .then_some(Capability::CAP_NET_BIND_SERVICE)
        .into_iter()
        .collect();
    if config.fast_path.is_some() {
        // A reload loads programs and attaches them, and tables are written all the time.
        needed.extend([
            Capability::CAP_BPF,
            Capability::CAP_NET_ADMIN,
            Capability::CAP_PERFMON,
        ]);
    }
    needed
}

/// Folders and files that another user than root could not make.
fn prepare_files(
    config: &Config,
    pid_file: Option<&Path>,
    identity: &Identity,
    warnings: &mut Warnings,
) {
    let logs = config
        .virtuals
        .values()
        .filter_map(|service| match &service.log.access {
            VirtualAccessLog::Own(log) => Some(log),
            VirtualAccessLog::Inherit => None,
        });
    let logs = logs
        .chain([&config.log.access])
        .filter_map(|log| match &log.output {
            AccessOutput::File(path) => Some(path.as_path()),
            _ => None,
        });
    let files: Vec<&Path> = logs.chain(pid_file).collect();
    let folders = files.iter().copied().chain(config.admin.socket.as_deref());
    for folder in folders.filter_map(Path::parent) {
        if folder.as_os_str().is_empty() || folder.exists() {
            continue;
        }
        let made = fs::create_dir_all(folder);
        if let Err(error) =
            made.and_then(|()| chown(folder, Some(identity.uid), Some(identity.gid)))
        {
            warnings.push(format!(
                "cannot make the folder {}: {error}",
                folder.display()
            ));
        }
    }
    for file in files {
        if let Err(error) = give(file, identity) {
            warnings.push(format!("cannot make {}: {error}", file.display()));
        }
    }
    if let Some(path) = &config.fast_path
        && let Err(error) = give_pins(&path.pin, identity)
    {
        warnings.push(error);
    }
}

/// Hands over the folder of pins with all in it.
fn give_pins(root: &Path, identity: &Identity) -> Result<(), String> {
    fn all(path: &Path, identity: &Identity) -> io::Result<()> {
        chown(path, Some(identity.uid), Some(identity.gid))?;
        if path.is_dir() {
            for entry in fs::read_dir(path)? {
                all(&entry?.path(), identity)?;
            }
        }
        Ok(())
    }
    all(root, identity).map_err(|error| format!("cannot hand over {}: {error}", root.display()))
}

/// Makes the file if it is not there, and hands it to who will write to it, if it was root's.
fn give(path: &Path, identity: &Identity) -> io::Result<()> {
    let mut options = OpenOptions::new();
    // Neither a link that somebody laid there, nor a pipe that nobody reads, may hold root up.
    options.append(true).create(true).mode(0o640);
    options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    let file: File = options.open(path)?;
    let metadata = file.metadata()?;
    if metadata.is_file() && metadata.uid() == 0 && metadata.nlink() == 1 {
        std::os::unix::fs::fchown(&file, Some(identity.uid), Some(identity.gid))?;
    }
    Ok(())
}

/// Has the system allow as many descriptors as the configuration asks for, or as many as it will.
fn raise_descriptors(config: &Config, warnings: &mut Warnings) -> Result<(), PrivilegeError> {
    let wanted = match config.limits.file_descriptors {
        FileDescriptors::Count(count) => count,
        FileDescriptors::Auto => config.limits.connections as u64 * 2 + SPARE_DESCRIPTORS,
    };
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the call writes one `rlimit`, and is given one.
    let result = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    checked(result, "read the limit on file descriptors")?;
    if limit.rlim_cur >= wanted {
        return Ok(());
    }
    let asked = [
        (wanted, limit.rlim_max.max(wanted)),
        (limit.rlim_max.min(wanted), limit.rlim_max),
    ];
    for (soft, hard) in asked {
        let limit = libc::rlimit {
            rlim_cur: soft,
            rlim_max: hard,
        };
        // SAFETY: the call reads one `rlimit`, and is given one.
        if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) } == 0 {
            if soft < wanted {
                warnings.push(format!(
                    "limits: {wanted} file descriptors are needed for as many connections and the system allows {soft}; \
                     raise LimitNOFILE= (systemd) or `ulimit -n`, or lower limits.connections"
                ));
            }
            return Ok(());
        }
    }
    warnings.push(format!(
        "cannot raise the limit on file descriptors: {}",
        io::Error::last_os_error()
    ));
    Ok(())
}

/// Kernels before 4.3 have no ambient capabilities; an upgrade then ends up without.
fn unsupported(error: caps::errors::CapsError) -> Result<(), caps::errors::CapsError> {
    match caps::runtime::ambient_set_supported() {
        Ok(()) => Err(error),
        Err(_) => Ok(()),
    }
}

fn checked(result: libc::c_int, what: &'static str) -> Result<(), PrivilegeError> {
    match result {
        0 => Ok(()),
        _ => Err(PrivilegeError::Refused {
            what,
            source: io::Error::last_os_error(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> Config {
        model::parse_text(
            Path::new("test.yaml"),
            text,
            &model::MemorySource::default(),
        )
        .unwrap()
    }

    #[test]
    fn only_low_ports_need_a_capability() {
        let with = |port: u16| {
            config(&format!(
                "virtuals: {{a: {{listen: '0.0.0.0:{port}', protocol: tcp, pool: p}}}}\npools: {{p: {{members: ['10.0.0.1:80']}}}}"
            ))
        };
        assert!(needed(&with(1024)).is_empty());
        let needed = needed(&with(443));
        assert_eq!(
            needed.into_iter().collect::<Vec<_>>(),
            [Capability::CAP_NET_BIND_SERVICE]
        );
    }

    #[test]
    fn ports_of_the_fast_path_are_not_bound() {
        let text = "fast_path: {interfaces: eth0}
pools: {p: {members: []}}
virtuals: {a: {protocol: fast, listen: '192.0.2.1:443', pool: p}}
";
        let needed = needed(&config(text));
        assert!(!needed.contains(&Capability::CAP_NET_BIND_SERVICE));
        assert!(needed.contains(&Capability::CAP_BPF));
    }

    #[test]
    fn a_user_that_does_not_exist_is_named() {
        let error = Identity::of(&config("user: nobody-of-that-name"))
            .err()
            .unwrap();
        assert!(error.to_string().contains("nobody-of-that-name"), "{error}");
        assert!(error.to_string().contains("useradd"), "{error}");
    }
}
