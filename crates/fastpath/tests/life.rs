//! The life of the fast path in namespaces: loading, attaching, restarting, new tables in the place of others. Needs root;
//! without it, it says so and passes.

#![expect(clippy::unwrap_used, reason = "a test that fails says where")]

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use fastpath::abi::{Reason, Settings, State};
use fastpath::flows::{self, Filter};
use fastpath::members::Verdict;
use fastpath::stats::Stats;
use fastpath::{Capacities, Clock, FastPath, Instance, Pins, StartError, detach};
use model::{Config, MemorySource};
use xdp::netns::{Namespace, veth};

/// Whether these tests can do anything here.
fn able() -> bool {
    match xdp::require::check() {
        Ok(()) => true,
        Err(missing) => {
            eprintln!("passed over: {missing}");
            false
        }
    }
}

fn small() -> Capacities {
    Capacities {
        flows_v4: 4096,
        flows_v6: 4096,
        half_open: 1024,
        fragments: 256,
        shuns: 1024,
        users: 256,
    }
}

#[test]
fn the_programs_load_and_know_their_capacities() {
    if !able() {
        return;
    }
    let clock = Clock::start().unwrap();
    let instance = Instance::load(&small(), &Settings::new(clock.hz(), [1, 2])).unwrap();
    assert_eq!(instance.settings().slots6, 4096);
    assert_eq!(instance.tables().mapped("flows4").unwrap().len(), 4096);
    for name in instance.programs() {
        instance.program_named(&name).unwrap();
    }
    assert_eq!(
        instance.settings().timeout[State::Udp as usize],
        30 * clock.hz()
    );
}

#[test]
fn the_clock_ticks_as_the_kernel_does() {
    if !able() {
        return;
    }
    let clock = Clock::start().unwrap();
    let before = clock.now().unwrap();
    let mut now = before;
    while now == before {
        now = clock.now().unwrap();
    }
    assert!(now.wrapping_sub(before) < clock.hz());
}

#[test]
fn what_an_earlier_process_left_is_taken_over_and_forwards_meanwhile() {
    if !able() {
        return;
    }
    let world = World::new();
    let config = world.config("");
    let path = world.start(&config);
    let mut talks = Talk::all(&world);
    talks.iter_mut().for_each(Talk::again);
    assert!(world.count(&path, Reason::ForwardFlow) > 0);
    let flows = world.flows(&path);
    assert!(flows >= 4, "{flows}");

    // As when the process is killed.
    drop(path);
    talks.iter_mut().for_each(Talk::again);
    let mut late = Talk::all(&world);
    late.iter_mut().for_each(Talk::again);

    let path = world.start(&config);
    assert!(world.flows(&path) > flows);
    let before = world.count(&path, Reason::ForwardFlow);
    talks.iter_mut().chain(&mut late).for_each(Talk::again);
    assert!(world.count(&path, Reason::ForwardFlow) > before);
    assert_eq!(world.pins().sets().unwrap().len(), 1);

    let names = world.router.run(|| detach(&world.pins()).unwrap());
    assert_eq!(names, ["r0", "r1"]);
    assert!(!Path::new(&world.root).exists());
    talks.iter_mut().for_each(Talk::again);
}

#[test]
fn flows_move_to_new_tables_and_the_old_ones_go() {
    if !able() {
        return;
    }
    let world = World::new();
    let nat =
        "source_nat: [{name: all, from: ['10.1.0.0/24', 'fd01::/64'], out: r1, per_user: 100}],";
    let path = world.start(&world.config(nat));
    let mut talks = Talk::all(&world);
    talks.iter_mut().for_each(Talk::again);
    let flows = world.flows(&path);
    assert!(flows >= 4, "{flows}");

    let larger = world.config(&format!(
        "{nat} timeouts: {{udp: 29s}}, tables: {{flows_v4: 8192, half_open: 64}},"
    ));
    world.router.run(|| path.apply(&larger, &known).unwrap());
    assert_eq!(world.pins().sets().unwrap().len(), 2);
    talks.iter_mut().for_each(Talk::again);
    wait_for(|| {
        world.router.run(|| path.tick().unwrap());
        world.pins().sets().unwrap().len() == 1
    });
    assert!(world.flows(&path) >= flows);
    let before = world.count(&path, Reason::ForwardFlow);
    let made = world.count(&path, Reason::FlowCreated);
    talks.iter_mut().for_each(Talk::again);
    assert!(world.count(&path, Reason::ForwardFlow) > before);
    assert_eq!(world.count(&path, Reason::FlowCreated), made);
    let users: Vec<u32> = path.with_tables(|tables, _| {
        let users = tables.entries::<[u8; 16], u32>("users").unwrap();
        users.into_iter().map(|(_, flows)| flows).collect()
    });
    assert_eq!(users.iter().sum::<u32>() as usize, world.flows(&path));
}

