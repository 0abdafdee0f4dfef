use super::*;
use proptest::prelude::*;

/// The tables as the writes leave them, and the order in which they came.
#[derive(Default)]
struct Tables {
    members: HashMap<u16, Member>,
    rings: HashMap<u32, Vec<u32>>,
    virtuals: HashMap<u32, VirtualServer>,
    vips: HashMap<(IpAddr, u16, u8), u32>,
    spans: HashMap<(IpAddr, u8), abi::Spans>,
}

impl Tables {
    /// Does the writes, and after each one checks that nothing leads to what is not there.
    fn write(&mut self, writes: &[Write]) {
        for write in writes {
            match write {
                Write::Member { id, record, .. } => {
                    self.members.insert(*id, *record);
                }
                Write::Ring { ring, places } => {
                    self.rings.insert(*ring, places.clone());
                }
                Write::Virtual { number, record, .. } => {
                    self.virtuals.insert(*number, *record);
                }
                Write::Vip { key, number } => {
                    let ip = abi::narrowed(key.addr, key.family);
                    self.vips.insert((ip, key.port.get(), key.proto), *number);
                }
                Write::Spans { key, spans } => {
                    let ip = abi::narrowed(key.addr, key.family);
                    self.spans.insert((ip, key.proto), **spans);
                }
                Write::NoVip(key) => {
                    let ip = abi::narrowed(key.addr, key.family);
                    let port = (ip, key.port.get(), key.proto);
                    assert!(self.vips.remove(&port).is_some(), "{port:?} was not there");
                }
                Write::NoSpans(key) => {
                    let ip = abi::narrowed(key.addr, key.family);
                    assert!(self.spans.remove(&(ip, key.proto)).is_some());
                }
                Write::NoRing(ring) => {
                    self.rings.remove(ring);
                }
            }
            self.check(write);
        }
    }

    fn check(&self, last: &Write) {
        let spans = self.spans.values().flat_map(|spans| spans.span);
        let in_spans = spans
            .map(|span| span.virtual_server)
            .filter(|number| *number > 0);
        for number in self.vips.values().copied().chain(in_spans) {
            let record = self.virtuals.get(&number).filter(|record| record.way > 0);
            assert!(record.is_some(), "no virtual {number} after {last:?}");
        }
        for record in self.virtuals.values().filter(|record| record.members > 0) {
            let ring = self
                .rings
                .get(&record.ring)
                .expect("a virtual with members has a ring");
            assert_eq!(ring.len() as u32, record.ring_size);
            let somebody = ring
                .iter()
                .all(|id| self.members.contains_key(&(*id as u16)));
            assert!(somebody, "a ring leads to no member after {last:?}");
        }
        for (ip, _, proto) in self.vips.keys() {
            assert!(self.spans.contains_key(&(*ip, *proto)), "no list for {ip}");
        }
    }

    fn number(&self, at: &str) -> u32 {
        let at: SocketAddr = at.parse().unwrap();
        self.vips[&(at.ip(), at.port(), 6)]
    }

    fn restored(&self) -> Balancer {
        fn list<K: Copy + Into<u32>, V: Copy>(map: &HashMap<K, V>) -> Vec<(u32, V)> {
            map.iter()
                .map(|(key, value)| ((*key).into(), *value))
                .collect()
        }
        let key = |ip: &IpAddr, port: u16, proto: u8| VipKey {
            addr: abi::widened(*ip),
            port: port.into(),
            proto,
            family: family_of(*ip),
        };
        let vips: Vec<_> = self
            .vips
            .iter()
            .map(|((ip, port, proto), n)| (key(ip, *port, *proto), *n))
            .collect();
        let spans: Vec<_> = self
            .spans
            .iter()
            .map(|((ip, proto), spans)| (key(ip, 0, *proto), *spans))
            .collect();
        Balancer::restored(&list(&self.members), &list(&self.virtuals), &vips, &spans)
    }
}

/// A configuration with these virtuals and pools.
fn config(rest: &str) -> Config {
    let text = format!("fast_path: {{interfaces: [eth0]}}\n{rest}");
    let source = model::MemorySource::default();
    model::parse_text(std::path::Path::new("test.yaml"), &text, &source).expect("a configuration")
}

fn web(members: &str) -> Config {
    config(&format!(
        "virtuals: {{web: {{protocol: fast, listen: ['192.0.2.1:80'], pool: p}}}}\npools: {{p: {{members: [{members}]}}}}"
    ))
}

