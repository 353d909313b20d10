//! How far a view has come, and what may be folded next.
//!
//! | the next batch | answer |
//! |---|---|
//! | begins at or after the position and its chain continues the position's | the position behind it |
//! | begins before the position | [`ViewError::Overtaken`] |
//! | does not continue the chain | [`ViewError::Diverged`] |

use reenact_events::{ChainHash, Offset, PartitionId, Recorded, Term};

use crate::ViewError;

/// The moment of a partition that the rows stand for: everything before `next_offset`, nothing after.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// Which partition.
    pub partition: PartitionId,
    /// The first offset that is not in the rows.
    pub next_offset: Offset,
    /// The term of the last event in the rows.
    pub term: Term,
    /// The chain after the last event in the rows.
    pub chain: ChainHash,
}

impl Position {
    /// Before the first event.
    #[must_use]
    pub fn start(partition: PartitionId) -> Self {
        Self { partition, next_offset: Offset(0), term: Term(0), chain: ChainHash::default() }
    }

    /// The position behind an event.
    pub(crate) fn behind(recorded: &Recorded) -> Self {
        let Recorded { partition, offset, term, chain, .. } = *recorded;
        Self { partition, next_offset: offset.next(), term, chain }
    }

    /// The position after `batch`, if the batch continues this one.
    ///
    /// # Errors
    /// [`ViewError::Overtaken`] when an event is in the rows already, [`ViewError::Diverged`] when one does
    /// not follow from the one before it.
    pub fn after(self, batch: &[Recorded]) -> Result<Self, ViewError> {
        batch.iter().try_fold(self, |position, recorded| {
            let partition = position.partition;
            if recorded.offset < position.next_offset {
                return Err(ViewError::Overtaken { partition, expected: position.next_offset });
            }
            if recorded.partition != partition || !recorded.follows(position.chain) {
                return Err(ViewError::Diverged { partition, offset: recorded.offset });
            }
            Ok(Self::behind(recorded))
        })
    }
}

/// How far catching up has come.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress {
    /// Which partition.
    pub partition: PartitionId,
    /// The first offset that is not in the rows.
    pub position: Offset,
    /// The offset that the log's next event will at least have, as last known. Offsets have gaps, so a
    /// view that has caught up may stay a little below it.
    pub end: Offset,
    /// Events folded since following began.
    pub events: u64,
    /// Events a second since following began.
    pub events_per_s: f64,
}

#[cfg(test)]
mod tests {
    use reenact_events::{BatchId, Event, NewEvent, RunId, SessionId, StreamKey, Timestamp, event::RunStarted};

    use super::*;

    /// Three events at offsets 2, 4 and 6.
    fn events() -> Vec<Recorded> {
        let key = StreamKey::session(&SessionId::trusted("s"));
        let mut chain = ChainHash::default();
        let mut record = |seq: u64| {
            let event = Event::from(RunStarted { run_id: RunId::trusted("r") });
            let event = NewEvent::new(key.clone(), seq, Timestamp(0), None, None, &event).expect("encodes");
            chain = chain.link(&event, Term(1));
            let offset = Offset(2 + 2 * seq);
            Recorded {
                partition: PartitionId(0),
                offset,
                term: Term(1),
                batch: BatchId::default(),
                chain,
                event,
                stored: None,
            }
        };
        (0..3).map(&mut record).collect()
    }

    #[test]
    fn gaps_between_offsets_are_no_gaps_in_what_happened() {
        let events = events();
        let half = Position::start(PartitionId(0)).after(&events[..2]).expect("follows");
        assert_eq!((half.next_offset, half.term), (Offset(5), Term(1)));
        let end = half.after(&events[2..]).expect("follows");
        assert_eq!((end.next_offset, end.chain), (Offset(7), events[2].chain));
    }

    #[test]
    fn what_was_folded_already_is_refused() {
        let events = events();
        let half = Position::start(PartitionId(0)).after(&events[..2]).expect("follows");
        assert!(matches!(half.after(&events[1..]), Err(ViewError::Overtaken { expected: Offset(5), .. })));
    }

    #[test]
    fn a_left_out_changed_or_foreign_event_diverges() {
        let events = events();
        let half = Position::start(PartitionId(0)).after(&events[..1]).expect("follows");
        assert!(matches!(half.after(&events[2..]), Err(ViewError::Diverged { offset: Offset(6), .. })));
        let mut changed = events.clone();
        changed[1].event.data = r#"{"run_id":"another"}"#.into();
        assert!(matches!(half.after(&changed[1..]), Err(ViewError::Diverged { offset: Offset(4), .. })));
        let mut foreign = events;
        foreign[1].partition = PartitionId(1);
        assert!(matches!(half.after(&foreign[1..]), Err(ViewError::Diverged { .. })));
    }
}
