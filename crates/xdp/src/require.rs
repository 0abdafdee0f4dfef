//! What the machine and the process must have before eBPF can be used, each with what to do when it is missing.

use std::fs;
use std::io;

use thiserror::Error;

/// Checks everything; the error is the first thing that is missing.
pub fn check() -> Result<(), Missing> {
    match missing().into_iter().next() {
        Some(missing) => Err(missing),
        None => Ok(()),
    }
}

/// Everything that is missing.
pub fn missing() -> Vec<Missing> {
    [
        kernel(),
        bpf(),
        capability(CAP_BPF),
        capability(CAP_NET_ADMIN),
        btf(),
        jit(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Checks the capabilities of the calling thread alone.
pub(crate) fn capabilities() -> Result<(), Missing> {
    match capability(CAP_BPF).or_else(|| capability(CAP_NET_ADMIN)) {
        Some(missing) => Err(missing),
        None => Ok(()),
    }
}

/// One thing that is missing.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Missing {
    /// The kernel is too old.
    #[error("the kernel is {found}; the fast path needs 6.1 or later: boot a newer one")]
    Kernel {
        /// Its release.
        found: String,
    },
    /// The kernel has no eBPF to speak of.
    #[error("the kernel has no bpf file system; boot one built with CONFIG_BPF_SYSCALL=y")]
    Bpf,
    /// The process lacks a capability.
    #[error(
        "the process does not have {name}; run it as root, or give it the capability (systemd: AmbientCapabilities={name})"
    )]
    Capability {
        /// Its name, as in capabilities(7).
        name: &'static str,
    },
    /// The kernel does not describe its types.
    #[error(
        "the kernel has no type information (/sys/kernel/btf/vmlinux); boot one built with CONFIG_DEBUG_INFO_BTF=y, and mount sysfs on /sys"
    )]
    Btf,
    /// Programs would be interpreted.
    #[error(
        "the kernel's eBPF compiler is switched off; switch it on with `sysctl net.core.bpf_jit_enable=1`, or boot a kernel built with CONFIG_BPF_JIT=y"
    )]
    Jit,
}

/// The oldest kernel, major and minor.
const KERNEL: (u32, u32) = (6, 1);

struct Capability {
    name: &'static str,
    bit: u32,
}

// linux/capability.h.
const CAP_NET_ADMIN: Capability = Capability {
    name: "CAP_NET_ADMIN",
    bit: 12,
};
const CAP_SYS_ADMIN: Capability = Capability {
    name: "CAP_SYS_ADMIN",
    bit: 21,
};
const CAP_BPF: Capability = Capability {
    name: "CAP_BPF",
    bit: 39,
};

fn kernel() -> Option<Missing> {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let release = release.trim();
    // One that cannot be understood is given the benefit of the doubt; loading will tell.
    let old = version_of(release).is_some_and(|version| version < KERNEL);
    old.then(|| Missing::Kernel {
        found: release.to_owned(),
    })
}

/// Major and minor of a release such as `6.1.0-13-amd64`.
fn version_of(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

fn bpf() -> Option<Missing> {
    let known = fs::read_to_string("/proc/filesystems").unwrap_or_default();
    let has = known
        .lines()
        .any(|line| line.split_whitespace().last() == Some("bpf"));
    (!has).then_some(Missing::Bpf)
}

fn capability(wanted: Capability) -> Option<Missing> {
    let status = fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let effective = effective_of(&status).unwrap_or(0);
    let has = |capability: &Capability| effective & (1 << capability.bit) != 0;
    // CAP_SYS_ADMIN may all that CAP_BPF may.
    let enough = has(&wanted) || (wanted.bit == CAP_BPF.bit && has(&CAP_SYS_ADMIN));
    (!enough).then_some(Missing::Capability { name: wanted.name })
}

/// The effective capabilities in /proc/PID/status.
fn effective_of(status: &str) -> Option<u64> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))?;
    u64::from_str_radix(line.trim(), 16).ok()
}

fn btf() -> Option<Missing> {
    (!fs::exists("/sys/kernel/btf/vmlinux").unwrap_or(false)).then_some(Missing::Btf)
}

fn jit() -> Option<Missing> {
    let off = match fs::read_to_string("/proc/sys/net/core/bpf_jit_enable") {
        Ok(value) => value.trim() == "0",
        // Only the machine's first network namespace has the switch; there, no switch means no compiler.
        Err(error) => error.kind() == io::ErrorKind::NotFound && in_first_namespace(),
    };
    off.then_some(Missing::Jit)
}

fn in_first_namespace() -> bool {
    let first = fs::read_link("/proc/1/ns/net");
    let own = fs::read_link("/proc/thread-self/ns/net");
    matches!((first, own), (Ok(first), Ok(own)) if first == own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_compared_by_number() {
        assert_eq!(version_of("6.1.0-13-amd64"), Some((6, 1)));
        assert_eq!(version_of("6.18.44-fc-v657"), Some((6, 18)));
        assert_eq!(version_of("10.0"), Some((10, 0)));
        assert_eq!(version_of("strange"), None);
        assert!(version_of("5.15.0") < Some(KERNEL) && version_of("6.2-rc1") > Some(KERNEL));
    }

    #[test]
    fn the_effective_capabilities_are_read() {
        assert_eq!(
            effective_of("Name:\tx\nCapPrm:\tff\nCapEff:\t0000008000001000\n"),
            Some(0x80_0000_1000)
        );
        assert_eq!(effective_of("Name:\tx\n"), None);
    }

    #[test]
    fn what_is_missing_is_named_with_a_remedy() {
        let text = Missing::Capability { name: CAP_BPF.name }.to_string();
        assert!(
            text.contains("CAP_BPF") && text.contains("run it as root"),
            "{text}"
        );
    }
}
