//! A network of namespaces around a router on which Headgate runs, with real endpoints on both sides.
//!
//! ```text
//! client 10.1.0.2 ── left │ router │ right ──┬ switch ┬── servers 10.2.0.11, .12, .13
//!        fd00:1::2        │  .1    │         │        │           fd00:2::11, ::12, ::13
//!        10.2.0.2 ────────────────────────── past ────┘
//! ```
//!
//! Servers answer what came to them by the router, unless [`Network::answer_past_the_router`] is called.

use crate::place::Dir;
use crate::{Builder, Headgate, within};
use fastpath::abi::Reason;
use fastpath::decap;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, UdpSocket};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Once};
use std::thread::JoinHandle;
use std::time::Duration;
use xdp::attach::Wanted;
use xdp::netns::{self, Namespace};

/// The family of addresses: everything is tried with both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// Both.
pub const FAMILIES: [Family; 2] = [Family::V4, Family::V6];

impl Family {
    /// An address of the network: host `host` of link 1 (clients), 2 (servers) or any other.
    pub fn host(self, link: u8, host: u8) -> IpAddr {
        match self {
            Self::V4 => Ipv4Addr::new(10, link, 0, host).into(),
            // Read as decimal, as in IPv4.
            Self::V6 => {
                let digits = u16::from_str_radix(&host.to_string(), 16).unwrap();
                Ipv6Addr::new(0xfd00, link.into(), 0, 0, 0, 0, 0, digits).into()
            }
        }
    }

    /// That link's network.
    pub fn link(self, link: u8) -> String {
        match self {
            Self::V4 => format!("10.{link}.0.0/24"),
            Self::V6 => format!("fd00:{link:x}::/64"),
        }
    }

    /// A virtual's address: no link has it, the client sends it to the router.
    pub fn service(self, host: u8) -> IpAddr {
        self.host(9, host)
    }

    /// The option of programs such as ping.
    pub fn option(self) -> &'static str {
        match self {
            Self::V4 => "-4",
            Self::V6 => "-6",
        }
    }

    fn whole(self) -> u8 {
        match self {
            Self::V4 => 32,
            Self::V6 => 128,
        }
    }
}

/// An address with a port, as URLs and configurations have it.
pub fn at(address: IpAddr, port: u16) -> String {
    SocketAddr::new(address, port).to_string()
}

/// Whether the fast path can be tried here; where it can't, this says why.
pub fn possible() -> bool {
    match xdp::require::check() {
        Ok(()) => true,
        Err(missing) => {
            eprintln!("passed over: {missing}");
            false
        }
    }
}

/// The number of servers.
pub const SERVERS: u8 = 3;

/// The namespaces. Dropping it removes them, and what is pinned.
pub struct Network {
    /// Where clients are.
    pub client: Namespace,
    /// Where Headgate runs: its interfaces are `left` and `right`.
    pub router: Namespace,
    /// A bridge.
    pub switch: Namespace,
    /// Hosts 11, 12 and 13 of link 2, with the interface `eth0`.
    pub servers: Vec<Namespace>,
    pins: Pins,
    state: Arc<Dir>,
}

