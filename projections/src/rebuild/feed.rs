//! The events that a rebuild folds: read and decoded ahead while what came before is folded, in batches that are worth
//! a transaction and fit into memory.

use std::{sync::Arc, time::Duration};

use futures::{FutureExt, Stream, StreamExt, stream, stream::BoxStream};
use reenact_events::{EventLog, LogError, PartitionId, Recorded};
use tokio::sync::mpsc;

use crate::{Decoded, Position, TOGETHER_BYTES, TOGETHER_EVENTS, ViewError};

/// Batches that wait while one is folded.
const AHEAD: usize = 2;
/// Batches that are decoded side by side, of each partition.
const DECODED_TOGETHER: usize = 2;
/// How long a batch that is not full waits for the next event.
const MORE_WITHIN: Duration = Duration::from_millis(2);

/// Some events of a partition, or what keeps them from being folded.
type Batch = (PartitionId, Result<Option<Decoded<Vec<Recorded>>>, ViewError>);

/// The events behind these positions, for ever; the reading ends when the receiver is dropped.
pub(super) fn batches(log: &Arc<dyn EventLog>, positions: &[Position]) -> mpsc::Receiver<Batch> {
    let of = |position: &Position| {
        let partition = position.partition;
        let decoded = gathered(log.tail(partition, position.next_offset)).map(decoded).buffered(DECODED_TOGETHER);
        decoded.map(move |batch| (partition, batch)).boxed()
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

/// Decodes on a thread that may be busy for a while.
async fn decoded(batch: Result<Vec<Recorded>, LogError>) -> Result<Option<Decoded<Vec<Recorded>>>, ViewError> {
    let batch = batch?;
    tokio::task::spawn_blocking(move || Decoded::read(batch)).await.map_err(|_| ViewError::Closed)?
}

/// What is ready, or comes at once, is handed on together, up to a bound.
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
            let next = match tail.next().now_or_never() {
                Some(next) => next,
                None => tokio::time::timeout(MORE_WITHIN, tail.next()).await.unwrap_or_default(),
            };
            match next {
                Some(Ok(event)) => {
                    bytes += event.event.data.len();
                    batch.push(event);
                }
                Some(Err(error)) => {
                    failed = Some(error);
                    break;
                }
                None => break,
            }
        }
        Some((Ok(batch), (tail, failed)))
    })
}
