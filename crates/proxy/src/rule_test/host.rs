//! The surroundings of a rule under test: simulated time, a table of its own, and everything else as the test says.

use super::plan::{Member, Pool, Setup};
use rules::data_group::DataGroup;
use rules::host::{Host, LogLine, LogTarget, MemberView, PoolView, Table, Wait};
use rules::value::Value;
use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// A host without a network.
pub(super) struct DryHost {
    /// The time, since the Unix epoch.
    pub(super) now: Duration,
    /// Lines of the log, as `Rule NAME <EVENT>: text`, or the text alone where the rule does not name itself.
    pub(super) log: Vec<Vec<u8>>,
    /// What checks have found: the check's number, whether it is an error, and the text.
    pub(super) found: Vec<(usize, bool, Vec<u8>)>,
    /// Addresses that were handed to the shun list.
    pub(super) shunned: Vec<(IpAddr, Duration)>,
    /// What went to syslog servers.
    pub(super) syslog: Vec<Vec<u8>>,
    /// What was sent on sideband connections.
    pub(super) sideband_sent: Vec<Vec<u8>>,
    /// The pools, whose members' states change as the test says.
    pub(super) pools: Vec<Pool>,
    pub(super) table: Box<dyn Table>,
    data_groups: HashMap<Vec<u8>, Arc<DataGroup>>,
    setup: Setup,
    random: u64,
    sidebands: Vec<Sideband>,
    counters: HashMap<Vec<u8>, i64>,
}

/// What tells the values of checks from lines of the log.
pub(super) const MARK: &[u8] = b"\x01check ";

#[derive(Default)]
struct Sideband {
    to_come: VecDeque<Vec<u8>>,
    closed: bool,
}

impl DryHost {
    /// Surroundings as a test has them.
    pub(super) fn new(
        setup: &Setup,
        table: Box<dyn Table>,
        data_groups: HashMap<Vec<u8>, Arc<DataGroup>>,
    ) -> Self {
        DryHost {
            now: setup.now,
            log: Vec::new(),
            found: Vec::new(),
            shunned: Vec::new(),
            syslog: Vec::new(),
            sideband_sent: Vec::new(),
            pools: setup.pools.clone(),
            table,
            data_groups,
            setup: setup.clone(),
            random: setup.seed,
            sidebands: Vec::new(),
            counters: HashMap::new(),
        }
    }

    /// Does what a machine waits for: time passes at once, and what comes is what the test says.
    pub(super) fn answer(&mut self, wait: &Wait) -> Result<Value, String> {
        match wait {
            Wait::Sleep(time) => {
                self.now += *time;
                Ok(Value::Empty)
            }
            Wait::Resolve { name, record, .. } => {
                let name = name.bytes();
                let mut known = self.setup.names.iter();
                let known = known.find(|(known, kind, _)| *known == *name && kind == record);
                match known {
                    Some((_, _, answer)) => answer.as_deref().map(Value::new).map_err(Clone::clone),
                    None => Ok(Value::Empty),
                }
            }
            Wait::Connect { to, .. } => {
                let to = to.bytes();
                let mut known = self.setup.sidebands.iter();
                let Some((_, Some(chunks))) = known.find(|(target, _)| *target == *to) else {
                    return Ok(Value::Empty);
                };
                self.sidebands.push(Sideband {
                    to_come: chunks.iter().cloned().collect(),
                    closed: false,
                });
                Ok(Value::Int(self.sidebands.len() as i64))
            }
            Wait::Send { handle, data, .. } => {
                if self.sideband(*handle).is_none_or(|one| one.closed) {
                    return Ok(Value::Int(0));
                }
                self.sideband_sent.push(data.bytes().to_vec());
                Ok(Value::Int(data.len() as i64))
            }
            Wait::Receive {
                handle,
                peek,
                most,
                until,
                ..
            } => {
                let Some(Some(chunk)) = self.sideband(*handle).map(|one| one.to_come.pop_front())
                else {
                    return Ok(Value::Empty);
                };
                let mut end = match most {
                    0 => chunk.len(),
                    most => chunk.len().min(*most),
                };
                if let Some(until) = until {
                    let until = until.bytes();
                    let found = memchr::memmem::find(&chunk, &until);
                    end = found.map_or(end, |at| end.min(at + until.len()));
                }
                let rest = if *peek { 0 } else { end };
                if let Some(one) = self.sideband(*handle).filter(|_| rest < chunk.len()) {
                    one.to_come.push_front(chunk[rest..].to_vec());
                }
                Ok(Value::new(&chunk[..end]))
            }
        }
    }

    /// A pool by its name.
    pub(super) fn pool_named(&self, name: &[u8]) -> Option<&Pool> {
        let name = short(name);
        self.pools.iter().find(|pool| pool.name.as_bytes() == name)
    }

    fn sideband(&mut self, handle: u64) -> Option<&mut Sideband> {
        let at = usize::try_from(handle).ok()?.checked_sub(1)?;
        self.sidebands.get_mut(at)
    }
}

impl Host for DryHost {
    fn now(&self) -> Duration {
        self.now
    }

    fn cycles(&self) -> u64 {
        super::cycles()
    }

