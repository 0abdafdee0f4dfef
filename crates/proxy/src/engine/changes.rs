//! What differs between two configurations, in words.

use crate::snapshot::Snapshot;
use model::{Config, Name, Pool};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What `after` changes of `before`.
pub(super) fn between(before: &Config, after: &Config) -> Vec<String> {
    let mut changes = Vec::new();
    named(
        &mut changes,
        "virtual",
        &before.virtuals,
        &after.virtuals,
        |_, _, _| false,
    );
    named(&mut changes, "pool", &before.pools, &after.pools, members);
    named(
        &mut changes,
        "monitor",
        &before.monitors,
        &after.monitors,
        |_, _, _| false,
    );
    named(
        &mut changes,
        "TLS profile",
        &before.tls_profiles,
        &after.tls_profiles,
        |_, _, _| false,
    );
    named(
        &mut changes,
        "address list",
        &before.address_lists,
        &after.address_lists,
        |_, _, _| false,
    );
    if before.limits != after.limits {
        changes.push("limits changed".to_owned());
    }
    if before.log != after.log {
        changes.push("logs changed".to_owned());
    }
    changes
}

/// Certificates and keys that are others, though the configuration calls them the same.
pub(super) fn tls(before: &Snapshot, after: &Snapshot) -> Vec<String> {
    let mut changes = Vec::new();
    for (name, service) in &after.virtuals {
        let Some(was) = before.virtuals.get(name) else {
            continue;
        };
        if let (Some(was_tls), Some(tls)) = (&was.tls, &service.tls)
            && !Arc::ptr_eq(was_tls, tls)
        {
            changes.push(format!(
                "virtual {name}: TLS settings or certificates renewed"
            ));
        }
    }
    changes
}

/// Another number of workers.
pub(super) fn workers(before: usize, after: usize) -> Option<String> {
    (before != after).then(|| format!("workers: {before} -> {after}"))
}

/// Things that came, went and changed. `detail` tells more of a change, and whether it told all.
fn named<T: PartialEq>(
    changes: &mut Vec<String>,
    kind: &str,
    before: &BTreeMap<Name, T>,
    after: &BTreeMap<Name, T>,
    detail: impl Fn(&mut Vec<String>, &T, &T) -> bool,
) {
    for name in before.keys().filter(|name| !after.contains_key(*name)) {
        changes.push(format!("{kind} {name} removed"));
    }
    for (name, is) in after {
        match before.get(name) {
            None => changes.push(format!("{kind} {name} added")),
            Some(was) if was != is => {
                let mut details = Vec::new();
                let complete = detail(&mut details, was, is);
                let told = details
                    .into_iter()
                    .map(|text| format!("{kind} {name}: {text}"));
                changes.extend(told);
                if !complete {
                    changes.push(format!("{kind} {name} changed"));
                }
            }
            Some(_) => {}
        }
    }
}

/// Members that came, went and changed; whether that is all that differs.
fn members(changes: &mut Vec<String>, before: &Pool, after: &Pool) -> bool {
    let by_name = |pool: &Pool| -> BTreeMap<Name, model::Member> {
        let members = pool.members.iter();
        members.map(|m| (m.label(), m.clone())).collect()
    };
    named(
        changes,
        "member",
        &by_name(before),
        &by_name(after),
        |_, _, _| false,
    );
    let rest = |pool: &Pool| Pool {
        members: Vec::new(),
        ..pool.clone()
    };
    rest(before) == rest(after)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(members: &str, slow_start: &str) -> Config {
        let text = format!("pools:\n  app: {{members: [{members}], slow_start: {slow_start}}}\n");
        crate::testing::config(&text)
    }

    #[test]
    fn members_that_came_and_went_are_named() {
        let (before, after) = (
            config("10.0.0.1:80, 10.0.0.2:80", "0s"),
            config("10.0.0.2:80, 10.0.0.3:80", "0s"),
        );
        assert_eq!(
            between(&before, &after),
            [
                "pool app: member 10.0.0.1:80 removed",
                "pool app: member 10.0.0.3:80 added"
            ]
        );
    }

    #[test]
    fn a_setting_that_changed_is_told_beside_the_members() {
        let (before, after) = (
            config("10.0.0.1:80", "0s"),
            config("{address: 10.0.0.1:80, weight: 5}", "2s"),
        );
        assert_eq!(
            between(&before, &after),
            ["pool app: member 10.0.0.1:80 changed", "pool app changed"]
        );
        assert!(between(&after, &after).is_empty());
    }
}
