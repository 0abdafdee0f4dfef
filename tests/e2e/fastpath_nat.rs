//! Source NAT with real endpoints: TCP, datagrams, errors, paths of different widths, fragments.

use fastpath::abi::Reason;
use headgate_tests::network::{FAMILIES, Family, Network, at, possible, run_in};
use headgate_tests::noise;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

/// Clients become 10.8.0.0/30 towards server 3 and the router towards everyone else.
fn config(network: &Network) -> String {
    network.fast_path(
        "  source_nat:
    - {name: pooled, from: ['10.1.0.0/24', 'fd00:1::/64'], to: ['10.2.0.13/32', 'fd00:2::13/128'],
       translate: {pool: ['10.8.0.0/30', 'fd00:8::/126']}}
    - {name: rest, from: ['10.1.0.0/24', 'fd00:1::/64'], out: right, translate: masquerade}",
    )
}

#[test]
fn endpoints_see_the_routers_address_or_one_of_the_pool_behind_source_nat() {
    if !possible() {
        return;
    }
    let network = Network::new();
    let _gate = network.start(&config(&network));
    let servers = network.services(80);
    for family in FAMILIES {
        let masqueraded = family.host(2, 11);
        let pooled = family.host(2, 13);
        let router = family.host(2, 1).to_string();
        let pool = match family {
            Family::V4 => "10.8.0.",
            Family::V6 => "fd00:8::",
        };
        for _ in 0..5 {
            let said = network.curl(&format!("http://{}/", at(masqueraded, 80)), &[]);
            assert_eq!(said, Ok(format!("s1 {router}")));
            let said = network
                .curl(&format!("http://{}/", at(pooled, 80)), &[])
                .unwrap();
            assert!(said.starts_with(&format!("s3 {pool}")), "{said}");
        }
        let said = network
            .ask(SocketAddr::new(masqueraded, 80), "a datagram")
            .unwrap();
        assert_eq!(said, format!("s1 {router} a datagram"));
        let said = network
            .ask(SocketAddr::new(pooled, 80), "a datagram")
            .unwrap();
        assert!(said.starts_with(&format!("s3 {pool}")), "{said}");

        let large = network.dir().path().join("large").display().to_string();
        let url = format!("http://{}/3000000", at(masqueraded, 80));
        network.curl(&url, &["-o", &large]).unwrap();
        assert!(std::fs::read(&large).unwrap() == noise(3_000_000, 3_000_000));
        for target in [masqueraded, pooled] {
            ping(&network, family, target, &["-c", "3", "-i", "0.01"]).expect("three answers");
        }
    }
    assert!(network.counted(Reason::ForwardFlow) > 200);
    drop(servers);
}

#[test]
fn errors_find_their_way_back_through_source_nat() {
    if !possible() {
        return;
    }
    let network = Network::new();
    behind_another_router(&network, "");
    let _gate = network.start(&config(&network));
    for family in FAMILIES {
        // Server 1 is there; nobody listens.
        let refused = network.client.run(|| {
            let socket = UdpSocket::bind(SocketAddr::new(any(family), 0)).unwrap();
            socket
                .connect(SocketAddr::new(family.host(2, 11), 99))
                .unwrap();
            socket
                .set_read_timeout(Some(Duration::from_secs(5)))
                .unwrap();
            socket.send(b"anybody there?").unwrap();
            socket.recv(&mut [0; 99])
        });
        let error = refused.unwrap_err();
        assert_eq!(
            error.kind(),
            std::io::ErrorKind::ConnectionRefused,
            "{family:?}"
        );

        let far = family.host(7, 1);
        let hops = [family.host(1, 1), family.host(2, 11), far].map(|hop| hop.to_string());
        for how in ["-I", "-U"] {
            let args = [
                family.option(),
                how,
                "-n",
                "-q",
                "1",
                "-w",
                "2",
                "-m",
                "5",
                &far.to_string(),
            ];
            let (good, text) = run_in(&network.client, "traceroute", &args);
            assert!(good, "{text}");
            let lines = text.lines().skip(1);
            let seen: Vec<&str> = lines.filter_map(|l| l.split_whitespace().nth(1)).collect();
            assert_eq!(seen, hops, "{how}\n{text}");
        }
        let said = ping(&network, family, far, &["-c", "1", "-t", "2"]).unwrap_err();
        let end = match family {
            Family::V4 => "Time to live exceeded",
            Family::V6 => "Time exceeded: Hop limit",
        };
        assert!(said.contains(end) && said.contains(&hops[1]), "{said}");
    }
}

