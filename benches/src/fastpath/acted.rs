//! TCP connections acted out from both ends through the fast path, by programs that keep nothing: millions held at once, and as many
//! as go in a second.

use crate::bare::ran;
use crate::device::{first, threaded};
use crate::instance::{Counts, Instance, Shape};
use crate::world::{Family, World};
use crate::{Options, Stop};
use anyhow::Result;
use std::thread;
use std::time::{Duration, Instant};
use traffic::packet::tcp::{Acted, Actor, End, RESPONSE};
use traffic::packet::{Act, Addresses, Generator, Place, Plan, Protocol, Stream, What};
use xdp::attach::{Attachment, Wanted, attach};
use xdp::interface;

/// Source ports of each client: a power of two, so that [`crate::meter`] can meet the same flows.
pub(crate) const PORTS: u32 = 16384;
/// The first of them, as there.
const FIRST_PORT: u32 = 1024;

/// Both ends and the fast path between them.
pub(crate) struct Acting {
    pub(crate) world: World,
    pub(crate) instance: Instance,
    // Before the world, whose interfaces it is on.
    _attachments: Vec<Attachment>,
    client: Actor,
    server: Actor,
    receivers: [i32; 2],
    family: Family,
    to_virtual: bool,
}

impl Acting {
    /// Sets it up. With `hold` connections are established and left at that; else each carries a request and a response of
    /// 1 KB and is closed by both ends.
    pub(crate) fn new(
        options: &Options,
        family: Family,
        shape: &Shape,
        hold: bool,
    ) -> Result<Self> {
        let world = World::new()?;
        let instance = Instance::load(&world, shape)?;
        let mut attachments = Vec::new();
        for name in [world.inward(), world.outward()] {
            attachments.push(world.device.run(|| -> Result<_> {
                let ifindex = interface::ifindex(&name)?;
                Ok(attach(instance.program()?, ifindex, Wanted::Native)?)
            })?);
        }
        let left = Place::within(world.left.name(), world.leftmost());
        let right = Place::within(world.right.name(), world.rightmost());
        let client = Actor::attach(&left, End::Client { hold }, Wanted::Native)?;
        let server = End::Server { response: RESPONSE };
        let server = Actor::attach(&right, server, Wanted::Native)?;
        let other = options.other_core();
        for (namespace, name) in [
            (&world.left, world.leftmost()),
            (&world.right, world.rightmost()),
        ] {
            first(threaded(namespace, &name, other)?)?;
        }
        let receivers = [
            threaded(&world.device, &world.inward(), options.core())?,
            threaded(&world.device, &world.outward(), options.core())?,
        ];
        for receiver in receivers {
            first(receiver)?;
        }
        Ok(Self {
            world,
            instance,
            _attachments: attachments,
            client,
            server,
            receivers,
            family,
            to_virtual: shape.virtual_server.is_some(),
        })
    }

    /// Sends `count` first segments (or others of the kind) at `rate` a second, beginning with connection number `skip`, and
    /// gives the answers some time. How many were sent.
    pub(crate) fn send(
        &self,
        options: &Options,
        act: Act,
        skip: u64,
        count: u64,
        rate: f64,
    ) -> Result<u64> {
        let first = Addresses::from(self.family.clients());
        let clients = format!("{}-{}", first.first(), first.at(4095));
        let to = if self.to_virtual {
            self.family.virtual_server()
        } else {
            self.family.targets()
        };
        let stream = Stream {
            destination_mac: self.world.device.mac(&self.world.inward())?,
            source_mac: self.world.left.mac(&self.world.leftmost())?,
            source_ports: format!("{FIRST_PORT}-{}", FIRST_PORT + PORTS - 1).parse()?,
            destination_ports: "80".parse()?,
            protocol: Protocol::Act(act),
            signed: false,
            skip,
            ..Stream::new(clients.parse::<Addresses>()?, to)
        };
        let place = Place::within(self.world.left.name(), self.world.leftmost());
        let plan = Plan {
            cores: vec![options.other_core()],
            rate: Some(rate),
            count: Some(count),
            ..Plan::new(place, What::Stream(stream))
        };
        Ok(Generator::start(&plan)?.join()?.sent.frames)
    }

    /// What both ends have seen.
    pub(crate) fn acted(&self) -> Result<(Acted, Acted)> {
        Ok((self.client.acted()?, self.server.acted()?))
    }

    /// The fast path's counters.
    pub(crate) fn counts(&self) -> Result<Counts> {
        self.instance.counts()
    }

    /// Nanoseconds that the device has worked.
    pub(crate) fn device_ran(&self) -> Result<u64> {
        Ok(ran(self.receivers[0])? + ran(self.receivers[1])?)
    }

    /// Waits until `seen` is at least `wanted`, or nothing has come for a while. What it was last.
    pub(crate) fn settle(
        &self,
        stop: &Stop,
        wanted: u64,
        seen: impl Fn(&Acted) -> u64,
    ) -> Result<u64> {
        let mut last = (0, Instant::now());
        loop {
            stop.check()?;
            let now = seen(&self.client.acted()?);
            if now >= wanted || (now == last.0 && last.1.elapsed() > Duration::from_millis(300)) {
                return Ok(now);
            }
            if now != last.0 {
                last = (now, Instant::now());
            }
            thread::sleep(Duration::from_millis(2));
        }
    }
}
