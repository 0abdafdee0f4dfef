//! What concerns the whole process: workers, the admin interface, logs, limits, address lists.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use addr::{Prefix, PrefixSet};

use crate::check;
use crate::config::{
    DataGroup, FastPath, Geography, Monitor, Pool, ReputationList, Rule, RuleFile, RuleLimits,
    TlsProfile, Virtual,
};
use crate::node::Node;
use crate::setting::{Context, Setting, in_range};
use crate::{AddressListName, Bytes, FilePath, Name, Secret};

config! {
    /// The whole configuration.
    pub struct Config {
        /// How many worker threads serve traffic: a number, or `auto` for one a core that the process may use.
        pub workers: Workers = Workers::Auto,
        /// The user to become once ports are bound. Without it the user stays.
        pub user: Option<String> = None,
        /// The group to become. Without it, the user's own.
        pub group: Option<String> = None,
        /// Files whose virtuals, pools, monitors, TLS profiles, address lists, rules, data groups and files of rules are
        /// added: paths or patterns with `*` and `?`, relative to this file.
        pub include: Vec<String> = Vec::new(),
        /// The admin interface.
        pub admin: Admin = Admin::default(),
        /// Logs of the process and, unless a virtual says otherwise, of traffic.
        pub log: Log = Log::default(),
        /// Limits on the whole process.
        pub limits: ProcessLimits = ProcessLimits::default(),
        /// The fast path, for virtuals of protocol fast, routing and source NAT. Without it the kernel has every packet first.
        pub fast_path: Option<FastPath> = None,
        /// Named lists of addresses.
        pub address_lists: BTreeMap<Name, AddressList> = BTreeMap::new(),
        /// Named ways to see whether a member works.
        pub monitors: BTreeMap<Name, Monitor> = BTreeMap::new(),
        /// Named groups of members that serve the same.
        pub pools: BTreeMap<Name, Pool> = BTreeMap::new(),
        /// Named settings of TLS towards clients.
        pub tls_profiles: BTreeMap<Name, TlsProfile> = BTreeMap::new(),
        /// Named rules: iRules that virtuals run.
        pub rules: BTreeMap<Name, Rule> = BTreeMap::new(),
        /// Named lists that rules look things up in: `class match`.
        pub data_groups: BTreeMap<Name, DataGroup> = BTreeMap::new(),
        /// Named files that rules send or read: `ifile get`.
        pub ifiles: BTreeMap<Name, RuleFile> = BTreeMap::new(),
        /// Where addresses are, for rules: `whereis`.
        pub geography: Geography = Geography::default(),
        /// Addresses with a bad reputation, for rules: `IP::reputation`.
        pub reputation: Vec<ReputationList> = Vec::new(),
        /// What rules may use up.
        pub rule_limits: RuleLimits = RuleLimits::default(),
        /// Named services: where clients connect and what happens to them.
        pub virtuals: BTreeMap<Name, Virtual> = BTreeMap::new(),
    }
}

impl Config {
    /// The addresses that `entries` mean, lists looked up.
    #[must_use]
    pub fn prefix_set(&self, entries: &[AddressEntry]) -> PrefixSet {
        let mut prefixes: Vec<Prefix> = Vec::new();
        for entry in entries {
            match entry {
                AddressEntry::Prefix(prefix) => prefixes.push(*prefix),
                AddressEntry::List(name) => {
                    let list = self.address_lists.get(name.as_str());
                    prefixes.extend(
                        list.into_iter()
                            .flat_map(|list| list.prefixes.iter().chain(&list.feed)),
                    );
                }
            }
        }
        prefixes.into_iter().collect()
    }
}

config! {
    /// How many worker threads serve traffic.
    pub enum Workers short("a number", short_count) {
        /// One a core that the process may use.
        Auto = "auto",
        /// This many.
        Count(usize) = "count",
    }
}

config! {
    /// The admin interface: API, metrics, and what `headgate status` asks.
    pub struct Admin check(check::admin) {
        /// A Unix socket, made with mode 0600.
        pub socket: Option<std::path::PathBuf> = None,
        /// A TCP address. Needs `token_file`, unless it is a loopback address and `insecure_no_token` is true.
        pub listen: Option<SocketAddr> = None,
        /// A file with the token that requests over TCP must bear.
        pub token: Option<Secret> as "token_file" = None,
        /// Lets everyone in who reaches the TCP address, which must be a loopback address.
        pub insecure_no_token: bool = false,
        /// Whether `/metrics` can be read over TCP without the token.
        pub metrics_without_token: bool = true,
    }
}

config! {
    /// Logs.
    pub struct Log {
        /// The least important of the process's messages that are written.
        pub level: LogLevel = LogLevel::Info,
        /// The form of the process's messages, which go to standard error.
        pub format: LogFormat = LogFormat::Text,
        /// The access log: a line for each exchange or TCP connection.
        pub access: AccessLog = AccessLog::default(),
    }
}

