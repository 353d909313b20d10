//! Several real nodes on real brokers while everything that can die, dies.
//!
//! The program must have been built with Kafka: `cargo build -p reenact-server --features kafka`. Brokers need
//! Java and Maven. `REENACT_SEED=n` repeats the moments and choices; `REENACT_STORM_MINUTES=n` makes the storm
//! last as long (`cargo xtask chaos`).
//!
//! All tests share one cluster and take turns on it; each has a log of its own on it.

mod brokers;
mod fleet;
mod front;
mod publisher;
mod storm;
mod truth;
mod work;

use reenact_tests::{product as support, topic};
