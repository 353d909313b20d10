//! The product as its users have it: real processes, real sockets, real SIGKILLs. A test that is named after
//! a failure of the field (`a01_…`) shows that it cannot happen here.
//!
//! The program must have been built: `cargo build -p reenact-server`. `REENACT_SEED=n` repeats the moments of
//! the tests that kill.

mod a01_lost_run;
mod a03_orderly_shutdown;
mod a04_long_step;
mod a05_keys;
mod a06_full_slots;
mod a07_stream_gaps;
mod a08_stream_ids;
mod a09_session_race;
mod a10_parallel_branches;
mod a11_long_sessions;
mod a12_growth;
mod a14_users_apart;
mod a16_usage;
mod a19_schedules;
mod a20_text;
mod a21_large_payload;
mod a22_media;
mod a23_orphan_calls;
mod a24_bad_arguments;
mod a25_empty_content;
mod a26_rate_limits;
mod a27_context_overflow;
mod a28_people;
mod a29_cancel;
mod a32_pages;
mod a33_connections;
mod a38_rebuild;
mod accepted_losses;
mod audits;
mod bad_input;
mod erasure;
mod fallbacks;
mod forks;
mod forms;
mod ground;
mod guardrails;
mod guide;
mod key_files;
mod lost_stores;
mod parquet;
mod queue;
mod reader;
mod rebuild_kills;
mod refused_starts;
mod requeue;
mod retention;
mod sealed_content;
mod session_state;
mod snapshots;
mod structured_output;
mod sweep;
mod worker;
mod world;

use reenact_tests::product as support;