config! {
    /// How important a message is.
    pub enum LogLevel {
        /// Something failed.
        Error = "error",
        /// Something looks wrong.
        Warn = "warn",
        /// What an operator wants to know.
        Info = "info",
        /// What helps to find a fault.
        Debug = "debug",
        /// Everything.
        Trace = "trace",
    }
}

config! {
    /// The form of the process's messages.
    pub enum LogFormat {
        /// A line for people.
        Text = "text",
        /// A JSON object a line.
        Json = "json",
    }
}

config! {
    /// An access log.
    pub struct AccessLog short("a format: `off`, `text` or `json`", short_access_log) {
        /// The form of a line.
        pub format: AccessFormat = AccessFormat::Text,
        /// Where lines go.
        pub output: AccessOutput = AccessOutput::Stdout,
        /// The share of exchanges that is logged, from 0 to 1. Errors of Headgate's own are always logged.
        #[range(0, 1)]
        pub sample: f64 = 1.0,
        /// How much may wait to be written. When it is full, lines are dropped and counted; traffic never waits.
        #[range(4096, 1073741824)]
        pub buffer: Bytes = Bytes::kib(1024),
    }
}

config! {
    /// The form of an access log's lines.
    pub enum AccessFormat {
        /// Nothing is logged.
        Off = "off",
        /// Fields with timers and the termination reason, for people and their scripts.
        Text = "text",
        /// A JSON object a line.
        Json = "json",
    }
}

config! {
    /// Where an access log goes.
    pub enum AccessOutput {
        /// Standard output.
        Stdout = "stdout",
        /// Standard error.
        Stderr = "stderr",
        /// A file, appended to, and opened anew on reload.
        File(std::path::PathBuf) = "file",
    }
}

config! {
    /// Limits on the whole process.
    pub struct ProcessLimits {
        /// Client connections at a time, over all virtuals.
        #[range(1, 100000000)]
        pub connections: usize = 100_000,
        /// File descriptors: a number, or `auto` for what `connections` needs or the system allows.
        pub file_descriptors: FileDescriptors = FileDescriptors::Auto,
        /// How long a stopping process waits for its connections.
        pub drain: Duration = Duration::from_secs(30),
        /// How long a process that was replaced by an upgrade waits for its connections.
        pub upgrade_drain: Duration = Duration::from_secs(3600),
    }
}

config! {
    /// How many file descriptors the process asks for.
    pub enum FileDescriptors short("a number", short_descriptors) {
        /// What the limit on connections needs.
        Auto = "auto",
        /// This many.
        Count(u64) = "count",
    }
}

/// A list of addresses.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct AddressList {
    /// Prefixes and addresses that stand in the configuration.
    pub prefixes: Vec<Prefix>,
    /// A file of more.
    pub file: Option<FilePath>,
    /// What stood in `file` when the configuration was read.
    pub feed: Vec<Prefix>,
}

config! {
    /// An entry where addresses are asked for.
    pub enum AddressEntry short("a prefix or the name of an address list", short_address) {
        /// A prefix or address.
        Prefix(Prefix) = "prefix",
        /// The name of an address list.
        List(AddressListName) = "list",
    }
}

fn short_count(node: &Node, cx: &mut Context<'_>) -> Option<Workers> {
    let count = auto_or_number(node, cx)?;
    in_range(count, node, 1.0, 1024.0, cx).map(Workers::Count)
}

fn short_descriptors(node: &Node, cx: &mut Context<'_>) -> Option<FileDescriptors> {
    let count = auto_or_number(node, cx)?;
    in_range(count, node, 64.0, 1e9, cx).map(FileDescriptors::Count)
}

fn auto_or_number<T: Setting>(node: &Node, cx: &mut Context<'_>) -> Option<T> {
    const FORM: &str = "`auto` or a whole number";
    if cx
        .text(node, FORM)?
        .starts_with(|c: char| !c.is_ascii_digit())
    {
        cx.bad_value(node, FORM);
        return None;
    }
    T::decode(node, cx)
}

fn short_access_log(node: &Node, cx: &mut Context<'_>) -> Option<AccessLog> {
    let format = AccessFormat::decode(node, cx)?;
    Some(AccessLog {
        format,
        ..AccessLog::default()
    })
}

fn short_address(node: &Node, cx: &mut Context<'_>) -> Option<AddressEntry> {
    let text = cx.text(node, "a prefix, an address or the name of an address list")?;
    let numeric = text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    if numeric || text.contains([':', '/']) {
        return Prefix::decode(node, cx).map(AddressEntry::Prefix);
    }
    AddressListName::decode(node, cx).map(AddressEntry::List)
}
