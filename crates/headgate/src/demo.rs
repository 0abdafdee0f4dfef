//! `headgate demo-origins`: the two origins behind `examples/quickstart.yaml`, each a process of its own, so that one can
//! be stopped to see what happens.

use std::env;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitCode};
use std::thread;
use std::time::Duration;

/// Names and addresses, as the example has them.
const ORIGINS: [(&str, &str); 2] = [("one", "127.0.0.1:9001"), ("two", "127.0.0.1:9002")];

/// Runs the origins until they all have ended.
pub(crate) fn origins() -> ExitCode {
    let mut running: Vec<(&str, &str, Child)> = Vec::new();
    for (name, address) in ORIGINS {
        let child = env::current_exe().and_then(|program| {
            let mut command = Command::new(program);
            command.args(["origin", "--name", name, "--listen", address]);
            end_with_parent(&mut command);
            command.spawn()
        });
        match child {
            Ok(child) => {
                println!(
                    "origin {name} at http://{address}, process {} (kill it and see)",
                    child.id()
                );
                running.push((name, address, child));
            }
            Err(error) => {
                eprintln!("cannot start origin {name}: {error}");
                return ExitCode::FAILURE;
            }
        }
    }
    let mut failed = false;
    while !running.is_empty() {
        thread::sleep(Duration::from_millis(200));
        running.retain_mut(|(name, _, child)| match child.try_wait() {
            Ok(None) => true,
            Ok(Some(status)) => {
                println!("origin {name} has ended: {status}");
                failed |= status.code().is_some_and(|code| code != 0);
                false
            }
            Err(_) => false,
        });
    }
    if failed {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}

/// Has the child ended when this process ends, however that comes about.
#[expect(unsafe_code, reason = "only the child itself can ask for that")]
fn end_with_parent(command: &mut Command) {
    let ask = || {
        // SAFETY: a system call on plain numbers, allowed between fork and exec.
        match unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    };
    // SAFETY: `ask` makes one system call and allocates nothing.
    unsafe { command.pre_exec(ask) };
}
