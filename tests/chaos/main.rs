//! Several real nodes on real brokers while everything that can die, dies.
//!
//! The program must have been built with Kafka: `cargo build -p reenact-server --features kafka`. Brokers need
//! Java and Maven. `REENACT_SEED=n` repeats the moments and choices; `REENACT_STORM_MINUTES=n` makes the storm
//! last as long (`cargo xtask chaos`).
//!
//! All tests share one cluster, and each has a log of its own on it. Those that break brokers have the cluster to
//! themselves meanwhile.

mod a04_long_step;
mod a06_full_slots;
mod a36_left_group;
mod a37_lost_events;
mod brokers;
mod fleet;
mod front;
mod publisher;
mod readiness;
mod storm;
mod streams;
mod take_over;
mod truth;
mod work;

use reenact_tests::{product as support, topic};
