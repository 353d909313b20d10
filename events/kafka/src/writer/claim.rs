//! Taking a partition: fence first, then look where the log stands, then write the claim.

use rdkafka::{TopicPartitionList, consumer::Consumer, error::KafkaError};
use reenact_events::{
    BatchId, Committed, Event, Lease, LogError, NewEvent, NodeId, Offset, Predecessor, Recorded, StreamKey, Term,
    Timestamp,
    event::{PartitionClaimed, PartitionEvent},
};
use uuid::Uuid;

use super::{REJOIN_WAIT, Writer, transact::Failed};
use crate::{
    client::Part,
    failure::{Action, Stage},
    ownership::Membership,
    producer::{Outgoing, Producer},
    reader::{self, Consuming, number},
    record::{self, EventRecord},
};

/// Somebody else's record may still get in between looking and claiming, once or twice.
const TRIES: u32 = 5;
/// What stands before the owner's term in the note that every commit of the cursor carries.
const TERM: &str = "term:";
/// What stands before the last batch in it.
const BATCH: &str = "batch:";
/// The same in the note of an owner that gave the partition up in order.
const RELEASED: &str = "released:";

/// The note of a transaction that writes a batch.
pub(super) fn note(term: Term, batch: BatchId) -> String {
    format!("{TERM}{term} {BATCH}{batch}")
}

/// Where a partition stands before a claim.
struct Standing {
    /// The last event, if there is any.
    last: Option<EventRecord>,
    /// How many claims there are.
    claims: u64,
    /// The offset that the claim gets.
    next: Offset,
    cursor: Offset,
    predecessor: Predecessor,
}

impl Writer {
    pub(super) fn claim(&mut self, node: NodeId) -> Result<Lease, LogError> {
        self.term = None;
        self.known.clear();
        self.order.clear();
        let fenced = LogError::Fenced { partition: self.partition };
        let mut trouble = String::new();
        for _ in 0..TRIES {
            let membership = self.common.ownership.membership(self.partition).ok_or(fenced.clone())?;
            self.init()?;
            let standing = self.standing()?;
            let predecessor = standing.predecessor;
            match self.write_claim(&membership, &node, standing) {
                Ok(term) => {
                    self.term = Some(term);
                    self.common.ownership.claimed(self.partition, term);
                    self.common.ownership.committed(self.partition, Offset(term.0));
                    self.common.trouble.set(Part::Partition(self.partition), None);
                    return Ok(Lease { partition: self.partition, term, node, predecessor });
                }
                Err(failed) if failed.action == Action::Denied => {
                    return Err(LogError::Unavailable { reason: failed.reason.into() });
                }
                Err(failed) => {
                    if failed.action == Action::AbortAndRejoin {
                        let newer = self.common.ownership.newer(self.partition, membership.round, REJOIN_WAIT);
                        newer.ok_or(fenced.clone())?;
                    }
                    trouble = failed.reason;
                }
            }
        }
        Err(LogError::Unavailable { reason: format!("the claim was not written: {trouble}").into() })
    }

    #[expect(clippy::disallowed_methods, reason = "a claim's nonce tells two processes apart that know the same")]
    fn write_claim(&mut self, membership: &Membership, node: &NodeId, standing: Standing) -> Result<Term, Failed> {
        let (nonce, endpoint) = (Uuid::new_v4(), self.common.options.endpoint.clone());
        let claimed = PartitionClaimed { node: node.clone(), log_id: self.common.log_id, nonce, endpoint };
        let (key, at) = (StreamKey::partition(self.partition), self.common.options.clock.now());
        let event = NewEvent::new(key, standing.claims, at, None, None, &claimed.into())
            .map_err(|error| Failed::with(Action::AbortAndReject, error.to_string()))?;
        let (term, cursor, options) = (Term(standing.next.0), standing.cursor, self.common.options.clone());
        let before = standing.last.as_ref().map(|last| last.recorded.chain).unwrap_or_default();
        let chain = before.link(&event, term);
        self.in_transaction(membership, cursor, &format!("{TERM}{term}"), |writer, producer| {
            let place = producer.send(Outgoing {
                topic: &writer.common.topics.events,
                partition: Some(number(writer.partition)),
                key: Some(event.key.record_key().as_bytes()),
                value: Some(event.data.as_bytes()),
                headers: Some(record::event_headers(&writer.source(), &event, term, BatchId(nonce), chain, cursor)),
            });
            let place = place.map_err(|error| Failed::at(Stage::Produce, &error))?;
            writer.put_owner(producer, term, node)?;
            producer.drain().map_err(|error| Failed::at(Stage::Deliver, &error))?;
            let taken_at_ms = producer.taken_at_ms(place).unwrap_or_default();
            if let Some(fault) = clock_fault(at, taken_at_ms, options.clock.now(), options.clock_skew_max_ms) {
                return Err(Failed::with(Action::Denied, fault));
            }
            match producer.offset(place) {
                Some(offset) if offset == term.0 => Ok(()),
                offset => Err(Failed::with(
                    Action::AbortAndResend,
                    format!("the claim stands at {offset:?} and not at {term}: somebody else wrote"),
                )),
            }
        })?;
        let offset = Offset(term.0);
        (self.next, self.chain, self.cursor) = (offset.next(), chain, cursor);
        self.known.insert(BatchId(nonce), Committed { offsets: vec![offset], chain: vec![chain] });
        Ok(term)
    }