impl Network {
    /// Makes it, with routes, and nothing attached.
    pub fn new() -> Self {
        let client = Namespace::new().unwrap();
        let router = Namespace::new().unwrap();
        let switch = Namespace::new().unwrap();
        for namespace in [&client, &router] {
            for switch in ["all", "default"] {
                sysctl(namespace, &format!("net.ipv4.conf.{switch}.rp_filter"), "0");
            }
        }
        sysctl(&router, "net.ipv4.ip_forward", "1");
        sysctl(&router, "net.ipv6.conf.all.forwarding", "1");
        // Errors are what some of the tests wait for.
        sysctl(&router, "net.ipv4.icmp_ratelimit", "0");
        sysctl(&router, "net.ipv6.icmp.ratelimit", "0");

        netns::veth(&client, "eth0", &router, "left").unwrap();
        netns::veth(&router, "right", &switch, "uplink").unwrap();
        netns::veth(&client, "past", &switch, "past").unwrap();
        for interface in ["eth0", "past"] {
            endpoint(&client, interface);
        }
        for interface in ["left", "right"] {
            endpoint(&router, interface);
        }
        let mut ports = vec!["uplink".to_owned(), "past".to_owned()];
        let servers: Vec<Namespace> = (0..SERVERS)
            .map(|n| {
                let server = Namespace::new().unwrap();
                let port = format!("port{n}");
                netns::veth(&server, "eth0", &switch, &port).unwrap();
                endpoint(&server, "eth0");
                ports.push(port);
                server
            })
            .collect();
        switch
            .ip(&[
                "link add bridge type bridge forward_delay 0 mcast_snooping 0",
                "link set bridge up",
            ])
            .unwrap();
        for port in &ports {
            endpoint(&switch, port);
            switch
                .ip(&[&format!("link set {port} master bridge")])
                .unwrap();
        }
        for family in FAMILIES {
            let of = |link, host, interface, namespace: &Namespace| {
                let len = family.link(link);
                let (_, len) = len.split_once('/').unwrap();
                let address = format!("{}/{len}", family.host(link, host));
                namespace.address(interface, &address).unwrap();
            };
            of(1, 2, "eth0", &client);
            of(1, 1, "left", &router);
            of(2, 1, "right", &router);
            for (host, server) in (11..).zip(&servers) {
                of(2, host, "eth0", server);
                let router = family.host(2, 1).to_string();
                server.route("default", &router).unwrap();
            }
            // The client's other link has no network of its own: it is there to be answered over.
            let past = format!("{}/{}", family.host(2, 2), family.whole());
            client.address("past", &past).unwrap();
            let router = family.host(1, 1).to_string();
            client.route("default", &router).unwrap();
        }
        Self {
            client,
            router,
            switch,
            servers,
            pins: Pins::new(),
            state: Arc::new(Dir::new()),
        }
    }

    /// Has servers answer clients directly over the switch.
    pub fn answer_past_the_router(&self) {
        let mac = hex(self.client.mac("past").unwrap());
        for family in FAMILIES {
            let client = family.host(1, 2);
            for server in &self.servers {
                server
                    .ip(&[
                        &format!("route add {client} dev eth0"),
                        &format!("neighbour replace {client} lladdr {mac} dev eth0 nud permanent"),
                    ])
                    .unwrap();
            }
        }
    }

    /// Gives servers addresses that they answer from and don't tell anyone of.
    pub fn on_loopback(&self, addresses: &[IpAddr]) {
        for server in &self.servers {
            sysctl(server, "net.ipv4.conf.all.arp_ignore", "1");
            sysctl(server, "net.ipv4.conf.all.arp_announce", "2");
            for address in addresses {
                let len = if address.is_ipv4() { 32 } else { 128 };
                server.address("lo", &format!("{address}/{len}")).unwrap();
            }
        }
    }