#[test]
fn a_member_that_is_down_gets_no_connections() {
    if !able() {
        return;
    }
    let world = World::new();
    let config = world.config_with(
        "",
        "pools: {app: {members: ['10.2.0.2:7001', '10.2.0.2:7002', '[fd02::2]:7001', '[fd02::2]:7002']}}
virtuals: {app: {protocol: fast, listen: ['192.0.2.1:80', '[2001:db8::1]:80'], pool: app}}",
    );
    let path = world.start(&config);
    for (vip, member) in [
        ("192.0.2.1:80", "10.2.0.2"),
        ("[2001:db8::1]:80", "fd02::2"),
    ] {
        let member: IpAddr = member.parse().unwrap();
        for port in [7001, 7002] {
            serve(&world, SocketAddr::new(member, port));
        }
        let mut ports = Vec::new();
        for _ in 0..12 {
            ports.push(ask(&world, vip));
        }
        assert!(ports.contains(&7001) && ports.contains(&7002), "{ports:?}");
        let down = |_: &str, address: SocketAddr| {
            (address.port() == 7001).then_some(Verdict {
                health: balance::Health::Down,
                admin: balance::Admin::Enabled,
                weight: 1,
            })
        };
        world.router.run(|| path.members(&config, &down).unwrap());
        for _ in 0..6 {
            assert_eq!(ask(&world, vip), 7002);
        }
        world.router.run(|| path.members(&config, &known).unwrap());
    }
}

#[test]
fn an_interface_that_comes_again_has_its_program_again() {
    if !able() {
        return;
    }
    let world = World::new();
    let path = world.start(&world.config(""));
    world.router.ip(&["link delete r1"]).unwrap();
    world.router.run(|| path.tick().unwrap());
    let attached = || world.router.run(|| world.pins().links().unwrap().len());
    assert_eq!(attached(), 1);
    world.connect_server();
    world.router.run(|| path.tick().unwrap());
    assert_eq!(attached(), 2);
    for mut talk in Talk::all(&world) {
        talk.again();
    }
    assert!(world.count(&path, Reason::ForwardFlow) > 0);
}

#[test]
fn a_start_that_fails_leaves_nothing_behind() {
    if !able() {
        return;
    }
    let world = World::new();
    let config = parse(&format!(
        "fast_path: {{interfaces: [r0, absent0], pin: {}}}",
        world.root
    ));
    let error = world
        .router
        .run(|| FastPath::start(&config, &known).map(|_| ()).unwrap_err());
    assert!(matches!(error, StartError::Interface { .. }), "{error}");
    assert!(error.to_string().contains("absent0"), "{error}");
    assert!(!Path::new(&world.root).exists());
}

/// Client, router, server, with both families.
struct World {
    client: Namespace,
    router: Namespace,
    server: Namespace,
    root: String,
}

impl World {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let [client, router, server] = [(); 3].map(|()| Namespace::new().unwrap());
        for switch in ["net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding"] {
            router.sysctl(switch, "1").unwrap();
        }
        let world = Self {
            client,
            router,
            server,
            root: format!("/sys/fs/bpf/hg-life-{}-{count}", process::id()),
        };
        world.connect(&world.client, "c0", "r0", 1);
        world.connect_server();
        world
    }

    fn connect_server(&self) {
        self.connect(&self.server, "s0", "r1", 2);
    }

    fn connect(&self, host: &Namespace, device: &str, inner: &str, net: u8) {
        veth(host, device, &self.router, inner).unwrap();
        for (net, len) in [(format!("10.{net}.0."), 24), (format!("fd0{net}::"), 64)] {
            host.address(device, &format!("{net}2/{len}")).unwrap();
            self.router
                .address(inner, &format!("{net}1/{len}"))
                .unwrap();
            host.route("default", &format!("{net}1")).unwrap();
        }
        host.offloads_off(device).unwrap();
        host.gro(device, true).unwrap();
    }

    fn config(&self, path: &str) -> Config {
        self.config_with(path, "")
    }

    fn config_with(&self, path: &str, more: &str) -> Config {
        let tables = match path.contains("tables:") {
            true => "",
            false => "tables: {flows_v4: 4096, flows_v6: 4096, half_open: 1024, shuns: 1024},",
        };
        parse(&format!(
            "fast_path: {{interfaces: [r0, r1], {path} {tables} pin: {}}}\n{more}\n",
            self.root
        ))
    }

    fn start(&self, config: &Config) -> FastPath {
        let started = self.router.run(|| FastPath::start(config, &known));
        started.unwrap_or_else(|error| panic!("{error}")).unwrap()
    }

    fn pins(&self) -> Pins {
        Pins::at(&self.root)
    }

    fn count(&self, path: &FastPath, reason: Reason) -> u64 {
        path.with_tables(|tables, _| Stats::read(tables).unwrap().of(reason))
    }

    fn flows(&self, path: &FastPath) -> usize {
        let now = path.now().unwrap();
        path.with_tables(|tables, settings| {
            let filter = Filter::default();
            let count = flows::count(tables, settings, now, &filter).unwrap();
            (count.flows - count.half_open) as usize
        })
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let pins = self.pins();
        drop(self.router.run(|| detach(&pins)));
    }
}

