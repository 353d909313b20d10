//! The log on real brokers, where the contract suite does not reach: processes that freeze and die, brokers that go
//! away, positions that lie, topics that are unsafe.
//!
//! `REENACT_KAFKA_VERSION` chooses other brokers than those of the default version.

mod support;

mod commands;
mod handing_over;
mod lies;
mod losses;
mod outages;
mod process;
mod refusals;
mod security;
mod zombies;
