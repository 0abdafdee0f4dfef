//! Streams: the frames that arrive are those that should, all of them are counted, and loss and reordering are seen.

use crate::world::{FAR, NEAR, World, addresses, wait_until};
use socket2::{Domain, Protocol as SocketProtocol, Socket, Type};
use std::io::Read;
use std::net::UdpSocket;
use std::time::Duration;
use traffic::http::Stop;
use traffic::packet::{
    ACK, Act, Capture, Generator, Order, PSH, PacketError, Part, Place, Plan, Protocol, Receiver,
    Receiving, Sender, Sizes, Stream, Way, What,
};

/// All frames that an interface receives.
fn listen(world: &World) -> Socket {
    world.far.run(|| {
        let every = SocketProtocol::from(i32::from(3u16.to_be()));
        let socket = Socket::new(Domain::PACKET, Type::RAW, Some(every)).expect("a packet socket");
        socket.set_recv_buffer_size(8 << 20).expect("a buffer");
        socket
            .set_read_timeout(Some(Duration::from_secs(10)))
            .expect("a timeout");
        socket
    })
}

/// The next frame that comes from `source`.
fn next_frame(socket: &Socket, source: [u8; 6]) -> Vec<u8> {
    let mut frame = vec![0; 10_000];
    loop {
        let length = (&mut &*socket).read(&mut frame).expect("a frame");
        // The kernel of the sender speaks to everybody meanwhile.
        if frame[6..12] == source && frame[0] & 1 == 0 {
            return frame[..length].to_vec();
        }
    }
}

/// Sends the first `count` frames of a stream and compares what arrives byte by byte.
fn arrives(world: &World, stream: &Stream, count: u64, part: Part) {
    let socket = listen(world);
    let what = What::Stream(stream.clone());
    world.near.run(|| {
        let mut sender = Sender::new(&Place::here("near0"), &what, part, false).expect("a sender");
        sender.send(count, &Stop::default()).expect("sending");
        assert_eq!(sender.sent().frames, count);
    });
    for number in 0..count {
        let wanted = stream.frame(part, number).expect("a frame");
        assert_eq!(
            next_frame(&socket, stream.source_mac),
            wanted,
            "frame {number} of {stream:?}"
        );
    }
}

fn every_family(world: &World) -> [Stream; 2] {
    [
        world.stream("192.0.2.10-192.0.2.13", "192.0.2.253-192.0.3.1"),
        world.stream(
            "2001:db8::fffe-2001:db8::1:1",
            "2001:db8:0:0:ffff::-2001:db8:0:0:ffff::4",
        ),
    ]
}

#[test]
fn every_kind_of_stream_arrives_byte_by_byte() {
    let world = World::new();
    let protocols = [
        Protocol::Udp,
        Protocol::Tcp { flags: PSH | ACK },
        Protocol::Echo,
        Protocol::Act(Act::Syn),
        Protocol::Act(Act::KeepAlive),
        Protocol::Act(Act::Request),
        Protocol::Act(Act::Reset),
    ];
    for base in every_family(&world) {
        for protocol in protocols {
            for signed in [true, false] {
                let stream = Stream {
                    protocol,
                    signed,
                    source_ports: "65533-65535".parse().expect("ports"),
                    destination_ports: "0-1".parse().expect("ports"),
                    number: 7,
                    ..base.clone()
                };
                // More than all flows, so that they start again.
                assert_eq!(stream.flows(), 120);
                arrives(&world, &stream, 250, Part::WHOLE);
            }
        }
    }
}

#[test]
fn the_order_can_be_drawn_and_threads_have_parts() {
    let world = World::new();
    for base in every_family(&world) {
        let stream = Stream {
            source_ports: "1024-2047".parse().expect("ports"),
            ..base
        };
        for index in 0..3 {
            arrives(&world, &stream, 40, Part { index, of: 3 });
        }
        arrives(
            &world,
            &Stream {
                // To the last flow of the part and on.
                skip: 2 * 1024 * 20 - 7,
                ..stream.clone()
            },
            40,
            Part { index: 1, of: 2 },
        );
        let random = Stream {
            order: Order::Random { seed: 42 },
            ..stream
        };
        arrives(&world, &random, 100, Part { index: 1, of: 2 });
    }
}

