//! What happened: the vocabulary that every other room speaks.
//!
//! A *command* asks, an *event* states a fact, an *envelope* says where in the log the fact stands. The
//! [`EventLog`] contract is the only door to durable truth; [`MemoryLog`] implements it with faults that a
//! test can inject.
//!
//! **Guarantees.** Events are append-only and versioned: a stored byte is never rewritten, [`upcast`] lifts
//! old shapes at read, and golden files pin every `(type, version)`. Nothing in this crate reads a clock,
//! a disk, a socket or a random source: time and ids are arguments.
//!
//! **Not here.** Deciding (`actors`), storing on disk (`events/embedded`), adding up (`projections`).
//!
//! Read in this order: [`ids`], [`event`], [`envelope`], [`log`], [`invariants`].

pub mod agent;
pub mod answer;
pub mod chain;
pub mod clock;
pub mod command;
pub mod content;
pub mod envelope;
pub mod erased;
pub mod event;
pub mod hold;
pub mod ids;
pub mod invariants;
pub mod keys;
pub mod live;
pub mod log;
pub mod memory_log;
pub mod moves;
pub mod output;
pub mod schedule;
pub mod session_state;
pub mod token;
pub mod upcast;
pub mod wire;

pub use answer::{Answer, DeadLetter, NewAnswer, Outcome, ReplyTo};
pub use chain::ChainHash;
pub use clock::{Clock, Timestamp};
pub use command::{Command, CommandBody, Forward};
pub use content::{BlobError, BlobRef, Blobs, IsReferenced, MediaKind, MediaRef, RawJson, Text};
pub use envelope::{NewEvent, Recorded};
pub use event::{Event, RunEvent, ScheduleEvent, SessionEvent};
pub use ids::{
    AgentId, BatchId, CommandId, LogId, NodeId, Offset, PartitionId, RunId, ScheduleId, SessionId, StepToken,
    StreamKey, Term, UserId,
};
pub use live::LiveBus;
pub use log::{
    Arrival, Batch, CommandRecord, CommitOutcome, Committed, EventLog, Lease, LogError, Owner, Ownership, Predecessor,
    Released,
};
pub use memory_log::MemoryLog;
pub use token::Token;
