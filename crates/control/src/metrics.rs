//! Counters and gauges in Prometheus' text form (version 0.0.4).

use crate::collect;
use crate::process::Process;
use crate::view::{Condition, MemberState, ProfiledEvent};
use proxy::Engine;
use std::fmt::{Display, Write};

/// Everything that is counted.
pub(crate) fn text(
    engine: &Engine,
    process: &Process,
    refused_tokens: u64,
    events: &[ProfiledEvent],
) -> String {
    let mut out = Exposition::default();
    let status = collect::status(engine, process);
    out.family("build_info", "gauge", "The program that runs.");
    out.sample("build_info", &[("version", &status.version)], 1);
    out.family(
        "uptime_seconds",
        "gauge",
        "For how long the process has been running.",
    );
    out.sample("uptime_seconds", &[], status.uptime);
    out.family(
        "config_generation",
        "gauge",
        "Which configuration is in force.",
    );
    out.sample("config_generation", &[], status.generation);
    out.family(
        "config_last_reload_success",
        "gauge",
        "Whether the last reload was taken over; 1 if there was none.",
    );
    let reloaded = status.last_reload.as_ref().is_none_or(|reload| reload.ok);
    out.sample("config_last_reload_success", &[], u8::from(reloaded));
    out.family("connections", "gauge", "Client connections.");
    out.sample("connections", &[], status.connections);
    out.family(
        "connections_limit",
        "gauge",
        "The most client connections there may be.",
    );
    out.sample("connections_limit", &[], status.connection_limit);
    out.family(
        "worker_connections",
        "gauge",
        "Client connections of each worker.",
    );
    for worker in &status.workers {
        let labels = [("worker", &*worker.index.to_string())];
        out.sample("worker_connections", &labels, worker.connections);
    }
    for (name, value) in collect::process_counters(engine, refused_tokens) {
        let name = format!("{name}_total");
        out.family(&name, "counter", "Of the whole process.");
        out.sample(&name, &[], value);
    }
    virtuals(&mut out, engine);
    members(&mut out, engine);
    rules(&mut out, engine, events);
    out.family(
        "certificate_not_after_seconds",
        "gauge",
        "When a certificate ends, in seconds since 1970.",
    );
    for certificate in collect::certificates(engine) {
        let names = certificate.names.join(",");
        let labels = [
            ("virtual", &*certificate.service),
            ("source", &certificate.source),
            ("names", &names),
        ];
        out.sample(
            "certificate_not_after_seconds",
            &labels,
            certificate.not_after,
        );
    }
    process.write_exposed(&mut out);
    out.0
}

fn virtuals(out: &mut Exposition, engine: &Engine) {
    let virtuals = collect::virtuals(engine);
    out.family(
        "virtual_active_connections",
        "gauge",
        "Connections that a virtual has.",
    );
    for service in &virtuals {
        out.sample(
            "virtual_active_connections",
            &[("virtual", &service.name)],
            service.active,
        );
    }
    let names = virtuals
        .first()
        .map(|first| first.counters.keys().cloned().collect::<Vec<_>>());
    for name in names.unwrap_or_default() {
        let family = format!("virtual_{name}_total");
        out.family(&family, "counter", "Counted by a virtual.");
        for service in &virtuals {
            let value = service.counters.get(&name).copied().unwrap_or_default();
            out.sample(&family, &[("virtual", &service.name)], value);
        }
    }
    out.family(
        "virtual_refusals_total",
        "counter",
        "What a virtual refused, by reason.",
    );
    for service in &virtuals {
        for (reason, value) in &service.refusals {
            let labels = [("virtual", &*service.name), ("reason", reason)];
            out.sample("virtual_refusals_total", &labels, value);
        }
    }
}

fn rules(out: &mut Exposition, engine: &Engine, events: &[ProfiledEvent]) {
    let ran: Vec<_> = events.iter().filter(|row| row.command.is_none()).collect();
    type Counter = (&'static str, &'static str, fn(&ProfiledEvent) -> u64);
    let counters: [Counter; 2] = [
        (
            "rule_events_total",
            "Events that a rule has run at.",
            |row| row.count,
        ),
        (
            "rule_cycles_total",
            "Cycles of the processor's clock that a rule's events have taken.",
            |row| row.total,
        ),
    ];
    for (family, help, value) in counters {
        out.family(family, "counter", help);
        for row in &ran {
            let labels = [("rule", &*row.rule), ("event", &*row.event)];
            out.sample(family, &labels, value(row));
        }
    }
    let failures = engine.rule_failures();
    out.family(
        "rule_errors_total",
        "counter",
        "Events of a rule that ended in an error.",
    );
    for (rule, counts) in &failures {
        out.sample("rule_errors_total", &[("rule", rule)], counts.errors);
    }
    out.family(
        "rule_exhausted_total",
        "counter",
        "Events of a rule that ended because a limit was used up.",
    );
    for (rule, counts) in &failures {
        out.sample("rule_exhausted_total", &[("rule", rule)], counts.exhausted);
    }
    let (waiting, dropped) = engine.rules_waiting();
    out.family(
        "rules_waiting_connections",
        "gauge",
        "Connections that wait within a rule.",
    );
    out.sample("rules_waiting_connections", &[], waiting);
    out.family(
        "rules_log_dropped_total",
        "counter",
        "Log data of rules that found no room, or no server.",
    );
    out.sample("rules_log_dropped_total", &[], dropped);
}

