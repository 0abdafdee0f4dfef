//! Unpacking at a member: what comes out of tunnels of each family around each, and what is left alone.

#![allow(missing_docs, clippy::unwrap_used, reason = "tests may panic")]

mod rig;

use fastpath::decap::{self, Program, Stats};
use rig::*;
use xdp::attach::Wanted;
use xdp::netns::{self, Namespace};
use xdp::run::{self, Run};

/// The member's address.
const HERE: u8 = 7;

/// The program for [`HERE`] of both families.
fn with_program(cases: impl Fn(&Program)) {
    if let Err(missing) = xdp::require::check() {
        println!("passed over: {missing}");
        return;
    }
    let addresses = FAMILIES.map(|f| f.right(HERE));
    cases(&Program::load(&addresses).unwrap());
}

/// Runs the program on a frame: it must have this verdict, leave this frame, and count this.
#[track_caller]
fn case(program: &Program, what: &str, frame: &[u8], verdict: u32, expected: &[u8], rise: Stats) {
    let before = program.stats().unwrap();
    let outcome = run::test_run(program.fd().unwrap(), &Run::new(frame)).unwrap();
    let after = program.stats().unwrap();
    let risen = Stats {
        decapsulated: after.decapsulated - before.decapsulated,
        passed: after.passed - before.passed,
        malformed: after.malformed - before.malformed,
        congested: after.congested - before.congested,
    };
    assert_eq!((outcome.verdict, risen), (verdict, rise), "{what}");
    if verdict == XDP_PASS {
        assert_eq!(outcome.packet, expected, "{what}");
    }
}

const DECAPSULATED: Stats = Stats {
    decapsulated: 1,
    passed: 0,
    malformed: 0,
    congested: 0,
};
const PASSED: Stats = Stats {
    decapsulated: 0,
    passed: 1,
    malformed: 0,
    congested: 0,
};
const MALFORMED: Stats = Stats {
    decapsulated: 0,
    passed: 0,
    malformed: 1,
    congested: 0,
};
const CONGESTED: Stats = Stats {
    decapsulated: 0,
    passed: 0,
    malformed: 0,
    congested: 1,
};

/// A client's packet to a virtual.
fn inner(f: Family) -> Packet {
    tcp(at(f.left(10), 1000), at(f.host(200, 20), 80), ACK).payload(b"request")
}

fn outer(f: Family, inside: &Packet) -> Packet {
    tunnelled(f.right(1), f.right(HERE), inside)
}

#[test]
fn what_was_inside_comes_out() {
    with_program(|program| {
        for (inside, outside) in pairs() {
            let packet = inner(inside).tos(0x28).ttl(3);
            let what = format!("{inside:?} in {outside:?}");
            let frame = outer(outside, &packet).bytes();
            case(
                program,
                &what,
                &frame,
                XDP_PASS,
                &packet.bytes(),
                DECAPSULATED,
            );
        }
        let packet = inner(Family::V4);
        let frame = outer(Family::V4, &packet).options(&[1; 8]).bytes();
        case(
            program,
            "outer options",
            &frame,
            XDP_PASS,
            &packet.bytes(),
            DECAPSULATED,
        );
        let frame = outer(Family::V6, &packet).extension(60).bytes();
        case(
            program,
            "limit of encapsulation",
            &frame,
            XDP_PASS,
            &packet.bytes(),
            DECAPSULATED,
        );
        let mut frame = outer(Family::V4, &packet).bytes();
        let mut expected = packet.bytes();
        frame.extend([0; 10]);
        expected.extend([0; 10]);
        case(
            program,
            "Ethernet's padding",
            &frame,
            XDP_PASS,
            &expected,
            DECAPSULATED,
        );
    });
}

#[test]
fn congestion_on_the_way_is_told_to_the_receiver() {
    // RFC 6040, figure 4: outer, inner, what comes out
    let (not_ect, ect1, ect0, ce) = (0, 1, 2, 3);
    let table = [
        (not_ect, not_ect, Some(not_ect)),
        (not_ect, ect0, Some(ect0)),
        (not_ect, ect1, Some(ect1)),
        (not_ect, ce, Some(ce)),
        (ect0, not_ect, Some(not_ect)),
        (ect0, ect0, Some(ect0)),
        (ect0, ect1, Some(ect1)),
        (ect0, ce, Some(ce)),
        (ect1, not_ect, Some(not_ect)),
        (ect1, ect0, Some(ect1)),
        (ect1, ect1, Some(ect1)),
        (ect1, ce, Some(ce)),
        (ce, not_ect, None),
        (ce, ect0, Some(ce)),
        (ce, ect1, Some(ce)),
        (ce, ce, Some(ce)),
    ];
    with_program(|program| {
        for (inside, outside) in pairs() {
            for (o, i, expected) in table {
                let what = format!("{inside:?} in {outside:?}: {o} around {i}");
                let frame = outer(outside, &inner(inside).tos(0xb8 | i)).tos(o).bytes();
                match expected {
                    Some(ecn) => {
                        let out = inner(inside).tos(0xb8 | ecn).bytes();
                        case(program, &what, &frame, XDP_PASS, &out, DECAPSULATED);
                    }
                    None => case(program, &what, &frame, XDP_DROP, &[], CONGESTED),
                }
            }
        }
    });
}

