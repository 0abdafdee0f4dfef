//! The fast path's life beside the process: restarts, upgrades, other tables, no process at all, no rights, no native mode.

use fastpath::abi::Reason;
use headgate_tests::Builder;
use headgate_tests::network::{FAMILIES, Family, Network, at, kill, possible, run_in, wait_for};
use std::io::{BufRead, BufReader, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;

/// Source NAT for clients, and a virtual a family on which server 2 is reached.
fn config(network: &Network, more: &str) -> String {
    let mut out = network.fast_path(&format!(
        "{more}  source_nat:\n    - {{name: all, from: ['10.1.0.0/24', 'fd00:1::/64'], out: right, translate: masquerade}}"
    ));
    out.push_str("pools:\n");
    for (name, family) in [("four", Family::V4), ("six", Family::V6)] {
        out.push_str(&format!(
            "  {name}: {{members: ['{}']}}\n",
            at(family.host(2, 12), 80)
        ));
    }
    out.push_str("virtuals:\n");
    for (name, family) in [("four", Family::V4), ("six", Family::V6)] {
        let listen = at(family.service(1), 80);
        out.push_str(&format!(
            "  {name}: {{protocol: fast, listen: '{listen}', pool: {name}, snat: automap}}\n"
        ));
    }
    out
}

#[test]
fn nothing_is_lost_by_reloads_upgrades_other_tables_restarts_and_kills() {
    if !possible() {
        return;
    }
    let network = Network::new();
    let servers = network.services(80);
    let gate = network.start(&config(&network, ""));
    let mut traffic = Vec::new();
    for family in FAMILIES {
        for to in [family.host(2, 11), family.service(1)] {
            traffic.push(
                network
                    .client
                    .run(|| Traffic::lines(SocketAddr::new(to, 80))),
            );
        }
        let to = SocketAddr::new(family.host(2, 13), 80);
        traffic.push(network.client.run(|| Traffic::datagrams(to)));
    }
    let go_on = |after: &str| traffic.iter().for_each(|one| one.more(50, after));
    go_on("the start");
    gate.reconfigure(&config(&network, "  timeouts: {udp: 20s}\n"));
    go_on("a reload");
    gate.reconfigure(&config(
        &network,
        "  tables: {flows_v4: 200_000, flows_v6: 100_000}\n",
    ));
    go_on("a change of the tables");
    let before = gate.pid();
    gate.signal("USR2");
    wait_for("the upgrade", || gate.pid() != before);
    go_on("an upgrade");
    kill(gate.pid());
    go_on("a kill");
    let again = network.start(&config(
        &network,
        "  tables: {flows_v4: 200_000, flows_v6: 100_000}\n",
    ));
    go_on("a start after that");
    again.signal("TERM");
    again.wait(Duration::from_secs(10));
    go_on("an end");
    let third = network.start(&config(
        &network,
        "  tables: {flows_v4: 200_000, flows_v6: 100_000}\n",
    ));
    go_on("a restart");
    for one in traffic {
        one.end();
    }
    drop((gate, third, servers));
}

#[test]
fn without_a_process_flows_begin_and_end_and_routes_and_neighbours_change() {
    if !possible() {
        return;
    }
    let network = Network::new();
    let _servers = network.services(80);
    for family in FAMILIES {
        network
            .router
            .route(&family.link(7), &family.host(2, 11).to_string())
            .unwrap();
        for server in &network.servers {
            let len = if family == Family::V4 { 32 } else { 128 };
            server
                .address("lo", &format!("{}/{len}", family.host(7, 1)))
                .unwrap();
        }
    }
    let gate = network.start(&config(&network, "  timeouts: {udp: 1s}\n"));
    kill(gate.pid());
    wait_for("it has ended", || !gate.is_running());
    for family in FAMILIES {
        let far = family.host(7, 1);
        let ask = || network.curl(&format!("http://{}/", at(far, 80)), &["-m", "3"]);
        let router = family.host(2, 1);
        assert_eq!(ask(), Ok(format!("s1 {router}")));
        let service = network.curl(&format!("http://{}/", at(family.service(1), 80)), &[]);
        assert_eq!(service, Ok(format!("s2 {router}")));
        // Another route: new flows take it at once.
        let change = |via: u8| {
            let line = format!(
                "route replace {} via {}",
                family.link(7),
                family.host(2, via)
            );
            network.router.ip(&[&line]).unwrap();
        };
        change(13);
        assert_eq!(ask(), Ok(format!("s3 {router}")));
        // Another machine in the place of a neighbour: the kernel finds out, or is told.
        let mut talk = network
            .client
            .run(|| Talk::open(SocketAddr::new(family.host(2, 11), 80)));
        talk.on().unwrap();
        network.servers[0]
            .ip(&["link set eth0 address 02:00:00:00:00:77"])
            .unwrap();
        let told = format!(
            "neighbour replace {} lladdr 02:00:00:00:00:77 dev right nud reachable",
            family.host(2, 11)
        );
        network.router.ip(&[&told]).unwrap();
        talk.on().unwrap();
        // Flows end when their time is out.
        network
            .ask(SocketAddr::new(family.host(2, 12), 80), "a question")
            .expect("an answer");
        let udp = || {
            let args = [
                "flows",
                "count",
                "--proto",
                "udp",
                family.option(),
                "--json",
                "--pin",
                network.pins(),
            ];
            let (good, text) = network.headgate(&args);
            assert!(good, "{text}");
            text
        };
        let at_first = udp();
        wait_for("the flow has ended", || udp() != at_first);
    }
}

#[test]
fn detaching_leaves_nothing_behind_and_the_kernel_goes_on() {
    if !possible() {
        return;
    }
    let network = Network::new();
    let _servers = network.services(80);
    let switch = |network: &Network| {
        network
            .router
            .run(|| std::fs::read_to_string("/proc/sys/net/ipv4/conf/left/accept_local").unwrap())
    };
    let before = switch(&network);
    let gate = network.start(&network.fast_path(""));
    let (_, shown) = network.headgate(&["fastpath", "show", "--pin", network.pins()]);
    assert!(
        shown.contains("left") && shown.contains("native"),
        "{shown}"
    );
    gate.signal("TERM");
    gate.wait(Duration::from_secs(10));
    let links = || run_in(&network.router, "ip", &["link", "show"]).1;
    assert!(links().contains("prog/xdp"), "{}", links());
    let (good, text) = network.headgate(&["fastpath", "detach", "--pin", network.pins()]);
    assert!(good, "{text}");
    assert!(!links().contains("prog/xdp"), "{}", links());
    assert!(!std::path::Path::new(network.pins()).exists());
    assert_eq!(switch(&network), before);
    for family in FAMILIES {
        let url = format!("http://{}/", at(family.host(2, 11), 80));
        assert_eq!(
            network.curl(&url, &[]),
            Ok(format!("s1 {}", family.host(1, 2)))
        );
    }
    let (good, text) = network.headgate(&["fastpath", "show", "--pin", network.pins()]);
    assert!(!good && text.contains(network.pins()), "{text}");
}

#[test]
fn missing_rights_are_named_and_do_not_keep_virtuals_of_l7_from_running() {
    if !possible() {
        return;
    }
    let network = Network::new();
    let without =
        || Builder::new().wrapped(&["capsh", "--drop=all", "--", "-c", "exec \"$@\"", "sh"]);
    let gate = without().spawn(&network.fast_path(""));
    let status = gate.wait(Duration::from_secs(10));
    assert!(!status.success());
    assert!(gate.log().contains("CAP_"), "{}", gate.log());
    let respond = "virtuals: {web: {listen: '$IP:8080', routes: [{respond: {body: hi}}]}}";
    let gate = without().start(respond);
    let said = headgate_tests::Wire::connect(gate.at(8080)).get("/");
    assert_eq!(said.status(), 200);
}

#[test]
fn generic_mode_forwards_and_is_warned_of_where_it_is_fallen_back_to() {
    if !possible() {
        return;
    }
    let network = Network::new();
    let _servers = network.services(80);
    network
        .router
        .ip(&["link add plain type bridge", "link set plain up"])
        .unwrap();
    let config = network.fast_path("").replace(
        "[left, right]",
        "[{name: left, mode: generic}, {name: right, mode: generic}, plain]",
    );
    let gate = network.start(&config);
    let log = gate.log();
    let warning = log
        .lines()
        .find(|line| line.contains("WARN") && line.contains("plain"));
    assert!(
        warning.is_some_and(|line| line.contains("generic")),
        "{log}"
    );
    for family in FAMILIES {
        let url = format!("http://{}/100000", at(family.host(2, 11), 80));
        let out = network.dir().path().join("out").display().to_string();
        network.curl(&url, &["-o", &out]).unwrap();
    }
    assert!(network.counted(Reason::ForwardFlow) > 10);
}

#[test]
fn an_offender_found_by_a_rule_is_dropped_from_its_next_packet_on() {
    if !possible() {
        return;
    }
    let network = Network::new();
    let mut config = network.fast_path("");
    config.push_str("rules:\n  r:\n    text: |\n      when HTTP_REQUEST {\n        if { [HTTP::path] eq \"/bad\" } { SHUN::add [IP::client_addr] 60 }\n        HTTP::respond 200 content hi\n      }\n");
    config.push_str("virtuals:\n");
    for (name, family) in [("four", Family::V4), ("six", Family::V6)] {
        let listen = at(family.host(1, 1), 8080);
        config.push_str(&format!("  {name}: {{listen: '{listen}', rules: [r]}}\n"));
    }
    let _gate = network.start(&config);
    for family in FAMILIES {
        let url = |path: &str| format!("http://{}/{path}", at(family.host(1, 1), 8080));
        assert_eq!(network.curl(&url("good"), &[]), Ok("hi".to_owned()));
        // It is not certain that the answer to the offence still arrives.
        let _ = network.curl(&url("bad"), &["-m", "1"]);
        let before = network.counted(Reason::DropShun);
        assert!(network.curl(&url("good"), &["-m", "1"]).is_err());
        assert!(network.counted(Reason::DropShun) > before);
        let client = family.host(1, 2).to_string();
        let (good, list) = network.headgate(&["shun", "list", "--pin", network.pins()]);
        assert!(good && list.contains(&client), "{list}");
        let (good, text) = network.headgate(&["shun", "remove", &client, "--pin", network.pins()]);
        assert!(good, "{text}");
        assert_eq!(network.curl(&url("good"), &[]), Ok("hi".to_owned()));
    }
}

/// A connection on which numbered lines come back, or numbered datagrams that do, some hundred a second, until it is ended.
struct Traffic {
    to: SocketAddr,
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicU64>,
    thread: JoinHandle<Result<(), String>>,
}

impl Traffic {
    fn lines(to: SocketAddr) -> Self {
        let mut talk = Talk::open(to);
        Self::begin(to, move |_| talk.on().map_err(|error| error.to_string()))
    }

    fn datagrams(to: SocketAddr) -> Self {
        let any: IpAddr = match to {
            SocketAddr::V4(_) => std::net::Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
        };
        let socket = UdpSocket::bind((any, 0)).unwrap();
        socket.connect(to).unwrap();
        socket
            .set_read_timeout(Some(Duration::from_secs(3)))
            .unwrap();
        Self::begin(to, move |number| {
            let sent = number.to_string();
            socket
                .send(sent.as_bytes())
                .map_err(|error| error.to_string())?;
            let mut answer = [0; 99];
            let len = socket
                .recv(&mut answer)
                .map_err(|error| format!("{number} is lost: {error}"))?;
            let answer = String::from_utf8_lossy(&answer[..len]).into_owned();
            match answer.rsplit(' ').next() == Some(&sent) {
                true => Ok(()),
                false => Err(format!("{sent} was sent and {answer} came")),
            }
        })
    }

    fn begin(
        to: SocketAddr,
        mut once: impl FnMut(u64) -> Result<(), String> + Send + 'static,
    ) -> Self {
        let (stop, answered) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicU64::new(0)),
        );
        let (stopped, count) = (stop.clone(), answered.clone());
        let thread = std::thread::spawn(move || {
            for number in 0.. {
                if stopped.load(Relaxed) {
                    break;
                }
                once(number)?;
                count.fetch_add(1, Relaxed);
                std::thread::sleep(Duration::from_millis(2));
            }
            Ok(())
        });
        Self {
            to,
            stop,
            answered,
            thread,
        }
    }

    /// Waits for so many more answers.
    fn more(&self, count: u64, after: &str) {
        let enough = self.answered.load(Relaxed) + count;
        wait_for(&format!("answers of {} after {after}", self.to), || {
            assert!(
                !self.thread.is_finished(),
                "{} has failed after {after}",
                self.to
            );
            self.answered.load(Relaxed) >= enough
        });
    }

    fn end(self) {
        self.stop.store(true, Relaxed);
        self.thread
            .join()
            .unwrap()
            .unwrap_or_else(|error| panic!("{}: {error}", self.to));
    }
}

/// A connection on which lines come back.
struct Talk(BufReader<TcpStream>);

impl Talk {
    fn open(to: SocketAddr) -> Self {
        let stream = TcpStream::connect_timeout(&to, Duration::from_secs(5)).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(8)))
            .unwrap();
        stream.set_nodelay(true).unwrap();
        Self(BufReader::new(stream))
    }

    fn on(&mut self) -> std::io::Result<()> {
        self.0.get_mut().write_all(b"a line\n")?;
        let mut line = String::new();
        self.0.read_line(&mut line)?;
        assert_eq!(line, "a line\n");
        Ok(())
    }
}
