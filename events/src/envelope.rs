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

/// How a payload begins that has its owner's content sealed in it: everything else in it may stay readable.
pub const SEALED: &str = "{\"sealed\":\"";

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

    /// What the payload begins with when its owner's content is sealed in it, and what of it is left to whoever has no
    /// key: the rest of a JSON object.
    #[must_use]
    pub fn sealed(&self) -> Option<(&str, &str)> {
        self.data.strip_prefix(SEALED)?.split_once("\",")
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
    /// The payload as it is stored, where that is not what `event` has: it was sealed, and the chain is over it.
    pub stored: Option<Arc<str>>,
}

impl Recorded {
    /// Whether it follows on what had this chain.
    #[must_use]
    pub fn follows(&self, before: ChainHash) -> bool {
        self.chain == self.link(before)
    }

    /// The chain that it has if it follows on what had this one.
    #[must_use]
    pub fn link(&self, before: ChainHash) -> ChainHash {
        match &self.stored {
            None => before.link(&self.event, self.term),
            Some(stored) => before.link(&NewEvent { data: stored.clone(), ..self.event.clone() }, self.term),
        }
    }

    /// The fact, in its current shape.
    ///
    /// # Errors
    /// When the type is unknown, or the payload is sealed or cannot be read.
    pub fn decode(&self) -> Result<Event, DecodeError> {
        if self.event.sealed().is_some() {
            return Err(DecodeError::Sealed);
        }
        upcast::decode(&self.event.kind, &self.event.data)
    }
}
