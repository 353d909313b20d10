//! The one thread that appends to a partition while this process owns it.

mod beside;
mod claim;
mod standing;
mod transact;
mod undecided;

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, mpsc},
    thread,
    time::{Duration, Instant},
};

use reenact_events::{
    Batch, BatchId, ChainHash, CommitOutcome, Committed, Lease, LogError, LogId, NodeId, Offset, PartitionId, Recorded,
    Term, event::Loss,
};
use tokio::sync::oneshot;

use crate::{
    Options, Topics,
    client::{Part, Trouble},
    failure::{Action, Facets, Stage, action},
    ownership::{Membership, Ownership},
    producer::Producer,
    reader::{self, Consuming},
};

/// What all writers of a process have in common.
pub(crate) struct Common {
    pub(crate) options: Options,
    pub(crate) topics: Topics,
    pub(crate) log_id: LogId,
    pub(crate) partitions: u32,
    pub(crate) ownership: Ownership,
    pub(crate) trouble: Trouble,
    /// What the writers ask for the ends of partitions.
    pub(crate) observer: Arc<Consuming>,
}

/// What a writer is asked.
pub(crate) enum Job {
    Claim {
        node: NodeId,
        reply: oneshot::Sender<Result<Lease, LogError>>,
    },
    Commit {
        lease: Lease,
        batch: Batch,
        reply: oneshot::Sender<CommitOutcome>,
    },
    Resolve {
        lease: Lease,
        batch: BatchId,
        reply: oneshot::Sender<Result<Option<Committed>, LogError>>,
    },
    /// Where the commands of this lease begin.
    Cursor {
        term: Term,
        reply: oneshot::Sender<Option<Offset>>,
    },
    /// The partition is given to somebody else in order.
    Release {
        done: mpsc::SyncSender<()>,
    },
}

/// Jobs that wait; the owner has one commit in flight.
const JOBS_MAX: usize = 64;
/// How often a writer that has nothing to do looks after what it put elsewhere.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// Batches whose outcome is remembered.
const REMEMBERED: usize = 256;
/// How long taking the transactional id is tried before whoever waits is told.
const INIT_WAIT: Duration = Duration::from_secs(20);
/// The first try is short, each next one twice as long: librdkafka asks again after half a second when the
/// transaction before is still being finished, a new producer asks at once.
const INIT_TRY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(10));
/// How long a membership that the broker refuses may take to be replaced by a newer one: the group's session
/// time-out.
const REJOIN_WAIT: Duration = Duration::from_secs(10);

/// Before 4.3 the broker compares a member's epoch, which rises without the member being told.
const OLD_BROKERS: &str = "with `group.protocol=consumer` brokers before 4.3 refuse what a member writes once another \
                           has joined: leave the property out";

/// Starts a writer; it ends when the sender is dropped.
pub(crate) fn spawn(common: Arc<Common>, partition: PartitionId) -> std::io::Result<mpsc::SyncSender<Job>> {
    let (jobs, queue) = mpsc::sync_channel(JOBS_MAX);
    let name = format!("log writer {partition}");
    thread::Builder::new().name(name).spawn(move || Writer::new(common, partition).run(&queue))?;
    Ok(jobs)
}

pub(crate) use claim::Accept;

/// What is gone of a partition, as the log itself can tell.
pub(crate) fn lost(common: Arc<Common>, partition: PartitionId) -> Result<Vec<Loss>, LogError> {
    Ok(Writer::new(common, partition).standing()?.lost)
}

/// Claims a partition for a moment, to accept that something of it is gone.
pub(crate) fn accept(
    common: Arc<Common>,
    partition: PartitionId,
    node: NodeId,
    what: &Accept,
) -> Result<Lease, LogError> {
    Writer::new(common, partition).claim(node, Some(what))
}

/// See the module.
struct Writer {
    common: Arc<Common>,
    partition: PartitionId,
    /// `None` when the next transaction needs a new one.
    producer: Option<Producer>,
    term: Option<Term>,
    /// The chain after the last event.
    chain: ChainHash,
    /// Behind the last event.
    next: Offset,
    /// Where the next record will stand, behind the markers; `None` when that must be asked.
    end: Option<Offset>,
    /// The command cursor that every transaction carries.
    cursor: Offset,
    /// The note of the last transaction.
    note: String,
    /// What was put elsewhere and is not known to be readable.
    beside: BTreeMap<beside::Place, beside::Beside>,
    known: BTreeMap<BatchId, Committed>,
    order: VecDeque<BatchId>,
}

