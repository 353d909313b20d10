//! Ports for clusters that did not ask for any.
//!
//! They lie below the range that the system takes outgoing connections' ports from: otherwise a client's connection
//! may sit on a killed broker's port at the moment when that broker is started again.

use std::{
    net::TcpListener,
    ops::Range,
    process,
    sync::atomic::{AtomicU32, Ordering},
};

use anyhow::Context;

const RANGE: Range<u16> = 20_000..32_000;

/// How far this process has come through the range.
static TAKEN: AtomicU32 = AtomicU32::new(0);

/// `count` free ports in a row. Processes begin at different places, so that two of them that look at the same
/// moment seldom see the same ports.
pub(crate) fn free(count: u16) -> anyhow::Result<u16> {
    let width = u32::from(RANGE.end - RANGE.start - count);
    let attempts = width / u32::from(count);
    for _ in 0..attempts {
        let step = TAKEN.fetch_add(u32::from(count), Ordering::Relaxed);
        let offset = process::id().wrapping_mul(64).wrapping_add(step) % width;
        let first = u16::try_from(offset).map(|offset| RANGE.start + offset)?;
        if (first..first + count).all(is_free) {
            return Ok(first);
        }
    }
    None.with_context(|| format!("there are no {count} free ports in a row between {} and {}", RANGE.start, RANGE.end))
}

fn is_free(port: u16) -> bool {
    TcpListener::bind(("127.0.0.1", port)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_clusters_of_one_process_get_different_ports() {
        let first = free(9).expect("ports");
        let second = free(9).expect("ports");
        assert!(first.abs_diff(second) >= 9, "{first} {second}");
    }

    #[test]
    fn a_port_that_is_in_use_is_passed_over() {
        let taken = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        assert!(!is_free(taken.local_addr().expect("an address").port()));
    }
}
