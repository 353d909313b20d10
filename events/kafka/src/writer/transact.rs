//! One transaction: events, forwards, dead letters, answers and the cursor, all or nothing.

use std::time::{Duration, Instant};

use rdkafka::{TopicPartitionList, error::KafkaError};
use reenact_events::{Batch, Committed, DeadLetter, Offset, Term, wire};

use super::{Writer, standing::batch_note};
use crate::{
    failure::{Action, Facets, Stage, action, poisons},
    ownership::Membership,
    producer::{Outgoing, Producer},
    reader::{self, number},
    record,
};

/// How long one try to put the cursor into the transaction may take.
const OFFSETS_WAIT: Duration = Duration::from_secs(5);
/// When a transaction is given up: the broker ends it after ten seconds, so more tries only keep its owner waiting.
pub(super) const TRANSACTION_TIME: Duration = Duration::from_secs(8);
/// How often the end of a transaction is asked for before its outcome counts as unknown.
const COMMIT_TRIES: u32 = 3;

/// Why a transaction did not commit.
#[derive(Debug)]
pub(super) struct Failed {
    pub(super) action: Action,
    pub(super) reason: String,
    /// The event that is at fault, by place in the batch.
    pub(super) event: Option<usize>,
    poisoned: bool,
}

impl Failed {
    pub(super) fn at(stage: Stage, error: &KafkaError) -> Self {
        let facets = Facets::of(error);
        let reason = format!("{error} ({stage:?})");
        Self { action: action(stage, facets), reason, event: None, poisoned: poisons(facets.code) }
    }

    pub(super) fn with(action: Action, reason: String) -> Self {
        Self { action, reason, event: None, poisoned: false }
    }
}

impl Writer {
    /// Writes the batch in one transaction under this membership.
    ///
    /// Nobody else appends, so it is known beforehand where the events will stand. So the records, the answers that
    /// name those places and the cursor travel together; if the events come to stand elsewhere, all is aborted.
    pub(super) fn transact(&mut self, membership: &Membership, term: Term, batch: &Batch) -> Result<Committed, Failed> {
        let cursor = batch.next_command.map_or(self.cursor, |next| self.cursor.max(next));
        let planned = self.planned(term, batch)?;
        let last = planned.offsets.last().copied();
        let note = batch_note(term, batch.id, last.unwrap_or(self.last()));
        let mut beside = Vec::new();
        self.in_transaction(
            membership,
            (cursor, &note),
            |writer, producer| writer.put(producer, term, batch, (cursor, &planned)),
            |writer, producer| {
                beside = producer.ends_outside(&writer.common.topics.events);
                writer.check_places(producer, &planned)
            },
        )?;
        self.put_beside(beside, batch, &planned);
        if let Some(last) = last {
            self.confirm(last)?;
        }
        Ok(planned)
    }

    /// Where the events of the batch will stand.
    fn planned(&mut self, term: Term, batch: &Batch) -> Result<Committed, Failed> {
        let mut planned = Committed { offsets: Vec::new(), chain: Vec::new() };
        let mut place = if batch.events.is_empty() { self.next } else { self.end()? };
        let mut chain = self.chain;
        for event in &batch.events {
            chain = chain.link(event, term);
            planned.chain.push(chain);
            planned.offsets.push(place);
            place = place.next();
        }
        Ok(planned)
    }

