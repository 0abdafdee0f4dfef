//! Times an access of the store: nanoseconds by one thread, and by two that share it.
//!
//! `cargo run --release -p balance --example store_bench`

use balance::store::{Bounds, Datum, Key, Mode, Store, Times};
use std::hint::black_box;
use std::time::{Duration, Instant};

fn main() {
    let bounds = Bounds {
        entries: 2_000_000,
        bytes: 1 << 30,
    };
    let store = Store::new(bounds, 1);
    let keys: Vec<String> = (0..100_000).map(|n| format!("client {n}")).collect();
    let now = Duration::from_secs(1_700_000_000);
    let times = Times {
        touch: true,
        ..Times::default()
    };
    let key = |n: usize| Key {
        subtable: b"",
        key: keys[n % keys.len()].as_bytes(),
    };
    let set = |n: usize| {
        store.put(key(n), Datum::Int(1), Mode::Always, times, now, |_| ());
    };
    let get = |n: usize| {
        black_box(store.get(key(n * 7919), now, true, |datum| datum == Datum::Int(1)));
    };
    let add = |n: usize| {
        let sum = store.increment(key(n * 7919), 1, false, times, now, |_| None);
        black_box(sum.is_ok());
    };
    report("set, new keys", 100_000, set);
    report("set, known keys", 100_000, set);
    report("lookup", ROUNDS, get);
    report("incr", ROUNDS, add);
    report("incr, one key", ROUNDS, |_| add(0));
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| (0..ROUNDS).for_each(add));
        }
    });
    print("incr, two threads, each", ROUNDS, begun);
}

/// Reports the median of batches, so that what else runs on the machine counts little.
fn report(what: &str, rounds: usize, act: impl Fn(usize)) {
    let mut batches: Vec<f64> = (0..rounds / BATCH)
        .map(|batch| {
            let begun = Instant::now();
            (batch * BATCH..(batch + 1) * BATCH).for_each(&act);
            begun.elapsed().as_nanos() as f64 / BATCH as f64
        })
        .collect();
    batches.sort_unstable_by(f64::total_cmp);
    let (best, median) = (batches[0], batches[batches.len() / 2]);
    println!("{what:26} {median:6.0} ns, at best {best:.0}");
}

fn print(what: &str, rounds: usize, begun: Instant) {
    let each = begun.elapsed().as_nanos() as f64 / rounds as f64;
    println!("{what:26} {each:6.0} ns");
}

const ROUNDS: usize = 1_000_000;
const BATCH: usize = 500;
