use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

const AMPLE: Bounds = Bounds {
    entries: 1 << 20,
    bytes: 1 << 30,
};

const TOUCH: Times = Times {
    timeout: None,
    lifetime: None,
    touch: true,
};

fn store() -> Store {
    Store::new(AMPLE, 7)
}

fn key<'a>(subtable: &'a str, key: &'a str) -> Key<'a> {
    Key {
        subtable: subtable.as_bytes(),
        key: key.as_bytes(),
    }
}

fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn set(store: &Store, k: Key<'_>, value: &str, times: Times, now: u64) {
    store.put(
        k,
        Datum::Bytes(value.as_bytes()),
        Mode::Always,
        times,
        at(now),
        |_| (),
    );
}

fn lasting(timeout: u64, lifetime: Option<u64>) -> Times {
    Times {
        timeout: Some(Some(at(timeout))),
        lifetime: Some(lifetime.map(at)),
        touch: true,
    }
}

fn look(store: &Store, k: Key<'_>, now: u64, touch: bool) -> Option<String> {
    store.get(k, at(now), touch, |value| match value {
        Datum::Int(int) => int.to_string(),
        Datum::Bytes(bytes) => String::from_utf8(bytes.to_vec()).unwrap(),
    })
}

fn decimal(text: &[u8]) -> Option<i64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

#[test]
fn a_use_begins_the_timeout_anew_but_not_the_lifetime() {
    let store = store();
    set(&store, key("", "a"), "x", lasting(10, Some(25)), 0);
    assert!(look(&store, key("", "a"), 9, true).is_some());
    assert!(look(&store, key("", "a"), 18, false).is_some());
    let life = store.times(key("", "a"), at(18)).unwrap();
    assert_eq!(life.timeout_left, Some(at(1)));
    assert_eq!(life.lifetime_left, Some(at(7)));
    assert!(look(&store, key("", "a"), 18, true).is_some());
    assert!(look(&store, key("", "a"), 24, true).is_some());
    assert!(look(&store, key("", "a"), 25, true).is_none());
}

#[test]
fn without_times_an_entry_stays_for_three_minutes() {
    let store = store();
    set(&store, key("", "a"), "x", TOUCH, 0);
    let life = store.times(key("", "a"), at(60)).unwrap();
    assert_eq!((life.timeout, life.lifetime), (Some(DEFAULT_TIMEOUT), None));
    assert!(look(&store, key("", "a"), 179, false).is_some());
    assert!(look(&store, key("", "a"), 180, false).is_none());
}

#[test]
fn values_are_put_as_the_mode_says() {
    let store = store();
    let put = |value: &[u8], mode| {
        let value = Datum::Bytes(value);
        store.put(key("t", "a"), value, mode, TOUCH, at(0), |value| {
            matches!(value, Datum::Bytes(b"1"))
        })
    };
    assert_eq!(put(b"0", Mode::IfPresent), (Outcome::Absent, None));
    assert_eq!(put(b"1", Mode::IfAbsent), (Outcome::Added, Some(true)));
    assert_eq!(put(b"2", Mode::IfAbsent), (Outcome::Kept, Some(true)));
    assert_eq!(put(b"3", Mode::IfPresent), (Outcome::Replaced, Some(false)));
    assert_eq!(put(b"1", Mode::Always), (Outcome::Replaced, Some(true)));
}

#[test]
fn numbers_are_added_to_and_texts_appended_to() {
    let store = store();
    let add = |k, by, must| store.increment(k, by, must, TOUCH, at(0), decimal);
    assert_eq!(add(key("", "n"), 5, true), Ok(None));
    assert_eq!(add(key("", "n"), 5, false), Ok(Some(5)));
    assert_eq!(add(key("", "n"), -7, true), Ok(Some(-2)));
    set(&store, key("", "s"), "40", TOUCH, 0);
    assert_eq!(add(key("", "s"), 2, false), Ok(Some(42)));
    let more = |must| store.append(key("", "s"), b"x", must, TOUCH, at(0), |_| ());
    assert_eq!(more(true), Some(()));
    assert_eq!(look(&store, key("", "s"), 0, false).unwrap(), "42x");
    assert_eq!(add(key("", "s"), 2, false), Err(NoNumber(b"42x".to_vec())));
    assert_eq!(
        store.append(key("", "no"), b"x", true, TOUCH, at(0), |_| ()),
        None
    );
}

