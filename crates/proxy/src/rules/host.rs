//! What the process offers to rules: [`Host`] on a worker and the configuration it has in force.

use super::machine;
use crate::snapshot::{Backend, Snapshot};
use crate::sys;
use crate::worker::Worker;
use balance::{Admin, Algorithm, Ask, Health, Member, Pick};
use rules::data_group::DataGroup;
use rules::flow::Mode;
use rules::host::{Host, LogLine, LogTarget, MemberView, PoolView, Table};
use rules::value::Value;
use std::cell::Ref;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tracing::{debug, error, info, warn};

/// A worker, as rules see it for the time of a step.
pub(super) struct WorkerHost<'a> {
    worker: &'a Worker,
    snapshot: Ref<'a, Arc<Snapshot>>,
}

/// Files as values, made when they are first asked for.
#[derive(Default)]
pub(super) struct Files(HashMap<String, Value>);

impl Files {
    pub(super) fn forget(&mut self) {
        self.0.clear();
    }
}

impl<'a> WorkerHost<'a> {
    pub(super) fn new(worker: &'a Worker) -> Self {
        WorkerHost {
            worker,
            snapshot: worker.in_force(),
        }
    }
}

/// A name as the configuration has it: F5's paths begin with a folder that means nothing here.
pub(crate) fn plain(name: &[u8]) -> &str {
    let name = name.strip_prefix(b"/Common/").unwrap_or(name);
    std::str::from_utf8(name).unwrap_or("")
}

impl Host for WorkerHost<'_> {
    fn now(&self) -> Duration {
        machine::now()
    }

    fn cycles(&self) -> u64 {
        sys::cycles()
    }

    fn random(&mut self) -> u64 {
        self.worker.rules.random()
    }

    fn worker(&self) -> (u32, u32) {
        let count = self.worker.shared.peers.load().len().max(1);
        (self.worker.index as u32, count as u32)
    }

    fn log(&mut self, line: LogLine<'_>) {
        let text = String::from_utf8_lossy(line.text);
        let (facility, event) = (line.facility, line.event);
        let text = match line.rule {
            Some(rule) => format!("Rule {rule} <{event}>: {text}"),
            None => text.into_owned(),
        };
        match line.level {
            0..=3 => error!(target: "rule", facility, "{text}"),
            4 => warn!(target: "rule", facility, "{text}"),
            5 | 6 => info!(target: "rule", facility, "{text}"),
            _ => debug!(target: "rule", facility, "{text}"),
        }
    }

    fn table(&self) -> &dyn Table {
        &self.worker.shared.rules.table
    }

    fn data_group(&self, name: &[u8]) -> Option<Arc<DataGroup>> {
        self.snapshot.world.groups.get(plain(name)).cloned()
    }

    fn ifile(&self, name: &[u8]) -> Option<Value> {
        let name = plain(name);
        let mut files = self.worker.rules.files.borrow_mut();
        if let Some(value) = files.0.get(name) {
            return Some(value.clone());
        }
        let content = self.snapshot.world.files.get(name)?;
        let value = Value::new(content);
        files.0.insert(name.to_owned(), value.clone());
        Some(value)
    }

    fn ifiles(&self) -> Vec<Value> {
        let names = self.snapshot.world.files.keys();
        names.map(|name| Value::from(name.as_str())).collect()
    }

    fn pool(&self, name: &[u8]) -> Option<PoolView> {
        let backend = self.snapshot.backends.get(plain(name))?;
        Some(view(backend, self.worker.now()))
    }

    fn choose(&mut self, pool: &[u8], mode: Option<Mode>) -> Option<MemberView> {
        let backend = self.snapshot.backends.get(plain(pool))?;
        let (worker, now) = (self.worker, self.worker.now());
        let ask = Ask {
            random: worker.random(),
            algorithm: mode.map(algorithm),
            ..Ask::default()
        };
        let Pick::Slot(slot) = backend.pool.pick(&ask, now) else {
            return None;
        };
        Some(member_view(slot.member(), now))
    }

    fn has_virtual(&self, name: &[u8]) -> bool {
        self.snapshot.virtuals.contains_key(plain(name))
    }

    fn geography(&self, address: IpAddr, path: &[&str]) -> Option<Value> {
        self.snapshot.world.geography.find(address, path)
    }

    fn reputation(&self, address: IpAddr) -> Vec<Value> {
        let lists = self.snapshot.world.reputation.iter();
        let listed = lists.filter(|(_, prefixes)| prefixes.contains(address));
        listed
            .map(|(category, _)| Value::from(category.as_str()))
            .collect()
    }

    fn shun(&mut self, address: IpAddr, lasting: Duration) -> bool {
        self.worker.shared.shun(address, lasting)
    }

    fn open_log(&mut self, to: LogTarget) -> Result<u64, String> {
        self.worker.rules.ways.open(&self.snapshot, to)
    }

    fn send_log(&mut self, handle: u64, data: &[u8]) -> bool {
        self.worker.rules.ways.send(self.worker, handle, data)
    }

    fn close_sideband(&mut self, handle: u64) {
        self.worker.rules.sidebands.close(handle);
    }

    fn sideband_state(&self, handle: u64) -> &'static str {
        self.worker.rules.sidebands.state(handle)
    }

    fn counter(&mut self, name: &[u8], add: i64) -> i64 {
        self.worker.shared.rules.add(name, add)
    }

    fn change_counter(&mut self, name: &[u8], change: &mut dyn FnMut(i64) -> Option<i64>) {
        self.worker.shared.rules.change(name, change);
    }
}

fn view(backend: &Backend, now: balance::Millis) -> PoolView {
    let members = backend.pool.members();
    PoolView {
        name: backend.name.as_str().into(),
        members: members.iter().map(|m| member_view(m, now)).collect(),
    }
}

fn member_view(member: &Member, now: balance::Millis) -> MemberView {
    MemberView {
        name: (&**member.name()).into(),
        address: member.address(),
        up: member.health() == Health::Up && member.ejected_until(now).is_none(),
        enabled: member.admin() == Admin::Enabled,
        ratio: member.weight().into(),
        priority: u32::from(!member.backup()),
        connections: member.active().into(),
    }
}

/// The balancing method that a rule asks for.
pub(crate) fn algorithm(mode: Mode) -> Algorithm {
    match mode {
        Mode::RoundRobin => Algorithm::RoundRobin,
        Mode::LeastConnections => Algorithm::LeastConnections,
    }
}
