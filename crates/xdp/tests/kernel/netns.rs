use std::fs;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::panic;
use std::path::Path;
use std::process;

use xdp::interface;
use xdp::netns::{Namespace, pin_to_core, veth, veth_with_queues};

use crate::{kernel, wait_for};

#[test]
fn a_routed_pair_of_namespaces_talks_over_both_families() {
    if !kernel() {
        return;
    }
    let [client, router, server] = [(); 3].map(|()| Namespace::new().unwrap());
    veth(&client, "c", &router, "rc").unwrap();
    veth(&router, "rs", &server, "s").unwrap();
    for (namespace, interface, addresses) in [
        (&client, "c", ["192.0.2.2/24", "2001:db8:1::2/64"]),
        (&router, "rc", ["192.0.2.1/24", "2001:db8:1::1/64"]),
        (&router, "rs", ["198.51.100.1/24", "2001:db8:2::1/64"]),
        (&server, "s", ["198.51.100.2/24", "2001:db8:2::2/64"]),
    ] {
        for address in addresses {
            namespace.address(interface, address).unwrap();
        }
    }
    router.sysctl("net.ipv4.ip_forward", "1").unwrap();
    router.sysctl("net.ipv6.conf.all.forwarding", "1").unwrap();
    client.route("default", "192.0.2.1").unwrap();
    client.route("default", "2001:db8:1::1").unwrap();
    server.route("192.0.2.0/24", "198.51.100.1").unwrap();
    server.route("2001:db8:1::/64", "2001:db8:2::1").unwrap();
    for address in ["198.51.100.2", "2001:db8:2::2"] {
        let at = SocketAddr::new(address.parse().unwrap(), 80);
        let listener = server.run(|| TcpListener::bind(at)).unwrap();
        let mut sent = client.run(|| TcpStream::connect(at)).unwrap();
        sent.write_all(b"hello").unwrap();
        drop(sent);
        let mut heard = String::new();
        let (mut connection, from) = listener.accept().unwrap();
        connection.read_to_string(&mut heard).unwrap();
        assert_eq!(heard, "hello");
        assert_eq!(from.is_ipv4(), at.is_ipv4());
    }
    let addresses = server.run(|| interface::addresses("s")).unwrap();
    for expected in ["198.51.100.2", "2001:db8:2::2"] {
        let expected: IpAddr = expected.parse().unwrap();
        let found = addresses
            .iter()
            .find(|address| address.ip == expected)
            .unwrap();
        assert_eq!(found.prefix, if expected.is_ipv4() { 24 } else { 64 });
    }
    assert!(server.counters("s").unwrap().rx_packets > 0);
}

#[test]
fn a_namespace_is_removed_even_by_a_panic() {
    if !kernel() {
        return;
    }
    let mut name = String::new();
    let panicked = panic::catch_unwind(panic::AssertUnwindSafe(|| {
        let namespace = Namespace::new().unwrap();
        name = namespace.name().to_owned();
        assert!(Path::new("/run/netns").join(&name).exists());
        namespace.run(|| panic!("inside"));
    }));
    assert_eq!(panicked.unwrap_err().downcast_ref(), Some(&"inside"));
    assert!(name.starts_with("hg-") && !Path::new("/run/netns").join(&name).exists());
}

#[test]
fn commands_run_inside() {
    if !kernel() {
        return;
    }
    let (a, b) = (Namespace::new().unwrap(), Namespace::new().unwrap());
    veth(&a, "inside", &b, "other").unwrap();
    let output = a.command("cat").arg("/proc/self/net/dev").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.contains("inside:") && !text.contains("other:"),
        "{text}"
    );
    assert_eq!(b.run(interface::names).unwrap(), ["lo", "other"]);
}

#[test]
fn what_ip_refuses_is_told_with_its_words() {
    if !kernel() {
        return;
    }
    let namespace = Namespace::new().unwrap();
    let error = namespace
        .address("absent", "192.0.2.1/24")
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("address add 192.0.2.1/24") && error.contains("\"absent\""),
        "{error}"
    );
    let error = namespace
        .sysctl("net.ipv4.no_such_switch", "1")
        .unwrap_err()
        .to_string();
    assert!(error.contains("no_such_switch"), "{error}");
}

#[test]
fn queues_and_offloads_are_as_asked() {
    if !kernel() {
        return;
    }
    let (a, b) = (Namespace::new().unwrap(), Namespace::new().unwrap());
    veth_with_queues(&a, "q0", &b, "q1", 4).unwrap();
    assert_eq!(a.run(|| interface::queues("q0")).unwrap(), (4, 4));
    assert_eq!(b.run(|| interface::queues("q1")).unwrap(), (4, 4));
    assert!(a.run(|| interface::offloads("q0")).unwrap());
    a.offloads_off("q0").unwrap();
    assert!(!a.run(|| interface::offloads("q0")).unwrap());
    for on in [true, false] {
        a.gro("q0", on).unwrap();
        assert_eq!(a.run(|| interface::gro("q0")).unwrap(), on);
    }
    assert!(
        a.gro("absent", true)
            .unwrap_err()
            .to_string()
            .contains("absent")
    );
}

#[test]
fn threads_receive_for_an_interface_and_stay_on_their_core() {
    if !kernel() {
        return;
    }
    let (a, b) = (Namespace::new().unwrap(), Namespace::new().unwrap());
    let name = format!("n{}", process::id());
    veth_with_queues(&a, &name, &b, "peer", 2).unwrap();
    a.gro(&name, true).unwrap();
    a.threaded(&name, true).unwrap();
    let threads = a.napi_threads(&name).unwrap();
    assert_eq!(threads.len(), 2);
    pin_to_core(threads[0], 0).unwrap();
    let status = fs::read_to_string(format!("/proc/{}/status", threads[0])).unwrap();
    assert!(status.contains("Cpus_allowed_list:\t0\n"), "{status}");
    a.gro(&name, false).unwrap();
    wait_for("the threads end", || {
        a.napi_threads(&name).unwrap().is_empty()
    });
}
