use std::fs;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process;
use std::thread;

use libbpf_rs::{MapCore, MapType};
use xdp::pin::{self, PinError};

use crate::{kernel, tiny};

#[test]
fn tables_and_programs_are_found_again_and_removed_with_their_folder() {
    if !kernel() {
        return;
    }
    let folder = PathBuf::from(format!("/sys/fs/bpf/xdp-test-{}-pins", process::id()));
    let deep = folder.join("deep/er");
    pin::mounted(&deep).unwrap();
    let (table, program) = (deep.join("table"), deep.join("program"));
    pin::pin(tiny::array(MapType::Array, 8, 3, 0).as_fd(), &table).unwrap();
    pin::pin(tiny::verdict(tiny::PASS).as_fd(), &program).unwrap();
    assert_eq!(pin::open_map(&table).unwrap().max_entries(), 3);
    let found = pin::open_program(&program).unwrap();
    assert!(xdp::object::id(&found).unwrap() > 0);
    assert!(
        pin::open_program(&table)
            .unwrap_err()
            .to_string()
            .contains("not a program")
    );
    assert!(pin::open_map(&program).is_err());
    pin::unpin(&program).unwrap();
    pin::unpin(&program).expect("once more is no error");
    pin::remove_tree(&folder).unwrap();
    assert!(!folder.exists());
    pin::remove_tree(&folder).expect("once more is no error");
}

#[test]
fn names_with_dots_become_names_that_can_be_pinned() {
    if !kernel() {
        return;
    }
    let folder = PathBuf::from(format!("/sys/fs/bpf/xdp-test-{}-names", process::id()));
    pin::mounted(&folder).unwrap();
    let table = tiny::array(MapType::Array, 8, 1, 0);
    let pinned = pin::pin(table.as_fd(), &folder.join(pin::file_name("eth0.5")));
    pin::remove_tree(&folder).unwrap();
    pinned.unwrap();
}

#[test]
fn folders_of_other_file_systems_are_refused_and_left_alone() {
    let folder = std::env::temp_dir().join(format!("xdp-test-{}", process::id()));
    fs::create_dir_all(&folder).unwrap();
    let errors = [
        pin::mounted(&folder).unwrap_err(),
        pin::remove_tree(&folder).unwrap_err(),
    ];
    assert!(folder.exists());
    fs::remove_dir(&folder).unwrap();
    for error in errors {
        assert!(matches!(error, PinError::NotBpf { .. }), "{error}");
        assert!(error.to_string().contains("/sys/fs/bpf"), "{error}");
    }
}

#[test]
#[expect(unsafe_code, reason = "mounts of a thread's own")]
fn the_file_system_is_mounted_when_it_is_missing() {
    if !kernel() {
        return;
    }
    let own_mounts = thread::spawn(|| {
        // SAFETY: changes what this thread alone sees; the strings are C strings.
        unsafe {
            assert_eq!(libc::unshare(libc::CLONE_NEWNS), 0);
            let private = libc::MS_PRIVATE | libc::MS_REC;
            let none = c"none".as_ptr();
            assert_eq!(
                libc::mount(none, c"/".as_ptr(), none, private, std::ptr::null()),
                0
            );
            while pin::is_bpffs(Path::new("/sys/fs/bpf")) {
                assert_eq!(libc::umount2(c"/sys/fs/bpf".as_ptr(), libc::MNT_DETACH), 0);
            }
        }
        let folder = Path::new("/sys/fs/bpf/some/where");
        pin::mounted(folder).unwrap();
        assert!(pin::is_bpffs(folder));
    });
    own_mounts.join().unwrap();
}