    fn put_owner(&self, producer: &mut Producer, term: Term, node: &NodeId) -> Result<(), Failed> {
        let endpoint = &self.common.options.endpoint;
        let owner = serde_json::json!({
            "partition": self.partition, "term": term, "node": node, "endpoint": endpoint,
        });
        let sent = producer.send(Outgoing {
            topic: &self.common.topics.owners,
            partition: Some(0),
            key: Some(format!("partition:{}", self.partition).as_bytes()),
            value: Some(owner.to_string().as_bytes()),
            headers: None,
        });
        sent.map(drop).map_err(|error| Failed::at(Stage::Produce, &error))
    }

    /// A reader of this partition and of the group's offsets.
    pub(super) fn inspector(&self) -> Result<Consuming, LogError> {
        let mut config = self.common.options.reader();
        config.set("group.id", &self.common.options.prefix).set("enable.partition.eof", "true");
        reader::consumer(&config, &self.common.trouble)
    }

    /// The cursor that the group has committed, once no transaction is open on it, and the owner's note.
    pub(super) fn committed(&self, inspector: &Consuming) -> Result<(Option<Offset>, String), LogError> {
        let mut list = TopicPartitionList::new();
        list.add_partition(&self.common.topics.commands, number(self.partition));
        let failed = |error: KafkaError| reader::unavailable("the group's offsets cannot be read", &error);
        let committed = reader::patiently(|| inspector.committed_offsets(list.clone(), reader::ASK)).map_err(failed)?;
        let elements = committed.elements();
        let Some(element) = elements.first() else { return Ok((None, String::new())) };
        element.error().map_err(failed)?;
        let offset = element.offset().to_raw().and_then(|offset| u64::try_from(offset).ok()).map(Offset);
        Ok((offset, element.metadata().to_owned()))
    }

    fn standing(&self) -> Result<Standing, LogError> {
        let (topics, inspector) = (&self.common.topics, self.inspector()?);
        let bounds = reader::bounds(&inspector, &topics.events, self.partition)?;
        let last = reader::last(&inspector, &topics.events, self.partition, bounds)?;
        let (committed, note) = self.committed(&inspector)?;
        let term = last.as_ref().map(|last| last.recorded.term);
        self.check_note(&note, term, bounds.1)?;
        self.check_begin(bounds.0, last.is_some())?;
        let claims = match &last {
            Some(last) => self.claim_of(&inspector, last)?.event.seq + 1,
            None => 0,
        };
        let journaled = last.as_ref().map_or(Offset(0), |last| last.cursor);
        let cursor = committed.map_or(journaled, |committed| committed.max(journaled));
        let cursor = self.check_cursor(cursor, reader::bounds(&inspector, &topics.commands, self.partition)?)?;
        let is_over = term.is_none_or(|term| note == format!("{RELEASED}{term}"));
        let predecessor = if is_over { Predecessor::Dead } else { Predecessor::MaybeAlive };
        Ok(Standing { last, claims, next: bounds.1, cursor, predecessor })
    }

