//! Nanoseconds a packet in test runs: each stage and whole ways, with few flows and many.

use crate::instance::{Instance, Shape, count, said};
use crate::meter::{Meter, Order, Packets, XDP_DROP, XDP_REDIRECT, XDP_TX};
use crate::row::{Book, Goal, Part, Row, Series};
use crate::world::{Family, World};
use crate::{Options, Stop};
use anyhow::{Context, Result, bail};
use fastpath::abi::{FORWARD_OFF, FORWARD_ROUTED, Reason, Way};

/// What Katran takes on the machine the goals were set on, a packet, with so many flows.
const KATRAN: [(u32, f64); 3] = [(1, 75.0), (10_000, 130.0), (1_000_000, 550.0)];
/// And for the first packet of a flow, entered in its table.
const KATRAN_NEW: f64 = 950.0;
/// The goals: six tenths of it.
const GOALS: [(u32, f64); 3] = [(1, 45.0), (10_000, 78.0), (1_000_000, 330.0)];
const GOAL_NEW: f64 = 570.0;

/// One way through the programs.
struct Case {
    name: &'static str,
    title: &'static str,
    shape: Shape,
    /// Where packets go.
    to: To,
    order: Order,
    /// With how many flows it is measured.
    sizes: &'static [u32],
    verdict: u32,
    /// What nearly all packets must be counted as.
    reason: Reason,
    /// Whether Katran has figures for the like.
    balances: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum To {
    /// Hosts behind the device, so many.
    Targets(u32),
    Virtual,
}

const ONE: &[u32] = &[1];
const FEW: &[u32] = &[1, 10_000];
const UP_TO_A_MILLION: &[u32] = &[1, 10_000, 1_000_000];

fn cases() -> Vec<Case> {
    let routed = Shape {
        forward: FORWARD_ROUTED,
        ..Shape::default()
    };
    let masquerade = Shape {
        masquerade: true,
        ..Shape::default()
    };
    let virtual_server = |way| Shape {
        forward: FORWARD_OFF,
        virtual_server: Some(way),
        ..Shape::default()
    };
    let case = |name, title, shape, to, sizes| Case {
        name,
        title,
        shape,
        to,
        order: Order::Random,
        sizes,
        verdict: XDP_REDIRECT,
        reason: Reason::ForwardFlow,
        balances: false,
    };
    let balancing = |name, title, way, sizes| Case {
        balances: true,
        ..case(name, title, virtual_server(way), To::Virtual, sizes)
    };
    let hosts = To::Targets(1);
    vec![
        Case {
            verdict: XDP_DROP,
            reason: Reason::DropShun,
            ..case("shun", "parse, and drop as shunned", routed, hosts, ONE)
        },
        Case {
            verdict: XDP_DROP,
            reason: Reason::DropShun,
            ..case(
                "shun-million",
                "the same, one of a million addresses",
                Shape {
                    shuns: 1_000_000,
                    ..routed
                },
                hosts,
                &[1, 1_000_000],
            )
        },
        Case {
            reason: Reason::ForwardRoute,
            ..case("routed", "routed, no state", routed, hosts, FEW)
        },
        Case {
            reason: Reason::ForwardRoute,
            ..case(
                "routed-shuns",
                "routed, a million addresses shunned",
                Shape {
                    shuns: 1_000_000,
                    ..routed
                },
                hosts,
                FEW,
            )
        },
        case(
            "tracked",
            "forwarded, flow known",
            Shape::default(),
            hosts,
            UP_TO_A_MILLION,
        ),
        case(
            "snat",
            "source NAT, going out",
            masquerade,
            To::Targets(256),
            UP_TO_A_MILLION,
        ),
        Case {
            order: Order::Reply,
            ..case(
                "snat-back",
                "source NAT, coming back",
                masquerade,
                To::Targets(256),
                UP_TO_A_MILLION,
            )
        },
        balancing("lb-nat", "balanced by NAT", Way::Translate, UP_TO_A_MILLION),
        Case {
            order: Order::Reply,
            // Replies don't pass Katran.
            balances: false,
            ..balancing(
                "lb-nat-back",
                "balanced by NAT, coming back",
                Way::Translate,
                UP_TO_A_MILLION,
            )
        },
        balancing(
            "lb-direct",
            "balanced, direct return",
            Way::Direct,
            UP_TO_A_MILLION,
        ),
        balancing("lb-ipip", "balanced by IPIP", Way::Tunnel, UP_TO_A_MILLION),
        Case {
            order: Order::Next,
            ..case(
                "new-tracked",
                "first packet of a flow, forwarded",
                Shape::default(),
                hosts,
                ONE,
            )
        },
        Case {
            order: Order::Next,
            ..case(
                "new-snat",
                "first packet of a flow, source NAT",
                masquerade,
                To::Targets(4096),
                ONE,
            )
        },
        Case {
            order: Order::Next,
            ..balancing(
                "new-nat",
                "first packet of a flow, NAT",
                Way::Translate,
                ONE,
            )
        },
        Case {
            order: Order::Next,
            ..balancing(
                "new-direct",
                "first packet of a flow, direct return",
                Way::Direct,
                ONE,
            )
        },
        Case {
            order: Order::Next,
            ..balancing("new-ipip", "first packet of a flow, IPIP", Way::Tunnel, ONE)
        },
        Case {
            order: Order::Handshake,
            ..balancing(
                "entered-direct",
                "first two packets of a flow, mean; then it is in the table",
                Way::Direct,
                ONE,
            )
        },
        Case {
            order: Order::Handshake,
            ..case(
                "entered-tracked",
                "first three packets of a flow, mean; then it is in the table",
                Shape::default(),
                hosts,
                ONE,
            )
        },
    ]
}

/// The names of all rows.
pub(crate) fn names() -> Vec<String> {
    let of = |case: &Case, family: Family| name(case, family);
    let cases = cases();
    Family::BOTH
        .iter()
        .flat_map(|family| cases.iter().map(|case| of(case, *family)))
        .collect()
}

fn name(case: &Case, family: Family) -> String {
    format!("cost-{}-{}", case.name, family.name())
}

/// Measures what the options want, and says each row as it is done.
pub(crate) fn run(options: &Options, stop: &Stop, book: &mut Book) -> Result<()> {
    for family in Family::BOTH {
        for case in cases() {
            let name = name(&case, family);
            if !options.wants(&name) {
                continue;
            }
            stop.check()?;
            let result = measure(options, stop, &case, family, book)
                .with_context(|| format!("{name} cannot be measured"));
            book.tried(stop, result)?;
        }
    }
    Ok(())
}

fn measure(
    options: &Options,
    stop: &Stop,
    case: &Case,
    family: Family,
    book: &mut Book,
) -> Result<()> {
    let world = World::new()?;
    let sizes = case.sizes;
    let most = sizes.iter().copied().max().unwrap_or(1);
    let fills =
        case.reason == Reason::ForwardFlow && matches!(case.order, Order::Random | Order::Reply);
    let runs = |size: u32| match size {
        ..100_000 if options.quick => 200_000,
        ..100_000 => 500_000,
        _ => 1_000_000,
    };
    // New flows need room too: those of all rounds, and of the first try.
    let room = if fills {
        most + most / 50 + 65536
    } else if case.order == Order::Handshake {
        (options.rounds() as u32 + 2) * runs(1)
    } else {
        65536
    };
    let shape = match family {
        Family::V4 => Shape {
            flows4: room,
            ..case.shape
        },
        Family::V6 => Shape {
            flows6: room,
            ..case.shape
        },
    };
    let instance = Instance::load(&world, &shape)?;
    let mut packets = match case.to {
        To::Targets(targets) => Packets::new(family, family.targets(), targets, 1),
        To::Virtual => Packets::new(family, family.virtual_server(), 1, 1),
    };
    packets.steps = match shape.virtual_server {
        Some(Way::Direct | Way::Tunnel) => 2,
        _ => 3,
    };
    if case.name.contains("shun") {
        packets.sources = 1 << 20;
        let from = match case.reason {
            Reason::DropShun => family.clients(),
            _ => family.targets(),
        };
        instance.shun(from, shape.shuns)?;
    }
    let way = shape.virtual_server;
    world.device.run(|| {
        xdp::netns::pin_to_core(0, options.core())?;
        let ifindex = xdp::interface::ifindex(&world.inward())?;
        let recorded = if case.order == Order::Reply { most } else { 1 };
        let meter = Meter::load(ifindex, recorded)?;
        if fills {
            fill(
                &instance,
                &meter,
                packets,
                most,
                case.order == Order::Reply,
                stop,
            )?;
        }
        for &size in sizes {
            packets.order = case.order;
            packets.flows = size;
            let mut ours = Series::new("Headgate");
            let before = instance.counts()?;
            let undoing = if way == Some(Way::Tunnel) {
                meter.undoing(&packets, runs(1))?
            } else {
                0.0
            };
            for round in 0..=options.rounds() {
                stop.check()?;
                let runs = runs(size);
                let nothing = meter.run_nothing(&packets, runs)?;
                let all = run_one(&instance, &meter, &packets, runs, case)?;
                // The first time warms the caches.
                if round > 0 {
                    ours.rounds.push(all - nothing - undoing);
                }
                match case.order {
                    Order::Next => packets.next += runs,
                    Order::Handshake => packets.next += runs.div_ceil(packets.steps),
                    _ => {}
                }
            }
            let after = instance.counts()?;
            let total = f64::from(runs(size)) * (options.rounds() + 1) as f64;
            let expected = (count(&after, case.reason) - count(&before, case.reason)) as f64;
            let note = if expected < 0.98 * total {
                format!("of {total:.0} packets: {}", said(&before, &after))
            } else {
                String::new()
            };
            book.row(row(case, family, size, ours, note));
        }
        Ok(())
    })
}

fn run_one(
    instance: &Instance,
    meter: &Meter,
    packets: &Packets,
    runs: u32,
    case: &Case,
) -> Result<f64> {
    // Handshakes must be whole.
    let runs = if case.order == Order::Handshake {
        runs.next_multiple_of(packets.steps)
    } else {
        runs
    };
    meter.run(instance.program()?, packets, runs, case.verdict)
}

/// Establishes flows by their handshakes.
pub(crate) fn fill(
    instance: &Instance,
    meter: &Meter,
    packets: Packets,
    flows: u32,
    record: bool,
    stop: &Stop,
) -> Result<()> {
    const AT_ONCE: u32 = 1_000_000;
    let before = instance.counts()?;
    let mut packets = Packets {
        order: Order::Handshake,
        record,
        flows,
        ..packets
    };
    while packets.next < flows {
        stop.check()?;
        let now = AT_ONCE.min(flows - packets.next);
        let runs = now * packets.steps;
        meter
            .run(instance.program()?, &packets, runs, XDP_REDIRECT)
            .or_else(|_| meter.run(instance.program()?, &packets, runs, XDP_TX))
            .context("a handshake fails")?;
        packets.next += now;
    }
    let after = instance.counts()?;
    let promoted = count(&after, Reason::FlowPromoted) - count(&before, Reason::FlowPromoted);
    // A key in tens of thousands may find both of its buckets full.
    if (promoted as f64) < 0.999 * f64::from(flows) {
        bail!(
            "of {flows} flows {promoted} were established: {}",
            said(&before, &after)
        );
    }
    Ok(())
}

fn row(case: &Case, family: Family, size: u32, ours: Series, note: String) -> Row {
    let of = |figures: &[(u32, f64)]| {
        let found = figures.iter().find(|(flows, _)| *flows == size);
        found.map(|(_, figure)| *figure)
    };
    let (katran, goal) = match case.order {
        _ if !case.balances => (None, None),
        Order::Next => (Some(KATRAN_NEW), Some(GOAL_NEW)),
        Order::Handshake => (None, None),
        _ => (of(&KATRAN), of(&GOALS)),
    };
    let flows = match (size, case.order) {
        (_, Order::Next | Order::Handshake) => String::new(),
        (1, _) => ", 1 flow".to_owned(),
        (10_000, _) => ", 10 k flows".to_owned(),
        (1_000_000, _) => ", 1 M flows".to_owned(),
        (size, _) => format!(", {size} flows"),
    };
    let peers = katran.map(|figure| Series::fixed("Katran, as recorded", figure));
    Row {
        part: Part::Cost,
        name: match case.order {
            Order::Next | Order::Handshake => name(case, family),
            _ => format!("{}-{size}", name(case, family)),
        },
        title: format!("{} {}{flows}", family.name(), case.title),
        unit: "ns",
        ours,
        peers: peers.into_iter().collect(),
        goal: goal.map(Goal::Most),
        floor: 0.0,
        note,
    }
}
