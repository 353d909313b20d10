//! What a memory log holds, and the rules by which it changes: plain functions on plain data.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
    task::Waker,
};

use crate::{
    Batch, BatchId, ChainHash, Command, CommandRecord, CommitOutcome, Committed, Forward, Lease, LogError, LogId,
    NewEvent, NodeId, Offset, PartitionId, Predecessor, Recorded, StreamKey, Term, Timestamp, event::PartitionClaimed,
    ids, log::no_such_partition,
};

use super::fault::Fault;

/// Everything that outlives a process.
#[derive(Default)]
pub(super) struct Content {
    pub(super) partitions: Vec<Partition>,
    /// Processes that have ended: their operations never answer.
    pub(super) ended: BTreeSet<u64>,
    pub(super) processes: u64,
    /// Faults for the next commits, before the plan is asked.
    pub(super) injected: VecDeque<Fault>,
    late: Vec<Late>,
}

/// One partition.
#[derive(Default)]
pub(super) struct Partition {
    pub(super) events: Vec<Recorded>,
    next: Offset,
    chain: ChainHash,
    /// The ownership that may append; `None` before the first claim and after an injected fence.
    term: Option<Term>,
    claims: u64,
    /// The process that claimed last.
    claimant: Option<u64>,
    batches: BTreeMap<BatchId, Committed>,
    commands: BTreeMap<Offset, Command>,
    next_command: Offset,
    cursor: Offset,
    /// Who waits for events or commands.
    waiting: Vec<Waker>,
}

/// A batch on its way.
struct Late {
    partition: PartitionId,
    term: Term,
    batch: Batch,
    operations: u32,
}

impl Content {
    pub(super) fn new(partitions: u32) -> Self {
        Self { partitions: (0..partitions).map(|_| Partition::default()).collect(), ..Self::default() }
    }

    pub(super) fn partition(&mut self, partition: PartitionId) -> Result<&mut Partition, LogError> {
        let known = self.known();
        let unknown = || LogError::Unavailable { reason: no_such_partition(partition, known) };
        self.partitions.get_mut(partition.0 as usize).ok_or_else(unknown)
    }

    /// Lets an operation pass: batches on their way come closer, and arrive.
    pub(super) fn pass(&mut self) {
        let (arrived, late) = std::mem::take(&mut self.late).into_iter().partition(|late| late.operations <= 1);
        self.late = late;
        self.late.iter_mut().for_each(|late| late.operations -= 1);
        let arrived: Vec<Late> = arrived;
        for Late { partition, term, batch, .. } in arrived {
            if self.partitions.get(partition.0 as usize).is_some_and(|known| known.term == Some(term)) {
                self.append(partition, term, &batch);
            }
        }
    }

    pub(super) fn claim(
        &mut self,
        partition: PartitionId,
        node: NodeId,
        process: u64,
        log_id: LogId,
        at: Timestamp,
    ) -> Result<Lease, LogError> {
        self.pass();
        self.late.retain(|late| late.partition != partition);
        let ended = self.ended.clone();
        let known = self.partition(partition)?;
        let predecessor = match known.claimant {
            Some(claimant) if !ended.contains(&claimant) => Predecessor::MaybeAlive,
            _ => Predecessor::Dead,
        };
        let term = Term(known.next.0);
        let nonce = ids::derived("claim", &[&log_id.to_string(), &partition.to_string(), &term.to_string()]);
        let claimed = PartitionClaimed { node: node.clone(), log_id, nonce }.into();
        let key = StreamKey::partition(partition);
        let event = NewEvent::new(key, known.claims, at, None, None, &claimed)
            .map_err(|error| LogError::Unavailable { reason: error.to_string().into() })?;
        known.claims += 1;
        known.claimant = Some(process);
        known.term = Some(term);
        known.batches.clear();
        known.append(partition, term, BatchId(nonce), &[event]);
        Ok(Lease { partition, term, node, predecessor })
    }

    /// A batch reaches the log; says why it is not written, if it is not.
    pub(super) fn arrive(&mut self, lease: &Lease, batch: &Batch) -> Option<CommitOutcome> {
        self.pass();
        self.refusal(lease, batch)
    }

    fn refusal(&mut self, lease: &Lease, batch: &Batch) -> Option<CommitOutcome> {
        let known = self.known();
        if self.partition(lease.partition).map_or(None, |partition| partition.term) != Some(lease.term) {
            return Some(CommitOutcome::Fenced);
        }
        batch.fault(known)
    }

    fn known(&self) -> u32 {
        u32::try_from(self.partitions.len()).unwrap_or(u32::MAX)
    }