#[test]
fn a_subtable_is_counted_listed_and_deleted_as_a_whole() {
    let store = store();
    for (n, name) in ["c", "a", "b"].into_iter().enumerate() {
        set(&store, key("t", name), "", lasting(10 + n as u64, None), 0);
    }
    set(&store, key("u", "a"), "", TOUCH, 0);
    let keys = |now, limit, touch| {
        let text = |key: &[u8]| String::from_utf8(key.to_vec()).unwrap();
        store.keys(b"t", at(now), limit, touch, text)
    };
    assert_eq!(keys(0, 9, false), ["c", "a", "b"]);
    assert_eq!(keys(0, 2, false), ["c", "a"]);
    assert_eq!(store.count(b"t", at(10)), 2);
    assert_eq!(keys(10, 9, true), ["a", "b"]);
    assert_eq!(store.count(b"t", at(20)), 2);
    assert_eq!(store.delete_subtable(b"t", at(20)), 2);
    assert_eq!(store.count(b"t", at(20)), 0);
    assert_eq!(store.count(b"u", at(20)), 1);
    assert_eq!(store.delete_subtable(b"t", at(20)), 0);
}

#[test]
fn the_entry_nearest_to_its_end_goes_when_there_are_too_many() {
    let bounds = Bounds {
        entries: 3,
        bytes: 1 << 20,
    };
    let store = Store::new(bounds, 7);
    // One subtable, so that all are in one shard.
    set(&store, key("t", "short"), "", lasting(10, None), 0);
    set(&store, key("t", "long"), "", lasting(100, None), 0);
    set(&store, key("t", "shorter"), "", lasting(9, None), 0);
    assert!(look(&store, key("t", "shorter"), 8, true).is_some());
    set(&store, key("t", "new"), "", lasting(50, None), 8);
    let keys = store.keys(b"t", at(8), 9, false, <[u8]>::to_vec);
    assert_eq!(keys, [&b"long"[..], b"shorter", b"new"]);
    assert_eq!(store.usage().evicted, 1);
    assert_eq!(store.usage().entries, 3);
}

#[test]
fn bytes_are_bounded_too_and_given_back() {
    let bounds = Bounds {
        entries: 1000,
        bytes: 10_000,
    };
    let store = Store::new(bounds, 7);
    for n in 0..50 {
        set(&store, key("", &n.to_string()), &"x".repeat(500), TOUCH, n);
        assert!(store.usage().bytes <= 10_000, "{:?}", store.usage());
    }
    assert!(store.usage().entries >= 10);
    store.delete_subtable(b"", at(50));
    assert_eq!((store.usage().entries, store.usage().bytes), (0, 0));
}

#[test]
fn what_has_expired_goes_as_others_come() {
    let store = store();
    for n in 0..1000 {
        set(&store, key("t", &n.to_string()), "", lasting(1, None), 0);
    }
    for n in 0..600 {
        set(
            &store,
            key("t", &format!("new{n}")),
            "",
            lasting(100, None),
            2,
        );
    }
    assert_eq!(store.usage().entries, 600);
}

#[test]
fn records_of_entries_that_come_and_go_take_no_more_and_more_room() {
    let mut shard = Shard::new(FixedState::with_seed(1));
    let k = key("t", "a");
    let spot = Spot {
        key: k,
        hash: 5,
        shard: 0,
    };
    for n in 0..100_000 {
        let entry = shard.insert(spot, Datum::Int(n), lasting(1 << 20, None), at(0));
        shard.remove(entry);
    }
    assert!(shard.records() <= 65);
}

