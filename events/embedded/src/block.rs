//! Events that were read together, on their way from the thread that reads to the task that folds.
//!
//! The texts travel in one buffer and become events only where they are used: many small allocations that are
//! made by one thread and freed by another make the two wait for each other.

use std::{mem, sync::Arc};

use reenact_events::{
    BatchId, ChainHash, CommandId, LogError, NewEvent, Offset, Recorded, RunId, StreamKey, Term, Timestamp, UserId,
};
use rusqlite::Row;
use uuid::Uuid;

use crate::record::{ABSENT, Packed, offset, partition};

/// Rows that were read and checked. Iterating makes the events.
#[derive(Default)]
pub(crate) struct Block {
    texts: String,
    rows: Vec<Packed>,
    /// How many rows, and how many bytes of `texts`, are used up.
    used: (usize, usize),
    names: Names,
}

/// Neighbours mostly share type, stream, owner and subject: those are kept and handed on.
#[derive(Default)]
struct Names {
    kinds: Vec<Arc<str>>,
    stream: Option<StreamKey>,
    owner: Option<UserId>,
    subject: Option<RunId>,
}

impl Block {
    /// Adds a row, checked.
    ///
    /// # Errors
    /// When the row is damaged; the block is then as it was.
    pub(crate) fn push(&mut self, row: &Row<'_>) -> Result<Offset, LogError> {
        let before = self.texts.len();
        match Packed::of_row(row, &mut self.texts) {
            Ok(packed) => {
                self.rows.push(packed);
                Ok(offset(packed.position))
            }
            Err(error) => {
                self.texts.truncate(before);
                Err(error)
            }
        }
    }

    /// How many rows there were.
    pub(crate) fn rows(&self) -> usize {
        self.rows.len()
    }

    /// How many bytes of text there were.
    pub(crate) fn bytes(&self) -> usize {
        self.texts.len()
    }

    /// The offset of the last row.
    pub(crate) fn last_offset(&self) -> Option<Offset> {
        self.rows.last().map(|row| offset(row.position))
    }

    /// Takes out what there is; about as much is expected next.
    pub(crate) fn take(&mut self) -> Self {
        let next = Self {
            texts: String::with_capacity(self.texts.len()),
            rows: Vec::with_capacity(self.rows.len()),
            ..Self::default()
        };
        mem::replace(self, next)
    }
}

impl Iterator for Block {
    type Item = Recorded;

    fn next(&mut self) -> Option<Recorded> {
        let (row, mut from) = self.used;
        let row = self.rows.get(row)?;
        let [kind, stream, cause, owner, subject, data] = row.lengths.map(|length| {
            let start = from;
            from += if length == ABSENT { return None } else { length as usize };
            self.texts.get(start..from)
        });
        let event = NewEvent {
            id: Uuid::from_bytes(row.id),
            kind: self.names.kind(kind.unwrap_or_default()),
            key: keep(&mut self.names.stream, stream.unwrap_or_default(), StreamKey::as_str, StreamKey::trusted),
            seq: row.seq.cast_unsigned(),
            at: Timestamp(row.at),
            cause: cause.map(CommandId::trusted),
            owner: owner.map(|text| keep(&mut self.names.owner, text, UserId::as_str, UserId::trusted)),
            subject: subject.map(|text| keep(&mut self.names.subject, text, RunId::as_str, RunId::trusted)),
            data: data.unwrap_or_default().into(),
        };
        self.used = (self.used.0 + 1, from);
        Some(Recorded {
            partition: partition(row.position),
            offset: offset(row.position),
            term: Term(row.term.cast_unsigned()),
            batch: BatchId(Uuid::from_bytes(row.batch)),
            chain: ChainHash(row.chain),
            event,
            stored: None,
        })
    }
}

impl Names {
    fn kind(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.kinds.iter().find(|known| &***known == text) {
            return known.clone();
        }
        let kind: Arc<str> = text.into();
        self.kinds.push(kind.clone());
        kind
    }
}

/// The last value again when the text is the same.
fn keep<T: Clone>(last: &mut Option<T>, text: &str, as_str: fn(&T) -> &str, parse: fn(&str) -> T) -> T {
    match last {
        Some(known) if as_str(known) == text => known.clone(),
        _ => last.insert(parse(text)).clone(),
    }
}
