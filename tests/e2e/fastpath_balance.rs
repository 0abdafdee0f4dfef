//! Virtuals of protocol fast with real endpoints: each mode, affinity, ports, members that come and go.

use fastpath::abi::Reason;
use headgate_tests::network::{FAMILIES, Family, Network, SERVERS, at, possible, wait_for};
use headgate_tests::{Headgate, noise};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// One pool a family of all servers at a port, with a monitor.
fn pools(port: u16, weights: [u32; SERVERS as usize]) -> String {
    let mut out =
        "monitors:\n  tcp: {type: tcp, interval: 200ms, timeout: 100ms, rise: 1, fall: 1}\npools:\n".to_owned();
    for family in FAMILIES {
        out.push_str(&format!(
            "  {}:\n    monitors: [tcp]\n    members:\n",
            pool(family)
        ));
        for (n, weight) in (0..).zip(weights) {
            let member = at(family.host(2, 11 + n), port);
            out.push_str(&format!(
                "      - {{address: '{member}', name: s{}, weight: {weight}}}\n",
                n + 1
            ));
        }
    }
    out
}

fn pool(family: Family) -> &'static str {
    match family {
        Family::V4 => "four",
        Family::V6 => "six",
    }
}

/// A virtual a family at host 1 of the services' network, port 8000, with more said of it.
fn virtuals(more: &str) -> String {
    let mut out = "virtuals:\n".to_owned();
    for family in FAMILIES {
        let listen = at(family.service(1), 8000);
        let name = pool(family);
        out.push_str(&format!(
            "  {name}: {{protocol: fast, listen: '{listen}', pool: {name}, {more}}}\n"
        ));
    }
    out
}

/// Fetches often enough that each server has had a connection: who answered, and as whom they saw the client.
fn answers(network: &Network, to: &str) -> BTreeMap<String, String> {
    let mut seen = BTreeMap::new();
    for _ in 0..30 {
        let said = network
            .curl(&format!("http://{to}/"), &[])
            .unwrap_or_else(|error| panic!("{to}: {error}"));
        let (server, client) = said.split_once(' ').unwrap();
        seen.insert(server.to_owned(), client.to_owned());
    }
    seen
}

fn all_servers(client: &str) -> BTreeMap<String, String> {
    ["s1", "s2", "s3"]
        .map(|server| (server.to_owned(), client.to_owned()))
        .into()
}

/// Waits until all members of both pools are up.
fn all_up(gate: &Headgate) {
    for family in FAMILIES {
        for member in ["s1", "s2", "s3"] {
            wait_for("the member is up", || {
                gate.member(pool(family), member)["condition"] == "up"
            });
        }
    }
}

/// Starts it with a pool of that port and virtuals of which more is said.
fn start(network: &Network, port: u16, more: &str) -> Headgate {
    let gate = network.start(&(network.fast_path("") + &pools(port, [1; 3]) + &virtuals(more)));
    all_up(&gate);
    gate
}

#[test]
fn members_are_reached_by_translation_with_the_clients_address() {
    if !possible() {
        return;
    }
    let network = Network::new();
    let _servers = network.services(80);
    let _gate = start(&network, 80, "");
    for family in FAMILIES {
        let to = at(family.service(1), 8000);
        assert_eq!(
            answers(&network, &to),
            all_servers(&family.host(1, 2).to_string())
        );
        large_body_and_long_lines(&network, family, 8000);
    }
}

#[test]
fn members_see_the_routers_address_with_automap_and_the_pools_with_a_pool() {
    if !possible() {
        return;
    }
    let network = Network::new();
    // What comes back need not be routed by the router: it is addressed to it.
    network.answer_past_the_router();
    let _servers = network.services(80);
    let gate = start(&network, 80, "snat: automap");
    for family in FAMILIES {
        let to = at(family.service(1), 8000);
        assert_eq!(
            answers(&network, &to),
            all_servers(&family.host(2, 1).to_string())
        );
        large_body_and_long_lines(&network, family, 8000);
    }
    let [four, six] = FAMILIES.map(|family| family.host(8, 1).to_string());
    let pooled = virtuals(&format!("snat: {{pool: ['{four}']}}")).replacen(
        &format!("pool: six, snat: {{pool: ['{four}']"),
        &format!("pool: six, snat: {{pool: ['{six}']"),
        1,
    );
    gate.reconfigure(&(network.fast_path("") + &pools(80, [1; 3]) + &pooled));
    for family in FAMILIES {
        let to = at(family.service(1), 8000);
        let expected = family.host(8, 1).to_string();
        wait_for("the pool's address is used", || {
            network
                .curl(&format!("http://{to}/"), &[])
                .unwrap()
                .ends_with(&expected)
        });
        assert_eq!(answers(&network, &to), all_servers(&expected));
    }
}