#[test]
fn threads_that_add_to_the_same_keys_lose_nothing() {
    let store = store();
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let store = &store;
            scope.spawn(move || {
                for n in 0..5_000_u64 {
                    let name = (n % 50).to_string();
                    let k = key(if n % 2 == 0 { "" } else { "t" }, &name);
                    store
                        .increment(k, 1, false, TOUCH, at(n / 1000), decimal)
                        .unwrap();
                    let own = format!("{thread}/{n}");
                    set(store, key("own", &own), &own, TOUCH, 0);
                    assert_eq!(look(store, key("own", &own), 0, true), Some(own.clone()));
                    if n % 3 == 0 {
                        assert!(store.delete(key("own", &own), at(0)));
                    }
                }
            });
        }
    });
    let sum: i64 = ["", "t"]
        .iter()
        .flat_map(|subtable| (0..50).map(move |n| (*subtable, n.to_string())))
        .filter_map(|(subtable, n)| look(&store, key(subtable, &n), 5, false))
        .map(|n| n.parse::<i64>().unwrap())
        .sum();
    assert_eq!(sum, 20_000);
    let kept = 4 * (5_000 - 5_000_usize.div_ceil(3));
    assert_eq!(store.count(b"own", at(0)), kept);
    assert_eq!(store.usage().entries as usize, kept + 50);
}

#[derive(Clone, Debug)]
enum Act {
    Put(Mode, u8, u8, u16, Option<u64>, Option<u64>, bool),
    Get(u8, u8, bool),
    Add(u8, u8, i8, bool),
    Append(u8, u8, u8),
    Delete(u8, u8),
    DeleteSubtable(u8),
    Count(u8),
    Retime(u8, u8, u64),
    Pass(u64),
}

fn act() -> impl Strategy<Value = Act> {
    let mode = prop::sample::select(vec![Mode::Always, Mode::IfAbsent, Mode::IfPresent]);
    let (s, k) = (0_u8..3, 0_u8..6);
    let some = prop::option::of(1_u64..30);
    prop_oneof![
        5 => (mode, s.clone(), k.clone(), any::<u16>(), some.clone(), some, any::<bool>())
            .prop_map(|(m, s, k, v, t, l, touch)| Act::Put(m, s, k, v, t, l, touch)),
        4 => (s.clone(), k.clone(), any::<bool>()).prop_map(|(s, k, t)| Act::Get(s, k, t)),
        2 => (s.clone(), k.clone(), any::<i8>(), any::<bool>()).prop_map(|(s, k, n, m)| Act::Add(s, k, n, m)),
        1 => (s.clone(), k.clone(), b'0'..=b'9').prop_map(|(s, k, b)| Act::Append(s, k, b)),
        1 => (s.clone(), k.clone()).prop_map(|(s, k)| Act::Delete(s, k)),
        1 => s.clone().prop_map(Act::DeleteSubtable),
        2 => s.clone().prop_map(Act::Count),
        1 => (s, k, 1_u64..30).prop_map(|(s, k, t)| Act::Retime(s, k, t)),
        3 => (0_u64..20).prop_map(Act::Pass),
    ]
}

/// An entry as the simplest store would keep it.
#[derive(Clone)]
struct Plain {
    text: String,
    timeout: Option<u64>,
    lifetime: Option<u64>,
    used: u64,
    born: u64,
}

impl Plain {
    fn lives(&self, now: u64) -> bool {
        self.timeout.is_none_or(|t| self.used + t > now)
            && self.lifetime.is_none_or(|l| self.born + l > now)
    }
}

