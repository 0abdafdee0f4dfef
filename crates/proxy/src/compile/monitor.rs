//! What `health` is told: which member is asked what, and what a verdict does.

use super::{Kept, pool};
use crate::resolve::{self, Table};
use balance::{Health, Millis, Pool};
use health::{Combined, HttpCheck, Kind, Settings, StatusSet, Target, TargetKey, TlsCheck};
use model::{MemberAddress, Monitor, Probe};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use tls::ClientContext;

/// The clock of `balance`, for the thread that brings verdicts.
pub(crate) type Clock = Arc<dyn Fn() -> Millis + Send + Sync>;

/// Every member at every address it has, with each of its monitors.
pub(crate) fn targets(
    config: &model::Config,
    kept: &Kept,
    names: &Table,
    clock: &Clock,
) -> Vec<Target> {
    let mut targets = Vec::new();
    for (pool_name, config_of_pool) in &config.pools {
        let Some((_, pool)) = kept.pools.get(pool_name) else {
            continue;
        };
        for member in &config_of_pool.members {
            let monitors = pool::monitors(config_of_pool, member);
            let label: Arc<str> = member.label().as_str().into();
            for address in resolve::addresses(names, &member.address, member.resolve.mode) {
                let watched = Watched {
                    pool: Arc::clone(pool),
                    member: Arc::clone(&label),
                    address,
                    verdicts: Mutex::new(Combined::new(monitors.len())),
                    clock: Arc::clone(clock),
                };
                let watched = Arc::new(watched);
                for (n, name) in monitors.iter().enumerate() {
                    let Some(monitor) = config.monitors.get(name.as_str()) else {
                        continue;
                    };
                    let tls = kept.tls.monitor(name);
                    let watched = Arc::clone(&watched);
                    targets.push(Target {
                        key: TargetKey {
                            pool: pool_name.as_str().into(),
                            member: Arc::clone(&label),
                            monitor: name.as_str().into(),
                            address,
                        },
                        settings: settings(monitor, tls, &member.address, address),
                        on_verdict: Arc::new(move |verdict| watched.observe(n, verdict.up)),
                        start: None,
                    });
                }
            }
        }
    }
    targets
}

/// A member at an address, and what its monitors say of it.
struct Watched {
    pool: Arc<Pool>,
    member: Arc<str>,
    address: SocketAddr,
    verdicts: Mutex<Combined>,
    clock: Clock,
}

impl Watched {
    fn observe(&self, monitor: usize, up: bool) {
        let verdict = {
            let mut verdicts = self.verdicts.lock().unwrap_or_else(PoisonError::into_inner);
            verdicts.observe(monitor, up);
            verdicts.up()
        };
        let Some(up) = verdict else { return };
        let health = if up { Health::Up } else { Health::Down };
        let members = self.pool.members().into_iter();
        for member in members.filter(|m| *m.name() == self.member && m.address() == self.address) {
            self.pool.set_health(member.id(), health, (self.clock)());
        }
    }
}

fn settings(
    monitor: &Monitor,
    context: Option<&Arc<ClientContext>>,
    member: &MemberAddress,
    address: SocketAddr,
) -> Settings {
    let tls = context.and_then(|context| {
        let name = match member {
            MemberAddress::Host { host, .. } => host.clone(),
            MemberAddress::Socket(_) => address.ip().to_string(),
        };
        Some(TlsCheck {
            context: Arc::clone(context),
            name: ClientContext::server_name(&name).ok()?,
        })
    });
    let kind = match (&monitor.probe, tls) {
        (Probe::Tls, Some(tls)) => Kind::Tls(tls),
        // A monitor of this type always has its TLS.
        (Probe::Tls, None) | (Probe::Tcp, _) => Kind::Tcp,
        (Probe::Http(http), tls) => Kind::Http(HttpCheck {
            method: http.method.clone(),
            path: http.path.clone(),
            host: http.host.clone(),
            headers: http
                .headers
                .iter()
                .map(|(name, value)| (name.as_str().to_owned(), value.as_str().to_owned()))
                .collect(),
            expect_status: statuses(&http.expect.status),
            expect_body: http.expect.body.as_ref().map(|text| text.clone().into()),
            tls,
        }),
        (Probe::SendExpect { send, expect }, tls) => Kind::SendExpect {
            send: send.clone(),
            expect: expect.clone(),
            tls,
        },
    };
    Settings {
        interval: monitor.interval,
        timeout: monitor.timeout,
        rise: monitor.rise,
        fall: monitor.fall,
        jitter: monitor.jitter.fraction() as f32,
        port: monitor.port,
        ..Settings::new(kind)
    }
}

/// The same statuses as ranges.
fn statuses(set: &model::StatusSet) -> StatusSet {
    let mut ranges = Vec::new();
    let mut first = None;
    for status in 100..=1000 {
        match (first, set.contains(status)) {
            (None, true) => first = Some(status),
            (Some(start), false) => {
                ranges.push(start..=status - 1);
                first = None;
            }
            _ => {}
        }
    }
    StatusSet::new(ranges)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_stay_the_same_as_ranges() {
        let set = model::StatusSet::range(200..=399);
        assert_eq!(statuses(&set).to_string(), "200-399");
    }
}
