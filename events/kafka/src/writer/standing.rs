//! Where a partition stands before it is claimed, and what of it is gone.

use rdkafka::{TopicPartitionList, consumer::Consumer, error::KafkaError};
use reenact_events::{
    BatchId, Event, LogError, Offset, Predecessor, Recorded, Term,
    event::{Loss, LossOf, PartitionClaimed, PartitionEvent},
};

use super::Writer;
use crate::{
    reader::{self, Consuming, NO_BEGINNING, number},
    record::{self, EventRecord},
};

/// What stands before the owner's term in the note that every commit of the cursor carries.
const TERM: &str = "term:";
/// The same in the note of an owner that gave the partition up in order.
const RELEASED: &str = "released:";
/// What stands before the last batch in it.
const BATCH: &str = "batch:";
/// What stands before the offset of the last event.
const LAST: &str = "last:";

/// The note of a claim, and of what follows it without a batch.
pub(super) fn claim_note(term: Term, last: Offset) -> String {
    format!("{TERM}{term} {LAST}{last}")
}

/// The note of a transaction that writes a batch.
pub(super) fn batch_note(term: Term, batch: BatchId, last: Offset) -> String {
    format!("{TERM}{term} {BATCH}{batch} {LAST}{last}")
}

/// The note of an owner that gives the partition up in order.
pub(super) fn released_note(term: Term, last: Offset) -> String {
    format!("{RELEASED}{term} {LAST}{last}")
}

/// What the group remembers of the last owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Note {
    term: Term,
    /// The last event that was written.
    last: Option<Offset>,
    is_released: bool,
}

impl Note {
    fn parse(text: &str) -> Option<Self> {
        let field = |name: &str| text.split(' ').find_map(|field| field.strip_prefix(name)?.parse().ok());
        let (released, term) = (field(RELEASED), field(TERM));
        let term = released.or(term).map(Term)?;
        Some(Self { term, last: field(LAST).map(Offset), is_released: released.is_some() })
    }

    /// Behind the last event that there was at least.
    fn end(&self) -> Offset {
        self.last.unwrap_or(Offset(self.term.0)).next()
    }
}

/// Where a partition stands before a claim.
pub(super) struct Standing {
    /// The last event, if there is any.
    pub(super) last: Option<EventRecord>,
    /// How many claims there are.
    pub(super) claims: u64,
    /// How often a loss was accepted.
    pub(super) losses: u32,
    /// The offset that the claim gets.
    pub(super) next: Offset,
    pub(super) cursor: Offset,
    pub(super) predecessor: Predecessor,
    /// What is gone, as the log itself can tell. Nobody claims before it was accepted.
    pub(super) lost: Vec<Loss>,
}

impl Writer {
    /// A reader of this partition and of the group's offsets.
    pub(super) fn inspector(&self) -> Result<Consuming, LogError> {
        let mut config = self.common.options.reader();
        config.set("group.id", &self.common.options.prefix).set("enable.partition.eof", "true");
        reader::consumer(&config, &self.common.trouble)
    }

    /// Where the group keeps the cursor.
    pub(super) fn cursor_place(&self) -> TopicPartitionList {
        let mut list = TopicPartitionList::new();
        list.add_partition(&self.common.topics.commands, number(self.partition));
        list
    }

    /// The cursor that the group has committed, once no transaction is open on it, and the owner's note.
    pub(super) fn committed(&self, inspector: &Consuming) -> Result<(Option<Offset>, String), LogError> {
        let list = self.cursor_place();
        let failed = |error: KafkaError| reader::unavailable("the group's offsets cannot be read", &error);
        let committed = reader::patiently(|| inspector.committed_offsets(list.clone(), reader::ASK)).map_err(failed)?;
        let elements = committed.elements();
        let Some(element) = elements.first() else { return Ok((None, String::new())) };
        element.error().map_err(failed)?;
        let offset = element.offset().to_raw().and_then(|offset| u64::try_from(offset).ok()).map(Offset);
        Ok((offset, element.metadata().to_owned()))
    }

    /// Looks at the group first: what its note tells is in the topic when nothing is lost.
    pub(super) fn standing(&self) -> Result<Standing, LogError> {
        let (topics, inspector) = (&self.common.topics, self.inspector()?);
        let (committed, note) = self.committed(&inspector)?;
        let note = Note::parse(&note);
        let bounds = reader::bounds(&inspector, &topics.events, self.partition)?;
        let last = reader::last(&inspector, &topics.events, self.partition, bounds)?;
        let lost_events = note.and_then(|note| self.lost_events(note, last.as_ref(), bounds.1));
        self.check_begin(bounds.0, last.is_some())?;
        let (claims, losses) = match &last {
            Some(last) => self.claim_of(&inspector, last).map(|(claim, of)| (claim.event.seq + 1, of.losses))?,
            None => (0, 0),
        };
        let journaled = last.as_ref().map_or(Offset(0), |last| last.cursor);
        let cursor = committed.map_or(journaled, |committed| committed.max(journaled));
        let commands = reader::bounds(&inspector, &topics.commands, self.partition)?;
        let lost_commands = self.lost_commands(cursor, commands.1);
        let cursor = self.passed_over(cursor.min(commands.1), commands.0);
        let term = last.as_ref().map(|last| last.recorded.term);
        let is_over = term.is_none_or(|term| note.is_some_and(|note| note.is_released && note.term == term));
        let predecessor = if is_over { Predecessor::Dead } else { Predecessor::MaybeAlive };
        let lost = lost_events.into_iter().chain(lost_commands).collect();
        Ok(Standing { last, claims, losses, next: bounds.1, cursor, predecessor, lost })
    }

