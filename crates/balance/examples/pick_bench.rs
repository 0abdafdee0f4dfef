//! Measures a pick and the release of its slot, in nanoseconds of wall time a thread:
//! `cargo run --release -p balance --example pick_bench`.

use balance::{Algorithm, Ask, HashMethod, MemberSettings, Pick, Pool, PoolSettings};
use std::net::{Ipv4Addr, SocketAddr};
use std::thread;
use std::time::Instant;

fn main() {
    let algorithms = [
        ("round robin", Algorithm::RoundRobin),
        ("least connections", Algorithm::LeastConnections),
        ("power of two", Algorithm::PowerOfTwo),
        ("first", Algorithm::First),
        ("hash modulo", Algorithm::Hash(HashMethod::Modulo)),
        (
            "hash consistent",
            Algorithm::Hash(HashMethod::Consistent { load_factor: 0.0 }),
        ),
        (
            "the same, bounded",
            Algorithm::Hash(HashMethod::Consistent { load_factor: 1.25 }),
        ),
    ];
    println!(
        "{:20} {:>7} {:>6} {:>9} {:>9}",
        "algorithm", "members", "limit", "1 thread", "2 threads"
    );
    for (name, algorithm) in algorithms {
        for (members, limit) in [(3, 0), (3, 10_000), (100, 0), (100, 10_000)] {
            let [one, two] = [1, 2].map(|threads| measure(algorithm, members, limit, threads));
            println!("{name:20} {members:7} {limit:6} {one:9.1} {two:9.1}");
        }
    }
}

/// The median of five runs.
fn measure(algorithm: Algorithm, members: u8, limit: u32, threads: u64) -> f64 {
    let member = |i: u8| MemberSettings {
        limit,
        ..MemberSettings::new(
            format!("m{i}"),
            SocketAddr::from((Ipv4Addr::new(10, 0, 0, i), 80)),
        )
    };
    let members = (0..members).map(member).collect();
    let pool = Pool::new(
        PoolSettings {
            algorithm,
            members,
            ..PoolSettings::default()
        },
        0,
    );
    // An idle pool is no measure: the scans stop at the first idle member.
    let hold = |i: u64| {
        pool.pick(
            &Ask {
                hash: Some(i << 56 | i << 24),
                random: i << 56 | i << 24,
                ..Ask::default()
            },
            0,
        )
    };
    let _held: Vec<Pick> = (0..1000).map(hold).collect();
    let mut runs = [(); 5].map(|()| {
        thread::scope(|scope| {
            let handles: Vec<_> = (0..threads)
                .map(|seed| {
                    scope.spawn({
                        let pool = &pool;
                        move || run(pool, seed)
                    })
                })
                .collect();
            let times = handles
                .into_iter()
                .map(|handle| handle.join().expect("the run does not panic"));
            times.fold(0.0, f64::max)
        })
    });
    runs.sort_by(f64::total_cmp);
    runs[2]
}

fn run(pool: &Pool, seed: u64) -> f64 {
    let mut random = 0x9e37_79b9_7f4a_7c15 ^ (seed + 1);
    let start = Instant::now();
    for _ in 0..PICKS {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let ask = Ask {
            hash: Some(random),
            random,
            ..Ask::default()
        };
        let Pick::Slot(slot) = pool.pick(&ask, 1) else {
            panic!("a member is free")
        };
        drop(slot);
    }
    start.elapsed().as_nanos() as f64 / f64::from(PICKS)
}

const PICKS: u32 = 300_000;
