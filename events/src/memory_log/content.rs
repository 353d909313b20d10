//! What a memory log holds, and the rules by which it changes: plain functions on plain data.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
    task::Waker,
};

use crate::{
    Answer, Arrival, Batch, BatchId, ChainHash, CommandRecord, CommitOutcome, Committed, DeadLetter, Forward, Lease,
    LogError, LogId, NewEvent, NodeId, Offset, Owner, PartitionId, Predecessor, Recorded, StreamKey, Term, Timestamp,
    event::{Loss, PartitionClaimed},
    ids,
    log::no_such_partition,
};

use super::{fault::Fault, sharing::Sharing};

/// Everything that outlives a process.
#[derive(Default)]
pub(super) struct Content {
    pub(super) log_id: LogId,
    pub(super) answers: Vec<Answer>,
    pub(super) dead_letters: Vec<DeadLetter>,
    pub(super) partitions: Vec<Partition>,
    /// Processes that have ended: their operations never answer.
    pub(super) ended: BTreeSet<u64>,
    pub(super) processes: u64,
    /// Faults for the next commits, before the plan is asked.
    pub(super) injected: VecDeque<Fault>,
    pub(super) sharing: Sharing,
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
    /// How often a loss of events was accepted.
    losses: u32,
    /// The process that claimed last.
    claimant: Option<u64>,
    /// The node that claimed last.
    node: Option<NodeId>,
    batches: BTreeMap<BatchId, Committed>,
    commands: BTreeMap<Offset, Arrival>,
    next_command: Offset,
    cursor: Offset,
    /// A batch has moved the cursor back: a command was passed over, or is decided twice.
    cursor_fell: bool,
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
    pub(super) fn new(log_id: LogId, partitions: u32) -> Self {
        Self { log_id, partitions: (0..partitions).map(|_| Partition::default()).collect(), ..Self::default() }
    }

    pub(super) fn partition(&mut self, partition: PartitionId) -> Result<&mut Partition, LogError> {
        let known = self.known();
        let unknown = || LogError::Unavailable { reason: no_such_partition(partition, known) };
        self.partitions.get_mut(partition.0 as usize).ok_or_else(unknown)
    }

    /// Whether the process hears anything.
    pub(super) fn answers_to(&self, process: u64) -> bool {
        !self.ended.contains(&process) && !self.sharing.is_frozen(process)
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
        at: Timestamp,
        accepts: Vec<Loss>,
    ) -> Result<Lease, LogError> {
        self.pass();
        if !self.sharing.may_own(partition, process) {
            return Err(LogError::Fenced { partition });
        }
        let log_id = self.log_id;
        self.late.retain(|late| late.partition != partition);
        let ended = self.ended.clone();
        let known = self.partition(partition)?;
        let predecessor = match known.claimant {
            Some(claimant) if !ended.contains(&claimant) => Predecessor::MaybeAlive,
            _ => Predecessor::Dead,
        };
        let term = Term(known.next.0);
        let nonce = ids::derived("claim", &[&log_id.to_string(), &partition.to_string(), &term.to_string()]);
        let claimed = PartitionClaimed::new(node.clone(), log_id, nonce).after(known.losses, accepts);
        let (key, losses) = (StreamKey::partition(partition), claimed.losses);
        let event = NewEvent::new(key, known.claims, at, None, None, &claimed.into())
            .map_err(|error| LogError::Unavailable { reason: error.to_string().into() })?;
        known.claims += 1;
        known.losses = losses;
        known.claimant = Some(process);
        known.node = Some(node.clone());
        known.term = Some(term);
        known.batches.clear();
        known.append(partition, term, BatchId(nonce), &[event]);
        Ok(Lease { partition, term, node, predecessor, losses })
    }