    /// The claim under which an event was written.
    fn claim_of(&self, inspector: &Consuming, last: &EventRecord) -> Result<(Recorded, PartitionClaimed), LogError> {
        let at = Offset(last.recorded.term.0);
        let claim = if last.recorded.offset == at {
            last.recorded.clone()
        } else {
            let found = reader::range(inspector, &self.common.topics.events, self.partition, at, at.next())?;
            let missing = || self.damaged(at, "the claim of this term is not there");
            found.into_iter().next().ok_or_else(missing)?.recorded
        };
        let log_id = self.common.log_id;
        match claim.decode() {
            Ok(Event::Partition(PartitionEvent::Claimed(claimed))) if claimed.log_id == log_id => Ok((claim, claimed)),
            Ok(Event::Partition(PartitionEvent::Claimed(claimed))) => {
                let other = claimed.log_id;
                let what = format!("it belongs to log {other} and not to {log_id}: topics of two logs are mixed");
                Err(self.damaged(claim.offset, &what))
            }
            _ => Err(self.damaged(claim.offset, "the claim of this term is not there")),
        }
    }

    /// The group remembers the last owner's term and its last event. A log that does not have them has lost
    /// acknowledged events.
    fn lost_events(&self, note: Note, last: Option<&EventRecord>, end: Offset) -> Option<Loss> {
        let is_there =
            |last: &EventRecord| last.recorded.term >= note.term && last.recorded.offset.next() >= note.end();
        if last.is_some_and(is_there) {
            return None;
        }
        let reason = format!(
            "topic `{}`: group `{}` remembers an owner of term {} that has written events before offset {}, but the \
             topic ends at {end}: events were deleted, the topic was recreated, or an older broker was restored",
            self.common.topics.events,
            self.common.options.prefix,
            note.term,
            note.end()
        );
        let from = last.map_or(Offset(0), |last| last.recorded.offset.next());
        Some(Loss { of: LossOf::Events, from, until: note.end().max(from), reason: reason.into(), runs: Vec::new() })
    }

    /// Events are kept for ever, so a topic that does not begin at 0 has lost some. Whoever has folded them already
    /// can go on; a replay that needs them says so.
    fn check_begin(&self, low: Offset, has_events: bool) -> Result<(), LogError> {
        if low == Offset(0) {
            return Ok(());
        }
        if !has_events {
            return Err(self.damaged(
                low,
                &format!("all events before offset {low} were deleted, and none is left. {NO_BEGINNING}"),
            ));
        }
        let (topic, partition) = (&self.common.topics.events, self.partition);
        tracing::error!("EVENTS WERE DELETED: partition {partition} of topic `{topic}` begins at {low} and not at 0");
        Ok(())
    }

    fn lost_commands(&self, cursor: Offset, end: Offset) -> Option<Loss> {
        let reason = || record::commands_missing(&self.common.topics.commands, cursor, end).into();
        (cursor > end).then(|| Loss {
            of: LossOf::Commands,
            from: end,
            until: cursor,
            reason: reason(),
            runs: Vec::new(),
        })
    }

    /// Where the commands go on: those that were deleted before anybody took them are passed over.
    fn passed_over(&self, cursor: Offset, low: Offset) -> Offset {
        if cursor < low {
            record::commands_lost(&self.common.topics.commands, self.partition, cursor, low);
        }
        cursor.max(low)
    }

    fn damaged(&self, offset: Offset, what: &str) -> LogError {
        let reason = format!("topic `{}`: {what}", self.common.topics.events).into();
        LogError::Damaged { partition: self.partition, offset, reason }
    }
}

#[cfg(test)]
mod tests {
    use reenact_events::ids;

    use super::*;

    #[test]
    fn a_note_tells_what_it_was_made_of() {
        let (term, last, batch) = (Term(7), Offset(9), BatchId(ids::derived("batch", &["b"])));
        let read = |text: &str| Note::parse(text).expect("it is a note");
        let known = Note { term, last: Some(last), is_released: false };
        assert_eq!(read(&claim_note(term, last)), known);
        assert_eq!(read(&batch_note(term, batch, last)), known);
        assert_eq!(read(&released_note(term, last)), Note { is_released: true, ..known });
        assert_eq!(known.end(), Offset(10));
        for other in ["", "term:", "term:x", "something else"] {
            assert_eq!(Note::parse(other), None, "{other}");
        }
    }
}