fn apply(balancer: &mut Balancer, config: &Config, tables: &mut Tables) -> Vec<Write> {
    applied(balancer, config, tables, &|_, _| None)
}

fn applied(
    balancer: &mut Balancer,
    config: &Config,
    tables: &mut Tables,
    verdict: &dyn Fn(&str, SocketAddr) -> Option<Verdict>,
) -> Vec<Write> {
    let writes = balancer
        .apply(config, verdict, &mut |_, _| Source::default())
        .expect("it fits");
    tables.write(&writes);
    writes
}

fn id(balancer: &Balancer, address: &str) -> u16 {
    let address: SocketAddr = address.parse().unwrap();
    balancer
        .members()
        .iter()
        .find(|member| member.address == address)
        .expect("a member")
        .id
}

const TWO: &str = "'10.0.0.1:80', '10.0.0.2:80'";
const THREE: &str = "'10.0.0.1:80', '10.0.0.2:80', '10.0.0.3:80'";

#[test]
fn what_is_as_it_was_is_not_written() {
    let (mut balancer, mut tables) = (Balancer::new(), Tables::default());
    assert_ne!(apply(&mut balancer, &web(THREE), &mut tables), []);
    assert_eq!(apply(&mut balancer, &web(THREE), &mut tables), []);
    assert_eq!(
        apply(
            &mut balancer,
            &web("'10.0.0.3:80', '10.0.0.1:80', '10.0.0.2:80'"),
            &mut tables
        ),
        []
    );
}

#[test]
fn members_that_stay_keep_their_numbers_and_their_places() {
    let (mut balancer, mut tables) = (Balancer::new(), Tables::default());
    apply(&mut balancer, &web(THREE), &mut tables);
    let ids = ["10.0.0.1:80", "10.0.0.2:80", "10.0.0.3:80"].map(|at| id(&balancer, at));
    let before = tables.rings[&tables.number("192.0.2.1:80")].clone();
    apply(
        &mut balancer,
        &web("'10.0.0.3:80', '10.0.0.9:80', '10.0.0.2:80'"),
        &mut tables,
    );
    assert_eq!(
        [ids[1], ids[2]],
        ["10.0.0.2:80", "10.0.0.3:80"].map(|at| id(&balancer, at))
    );
    assert_eq!(tables.members[&ids[0]].state, 0, "its flows go to others");
    apply(&mut balancer, &web(TWO), &mut tables);
    apply(&mut balancer, &web(THREE), &mut tables);
    assert_eq!(
        ids,
        ["10.0.0.1:80", "10.0.0.2:80", "10.0.0.3:80"].map(|at| id(&balancer, at))
    );
    assert_eq!(tables.rings[&tables.number("192.0.2.1:80")], before);
}

#[test]
fn a_member_that_goes_down_loses_its_places_before_its_flows() {
    let (mut balancer, mut tables) = (Balancer::new(), Tables::default());
    apply(&mut balancer, &web(THREE), &mut tables);
    let number = tables.number("192.0.2.1:80");
    let before = tables.rings[&number].clone();
    let lost = id(&balancer, "10.0.0.2:80");
    let down = |_: &str, at: SocketAddr| {
        let health = if at.to_string() == "10.0.0.2:80" {
            Health::Down
        } else {
            Health::Up
        };
        Some(Verdict {
            health,
            admin: Admin::Enabled,
            weight: 1,
        })
    };
    let writes = applied(&mut balancer, &web(THREE), &mut tables, &down);
    assert!(
        matches!(&writes[..], [Write::Ring { .. }, Write::Virtual { .. }, Write::Member { id, new: false, .. }] if *id == lost),
        "{writes:?}"
    );
    let after = &tables.rings[&number];
    assert!(!after.contains(&lost.into()));
    let moved = before
        .iter()
        .zip(after)
        .filter(|(old, new)| old != new && **old != u32::from(lost))
        .count();
    assert!(
        moved < before.len() / 20,
        "{moved} places of others have moved"
    );
}