impl Writer {
    fn new(common: Arc<Common>, partition: PartitionId) -> Self {
        Self {
            common,
            partition,
            producer: None,
            term: None,
            chain: ChainHash::default(),
            next: Offset(0),
            end: None,
            cursor: Offset(0),
            note: String::new(),
            beside: BTreeMap::new(),
            known: BTreeMap::new(),
            order: VecDeque::new(),
        }
    }

    fn run(mut self, queue: &mpsc::Receiver<Job>) {
        loop {
            self.see_to_beside();
            let job = match queue.recv_timeout(LOOK_EVERY) {
                Ok(job) => job,
                Err(mpsc::RecvTimeoutError::Timeout) => continue,
                Err(mpsc::RecvTimeoutError::Disconnected) => return,
            };
            // Whoever asked may have gone; its successor claims anew and reads what was written.
            match job {
                Job::Claim { node, reply } => reply.send(self.claim(node, None)).unwrap_or_default(),
                Job::Commit { lease, batch, reply } => reply.send(self.commit(&lease, &batch)).unwrap_or_default(),
                Job::Resolve { lease, batch, reply } => {
                    reply.send(self.resolve(&lease, batch)).unwrap_or_default();
                }
                Job::Cursor { term, reply } => {
                    let cursor = (self.term == Some(term)).then_some(self.cursor);
                    reply.send(cursor).unwrap_or_default();
                }
                Job::Release { done } => {
                    self.release();
                    done.send(()).unwrap_or_default();
                }
            }
        }
    }

    fn commit(&mut self, lease: &Lease, batch: &Batch) -> CommitOutcome {
        if self.term != Some(lease.term) {
            return CommitOutcome::Fenced;
        }
        let Some(membership) = self.common.ownership.membership(self.partition) else {
            return CommitOutcome::Fenced;
        };
        if let Some(fault) = batch.fault(self.common.partitions) {
            return fault;
        }
        if let Some(outcome) = self.ready(lease.term) {
            return outcome;
        }
        match self.transact(&membership, lease.term, batch) {
            Ok(committed) => {
                self.common.trouble.set(Part::Partition(self.partition), None);
                self.remember(batch, &committed);
                CommitOutcome::Committed(committed)
            }
            Err(failed) => self.failed(failed, &membership),
        }
    }

    /// Makes sure that there is a producer; how the commit ends if there can be none now.
    ///
    /// Taking the id fences whoever has it, even a rightful successor, so the log is asked whether there is one:
    /// a successor that claims later fences this producer in turn.
    fn ready(&mut self, term: Term) -> Option<CommitOutcome> {
        if self.producer.is_some() {
            return None;
        }
        match self.init().and_then(|()| self.look(term)) {
            Ok(()) => None,
            Err(LogError::Fenced { .. }) => Some(CommitOutcome::Fenced),
            // Sending it again would not help: the next claim says what is lost.
            Err(error @ LogError::Damaged { .. }) => Some(CommitOutcome::Unknown { reason: error.to_string().into() }),
            Err(error) => {
                let reason: Arc<str> = error.to_string().into();
                self.tell_trouble(&reason);
                Some(CommitOutcome::Resend { reason })
            }
        }
    }

    fn failed(&mut self, failed: transact::Failed, membership: &Membership) -> CommitOutcome {
        let mut reason: Arc<str> = failed.reason.as_str().into();
        if failed.action == Action::AbortAndRejoin && self.common.options.is_new_protocol() {
            reason = format!("{reason}; {OLD_BROKERS}").into();
        }
        let (partition, is_new) = (self.partition.0, self.common.options.is_new_protocol());
        if failed.action == Action::AbortAndRejoin && !is_new {
            // Every rebalance meets what is in flight; nothing is lost.
            tracing::info!(partition, %reason, "the group has rebalanced meanwhile: the batch waits for the new members");
        } else {
            tracing::warn!(partition, %reason, action = ?failed.action, "a transaction failed");
        }
        self.tell_trouble(&reason);
        match failed.action {
            Action::AbortAndReject => CommitOutcome::Rejected { event: failed.event, reason },
            Action::AbortAndRejoin => {
                match self.common.ownership.newer(self.partition, membership.round, REJOIN_WAIT) {
                    Some(_) => CommitOutcome::Resend { reason },
                    None => CommitOutcome::Fenced,
                }
            }
            Action::Again | Action::AbortAndResend | Action::Denied => CommitOutcome::Resend { reason },
            Action::Unknown => {
                self.producer = None;
                CommitOutcome::Unknown { reason }
            }
            Action::Fenced => {
                self.producer = None;
                self.term = None;
                CommitOutcome::Fenced
            }
        }
    }

