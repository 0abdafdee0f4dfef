use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::process;

use libbpf_rs::{MapHandle, MapType};
use xdp::attach::{AttachError, Attached, Attachment, LinkError, Mode, Wanted, attach, attached};
use xdp::netns::{Namespace, veth};
use xdp::{interface, map, object, pin};

use crate::{kernel, tiny, wait_for};

/// Two namespaces; what `b` sends to the addresses comes in by `front` of `a`.
struct Pair {
    a: Namespace,
    b: Namespace,
    front: String,
}

const V4: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);

impl Pair {
    fn new() -> Self {
        let (a, b) = (Namespace::new().unwrap(), Namespace::new().unwrap());
        veth(&a, "front", &b, "back").unwrap();
        b.address("back", "192.0.2.2/24").unwrap();
        b.address("back", "2001:db8::2/64").unwrap();
        let mac = a.mac("front").unwrap();
        b.neighbour("back", V4, mac).unwrap();
        b.neighbour("back", V6, mac).unwrap();
        Self {
            a,
            b,
            front: "front".to_owned(),
        }
    }

    fn attach(&self, program: &OwnedFd, wanted: Wanted) -> Result<Attachment, AttachError> {
        self.a.run(|| {
            let ifindex = interface::ifindex(&self.front).unwrap();
            attach(program.as_fd(), ifindex, wanted)
        })
    }

    fn send(&self, to: impl Into<SocketAddr> + Send) {
        self.b.run(|| {
            let to = to.into();
            let any: SocketAddr = match to {
                SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
                SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
            };
            UdpSocket::bind(any).unwrap().send_to(b"?", to).unwrap();
        });
    }
}

/// A folder for pins, removed when dropped.
struct Pins(PathBuf);

impl Pins {
    fn new(test: &str) -> Self {
        let folder = PathBuf::from(format!("/sys/fs/bpf/xdp-test-{}-{test}", process::id()));
        pin::mounted(&folder).unwrap();
        Self(folder)
    }
}

impl Drop for Pins {
    fn drop(&mut self) {
        drop(pin::remove_tree(&self.0));
    }
}

fn counters() -> MapHandle {
    tiny::array(MapType::Array, 8, 2, 0)
}

fn counted(counters: &MapHandle, index: u32) -> u64 {
    map::get(counters, &index).unwrap().unwrap()
}

#[test]
fn a_pinned_program_outlives_its_process_and_is_replaced_in_place() {
    if !kernel() {
        return;
    }
    let pair = Pair::new();
    let pins = Pins::new("replaced");
    let path = pins.0.join("link");
    let counters = counters();
    let mut attachment = pair
        .attach(&tiny::count(&counters, 0, tiny::DROP), Wanted::Auto)
        .unwrap();
    assert_eq!(attachment.mode(), Mode::Native);
    let ifindex = attachment.ifindex();
    attachment.pin(&path).unwrap();
    drop(attachment);
    pair.send((V4, 9));
    pair.send((V6, 9));
    wait_for("the first program sees both packets", || {
        counted(&counters, 0) >= 2
    });

    let attachment = pair.a.run(|| Attachment::open(&path)).unwrap();
    assert_eq!(
        (attachment.mode(), attachment.ifindex()),
        (Mode::Native, ifindex)
    );
    attachment
        .update(tiny::count(&counters, 1, tiny::DROP).as_fd())
        .unwrap();
    let first = counted(&counters, 0);
    pair.send((V4, 9));
    pair.send((V6, 9));
    wait_for("the second program sees both packets", || {
        counted(&counters, 1) >= 2
    });
    assert_eq!(counted(&counters, 0), first);

    attachment.detach().unwrap();
    assert!(!path.exists());
    pair.attach(&tiny::verdict(tiny::PASS), Wanted::Native)
        .expect("the interface is free again");
}

