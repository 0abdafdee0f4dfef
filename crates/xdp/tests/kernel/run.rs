use std::io;
use std::os::fd::AsFd;

use xdp::netns::{Namespace, veth};
use xdp::run::{Run, live, syscall_run, test_run};

use crate::{kernel, tiny, wait_for};

#[test]
fn a_test_run_gives_the_verdict_and_the_packet() {
    if !kernel() {
        return;
    }
    let packet: Vec<u8> = (0..100).collect();
    for verdict in [tiny::DROP, tiny::PASS] {
        let program = tiny::verdict(verdict);
        let outcome = test_run(program.as_fd(), &Run::new(&packet).repeat(3)).unwrap();
        assert_eq!(outcome.verdict, verdict as u32);
        assert_eq!(outcome.packet, packet);
    }
}

#[test]
fn a_test_run_comes_in_by_the_interface_asked_for() {
    if !kernel() {
        return;
    }
    let (a, b) = (Namespace::new().unwrap(), Namespace::new().unwrap());
    veth(&a, "in0", &b, "in1").unwrap();
    let program = tiny::ingress();
    let run =
        |ifindex| a.run(|| test_run(program.as_fd(), &Run::new(&[0; 64]).from_interface(ifindex)));
    let ifindex = a.ifindex("in0").unwrap();
    assert_eq!(run(ifindex).unwrap().verdict, ifindex);
    assert_eq!(run(9999).unwrap_err().raw_os_error(), Some(libc::ENODEV));
}

#[test]
fn a_packet_without_an_ethernet_header_is_refused() {
    if !kernel() {
        return;
    }
    let error = test_run(tiny::verdict(tiny::PASS).as_fd(), &Run::new(&[0; 13])).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
}

#[test]
fn a_called_program_changes_its_context_and_returns() {
    if !kernel() {
        return;
    }
    let mut context: [u32; 2] = [41, 5];
    let returned = syscall_run(
        tiny::increment().as_fd(),
        xdp::map::bytes_of_mut(&mut context),
    )
    .unwrap();
    assert_eq!((returned, context), (7, [42, 5]));
}

#[test]
fn live_frames_cross_a_veth() {
    if !kernel() {
        return;
    }
    let (a, b) = (Namespace::new().unwrap(), Namespace::new().unwrap());
    veth(&a, "live0", &b, "live1").unwrap();
    b.gro("live1", true).unwrap();
    let program = tiny::redirect(a.ifindex("live0").unwrap());
    // Fewer than the ring between the ends holds, so that none can be lost.
    let frames = 200;
    let before = b.counters("live1").unwrap().rx_packets;
    a.run(|| {
        let ifindex = xdp::interface::ifindex("live0")?;
        live(program.as_fd(), &[0xff; 60], ifindex, frames, 64)
    })
    .unwrap();
    wait_for("the frames arrive", || {
        b.counters("live1").unwrap().rx_packets - before >= frames.into()
    });
}

#[test]
fn live_frames_of_too_large_a_batch_are_refused() {
    if !kernel() {
        return;
    }
    let program = tiny::verdict(tiny::DROP);
    let ifindex = xdp::interface::ifindex("lo").unwrap();
    assert!(live(program.as_fd(), &[0; 60], ifindex, 1, 256).is_ok());
    let error = live(program.as_fd(), &[0; 60], ifindex, 1, 257).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::E2BIG));
}
