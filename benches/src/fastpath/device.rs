//! A device under test in a world of its own, ready to be sent packets: who forwards them, and the means to see what that costs.

use crate::Options;
use crate::bare::{Bare, ran};
use crate::instance::{Instance, Shape};
use crate::world::{Family, MEMBERS, World};
use anyhow::{Context, Result, bail, ensure};
use fastpath::abi::{FORWARD_OFF, FORWARD_ROUTED, Way};
use std::io::Write;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use traffic::packet::{Addresses, Generator, Order, Place, Plan, Sizes, Stream, What};
use xdp::attach::{Attachment, Wanted, attach};
use xdp::{interface, netns};

/// Who forwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    /// Nobody: a program that drops, which is what receiving costs.
    Drop,
    /// A program that writes an Ethernet header and redirects.
    Redirect,
    /// A program that asks for each packet's route.
    Fib,
    Kernel,
    /// The kernel, with rules that look at connections' states.
    Conntrack,
    /// The kernel, with nftables' masquerade.
    Masquerade,
    /// The kernel, with nftables' DNAT to four members.
    Dnat,
    Routed,
    Tracked,
    Snat,
    Balanced,
    Direct,
    Tunnel,
}

impl Who {
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Drop => "bare XDP_DROP",
            Self::Redirect => "bare redirect",
            Self::Fib => "bare FIB forward",
            Self::Kernel => "kernel",
            Self::Conntrack => "nftables, ct state",
            Self::Masquerade => "nftables masquerade",
            Self::Dnat => "nftables DNAT",
            Self::Routed => "Headgate, routed",
            Self::Tracked => "Headgate, tracked",
            Self::Snat => "Headgate, source NAT",
            Self::Balanced => "Headgate, balanced by NAT",
            Self::Direct => "Headgate, direct return",
            Self::Tunnel => "Headgate, IPIP",
        }
    }

    /// Whether it is the kernel's own forwarding.
    fn is_kernel(self) -> bool {
        matches!(
            self,
            Self::Kernel | Self::Conntrack | Self::Masquerade | Self::Dnat
        )
    }

    fn to_virtual(self) -> bool {
        matches!(
            self,
            Self::Dnat | Self::Balanced | Self::Direct | Self::Tunnel
        )
    }

    fn is_stateful(self) -> bool {
        !matches!(
            self,
            Self::Drop | Self::Redirect | Self::Fib | Self::Kernel | Self::Routed
        )
    }

    /// What the fast path is to do, if it is it.
    pub(crate) fn shape(self) -> Option<Shape> {
        let virtual_server = |way| Shape {
            forward: FORWARD_OFF,
            virtual_server: Some(way),
            ..Shape::default()
        };
        Some(match self {
            Self::Routed => Shape {
                forward: FORWARD_ROUTED,
                ..Shape::default()
            },
            Self::Tracked => Shape::default(),
            Self::Snat => Shape {
                masquerade: true,
                ..Shape::default()
            },
            Self::Balanced => virtual_server(Way::Translate),
            Self::Direct => virtual_server(Way::Direct),
            Self::Tunnel => virtual_server(Way::Tunnel),
            _ => return None,
        })
    }

    /// What nftables is told.
    pub(crate) fn ruleset(self, family: Family, world: &World) -> Option<String> {
        let (ip, clients) = match family {
            Family::V4 => ("ip", "10.16.0.0/12"),
            Family::V6 => ("ip6", "fd00:16::/64"),
        };
        Some(match self {
            Self::Conntrack => "table inet bench {
                chain forward {
                    type filter hook forward priority filter; policy drop;
                    ct state established,related accept
                    ct state new accept
                }
            }"
            .to_owned(),
            Self::Masquerade => format!(
                "table inet bench {{
                    chain out {{
                        type nat hook postrouting priority srcnat;
                        {ip} saddr {clients} oifname {} masquerade
                    }}
                }}",
                world.outward()
            ),
            Self::Dnat => {
                let members: Vec<String> = (0..MEMBERS)
                    .map(|number| format!("{number} : {}", family.member(number)))
                    .collect();
                let address = family.virtual_server();
                let chain = |protocol| {
                    format!(
                        "{ip} daddr {address} {protocol} dport 80 dnat {ip} to \
                         jhash {ip} saddr . {protocol} sport mod {MEMBERS} map {{ {} }}",
                        members.join(", ")
                    )
                };
                format!(
                    "table inet bench {{
                        chain in {{
                            type nat hook prerouting priority dstnat;
                            {}
                            {}
                        }}
                    }}",
                    chain("udp"),
                    chain("tcp")
                )
            }
            _ => return None,
        })
    }
}