    /// Runs `put` between begin and commit, and `check` once everything has arrived; whatever fails, the producer is
    /// fit for the next transaction or gone.
    pub(super) fn in_transaction(
        &mut self,
        membership: &Membership,
        (cursor, note): (Offset, &str),
        put: impl FnOnce(&Self, &mut Producer) -> Result<(), Failed>,
        check: impl FnOnce(&Self, &Producer) -> Result<(), Failed>,
    ) -> Result<(), Failed> {
        let Some(mut producer) = self.producer.take() else {
            return Err(Failed::with(Action::AbortAndResend, "there is no producer".to_owned()));
        };
        producer.begin().map_err(|error| Failed::at(Stage::Produce, &error))?;
        let deadline = Instant::now() + TRANSACTION_TIME;
        let put = put(self, &mut producer).and_then(|()| {
            let offsets = self.offsets(cursor, note)?;
            let sent = send_offsets(&mut producer, &offsets, membership, deadline);
            let arrived = producer.drain().map_err(|error| Failed::at(Stage::Deliver, &error));
            let slow = both(arrived, sent)?;
            check(self, &producer)?;
            Ok(slow)
        });
        let slow = match put {
            Ok(slow) => slow,
            Err(failed) => {
                self.producer = self.aborted(producer, &failed);
                return Err(failed);
            }
        };
        match commit(&producer) {
            Ok(late) => {
                note.clone_into(&mut self.note);
                self.producer = (!slow && !late).then_some(producer);
                Ok(())
            }
            Err(failed) => {
                if failed.action == Action::AbortAndResend {
                    self.producer = self.aborted(producer, &failed);
                }
                Err(failed)
            }
        }
    }

    pub(super) fn offsets(&self, cursor: Offset, note: &str) -> Result<TopicPartitionList, Failed> {
        let list = reader::place(&self.common.topics.commands, self.partition, reader::at(cursor));
        let list = list.map_err(|error| Failed::at(Stage::Offsets, &error))?;
        list.elements().into_iter().for_each(|mut element| {
            element.set_metadata(note);
        });
        Ok(list)
    }

    fn put(
        &self,
        producer: &mut Producer,
        term: Term,
        batch: &Batch,
        (cursor, planned): (Offset, &Committed),
    ) -> Result<(), Failed> {
        let source = self.source();
        for (place, (event, chain)) in batch.events.iter().zip(&planned.chain).enumerate() {
            let sent = producer.send(Outgoing {
                topic: &self.common.topics.events,
                partition: Some(number(self.partition)),
                key: Some(event.key.record_key().as_bytes()),
                value: Some(event.data.as_bytes()),
                headers: Some(record::event_headers(&source, event, term, batch.id, *chain, cursor)),
            });
            sent.map_err(|error| Failed { event: Some(place), ..Failed::at(Stage::Produce, &error) })?;
        }
        self.put_commands(producer, batch)?;
        self.put_answers(producer, batch, planned)
    }

    /// Whether the events stand where it was planned.
    fn check_places(&self, producer: &Producer, planned: &Committed) -> Result<(), Failed> {
        let topic = &self.common.topics.events;
        for (place, planned) in planned.offsets.iter().enumerate() {
            match producer.offset(place).map(Offset) {
                Some(offset) if offset == *planned => {}
                Some(offset) if offset < self.next => {
                    let next = self.next;
                    let what = format!("an event went to {offset}, behind {next}: topic `{topic}` is another one now");
                    return Err(Failed::with(Action::Fenced, what));
                }
                offset => {
                    let what = format!("an event of topic `{topic}` stands at {offset:?} and not at {planned}");
                    return Err(Failed::with(Action::AbortAndResend, what));
                }
            }
        }
        Ok(())
    }

    /// The last event. Every owner has written its claim.
    pub(super) fn last(&self) -> Offset {
        Offset(self.next.0.saturating_sub(1))
    }

    pub(super) fn source(&self) -> String {
        format!("/{}", self.common.options.prefix)
    }

    /// What is sent on, and what nobody can read.
    pub(super) fn put_commands(&self, producer: &mut Producer, batch: &Batch) -> Result<(), Failed> {
        let topics = &self.common.topics;
        for forward in &batch.forwards {
            let stream = forward.command.stream();
            let sent = producer.send(Outgoing {
                topic: &topics.commands,
                partition: Some(number(forward.partition)),
                key: stream.as_ref().map(|stream| stream.record_key().as_bytes()),
                value: Some(wire::encode(&forward.command).as_bytes()),
                headers: Some(record::handed_round()),
            });
            sent.map_err(|error| Failed::at(Stage::Produce, &error))?;
        }
        self.put_letters(producer, &batch.dead_letters)
    }

