//! Commands from anywhere: programs that know nothing but Kafka publish commands, read the answers and the events.
//!
//! The program must have been built with Kafka (`cargo build -p reenact-server --features kafka`; in the workspace,
//! this crate asks `reenact_server` for it), and the examples
//! need what `cargo xtask verify packages python kafka java` sets up. All tests share one broker; each has a
//! deployment of its own on it.

mod commands;
mod deployment;
mod doctor;
mod examples;
mod history;
mod joining;
mod keys;
mod poison;
mod publisher;
mod schemas;

use reenact_tests::{product, topic};
