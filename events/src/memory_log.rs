//! The log contract in memory, for tests and simulations: fast, deterministic, and faulty on demand.
//!
//! A [`MemoryLog`] is a handle that belongs to one simulated *process*; what it holds outlives the process.
//! [`MemoryLog::restart`] ends the process (whatever it still awaits never answers) and gives the handle of
//! the next one; [`MemoryLog::second_process`] gives a handle to another process beside this one. A claim
//! says [`Predecessor::Dead`](crate::Predecessor::Dead) when the process that claimed last has ended.
//!
//! There is no runtime in here: waiting goes through wakers, and time through [`Faults::delay`].

mod content;
mod fault;
mod sharing;
#[cfg(test)]
mod tests;

use std::{
    future::{pending, poll_fn},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::Poll,
};

use futures::{
    FutureExt, StreamExt,
    future::BoxFuture,
    stream::{self, BoxStream},
};

pub use fault::{Fault, Faults, NoFaults, Operation};

use crate::{
    Answer, Batch, BatchId, Clock, CommandRecord, CommitOutcome, Committed, DeadLetter, EventLog, Forward, Lease,
    LogError, LogId, NodeId, Offset, Owner, Ownership, PartitionId, Recorded, event::Loss,
};
use content::{Content, Partition};

/// See the module.
#[derive(Clone)]
pub struct MemoryLog {
    shared: Arc<Shared>,
    process: u64,
}

struct Shared {
    log_id: LogId,
    partitions: u32,
    clock: Arc<dyn Clock>,
    faults: Mutex<Arc<dyn Faults>>,
    content: Mutex<Content>,
}

