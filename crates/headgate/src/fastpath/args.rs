//! What can be said on the command line about the fast path.

use super::text::duration;
use addr::Prefix;
use clap::{Args, Subcommand};
use fastpath::abi::{State, Way};
use fastpath::flows;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;
use xdp::attach::Wanted;

/// Where the fast path is pinned.
#[derive(Args, Clone, Default)]
pub(crate) struct Where {
    /// The folder in which the fast path is pinned. Without it: that of the configuration given, or /sys/fs/bpf/headgate
    #[arg(long, value_name = "PATH", global = true)]
    pub(crate) pin: Option<PathBuf>,
    /// The configuration that names the folder
    #[arg(short, long, value_name = "FILE", global = true)]
    pub(crate) config: Option<PathBuf>,
}

#[derive(Args)]
pub(crate) struct Fastpath {
    #[command(subcommand)]
    pub(crate) what: FastpathCommand,
    #[command(flatten)]
    pub(crate) place: Where,
}

/// What can be done with the fast path as a whole.
#[derive(Subcommand)]
pub(crate) enum FastpathCommand {
    /// Show what is attached where, in which mode, and how much it holds
    Show {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show what became of packets, by reason, and what virtuals and members had
    Stats(Stats),
    /// Look whether the connection table is sound: a mistake in the programs would show here
    Check,
    /// Take it off all interfaces of this network namespace and remove its tables; the kernel has every packet then
    Detach,
    /// Have this machine, a member of a virtual in mode ipip, unpack what Headgate sends it
    Decap(Decap),
}

#[derive(Args)]
pub(crate) struct Decap {
    /// The interface on which tunnels come in
    #[arg(long, value_name = "INTERFACE")]
    pub(crate) interface: String,
    /// An address at which tunnels end; without any, those that the interface has
    #[arg(long, value_name = "ADDRESS", conflicts_with_all = ["detach", "show"])]
    pub(crate) address: Vec<IpAddr>,
    /// Where in the way of a packet the program runs: auto, native or generic
    #[arg(long, default_value = "auto", value_parser = mode)]
    pub(crate) mode: Wanted,
    /// Take it off again
    #[arg(long, conflicts_with = "show")]
    pub(crate) detach: bool,
    /// Show what it did so far, and change nothing
    #[arg(long)]
    pub(crate) show: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct Stats {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Show what was never counted as well
    #[arg(long)]
    pub(crate) all: bool,
    /// Show rates over so many seconds, again and again
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) watch: Option<u32>,
    /// With --watch: end after so many times
    #[arg(long, value_name = "N", requires = "watch")]
    pub(crate) times: Option<u32>,
}

#[derive(Args)]
pub(crate) struct Flows {
    #[command(subcommand)]
    pub(crate) what: FlowsCommand,
    #[command(flatten)]
    pub(crate) place: Where,
}

/// What can be done with flows.
#[derive(Subcommand)]
pub(crate) enum FlowsCommand {
    /// List flows
    List {
        #[command(flatten)]
        which: Which,
        /// At most so many
        #[arg(long, default_value_t = 100)]
        limit: usize,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Count flows, by state and way
    Count {
        #[command(flatten)]
        which: Which,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// End flows; packets that still come begin new ones where they may
    End {
        #[command(flatten)]
        which: Which,
        /// All of them, if nothing says which
        #[arg(long)]
        all: bool,
    },
}

/// Which flows are meant: those of which all that is given is true. What can be given several times is true if one is.
#[derive(Args, Default)]
pub(crate) struct Which {
    /// One end has this address or is in this prefix, before or after translation
    #[arg(short, long, value_name = "ADDRESS")]
    address: Vec<Prefix>,
    /// One end has this port, before or after translation
    #[arg(short, long)]
    port: Vec<u16>,
    /// Of this protocol: tcp, udp, icmp, icmpv6, or a number
    #[arg(long, value_name = "PROTOCOL", value_parser = protocol)]
    proto: Vec<u8>,
    /// In this state, such as syn_sent, established, time_wait, udp, udp_stream
    #[arg(long, value_parser = state)]
    state: Vec<State>,
    /// Whose packets go this way: plain, translate, direct or tunnel
    #[arg(long, value_parser = way)]
    way: Vec<Way>,
    /// Of this virtual
    #[arg(long = "virtual", value_name = "VIRTUAL")]
    service: Vec<String>,
    /// To this member
    #[arg(long, value_name = "POOL/MEMBER")]
    member: Vec<String>,
    /// Translated by this rule of source NAT
    #[arg(long)]
    rule: Vec<String>,
    /// Of IPv4
    #[arg(short = '4', long, conflicts_with = "ipv6")]
    ipv4: bool,
    /// Of IPv6
    #[arg(short = '6', long)]
    ipv6: bool,
    /// Silent for so long: 30s, 5m, 1h
    #[arg(long, value_name = "TIME", value_parser = duration)]
    silent: Option<Duration>,
}

impl Which {
    /// Whether nothing says which.
    pub(crate) fn is_all(&self) -> bool {
        self.address.is_empty()
            && self.port.is_empty()
            && self.proto.is_empty()
            && self.state.is_empty()
            && self.way.is_empty()
            && self.service.is_empty()
            && self.member.is_empty()
            && self.rule.is_empty()
            && !self.ipv4
            && !self.ipv6
            && self.silent.is_none()
    }

    /// The filter, where `numbers` finds the numbers of a name among those of a kind.
    pub(crate) fn filter<E>(
        &self,
        numbers: impl Fn(Kind, &str) -> Result<Vec<u16>, E>,
    ) -> Result<flows::Filter, E> {
        let of = |kind, names: &[String]| -> Result<Option<Vec<u16>>, E> {
            if names.is_empty() {
                return Ok(None);
            }
            let mut all = Vec::new();
            for name in names {
                all.extend(numbers(kind, name)?);
            }
            Ok(Some(all))
        };
        Ok(flows::Filter {
            addresses: self.address.clone(),
            ports: self.port.clone(),
            protocols: self.proto.clone(),
            states: self.state.clone(),
            ways: self.way.clone(),
            virtuals: of(Kind::Virtual, &self.service)?,
            members: of(Kind::Member, &self.member)?,
            rules: of(Kind::Rule, &self.rule)?,
            v4: match (self.ipv4, self.ipv6) {
                (true, _) => Some(true),
                (_, true) => Some(false),
                _ => None,
            },
            silent: self.silent.unwrap_or_default(),
        })
    }
}

pub(crate) use fastpath::names::Kind;

#[derive(Args)]
pub(crate) struct Shun {
    #[command(subcommand)]
    pub(crate) what: ShunCommand,
    #[command(flatten)]
    pub(crate) place: Where,
}

/// What can be done with the shun list.
#[derive(Subcommand)]
pub(crate) enum ShunCommand {
    /// Have packets from addresses or prefixes dropped
    Add {
        /// Addresses or prefixes
        #[arg(value_name = "SOURCE", required_unless_present = "file")]
        sources: Vec<Prefix>,
        /// More of them from a file, one a line; - for standard input
        #[arg(long, value_name = "FILE")]
        file: Option<PathBuf>,
        /// For how long: 30s, 5m, 1h, 2d; 24 days at most
        #[arg(long = "for", value_name = "TIME", default_value = "1h", value_parser = duration)]
        lasting: Duration,
        /// A number that `list` shows
        #[arg(long, default_value_t = 0)]
        reason: u32,
    },
    /// Let addresses or prefixes pass again
    Remove {
        /// Addresses or prefixes, as they were added
        #[arg(value_name = "SOURCE", required = true)]
        sources: Vec<Prefix>,
    },
    /// List what is shunned
    List {
        /// At most so many
        #[arg(long, default_value_t = 1000)]
        limit: usize,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Let everybody pass again
    Flush,
}

fn mode(text: &str) -> Result<Wanted, String> {
    match text {
        "auto" => Ok(Wanted::Auto),
        "native" => Ok(Wanted::Native),
        "generic" => Ok(Wanted::Generic),
        _ => Err("there are: auto, native, generic".to_owned()),
    }
}

fn protocol(text: &str) -> Result<u8, String> {
    fastpath::see::protocol_number(text)
        .ok_or_else(|| "no protocol that is known by name, and no number".to_owned())
}

fn state(text: &str) -> Result<State, String> {
    let all = || State::ALL.iter().filter(|state| **state != State::Free);
    let found = all().find(|state| state.name() == text).copied();
    found.ok_or_else(|| {
        let names: Vec<&str> = all().map(|state| state.name()).collect();
        format!("there are: {}", names.join(", "))
    })
}

fn way(text: &str) -> Result<Way, String> {
    let found = Way::ALL.iter().find(|way| way.name() == text).copied();
    found.ok_or_else(|| {
        let names: Vec<&str> = Way::ALL.iter().map(|way| way.name()).collect();
        format!("there are: {}", names.join(", "))
    })
}