#[test]
fn drained_and_weightless_members_keep_their_flows_and_get_no_new_ones() {
    for how in [
        "{address: '10.0.0.2:80', state: drain}",
        "{address: '10.0.0.2:80', weight: 0}",
    ] {
        let (mut balancer, mut tables) = (Balancer::new(), Tables::default());
        apply(&mut balancer, &web(TWO), &mut tables);
        apply(
            &mut balancer,
            &web(&format!("'10.0.0.1:80', {how}")),
            &mut tables,
        );
        let drained = id(&balancer, "10.0.0.2:80");
        assert_eq!(tables.members[&drained].state, MEMBER_DRAIN, "{how}");
        let ring = &tables.rings[&tables.number("192.0.2.1:80")];
        assert!(!ring.contains(&drained.into()), "{how}");
    }
}

#[test]
fn shares_follow_weights() {
    let (mut balancer, mut tables) = (Balancer::new(), Tables::default());
    apply(
        &mut balancer,
        &web("{address: '10.0.0.1:80', weight: 3}, '10.0.0.2:80'"),
        &mut tables,
    );
    let heavy = u32::from(id(&balancer, "10.0.0.1:80"));
    let ring = &tables.rings[&tables.number("192.0.2.1:80")];
    let share = ring.iter().filter(|id| **id == heavy).count() * 1000 / ring.len();
    assert!((745..=755).contains(&share), "{share} thousandths");
}

#[test]
fn backups_are_chosen_when_there_is_no_other() {
    let (mut balancer, mut tables) = (Balancer::new(), Tables::default());
    let members = "'10.0.0.1:80', {address: '10.0.0.2:80', backup: true}";
    apply(&mut balancer, &web(members), &mut tables);
    let (first, backup) = (id(&balancer, "10.0.0.1:80"), id(&balancer, "10.0.0.2:80"));
    let number = tables.number("192.0.2.1:80");
    assert!(
        tables.rings[&number]
            .iter()
            .all(|one| *one == u32::from(first))
    );
    let down = |_: &str, at: SocketAddr| {
        let health = if at.to_string() == "10.0.0.1:80" {
            Health::Down
        } else {
            Health::Up
        };
        Some(Verdict {
            health,
            admin: Admin::Enabled,
            weight: 1,
        })
    };
    applied(&mut balancer, &web(members), &mut tables, &down);
    assert!(
        tables.rings[&number]
            .iter()
            .all(|one| *one == u32::from(backup))
    );
}

#[test]
fn without_members_none_can_be_chosen() {
    let (mut balancer, mut tables) = (Balancer::new(), Tables::default());
    apply(&mut balancer, &web(TWO), &mut tables);
    let down = |_: &str, _: SocketAddr| {
        Some(Verdict {
            health: Health::Down,
            admin: Admin::Enabled,
            weight: 1,
        })
    };
    applied(&mut balancer, &web(TWO), &mut tables, &down);
    let number = tables.number("192.0.2.1:80");
    assert_eq!(tables.virtuals[&number].members, 0);
    apply(&mut balancer, &web(TWO), &mut tables);
    assert_eq!(tables.virtuals[&number].members, 2);
}

#[test]
fn families_have_numbers_of_their_own_and_only_tunnels_lead_across() {
    let (mut balancer, mut tables) = (Balancer::new(), Tables::default());
    let both = |mode: &str| {
        config(&format!(
            "virtuals: {{web: {{protocol: fast, mode: {mode}, listen: ['192.0.2.1:80', '[2001:db8::1]:80'], pool: p}}}}\n\
             pools: {{p: {{members: ['10.0.0.1:80', '[2001:db8::2]:80']}}}}"
        ))
    };
    apply(&mut balancer, &both("nat"), &mut tables);
    let (v4, v6) = (
        tables.number("192.0.2.1:80"),
        tables.number("[2001:db8::1]:80"),
    );
    assert_ne!(v4, v6);
    let (first, second) = (
        id(&balancer, "10.0.0.1:80"),
        id(&balancer, "[2001:db8::2]:80"),
    );
    assert!(tables.rings[&v4].iter().all(|one| *one == u32::from(first)));
    assert!(
        tables.rings[&v6]
            .iter()
            .all(|one| *one == u32::from(second))
    );
    apply(&mut balancer, &both("ipip"), &mut tables);
    for number in [v4, v6] {
        assert_eq!(tables.virtuals[&number].way, Way::Tunnel as u8);
        assert_eq!(tables.virtuals[&number].members, 2);
        assert!(
            [first, second]
                .iter()
                .all(|one| tables.rings[&number].contains(&(*one).into()))
        );
    }
}

