//! One object of 512 KB a connection through a virtual, between real TCP endpoints: the fast path beside nftables' DNAT. The device's
//! receiving threads have a core for themselves, both endpoints share the other.

use crate::bare::ran;
use crate::device::{Who, nft, threaded};
use crate::instance::Instance;
use crate::row::{Book, Goal, Part, Row, Series};
use crate::world::{Family, MEMBERS, World};
use crate::{Options, Stop};
use anyhow::{Context, Result, bail};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, thread};
use traffic::http::load::Report;
use xdp::attach::{Attachment, Wanted, attach};
use xdp::interface;

/// Bytes of the object.
const OBJECT: f64 = 512.0 * 1024.0;
/// Connections at any time.
const CONNECTIONS: &str = "16";

/// The names of all rows.
pub(crate) fn names() -> Vec<String> {
    Family::BOTH.map(name).to_vec()
}

fn name(family: Family) -> String {
    format!("object-{}", family.name())
}

/// Measures what the options want, and says each row as it is done.
pub(crate) fn run(options: &Options, stop: &Stop, book: &mut Book) -> Result<()> {
    for family in Family::BOTH {
        if options.wants(&name(family)) {
            let result = measure(options, stop, family, book)
                .with_context(|| format!("{} cannot be measured", name(family)));
            book.tried(stop, result)?;
        }
    }
    Ok(())
}

fn measure(options: &Options, stop: &Stop, family: Family, book: &mut Book) -> Result<()> {
    let sides = [
        Side::new(options, family, Who::Balanced)?,
        Side::new(options, family, Who::Dnat)?,
    ];
    let names = [Who::Balanced.title(), Who::Dnat.title()];
    let mut rates = names.map(Series::new);
    let mut costs = names.map(Series::new);
    for _ in 0..options.rounds() {
        for (number, side) in sides.iter().enumerate() {
            stop.check()?;
            let (objects, spent) = side.load(options)?;
            rates[number].rounds.push(objects * OBJECT * 8.0 / 1e9);
            costs[number].rounds.push(spent * 1e6);
        }
    }
    let row = |unit, what: &str, [ours, peer]: [Series; 2], goal| Row {
        part: Part::Object,
        name: format!("{}-{unit}", name(family)),
        title: format!("{} {what}", family.name()),
        unit,
        ours,
        peers: vec![peer],
        goal,
        floor: 0.0,
        note: String::new(),
    };
    book.row(row(
        "µs",
        "device's time for an object of 512 KB",
        costs,
        None::<Goal>,
    ));
    book.row(row(
        "Gbit/s",
        "objects of 512 KB, one a connection",
        rates,
        None,
    ));
    Ok(())
}

/// A device with an endpoint on each side.
struct Side {
    receivers: [i32; 2],
    url: String,
    _origin: Running,
    // Before the world, whose interfaces they are on.
    _attachments: Vec<Attachment>,
    _instance: Option<Instance>,
    world: World,
}

impl Side {
    fn new(options: &Options, family: Family, who: Who) -> Result<Self> {
        let world = World::new()?;
        let (inward, outward) = (world.inward(), world.outward());
        for (namespace, interface) in [
            (&world.left, world.leftmost()),
            (&world.device, inward.clone()),
            (&world.device, outward.clone()),
            (&world.right, world.rightmost()),
        ] {
            namespace.gro(&interface, true)?;
        }
        let (length, left, right) = match family {
            Family::V4 => (16, "10.1.0.1", "10.2.0.1"),
            Family::V6 => (64, "fd00:1::1", "fd00:2::1"),
        };
        world.left.route("default", left)?;
        world.right.route("default", right)?;
        for member in 0..MEMBERS {
            let address = format!("{}/{length}", family.member(member));
            world.right.address(&world.rightmost(), &address)?;
        }
        let mut attachments = Vec::new();
        let mut instance = None;
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
        if let Some(rules) = who.ruleset(family, &world) {
            nft(&world, &rules)?;
        }
        let other = options.other_core();
        threaded(&world.left, &world.leftmost(), other)?;
        threaded(&world.right, &world.rightmost(), other)?;
        let receivers = [
            threaded(&world.device, &inward, options.core())?,
            threaded(&world.device, &outward, options.core())?,
        ];
        let mut origin = pinned(world.right.command("taskset"), options, "origin")?;
        for member in 0..MEMBERS {
            let address = SocketAddr::new(family.member(member), 80);
            origin.args(["--listen", &address.to_string()]);
        }
        let origin = origin.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        let url = SocketAddr::new(family.virtual_server(), 80);
        let side = Self {
            receivers,
            url: format!("http://{url}/bytes/524288"),
            _origin: Running(origin),
            _attachments: attachments,
            _instance: instance,
            world,
        };
        side.wait(options)
            .with_context(|| format!("{} does not answer", who.title()))?;
        Ok(side)
    }

    /// Until the first object has come through.
    fn wait(&self, options: &Options) -> Result<()> {
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            match self.ask(options, "0", "0.2", &["-n", "1"]) {
                Ok(report) if report.requests > 0 => return Ok(()),
                Err(error) if Instant::now() > deadline => return Err(error),
                Ok(_) if Instant::now() > deadline => bail!("no object arrives"),
                _ => thread::sleep(Duration::from_millis(50)),
            }
        }
    }

    /// Objects a second, and seconds of the device's core for each.
    fn load(&self, options: &Options) -> Result<(f64, f64)> {
        let seconds = if options.quick { "1" } else { "2" };
        let before = self.device_ran()?;
        let report = self.ask(options, "0", seconds, &[])?;
        let spent = Duration::from_nanos(self.device_ran()? - before);
        let objects = report.requests as f64;
        Ok((report.requests_per_second, spent.as_secs_f64() / objects))
    }

    fn ask(
        &self,
        options: &Options,
        warm_up: &str,
        seconds: &str,
        more: &[&str],
    ) -> Result<Report> {
        let output = pinned(self.world.left.command("taskset"), options, "load")?
            .args([&*self.url, "--mode", "close", "--json"])
            .args(["-c", CONNECTIONS, "-w", warm_up, "-d", seconds])
            .args(more)
            .output()?;
        if !output.status.success() {
            bail!("{}", String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(serde_json::from_slice(&output.stdout)?)
    }

    fn device_ran(&self) -> Result<u64> {
        Ok(ran(self.receivers[0])? + ran(self.receivers[1])?)
    }
}

/// A part of this program on the core of both ends.
fn pinned(mut taskset: Command, options: &Options, part: &str) -> Result<Command> {
    taskset
        .args(["-c", &options.other_core().to_string()])
        .arg(env::current_exe()?)
        .arg(part)
        .stdin(Stdio::null());
    Ok(taskset)
}

/// A process that ends with its owner.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