    /// Puts our own program for members on a machine's `eth0`, until what is returned is dropped. A veth also needs an XDP
    /// program to receive what the program at its other end sends back (XDP_TX).
    pub fn unpack<'n>(&self, machine: &'n Namespace) -> Unpacking<'n> {
        let root = format!("{}-{}", self.pins(), machine.name()).into();
        let unpacking = Unpacking { machine, root };
        machine
            .run(|| decap::attach_at(&unpacking.root, "eth0", Wanted::Native, &[]))
            .unwrap();
        unpacking
    }

    /// Where Headgate pins its tables: `pin` of its configuration.
    pub fn pins(&self) -> &str {
        &self.pins.0
    }

    /// What is to be said of the fast path, with more of it.
    pub fn fast_path(&self, more: &str) -> String {
        format!(
            "fast_path:\n  interfaces: [left, right]\n  pin: {}\n{more}\n",
            self.pins()
        )
    }

    /// Starts Headgate on the router and waits until it serves.
    pub fn start(&self, config: &str) -> Headgate {
        self.builder().start(config)
    }

    /// What will start a Headgate on the router.
    pub fn builder(&self) -> Builder {
        // Not `ip netns exec`: that brings a /sys of its own, which has no place for pins.
        let namespace = format!("--net=/run/netns/{}", self.router.name());
        Builder::new().wrapped(&["nsenter", &namespace])
    }

    /// Runs a command of headgate on the router. It finds the pins by `--config` if that is said.
    pub fn headgate(&self, args: &[&str]) -> (bool, String) {
        let program = crate::binary().display().to_string();
        run_in(&self.router, &program, args)
    }

    /// What the fast path has counted for a reason, over all of its processors; 0 where nothing is attached.
    pub fn counted(&self, reason: Reason) -> u64 {
        let set = fastpath::pins::Pins::at(self.pins()).current();
        let Ok(Some(set)) = set else { return 0 };
        let tables = set.tables().unwrap();
        fastpath::stats::Stats::read(&tables).unwrap().of(reason)
    }

    /// Files of the test's.
    pub fn dir(&self) -> &Dir {
        &self.state
    }

    /// A server of HTTP and of datagrams on each server at a port: see [`Service`].
    pub fn services(&self, port: u16) -> Vec<Service> {
        let numbers = 0..self.servers.len();
        numbers.map(|n| self.service(n, port)).collect()
    }

    /// The same on one of them.
    pub fn service(&self, server: usize, port: u16) -> Service {
        let name = format!("s{}", server + 1);
        self.servers[server].run(|| Service::start(name, port))
    }

    /// Fetches by curl from the client: what was answered, or curl's complaint.
    pub fn curl(&self, url: &str, more: &[&str]) -> Result<String, String> {
        let mut args = vec!["-sS", "-g", "--noproxy", "*", "-m", "10"];
        args.extend(more);
        args.push(url);
        match run_in(&self.client, "curl", &args) {
            (true, answer) => Ok(answer),
            (false, complaint) => Err(complaint),
        }
    }

    /// Sends a datagram from the client and returns the answer, or nothing after three tries.
    pub fn ask(&self, to: SocketAddr, text: &str) -> Option<String> {
        self.client.run(|| {
            let any: IpAddr = if to.is_ipv4() {
                Ipv4Addr::UNSPECIFIED.into()
            } else {
                Ipv6Addr::UNSPECIFIED.into()
            };
            let socket = UdpSocket::bind((any, 0)).unwrap();
            socket.connect(to).unwrap();
            socket
                .set_read_timeout(Some(Duration::from_millis(700)))
                .unwrap();
            for _ in 0..3 {
                let mut answer = vec![0; 65536];
                if socket.send(text.as_bytes()).is_ok()
                    && let Ok(len) = socket.recv(&mut answer)
                {
                    answer.truncate(len);
                    return Some(String::from_utf8(answer).unwrap());
                }
            }
            None
        })
    }
}

impl Default for Network {
    fn default() -> Self {
        Self::new()
    }
}

/// A place for pins, which goes when it is dropped.
struct Pins(String);

impl Pins {
    fn new() -> Self {
        static SWEPT: Once = Once::new();
        SWEPT.call_once(sweep);
        let name = Dir::new().path().file_name().unwrap().to_owned();
        Self(format!("{BPFFS}/{}", name.to_str().unwrap()))
    }
}

const BPFFS: &str = "/sys/fs/bpf";

/// Removes what tests that were killed have left pinned.
fn sweep() {
    for entry in std::fs::read_dir(BPFFS).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let owner = name
            .strip_prefix("headgate-tests-")
            .and_then(|rest| rest.split('-').next()?.parse::<u32>().ok());
        if owner.is_some_and(|pid| !std::path::Path::new(&format!("/proc/{pid}")).exists()) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

impl Drop for Pins {
    fn drop(&mut self) {
        // Where nothing was pinned there is nothing.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The program for members on a machine.
pub struct Unpacking<'n> {
    machine: &'n Namespace,
    root: PathBuf,
}

impl Drop for Unpacking<'_> {
    fn drop(&mut self) {
        let _ = self.machine.run(|| decap::detach_at(&self.root, "eth0"));
        let _ = std::fs::remove_dir_all(&self.root);
    }
}

/// Makes one end of a link fit for the kernel's sockets and for packets that XDP redirects to the other end.
fn endpoint(namespace: &Namespace, interface: &str) {
    namespace.offloads_off(interface).unwrap();
    namespace.gro(interface, true).unwrap();
}

fn sysctl(namespace: &Namespace, name: &str, value: &str) {
    namespace.sysctl(name, value).unwrap();
}

fn hex(mac: [u8; 6]) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}