    pub(super) fn put_letters(&self, producer: &mut Producer, letters: &[DeadLetter]) -> Result<(), Failed> {
        let topics = &self.common.topics;
        for letter in letters {
            let sent = producer.send(Outgoing {
                topic: &topics.dead_letter,
                partition: None,
                key: letter.key.as_deref(),
                value: letter.value.as_deref(),
                headers: Some(record::letter_headers(letter, &topics.commands)),
            });
            sent.map_err(|error| Failed::at(Stage::Produce, &error))?;
        }
        Ok(())
    }

    /// Answers tell where the events will stand.
    pub(super) fn put_answers(
        &self,
        producer: &mut Producer,
        batch: &Batch,
        planned: &Committed,
    ) -> Result<(), Failed> {
        for answer in &batch.answers {
            let placed = answer.placed(self.common.log_id, self.partition, planned);
            let unwritable =
                |error| Failed::with(Action::AbortAndReject, format!("an answer cannot be written: {error}"));
            let value = serde_json::to_vec(&placed).map_err(unwritable)?;
            let sent = producer.send(Outgoing {
                topic: &self.common.topics.replies,
                partition: None,
                key: Some(placed.correlation_id.as_bytes()),
                value: Some(&value),
                headers: None,
            });
            sent.map_err(|error| Failed::at(Stage::Produce, &error))?;
        }
        Ok(())
    }

    /// Ends a transaction that failed: the producer, if it is fit for another one.
    pub(super) fn aborted(&mut self, mut producer: Producer, failed: &Failed) -> Option<Producer> {
        self.end = None;
        if failed.action == Action::Fenced || producer.is_stuck() {
            return None;
        }
        // An abort while a record is on its way can end fatally (librdkafka #4849); its outcome does not matter.
        producer.drain().unwrap_or_default();
        match producer.abort() {
            Ok(()) => (!failed.poisoned).then_some(producer),
            Err(error) => {
                tracing::debug!(%error, "a transaction could not be aborted: its producer is replaced");
                None
            }
        }
    }
}

/// Of two failures, the one that says more.
fn both<T>(first: Result<(), Failed>, second: Result<T, Failed>) -> Result<T, Failed> {
    match (first, second) {
        (Ok(()), second) => second,
        (Err(first), Ok(_)) => Err(first),
        (Err(first), Err(second)) => {
            let poisoned = first.poisoned || second.poisoned;
            let told = if first.action == Action::AbortAndResend { second } else { first };
            Err(Failed { poisoned, ..told })
        }
    }
}

/// Puts the cursor in; whether a request may still be on its way.
pub(super) fn send_offsets(
    producer: &mut Producer,
    offsets: &TopicPartitionList,
    membership: &Membership,
    deadline: Instant,
) -> Result<bool, Failed> {
    let mut slow = false;
    while let Err(error) = producer.send_offsets(offsets, &membership.group, OFFSETS_WAIT) {
        let failed = Failed::at(Stage::Offsets, &error);
        slow |= failed.poisoned;
        if failed.action != Action::Again || Instant::now() > deadline {
            let action = if failed.action == Action::Again { Action::AbortAndResend } else { failed.action };
            return Err(Failed { action, poisoned: slow, ..failed });
        }
    }
    Ok(slow)
}

/// Ends the transaction; whether a request may still be on its way.
fn commit(producer: &Producer) -> Result<bool, Failed> {
    let mut late = false;
    for attempt in 1.. {
        let Err(error) = producer.commit() else { break };
        let failed = Failed::at(Stage::Commit, &error);
        if failed.action != Action::Unknown || attempt == COMMIT_TRIES || !Facets::of(&error).retriable {
            return Err(failed);
        }
        late = true;
    }
    Ok(late)
}
