//! The events that a rebuild folds: read ahead while what came before is folded, in batches that are worth a
//! transaction and fit into memory.

use std::sync::Arc;

use futures::{FutureExt, Stream, StreamExt, stream, stream::BoxStream};
use reenact_events::{EventLog, LogError, PartitionId, Recorded};
use tokio::sync::mpsc;

use crate::{Position, TOGETHER_BYTES, TOGETHER_EVENTS};

/// Batches that wait while one is folded.
const AHEAD: usize = 2;

/// Some events of a partition, or what keeps them from being read.
type Batch = (PartitionId, Result<Vec<Recorded>, LogError>);

/// The events behind these positions, for ever; the reading ends when the receiver is dropped.
pub(super) fn batches(log: &Arc<dyn EventLog>, positions: &[Position]) -> mpsc::Receiver<Batch> {
    let of = |position: &Position| {
        let partition = position.partition;
        gathered(log.tail(partition, position.next_offset)).map(move |batch| (partition, batch)).boxed()
    };
    let mut merged = stream::select_all(positions.iter().map(of).collect::<Vec<_>>());
    let (sender, receiver) = mpsc::channel(AHEAD);
    tokio::spawn(async move {
        loop {
            tokio::select! {
                () = sender.closed() => return,
                batch = merged.next() => {
                    let Some(batch) = batch else { return };
                    if sender.send(batch).await.is_err() {
                        return;
                    }
                }
            }
        }
    });
    receiver
}

/// What is ready is handed on together, up to a bound; nothing waits for more to come.
fn gathered(
    tail: BoxStream<'static, Result<Recorded, LogError>>,
) -> impl Stream<Item = Result<Vec<Recorded>, LogError>> + Send {
    stream::unfold((tail, None), |(mut tail, failed)| async move {
        if let Some(error) = failed {
            return Some((Err(error), (tail, None)));
        }
        let first = match tail.next().await? {
            Ok(first) => first,
            Err(error) => return Some((Err(error), (tail, None))),
        };
        let (mut bytes, mut batch, mut failed) = (first.event.data.len(), vec![first], None);
        while batch.len() < TOGETHER_EVENTS && bytes < TOGETHER_BYTES {
            match tail.next().now_or_never() {
                Some(Some(Ok(event))) => {
                    bytes += event.event.data.len();
                    batch.push(event);
                }
                Some(Some(Err(error))) => {
                    failed = Some(error);
                    break;
                }
                Some(None) | None => break,
            }
        }
        Some((Ok(batch), (tail, failed)))
    })
}