/// Nothing that holds these locks leaves its data half changed, so a panic elsewhere does not matter here.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl MemoryLog {
    /// An empty log. The clock stamps claims; a [`Timestamp`](crate::Timestamp) is a clock that stands.
    #[must_use]
    pub fn new(log_id: LogId, partitions: u32, clock: Arc<dyn Clock>) -> Self {
        let content = Mutex::new(Content::new(log_id, partitions.max(1)));
        let faults: Mutex<Arc<dyn Faults>> = Mutex::new(Arc::new(NoFaults));
        Self { shared: Arc::new(Shared { log_id, partitions: partitions.max(1), clock, faults, content }), process: 0 }
    }

    /// From here on `faults` decides what goes wrong, for every process.
    pub fn set_faults(&self, faults: Arc<dyn Faults>) {
        *lock(&self.shared.faults) = faults;
    }

    /// The next commit that is not refused meets this fault; more of them queue up.
    pub fn inject(&self, fault: Fault) {
        self.content().injected.push_back(fault);
    }

    /// Ends this process, as a power cut would, and starts another one over the same content.
    #[must_use]
    pub fn restart(&self) -> Self {
        self.crash();
        self.second_process()
    }

    /// Ends this process: nothing that it awaits or will ask of the log is ever answered.
    pub fn crash(&self) {
        self.content().ended.insert(self.process);
    }

    /// A handle to another process that is alive beside this one.
    #[must_use]
    pub fn second_process(&self) -> Self {
        let mut content = self.content();
        content.processes += 1;
        Self { shared: self.shared.clone(), process: content.processes }
    }

    /// Everything that is committed in a partition, for checks.
    #[must_use]
    pub fn recorded(&self, partition: PartitionId) -> Vec<Recorded> {
        self.content().partition(partition).map_or_else(|_| Vec::new(), |known| known.events.clone())
    }

    /// What is committed in a partition from its how-many-eth event on, for checks that look often.
    #[must_use]
    pub fn recorded_from(&self, partition: PartitionId, place: usize) -> Vec<Recorded> {
        let mut content = self.content();
        let known = content.partition(partition);
        known.map_or_else(|_| Vec::new(), |known| known.events.get(place..).unwrap_or_default().to_vec())
    }

    /// Puts something that is no command where commands wait, as a careless publisher does; its offset is
    /// filled in.
    ///
    /// # Errors
    /// When there is no such partition.
    pub fn poison(&self, letter: DeadLetter) -> Result<(), LogError> {
        self.content().poison(letter)
    }

    /// Loses a partition's events at and after an offset, as a broker does of which an older copy was restored.
    ///
    /// # Errors
    /// When there is no such partition.
    pub fn forget(&self, partition: PartitionId, from: Offset) -> Result<(), LogError> {
        self.content().partition(partition)?.forget(from);
        Ok(())
    }

    /// Claims a partition, and accepts with it that something is lost.
    ///
    /// # Errors
    /// As a claim has.
    pub fn accept(&self, partition: PartitionId, node: NodeId, accepts: Vec<Loss>) -> Result<Lease, LogError> {
        let at = self.shared.clock.now();
        self.content().claim(partition, node, self.process, at, accepts)
    }

    /// The dead letters so far, for checks.
    #[must_use]
    pub fn dead_letters(&self) -> Vec<DeadLetter> {
        self.content().dead_letters.clone()
    }

    /// The answers so far, for checks.
    #[must_use]
    pub fn answered(&self) -> Vec<Answer> {
        self.content().answers.clone()
    }

    /// The answer at a place, once it is there.
    async fn answer(&self, place: usize) -> Answer {
        poll_fn(|context| {
            let mut content = self.content();
            if let Some(answer) = content.answers.get(place)
                && content.answers_to(self.process)
            {
                return Poll::Ready(answer.clone());
            }
            content.partitions.iter_mut().for_each(|partition| partition.wait(context.waker()));
            Poll::Pending
        })
        .await
    }

    fn content(&self) -> MutexGuard<'_, Content> {
        lock(&self.shared.content)
    }

    fn faults(&self) -> Arc<dyn Faults> {
        lock(&self.shared.faults).clone()
    }

    /// Takes the time that the operation takes. Never returns once the process has ended.
    async fn travel(&self, operation: Operation) {
        if let Some(delay) = self.faults().delay(operation) {
            delay.await;
        }
        self.thawed().await;
        if self.content().ended.contains(&self.process) {
            pending::<()>().await;
        }
    }

    /// Takes the operation's time and says whether the log can be reached.
    async fn reach(&self, operation: Operation) -> Result<(), LogError> {
        self.travel(operation).await;
        match self.faults().unavailable(operation) {
            Some(reason) => Err(LogError::Unavailable { reason }),
            None => Ok(()),
        }
    }

    /// The fault that this commit meets, if any; the plan is asked without holding the content.
    fn fault(&self, partition: PartitionId, batch: &Batch) -> Option<Fault> {
        let injected = self.content().injected.pop_front();
        injected.or_else(|| self.faults().on_commit(partition, batch))
    }

    async fn commit_batch(&self, lease: &Lease, batch: &Batch) -> CommitOutcome {
        self.travel(Operation::Commit(lease.partition)).await;
        if let Some(refusal) = self.content().arrive(lease, batch, self.process) {
            return refusal;
        }
        let fault = self.fault(lease.partition, batch);
        let outcome = self.content().commit(lease, batch, fault);
        if matches!(fault, Some(Fault::CrashBefore | Fault::CrashAfter)) {
            self.crash();
            self.faults().crashed();
        }
        self.travel(Operation::Answer(lease.partition)).await;
        outcome
    }

    /// Waits until `next` finds something in the partition; it is asked again at every change.
    async fn wait_for<T>(
        &self,
        partition: PartitionId,
        next: impl Fn(&Partition) -> Option<Result<T, LogError>>,
    ) -> Result<T, LogError> {
        poll_fn(|context| {
            let mut content = self.content();
            if content.ended.contains(&self.process) {
                return Poll::Pending;
            }
            let frozen = content.sharing.is_frozen(self.process);
            let known = content.partition(partition)?;
            if frozen {
                known.wait(context.waker());
                return Poll::Pending;
            }
            match next(known) {
                Some(found) => Poll::Ready(found),
                None => {
                    known.wait(context.waker());
                    Poll::Pending
                }
            }
        })
        .await
    }

    /// Where a reader starts that asks for `from`, when the last offset that it may ask for is `high`.
    fn place(&self, partition: PartitionId, wanted: Offset, high: Option<Offset>) -> Result<usize, LogError> {
        let mut content = self.content();
        let known = content.partition(partition)?;
        let (low, next) = known.bounds();
        if wanted < low || wanted > high.unwrap_or(next) {
            return Err(LogError::OutOfRange { partition, wanted, low });
        }
        Ok(known.place(wanted))
    }

    async fn replay_next(&self, lease: &Lease, place: usize) -> Option<Result<Recorded, LogError>> {
        let partition = lease.partition;
        let found = self
            .wait_for(partition, |known| match known.events.get(place) {
                _ if !known.owns(lease) => Some(Err(LogError::Fenced { partition })),
                Some(recorded) if recorded.offset <= lease.claim_offset() => Some(Ok(Some(recorded.clone()))),
                _ => Some(Ok(None)),
            })
            .await;
        found.transpose()
    }

    async fn tail_next(&self, partition: PartitionId, place: usize) -> Result<Recorded, LogError> {
        let found = self.wait_for(partition, |known| known.events.get(place).cloned().map(Ok)).await?;
        self.reach(Operation::Tail(partition)).await?;
        Ok(found)
    }

    async fn command_next(&self, lease: &Lease, from: Offset) -> Result<CommandRecord, LogError> {
        let partition = lease.partition;
        let found = self.wait_for(partition, |known| {
            if !known.owns(lease) {
                return Some(Err(LogError::Fenced { partition }));
            }
            known.command(from).map(Ok)
        });
        let found = found.await?;
        self.reach(Operation::Commands(partition)).await?;
        Ok(found)
    }
}