    fn random(&mut self) -> u64 {
        // SplitMix64: the same seed gives the same numbers.
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn worker(&self) -> (u32, u32) {
        self.setup.worker
    }

    fn log(&mut self, line: LogLine<'_>) {
        if let Some(found) = line.text.strip_prefix(MARK) {
            let mut words = found.splitn(3, |byte| *byte == b' ');
            let number = words.next().and_then(|word| std::str::from_utf8(word).ok());
            let number = number.and_then(|word| word.parse().ok());
            if let (Some(number), Some(kind), Some(text)) = (number, words.next(), words.next()) {
                self.found.push((number, kind == b"error", text.to_vec()));
                return;
            }
        }
        let mut text = match line.rule {
            Some(rule) => format!("Rule {rule} <{}>: ", line.event).into_bytes(),
            None => Vec::new(),
        };
        text.extend_from_slice(line.text);
        self.log.push(text);
    }

    fn table(&self) -> &dyn Table {
        &*self.table
    }

    fn data_group(&self, name: &[u8]) -> Option<Arc<DataGroup>> {
        self.data_groups.get(short(name)).cloned()
    }

    fn ifile(&self, name: &[u8]) -> Option<Value> {
        let name = short(name);
        let mut files = self.setup.ifiles.iter();
        let found = files.find(|(file, _)| file.as_bytes() == name);
        found.map(|(_, content)| Value::new(content))
    }

    fn ifiles(&self) -> Vec<Value> {
        let files = self.setup.ifiles.iter();
        files.map(|(name, _)| Value::from(name.as_str())).collect()
    }

    fn pool(&self, name: &[u8]) -> Option<PoolView> {
        let pool = self.pool_named(name)?;
        Some(PoolView {
            name: pool.name.as_str().into(),
            members: pool.members.iter().map(view).collect(),
        })
    }

    fn has_virtual(&self, name: &[u8]) -> bool {
        let name = short(name);
        self.setup.virtual_name.as_bytes() == name
            || self.setup.virtuals.iter().any(|one| one.as_bytes() == name)
    }

    fn geography(&self, address: IpAddr, path: &[&str]) -> Option<Value> {
        let path = path.join(".");
        let mut known = self.setup.geography.iter();
        let found = known
            .find(|(net, length, known, _)| *known == path && is_within(address, *net, *length));
        found.map(|(.., text)| Value::new(text))
    }

    fn reputation(&self, address: IpAddr) -> Vec<Value> {
        let known = self.setup.reputation.iter();
        known
            .filter(|(net, length, _)| is_within(address, *net, *length))
            .map(|(.., category)| Value::from(category.as_str()))
            .collect()
    }

    fn shun(&mut self, address: IpAddr, lasting: Duration) -> bool {
        self.shunned.push((address, lasting));
        true
    }

    fn open_log(&mut self, to: LogTarget) -> Result<u64, String> {
        match self.pool_named(&to.pool) {
            Some(_) => Ok(1),
            None => Err(format!("no pool {}", String::from_utf8_lossy(&to.pool))),
        }
    }

    fn send_log(&mut self, _: u64, data: &[u8]) -> bool {
        self.syslog.push(data.to_vec());
        true
    }

    fn close_sideband(&mut self, handle: u64) {
        if let Some(one) = self.sideband(handle) {
            one.closed = true;
        }
    }

    fn sideband_state(&self, handle: u64) -> &'static str {
        let at = usize::try_from(handle).unwrap_or(0).wrapping_sub(1);
        match self.sidebands.get(at) {
            Some(one) if !one.closed => "connected",
            _ => "closed",
        }
    }

    fn counter(&mut self, name: &[u8], add: i64) -> i64 {
        let counter = self.counters.entry(name.to_vec()).or_default();
        *counter = counter.wrapping_add(add);
        *counter
    }
}

fn view(member: &Member) -> MemberView {
    MemberView {
        name: member.name.as_str().into(),
        address: member.address,
        up: member.up,
        enabled: member.enabled,
        ratio: member.ratio,
        priority: member.priority,
        connections: member.connections,
    }
}

/// A name without the folder that rules from elsewhere write before it.
fn short(name: &[u8]) -> &[u8] {
    name.strip_prefix(b"/Common/").unwrap_or(name)
}

/// Whether an address lies in a net.
fn is_within(address: IpAddr, net: IpAddr, length: u8) -> bool {
    let (address, net, bits) = match (address, net) {
        (IpAddr::V4(a), IpAddr::V4(b)) => (u128::from(a.to_bits()), u128::from(b.to_bits()), 32),
        (IpAddr::V6(a), IpAddr::V6(b)) => (a.to_bits(), b.to_bits(), 128),
        _ => return false,
    };
    let shift = u32::from(bits - length.min(bits));
    address.checked_shr(shift).unwrap_or(0) == net.checked_shr(shift).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nets_hold_their_addresses() {
        for (address, net, length, within) in [
            ("10.1.2.3", "10.0.0.0", 8, true),
            ("11.1.2.3", "10.0.0.0", 8, false),
            ("11.1.2.3", "0.0.0.0", 0, true),
            ("2001:db8::1", "2001:db8::", 32, true),
            ("2001:db8::1", "::", 0, true),
            ("2001:db8::1", "0.0.0.0", 0, false),
        ] {
            let (address, net) = (address.parse().unwrap(), net.parse().unwrap());
            assert_eq!(is_within(address, net, length), within, "{address} {net}");
        }
    }
}
