//! The log contract on Kafka: many nodes, one owner per partition, nothing done twice.
//!
//! The only topic that a consumer group reads is the commands'. Whoever is assigned its partition `p` owns
//! partition `p` of the events, and appends to it through one transactional producer whose id names the
//! partition. Every transaction carries the events **and** the command cursor **and** the group's metadata:
//! the id fences at once and exactly, the metadata keeps a stale node from taking the id back again and
//! again. The offset of the claim is the term.
//!
//! **Guarantees.** What [`reenact_events::EventLog`] promises, on brokers that keep what they acknowledge
//! (`replication.factor` 3, `min.insync.replicas` 2): an acknowledged batch survives any one broker; a
//! process that lost its partition cannot append to it; a reader sees committed events only.
//!
//! **Limits.** `group.protocol=consumer` (KIP-848) needs brokers from 4.3 on. Those before compare the epoch of
//! the member, which rises when another one joins; a member for whom that changes nothing is not told, and is
//! then refused whatever it writes. No client is told the brokers' version, so that is noticed with the first
//! refused batch, whose reason names it. A recreated commands topic is noticed only while it is shorter than
//! the cursor. Which reader may see what is the brokers' affair (ACLs); on one broker nothing survives it.
//!
//! **Not here.** What an event means, and what to do when a partition is lost.
//!
//! Read in this order: [`Options`], `record`, `failure`, `writer`, `group`, `log`.

mod answers;
mod client;
mod connect;
mod examine;
mod facts;
mod failure;
mod group;
mod letters;
mod live;
mod log;
mod loss;
mod namesake;
mod options;
mod ownership;
mod producer;
mod reader;
mod record;
mod survey;
mod taken;
mod topics;
mod watch;
mod writer;

pub use connect::ConnectError;
pub use examine::{Finding, Verdict, examine};
pub use facts::{Fact, is_new, said, settled};
pub use letters::{Letter, RedriveError, letters, redrive};
pub use live::KafkaLive;
pub use log::KafkaLog;
pub use options::{Options, PropertyError};
pub use topics::Topics;