#[test]
fn members_on_the_link_answer_clients_themselves() {
    if !possible() {
        return;
    }
    let network = Network::new();
    network.on_loopback(&FAMILIES.map(|family| family.service(1)));
    network.answer_past_the_router();
    let _servers = network.services(8000);
    let _gate = start(&network, 8000, "mode: direct-return");
    let before = network.client.counters("past").unwrap();
    for family in FAMILIES {
        let to = at(family.service(1), 8000);
        assert_eq!(
            answers(&network, &to),
            all_servers(&family.host(1, 2).to_string())
        );
        large_body_and_long_lines(&network, family, 8000);
    }
    let after = network.client.counters("past").unwrap();
    assert!(
        after.rx_packets - before.rx_packets > 500,
        "answers went past the router"
    );
}

#[test]
fn members_anywhere_are_reached_by_tunnels_that_our_own_program_unpacks() {
    if !possible() {
        return;
    }
    let network = Network::new();
    network.on_loopback(&FAMILIES.map(|family| family.service(1)));
    network.answer_past_the_router();
    let _servers = network.services(8000);
    let servers = network.servers.iter();
    let _unpacking: Vec<_> = servers.map(|server| network.unpack(server)).collect();
    // What is too large for a tunnel is answered by the way it came.
    let _answered = network.unpack(&network.client);
    let _gate = start(&network, 8000, "mode: ipip");
    for family in FAMILIES {
        let to = at(family.service(1), 8000);
        assert_eq!(
            answers(&network, &to),
            all_servers(&family.host(1, 2).to_string())
        );
        // The client's packets are too large once they are in others: it is told so and sends smaller ones.
        large_body_and_long_lines(&network, family, 8000);
    }
}

#[test]
fn datagrams_are_balanced_whole_and_in_fragments() {
    if !possible() {
        return;
    }
    let network = Network::new();
    let _servers = network.services(80);
    for snat in ["", "snat: automap"] {
        let _gate = start(&network, 80, &format!("transport: udp, {snat}"));
        for family in FAMILIES {
            let to = SocketAddr::new(family.service(1), 8000);
            let client = if snat.is_empty() {
                family.host(1, 2)
            } else {
                family.host(2, 1)
            };
            let mut seen = BTreeMap::new();
            for _ in 0..30 {
                let said = network.ask(to, "query").expect("an answer");
                let (server, rest) = said.split_once(' ').unwrap();
                assert_eq!(rest, format!("{client} query"));
                seen.insert(server.to_owned(), client.to_string());
            }
            assert_eq!(seen, all_servers(&client.to_string()));
            let text = "0123456789".repeat(500);
            let said = network.ask(to, &text).expect("an answer in fragments");
            assert!(said.ends_with(&format!(" {client} {text}")));
        }
        network.headgate(&["fastpath", "detach", "--pin", network.pins()]);
    }
}

#[test]
fn a_clients_connections_stay_at_one_member_with_affinity_on_each_address_and_port() {
    if !possible() {
        return;
    }
    let network = Network::new();
    let servers: Vec<_> = [80, 8003, 8009]
        .map(|port| network.services(port))
        .into_iter()
        .flatten()
        .collect();
    let mut config =
        network.fast_path("") + &pools(0, [1; 3]).replace("type: tcp,", "type: tcp, port: 80,");
    config.push_str("virtuals:\n");
    for family in FAMILIES {
        let name = pool(family);
        let listen = [
            at(family.service(1), 80),
            format!("{}-8009", at(family.service(1), 8000)),
            at(family.service(2), 80),
        ];
        config.push_str(&format!(
            "  {name}: {{protocol: fast, listen: {listen:?}, pool: {name}, affinity: source}}\n"
        ));
    }
    let gate = network.start(&config);
    all_up(&gate);
    for family in FAMILIES {
        for (host, port) in [(1, 80), (1, 8003), (1, 8009), (2, 80)] {
            let seen = answers(&network, &at(family.service(host), port));
            assert_eq!(seen.len(), 1, "{seen:?}");
        }
        // One beyond the range is nobody's.
        let beyond = format!("http://{}/", at(family.service(1), 8010));
        assert!(network.curl(&beyond, &["-m", "1"]).is_err());
    }
    drop(servers);
}