#[test]
fn an_attachment_that_is_not_pinned_ends_with_its_owner() {
    if !kernel() {
        return;
    }
    let pair = Pair::new();
    let program = tiny::verdict(tiny::PASS);
    let attachment = pair.attach(&program, Wanted::Native).unwrap();
    let error = pair.attach(&program, Wanted::Native).unwrap_err();
    assert!(
        matches!(&error, AttachError::Occupied { interface } if interface == "front"),
        "{error}"
    );
    drop(attachment);
    wait_for("the interface is free", || {
        pair.attach(&program, Wanted::Native).is_ok()
    });
}

#[test]
fn without_a_driver_for_it_the_program_runs_in_the_stack() {
    if !kernel() {
        return;
    }
    let pins = Pins::new("generic");
    let path = pins.0.join("link");
    let namespace = Namespace::new().unwrap();
    namespace.run(|| {
        let program = tiny::verdict(tiny::PASS);
        let lo = interface::ifindex("lo").unwrap();
        let error = attach(program.as_fd(), lo, Wanted::Native).unwrap_err();
        assert!(
            matches!(&error, AttachError::Unsupported { interface, .. } if interface == "lo"),
            "{error}"
        );
        let mut attachment = attach(program.as_fd(), lo, Wanted::Auto).unwrap();
        assert_eq!(attachment.mode(), Mode::Generic);
        attachment.pin(&path).unwrap();
        assert_eq!(Attachment::open(&path).unwrap().mode(), Mode::Generic);
    });
}

#[test]
fn the_program_of_an_interface_is_known_by_number() {
    if !kernel() {
        return;
    }
    let pair = Pair::new();
    let found = || {
        pair.a
            .run(|| attached(interface::ifindex("front").unwrap()))
            .unwrap()
    };
    assert_eq!(found(), None);
    let [old, new] = [(); 2].map(|()| tiny::verdict(tiny::PASS));
    for (wanted, mode) in [
        (Wanted::Native, Mode::Native),
        (Wanted::Generic, Mode::Generic),
    ] {
        let attachment = pair.attach(&old, wanted).unwrap();
        for program in [&old, &new] {
            attachment.update(program.as_fd()).unwrap();
            let program = object::id(program).unwrap();
            assert_eq!(found(), Some(Attached { mode, program }));
        }
        attachment.detach().unwrap();
    }
}

#[test]
fn a_missing_interface_is_named() {
    if !kernel() {
        return;
    }
    let error = attach(tiny::verdict(tiny::PASS).as_fd(), 9999, Wanted::Auto).unwrap_err();
    assert!(
        matches!(error, AttachError::NoInterface { ifindex: 9999 }),
        "{error}"
    );
    assert!(error.to_string().contains("9999"), "{error}");
}

#[test]
fn an_mtu_too_large_for_the_driver_is_told_apart() {
    if !kernel() {
        return;
    }
    let pair = Pair::new();
    pair.b.ip(&["link set back mtu 9000"]).unwrap();
    let error = pair
        .attach(&tiny::verdict(tiny::PASS), Wanted::Native)
        .unwrap_err();
    assert!(
        matches!(
            error,
            AttachError::MtuTooLarge {
                mode: Mode::Native,
                ..
            }
        ),
        "{error}"
    );
    assert!(error.to_string().contains("front"), "{error}");
}

#[test]
fn pins_of_other_things_and_of_interfaces_that_are_gone_are_refused() {
    if !kernel() {
        return;
    }
    let pair = Pair::new();
    let pins = Pins::new("refused");
    let (table, link) = (pins.0.join("table"), pins.0.join("link"));
    pin::pin(counters().as_fd(), &table).unwrap();
    let error = Attachment::open(&table).unwrap_err();
    assert!(matches!(error, LinkError::NotXdp { .. }), "{error}");

    let program = tiny::verdict(tiny::PASS);
    pair.attach(&program, Wanted::Native)
        .unwrap()
        .pin(&link)
        .unwrap();
    pair.a.ip(&["link delete front"]).unwrap();
    let error = pair.a.run(|| Attachment::open(&link)).unwrap_err();
    assert!(matches!(error, LinkError::InterfaceGone { .. }), "{error}");
    let error = Attachment::open(pins.0.join("absent")).unwrap_err();
    assert!(error.to_string().contains("absent"), "{error}");
}