fn members(out: &mut Exposition, engine: &Engine) {
    let pools = collect::pools(engine);
    out.family(
        "pool_usable_members",
        "gauge",
        "Members of a pool that take new requests.",
    );
    for pool in &pools {
        out.sample("pool_usable_members", &[("pool", &pool.name)], pool.usable);
    }
    out.family(
        "pool_waiting_requests",
        "gauge",
        "Requests that wait for a member of a pool.",
    );
    for pool in &pools {
        out.sample(
            "pool_waiting_requests",
            &[("pool", &pool.name)],
            pool.waiting,
        );
    }
    let members = || {
        let all = pools.iter();
        all.flat_map(|pool| pool.members.iter().map(move |member| (pool, member)))
    };
    type Gauge = (&'static str, &'static str, fn(&crate::view::Member) -> u64);
    let gauges: [Gauge; 4] = [
        ("member_up", "Whether a member takes traffic.", |m| {
            u64::from(matches!(m.condition, Condition::Up | Condition::Unknown))
        }),
        (
            "member_enabled",
            "Whether the operator wants traffic to go to a member.",
            |m| u64::from(m.state == MemberState::Enabled),
        ),
        (
            "member_weight",
            "A member's share relative to the others.",
            |m| m.weight.into(),
        ),
        (
            "member_active_requests",
            "Requests that a member has.",
            |m| m.active.into(),
        ),
    ];
    for (family, help, value) in gauges {
        out.family(family, "gauge", help);
        for (pool, member) in members() {
            out.sample(family, &of(&pool.name, member), value(member));
        }
    }
    let names = members()
        .next()
        .map(|(_, m)| m.counters.keys().cloned().collect::<Vec<_>>());
    for name in names.unwrap_or_default() {
        let family = format!("member_{name}_total");
        out.family(&family, "counter", "Counted by a member.");
        for (pool, member) in members() {
            let value = member.counters.get(&name).copied().unwrap_or_default();
            out.sample(&family, &of(&pool.name, member), value);
        }
    }
}

fn of<'a>(pool: &'a str, member: &'a crate::view::Member) -> [(&'static str, &'a str); 3] {
    [
        ("pool", pool),
        ("member", &member.name),
        ("address", &member.address),
    ]
}

/// Metrics in their text form. All names begin with `headgate_`, which is not to be given.
#[derive(Debug, Default)]
pub struct Exposition(String);

impl Exposition {
    /// Begins a family: `kind` is `counter` or `gauge`. Its samples follow at once.
    pub fn family(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a String cannot fail.
        let _ = writeln!(
            self.0,
            "# HELP headgate_{name} {help}\n# TYPE headgate_{name} {kind}"
        );
    }

    /// One value of the family `name`, with its labels.
    pub fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        self.0.push_str("headgate_");
        self.0.push_str(name);
        for (index, (label, text)) in labels.iter().enumerate() {
            self.0.push(if index == 0 { '{' } else { ',' });
            self.0.push_str(label);
            self.0.push_str("=\"");
            for c in text.chars() {
                match c {
                    '\\' => self.0.push_str("\\\\"),
                    '"' => self.0.push_str("\\\""),
                    '\n' => self.0.push_str("\\n"),
                    c => self.0.push(c),
                }
            }
            self.0.push('"');
        }
        if !labels.is_empty() {
            self.0.push('}');
        }
        let _ = writeln!(self.0, " {value}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_values_cannot_break_out_of_their_quotes() {
        let mut out = Exposition::default();
        out.sample("x", &[("a", "q\"b\\\n"), ("b", "c")], 1.5);
        assert_eq!(out.0, "headgate_x{a=\"q\\\"b\\\\\\n\",b=\"c\"} 1.5\n");
    }
    #[test]
    fn other_parts_of_the_process_show_their_metrics_each_time_they_are_asked_for() {
        let (process, _requests) = Process::new("1", std::path::PathBuf::new());
        process.expose(|out| out.sample("own", &[], 7));
        for _ in 0..2 {
            let mut out = Exposition::default();
            process.write_exposed(&mut out);
            assert_eq!(out.0, "headgate_own 7\n");
        }
    }
}
