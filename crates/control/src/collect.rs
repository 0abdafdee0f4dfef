//! What runs, turned into what the API tells.

use crate::process::Process;
use crate::view::{
    Certificate, Check, Condition, Counters, Member, MemberState, Phase, Pool, ProfiledEvent,
    Status, Virtual, Worker, unix_seconds,
};
use balance::{Admin, Health};
use proxy::access::AccessLog;
use proxy::{Engine, MemberStatus};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant, SystemTime};

pub(crate) fn status(engine: &Engine, process: &Process) -> Status {
    let snapshot = engine.snapshot();
    let workers = engine.connections_by_worker().into_iter().enumerate();
    Status {
        version: process.version.to_owned(),
        pid: std::process::id(),
        uptime: engine.uptime().as_secs_f64(),
        generation: snapshot.generation,
        phase: match engine.phase() {
            proxy::Phase::Running => Phase::Running,
            proxy::Phase::Draining => Phase::Draining,
            proxy::Phase::Stopping => Phase::Stopping,
        },
        config: process.config.display().to_string(),
        connections: engine.connections(),
        connection_limit: snapshot.config.limits.connections,
        workers: workers
            .map(|(index, connections)| Worker { index, connections })
            .collect(),
        last_reload: process.last_reload(),
    }
}

pub(crate) fn virtuals(engine: &Engine) -> Vec<Virtual> {
    let snapshot = engine.snapshot();
    let services = snapshot.virtuals.values();
    services
        .map(|service| {
            let counters = &service.state.counters;
            let config = &service.config;
            Virtual {
                name: service.name.to_string(),
                listen: config.listen.iter().map(ToString::to_string).collect(),
                protocol: config.protocol.as_str().to_owned(),
                tls: config.tls.as_ref().map(ToString::to_string),
                pool: config.pool.as_ref().map(ToString::to_string),
                active: service.state.active.load(Relaxed),
                connection_limit: config.limits.connections,
                counters: owned(counters.totals().named()),
                refusals: owned(counters.refusals().into_iter()),
            }
        })
        .collect()
}

pub(crate) fn pools(engine: &Engine) -> Vec<Pool> {
    let now = Instant::now();
    let mut members: BTreeMap<String, Vec<Member>> = BTreeMap::new();
    for status in engine.members() {
        let of_pool = members.entry(status.pool.to_string()).or_default();
        of_pool.push(member(&status, now));
    }
    let snapshot = engine.snapshot();
    let backends = snapshot.backends.values();
    backends
        .map(|backend| Pool {
            name: backend.name.to_string(),
            balance: balance_name(&backend.config.balance),
            usable: backend.pool.usable(),
            waiting: backend.pool.waiting(),
            members: members.remove(backend.name.as_str()).unwrap_or_default(),
        })
        .collect()
}

pub(crate) fn monitors(engine: &Engine) -> Vec<Check> {
    let now = Instant::now();
    let statuses = engine.members().into_iter();
    let mut checks: Vec<Check> = statuses.flat_map(|status| checks(&status, now)).collect();
    checks.sort_by(|a, b| {
        let key = |c: &Check| {
            (
                c.pool.clone(),
                c.member.clone(),
                c.address.clone(),
                c.monitor.clone(),
            )
        };
        key(a).cmp(&key(b))
    });
    checks
}

pub(crate) fn certificates(engine: &Engine) -> Vec<Certificate> {
    let now = SystemTime::now();
    let expiries = engine.certificates().into_iter();
    expiries
        .map(|(service, expiry)| {
            let left = match expiry.not_after.duration_since(now) {
                Ok(left) => left.as_secs_f64(),
                Err(past) => -past.duration().as_secs_f64(),
            };
            Certificate {
                service: service.to_string(),
                source: expiry.label,
                names: expiry.names,
                not_after: unix_seconds(expiry.not_after),
                days_left: (left / 8640.0).round() / 10.0,
            }
        })
        .collect()
}

pub(crate) fn counters(engine: &Engine, refused_tokens: u64) -> Counters {
    let virtuals = virtuals(engine);
    let mut members = BTreeMap::new();
    for pool in pools(engine) {
        for (index, member) in pool.members.iter().enumerate() {
            let shared = pool.members.iter().enumerate();
            let shared = shared
                .into_iter()
                .any(|(other, m)| other != index && m.name == member.name);
            let name = match shared {
                true => format!("{}/{} {}", pool.name, member.name, member.address),
                false => format!("{}/{}", pool.name, member.name),
            };
            members.insert(name, member.counters.clone());
        }
    }
    Counters {
        process: process_counters(engine, refused_tokens),
        refusals: virtuals
            .iter()
            .map(|v| (v.name.clone(), v.refusals.clone()))
            .collect(),
        virtuals: virtuals.into_iter().map(|v| (v.name, v.counters)).collect(),
        members,
    }
}