impl EventLog for MemoryLog {
    fn partitions(&self) -> u32 {
        self.shared.partitions
    }

    fn log_id(&self) -> LogId {
        self.shared.log_id
    }

    fn claim(&self, partition: PartitionId, node: NodeId) -> BoxFuture<'_, Result<Lease, LogError>> {
        async move {
            self.reach(Operation::Claim(partition)).await?;
            self.accept(partition, node, Vec::new())
        }
        .boxed()
    }

    fn replay(&self, lease: &Lease, from: Offset) -> BoxStream<'static, Result<Recorded, LogError>> {
        let (log, lease) = (self.clone(), lease.clone());
        let opened = async move {
            log.reach(Operation::Replay(lease.partition)).await?;
            let place = log.place(lease.partition, from, Some(lease.claim_offset().next()))?;
            Ok(stream::unfold((log, lease, Some(place)), |(log, lease, place)| async move {
                let place = place?;
                let found = log.replay_next(&lease, place).await?;
                let next = found.is_ok().then_some(place + 1);
                Some((found, (log, lease, next)))
            }))
        };
        flatten(opened.boxed())
    }

    fn commit<'a>(&'a self, lease: &'a Lease, batch: &'a Batch) -> BoxFuture<'a, CommitOutcome> {
        self.commit_batch(lease, batch).boxed()
    }

    fn resolve<'a>(&'a self, lease: &'a Lease, batch: BatchId) -> BoxFuture<'a, Result<Option<Committed>, LogError>> {
        async move {
            self.reach(Operation::Resolve(lease.partition)).await?;
            self.content().resolve(lease, batch, self.process)
        }
        .boxed()
    }

    fn tail(&self, partition: PartitionId, from: Offset) -> BoxStream<'static, Result<Recorded, LogError>> {
        let log = self.clone();
        let opened = async move {
            let place = log.place(partition, from, None)?;
            Ok(stream::unfold((log, Some(place)), move |(log, place)| async move {
                let place = place?;
                let found = log.tail_next(partition, place).await;
                let next = found.is_ok().then_some(place + 1);
                Some((found, (log, next)))
            }))
        };
        flatten(opened.boxed())
    }

    fn bounds(&self, partition: PartitionId) -> BoxFuture<'_, Result<(Offset, Offset), LogError>> {
        async move {
            self.reach(Operation::Bounds(partition)).await?;
            let mut content = self.content();
            content.pass();
            content.partition(partition).map(|known| known.bounds())
        }
        .boxed()
    }

    fn last_event(&self, partition: PartitionId) -> BoxFuture<'_, Result<Option<Offset>, LogError>> {
        async move {
            self.reach(Operation::Bounds(partition)).await?;
            let mut content = self.content();
            content.partition(partition).map(|known| known.events.last().map(|last| last.offset))
        }
        .boxed()
    }

    fn commands(&self, lease: &Lease) -> BoxStream<'static, Result<CommandRecord, LogError>> {
        let (log, lease) = (self.clone(), lease.clone());
        let opened = async move {
            let from = log.content().partition(lease.partition)?.cursor();
            Ok(stream::unfold((log, lease, Some(from)), |(log, lease, from)| async move {
                let found = log.command_next(&lease, from?).await;
                let next = found.as_ref().ok().map(|record| record.offset.next());
                Some((found, (log, lease, next)))
            }))
        };
        flatten(opened.boxed())
    }

    fn publish(&self, commands: Vec<Forward>) -> BoxFuture<'_, Result<(), LogError>> {
        async move {
            self.reach(Operation::Publish).await?;
            self.content().publish(&commands)
        }
        .boxed()
    }

    fn answers(&self) -> BoxStream<'static, Result<Answer, LogError>> {
        let from = self.content().answers.len();
        stream::unfold((self.clone(), from), |(log, place)| async move {
            Some((Ok(log.answer(place).await), (log, place + 1)))
        })
        .boxed()
    }

    fn is_shared(&self) -> bool {
        self.is_divided()
    }

    fn ownership(&self) -> BoxStream<'static, Ownership> {
        self.granted()
    }

    fn owners(&self) -> BoxFuture<'_, Result<Vec<Owner>, LogError>> {
        let owners = self.content().owners();
        async move { Ok(owners) }.boxed()
    }
}

/// A stream that must first be opened, as one stream whose only item is the error when it cannot be.
fn flatten<T, S>(opened: BoxFuture<'static, Result<S, LogError>>) -> BoxStream<'static, Result<T, LogError>>
where
    T: Send + 'static,
    S: stream::Stream<Item = Result<T, LogError>> + Send + 'static,
{
    opened
        .into_stream()
        .flat_map(|opened| match opened {
            Ok(items) => items.boxed(),
            Err(error) => stream::iter([Err(error)]).boxed(),
        })
        .boxed()
}
