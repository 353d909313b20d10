//! Several processes over one memory log: who may own what, said by whoever runs the world.
//!
//! After [`MemoryLog::share`] a process may claim and commit only in partitions that were granted to it, as a
//! member of a consumer group may. Nobody is told by itself that a partition went elsewhere: a process that is
//! told late is a zombie, and everything it commits is fenced.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    future::poll_fn,
    task::{Poll, Waker},
};

use futures::{
    StreamExt,
    future::BoxFuture,
    stream::{self, BoxStream},
};

use super::MemoryLog;
use crate::{EventLog, Ownership, PartitionId, Released};

/// Who may own what.
#[derive(Default)]
pub(super) struct Sharing {
    on: bool,
    holders: BTreeMap<PartitionId, u64>,
    news: BTreeMap<u64, VecDeque<Ownership>>,
    frozen: BTreeSet<u64>,
    waiting: Vec<Waker>,
}

impl Sharing {
    /// Whether the process may claim the partition and commit to it.
    pub(super) fn may_own(&self, partition: PartitionId, process: u64) -> bool {
        !self.on || self.holders.get(&partition) == Some(&process)
    }

    pub(super) fn is_frozen(&self, process: u64) -> bool {
        self.frozen.contains(&process)
    }

    /// Wakes the task at the next change.
    pub(super) fn wait(&mut self, waker: &Waker) {
        if !self.waiting.iter().any(|known| known.will_wake(waker)) {
            self.waiting.push(waker.clone());
        }
    }

    fn tell(&mut self, process: u64, change: Ownership) {
        self.news.entry(process).or_default().push_back(change);
        self.wake();
    }

    fn wake(&mut self) {
        self.waiting.drain(..).for_each(Waker::wake);
    }

    fn let_go(&mut self, process: u64) {
        self.holders.retain(|_, holder| *holder != process);
        self.news.remove(&process);
    }
}

impl MemoryLog {
    /// From here on every process owns only what is granted to it.
    pub fn share(&self) {
        self.content().sharing.on = true;
    }

    /// Lets this process own a partition. Whoever had it before cannot commit any more, told or not.
    pub fn grant(&self, partition: PartitionId) {
        let mut content = self.content();
        content.sharing.holders.insert(partition, self.process);
        content.sharing.tell(self.process, Ownership::Granted(partition));
    }

    /// Asks this process for a partition; what is returned ends when it has let go.
    pub fn withdraw(&self, partition: PartitionId) -> BoxFuture<'static, ()> {
        let (released, dropped) = Released::new();
        self.content().sharing.tell(self.process, Ownership::Withdrawn { partition, released });
        dropped
    }

    /// Takes a partition from this process and says so.
    pub fn lose(&self, partition: PartitionId) {
        let mut content = self.content();
        if content.sharing.holders.get(&partition) == Some(&self.process) {
            content.sharing.holders.remove(&partition);
        }
        content.sharing.tell(self.process, Ownership::Lost(partition));
    }

    /// What this process asks of the log takes until [`MemoryLog::thaw`], as if it was stopped by a signal.
    pub fn freeze(&self) {
        self.content().sharing.frozen.insert(self.process);
    }

    /// Ends a [`MemoryLog::freeze`].
    pub fn thaw(&self) {
        let mut content = self.content();
        content.sharing.frozen.remove(&self.process);
        content.sharing.wake();
        content.partitions.iter_mut().for_each(super::Partition::wake);
    }

    /// Whether this process has ended.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.content().ended.contains(&self.process)
    }

    /// Whether a batch has ever moved a partition's cursor back, for checks.
    #[must_use]
    pub fn cursor_fell(&self, partition: PartitionId) -> bool {
        self.content().partition(partition).is_ok_and(|known| known.cursor_fell())
    }

    pub(super) fn is_divided(&self) -> bool {
        self.content().sharing.on
    }

    /// Waits while this process is frozen.
    pub(super) async fn thawed(&self) {
        poll_fn(|context| {
            let mut content = self.content();
            if !content.sharing.is_frozen(self.process) {
                return Poll::Ready(());
            }
            content.sharing.wait(context.waker());
            Poll::Pending
        })
        .await;
    }

    pub(super) fn granted(&self) -> BoxStream<'static, Ownership> {
        if !self.is_divided() {
            let all = (0..self.partitions()).map(|partition| Ownership::Granted(PartitionId(partition)));
            return stream::iter(all.collect::<Vec<_>>()).chain(stream::pending()).boxed();
        }
        self.content().sharing.tell(self.process, Ownership::Joined);
        stream::unfold(Membership(self.clone()), |member| async move { Some((member.next().await, member)) }).boxed()
    }
}

/// Lets go of everything when it is dropped.
struct Membership(MemoryLog);

impl Membership {
    async fn next(&self) -> Ownership {
        poll_fn(|context| {
            let mut content = self.0.content();
            let process = self.0.process;
            if !content.sharing.is_frozen(process)
                && !content.ended.contains(&process)
                && let Some(change) = content.sharing.news.get_mut(&process).and_then(VecDeque::pop_front)
            {
                return Poll::Ready(change);
            }
            content.sharing.wait(context.waker());
            Poll::Pending
        })
        .await
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        self.0.content().sharing.let_go(self.0.process);
    }
}
