//! Ports for clusters that did not ask for any.
//!
//! They lie below the range that the system takes outgoing connections' ports from: otherwise a client's connection
//! may sit on a killed broker's port at the moment when that broker is started again.

use std::{
    env,
    fs::{self, File},
    net::TcpListener,
    ops::Range,
    process,
    sync::atomic::{AtomicU32, Ordering},
};

use anyhow::Context;

use crate::state::PORTS_PER_NODE;

const RANGE: Range<u16> = 20_000..32_000;
/// As many as the largest cluster needs.
const BLOCK: u16 = 3 * PORTS_PER_NODE;
const BLOCKS: u32 = ((RANGE.end - RANGE.start) / BLOCK) as u32;

/// How far this process has come through the range.
static TAKEN: AtomicU32 = AtomicU32::new(0);

/// Ports in a row that no other cluster of this machine gets while this is held: those of a killed broker look free
/// until it is started again.
#[derive(Debug)]
pub(crate) struct Reserved {
    pub(crate) first: u16,
    _lock: File,
}

/// Free ports for a cluster. Processes begin at different places, so that they seldom ask for the same ones.
pub(crate) fn free() -> anyhow::Result<Reserved> {
    let user = rustix::process::getuid().as_raw();
    let folder = env::temp_dir().join(format!("reenact-kafka-ports-{user}"));
    fs::create_dir_all(&folder).with_context(|| format!("`{}` cannot be made", folder.display()))?;
    for _ in 0..BLOCKS {
        let step = TAKEN.fetch_add(1, Ordering::Relaxed);
        let block = process::id().wrapping_mul(64).wrapping_add(step) % BLOCKS;
        let first = RANGE.start + BLOCK * u16::try_from(block)?;
        let path = folder.join(first.to_string());
        let lock = File::create(&path).with_context(|| format!("`{}` cannot be written", path.display()))?;
        if lock.try_lock().is_ok() && (first..first + BLOCK).all(is_free) {
            return Ok(Reserved { first, _lock: lock });
        }
    }
    None.with_context(|| format!("there are no {BLOCK} free ports in a row between {} and {}", RANGE.start, RANGE.end))
}

fn is_free(port: u16) -> bool {
    TcpListener::bind(("127.0.0.1", port)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_of_a_cluster_whose_brokers_are_down_go_to_no_other() {
        let kept = free().expect("ports");
        let more: Vec<_> = (0..50).map(|_| free().expect("ports")).collect();
        TAKEN.store(TAKEN.load(Ordering::Relaxed) - 51, Ordering::Relaxed);
        let again = free().expect("ports");
        let all: Vec<_> = more.iter().chain([&again]).map(|reserved| reserved.first).collect();
        assert!(all.iter().all(|first| first.abs_diff(kept.first) >= BLOCK), "{} {all:?}", kept.first);
    }

    #[test]
    fn a_port_that_is_in_use_is_passed_over() {
        let taken = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        assert!(!is_free(taken.local_addr().expect("an address").port()));
    }
}