/// Runs a program in a namespace for at most half a minute: whether it succeeded, and what it wrote.
pub fn run_in(namespace: &Namespace, program: &str, args: &[&str]) -> (bool, String) {
    let output = namespace
        .command("timeout")
        .arg("30")
        .arg(program)
        .args(args)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_ne!(
        output.status.code(),
        Some(127),
        "{program} is not installed: `make test` does that"
    );
    let text = [output.stdout, output.stderr].concat();
    (
        output.status.success(),
        String::from_utf8_lossy(&text).into_owned(),
    )
}

/// Servers at one port of all addresses of a namespace. Over HTTP and by datagram it says `NAME CLIENT` and the datagram's
/// text. A path that is a number answers with so many bytes instead. `/health` says `ok`.
pub struct Service {
    listener: socket2::Socket,
    socket: UdpSocket,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Service {
    /// Starts in the thread's namespace.
    fn start(name: String, port: u16) -> Self {
        let any = SocketAddr::from((Ipv6Addr::UNSPECIFIED, port));
        let listener = TcpListener::bind(any).unwrap();
        let socket = UdpSocket::bind(any).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        socket
            .set_read_timeout(Some(Duration::from_millis(100)))
            .unwrap();
        let accepting = listener.try_clone().unwrap();
        let told = name.clone();
        let tcp = std::thread::spawn(move || {
            while let Ok((stream, peer)) = accepting.accept() {
                let name = told.clone();
                std::thread::spawn(move || answer(stream, &name, peer));
            }
        });
        let (datagrams, stopped) = (socket.try_clone().unwrap(), stop.clone());
        let udp = std::thread::spawn(move || {
            let mut text = vec![0; 65536];
            while !stopped.load(Relaxed) {
                if let Ok((len, peer)) = datagrams.recv_from(&mut text) {
                    let text = String::from_utf8_lossy(&text[..len]);
                    let said = format!("{name} {} {text}", peer.ip().to_canonical());
                    let _ = datagrams.send_to(said.as_bytes(), peer);
                }
            }
        });
        Self {
            listener: listener.into(),
            socket,
            stop,
            threads: vec![tcp, udp],
        }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        // That wakes the thread, which a connection from another namespace could not.
        let _ = self.listener.shutdown(Shutdown::Both);
        let _ = self.socket.set_read_timeout(Some(Duration::from_millis(1)));
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Answers requests until the connection ends. A line without `HTTP` in it comes back as it is.
fn answer(mut stream: std::net::TcpStream, name: &str, peer: SocketAddr) {
    let mut got = Vec::new();
    let mut part = [0; 4096];
    while let Ok(len @ 1..) = stream.read(&mut part) {
        got.extend(&part[..len]);
        while let Some(end) = got.iter().position(|&byte| byte == b'\n') {
            let line = String::from_utf8_lossy(&got[..=end]).into_owned();
            if !line.contains("HTTP/") {
                got.drain(..=end);
                if stream.write_all(line.as_bytes()).is_err() {
                    return;
                }
                continue;
            }
            let Some(end) = got.windows(4).position(|four| four == b"\r\n\r\n") else {
                break;
            };
            got.drain(..end + 4);
            let path = line.split(' ').nth(1).unwrap_or_default().trim_matches('/');
            let body = match path.parse::<usize>() {
                Ok(len) => crate::noise(len as u64, len),
                Err(_) if path == "health" => b"ok".to_vec(),
                Err(_) => format!("{name} {}", peer.ip().to_canonical()).into(),
            };
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
            if stream
                .write_all(&[head.into_bytes(), body].concat())
                .is_err()
            {
                return;
            }
        }
    }
}

/// Waits until something holds on the way to what a test wants.
///
/// # Panics
/// If it does not within ten seconds.
pub fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    within(crate::PATIENCE, what, || holds().then_some(()));
}

/// Ends a process at once, as the kernel does when memory runs out.
pub fn kill(pid: u32) {
    let done = Command::new("kill")
        .args(["-s", "KILL", &pid.to_string()])
        .status();
    assert!(done.unwrap().success());
}
