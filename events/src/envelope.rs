//! An event with its place: what is written (`NewEvent`) and what is read back (`Recorded`).
//!
//! The fields are CloudEvents 1.0 attributes in binary mode (`ce_id`, `ce_type`, `ce_time`, `ce_subject`,
//! `ce_partitionkey`) plus our extensions (`ce_rseq`, `ce_rterm`, `ce_rbatch`, `ce_rcause`, `ce_rowner`,
//! `ce_rchain`); each log stores them in its own way.

use std::sync::Arc;

use uuid::Uuid;

use crate::{
    BatchId, ChainHash, CommandId, Event, Offset, PartitionId, RunId, StreamKey, Term, Timestamp, UserId,
    event::DecodeError, ids, upcast,
};

/// An event to be committed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewEvent {
    /// Follows from stream and sequence.
    pub id: Uuid,
    /// The versioned type.
    pub kind: Arc<str>,
    /// The stream.
    pub key: StreamKey,
    /// Place in the stream, from 0, without gaps.
    pub seq: u64,
    /// When it was decided.
    pub at: Timestamp,
    /// The command that made it.
    pub cause: Option<CommandId>,
    /// Whose it is.
    pub owner: Option<UserId>,
    /// The run it is about.
    pub subject: Option<RunId>,
    /// The payload, JSON.
    pub data: Arc<str>,
}

impl NewEvent {
    /// Puts `event` at `seq` in the stream `key`.
    ///
    /// # Errors
    /// When the payload cannot be written as JSON.
    pub fn new(
        key: StreamKey,
        seq: u64,
        at: Timestamp,
        cause: Option<CommandId>,
        owner: Option<UserId>,
        event: &Event,
    ) -> Result<Self, serde_json::Error> {
        let subject = match event {
            Event::Run(run) => Some(run.run_id().clone()),
            _ => None,
        };
        Ok(Self {
            id: ids::derived("event", &[key.as_str(), &seq.to_string()]),
            kind: event.type_name().into(),
            key,
            seq,
            at,
            cause,
            owner,
            subject,
            data: event.encode()?.into(),
        })
    }
}

/// A committed event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recorded {
    /// Where it stands.
    pub partition: PartitionId,
    /// Where it stands in the partition.
    pub offset: Offset,
    /// Under which ownership it was written.
    pub term: Term,
    /// With which commit it came.
    pub batch: BatchId,
    /// The chain up to and with this event.
    pub chain: ChainHash,
    /// What was written.
    pub event: NewEvent,
}

impl Recorded {
    /// The fact, in its current shape.
    ///
    /// # Errors
    /// When the type is unknown or the payload cannot be read.
    pub fn decode(&self) -> Result<Event, DecodeError> {
        upcast::decode(&self.event.kind, &self.event.data)
    }
}
