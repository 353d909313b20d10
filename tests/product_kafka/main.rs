//! The failures of the field on a log on Kafka, with views on PostgreSQL: the very tests that `tests/product` runs on the embedded log. What
//! needs several nodes, or brokers that die, is in `tests/chaos` and `tests/publishers`.
//!
//! A test of `tests/product` that asks `ground` for its product and looks into no file of the log can stand here too:
//! it takes one line. The program must have been built with Kafka; brokers need Java and Maven.

#[path = "../product/a05_keys.rs"]
mod a05_keys;
#[path = "../product/a07_stream_gaps.rs"]
mod a07_stream_gaps;
#[path = "../product/a08_stream_ids.rs"]
mod a08_stream_ids;
#[path = "../product/a10_parallel_branches.rs"]
mod a10_parallel_branches;
#[path = "../product/a11_long_sessions.rs"]
mod a11_long_sessions;
#[path = "../product/a14_users_apart.rs"]
mod a14_users_apart;
#[path = "../product/a16_usage.rs"]
mod a16_usage;
#[path = "../product/a19_schedules.rs"]
mod a19_schedules;
#[path = "../product/a23_orphan_calls.rs"]
mod a23_orphan_calls;
#[path = "../product/a24_bad_arguments.rs"]
mod a24_bad_arguments;
#[path = "../product/a25_empty_content.rs"]
mod a25_empty_content;
#[path = "../product/a26_rate_limits.rs"]
mod a26_rate_limits;
#[path = "../product/a27_context_overflow.rs"]
mod a27_context_overflow;
#[path = "../product/a28_people.rs"]
mod a28_people;
#[path = "../product/a29_cancel.rs"]
mod a29_cancel;
#[path = "../product/a32_pages.rs"]
mod a32_pages;
#[path = "../product/a33_connections.rs"]
mod a33_connections;
#[path = "../product/a38_rebuild.rs"]
mod a38_rebuild;
mod erased_nodes;
#[path = "../product/erasure.rs"]
mod erasure;
#[path = "../product/forks.rs"]
mod forks;
mod ground;
mod nodes;
#[path = "../product/reader.rs"]
mod reader;
#[path = "../product/world.rs"]
mod world;

use reenact_tests::product as support;
