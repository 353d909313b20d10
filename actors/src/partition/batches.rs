//! From proposals to batches and from batches to states: the part of the partition's actor that commits.

use std::sync::Arc;

use ractor::ActorProcessingErr;
use reenact_events::{Event, Offset};
use reenact_snapshots::Position;
use tokio::sync::oneshot;

use super::{
    AbortOnDrop, CommitEnded, Parting, PartitionMessage, PartitionState, Proposal, ProposeError, Receipt, commit,
    turns::Turn, turns::Turns,
};
use crate::states::Fact;

impl PartitionState {
    pub(super) fn propose(&mut self, proposal: Proposal) {
        let Some(settles) = &proposal.settles else { return self.take(proposal) };
        let offset = settles.offset;
        match self.turns.offer(offset, proposal, |proposal| proposal.reply.is_closed()) {
            Turn::Come(proposals) => proposals.into_iter().for_each(|proposal| self.take(proposal)),
            Turn::Waits => {}
            Turn::Refused(proposal) => refuse_turn(proposal),
        }
    }

    pub(super) fn take(&mut self, proposal: Proposal) {
        self.proposed += 1;
        self.pending.push_back(proposal);
    }

    /// Nothing new is taken; what is proposed and not being committed is forgotten, and decided by the next
    /// owner if it still matters.
    pub(super) fn hand_over(&mut self, reply: oneshot::Sender<Parting>) {
        self.helpers.clear();
        self.pending.clear();
        self.turns = Turns::default();
        self.leaving = Some(Some(reply));
        self.left_if_quiet();
    }

    pub(super) fn left_if_quiet(&mut self) {
        if self.in_flight.is_none()
            && let Some(reply) = self.leaving.as_mut().and_then(Option::take)
        {
            // Who waited may have given up.
            reply.send(Parting::of(&self.snapshots)).unwrap_or_default();
        }
    }

    pub(super) fn commit_next(&mut self) -> Result<(), ActorProcessingErr> {
        if self.leaving.is_some() {
            self.left_if_quiet();
            return Ok(());
        }
        while self.in_flight.is_none() && !self.pending.is_empty() {
            self.batches += 1;
            let alone = self.one_by_one > 0;
            self.one_by_one = self.one_by_one.saturating_sub(1);
            let slot = commit::Slot {
                states: &self.partition.states,
                lease: &self.partition.lease,
                number: self.batches,
                known: self.last_offset(),
                alone,
            };
            let filled = commit::fill(&mut self.pending, &slot)?;
            if filled.batch.is_empty() {
                self.answer(filled.proposals, self.last_offset());
                continue;
            }
            let (partition, batch) = (self.partition.clone(), filled.batch.clone());
            self.in_flight = Some(filled);
            let task = tokio::spawn(async move {
                let log = partition.shared.tools.log.clone();
                let known = commit::commit(&partition.shared, &*log, &partition.lease, &batch).await;
                // The actor may have ended meanwhile; the next claim's replay tells it then.
                partition.actor.cast(PartitionMessage::CommitEnded(CommitEnded(known))).unwrap_or_default();
            });
            self.committing = Some(AbortOnDrop(task.abort_handle()));
        }
        Ok(())
    }

    pub(super) fn last_offset(&self) -> Offset {
        Offset(self.position.next_offset.0.saturating_sub(1))
    }

    pub(super) fn answer(&mut self, proposals: Vec<Proposal>, offset: Offset) {
        self.settled += proposals.len() as u64;
        for proposal in proposals {
            // The proposer may have died: its successor reads what was committed.
            proposal.reply.send(Ok(Receipt { offset })).unwrap_or_default();
        }
    }

    pub(super) fn commit_ended(&mut self, known: commit::Known) -> Result<(), ActorProcessingErr> {
        let Some(commit::InFlight { batch, mut proposals }) = self.in_flight.take() else { return Ok(()) };
        match known {
            commit::Known::Committed(committed) => {
                let events: Vec<&Event> = proposals.iter().flat_map(|proposal| &proposal.events).collect();
                let facts: Vec<_> = batch
                    .events
                    .iter()
                    .zip(&events)
                    .map(|(record, event)| Fact {
                        key: &record.key,
                        seq: record.seq,
                        at: record.at,
                        cause: record.cause.as_ref(),
                        event,
                    })
                    .collect();
                if let (Some(offset), Some(chain)) = (committed.offsets.last(), committed.chain.last()) {
                    self.position = Position {
                        next_offset: offset.next(),
                        term: self.partition.lease.term,
                        chain: *chain,
                        ..self.position
                    };
                    if let Err(error) = self.partition.states.apply(&facts, self.position) {
                        self.partition.states.clear()?;
                        return Err(error.into());
                    }
                    self.snapshots.committed(facts.len());
                }
                for fact in &facts {
                    if let Event::Run(event) = fact.event {
                        self.partition.shared.live.event(fact.seq, fact.at, Arc::new(event.clone()));
                    }
                }
                self.answer(proposals, self.last_offset());
                Ok(())
            }
            commit::Known::Rejected { event, reason } => {
                let culprit =
                    event.and_then(|event| commit::owner_of(&proposals, event)).or((proposals.len() == 1).then_some(0));
                match culprit {
                    Some(culprit) => {
                        let refused = proposals.remove(culprit);
                        match commit::refuse(refused, reason) {
                            Some(instead) => proposals.insert(culprit, instead),
                            None => self.settled += 1,
                        }
                    }
                    None => self.one_by_one = proposals.len(),
                }
                for proposal in proposals.into_iter().rev() {
                    self.pending.push_front(proposal);
                }
                Ok(())
            }
            commit::Known::Lost(reason) => Err(reason.into()),
        }
    }
}

/// Its command is asked again.
pub(super) fn refuse_turn(proposal: Proposal) {
    // The proposer may have died.
    proposal.reply.send(Err(ProposeError::OutOfTurn)).unwrap_or_default();
}
