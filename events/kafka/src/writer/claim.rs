//! Taking a partition: fence first, then look where the log stands, then write the claim.

use reenact_events::{
    BatchId, Committed, DeadLetter, Lease, LogError, NewEvent, NodeId, Offset, StreamKey, Term, Timestamp,
    event::{Loss, LossOf, PartitionClaimed},
};
use uuid::Uuid;

use super::{
    REJOIN_WAIT, Writer,
    standing::{Standing, claim_note, released_note},
    transact::Failed,
};
use crate::{
    client::Part,
    failure::{Action, Stage},
    ownership::Membership,
    producer::{Outgoing, Producer},
    reader::{self, number},
    record,
};

/// Somebody else's record may still get in between looking and claiming, once or twice.
const TRIES: u32 = 5;
/// The claim is the first record of its transaction.
const CLAIM: usize = 0;
/// Commands that are put among the dead letters in one transaction.
const LETTERS_MAX: u64 = 5_000;

/// What is accepted to be lost.
#[derive(Debug, Clone, Default)]
pub(crate) struct Accept {
    /// What the log itself had told. When it tells something else by then, nothing is accepted.
    pub(crate) told: Vec<Loss>,
    /// What somebody else has seen who knows more than the log.
    pub(crate) seen: Vec<Loss>,
}

