//! Virtuals and members in the tables: what the balancer wants written is written, and numbers get their names.

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::net::SocketAddr;

use balance::{Admin, Health};
use model::{Config, PortSet, Snat};
use thiserror::Error;
use xdp::libbpf_rs::libbpf_sys::BPF_F_INNER_MAP;
use xdp::libbpf_rs::{MapCore, MapFlags, MapType};
use xdp::map;

use crate::abi::{Member, SNAT_AUTOMAP, Source, Spans, Tally, VipKey, VirtualServer, narrowed};
use crate::members::{Balancer, TooMany, Verdict, Write};
use crate::names::{self, Kind};
use crate::nat::{NatError, Pools, source_with_ports};
use crate::tables::Tables;

/// What is said of a member of a pool; `None` of one that is not known.
pub type Verdicts<'v> = dyn Fn(&str, SocketAddr) -> Option<Verdict> + 'v;

/// The balancer of what the tables hold.
pub(crate) fn restored(tables: &Tables) -> io::Result<Balancer> {
    let members = used(tables.entries::<u32, Member>("members")?);
    let virtuals = used(tables.entries::<u32, VirtualServer>("virtual_servers")?);
    let vips = tables.entries::<VipKey, u32>("vips")?;
    let spans = tables.entries::<VipKey, Spans>("vip_spans")?;
    Ok(Balancer::restored(&members, &virtuals, &vips, &spans))
}

/// A member that does not answer.
pub(crate) const DOWN: Verdict = Verdict {
    health: Health::Down,
    admin: Admin::Enabled,
    weight: 1,
};

/// The members that are not used, as the tables have them.
pub(crate) fn down(tables: &Tables) -> io::Result<HashSet<SocketAddr>> {
    let members = used(tables.entries::<u32, Member>("members")?);
    let down = members.iter().filter(|(_, member)| member.state == 0);
    Ok(down
        .map(|(_, member)| SocketAddr::new(narrowed(member.addr, member.family), member.port.get()))
        .collect())
}

/// Whether the configuration's virtuals fit in tables.
pub(crate) fn fit(config: &Config, pools: &mut Pools) -> Result<(), VirtualsError> {
    wanted(&mut Balancer::new(), config, pools, &|_, _| None).map(|_| ())
}

/// Brings the tables to what the configuration and the verdicts say. Addresses of pools that clients are translated to are
/// added to `pools`; the caller has them written.
pub(crate) fn apply(
    balancer: &mut Balancer,
    tables: &Tables,
    config: &Config,
    pools: &mut Pools,
    verdicts: &Verdicts<'_>,
) -> Result<(), VirtualsError> {
    let writes = wanted(balancer, config, pools, verdicts)?;
    for write in writes {
        perform(tables, &write)?;
    }
    name(balancer, tables)?;
    Ok(())
}

fn wanted(
    balancer: &mut Balancer,
    config: &Config,
    pools: &mut Pools,
    verdicts: &Verdicts<'_>,
) -> Result<Vec<Write>, VirtualsError> {
    // Before anything is changed.
    for server in config.virtuals.values() {
        if let Some(Snat::Pool(prefixes)) = server.fast().map(|fast| fast.snat) {
            pools.add(&prefixes)?;
        }
    }
    let mut wrong = None;
    let writes = balancer.apply(config, verdicts, &mut |snat, family| {
        source(snat, family, pools).unwrap_or_else(|error| {
            wrong = Some(error);
            Source::default()
        })
    })?;
    match wrong {
        Some(error) => Err(error.into()),
        None => Ok(writes),
    }
}

/// Why virtuals are not as the configuration wants them.
#[derive(Debug, Error)]
pub enum VirtualsError {
    /// They do not fit.
    #[error(transparent)]
    TooMany(#[from] TooMany),
    /// Clients cannot be translated as it is configured.
    #[error(transparent)]
    Nat(#[from] NatError),
    /// A table could not be written.
    #[error(transparent)]
    Table(#[from] io::Error),
}

/// Entries of an array that are not all zeroes.
fn used<V: Default + PartialEq>(entries: Vec<(u32, V)>) -> Vec<(u32, V)> {
    let zeroes = V::default();
    entries
        .into_iter()
        .filter(|(_, value)| *value != zeroes)
        .collect()
}

fn source(snat: &Snat, family: u8, pools: &mut Pools) -> Result<Source, NatError> {
    let base = source_with_ports(&PortSet::outside_the_kernels(), "snat")?;
    match snat {
        Snat::None => Ok(Source::default()),
        Snat::Automap => {
            let mut source = base;
            source.kind = SNAT_AUTOMAP;
            Ok(source)
        }
        Snat::Pool(prefixes) => {
            let (v4, v6) = pools.sources(prefixes, base)?;
            Ok(if family == 4 { v4 } else { v6 })
        }
    }
}

fn perform(tables: &Tables, write: &Write) -> io::Result<()> {
    match write {
        Write::Member { id, record, new } => {
            let id = u32::from(*id);
            if *new {
                zero(tables, "member_tallies", id)?;
            }
            tables.set("members", &id, record)
        }
        Write::Ring { ring, places } => {
            let inner = map::create(
                MapType::Array,
                "ring",
                size_of::<u32>() as u32,
                size_of::<u32>() as u32,
                places.len() as u32,
                BPF_F_INNER_MAP,
            )?;
            let keys: Vec<u32> = (0..places.len() as u32).collect();
            map::set_many(&inner, &keys, places)?;
            map::set_map(tables.table("rings")?, ring, &inner)
        }
        Write::Virtual {
            number,
            record,
            new,
        } => {
            if *new {
                zero(tables, "virtual_tallies", *number)?;
            }
            tables.set("virtual_servers", number, record)
        }
        Write::Spans { key, spans } => tables.set("vip_spans", key, &**spans),
        Write::Vip { key, number } => tables.set("vips", key, number),
        Write::NoVip(key) => tables.remove("vips", key).map(|_| ()),
        Write::NoSpans(key) => tables.remove("vip_spans", key).map(|_| ()),
        Write::NoRing(ring) => tables.remove("rings", ring).map(|_| ()),
    }
}

/// Begins to count at 0.
fn zero(tables: &Tables, name: &str, number: u32) -> io::Result<()> {
    let cpu = map::bytes_of(&Tally::default()).to_vec();
    let values = vec![cpu; map::possible_cpus()?];
    tables
        .table(name)?
        .update_percpu(&number.to_ne_bytes(), &values, MapFlags::ANY)
        .map_err(io::Error::other)
}

fn name(balancer: &Balancer, tables: &Tables) -> io::Result<()> {
    let table = tables.table(names::TABLE)?;
    let virtuals: BTreeMap<u32, String> = balancer
        .virtuals()
        .iter()
        .map(|one| (one.number, one.name.clone()))
        .collect();
    names::replace(table, Kind::Virtual, &virtuals)?;
    let members = balancer.members().iter();
    let members: BTreeMap<u32, String> = members
        .map(|one| (one.id.into(), format!("{}/{}", one.pool, one.name)))
        .collect();
    names::replace(table, Kind::Member, &members)
}