    /// Writes a batch, or does what the fault says. Crashes are the caller's: to the content they are a commit
    /// that was written, or none.
    pub(super) fn commit(&mut self, lease: &Lease, batch: &Batch, fault: Option<Fault>) -> CommitOutcome {
        // Somebody may have claimed while the plan was asked for the fault.
        if let Some(refusal) = self.refusal(lease, batch) {
            return refusal;
        }
        let lost: Arc<str> = "the answer was lost (injected)".into();
        match fault {
            None | Some(Fault::CrashAfter) => CommitOutcome::Committed(self.append(lease.partition, lease.term, batch)),
            Some(Fault::UnknownApplied) => {
                self.append(lease.partition, lease.term, batch);
                CommitOutcome::Unknown { reason: lost }
            }
            Some(Fault::UnknownLost | Fault::CrashBefore) => CommitOutcome::Unknown { reason: lost },
            Some(Fault::UnknownLate { operations }) => {
                let (partition, term, batch) = (lease.partition, lease.term, batch.clone());
                self.late.push(Late { partition, term, batch, operations });
                CommitOutcome::Unknown { reason: lost }
            }
            Some(Fault::Fenced) => {
                if let Ok(known) = self.partition(lease.partition) {
                    known.term = None;
                    known.wake();
                }
                CommitOutcome::Fenced
            }
            Some(Fault::Resend) => CommitOutcome::Resend { reason: "try again (injected)".into() },
            Some(Fault::Rejected) => {
                CommitOutcome::Rejected { event: None, reason: "not to be written (injected)".into() }
            }
        }
    }

    /// What became of a batch, for good: one that is still on its way never arrives.
    pub(super) fn resolve(&mut self, lease: &Lease, batch: BatchId) -> Result<Option<Committed>, LogError> {
        self.pass();
        let known = self.partition(lease.partition)?;
        if known.term != Some(lease.term) {
            return Err(LogError::Fenced { partition: lease.partition });
        }
        let found = known.batches.get(&batch).cloned();
        self.late.retain(|late| late.batch.id != batch);
        Ok(found)
    }

    pub(super) fn publish(&mut self, commands: &[Forward]) -> Result<(), LogError> {
        self.pass();
        for forward in commands {
            self.partition(forward.partition)?;
        }
        self.forward(commands);
        Ok(())
    }

    fn append(&mut self, partition: PartitionId, term: Term, batch: &Batch) -> Committed {
        let known = &mut self.partitions[partition.0 as usize];
        let committed = known.append(partition, term, batch.id, &batch.events);
        if let Some(cursor) = batch.next_command {
            known.cursor = cursor;
            known.commands = known.commands.split_off(&cursor);
        }
        self.forward(&batch.forwards);
        committed
    }

    fn forward(&mut self, commands: &[Forward]) {
        let mut touched = BTreeSet::new();
        for Forward { partition, command } in commands {
            let known = &mut self.partitions[partition.0 as usize];
            known.commands.insert(known.next_command, command.clone());
            known.next_command = known.next_command.next();
            touched.insert(*partition);
        }
        for partition in touched {
            let known = &mut self.partitions[partition.0 as usize];
            known.next_command = known.next_command.next();
            known.wake();
        }
    }
}

impl Partition {
    /// Appends events and burns the offset behind them.
    fn append(&mut self, partition: PartitionId, term: Term, batch: BatchId, events: &[NewEvent]) -> Committed {
        let mut committed = Committed { offsets: Vec::new(), chain: Vec::new() };
        for event in events {
            self.chain = self.chain.link(event, term);
            committed.offsets.push(self.next);
            committed.chain.push(self.chain);
            let (offset, chain, event) = (self.next, self.chain, event.clone());
            self.events.push(Recorded { partition, offset, term, batch, chain, event });
            self.next = self.next.next();
        }
        self.next = self.next.next();
        self.batches.insert(batch, committed.clone());
        self.wake();
        committed
    }

    fn wake(&mut self) {
        self.waiting.drain(..).for_each(Waker::wake);
    }

    /// Wakes the task at the next change.
    pub(super) fn wait(&mut self, waker: &Waker) {
        if !self.waiting.iter().any(|known| known.will_wake(waker)) {
            self.waiting.push(waker.clone());
        }
    }

    pub(super) fn bounds(&self) -> (Offset, Offset) {
        (self.events.first().map_or(self.next, |first| first.offset), self.next)
    }

    pub(super) fn cursor(&self) -> Offset {
        self.cursor
    }

    pub(super) fn owns(&self, lease: &Lease) -> bool {
        self.term == Some(lease.term)
    }

    /// The place of the first event at or after `from`.
    pub(super) fn place(&self, from: Offset) -> usize {
        self.events.partition_point(|recorded| recorded.offset < from)
    }

    pub(super) fn command(&self, from: Offset) -> Option<CommandRecord> {
        let (offset, command) = self.commands.range(from..).next()?;
        Some(CommandRecord { offset: *offset, command: command.clone() })
    }
}
