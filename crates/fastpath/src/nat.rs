//! Rules of source NAT and pools of addresses, from the configuration to records. Pure: the interfaces' numbers are given.

use std::net::IpAddr;

use addr::Prefix;
use model::{Config, PortSet, SourceNat, Translation};
use thiserror::Error;

use crate::abi::{
    Addr4, Addr6, NAT_RULES, NatRule4, NatRule6, PORT_RANGES, SNAT_AUTOMAP, SNAT_POOL, Source,
};

/// The records of source NAT.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Nat {
    /// Rules of IPv4 in order.
    pub v4: Vec<NatRule4>,
    /// Rules of IPv6 in order.
    pub v6: Vec<NatRule6>,
}

impl Nat {
    /// The records of the configuration's rules; `number` tells the number of an interface, 0 where there is none.
    pub fn of(
        config: &Config,
        pools: &mut Pools,
        number: impl Fn(&str) -> u32,
    ) -> Result<Self, NatError> {
        let mut nat = Self::default();
        let rules = config.fast_path.iter().flat_map(|path| &path.source_nat);
        for (id, rule) in (1..).zip(rules) {
            let from = config.prefix_set(&rule.from).prefixes();
            let mut to = config.prefix_set(&rule.to).prefixes();
            if rule.to.is_empty() {
                to = everywhere().to_vec();
            }
            // An interface that is not there matches nothing, while 0 would match all.
            let out = match &rule.out {
                Some(name) => match number(name.as_str()) {
                    0 => u32::MAX,
                    number => number,
                },
                None => 0,
            };
            let sources = sources(rule, pools)?;
            for from in &from {
                for to in to.iter().filter(|to| same_family(from, to)) {
                    nat.push(from, to, (out, id, rule.hairpin), &sources);
                }
            }
            for (family, count) in [(4, nat.v4.len()), (6, nat.v6.len())] {
                if count > NAT_RULES {
                    return Err(NatError::TooMany {
                        rule: rule.name.to_string(),
                        family,
                    });
                }
            }
        }
        Ok(nat)
    }

    fn push(
        &mut self,
        from: &Prefix,
        to: &Prefix,
        (out, id, hairpin): (u32, u32, bool),
        (source4, source6): &(Source, Source),
    ) {
        let hairpin = hairpin.into();
        match (from.network(), to.network()) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => self.v4.push(NatRule4 {
                from: source.octets(),
                from_mask: mask4(from.len()),
                to: destination.octets(),
                to_mask: mask4(to.len()),
                out,
                id,
                hairpin,
                source: *source4,
            }),
            (IpAddr::V6(source), IpAddr::V6(destination)) => self.v6.push(NatRule6 {
                from: source.octets(),
                from_mask: mask6(from.len()),
                to: destination.octets(),
                to_mask: mask6(to.len()),
                out,
                id,
                hairpin,
                source: *source6,
            }),
            _ => {}
        }
    }
}

/// The addresses of all pools, in the tables' order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pools {
    /// Those of IPv4.
    pub v4: Vec<Addr4>,
    /// Those of IPv6.
    pub v6: Vec<Addr6>,
    known: Vec<(Vec<Prefix>, Places)>,
}

/// First and count of a pool's addresses, of IPv4 and of IPv6.
pub type Places = [(u32, u32); 2];

impl Pools {
    /// The places of a pool's addresses.
    pub fn add(&mut self, prefixes: &[Prefix]) -> Result<Places, NatError> {
        if let Some((_, places)) = self.known.iter().find(|(known, _)| known == prefixes) {
            return Ok(*places);
        }
        let (first4, first6) = (self.v4.len(), self.v6.len());
        for prefix in prefixes {
            match (prefix.network(), prefix.last()) {
                (IpAddr::V4(first), IpAddr::V4(last)) => {
                    let all = first.to_bits()..=last.to_bits();
                    self.v4.extend(all.map(u32::to_be_bytes).take(MOST + 1));
                }
                (IpAddr::V6(first), IpAddr::V6(last)) => {
                    let all = first.to_bits()..=last.to_bits();
                    self.v6.extend(all.map(u128::to_be_bytes).take(MOST + 1));
                }
                _ => {}
            }
            if self.v4.len().max(self.v6.len()) > MOST {
                return Err(NatError::TooManyAddresses);
            }
        }
        let places = [
            (first4 as u32, (self.v4.len() - first4) as u32),
            (first6 as u32, (self.v6.len() - first6) as u32),
        ];
        self.known.push((prefixes.to_vec(), places));
        Ok(places)
    }

    /// Records for translations to a pool, of each family.
    pub fn sources(
        &mut self,
        prefixes: &[Prefix],
        base: Source,
    ) -> Result<(Source, Source), NatError> {
        let [(first4, count4), (first6, count6)] = self.add(prefixes)?;
        let mut v4 = base;
        v4.kind = SNAT_POOL;
        let mut v6 = v4;
        (v4.first, v4.count) = (first4, count4);
        (v6.first, v6.count) = (first6, count6);
        Ok((v4, v6))
    }
}

/// A record with these ports, that names no addresses yet.
pub fn source_with_ports(ports: &PortSet, whose: &str) -> Result<Source, NatError> {
    let ranges = ports.ranges();
    let mut source = Source::default();
    if ranges.len() > PORT_RANGES {
        return Err(NatError::TooManyRanges {
            rule: whose.to_owned(),
        });
    }
    for (to, range) in source.ports.iter_mut().zip(ranges) {
        *to = [*range.start(), *range.end()];
    }
    Ok(source)
}

