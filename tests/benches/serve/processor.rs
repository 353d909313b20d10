//! The processor time of a process and of all that it started, as Linux tells it.

use std::{collections::BTreeMap, fs};

/// Linux counts in hundredths of a second, whatever its own clock is.
const TICKS_A_SECOND: f64 = 100.0;

/// Seconds, user and system, of a process with its descendants, those that have ended included.
pub(crate) fn seconds_of(root: u32) -> f64 {
    let all = processes();
    let (mut family, mut ticks) = (vec![root], 0);
    while let Some(pid) = family.pop() {
        ticks += all.get(&pid).map_or(0, |process| process.ticks);
        family.extend(all.iter().filter(|(_, process)| process.parent == pid).map(|(child, _)| *child));
    }
    ticks as f64 / TICKS_A_SECOND
}

struct Process {
    parent: u32,
    ticks: u64,
}

fn processes() -> BTreeMap<u32, Process> {
    let entries = fs::read_dir("/proc").expect("Linux tells of its processes").flatten();
    let number = |entry: fs::DirEntry| entry.file_name().to_str().and_then(|name| name.parse().ok());
    entries.filter_map(number).filter_map(|pid| Some((pid, process(pid)?))).collect()
}

/// `None` when it has ended meanwhile.
fn process(pid: u32) -> Option<Process> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name before it may hold anything, brackets too.
    let fields: Vec<_> = text.rsplit_once(')')?.1.split_whitespace().collect();
    let number = |index: usize| fields.get(index).and_then(|field| field.parse::<u64>().ok());
    // Its own user and system time, and that of children that it has waited for.
    let ticks = (11..15).map(number).sum::<Option<u64>>()?;
    Some(Process { parent: u32::try_from(number(1)?).ok()?, ticks })
}