    /// What goes wrong with a partition that was given away is no trouble of this process any more.
    fn tell_trouble(&self, reason: &Arc<str>) {
        if self.common.ownership.membership(self.partition).is_some() {
            self.common.trouble.set(Part::Partition(self.partition), Some(reason.clone()));
        }
    }

    fn remember(&mut self, batch: &Batch, committed: &Committed) {
        if let (Some(last), Some(chain)) = (committed.offsets.last(), committed.chain.last()) {
            (self.next, self.chain) = (last.next(), *chain);
        }
        self.cursor = batch.next_command.map_or(self.cursor, |cursor| self.cursor.max(cursor));
        self.known.insert(batch.id, committed.clone());
        self.order.push_back(batch.id);
        if self.order.len() > REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }

    /// Takes the transactional id: whoever had it is fenced, and what it left open is finished.
    fn init(&mut self) -> Result<(), LogError> {
        self.take_id()?;
        let ended = self.end_undecided();
        if ended.is_err() {
            self.producer = None;
        }
        ended
    }

    fn take_id(&mut self) -> Result<(), LogError> {
        (self.producer, self.end) = (None, None);
        let id = format!("{}.{}", self.common.topics.events, self.partition);
        let config = self.common.options.owner(&id);
        let (deadline, mut patience) = (Instant::now() + INIT_WAIT, INIT_TRY.0);
        loop {
            if self.common.ownership.membership(self.partition).is_none() {
                return Err(LogError::Fenced { partition: self.partition });
            }
            let producer = Producer::new(&config, self.common.trouble.clone())
                .map_err(|error| reader::unavailable("no producer", &error))?;
            let Err(error) = producer.init(patience) else {
                self.producer = Some(producer);
                return Ok(());
            };
            let again = matches!(action(Stage::Init, Facets::of(&error)), Action::Again | Action::Fenced);
            if !again || Instant::now() > deadline {
                return Err(reader::unavailable(&format!("the transactional id `{id}` cannot be taken"), &error));
            }
            patience = (2 * patience).min(INIT_TRY.1);
        }
    }

    /// Events that were written behind the last known one, all of this term.
    fn unknown(&self, inspector: &Consuming, term: Term) -> Result<Vec<Recorded>, LogError> {
        let (topic, partition) = (&self.common.topics.events, self.partition);
        let (_, end) = reader::bounds(inspector, topic, partition)?;
        let found = reader::range(inspector, topic, partition, self.next, end)?;
        let found: Vec<_> = found.into_iter().map(|event| event.recorded).collect();
        if found.iter().any(|event| event.term != term) {
            return Err(LogError::Fenced { partition });
        }
        Ok(found)
    }

    fn look(&mut self, term: Term) -> Result<(), LogError> {
        let looked = self.inspector().and_then(|inspector| self.unknown(&inspector, term));
        if looked.is_err() {
            self.producer = None;
        }
        looked.map(drop)
    }

    /// What became of a batch, for good: taking the id anew has finished whatever was on its way.
    fn resolve(&mut self, lease: &Lease, batch: BatchId) -> Result<Option<Committed>, LogError> {
        if self.term != Some(lease.term) {
            return Err(LogError::Fenced { partition: self.partition });
        }
        if let Some(known) = self.known.get(&batch) {
            return Ok(Some(known.clone()));
        }
        self.init()?;
        let inspector = self.inspector()?;
        let mut committed = Committed { offsets: Vec::new(), chain: Vec::new() };
        for event in self.unknown(&inspector, lease.term)?.into_iter().filter(|event| event.batch == batch) {
            committed.offsets.push(event.offset);
            committed.chain.push(event.chain);
        }
        // A batch without events has left nothing but the note beside the cursor.
        let (cursor, note) = self.committed(&inspector)?;
        if committed.offsets.is_empty() && note != standing::batch_note(lease.term, batch, self.last()) {
            return Ok(None);
        }
        let found = Batch { next_command: cursor, ..Batch::new(batch, Vec::new()) };
        self.remember(&found, &committed);
        Ok(Some(committed))
    }
}