proptest! {
    #[test]
    fn the_store_agrees_with_a_plain_map(acts in prop::collection::vec(act(), 1..200)) {
        let store = store();
        let names = ["", "t", "u"];
        let keys = ["a", "b", "c", "d", "e", "f"];
        let mut plain: BTreeMap<(u8, u8), Plain> = BTreeMap::new();
        let mut now = 0;
        for act in acts {
            plain.retain(|_, entry| entry.lives(now));
            let k = |s: u8, n: u8| key(names[usize::from(s)], keys[usize::from(n)]);
            match act {
                Act::Put(mode, s, n, value, timeout, lifetime, touch) => {
                    let text = value.to_string();
                    let times = Times { timeout: timeout.map(|t| Some(at(t))), lifetime: lifetime.map(|l| Some(at(l))), touch };
                    store.put(k(s, n), Datum::Bytes(text.as_bytes()), mode, times, at(now), |_| ());
                    match (plain.get_mut(&(s, n)), mode) {
                        (Some(entry), Mode::IfAbsent) => if touch { entry.used = now },
                        (Some(entry), _) => {
                            entry.text = text;
                            if timeout.is_some() { entry.timeout = timeout }
                            if lifetime.is_some() { entry.lifetime = lifetime; entry.born = now }
                            if touch { entry.used = now }
                        }
                        (None, Mode::IfPresent) => {}
                        (None, _) => {
                            let timeout = timeout.or(Some(DEFAULT_TIMEOUT.as_secs()));
                            plain.insert((s, n), Plain { text, timeout, lifetime, used: now, born: now });
                        }
                    }
                }
                Act::Get(s, n, touch) => {
                    let wanted = plain.get_mut(&(s, n)).map(|entry| {
                        if touch { entry.used = now }
                        entry.text.clone()
                    });
                    prop_assert_eq!(look(&store, k(s, n), now, touch), wanted);
                }
                Act::Add(s, n, by, must) => {
                    let by = i64::from(by);
                    let sum = store.increment(k(s, n), by, must, TOUCH, at(now), decimal).unwrap();
                    let wanted = match plain.get_mut(&(s, n)) {
                        Some(entry) => {
                            let sum = entry.text.parse::<i64>().unwrap().wrapping_add(by);
                            entry.text = sum.to_string();
                            entry.used = now;
                            Some(sum)
                        }
                        None if must => None,
                        None => {
                            let timeout = Some(DEFAULT_TIMEOUT.as_secs());
                            plain.insert((s, n), Plain { text: by.to_string(), timeout, lifetime: None, used: now, born: now });
                            Some(by)
                        }
                    };
                    prop_assert_eq!(sum, wanted);
                }
                Act::Append(s, n, byte) => {
                    // Numbers stay small enough to be added to.
                    if let Some(entry) = plain.get_mut(&(s, n)) && entry.text.len() < 15 {
                        entry.text.push(char::from(byte));
                        entry.used = now;
                        store.append(k(s, n), &[byte], true, TOUCH, at(now), |_| ());
                    }
                }
                Act::Delete(s, n) => {
                    prop_assert_eq!(store.delete(k(s, n), at(now)), plain.remove(&(s, n)).is_some());
                }
                Act::DeleteSubtable(s) => {
                    let before = plain.len();
                    plain.retain(|(of, _), _| *of != s);
                    let name = names[usize::from(s)].as_bytes();
                    prop_assert_eq!(store.delete_subtable(name, at(now)), before - plain.len());
                }
                Act::Count(s) => {
                    let wanted = plain.keys().filter(|(of, _)| *of == s).count();
                    prop_assert_eq!(store.count(names[usize::from(s)].as_bytes(), at(now)), wanted);
                }
                Act::Retime(s, n, timeout) => {
                    let times = Times { timeout: Some(Some(at(timeout))), lifetime: None, touch: true };
                    let there = store.set_times(k(s, n), times, at(now));
                    prop_assert_eq!(there, plain.contains_key(&(s, n)));
                    if let Some(entry) = plain.get_mut(&(s, n)) {
                        entry.timeout = Some(timeout);
                        entry.used = now;
                    }
                }
                Act::Pass(seconds) => now += seconds,
            }
            let usage = store.usage();
            prop_assert!(usage.entries >= plain.values().filter(|e| e.lives(now)).count() as u64);
        }
        for s in 0..3_u8 {
            store.delete_subtable(names[usize::from(s)].as_bytes(), at(now));
        }
        prop_assert_eq!((store.usage().entries, store.usage().bytes), (0, 0));
    }
}
