//! What the log on Kafka relies on, asked of a real broker. Each of these was a claim of the design first.
//!
//! `REENACT_KAFKA_NODES` (1 or 3) and `REENACT_KAFKA_VERSION` choose other brokers than one of the default version.

mod support;

mod fencing;
mod groups;
mod offsets;
mod reading;
mod transactions;