#[test]
fn frames_have_the_sizes_of_the_mix() {
    let world = World::new();
    for base in every_family(&world) {
        for sizes in ["imix", "61", "1501", "60:1,3000:1"] {
            world.near.ip(&["link set near0 mtu 3500"]).expect("an MTU");
            world.far.ip(&["link set far0 mtu 3500"]).expect("an MTU");
            let stream = Stream {
                sizes: sizes.parse().expect("sizes"),
                ..base.clone()
            };
            arrives(&world, &stream, 210, Part::WHOLE);
        }
    }
}

#[test]
fn the_kernel_hands_datagrams_to_sockets() {
    let world = World::new();
    for (near, far) in NEAR.iter().zip(FAR) {
        let socket = world.far.run(|| {
            let socket = UdpSocket::bind((far, 5353)).expect("a socket");
            socket
                .set_read_timeout(Some(Duration::from_secs(10)))
                .expect("a timeout");
            socket
        });
        let stream = Stream {
            destination_ports: 5353.into(),
            source_ports: "2000-2999".parse().expect("ports"),
            stamped: true,
            sizes: Sizes::fixed(101),
            ..world.stream(near, far)
        };
        let what = What::Stream(stream);
        world.near.run(|| {
            let place = Place::here("near0");
            let mut sender = Sender::new(&place, &what, Part::WHOLE, false).expect("a sender");
            sender.send(50, &Stop::default()).expect("sending");
        });
        for number in 0..50u16 {
            let mut datagram = [0; 200];
            let (length, from) = socket.recv_from(&mut datagram).expect("a datagram");
            assert_eq!(
                from.to_string().rsplit(':').next(),
                Some(&*(2000 + number).to_string())
            );
            assert_eq!(length, 101 - 14 - if far.contains(':') { 48 } else { 28 });
            assert_eq!(datagram[4..8], u32::from(number).to_be_bytes());
        }
    }
}

#[test]
fn the_kernel_answers_echo_requests() {
    let world = World::new();
    for (near, far) in NEAR.iter().zip(FAR) {
        // The answers carry the requests' signatures.
        let receiver = Receiver::attach(&world.from(), Receiving::default()).expect("a receiver");
        let done = Generator::start(&Plan {
            count: Some(50),
            rate: Some(2000.0),
            ..Plan::new(
                world.from(),
                What::Stream(Stream {
                    protocol: Protocol::Echo,
                    destination_ports: "1-50".parse().expect("ports"),
                    ..world.stream(near, far)
                }),
            )
        })
        .and_then(Generator::join)
        .expect("sending");
        assert_eq!((done.sent.frames, done.sent.refused), (50, 0));
        wait_until("all have answered", || {
            receiver.packets().expect("counts") == 50
        });
    }
}

#[test]
fn what_is_sent_by_several_threads_is_counted_to_the_last() {
    let world = World::new();
    for (near, far) in NEAR.iter().zip(FAR) {
        let receiver = Receiver::attach(&world.to(), Receiving::default()).expect("a receiver");
        let stream = Stream {
            source_ports: "1024-5023".parse().expect("ports"),
            sizes: Sizes::imix(),
            stamped: true,
            ..world.stream(near, far)
        };
        let generator = Generator::start(&Plan {
            cores: vec![0, 0],
            count: Some(20_001),
            ..Plan::new(world.from(), What::Stream(stream))
        })
        .expect("a generator");
        let done = generator.join().expect("sending");
        assert_eq!(done.sent.frames, 20_001);
        wait_until("all have arrived", || {
            receiver.packets().expect("counts") + done.sent.refused == 20_001
        });
        let received = receiver.received().expect("counts");
        assert_eq!(received.streams.len(), 2);
        if done.sent.refused == 0 {
            assert_eq!(received.bytes, done.sent.bytes);
            assert_eq!((received.late(), received.missing()), (0, 0));
            assert_eq!(received.delays.iter().sum::<u64>(), 20_001);
        }
    }
}