/// Two sockets that go on talking through the router.
struct Talk {
    client: Ends,
    server: Ends,
}

enum Ends {
    Udp(UdpSocket),
    Tcp(TcpStream),
}

impl Talk {
    fn all(world: &World) -> Vec<Self> {
        let mut talks = Vec::new();
        for (there, any) in [("10.2.0.2", "10.1.0.2:0"), ("fd02::2", "[fd01::2]:0")] {
            let there: IpAddr = there.parse().unwrap();
            let at = SocketAddr::new(there, 0);
            let listener = world.server.run(|| TcpListener::bind(at).unwrap());
            let to = listener.local_addr().unwrap();
            let client = world
                .client
                .run(|| TcpStream::connect_timeout(&to, PATIENCE).unwrap());
            let (server, _) = listener.accept().unwrap();
            talks.push(Self::new(Ends::Tcp(client), Ends::Tcp(server)));

            let server = world.server.run(|| UdpSocket::bind(at).unwrap());
            let to = server.local_addr().unwrap();
            let client = world.client.run(|| UdpSocket::bind(any).unwrap());
            client.connect(to).unwrap();
            talks.push(Self::new(Ends::Udp(client), Ends::Udp(server)));
        }
        talks
    }

    fn new(client: Ends, server: Ends) -> Self {
        for end in [&client, &server] {
            match end {
                Ends::Udp(socket) => socket.set_read_timeout(Some(PATIENCE)).unwrap(),
                Ends::Tcp(socket) => socket.set_read_timeout(Some(PATIENCE)).unwrap(),
            }
        }
        let mut talk = Self { client, server };
        talk.again();
        talk
    }

    /// Four packets with data each way.
    fn again(&mut self) {
        let mut buffer = [0; 16];
        for _ in 0..4 {
            match (&mut self.client, &mut self.server) {
                (Ends::Tcp(client), Ends::Tcp(server)) => {
                    client.write_all(b"there").unwrap();
                    server.read_exact(&mut buffer[..5]).unwrap();
                    server.write_all(b"back").unwrap();
                    client.read_exact(&mut buffer[..4]).unwrap();
                }
                (Ends::Udp(client), Ends::Udp(server)) => {
                    client.send(b"there").unwrap();
                    let (_, from) = server.recv_from(&mut buffer).unwrap();
                    server.send_to(b"back", from).unwrap();
                    client.recv(&mut buffer).unwrap();
                }
                _ => unreachable!(),
            }
        }
    }
}

/// Answers connections with its port, for as long as the process lives.
fn serve(world: &World, at: SocketAddr) {
    let listener = world.server.run(|| TcpListener::bind(at).unwrap());
    thread::spawn(move || {
        while let Ok((mut socket, _)) = listener.accept() {
            drop(socket.write_all(&at.port().to_be_bytes()));
        }
    });
}

fn ask(world: &World, vip: &str) -> u16 {
    let mut socket = world
        .client
        .run(|| TcpStream::connect_timeout(&vip.parse().unwrap(), PATIENCE).unwrap());
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut port = [0; 2];
    socket.read_exact(&mut port).unwrap();
    u16::from_be_bytes(port)
}

const PATIENCE: Duration = Duration::from_secs(5);

fn wait_for(mut happened: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !happened() {
        assert!(Instant::now() < until, "waited in vain");
        thread::sleep(Duration::from_millis(10));
    }
}

fn known(_: &str, _: SocketAddr) -> Option<Verdict> {
    None
}

fn parse(text: &str) -> Config {
    model::parse_text(Path::new("test.yaml"), text, &MemorySource::default())
        .unwrap_or_else(|errors| panic!("{errors}\n{text}"))
}
