//! What readers are given: a replay that ends with the claim, and streams that follow for ever.

use std::{
    path::PathBuf,
    task::{Context, Poll, ready},
};

use futures::{
    StreamExt,
    stream::{self, BoxStream},
};
use reenact_events::{CommandRecord, Lease, LogError, Offset, PartitionId, Recorded};
use tokio::sync::mpsc;

use crate::{
    block::Block,
    readers::{Door, Range, scan_ahead},
    view::{Views, changed},
};

/// A stream that says why it is none.
pub(crate) fn failed<T: Send + 'static>(error: LogError) -> BoxStream<'static, Result<T, LogError>> {
    stream::iter([Err(error)]).boxed()
}

/// Whether `wanted` is a place in the partition, or the one behind its last.
fn check(partition: PartitionId, wanted: Offset, high: Offset) -> Result<(), LogError> {
    // Nothing is ever removed from this log, so it starts at 0.
    if wanted <= high { Ok(()) } else { Err(LogError::OutOfRange { partition, wanted, low: Offset(0) }) }
}

/// The events from an offset up to and with the lease's claim.
pub(crate) fn replay(
    database: PathBuf,
    views: Views,
    lease: Lease,
    from: Offset,
) -> BoxStream<'static, Result<Recorded, LogError>> {
    let until = lease.claim_offset().next();
    if let Err(error) = check(lease.partition, from, until) {
        return failed(error);
    }
    let blocks = scan_ahead(database, Range { partition: lease.partition, from, until });
    let mut replay = Replay { blocks, views, lease, block: Block::default(), complete: from == until, ended: false };
    stream::poll_fn(move |context| replay.poll(context)).boxed()
}

/// Polled by hand: at a million events a second a future for each would be felt.
struct Replay {
    blocks: mpsc::Receiver<Result<Block, LogError>>,
    views: Views,
    lease: Lease,
    block: Block,
    complete: bool,
    ended: bool,
}

impl Replay {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Recorded, LogError>>> {
        if self.ended {
            return Poll::Ready(None);
        }
        let next = ready!(self.poll_next(context));
        self.ended = !matches!(next, Some(Ok(_)));
        Poll::Ready(next)
    }

    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Recorded, LogError>>> {
        loop {
            if self.views.borrow().term != Some(self.lease.term) {
                return Poll::Ready(Some(Err(LogError::Fenced { partition: self.lease.partition })));
            }
            if let Some(recorded) = self.block.next() {
                self.complete = recorded.offset == self.lease.claim_offset();
                return Poll::Ready(Some(Ok(recorded)));
            }
            match ready!(self.blocks.poll_recv(context)) {
                Some(Ok(block)) => self.block = block,
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None if self.complete => return Poll::Ready(None),
                None => return Poll::Ready(Some(Err(self.without_claim()))),
            }
        }
    }

    fn without_claim(&self) -> LogError {
        let (partition, offset) = (self.lease.partition, self.lease.claim_offset());
        LogError::Damaged { partition, offset, reason: "the claim that ends the replay is gone".into() }
    }
}

/// A place in a partition that moves on, with what has been read ahead of it.
struct Following<A> {
    partition: PartitionId,
    door: Door,
    views: Views,
    position: Offset,
    ahead: A,
}

impl<A> Following<A> {
    /// Takes what was read up to `until`. When nothing was there, the place is behind that.
    fn take(&mut self, ahead: A, last: Option<Offset>, until: Offset) {
        self.position = last.map_or(until, Offset::next);
        self.ahead = ahead;
    }

    fn range(&self, until: Offset) -> Range {
        Range { partition: self.partition, from: self.position, until }
    }
}

/// The events from an offset on, then those that come.
pub(crate) fn tail(
    door: Door,
    views: Views,
    partition: PartitionId,
    from: Offset,
) -> BoxStream<'static, Result<Recorded, LogError>> {
    if let Err(error) = check(partition, from, views.borrow().next) {
        return failed(error);
    }
    let following = Following { partition, door, views, position: from, ahead: Block::default() };
    stream::unfold(Some(following), |following| async {
        let mut following = following?;
        match next_event(&mut following).await {
            Ok(recorded) => Some((Ok(recorded), Some(following))),
            Err(error) => Some((Err(error), None)),
        }
    })
    .boxed()
}

async fn next_event(following: &mut Following<Block>) -> Result<Recorded, LogError> {
    loop {
        if let Some(recorded) = following.ahead.next() {
            return Ok(recorded);
        }
        let until = following.views.borrow_and_update().next;
        if until <= following.position {
            changed(&mut following.views).await?;
            continue;
        }
        let block = following.door.events(following.range(until)).await?;
        let last = block.last_offset();
        following.take(block, last, until);
    }
}

/// The commands from the cursor on, then those that come, until another owner claims.
pub(crate) fn commands(door: Door, views: Views, lease: Lease) -> BoxStream<'static, Result<CommandRecord, LogError>> {
    let position = views.borrow().cursor;
    let following = Following { partition: lease.partition, door, views, position, ahead: Vec::new().into_iter() };
    stream::unfold(Some((following, lease)), |state| async {
        let (mut following, lease) = state?;
        match next_command(&mut following, &lease).await {
            Ok(record) => Some((Ok(record), Some((following, lease)))),
            Err(error) => Some((Err(error), None)),
        }
    })
    .boxed()
}

async fn next_command(
    following: &mut Following<std::vec::IntoIter<CommandRecord>>,
    lease: &Lease,
) -> Result<CommandRecord, LogError> {
    loop {
        let view = *following.views.borrow_and_update();
        if view.term != Some(lease.term) {
            return Err(LogError::Fenced { partition: lease.partition });
        }
        if let Some(record) = following.ahead.next() {
            return Ok(record);
        }
        if view.next_command <= following.position {
            changed(&mut following.views).await?;
            continue;
        }
        let block = following.door.commands(following.range(view.next_command)).await?;
        let last = block.last().map(|record| record.offset);
        following.take(block.into_iter(), last, view.next_command);
    }
}
