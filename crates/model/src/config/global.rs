//! What concerns the whole process: workers, the admin interface, logs, limits, address lists.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use addr::{Prefix, PrefixSet};

use crate::config::{Monitor, Pool, TlsProfile, Virtual};
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
        /// Files whose virtuals, pools, monitors, TLS profiles and address lists are added: paths or patterns with
        /// `*` and `?`, relative to this file.
        pub include: Vec<String> = Vec::new(),
        /// The admin interface.
        pub admin: Admin = Admin::default(),
        /// Logs of the process and, unless a virtual says otherwise, of traffic.
        pub log: Log = Log::default(),
        /// Limits on the whole process.
        pub limits: ProcessLimits = ProcessLimits::default(),
        /// Named lists of addresses.
        pub address_lists: BTreeMap<Name, AddressList> = BTreeMap::new(),
        /// Named ways to see whether a member works.
        pub monitors: BTreeMap<Name, Monitor> = BTreeMap::new(),
        /// Named groups of members that serve the same.
        pub pools: BTreeMap<Name, Pool> = BTreeMap::new(),
        /// Named settings of TLS towards clients.
        pub tls_profiles: BTreeMap<Name, TlsProfile> = BTreeMap::new(),
        /// Named services: where clients connect and what happens to them.
        pub virtuals: BTreeMap<Name, Virtual> = BTreeMap::new(),
    }
}

impl Config {
    /// The addresses that `entries` mean, lists looked up.
    #[must_use]
    pub fn prefix_set(&self, entries: &[AddressEntry]) -> PrefixSet {
        let prefixes = entries.iter().flat_map(|entry| match entry {
            AddressEntry::Prefix(prefix) => std::slice::from_ref(prefix),
            AddressEntry::List(name) => self
                .address_lists
                .get(&**name)
                .map_or(&[][..], |list| &list.prefixes),
        });
        prefixes.collect()
    }
}

config! {
    /// How many worker threads serve traffic.
    pub enum Workers {
        /// One a core that the process may use.
        Auto = "auto",
        /// This many.
        Count(usize) = "count",
    }
}

config! {
    /// The admin interface: API, metrics, and what `headgate status` asks.
    pub struct Admin {
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
    pub struct AccessLog {
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
    pub enum FileDescriptors {
        /// What the limit on connections needs.
        Auto = "auto",
        /// This many.
        Count(u64) = "count",
    }
}

config! {
    /// A list of addresses.
    pub struct AddressList {
        /// Prefixes and addresses that stand in the configuration, and those of `file`.
        pub prefixes: Vec<Prefix> = Vec::new(),
        /// A file of them: one a line, `#` starts a comment.
        pub file: Option<FilePath> = None,
    }
}

config! {
    /// An entry where addresses are asked for.
    pub enum AddressEntry {
        /// A prefix or address.
        Prefix(Prefix) = "prefix",
        /// The name of an address list.
        List(AddressListName) = "list",
    }
}