    /// A batch reaches the log; says why it is not written, if it is not.
    pub(super) fn arrive(&mut self, lease: &Lease, batch: &Batch, process: u64) -> Option<CommitOutcome> {
        self.pass();
        if !self.sharing.may_own(lease.partition, process) {
            return Some(CommitOutcome::Fenced);
        }
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
    pub(super) fn resolve(
        &mut self,
        lease: &Lease,
        batch: BatchId,
        process: u64,
    ) -> Result<Option<Committed>, LogError> {
        self.pass();
        let may_own = self.sharing.may_own(lease.partition, process);
        let known = self.partition(lease.partition)?;
        if known.term != Some(lease.term) || !may_own {
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
        let log_id = self.log_id;
        let known = &mut self.partitions[partition.0 as usize];
        let committed = known.append(partition, term, batch.id, &batch.events);
        self.dead_letters.extend(batch.dead_letters.iter().cloned());
        self.answers.extend(batch.answers.iter().map(|answer| answer.placed(log_id, partition, &committed)));
        if !batch.answers.is_empty() {
            self.wake();
        }
        let known = &mut self.partitions[partition.0 as usize];
        if let Some(cursor) = batch.next_command {
            known.cursor_fell |= cursor < known.cursor;
            known.cursor = cursor;
            known.commands = known.commands.split_off(&cursor);
        }
        self.forward(&batch.forwards);
        committed
    }

    fn forward(&mut self, commands: &[Forward]) {
        let mut touched = BTreeSet::new();
        for Forward { partition, command } in commands {
            self.partitions[partition.0 as usize].arrive(Arrival::Command(Box::new(command.clone())));
            touched.insert(*partition);
        }
        for partition in touched {
            let known = &mut self.partitions[partition.0 as usize];
            known.next_command = known.next_command.next();
            known.wake();
        }
    }

    /// Puts something that is no command where commands wait.
    pub(super) fn poison(&mut self, letter: DeadLetter) -> Result<(), LogError> {
        let known = self.partition(letter.partition)?;
        let letter = DeadLetter { offset: known.next_command, ..letter };
        known.arrive(Arrival::Poison(Box::new(letter)));
        known.wake();
        Ok(())
    }

    pub(super) fn owners(&self) -> Vec<Owner> {
        let owner = |(number, known): (u32, &Partition)| {
            let (term, node) = (known.term?, known.node.clone()?);
            Some(Owner { partition: PartitionId(number), term, node, endpoint: None })
        };
        (0..).zip(&self.partitions).filter_map(owner).collect()
    }

    /// Wakes whoever waits for an answer.
    fn wake(&mut self) {
        self.partitions.iter_mut().for_each(Partition::wake);
    }
}

impl Partition {
    fn arrive(&mut self, arrival: Arrival) {
        self.commands.insert(self.next_command, arrival);
        self.next_command = self.next_command.next();
    }

    /// Appends events and burns the offset behind them.
    fn append(&mut self, partition: PartitionId, term: Term, batch: BatchId, events: &[NewEvent]) -> Committed {
        let mut committed = Committed { offsets: Vec::new(), chain: Vec::new() };
        for event in events {
            self.chain = self.chain.link(event, term);
            committed.offsets.push(self.next);
            committed.chain.push(self.chain);
            let (offset, chain, event) = (self.next, self.chain, event.clone());
            self.events.push(Recorded { partition, offset, term, batch, chain, event, stored: None });
            self.next = self.next.next();
        }
        self.next = self.next.next();
        self.batches.insert(batch, committed.clone());
        self.wake();
        committed
    }

    pub(super) fn wake(&mut self) {
        self.waiting.drain(..).for_each(Waker::wake);
    }

    /// Wakes the task at the next change.
    pub(super) fn wait(&mut self, waker: &Waker) {
        if !self.waiting.iter().any(|known| known.will_wake(waker)) {
            self.waiting.push(waker.clone());
        }
    }

    /// Loses the events at and after an offset, as a log does of which an older copy was restored.
    pub(super) fn forget(&mut self, from: Offset) {
        self.events.truncate(self.place(from));
        self.next = from;
        self.chain = self.events.last().map(|last| last.chain).unwrap_or_default();
        self.claims = self.events.iter().filter(|event| event.event.key.as_session().is_none()).count() as u64;
        self.term = None;
        self.batches.clear();
        self.wake();
    }

    pub(super) fn bounds(&self) -> (Offset, Offset) {
        (self.events.first().map_or(self.next, |first| first.offset), self.next)
    }

    pub(super) fn cursor(&self) -> Offset {
        self.cursor
    }

    pub(super) fn cursor_fell(&self) -> bool {
        self.cursor_fell
    }

    pub(super) fn owns(&self, lease: &Lease) -> bool {
        self.term == Some(lease.term)
    }

    /// The place of the first event at or after `from`.
    pub(super) fn place(&self, from: Offset) -> usize {
        self.events.partition_point(|recorded| recorded.offset < from)
    }

    pub(super) fn command(&self, from: Offset) -> Option<CommandRecord> {
        let (offset, arrival) = self.commands.range(from..).next()?;
        Some(CommandRecord { offset: *offset, arrival: arrival.clone() })
    }
}
