//! The tour of the README, line by line: its commands are run, in a machine of their own, and what it shows must come.

use headgate_tests::{Dir, binary};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};

/// Stands between the outputs of two steps.
const MARK: &str = "--- next step ---";

#[test]
fn every_line_of_the_tour_does_what_the_readme_says() {
    let apart = [
        "--net",
        "--pid",
        "--fork",
        "--mount-proc",
        "--map-root-user",
    ];
    let able = Command::new("unshare")
        .args(apart)
        .arg("true")
        .output()
        .unwrap();
    if !able.status.success() {
        eprintln!("passed over: namespaces cannot be made here");
        return;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let readme = fs::read_to_string(root.join("README.md")).unwrap();
    let steps = steps(&readme);
    assert!(steps.len() >= 8, "{} steps", steps.len());
    let dir = Dir::new();
    let home = dir.path();
    // The folder of the sources, as it looks after `make run` has built the program.
    fs::create_dir_all(home.join("target/release")).unwrap();
    symlink(binary(), home.join("target/release/headgate")).unwrap();
    symlink(root.join("rules"), home.join("rules")).unwrap();
    fs::create_dir(home.join("examples")).unwrap();
    for file in ["quickstart.yaml", "quickstart.sh"] {
        fs::copy(
            root.join("examples").join(file),
            home.join("examples").join(file),
        )
        .unwrap();
    }
    let demo = home.join("demo").display().to_string();
    let mut script = format!(
        "exec 2>&1\nip link set lo up\nexport HEADGATE_DEMO={demo}\n\
         examples/quickstart.sh >quickstart.log 2>&1 &\nquickstart=$!\n\
         for n in $(seq 100); do grep -q 'Headgate is running' quickstart.log && break; sleep 0.1; done\n"
    );
    for (commands, _) in &steps {
        let commands = commands.replace("/tmp/headgate-quickstart", &demo);
        script.push_str(&format!("{commands}\necho '{MARK}'\n"));
    }
    script.push_str("kill $quickstart; wait $quickstart\n");
    let path = dir.write("tour.sh", script);
    let output = Command::new("timeout")
        .args(["120", "unshare"])
        .args(apart)
        .arg("bash")
        .arg(path)
        .current_dir(home)
        .env_remove("HEADGATE_BIN")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let out = String::from_utf8_lossy(&output.stdout);
    let all = format!("{out}\n{}", String::from_utf8_lossy(&output.stderr));
    let outputs: Vec<&str> = out.split(MARK).collect();
    assert_eq!(outputs.len(), steps.len() + 1, "not all was run:\n{all}");
    for ((commands, shown), output) in steps.iter().zip(outputs) {
        let mut rest = output;
        for piece in pieces(shown) {
            let found = rest.find(piece).unwrap_or_else(|| {
                panic!(
                    "{piece:?} is not in what came of\n{commands}\nwhich was\n{output}\nof\n{all}"
                )
            });
            rest = &rest[found + piece.len()..];
        }
    }
}

/// Commands and, where the README shows them, their output.
fn steps(readme: &str) -> Vec<(String, String)> {
    let mut steps: Vec<(String, String)> = Vec::new();
    let mut blocks = readme.split("```").skip(1).step_by(2);
    for block in &mut blocks {
        match block.split_once('\n').unwrap() {
            ("sh", commands) => steps.push((commands.to_owned(), String::new())),
            ("text", shown) => shown.clone_into(&mut steps.last_mut().unwrap().1),
            (other, _) => panic!("a block of {other:?} in the README"),
        }
    }
    steps
}

/// What must occur, one after the other; `…` stands for anything.
fn pieces(shown: &str) -> impl Iterator<Item = &str> {
    let pieces = shown.split(['…', '\n']).map(str::trim);
    pieces.filter(|piece| !piece.is_empty())
}
