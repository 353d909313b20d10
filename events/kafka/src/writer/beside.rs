//! What a batch puts beside its events: commands that are sent on, answers, dead letters.
//!
//! Where the brokers lose the marker of a committed transaction there ([`undecided`](super::undecided)), nobody can
//! read it, nor anything that comes behind it in that partition. The next end of a transaction of the same id decides
//! it; where none comes by itself, one is made with a record that says nothing, or with the same answers once more. What
//! was aborted with it is put once more: a command that comes twice takes effect once. Nobody waits for this: other
//! owners' transactions stand in those partitions too, so only one that nobody can have open any more tells of a lost
//! marker.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use reenact_events::{Batch, Committed, Forward, Offset, PartitionId};

use super::{Writer, transact::Failed, undecided::END_WAIT};
use crate::{
    failure::Stage,
    producer::Outgoing,
    reader::{self, number},
    record,
};

/// No transaction is open for longer: the brokers abort it after ten seconds.
const OPEN_MAX: Duration = Duration::from_secs(12);

/// Topic and partition.
pub(super) type Place = (String, i32);

/// The last thing that was put somewhere: what came before it is decided with it.
pub(super) struct Beside {
    last: Offset,
    since: Instant,
    what: Arc<(Batch, Committed)>,
    /// It was aborted with what hung.
    is_gone: bool,
}

impl Writer {
    /// Remembers what a committed transaction has put in these places.
    pub(super) fn put_beside(&mut self, places: Vec<(Place, Offset)>, batch: &Batch, planned: &Committed) {
        if places.is_empty() {
            return;
        }
        let (forwards, answers, dead_letters) =
            (batch.forwards.clone(), batch.answers.clone(), batch.dead_letters.clone());
        let part = Batch { forwards, answers, dead_letters, ..Batch::new(batch.id, Vec::new()) };
        let what = Arc::new((part, planned.clone()));
        for (place, last) in places {
            let put = Beside { last, since: Instant::now(), what: what.clone(), is_gone: false };
            self.beside.insert(place, put);
        }
    }

    /// What hung in these places was aborted.
    pub(super) fn beside_is_gone(&mut self, places: &[Place]) {
        for place in places {
            if let Some(put) = self.beside.get_mut(place) {
                put.is_gone = true;
            }
        }
    }

    /// Puts once more what cannot be read though it was committed.
    pub(super) fn see_to_beside(&mut self) {
        let Some(term) = self.term else { return self.beside.clear() };
        let (observer, mut hanging) = (self.common.observer.clone(), None);
        self.beside.retain(|place, put| {
            if !put.is_gone && put.since.elapsed() < OPEN_MAX {
                return true;
            }
            let (topic, partition) = (&place.0, PartitionId(place.1.unsigned_abs()));
            let is_decided = || reader::end(&observer, topic, partition, END_WAIT).map(|decided| decided > put.last);
            // Brokers that do not answer are asked the next time.
            let is_read = !put.is_gone && is_decided().unwrap_or(false);
            if !is_read {
                put.since = Instant::now();
                hanging = Some((place.clone(), put.what.clone(), put.is_gone));
            }
            !is_read
        });
        let Some((place, what, is_gone)) = hanging else { return };
        let (topic, partition) = (&place.0, place.1);
        tracing::warn!(topic, partition, is_gone, "what a batch put there cannot be read: it is seen to");
        if self.ready(term).is_some() {
            return;
        }
        let again = self.part_of(&what.0, &place, is_gone);
        match self.put_once_more(&place, &again, &what.1) {
            Ok(places) => self.put_beside(places, &again, &what.1),
            Err(failed) => tracing::warn!(reason = failed.reason, "it could not be seen to now"),
        }
    }

    /// What is put there once more: answers may be told twice, anything else is where it was unless it was aborted.
    fn part_of(&self, batch: &Batch, (topic, partition): &Place, is_gone: bool) -> Batch {
        let (mut part, topics) = (Batch::new(batch.id, Vec::new()), &self.common.topics);
        if *topic == topics.replies {
            part.answers.clone_from(&batch.answers);
        } else if is_gone && *topic == topics.commands {
            let is_there = |forward: &&Forward| number(forward.partition) == *partition;
            part.forwards = batch.forwards.iter().filter(is_there).cloned().collect();
        } else if is_gone {
            part.dead_letters.clone_from(&batch.dead_letters);
        }
        part
    }

    fn put_once_more(
        &mut self,
        (topic, partition): &Place,
        part: &Batch,
        planned: &Committed,
    ) -> Result<Vec<(Place, Offset)>, Failed> {
        let Some(membership) = self.common.ownership.membership(self.partition) else { return Ok(Vec::new()) };
        let (cursor, note, mut places) = (self.cursor, self.note.clone(), Vec::new());
        self.in_transaction(
            &membership,
            (cursor, &note),
            |writer, producer| {
                let headers = Some(record::nothing());
                let nothing = Outgoing { topic, partition: Some(*partition), key: None, value: None, headers };
                if *topic != writer.common.topics.replies {
                    producer.send(nothing).map_err(|error| Failed::at(Stage::Produce, &error))?;
                }
                writer.put_commands(producer, part)?;
                writer.put_answers(producer, part, planned)
            },
            |writer, producer| {
                places = producer.ends_outside(&writer.common.topics.events);
                Ok(())
            },
        )?;
        Ok(places)
    }
}
