//! The bare programs: what forwards is measured against the least that a program can do.

use anyhow::Result;
use std::path::Path;
use xdp::attach::{Attachment, Wanted, attach};
use xdp::libbpf_rs::Object;
use xdp::netns::Namespace;
use xdp::{interface, map, object};

/// The programs of bpf/bare.bpf.c on one interface.
pub(crate) struct Bare {
    object: Object,
    attachment: Attachment,
}

impl Bare {
    /// Puts the program of this name on an interface. What it forwards leaves by the interface `out` to `next_hop`.
    pub(crate) fn attach(
        namespace: &Namespace,
        interface: &str,
        program: &str,
        out: Option<(&str, [u8; 6])>,
    ) -> Result<Self> {
        namespace.run(|| {
            let bytes = include_bytes!(concat!(env!("OUT_DIR"), "/bare.bpf.o"));
            let object = object::load("bare", bytes, |_| Ok(()))?;
            if let Some((out, next_hop)) = out {
                let device = interface::ifindex(out)?;
                map::set(&object::map(&object, "out_device")?, &0u32, &device)?;
                let mut header = [0u8; 12];
                header[..6].copy_from_slice(&next_hop);
                header[6..].copy_from_slice(&interface::mac(out)?);
                map::set(&object::map(&object, "out_header")?, &0u32, &header)?;
            }
            let attachment = attach(
                object::program(&object, program)?,
                interface::ifindex(interface)?,
                Wanted::Native,
            )?;
            Ok(Self { object, attachment })
        })
    }

    /// Puts another of the programs in its place.
    pub(crate) fn change(&self, program: &str) -> Result<()> {
        Ok(self
            .attachment
            .update(object::program(&self.object, program)?)?)
    }

    /// Packets it has dropped.
    pub(crate) fn dropped(&self) -> Result<u64> {
        let table = object::map(&self.object, "dropped")?;
        let [packets] = map::per_cpu_sum(&table, &0u32)?;
        Ok(packets)
    }
}

/// Nanoseconds that a thread of the kernel has run.
pub(crate) fn ran(process: i32) -> Result<u64> {
    let path = Path::new("/proc")
        .join(process.to_string())
        .join("schedstat");
    let text = std::fs::read_to_string(path)?;
    let first = text.split(' ').next().unwrap_or_default();
    Ok(first.parse()?)
}