    /// The claim under which an event was written.
    fn claim_of(&self, inspector: &Consuming, last: &EventRecord) -> Result<Recorded, LogError> {
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
            Ok(Event::Partition(PartitionEvent::Claimed(claimed))) if claimed.log_id == log_id => Ok(claim),
            Ok(Event::Partition(PartitionEvent::Claimed(claimed))) => {
                let other = claimed.log_id;
                let what = format!("it belongs to log {other} and not to {log_id}: topics of two logs are mixed");
                Err(self.damaged(claim.offset, &what))
            }
            _ => Err(self.damaged(claim.offset, "the claim of this term is not there")),
        }
    }

    /// The group remembers the last owner's term. A log that does not have it has lost acknowledged events.
    fn check_note(&self, note: &str, term: Option<Term>, end: Offset) -> Result<(), LogError> {
        let noted = note.strip_prefix(TERM).or_else(|| note.strip_prefix(RELEASED));
        let noted = noted.and_then(|noted| noted.split(' ').next()?.parse().ok());
        let Some(noted) = noted.map(Term).filter(|noted| term.is_none_or(|term| term < *noted)) else { return Ok(()) };
        let what = format!(
            "group `{}` remembers an owner of term {noted}, but the topic ends at {end}: events were deleted, the \
             topic was recreated, or an older broker was restored",
            self.common.options.prefix
        );
        Err(self.damaged(Offset(noted.0), &what))
    }

    /// Events are kept for ever, so a topic that does not begin at 0 has lost some. Whoever has folded them already
    /// can go on; a replay that needs them says so.
    fn check_begin(&self, low: Offset, has_events: bool) -> Result<(), LogError> {
        if low == Offset(0) {
            return Ok(());
        }
        if !has_events {
            return Err(self.damaged(low, &format!("all events before offset {low} were deleted, and none is left")));
        }
        let (topic, partition) = (&self.common.topics.events, self.partition);
        tracing::error!("EVENTS WERE DELETED: partition {partition} of topic `{topic}` begins at {low} and not at 0");
        Ok(())
    }

    /// Where the commands go on.
    fn check_cursor(&self, cursor: Offset, (low, end): (Offset, Offset)) -> Result<Offset, LogError> {
        let (topic, partition) = (&self.common.topics.commands, self.partition);
        if cursor > end {
            return Err(record::commands_missing(topic, partition, cursor, end));
        }
        if cursor < low {
            record::commands_lost(topic, partition, cursor, low);
        }
        Ok(cursor.max(low))
    }

    fn damaged(&self, offset: Offset, what: &str) -> LogError {
        let reason = format!("topic `{}`: {what}", self.common.topics.events).into();
        LogError::Damaged { partition: self.partition, offset, reason }
    }

    /// Tells the next owner that nothing of this one goes on.
    pub(super) fn release(&mut self) {
        let (Some(term), Some(membership)) = (self.term.take(), self.common.ownership.membership(self.partition))
        else {
            return;
        };
        if self.producer.is_none() && self.init().is_err() {
            return;
        }
        let cursor = self.cursor;
        let told = self.in_transaction(&membership, cursor, &format!("{RELEASED}{term}"), |_, _| Ok(()));
        if let Err(failed) = told {
            tracing::warn!(partition = self.partition.0, reason = failed.reason, "the next owner was not told");
        }
        self.producer = None;
    }
}

/// What is wrong with this machine's clock, if the broker took a record at a moment that is not between the
/// two that this machine saw before and after.
fn clock_fault(before: Timestamp, broker_ms: i64, after: Timestamp, max_ms: Option<i64>) -> Option<String> {
    let (ahead, behind) = (before.0.saturating_sub(broker_ms), broker_ms.saturating_sub(after.0));
    let (off_ms, where_to) = if ahead > behind { (ahead, "ahead of") } else { (behind, "behind") };
    (off_ms > max_ms?).then(|| {
        format!(
            "this machine's clock is {off_ms} ms {where_to} the Kafka broker's, at most {} ms are allowed: set both by \
             NTP; the node goes on by itself then",
            max_ms.unwrap_or_default()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_off_is_told_with_how_much_and_which_way() {
        let fault = |before, broker, after| clock_fault(Timestamp(before), broker, Timestamp(after), Some(500));
        assert_eq!(fault(1_000, 1_003, 1_006), None);
        assert_eq!(fault(1_000, 1_506, 1_006), None, "just within");
        assert!(fault(9_000, 1_000, 9_006).is_some_and(|fault| fault.contains("8000 ms ahead of")));
        assert!(fault(1_000, 9_006, 1_006).is_some_and(|fault| fault.contains("8000 ms behind")));
        assert_eq!(clock_fault(Timestamp(0), 9_000, Timestamp(0), None), None);
    }
}