/// What a run of a device has shown.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Shown {
    /// Processor time of the device for a packet, in nanoseconds.
    pub(crate) nanos: f64,
    /// Packets a second that came out of it, in millions; dropped ones where it drops.
    pub(crate) rate: f64,
    /// Of the packets it took, the share that came out.
    pub(crate) delivered: f64,
    /// The share of the time that its thread ran.
    pub(crate) busy: f64,
}

/// A device under test.
pub(crate) struct Device {
    who: Who,
    family: Family,
    flows: u32,
    // Attachments go before the world whose interfaces they are on.
    _attachments: Vec<Attachment>,
    _instance: Option<Instance>,
    bare: Option<Bare>,
    sink: Bare,
    _source: Bare,
    receiver: i32,
    world: World,
}

impl Device {
    /// Sets it up, and has all flows begun and answered.
    pub(crate) fn new(options: &Options, who: Who, family: Family, flows: u32) -> Result<Self> {
        let world = World::new()?;
        let (inward, outward) = (world.inward(), world.outward());
        let sink = Bare::attach(&world.right, &world.rightmost(), "reflect", None)?;
        let source = Bare::attach(&world.left, &world.leftmost(), "drop", None)?;
        let next_hop = world.right.mac(&world.rightmost())?;
        let out = Some((&*outward, next_hop));
        let on = |program| Bare::attach(&world.device, &inward, program, out).map(Some);
        let bare = match who {
            Who::Drop => on("drop")?,
            Who::Redirect => on("redirect")?,
            Who::Fib => on("forward")?,
            _ => None,
        };
        let mut instance = None;
        let mut attachments = Vec::new();
        if let Some(shape) = who.shape() {
            let loaded = Instance::load(&world, &shape)?;
            for name in [&inward, &outward] {
                attachments.push(world.device.run(|| -> Result<_> {
                    let ifindex = interface::ifindex(name)?;
                    Ok(attach(loaded.program()?, ifindex, Wanted::Native)?)
                })?);
            }
            instance = Some(loaded);
        }
        if who.is_kernel() {
            // Without a program an end receives in batches only like this; and what XDP sends needs that.
            world.device.gro(&inward, true)?;
            world.device.gro(&outward, true)?;
        }
        if let Some(rules) = who.ruleset(family, &world) {
            nft(&world, &rules)?;
            for (name, seconds) in [("udp_timeout", "600"), ("udp_timeout_stream", "600")] {
                world
                    .device
                    .sysctl(&format!("net.netfilter.nf_conntrack_{name}"), seconds)?;
            }
        }
        let other = options.other_core();
        let receiver = threaded(&world.device, &inward, options.core())?;
        let far_end = threaded(&world.right, &world.rightmost(), other)?;
        // Else what is sent would push out what was received, and the device's queue towards it overflow.
        first(far_end)?;
        threaded(&world.left, &world.leftmost(), other)?;
        if bare.is_none() {
            threaded(&world.device, &outward, options.core())?;
        }
        let device = Self {
            who,
            family,
            flows,
            _attachments: attachments,
            _instance: instance,
            bare,
            sink,
            _source: source,
            receiver,
            world,
        };
        if who.is_stateful() {
            device.establish(other)?;
        }
        device.sink.change("drop")?;
        Ok(device)
    }