#[test]
fn loss_and_late_frames_are_seen() {
    let world = World::new();
    let stream = world.stream("192.0.2.10", "192.0.2.11");
    let six = world.stream("2001:db8::10", "2001:db8::11");
    for stream in [stream, six] {
        let receiver = Receiver::attach(&world.to(), Receiving::default()).expect("a receiver");
        let order = [10u64, 11, 14, 13, 12, 17, 18, 16, 30];
        let frames: Vec<_> = order
            .iter()
            .map(|&number| stream.frame(Part::WHOLE, number).expect("a frame"))
            .collect();
        let capture = Capture::parse(&pcap(&frames)).expect("a capture");
        send_once(&world, capture, Way::Live);
        wait_until("all have arrived", || {
            receiver.packets().expect("counts") == order.len() as u64
        });
        let received = receiver.received().expect("counts");
        assert_eq!(received.late(), 3);
        assert_eq!(received.streams[0].farthest, 2);
        assert_eq!(
            (received.streams[0].lowest, received.streams[0].highest),
            (10, 30)
        );
        assert_eq!(received.missing(), 12);
    }
}

#[test]
fn a_capture_is_replayed_with_its_frames_as_they_are() {
    let world = World::new();
    let mut frames: Vec<_> = every_family(&world)
        .iter()
        .flat_map(|stream| {
            let stream = Stream {
                sizes: "60:1,700:1,1514:1".parse().expect("sizes"),
                ..stream.clone()
            };
            (0..6).map(move |number| stream.frame(Part::WHOLE, number).expect("a frame"))
        })
        .collect();
    let mac = world.from().mac().expect("an Ethernet address");
    for way in [Way::Live, Way::Socket] {
        let socket = listen(&world);
        let mut capture = Capture::parse(&pcap(&frames)).expect("a capture");
        capture.readdress(Some(mac), None);
        send_once(&world, capture, way);
        for frame in &mut frames {
            frame[6..12].copy_from_slice(&mac);
            assert_eq!(next_frame(&socket, mac), *frame);
        }
    }
}

#[test]
fn jumbo_frames_arrive_whole() {
    let world = World::new();
    world.near.ip(&["link set near0 mtu 9000"]).expect("an MTU");
    world.far.ip(&["link set far0 mtu 9000"]).expect("an MTU");
    for base in every_family(&world) {
        let stream = Stream {
            sizes: "9014:2,60:1".parse().expect("sizes"),
            stamped: true,
            ..base
        };
        let receiver = Receiver::attach(&world.to(), Receiving::default()).expect("a receiver");
        let plan = Plan {
            count: Some(200),
            rate: Some(20_000.0),
            ..Plan::new(world.from(), What::Stream(stream))
        };
        assert_eq!(plan.true_way(), Way::Socket);
        let done = Generator::start(&plan)
            .and_then(Generator::join)
            .expect("sending");
        assert_eq!((done.sent.frames, done.sent.refused), (200, 0));
        wait_until("all have arrived", || {
            receiver.packets().expect("counts") == 200
        });
        let received = receiver.received().expect("counts");
        assert_eq!(received.bytes, done.sent.bytes);
        assert_eq!((received.late(), received.missing()), (0, 0));
    }
}

#[test]
fn a_paced_sender_sends_its_count() {
    let world = World::new();
    for rate in [20_000.0, 200_000.0] {
        let receiver = Receiver::attach(&world.to(), Receiving::default()).expect("a receiver");
        let done = Generator::start(&Plan {
            count: Some(5000),
            rate: Some(rate),
            ..Plan::new(
                world.from(),
                What::Stream(world.stream("192.0.2.10", "192.0.2.11")),
            )
        })
        .and_then(Generator::join)
        .expect("sending");
        assert_eq!(done.sent.frames, 5000);
        wait_until("all have arrived", || {
            receiver.packets().expect("counts") + done.sent.refused == 5000
        });
        // Not faster than the rate; how much slower depends on what else the machine does.
        assert!(
            done.took.as_secs_f64() > 5000.0 / rate * 0.7,
            "{:?}",
            done.took
        );
    }
}

#[test]
fn a_receiver_can_leave_frames_to_the_kernel_and_count_what_has_no_signature() {
    let world = World::new();
    let (near, far) = (NEAR[1], FAR[1]);
    let socket = world
        .far
        .run(|| UdpSocket::bind((far, 9)).expect("a socket"));
    let receiver = Receiver::attach(
        &world.to(),
        Receiving {
            all: true,
            pass: true,
            ..Receiving::default()
        },
    )
    .expect("a receiver");
    let stream = Stream {
        signed: false,
        ..world.stream(near, far)
    };
    let frame = stream.frame(Part::WHOLE, 0).expect("a frame");
    assert_eq!(frame.len(), 62);
    let capture = Capture::parse(&pcap(&[frame])).expect("a capture");
    send_once(&world, capture, Way::Live);
    socket
        .set_read_timeout(Some(Duration::from_secs(10)))
        .expect("a timeout");
    assert_eq!(socket.recv(&mut [0; 10]).expect("a datagram"), 0);
    assert!(receiver.packets().expect("counts") >= 1);
    assert_eq!(receiver.received().expect("counts").streams, []);
}

