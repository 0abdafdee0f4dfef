//! How much processor time other processes, and whole cores, have used: read from /proc at both ends of a measurement.

use std::collections::HashMap;
use std::fs;

/// A process and all its descendants, as they were when looked up.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    processes: Vec<u32>,
}

impl Tree {
    /// The tree below `root`, itself included. A process that is not there counts nothing.
    pub fn of(root: u32) -> Self {
        let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
        for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let Some(process) = entry
                .file_name()
                .to_str()
                .and_then(|name| name.parse().ok())
            else {
                continue;
            };
            if let Some(parent) =
                stat_fields(process).and_then(|fields| fields.get(1)?.parse().ok())
            {
                children.entry(parent).or_default().push(process);
            }
        }
        let mut processes = vec![root];
        let mut next = 0;
        while let Some(process) = processes.get(next) {
            processes.extend(children.remove(process).unwrap_or_default());
            next += 1;
        }
        Self { processes }
    }

    /// The processes of the tree, the root first.
    pub fn processes(&self) -> &[u32] {
        &self.processes
    }

    /// Processor time used so far, user and system, in nanoseconds. Threads that have ended may be missing from it.
    pub fn cpu(&self) -> u64 {
        self.processes.iter().map(|process| cpu(*process)).sum()
    }

    /// The share of memory that is theirs (PSS), in bytes.
    pub fn memory(&self) -> u64 {
        self.processes.iter().map(|process| memory(*process)).sum()
    }
}

/// Busy and total time of every core so far, in ticks.
#[derive(Clone, Debug, Default)]
pub struct Cores(Vec<(u64, u64)>);

impl Cores {
    /// As they are now.
    pub fn now() -> Self {
        let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
        let cores = stat
            .lines()
            .filter(|line| line.starts_with("cpu") && !line.starts_with("cpu "));
        Self(cores.map(busy_and_total).collect())
    }

    /// The share of time (0 to 1) that each core was busy since `earlier`.
    pub fn busy_since(&self, earlier: &Self) -> Vec<f64> {
        let pairs = self.0.iter().zip(&earlier.0);
        pairs
            .map(|(now, then)| {
                now.0.saturating_sub(then.0) as f64 / now.1.saturating_sub(then.1).max(1) as f64
            })
            .collect()
    }
}

/// Nanoseconds from the scheduler where it tells them for each thread; else from the process' ticks.
fn cpu(process: u32) -> u64 {
    let mut sum = 0;
    for task in fs::read_dir(format!("/proc/{process}/task"))
        .into_iter()
        .flatten()
        .flatten()
    {
        let Ok(stat) = fs::read_to_string(task.path().join("schedstat")) else {
            continue;
        };
        sum += stat
            .split(' ')
            .next()
            .and_then(|field| field.parse::<u64>().ok())
            .unwrap_or(0);
    }
    if sum > 0 {
        return sum;
    }
    let fields = stat_fields(process).unwrap_or_default();
    let ticks = |index: usize| {
        fields
            .get(index)
            .and_then(|field| field.parse::<u64>().ok())
            .unwrap_or(0)
    };
    (ticks(11) + ticks(12)) * 10_000_000
}

/// The fields of /proc/PID/stat after the command's name, whose own spaces and brackets would confuse.
fn stat_fields(process: u32) -> Option<Vec<String>> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(") ")?;
    Some(rest.split_ascii_whitespace().map(str::to_owned).collect())
}

fn memory(process: u32) -> u64 {
    let rollup = fs::read_to_string(format!("/proc/{process}/smaps_rollup")).unwrap_or_default();
    let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:"));
    let kibibytes = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kibibytes.unwrap_or(0) * 1024
}

fn busy_and_total(line: &str) -> (u64, u64) {
    let times: Vec<u64> = line
        .split_ascii_whitespace()
        .skip(1)
        .take(8) // guest times after these are counted in user time already
        .filter_map(|field| field.parse().ok())
        .collect();
    let total: u64 = times.iter().sum();
    let idle: u64 = times.iter().skip(3).take(2).sum();
    (total - idle, total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_and_waiting_are_not_busy() {
        assert_eq!(
            busy_and_total("cpu0 10 20 30 400 50 6 7 8 99 99"),
            (81, 531)
        );
    }

    #[test]
    fn own_work_and_memory_are_seen() {
        let tree = Tree::of(std::process::id());
        assert_eq!(tree.processes()[0], std::process::id());
        assert!(tree.memory() > 0);
        let before = tree.cpu();
        let mut grown = 0;
        while tree.cpu() <= before {
            grown = std::hint::black_box(grown + 1);
        }
    }
}