#[test]
fn a_lost_member_moves_its_own_flows_only_and_drained_ones_keep_theirs() {
    if !possible() {
        return;
    }
    let network = Network::new();
    let mut servers = network.services(80);
    let gate = start(&network, 80, "");
    let mut talks: Vec<Talk> = Vec::new();
    for family in FAMILIES {
        let to = SocketAddr::new(family.service(1), 8000);
        talks.extend((0..20).map(|_| network.client.run(|| Talk::start(to))));
    }
    let at_second = |talks: &[Talk]| talks.iter().filter(|talk| talk.server == "s2").count();
    assert!(at_second(&talks) > 2, "the second has some");

    // Drained, and then with no weight: what it has goes on, nothing new comes.
    let no_news = |what: &str| {
        for family in FAMILIES {
            let to = at(family.service(1), 8000);
            wait_for(what, || !answers(&network, &to).contains_key("s2"));
        }
    };
    for family in FAMILIES {
        gate.set_member(pool(family), "s2", r#"{"state": "drain"}"#);
    }
    no_news("a drained member gets nothing new");
    talks.iter_mut().for_each(Talk::on);
    for family in FAMILIES {
        gate.set_member(pool(family), "s2", r#"{"state": "enabled"}"#);
        let to = at(family.service(1), 8000);
        wait_for("it gets its share again", || {
            answers(&network, &to).contains_key("s2")
        });
    }
    gate.reconfigure(&(network.fast_path("") + &pools(80, [1, 0, 1]) + &virtuals("")));
    no_news("a member without weight gets nothing new");
    talks.iter_mut().for_each(Talk::on);

    // Gone: its own flows end at another member, which does not know them, and no one else's notice.
    drop(servers.remove(1));
    for family in FAMILIES {
        wait_for("it is seen to be down", || {
            gate.member(pool(family), "s2")["condition"] == "down"
        });
    }
    let (gone, mut kept): (Vec<Talk>, Vec<Talk>) =
        talks.into_iter().partition(|talk| talk.server == "s2");
    for mut talk in gone {
        wait_for("a flow of the lost member has moved", || {
            talk.try_on().is_err()
        });
    }
    kept.iter_mut().for_each(Talk::on);
    assert!(network.counted(Reason::FlowMoved) > 0);
}

/// A connection on which lines are sent and come back.
struct Talk {
    stream: BufReader<TcpStream>,
    /// Who is at the other end.
    server: String,
}

impl Talk {
    fn start(to: SocketAddr) -> Self {
        let mut stream = TcpStream::connect_timeout(&to, Duration::from_secs(5)).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(5)))
            .unwrap();
        stream
            .write_all(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
            .unwrap();
        let mut stream = BufReader::new(stream);
        let mut line = String::new();
        let mut len = 0;
        while line != "\r\n" {
            line.clear();
            stream.read_line(&mut line).unwrap();
            if let Some(said) = line.strip_prefix("Content-Length: ") {
                len = said.trim().parse().unwrap();
            }
        }
        let mut body = vec![0; len];
        std::io::Read::read_exact(&mut stream, &mut body).unwrap();
        let body = String::from_utf8(body).unwrap();
        let server = body.split(' ').next().unwrap().to_owned();
        Self { stream, server }
    }

    fn on(&mut self) {
        self.try_on()
            .unwrap_or_else(|error| panic!("{}: {error}", self.server));
    }

    fn try_on(&mut self) -> std::io::Result<()> {
        self.stream.get_mut().write_all(b"a line\n")?;
        let mut line = String::new();
        self.stream.read_line(&mut line)?;
        match line.as_str() {
            "a line\n" => Ok(()),
            other => Err(std::io::Error::other(format!("came back: {other:?}"))),
        }
    }
}

/// Full packets in both directions.
fn large_body_and_long_lines(network: &Network, family: Family, port: u16) {
    let url = format!("http://{}/1000000", at(family.service(1), port));
    let file = network.dir().path().join("large").display().to_string();
    network.curl(&url, &["-o", &file]).unwrap();
    assert!(std::fs::read(&file).unwrap() == noise(1_000_000, 1_000_000));
    let to = SocketAddr::new(family.service(1), port);
    let line: String = noise(7, 100_000)
        .iter()
        .map(|b| char::from(b'a' + b % 26))
        .chain(['\n'])
        .collect();
    network.client.run(|| {
        let stream = TcpStream::connect_timeout(&to, Duration::from_secs(5)).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(10)))
            .unwrap();
        let mut writing = stream.try_clone().unwrap();
        let mut back = String::new();
        std::thread::scope(|scope| {
            scope.spawn(|| writing.write_all(line.as_bytes()));
            BufReader::new(stream)
                .read_line(&mut back)
                .unwrap_or_else(|error| panic!("{to}: {error}"));
        });
        assert!(back == line);
    });
}