#[test]
fn ranges_of_ports_are_listed_by_address() {
    let (mut balancer, mut tables) = (Balancer::new(), Tables::default());
    let ranges = |listen: &str| {
        config(&format!(
            "virtuals: {{web: {{protocol: fast, transport: udp, listen: [{listen}], pool: p}}}}\npools: {{p: {{members: ['10.0.0.1:80']}}}}"
        ))
    };
    apply(
        &mut balancer,
        &ranges("'192.0.2.1:53', '192.0.2.1:8000-8099'"),
        &mut tables,
    );
    let ip: IpAddr = "192.0.2.1".parse().unwrap();
    let number = tables.vips[&(ip, 53, 17)];
    let span = tables.spans[&(ip, 17)].span;
    assert_eq!(
        (span[0].first, span[0].last, span[0].virtual_server),
        (8000, 8099, number)
    );
    assert_eq!(span[1].virtual_server, 0);
    assert_eq!(
        apply(
            &mut balancer,
            &ranges("'192.0.2.1:53', '192.0.2.1:8000-8099'"),
            &mut tables
        ),
        []
    );
    apply(&mut balancer, &config(""), &mut tables);
    assert!(tables.vips.is_empty() && tables.spans.is_empty() && tables.rings.is_empty());
}

#[test]
fn a_later_process_gives_the_same_numbers() {
    let (mut balancer, mut tables) = (Balancer::new(), Tables::default());
    let two = |first: &str, second: &str| {
        config(&format!(
            "virtuals:\n  {first}: {{protocol: fast, listen: ['192.0.2.1:80'], pool: p}}\n  {second}: {{protocol: fast, listen: ['192.0.2.2:1-9'], pool: q}}\n\
             pools: {{p: {{members: [{TWO}]}}, q: {{members: [{THREE}]}}}}"
        ))
    };
    // numbers that do not follow from the order of names
    apply(&mut balancer, &web("'10.0.0.8:80'"), &mut tables);
    apply(&mut balancer, &two("zoo", "ant"), &mut tables);
    let mut later = tables.restored();
    let writes = applied(&mut later, &two("zoo", "ant"), &mut tables, &|_, _| None);
    let rings_alone = writes
        .iter()
        .all(|write| matches!(write, Write::Ring { .. }));
    assert!(rings_alone, "{writes:?}");
    assert_eq!(later.members(), balancer.members());
    assert_eq!(later.virtuals(), balancer.virtuals());
    let mut later = tables.restored();
    apply(&mut later, &web(THREE), &mut tables);
    assert_eq!(tables.spans.len(), 1, "what there is no more goes");
}

#[test]
fn idle_times_are_whole_seconds() {
    let (mut balancer, mut tables) = (Balancer::new(), Tables::default());
    for (idle, seconds) in [("100ms", 1), ("90s", 90), ("7d", u16::MAX)] {
        let config = config(&format!(
            "virtuals: {{web: {{protocol: fast, idle: {idle}, listen: ['192.0.2.1:80'], pool: p}}}}\npools: {{p: {{members: ['10.0.0.1:80']}}}}"
        ));
        apply(&mut balancer, &config, &mut tables);
        assert_eq!(
            tables.virtuals[&tables.number("192.0.2.1:80")].idle,
            seconds,
            "{idle}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Whatever comes and goes, no write leads to what is not there, and members of before have the numbers of before.
    #[test]
    fn changes_lead_from_any_pool_to_any_other(pools in prop::collection::vec(prop::collection::btree_set(1u8..12, 0..6), 2..5)) {
        let (mut balancer, mut tables) = (Balancer::new(), Tables::default());
        for pool in pools {
            let before: HashMap<_, _> = balancer.members().iter().map(|one| (one.address, one.id)).collect();
            let members: Vec<String> = pool.iter().map(|n| format!("'10.0.0.{n}:80'")).collect();
            apply(&mut balancer, &web(&members.join(", ")), &mut tables);
            for member in balancer.members() {
                prop_assert_eq!(member.id, *before.get(&member.address).unwrap_or(&member.id));
            }
            let up = tables.members.values().filter(|member| member.state > 0).count();
            prop_assert_eq!(up, pool.len());
            let number = tables.number("192.0.2.1:80");
            prop_assert_eq!(usize::from(tables.virtuals[&number].members), pool.len());
        }
    }
}
