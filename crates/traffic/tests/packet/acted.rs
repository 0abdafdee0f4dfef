//! TCP connections acted out: against each other, and each end against a kernel's. They are few enough for all their segments
//! to find room in the rings of a veth, so that none is lost however late the kernel gets to them.

use crate::world::{FAR, NEAR, World, wait_until};
use std::io::{Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;
use traffic::packet::tcp::{Actor, End, RESPONSE};
use traffic::packet::{Act, Generator, Place, Plan, Protocol, Receiver, Receiving, Stream, What};
use xdp::attach::Wanted;

fn segments(world: &World, act: Act, near: &str, far: &str, ports: &str) -> Stream {
    Stream {
        protocol: Protocol::Act(act),
        source_ports: ports.parse().expect("ports"),
        destination_ports: 80.into(),
        ..world.stream(near, far)
    }
}

/// What is sent back by XDP into an interface arrives only if that has a program too.
fn receive(place: &Place) -> Receiver {
    Receiver::attach(place, Receiving::default()).expect("a receiver")
}

fn send(world: &World, stream: Stream, count: u64) {
    let done = Generator::start(&Plan {
        count: Some(count),
        rate: Some(100_000.0),
        ..Plan::new(world.from(), What::Stream(stream))
    })
    .and_then(Generator::join)
    .expect("sending");
    assert_eq!((done.sent.frames, done.sent.refused), (count, 0));
}

#[test]
fn two_acted_ends_complete_every_connection() {
    let world = World::new();
    for (near, far) in [
        ("198.51.100.0/30", "203.0.113.0/31"),
        ("2001:db8:1::/126", "2001:db8:2::/127"),
    ] {
        let client = Actor::attach(&world.from(), End::Client { hold: false }, Wanted::Auto)
            .expect("a client");
        let server = Actor::attach(
            &world.to(),
            End::Server { response: RESPONSE },
            Wanted::Auto,
        )
        .expect("a server");
        // Each of the 32 addresses and ports three times.
        send(
            &world,
            segments(&world, Act::Syn, near, far, "1024-1027"),
            96,
        );
        wait_until("all are closed", || {
            server.acted().expect("counts").ends == 96
        });
        let acted = client.acted().expect("counts");
        assert_eq!(
            (
                acted.established,
                acted.responses,
                acted.closed,
                acted.resets,
                acted.strange,
                acted.no_room
            ),
            (96, 96, 96, 0, 0, 0)
        );
        let acted = server.acted().expect("counts");
        assert_eq!(
            (
                acted.syns,
                acted.requests,
                acted.fins,
                acted.accepted,
                acted.no_room
            ),
            (96, 96, 96, 0, 0)
        );
    }
}

#[test]
fn held_connections_answer_and_can_be_gone_on_with() {
    let world = World::new();
    for (near, far) in [
        ("198.51.100.0/30", "203.0.113.0/31"),
        ("2001:db8:1::/126", "2001:db8:2::/127"),
    ] {
        let client = Actor::attach(&world.from(), End::Client { hold: true }, Wanted::Auto)
            .expect("a client");
        let server = Actor::attach(
            &world.to(),
            End::Server { response: RESPONSE },
            Wanted::Auto,
        )
        .expect("a server");
        let segments = |act| segments(&world, act, near, far, "1024-1027");
        send(&world, segments(Act::Syn), 32);
        wait_until("all are accepted", || {
            server.acted().expect("counts").accepted == 32
        });
        assert_eq!(client.acted().expect("counts").established, 32);
        send(&world, segments(Act::KeepAlive), 32);
        wait_until("all have answered", || {
            client.acted().expect("counts").alive == 32
        });
        send(&world, segments(Act::Request), 32);
        wait_until("all are closed", || {
            server.acted().expect("counts").ends == 32
        });
        assert_eq!(client.acted().expect("counts").closed, 32);
        assert_eq!(client.acted().expect("counts").strange, 0);
    }
}

#[test]
fn an_acted_client_is_served_by_a_kernel() {
    let world = World::new();
    let _far = receive(&world.to());
    for (near, far) in NEAR.iter().zip(FAR) {
        let listener = world
            .far
            .run(|| TcpListener::bind((far, 80)).expect("a listener"));
        let server = thread::spawn(move || {
            let mut requests = Vec::new();
            for _ in 0..20 {
                let (mut stream, _) = listener.accept().expect("a connection");
                stream
                    .set_read_timeout(Some(Duration::from_secs(10)))
                    .expect("a timeout");
                let mut request = [0; 100];
                let length = stream.read(&mut request).expect("a request");
                requests.push(request[..length].to_vec());
                stream
                    .write_all(b"HTTP/1.1 204 No Content\r\n\r\n")
                    .expect("a response");
                // The client ends the connection.
                assert_eq!(stream.read(&mut request).expect("an end"), 0);
            }
            requests
        });
        let client = Actor::attach(&world.from(), End::Client { hold: false }, Wanted::Auto)
            .expect("a client");
        // Its addresses are nobody's but the program's.
        let source = if near.contains(':') {
            "2001:db8::99"
        } else {
            "192.0.2.99"
        };
        let device = "far0";
        let mac = world.from().mac().expect("an Ethernet address");
        world
            .far
            .neighbour(device, source.parse::<IpAddr>().expect("an address"), mac)
            .expect("a neighbour");
        send(
            &world,
            segments(&world, Act::Syn, source, far, "3000-3019"),
            20,
        );
        for request in server.join().expect("the server") {
            assert_eq!(request, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        }
        wait_until("all are closed", || {
            client.acted().expect("counts").closed == 20
        });
        let acted = client.acted().expect("counts");
        assert_eq!(
            (acted.established, acted.responses, acted.resets),
            (20, 20, 0)
        );
    }
}

#[test]
fn an_acted_server_serves_a_kernel() {
    let world = World::new();
    let _near = receive(&world.from());
    for far in FAR {
        let server = Actor::attach(&world.to(), End::Server { response: 64 }, Wanted::Auto)
            .expect("a server");
        for _ in 0..5 {
            let response = world.near.run(|| {
                let mut stream = TcpStream::connect((far, 80)).expect("a connection");
                stream
                    .set_read_timeout(Some(Duration::from_secs(10)))
                    .expect("a timeout");
                // In one segment, longer than the response.
                let request = format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "x".repeat(40));
                stream.write_all(request.as_bytes()).expect("a request");
                let mut response = [0; 64];
                stream.read_exact(&mut response).expect("a response");
                String::from_utf8_lossy(&response).into_owned()
            });
            assert!(response.starts_with("HTTP/1.1 200 OK\r\n"), "{response}");
        }
        wait_until("all are closed", || {
            server.acted().expect("counts").fins == 5
        });
        let acted = server.acted().expect("counts");
        assert_eq!((acted.syns, acted.requests, acted.no_room), (5, 5, 0));
    }
}

#[test]
fn refused_connections_are_counted() {
    let world = World::new();
    let source = "192.0.2.99";
    let mac = world.from().mac().expect("an Ethernet address");
    world
        .far
        .neighbour("far0", source.parse::<IpAddr>().expect("an address"), mac)
        .expect("a neighbour");
    let client =
        Actor::attach(&world.from(), End::Client { hold: false }, Wanted::Auto).expect("a client");
    send(
        &world,
        segments(&world, Act::Syn, source, FAR[0], "3000-3009"),
        10,
    );
    wait_until("all are refused", || {
        client.acted().expect("counts").resets == 10
    });
    assert_eq!(client.acted().expect("counts").established, 0);
}