impl Writer {
    /// Takes the partition. What is gone of it keeps it from being taken, unless that is accepted.
    pub(super) fn claim(&mut self, node: NodeId, accept: Option<&Accept>) -> Result<Lease, LogError> {
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
            let accepts = match accept {
                Some(accept) => accept.check(&standing.lost)?,
                None => self.refuse_losses(&standing.lost)?,
            };
            match self.write_claim(&membership, &node, standing, accepts) {
                Ok((term, losses)) => {
                    self.term = Some(term);
                    self.common.ownership.claimed(self.partition, term);
                    self.common.trouble.set(Part::Partition(self.partition), None);
                    return Ok(Lease { partition: self.partition, term, node, predecessor, losses });
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
    fn write_claim(
        &mut self,
        membership: &Membership,
        node: &NodeId,
        standing: Standing,
        accepts: Vec<Loss>,
    ) -> Result<(Term, u32), Failed> {
        let (nonce, endpoint) = (Uuid::new_v4(), self.common.options.endpoint.clone());
        let (letters, cursor) = self.uncertain_commands(&standing, &accepts)?;
        let is_over = !accepts.is_empty();
        let claimed = PartitionClaimed { endpoint, ..PartitionClaimed::new(node.clone(), self.common.log_id, nonce) }
            .after(standing.losses, accepts);
        let (key, at) = (StreamKey::partition(self.partition), self.common.options.clock.now());
        let (term, losses) = (Term(standing.next.0), claimed.losses);
        let event = NewEvent::new(key, standing.claims, at, None, None, &claimed.into())
            .map_err(|error| Failed::with(Action::AbortAndReject, error.to_string()))?;
        let before = standing.last.as_ref().map(|last| last.recorded.chain).unwrap_or_default();
        let chain = before.link(&event, term);
        let offset = Offset(term.0);
        // Whoever accepts a loss does nothing else.
        let note = if is_over { released_note(term, offset) } else { claim_note(term, offset) };
        self.in_transaction(
            membership,
            (cursor, &note),
            |writer, producer| {
                let claim = producer.send(Outgoing {
                    topic: &writer.common.topics.events,
                    partition: Some(number(writer.partition)),
                    key: Some(event.key.record_key().as_bytes()),
                    value: Some(event.data.as_bytes()),
                    headers: Some(record::event_headers(&writer.source(), &event, term, BatchId(nonce), chain, cursor)),
                });
                claim.map_err(|error| Failed::at(Stage::Produce, &error))?;
                writer.put_owner(producer, term, node)?;
                writer.put_letters(producer, &letters)
            },
            |writer, producer| writer.check_claim(producer, term, at),
        )?;
        self.confirm(offset)?;
        (self.next, self.chain, self.cursor) = (offset.next(), chain, cursor);
        self.known.insert(BatchId(nonce), Committed { offsets: vec![offset], chain: vec![chain] });
        Ok((term, losses))
    }

    /// Whether the claim stands where it says, and was written by a clock that the others can trust.
    fn check_claim(&self, producer: &Producer, term: Term, at: Timestamp) -> Result<(), Failed> {
        let (options, taken_at_ms) = (&self.common.options, producer.taken_at_ms(CLAIM).unwrap_or_default());
        if let Some(fault) = clock_fault(at, taken_at_ms, options.clock.now(), options.clock_skew_max_ms) {
            return Err(Failed::with(Action::Denied, fault));
        }
        match producer.offset(CLAIM) {
            Some(offset) if offset == term.0 => Ok(()),
            offset => Err(Failed::with(
                Action::AbortAndResend,
                format!("the claim stands at {offset:?} and not at {term}: somebody else wrote"),
            )),
        }
    }

    /// What is gone keeps everybody from claiming: going on would do again what was done.
    fn refuse_losses(&self, lost: &[Loss]) -> Result<Vec<Loss>, LogError> {
        let Some(loss) = lost.first() else { return Ok(Vec::new()) };
        let (partition, offset) = (self.partition, loss.from);
        let reason =
            format!("{} (`reenact log accept-loss --partition {partition}` goes on without them)", loss.reason);
        Err(LogError::Damaged { partition, offset, reason: reason.into() })
    }

    /// Where the commands go on, and those before that become dead letters. When it was not the group that knew of
    /// the lost events, it may have lost its cursor with them: what waits now may have been taken before.
    fn uncertain_commands(&self, standing: &Standing, accepts: &[Loss]) -> Result<(Vec<DeadLetter>, Offset), Failed> {
        let of_events = |loss: &&Loss| loss.of == LossOf::Events;
        if standing.lost.iter().any(|loss| of_events(&loss)) || !accepts.iter().any(|loss| of_events(&loss)) {
            return Ok((Vec::new(), standing.cursor));
        }
        let denied = |error: LogError| Failed::with(Action::Denied, error.to_string());
        let (topic, inspector) = (&self.common.topics.commands, self.inspector().map_err(denied)?);
        let (_, end) = reader::bounds(&inspector, topic, self.partition).map_err(denied)?;
        if end.0 - standing.cursor.0 > LETTERS_MAX {
            let reason = format!("more than {LETTERS_MAX} commands wait in partition {}", self.partition);
            return Err(Failed::with(Action::Denied, reason));
        }
        let waiting = reader::messages(&inspector, topic, self.partition, (standing.cursor, end)).map_err(denied)?;
        let letters = waiting.iter().map(|message| {
            let reason = "events were lost, and this command may have been taken before";
            record::letter(message, "history_lost", reason)
        });
        Ok((letters.collect(), end))
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

    /// Tells the next owner that nothing of this one goes on.
    pub(super) fn release(&mut self) {
        let (Some(term), Some(membership)) = (self.term.take(), self.common.ownership.membership(self.partition))
        else {
            return;
        };
        if self.producer.is_none() && self.init().is_err() {
            return;
        }
        let (cursor, last) = (self.cursor, self.last());
        let told = self.in_transaction(&membership, (cursor, &released_note(term, last)), |_, _| Ok(()), |_, _| Ok(()));
        if let Err(failed) = told {
            tracing::warn!(partition = self.partition.0, reason = failed.reason, "the next owner was not told");
        }
        self.producer = None;
    }
}

impl Accept {
    /// What is accepted, if the log still tells what it had told.
    fn check(&self, lost: &[Loss]) -> Result<Vec<Loss>, LogError> {
        if !lost.iter().cloned().eq(self.told.iter().map(Loss::unnamed)) {
            let reason = "what is lost is not what was told any more: look at it again".into();
            return Err(LogError::Unavailable { reason });
        }
        Ok(self.told.iter().chain(&self.seen).cloned().collect())
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
