//! What happens when something runs out: descriptors, disk, patience.

use crate::support::{config, web};
use headgate_tests::{Builder, Headgate, Load, Origin, Wire, eventually, run};
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

#[test]
fn running_out_of_descriptors_passes_when_some_come_back() {
    let origin = Origin::named("a");
    let builder = Builder::new().wrapped(&["prlimit", "--nofile=96:96"]);
    let gate = builder.start(&format!(
        "limits: {{file_descriptors: 96}}\n{}",
        config(origin.address(), "", "")
    ));
    let mut served = Wire::connect(gate.at(8080));
    assert_eq!(served.get("/").status(), 200);
    // More than there are descriptors for; the kernel accepts them all.
    let mut many: Vec<Wire> = (0..200).map(|_| Wire::connect(gate.at(8080))).collect();
    for wire in &mut many {
        let _ = wire.try_send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    }
    let status = served.get("/").status();
    assert!(
        [200, 502, 503].contains(&status),
        "those it has get an answer: {status}"
    );
    let before = gate.cpu();
    std::thread::sleep(Duration::from_secs(1));
    let spent = gate.cpu() - before;
    assert!(spent < 50, "{spent} hundredths of a second spent waiting");
    drop(many);
    eventually("new ones are served again", || {
        let mut wire = Wire::try_connect(gate.at(8080)).ok()?;
        wire.patience(Duration::from_secs(1));
        wire.try_send("GET / HTTP/1.1\r\nHost: h\r\n\r\n").ok()?;
        wire.try_response("GET").ok().filter(|r| r.status() == 200)
    });
    assert!(gate.is_running());
}

#[test]
fn a_full_disk_costs_lines_of_the_log_and_no_request() {
    let origin = Origin::named("a");
    let gate = Headgate::start(&format!(
        "log: {{access: {{format: json, buffer: 16KiB, output: {{file: /dev/full}}}}}}\n{}",
        config(origin.address(), "", "")
    ));
    let load = Load::start(gate.at(8080), 8, "/");
    load.more(2000);
    load.finish().assert_clean();
    let metrics = gate.metrics();
    let dropped = metrics
        .iter()
        .find(|(name, _)| name.contains("log") && name.contains("dropped"));
    let (name, dropped) = dropped.unwrap_or_else(|| panic!("not counted: {metrics:?}"));
    assert!(*dropped > 0.0, "{name} {dropped}");
}

#[test]
fn a_log_that_nobody_reads_holds_up_no_request() {
    // A pipe that is never emptied.
    let origin = Origin::named("a");
    let builder = Builder::new();
    let fifo = builder.dir().path().join("pipe").display().to_string();
    assert!(run("mkfifo", &[&fifo], "").0);
    let _reader = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(&fifo)
        .unwrap();
    let gate = builder.start(&format!(
        "log: {{access: {{format: json, buffer: 16KiB, output: {{file: $DIR/pipe}}}}}}\n{}",
        config(origin.address(), "", "")
    ));
    let load = Load::start(gate.at(8080), 8, "/");
    load.more(3000);
    load.finish().assert_clean();
}

#[test]
fn a_log_that_was_moved_away_is_opened_anew_on_reload() {
    let origin = Origin::named("a");
    let gate = web(origin.address(), "");
    let mut wire = Wire::connect(gate.at(8080));
    wire.get("/before");
    gate.access_line(|line| line["target"] == "/before");
    let path = gate.dir().path().join("access.log");
    std::fs::rename(&path, path.with_extension("1")).unwrap();
    assert_eq!(gate.api("POST", "/v1/reload", "").0, 200);
    wire.get("/after");
    gate.access_line(|line| line["target"] == "/after");
}

#[test]
fn as_root_it_keeps_only_the_capability_for_low_ports() {
    let root = run("id", &["-u"], "").1.trim() == "0";
    if !root {
        eprintln!("passed over: needs root");
        return;
    }
    let origin = Origin::named("a");
    let gate = for_everyone().start(&format!(
        "user: nobody\n{}",
        config(origin.address(), "", "").replace("8080", "80")
    ));
    assert_eq!(Wire::connect(gate.at(80)).get("/").text(), "a");
    // CAP_NET_BIND_SERVICE is the tenth.
    for set in ["CapEff", "CapPrm", "CapInh", "CapAmb"] {
        let bits = u64::from_str_radix(&gate.proc_status(set), 16).unwrap();
        assert_eq!(bits & !(1 << 10), 0, "{set}");
    }
    let bits = u64::from_str_radix(&gate.proc_status("CapEff"), 16).unwrap();
    assert_eq!(bits, 1 << 10);
    assert_ne!(gate.proc_status("Uid"), "0");
    assert_eq!(gate.proc_status("NoNewPrivs"), "1");
    // What it became can still be configured and upgraded.
    gate.reconfigure(&format!(
        "user: nobody\npools: {{app: {{members: ['{}']}}}}\n\
         virtuals: {{web: {{listen: ['$IP:80', '$IP:81'], pool: app}}}}",
        origin.address()
    ));
    assert_eq!(Wire::connect(gate.at(81)).get("/").text(), "a");
    let before = gate.pid();
    let (status, answer) = gate.api("POST", "/v1/upgrade", "");
    assert!(status < 300, "{answer}");
    eventually("another process serves", || {
        (gate.pid() != before).then_some(())
    });
    assert_eq!(Wire::connect(gate.at(80)).get("/").text(), "a");
}

#[test]
fn high_ports_need_no_capability() {
    if run("id", &["-u"], "").1.trim() != "0" {
        eprintln!("passed over: needs root");
        return;
    }
    let origin = Origin::named("a");
    let gate = for_everyone().start(&format!(
        "user: nobody\npools: {{app: {{members: ['{}']}}}}\n\
         virtuals: {{web: {{listen: '$IP:8080', pool: app}}}}",
        origin.address()
    ));
    assert_eq!(Wire::connect(gate.at(8080)).get("/").text(), "a");
    for set in ["CapEff", "CapPrm", "CapInh", "CapAmb"] {
        assert_eq!(
            u64::from_str_radix(&gate.proc_status(set), 16),
            Ok(0),
            "{set}"
        );
    }
}

#[test]
fn an_idle_process_uses_next_to_no_time() {
    let origin = Origin::named("a");
    let gate = web(origin.address(), "");
    let held: Vec<Wire> = (0..100)
        .map(|_| {
            let mut wire = Wire::connect(gate.at(8080));
            wire.get("/");
            wire
        })
        .collect();
    let (before, begun) = (gate.cpu(), Instant::now());
    std::thread::sleep(Duration::from_secs(1));
    let spent = gate.cpu() - before;
    assert!(spent <= 10, "{spent} hundredths in {:?}", begun.elapsed());
    drop(held);
}

/// One whose folder another user may use.
fn for_everyone() -> Builder {
    let builder = Builder::new();
    let open = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(builder.dir().path(), open).unwrap();
    builder
}