    /// Sends it all it can take for a while.
    pub(crate) fn run(&self, options: &Options, time: Duration) -> Result<Shown> {
        let plan = Plan {
            cores: vec![options.other_core()],
            ..Plan::new(
                self.place(),
                What::Stream(self.stream(Order::Random { seed: 1 })?),
            )
        };
        let generator = Generator::start(&plan)?;
        // Until the queues are full and the caches warm.
        thread::sleep(time / 4);
        let before = self.counts()?;
        let start = Instant::now();
        thread::sleep(time);
        let after = self.counts()?;
        let seconds = start.elapsed().as_secs_f64();
        generator.stop();
        generator.join()?;
        let taken = (after.taken - before.taken) as f64;
        let out = (after.out - before.out) as f64;
        ensure!(
            taken > 1000.0,
            "{}: only {taken} packets arrived",
            self.who.title()
        );
        Ok(Shown {
            nanos: (after.nanos - before.nanos) as f64 / taken,
            rate: out / seconds / 1e6,
            delivered: out / taken,
            busy: (after.nanos - before.nanos) as f64 / 1e9 / seconds,
        })
    }

    fn counts(&self) -> Result<Counts> {
        let inward = self.world.inward();
        let taken = self.world.device.counters(&inward)?.rx_packets;
        let out = match (&self.bare, self.who) {
            (Some(bare), Who::Drop) => bare.dropped()?,
            _ => self.sink.dropped()?,
        };
        Ok(Counts {
            taken,
            out,
            nanos: ran(self.receiver)?,
        })
    }

    /// Has each flow begin, be answered by the far end, and go on.
    fn establish(&self, core: usize) -> Result<()> {
        let plan = Plan {
            cores: vec![core],
            rate: Some(100_000.0),
            count: Some(u64::from(self.flows) * 4),
            ..Plan::new(self.place(), What::Stream(self.stream(Order::Sequential)?))
        };
        Generator::start(&plan)?.join()?;
        Ok(())
    }

    fn place(&self) -> Place {
        Place::within(self.world.left.name(), self.world.leftmost())
    }

    fn stream(&self, order: Order) -> Result<Stream> {
        let hundred: u32 = if self.flows == 1 { 1 } else { 100 };
        let first = Addresses::from(self.family.clients());
        let clients: Addresses = format!("{}-{}", first.first(), first.at(hundred - 1)).parse()?;
        let to = if self.who.to_virtual() {
            self.family.virtual_server()
        } else {
            self.family.targets()
        };
        let ports = self.flows / hundred;
        Ok(Stream {
            destination_mac: self.world.device.mac(&self.world.inward())?,
            source_mac: self.world.left.mac(&self.world.leftmost())?,
            source_ports: format!("2048-{}", 2048 + ports - 1).parse()?,
            destination_ports: "80".parse()?,
            sizes: Sizes::fixed(match self.family {
                Family::V4 => 60,
                Family::V6 => 62,
            }),
            order,
            signed: false,
            stamped: false,
            ..Stream::new(clients, to)
        })
    }
}

struct Counts {
    taken: u64,
    out: u64,
    nanos: u64,
}

/// Gives nftables a ruleset.
pub(crate) fn nft(world: &World, rules: &str) -> Result<()> {
    let mut child = world
        .device
        .command("nft")
        .args(["-f", "-"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot run nft; install nftables")?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(rules.as_bytes())?;
    }
    let output = child.wait_with_output()?;
    if !output.status.success() {
        bail!("nft: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}

/// Has an interface receive by a thread of its own on a core, and names the thread.
pub(crate) fn threaded(namespace: &netns::Namespace, interface: &str, core: usize) -> Result<i32> {
    namespace.threaded(interface, true)?;
    let threads = namespace.napi_threads(interface)?;
    let [thread] = threads[..] else {
        bail!(
            "{interface} has {} receiving threads, not one",
            threads.len()
        );
    };
    netns::pin_to_core(thread, core)?;
    Ok(thread)
}

/// Has a thread run on its core as soon as it has work, until it has none: two that share a core in the usual way take turns of
/// milliseconds, in which queues of 256 packets overflow.
pub(crate) fn first(thread: i32) -> Result<()> {
    let output = Command::new("chrt")
        .args(["--fifo", "--pid", "1", &thread.to_string()])
        .output()
        .context("cannot run chrt; install util-linux")?;
    ensure!(
        output.status.success(),
        "chrt: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(())
}