#[test]
fn what_an_interface_does_not_take_is_told() {
    let world = World::new();
    // Nobody receives by NAPI there, so that nothing can be handed over.
    world.far.gro("far0", false).expect("GRO");
    let stream = world.stream("192.0.2.10", "192.0.2.11");
    assert_eq!(refused(&world, &stream), Some(libc::EOPNOTSUPP));
    world.far.gro("far0", true).expect("GRO");
    // Longer than the MTU with a VLAN tag.
    let long = Stream {
        sizes: "60:9,1519:1".parse().expect("sizes"),
        ..stream.clone()
    };
    assert_eq!(refused(&world, &long), Some(libc::EMSGSIZE));
    world.near.ip(&["link set near0 down"]).expect("a link");
    assert_eq!(refused(&world, &stream), Some(libc::ENETDOWN));
}

/// Why an interface does not take a stream.
fn refused(world: &World, stream: &Stream) -> Option<i32> {
    let what = What::Stream(stream.clone());
    world.near.run(|| {
        let place = Place::here("near0");
        let mut sender = Sender::new(&place, &what, Part::WHOLE, false).expect("a sender");
        match sender.send(1000, &Stop::default()) {
            Err(PacketError::Refused { source, .. }) => source.raw_os_error(),
            other => panic!("{other:?}"),
        }
    })
}

#[test]
fn frames_that_find_no_room_are_counted() {
    let world = World::new();
    let receiver = Receiver::attach(&world.to(), Receiving::default()).expect("a receiver");
    let what = What::Stream(world.stream("192.0.2.10", "192.0.2.11"));
    world.near.run(|| {
        let place = Place::here("near0");
        let mut sender = Sender::new(&place, &what, Part::WHOLE, false).expect("a sender");
        // As many as the other end's ring has places, and more before anybody takes one out.
        sender.batch(256);
        sender.send(100_000, &Stop::default()).expect("sending");
        let sent = sender.sent();
        wait_until("the rest has arrived", || {
            receiver.packets().expect("counts") + sent.refused == sent.frames
        });
    });
}

fn send_once(world: &World, capture: Capture, way: Way) {
    let count = capture.frames().len() as u64;
    let done = Generator::start(&Plan {
        count: Some(count),
        way,
        ..Plan::new(world.from(), What::Capture(capture.into()))
    })
    .and_then(Generator::join)
    .expect("sending");
    assert_eq!((done.sent.frames, done.sent.refused), (count, 0));
}

fn pcap(frames: &[Vec<u8>]) -> Vec<u8> {
    let mut file = Vec::new();
    for number in [0xa1b2_c3d4u32, 0x0002_0004, 0, 0, 65_535, 1] {
        file.extend(number.to_be_bytes());
    }
    for frame in frames {
        for number in [0, 0, frame.len() as u32, frame.len() as u32] {
            file.extend(number.to_be_bytes());
        }
        file.extend(frame);
    }
    file
}

#[test]
fn mistakes_are_told_before_anything_is_sent() {
    let world = World::new();
    let stream = Stream::new(addresses("192.0.2.1"), addresses("2001:db8::1"));
    let error = Generator::start(&Plan::new(world.from(), What::Stream(stream)))
        .err()
        .map(|error| error.to_string());
    assert!(
        error
            .as_deref()
            .is_some_and(|error| error.contains("not of the same family")),
        "{error:?}"
    );
    let stream = world.stream("192.0.2.1", "192.0.2.2");
    let nowhere = Place::within(world.near.name(), "eth9");
    let error = Generator::start(&Plan::new(nowhere, What::Stream(stream)))
        .err()
        .map(|error| error.to_string());
    assert!(
        error.as_deref().is_some_and(|error| error.contains("eth9")),
        "{error:?}"
    );
}
