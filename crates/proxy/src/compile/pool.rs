//! What `balance` is told of a pool.

use super::HostNames;
use crate::resolve::{self, Table};
use crate::snapshot::RetryOn;
use balance::{Admin, Algorithm, Ejection, HashMethod, MemberSettings, PoolSettings, RetryBudget};
use model::{Balance, MemberAddress, MemberState};
use std::sync::Arc;
use std::time::Duration;

/// Retries that are allowed whatever their share, a second: else a quiet pool could not retry.
const RETRIES_PER_SECOND: u32 = 3;

/// A pool's settings. Members whose names mean nothing yet are left out.
pub(crate) fn settings(config: &model::Pool, names: &Table) -> PoolSettings {
    let members = config.members.iter().flat_map(|member| {
        let addresses = resolve::addresses(names, &member.address, member.resolve.mode);
        let name: Arc<str> = member.label().as_str().into();
        addresses.into_iter().map(move |address| MemberSettings {
            name: Arc::clone(&name),
            address,
            weight: u16::try_from(member.weight).unwrap_or(u16::MAX),
            backup: member.backup,
            limit: match member.connections {
                0 => config.limits.member_connections,
                own => own,
            },
            admin: admin(member.state),
            monitored: is_monitored(config, member),
        })
    });
    PoolSettings {
        algorithm: algorithm(&config.balance),
        members: members.collect(),
        queue: config.limits.queue,
        queue_timeout: millis(config.limits.queue_timeout),
        slow_start: millis(config.slow_start),
        ejection: config.ejection.as_ref().map(|ejection| Ejection {
            failures: ejection.errors,
            within: millis(ejection.interval),
            time: millis(ejection.time),
            max_percent: ejection.max_ejected.0.clamp(0.0, 100.0) as u8,
        }),
        retry_budget: Some(RetryBudget {
            percent: config.retry.budget.0.max(0.0) as u32,
            min_per_second: if config.retry.budget.0 > 0.0 {
                RETRIES_PER_SECOND
            } else {
                0
            },
        }),
    }
}

/// The monitors that watch a member: none if it is disabled.
pub(super) fn monitors<'a>(
    config: &'a model::Pool,
    member: &'a model::Member,
) -> &'a [model::MonitorName] {
    if member.state == MemberState::Disabled {
        return &[];
    }
    member.monitors.as_ref().unwrap_or(&config.monitors)
}

/// The names by which members are verified, of those that have names.
pub(super) fn host_names(config: &model::Pool) -> HostNames {
    let named = config.members.iter().filter_map(|member| {
        let MemberAddress::Host { host, .. } = &member.address else {
            return None;
        };
        Some((member.label().as_str().into(), host.as_str().into()))
    });
    named.collect()
}

/// What is tried again.
pub(super) fn retry_on(config: &model::Retry) -> RetryOn {
    let mut retry = RetryOn::default();
    for on in &config.on {
        match on {
            model::RetryOn::ConnectFailure => retry.connect_failure = true,
            model::RetryOn::Reset => retry.reset = true,
            model::RetryOn::ResponseTimeout => retry.response_timeout = true,
            model::RetryOn::Status(status) => retry.statuses.push(*status),
        }
    }
    retry
}

fn is_monitored(config: &model::Pool, member: &model::Member) -> bool {
    !monitors(config, member).is_empty()
}

fn algorithm(balance: &Balance) -> Algorithm {
    match balance {
        Balance::RoundRobin => Algorithm::RoundRobin,
        Balance::LeastConnections => Algorithm::LeastConnections,
        Balance::PowerOfTwo => Algorithm::PowerOfTwo,
        Balance::First => Algorithm::First,
        Balance::Hash(hash) => Algorithm::Hash(match hash.method {
            model::HashMethod::Modulo => HashMethod::Modulo,
            model::HashMethod::Consistent => HashMethod::Consistent {
                load_factor: hash.load_factor as f32,
            },
        }),
    }
}

fn admin(state: MemberState) -> Admin {
    match state {
        MemberState::Enabled => Admin::Enabled,
        MemberState::Drain => Admin::Drain,
        MemberState::Disabled => Admin::Disabled,
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