#[test]
fn all_else_is_passed_up_as_it_is() {
    with_program(|program| {
        for f in FAMILIES {
            let elsewhere = tunnelled(f.right(1), f.right(8), &inner(f));
            let mut fragments = outer(f, &inner(f).size(600)).fragments(400);
            fragments.push(elsewhere);
            fragments.push(inner(f));
            fragments.push(udp(at(f.right(1), 1), at(f.right(HERE), 2)));
            fragments.push(echo(f.right(1), f.right(HERE), 1));
            for packet in fragments {
                let frame = packet.bytes();
                case(
                    program,
                    &format!("{packet:?}"),
                    &frame,
                    XDP_PASS,
                    &frame,
                    PASSED,
                );
            }
        }
        let tagged = outer(Family::V4, &inner(Family::V4)).vlan(5).bytes();
        case(program, "a tag", &tagged, XDP_PASS, &tagged, PASSED);
        for length in [14, 15, 33] {
            let short = &outer(Family::V4, &inner(Family::V4)).bytes()[..length];
            case(
                program,
                "an outer header cut short",
                short,
                XDP_PASS,
                short,
                PASSED,
            );
        }
    });
}

#[test]
fn what_is_no_packet_inside_is_dropped() {
    with_program(|program| {
        for (inside, outside) in pairs() {
            let (outer_bytes, inner_bytes) = (
                if outside.is_v4() { 34 } else { 54 },
                if inside.is_v4() { 20 } else { 40 },
            );
            let frame = outer(outside, &inner(inside)).bytes();
            for length in [outer_bytes, outer_bytes + 1, outer_bytes + inner_bytes - 1] {
                let what = format!("{inside:?} in {outside:?}, {length} bytes");
                case(program, &what, &frame[..length], XDP_DROP, &[], MALFORMED);
            }
            let mut frame = frame;
            frame[outer_bytes] = 0x50 | frame[outer_bytes] & 0xf;
            case(program, "no IP", &frame, XDP_DROP, &[], MALFORMED);
        }
    });
}

fn pairs() -> [(Family, Family); 4] {
    let [a, b] = FAMILIES;
    [(a, a), (a, b), (b, a), (b, b)]
}

#[test]
fn it_is_put_on_an_interface_replaced_and_taken_off() {
    if let Err(missing) = xdp::require::check() {
        println!("passed over: {missing}");
        return;
    }
    let (here, there) = (Namespace::new().unwrap(), Namespace::new().unwrap());
    netns::veth(&here, "member", &there, "balancer").unwrap();
    here.ip(&["address add 10.0.1.7/24 dev member"]).unwrap();
    let root = std::path::PathBuf::from(format!(
        "/sys/fs/bpf/headgate-decap-test-{}",
        std::process::id()
    ));
    let own: std::net::IpAddr = [10, 0, 1, 7].into();
    let other: std::net::IpAddr = "2001:db8::7".parse().unwrap();
    here.run(|| {
        assert!(decap::status_at(&root, "member").unwrap().is_none());
        assert!(!decap::detach_at(&root, "member").unwrap());
        let status = decap::attach_at(&root, "member", Wanted::Auto, &[]).unwrap();
        assert!(status.addresses.contains(&own), "{status:?}");
        decap::attach_at(&root, "member", Wanted::Auto, &[other]).unwrap();
        let status = decap::status_at(&root, "member").unwrap().unwrap();
        assert_eq!(status.addresses, [other]);
        assert!(decap::detach_at(&root, "member").unwrap());
        assert!(decap::status_at(&root, "member").unwrap().is_none());
        assert!(matches!(
            decap::attach_at(&root, "nothing", Wanted::Auto, &[]),
            Err(decap::DecapError::Interface { .. })
        ));
    });
    assert!(!root.exists(), "pins are left");
}
