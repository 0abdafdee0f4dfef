use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;

use libbpf_rs::{MapHandle, MapType};
use xdp::map::{self, Mapped, Write};
use xdp::netns::pin_to_core;
use xdp::run::{Run, test_run};

use crate::{kernel, tiny};

fn hash(entries: u32) -> MapHandle {
    tiny::table(MapType::Hash, 4, 16, entries, 0)
}

#[test]
fn values_are_written_read_and_removed() {
    if !kernel() {
        return;
    }
    let hash = hash(10);
    let (first, second) = ([1u64, 2], [3u64, 4]);
    assert_eq!(map::get::<u32, [u64; 2]>(&hash, &7).unwrap(), None);
    let error = map::set_if(&hash, &7u32, &first, Write::Existing).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::NotFound);
    map::set(&hash, &7u32, &first).unwrap();
    let error = map::set_if(&hash, &7u32, &second, Write::New).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
    assert_eq!(map::get(&hash, &7u32).unwrap(), Some(first));
    map::set(&hash, &7u32, &second).unwrap();
    assert_eq!(map::get(&hash, &7u32).unwrap(), Some(second));
    assert!(map::remove(&hash, &7u32).unwrap());
    assert!(!map::remove(&hash, &7u32).unwrap());
}

#[test]
fn types_of_another_size_than_the_tables_are_refused() {
    if !kernel() {
        return;
    }
    let hash = hash(10);
    let counters = tiny::array(MapType::PercpuArray, 8, 1, 0);
    for error in [
        map::get::<u64, [u64; 2]>(&hash, &0).unwrap_err(),
        map::set(&hash, &0u32, &0u64).unwrap_err(),
        map::remove(&hash, &0u8).unwrap_err(),
        map::per_cpu::<u32, [u64; 2]>(&hash, &0).unwrap_err(),
        map::get::<u32, u64>(&counters, &0).unwrap_err(),
        map::per_cpu_sum::<u32, 2>(&counters, &0).unwrap_err(),
    ] {
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        assert!(error.to_string().contains("table tiny"), "{error}");
    }
}

#[test]
fn counters_of_all_cores_are_added_up() {
    if !kernel() {
        return;
    }
    let counters = tiny::array(MapType::PercpuArray, 8, 3, 0);
    let program = tiny::count(&counters, 1, tiny::PASS);
    let runs = [
        (0, 3),
        (std::thread::available_parallelism().unwrap().get() - 1, 2),
    ];
    for (core, times) in runs {
        let program = &program;
        std::thread::scope(|scope| {
            scope.spawn(move || {
                pin_to_core(0, core).unwrap();
                test_run(program.as_fd(), &Run::new(&[0; 64]).repeat(times)).unwrap();
            });
        });
    }
    let each: Vec<u64> = map::per_cpu(&counters, &1u32).unwrap().unwrap();
    assert_eq!(each.len(), map::possible_cpus().unwrap());
    assert!(each[0] >= 3);
    assert_eq!(map::per_cpu_sum::<u32, 1>(&counters, &1).unwrap(), [5]);
    assert_eq!(map::per_cpu_sum::<u32, 1>(&counters, &3).unwrap(), [0]);
    let mut seen = Vec::new();
    map::per_cpu_entries(&counters, |key: u32, values: &[u64]| {
        seen.push((key, values.iter().sum::<u64>()));
    })
    .unwrap();
    assert_eq!(seen, [(0, 0), (1, 5), (2, 0)]);
}

