//! Alone in its process: it counts the process's descriptors.

use reactor::{block_on, mailbox};
use std::time::Duration;

#[test]
fn a_thread_that_only_wakes_opens_no_descriptors() {
    let (sender, mut receiver) = mailbox();
    let (before, after) = block_on(async move {
        let thread = std::thread::spawn(move || {
            // Long enough for the receiver to wait, so that there is a task to wake.
            std::thread::sleep(Duration::from_millis(50));
            let before = descriptors();
            sender.send(()).unwrap();
            (before, descriptors())
        });
        receiver.receive().await;
        thread.join().unwrap()
    });
    assert_eq!(before, after);
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd")
        .expect("a process can read its own descriptors")
        .count()
}