/// What events of rules take, over all workers.
pub(crate) fn rule_profile(engine: &Engine) -> Vec<ProfiledEvent> {
    let rows = engine.rule_profile().into_iter();
    rows.map(|row| ProfiledEvent {
        rule: row.rule,
        event: row.event.to_owned(),
        command: row.command.map(str::to_owned),
        count: row.count,
        total: row.total,
        minimum: row.minimum,
        maximum: row.maximum,
    })
    .collect()
}

/// What is counted of the process as a whole.
pub(crate) fn process_counters(engine: &Engine, refused_tokens: u64) -> BTreeMap<String, u64> {
    let mut logs = engine.access_logs();
    // Those that write to one output share its counts.
    let mut outputs: Vec<Arc<AccessLog>> = Vec::new();
    logs.retain(|log| {
        let first = !outputs.iter().any(|known| known.shares_output(log));
        outputs.push(Arc::clone(log));
        first
    });
    let sum = |of: fn(&AccessLog) -> u64| logs.iter().map(|log| of(log)).sum();
    owned(
        [
            ("accept_pauses", engine.accept_pauses()),
            ("access_log_lines", sum(AccessLog::lines)),
            ("access_log_dropped", sum(AccessLog::dropped)),
            ("access_log_failures", sum(AccessLog::failures)),
            ("admin_refused", refused_tokens),
        ]
        .into_iter(),
    )
}

fn member(status: &MemberStatus, now: Instant) -> Member {
    Member {
        name: status.name.to_string(),
        address: status.address.to_string(),
        condition: condition(status),
        state: match status.admin {
            Admin::Enabled => MemberState::Enabled,
            Admin::Drain => MemberState::Drain,
            Admin::Disabled => MemberState::Disabled,
        },
        up: status.health == Health::Up,
        backup: status.backup,
        weight: status.weight,
        active: status.active,
        limit: status.limit,
        ejected_for: status.ejected_for.map(|left| left.as_secs_f64()),
        counters: owned(
            [
                ("requests", status.requests),
                ("failures", status.failures),
                ("connect_errors", status.connect_errors),
                ("resets", status.resets),
                ("responses_5xx", status.status_5xx),
                ("timeouts", status.timeouts),
                ("ejections", status.ejections),
                ("bytes_sent", status.bytes_sent),
                ("bytes_received", status.bytes_received),
            ]
            .into_iter(),
        ),
        checks: checks(status, now),
    }
}

fn condition(status: &MemberStatus) -> Condition {
    match (status.admin, status.health) {
        (Admin::Disabled, _) => Condition::Disabled,
        (_, Health::Down) => Condition::Down,
        (Admin::Drain, _) => Condition::Draining,
        _ if status.ejected_for.is_some() => Condition::Ejected,
        _ if status.monitors.iter().any(|m| m.state.up().is_none()) => Condition::Unknown,
        _ => Condition::Up,
    }
}

fn checks(status: &MemberStatus, now: Instant) -> Vec<Check> {
    let age = |at: Instant| now.saturating_duration_since(at).as_secs_f64();
    let targets = status.monitors.iter();
    targets
        .map(|target| Check {
            pool: target.key.pool.to_string(),
            member: target.key.member.to_string(),
            address: target.key.address.to_string(),
            monitor: target.key.monitor.to_string(),
            up: target.state.up(),
            since: target.state.since().map(age),
            ok: target.last.as_ref().map(|last| last.ok),
            reason: target.last.as_ref().map(|last| last.reason.clone()),
            age: target.last.as_ref().map(|last| age(last.at)),
            latency: target.last.as_ref().map(|last| seconds(last.latency)),
            checks: target.checks,
            failures: target.failures,
            skipped: target.skipped,
        })
        .collect()
}

fn balance_name(balance: &model::Balance) -> String {
    match balance {
        model::Balance::RoundRobin => "round-robin",
        model::Balance::LeastConnections => "least-connections",
        model::Balance::PowerOfTwo => "power-of-two",
        model::Balance::First => "first",
        model::Balance::Hash(_) => "hash",
    }
    .to_owned()
}

fn seconds(time: Duration) -> f64 {
    time.as_secs_f64()
}

fn owned<'a>(named: impl Iterator<Item = (&'a str, u64)>) -> BTreeMap<String, u64> {
    named
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}