/// What cannot be translated as the configuration wants it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NatError {
    /// Too many records.
    #[error(
        "source_nat {rule}: with it there are more than {NAT_RULES} pairs of `from` and `to` of IPv{family}; use fewer, larger prefixes"
    )]
    TooMany {
        /// The rule.
        rule: String,
        /// 4 or 6.
        family: u8,
    },
    /// Too many ranges of ports.
    #[error(
        "source_nat {rule}: `ports` has more than {PORT_RANGES} ranges; use fewer, larger ones"
    )]
    TooManyRanges {
        /// The rule or virtual.
        rule: String,
    },
    /// Too many addresses.
    #[error(
        "all pools that source NAT and `snat` translate to have more than {MOST} addresses of one family together; use smaller ones"
    )]
    TooManyAddresses,
}

/// Places in the programs' tables.
const MOST: usize = 65536;

fn sources(rule: &SourceNat, pools: &mut Pools) -> Result<(Source, Source), NatError> {
    let mut base = source_with_ports(&rule.ports, rule.name.as_str())?;
    base.per_user = rule.per_user;
    match &rule.translate {
        Translation::Masquerade => {
            base.kind = SNAT_AUTOMAP;
            Ok((base, base))
        }
        Translation::Pool(prefixes) => pools.sources(prefixes, base),
    }
}

fn everywhere() -> [Prefix; 2] {
    [
        Prefix::containing(IpAddr::from([0; 4]), 0),
        Prefix::containing(IpAddr::from([0; 16]), 0),
    ]
}

fn same_family(a: &Prefix, b: &Prefix) -> bool {
    a.network().is_ipv4() == b.network().is_ipv4()
}

fn mask4(len: u8) -> Addr4 {
    u32::MAX
        .checked_shl(32 - u32::from(len))
        .unwrap_or(0)
        .to_be_bytes()
}

fn mask6(len: u8) -> Addr6 {
    u128::MAX
        .checked_shl(128 - u32::from(len))
        .unwrap_or(0)
        .to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn nat(rules: &str) -> (Result<Nat, NatError>, Pools) {
        let text = format!("fast_path: {{interfaces: [eth0, eth1], source_nat: [{rules}]}}");
        let config = model::parse_text(
            Path::new("test.yaml"),
            &text,
            &model::MemorySource::default(),
        )
        .unwrap();
        let mut pools = Pools::default();
        let nat = Nat::of(&config, &mut pools, |name| u32::from(name == "eth1") * 7);
        (nat, pools)
    }

    #[test]
    fn a_rule_without_destinations_is_for_all_of_its_families() {
        let (nat, _) = nat("{name: a, from: ['10.0.0.0/8', 'fd00::/8'], out: eth1, per_user: 5}");
        let nat = nat.unwrap();
        let [rule] = nat.v4[..] else {
            panic!("{nat:?}")
        };
        assert_eq!((rule.from, rule.from_mask), ([10, 0, 0, 0], [255, 0, 0, 0]));
        assert_eq!((rule.to, rule.to_mask), ([0; 4], [0; 4]));
        assert_eq!((rule.out, rule.id, rule.hairpin), (7, 1, 1));
        assert_eq!((rule.source.kind, rule.source.per_user), (SNAT_AUTOMAP, 5));
        assert_eq!(rule.source.ports[..2], [[1024, 32767], [61000, 65535]]);
        assert_eq!(nat.v6.len(), 1);
        assert_eq!(nat.v6[0].from_mask[..2], [255, 0]);
    }

    #[test]
    fn sources_and_destinations_are_paired_within_a_family() {
        let (nat, _) = nat(
            "{name: a, from: ['10.0.0.0/8', 'fd00::/8'], to: ['192.0.2.0/24', '198.51.100.0/24', '2001:db8::/32']}",
        );
        let nat = nat.unwrap();
        assert_eq!((nat.v4.len(), nat.v6.len()), (2, 1));
    }

    #[test]
    fn pools_are_written_out_once() {
        let pool = "translate: {pool: ['192.0.2.8/30', '192.0.2.1/32']}";
        let (nat, pools) = nat(&format!(
            "{{name: a, from: '10.0.0.0/8', {pool}}}, {{name: b, from: '172.16.0.0/12', {pool}}}"
        ));
        let nat = nat.unwrap();
        assert_eq!(pools.v4.len(), 5);
        assert_eq!(pools.v4[4], [192, 0, 2, 1]);
        let sources: Vec<_> = nat.v4.iter().map(|rule| rule.source).collect();
        assert_eq!(sources[0], sources[1]);
        assert_eq!((sources[0].first, sources[0].count), (0, 5));
    }

    #[test]
    fn an_interface_that_is_not_there_matches_nothing() {
        let (nat, _) = nat("{name: a, from: '10.0.0.0/8', out: eth0}");
        assert_eq!(nat.unwrap().v4[0].out, u32::MAX);
    }

    #[test]
    fn more_pairs_than_there_is_room_for_are_an_error() {
        let many: Vec<String> = (0..65).map(|n| format!("'10.{n}.0.0/24'")).collect();
        let (nat, _) = nat(&format!("{{name: a, from: [{}]}}", many.join(",")));
        let error = nat.unwrap_err();
        assert!(
            matches!(error, NatError::TooMany { family: 4, .. }),
            "{error}"
        );
    }
}