#[test]
fn paths_that_get_narrower_are_discovered_through_source_nat() {
    if !possible() {
        return;
    }
    let network = Network::new();
    behind_another_router(&network, "mtu lock 1300");
    let _gate = network.start(&config(&network));
    let servers = network.services(80);
    for family in FAMILIES {
        let far = family.host(7, 1);
        // As much as a connection has, and the narrow path is that of the client's packets.
        let text: String = noise(8, 200_000)
            .iter()
            .map(|b| char::from(b'a' + b % 26))
            .collect();
        let echoed = network.client.run(|| echo(SocketAddr::new(far, 80), &text));
        assert!(echoed == text, "{family:?}");
        let (_, route) = run_in(&network.client, "ip", &["route", "get", &far.to_string()]);
        assert!(route.contains("mtu 1300"), "{route}");
    }
    drop(servers);
}

#[test]
fn narrow_routes_of_the_router_itself_are_discovered_with_source_nat_and_without() {
    if !possible() {
        return;
    }
    for translated in [true, false] {
        let network = Network::new();
        for family in FAMILIES {
            let link = family.link(2);
            // The metric is that of the route which is there.
            let metric = if family == Family::V4 { 0 } else { 256 };
            let narrow = format!(
                "route replace {link} dev right proto kernel metric {metric} mtu lock 1400"
            );
            network.router.ip(&[&narrow]).unwrap();
        }
        // The answers go out where the packets came in.
        let _answered = network.unpack(&network.client);
        let _gate = match translated {
            true => network.start(&config(&network)),
            false => network.start(&network.fast_path("")),
        };
        let servers = network.services(80);
        for family in FAMILIES {
            let to = SocketAddr::new(family.host(2, 11), 80);
            let text: String = noise(9, 100_000)
                .iter()
                .map(|b| char::from(b'a' + b % 26))
                .collect();
            assert!(network.client.run(|| echo(to, &text)) == text, "{family:?}");
            let to = to.ip().to_string();
            let (_, route) = run_in(&network.client, "ip", &["route", "get", &to]);
            assert!(route.contains("mtu 1400"), "{translated}: {route}");
        }
        drop(servers);
    }
}

#[test]
fn fragments_follow_their_first_through_source_nat() {
    if !possible() {
        return;
    }
    let network = Network::new();
    let _gate = network.start(&config(&network));
    let servers = network.services(80);
    for family in FAMILIES {
        let text = "0123456789".repeat(600);
        let said = network.ask(SocketAddr::new(family.host(2, 11), 80), &text);
        assert_eq!(said, Some(format!("s1 {} {text}", family.host(2, 1))));
    }
    for untracked in [Reason::PassFragment, Reason::DropFragment] {
        assert_eq!(network.counted(untracked), 0);
    }
    drop(servers);
}

/// Has server 1 route to the network 7, which server 2 has on its loopback.
fn behind_another_router(network: &Network, more: &str) {
    let [between, far, _] = &network.servers[..] else {
        panic!("there are three servers")
    };
    between.sysctl("net.ipv4.ip_forward", "1").unwrap();
    between.sysctl("net.ipv6.conf.all.forwarding", "1").unwrap();
    between.sysctl("net.ipv4.icmp_ratelimit", "0").unwrap();
    between.sysctl("net.ipv6.icmp.ratelimit", "0").unwrap();
    // It is on the link that the packets come in from, and is not to say that there is a shorter way.
    for name in ["all", "eth0"] {
        between
            .sysctl(&format!("net.ipv4.conf.{name}.send_redirects"), "0")
            .unwrap();
    }
    for family in FAMILIES {
        let link = family.link(7);
        let (first, second) = (family.host(2, 11), family.host(2, 12));
        network.router.route(&link, &first.to_string()).unwrap();
        between
            .ip(&[&format!("route add {link} via {second} {more}")])
            .unwrap();
        let len = if family == Family::V4 { 32 } else { 128 };
        far.address("lo", &format!("{}/{len}", family.host(7, 1)))
            .unwrap();
    }
}

/// Sends a line and reads it back.
fn echo(to: SocketAddr, text: &str) -> String {
    let mut stream = TcpStream::connect_timeout(&to, Duration::from_secs(5)).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(10)))
        .unwrap();
    let mut writing = stream.try_clone().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || writing.write_all(format!("{text}\n").as_bytes()));
        let mut back = vec![0; text.len()];
        stream
            .read_exact(&mut back)
            .unwrap_or_else(|error| panic!("{to}: {error}"));
        String::from_utf8(back).unwrap()
    })
}

fn ping(network: &Network, family: Family, to: IpAddr, more: &[&str]) -> Result<String, String> {
    let to = to.to_string();
    let args = [&[family.option(), "-n", "-W", "5"], more, &[&to]].concat();
    match run_in(&network.client, "ping", &args) {
        (true, text) => Ok(text),
        (false, text) => Err(text),
    }
}

fn any(family: Family) -> IpAddr {
    match family {
        Family::V4 => std::net::Ipv4Addr::UNSPECIFIED.into(),
        Family::V6 => std::net::Ipv6Addr::UNSPECIFIED.into(),
    }
}