#[test]
fn every_entry_is_read_in_batches() {
    if !kernel() {
        return;
    }
    let hash = hash(10_000);
    let prefixes = tiny::table(
        MapType::LpmTrie,
        8,
        4,
        10_000,
        libbpf_sys::BPF_F_NO_PREALLOC,
    );
    for n in 0..5000u32 {
        map::set(&hash, &n, &[u64::from(n), 1]).unwrap();
        map::set(&prefixes, &[32, n.to_be()], &n).unwrap();
    }
    let mut seen = BTreeMap::new();
    map::entries(&hash, |key: u32, value: [u64; 2]| {
        assert!(seen.insert(key, value).is_none());
    })
    .unwrap();
    assert_eq!(seen.len(), 5000);
    assert!(
        seen.iter()
            .all(|(key, value)| *value == [u64::from(*key), 1])
    );
    let mut seen = BTreeMap::new();
    map::entries(&prefixes, |key: [u32; 2], value: u32| {
        assert!(seen.insert(key, value).is_none());
    })
    .unwrap();
    assert_eq!(seen.len(), 5000);
    let mut some = false;
    map::entries(&self::hash(10), |_: u32, _: [u64; 2]| some = true).unwrap();
    assert!(!some, "an empty table has entries");
}

#[test]
fn many_entries_are_written_and_removed_at_once() {
    if !kernel() {
        return;
    }
    let hash = hash(3000);
    let keys: Vec<u32> = (0..3000).collect();
    let values: Vec<[u64; 2]> = keys.iter().map(|key| [u64::from(*key), 7]).collect();
    map::set_many(&hash, &keys, &values).unwrap();
    assert_eq!(map::get(&hash, &2999u32).unwrap(), Some([2999u64, 7]));
    let error = map::set_many(&hash, &[5000u32], &[[0u64; 2]]).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::E2BIG));
    assert!(map::set_many(&hash, &keys, &values[1..]).is_err());
    // Half of these are there.
    let some: Vec<u32> = (2000..4000).collect();
    assert_eq!(map::remove_many(&hash, &some).unwrap(), 1000);
    let mut left = 0;
    map::entries(&hash, |key: u32, _: [u64; 2]| left += u32::from(key < 2000)).unwrap();
    assert_eq!(left, 2000);
}

#[test]
fn a_table_is_put_into_a_table_of_tables() {
    if !kernel() {
        return;
    }
    let inner = tiny::array(MapType::Array, 4, 10, 0);
    let outer = tiny::tables(&inner, 4);
    map::set_map(&outer, &2u32, &inner).unwrap();
    let id: u32 = map::get(&outer, &2u32).unwrap().unwrap();
    map::set(&MapHandle::from_map_id(id).unwrap(), &9u32, &77u32).unwrap();
    assert_eq!(map::get(&inner, &9u32).unwrap(), Some(77u32));
}

#[test]
fn a_mapped_array_is_shared_with_programs() {
    if !kernel() {
        return;
    }
    let array = tiny::array(MapType::Array, 20, 1000, libbpf_sys::BPF_F_MMAPABLE);
    let mapped = Mapped::new(&array).unwrap();
    assert_eq!((mapped.len(), mapped.stride()), (1000, 24));
    mapped.element_long(999).unwrap()[0].store(40, Ordering::Relaxed);
    let program = tiny::count(&array, 999, tiny::PASS);
    test_run(program.as_fd(), &Run::new(&[0; 64]).repeat(2)).unwrap();
    assert_eq!(mapped.read::<u64>(999), Some(42));
    mapped.element(5).unwrap()[4].store(9, Ordering::Relaxed);
    assert_eq!(map::get(&array, &5u32).unwrap(), Some([0u32, 0, 0, 0, 9]));
    assert_eq!(mapped.read::<[u32; 5]>(5), Some([0, 0, 0, 0, 9]));
    assert_eq!(mapped.words()[5 * 6 + 4].load(Ordering::Relaxed), 9);
    assert!(mapped.element(1000).is_none() && mapped.read::<u8>(1000).is_none());
    assert_eq!(mapped.read::<[u64; 4]>(0), None);
}

#[test]
fn tables_that_cannot_be_mapped_are_refused() {
    if !kernel() {
        return;
    }
    assert!(
        Mapped::new(&hash(1))
            .unwrap_err()
            .to_string()
            .contains("no array")
    );
    let plain = tiny::array(MapType::Array, 8, 1, 0);
    assert!(
        Mapped::new(&plain)
            .unwrap_err()
            .to_string()
            .contains("BPF_F_MMAPABLE")
    );
}
