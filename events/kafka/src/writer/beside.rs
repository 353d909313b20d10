//! What a batch puts beside its events: commands that are sent on, answers, dead letters.
//!
//! Where the brokers lose the marker of a committed transaction there ([`undecided`](super::undecided)), nobody can
//! read it, nor anything that comes behind it in that partition. The next end of a transaction of the same id decides
//! it; where none comes by itself, the same is put once more and committed: a command that comes twice takes effect
//! once, and an answer that comes twice says the same. Nobody waits for this: other owners' transactions stand in
//! those partitions too, so only one that nobody can have open any more tells of a lost marker.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use reenact_events::{Batch, Committed, Offset, PartitionId};

use super::{Writer, transact::Failed, undecided::END_WAIT};
use crate::reader;

/// No transaction is open for longer: the brokers abort it after ten seconds.
const OPEN_MAX: Duration = Duration::from_secs(15);

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
        let what = Arc::new((Batch { events: Vec::new(), ..batch.clone() }, planned.clone()));
        for (place, last) in places {
            let put = Beside { last, since: Instant::now(), what: what.clone(), is_gone: false };
            self.beside.insert(place, put);
        }
    }

    /// What hung in any place was aborted.
    pub(super) fn beside_is_gone(&mut self) {
        self.beside.values_mut().for_each(|put| put.is_gone = true);
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
                hanging = Some((place.clone(), put.what.clone()));
            }
            !is_read
        });
        let Some(((topic, partition), what)) = hanging else { return };
        tracing::warn!(
            topic,
            partition,
            "what a batch put there is left undecided by the brokers: it is put once more"
        );
        if self.ready(term).is_some() {
            return;
        }
        match self.put_once_more(&what.0, &what.1) {
            Ok(places) => self.put_beside(places, &what.0, &what.1),
            Err(failed) => tracing::warn!(reason = failed.reason, "it could not be put once more now"),
        }
    }

    fn put_once_more(&mut self, batch: &Batch, planned: &Committed) -> Result<Vec<(Place, Offset)>, Failed> {
        let Some(membership) = self.common.ownership.membership(self.partition) else { return Ok(Vec::new()) };
        let (cursor, note, mut places) = (self.cursor, self.note.clone(), Vec::new());
        self.in_transaction(
            &membership,
            (cursor, &note),
            |writer, producer| {
                writer.put_commands(producer, batch)?;
                writer.put_answers(producer, batch, planned)
            },
            |writer, producer| {
                places = producer.ends_outside(&writer.common.topics.events);
                Ok(())
            },
        )?;
        Ok(places)
    }
}
