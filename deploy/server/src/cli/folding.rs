//! Folds a log that a command reads itself: one thread reads ahead, one decodes, and one folds.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{SyncSender, sync_channel},
    },
    time::Instant,
};

use reenact_events::{LogError, Offset, PartitionId, Recorded};
use reenact_projections::{Decoded, Loader, TOGETHER_BYTES, TOGETHER_EVENTS, rebuild::Filling};

use super::log_source::Source;
use crate::progress::{self, Telling};

/// Batches that wait while one is folded.
const AHEAD: usize = 2;

/// When folding ends before it has come to its end.
#[derive(Debug, Clone, Copy)]
pub(super) enum Limit {
    /// Never.
    None,
    /// At this moment; what was folded by then stays.
    Until(Instant),
}

impl Limit {
    fn is_over(self) -> bool {
        matches!(self, Self::Until(moment) if Instant::now() >= moment)
    }
}

/// What a long piece of work says of itself while it goes on.
#[derive(Debug, Clone, Default)]
pub(super) struct Told(Arc<Mutex<String>>);

impl Told {
    /// Says what the work is at.
    pub(super) fn say(&self, what: String) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = what;
    }
}

/// A line on the terminal for as long as the second value lives.
pub(super) fn progress_line() -> (Told, Telling) {
    let told = Told::default();
    let shown = told.clone();
    let telling = progress::while_alive(move || shown.0.lock().unwrap_or_else(PoisonError::into_inner).clone());
    (told, telling)
}

/// Some events of a partition, as they are wanted, or what keeps the rest of it from being read.
pub(super) type Batch<T = Vec<Recorded>> = (PartitionId, Result<T, LogError>);

/// Events of a partition: the first that is wanted, and the first that is not.
pub(super) type Range = (PartitionId, Offset, Offset);

/// Folds each partition from where the rows stand up to, without, its offset in `until`.
pub(super) fn fold_all(
    source: &mut Source,
    loader: &mut Loader,
    until: &[(PartitionId, Offset)],
    limit: Limit,
    name: &str,
) -> anyhow::Result<()> {
    let (told, _telling) = progress_line();
    let mut filling = Filling::begun();
    filling.stands(loader.positions(), until);
    let mut ranges = Vec::new();
    for (partition, until) in until {
        ranges.push((*partition, loader.position(*partition)?.next_offset, *until));
    }
    read_ahead(source, &ranges, Decoded::read, |(partition, batch)| {
        let Some(batch) = batch?? else { return Ok(true) };
        let count = loader.fold(&batch)?;
        filling.came(loader.position(partition)?, count);
        told.say(format!("{name}: {filling}"));
        Ok(!limit.is_over())
    })
}

/// Hands the events of the ranges on, prepared, until `take` wants no more; they are read ahead and prepared on threads
/// of their own. A partition that cannot be read to its end says so with its last batch; the others are read all the
/// same.
pub(super) fn read_ahead<T: Send>(
    source: &mut Source,
    ranges: &[Range],
    prepare: impl Fn(Vec<Recorded>) -> T + Send,
    mut take: impl FnMut(Batch<T>) -> anyhow::Result<bool>,
) -> anyhow::Result<()> {
    std::thread::scope(|scope| {
        let ((sender, read), (prepared, batches)) = (sync_channel(AHEAD), sync_channel(AHEAD));
        scope.spawn(move || read_ranges(source, ranges, &sender));
        scope.spawn(move || {
            let mut read = read.into_iter().map(|(partition, events): Batch| (partition, events.map(&prepare)));
            // Until nobody takes them any more.
            read.all(|batch| prepared.send(batch).is_ok())
        });
        for batch in batches {
            if !take(batch)? {
                break;
            }
        }
        Ok(())
    })
}

/// Reads until nobody takes the events any more.
fn read_ranges(source: &Source, ranges: &[Range], sender: &SyncSender<Batch>) {
    for range in ranges {
        let is_taken = match read_range(source, *range, sender) {
            Ok(is_taken) => is_taken,
            Err(error) => sender.send((range.0, Err(error))).is_ok(),
        };
        if !is_taken {
            return;
        }
    }
}

/// Reads a range in batches that are worth a transaction; false when no more are wanted.
fn read_range(
    source: &Source,
    (partition, mut from, until): Range,
    sender: &SyncSender<Batch>,
) -> Result<bool, LogError> {
    let (mut batch, mut bytes) = (Vec::new(), 0);
    while from < until {
        let mut events = match source.read(partition, from) {
            Ok(events) => events,
            Err(error) => {
                // What comes before the damage is whole.
                return if sender.send((partition, Ok(batch))).is_ok() { Err(error) } else { Ok(false) };
            }
        };
        events.truncate(events.partition_point(|event| event.offset < until));
        let Some(last) = events.last() else { break };
        from = last.offset.next();
        bytes += events.iter().map(|event| event.event.data.len()).sum::<usize>();
        batch.append(&mut events);
        if batch.len() >= TOGETHER_EVENTS || bytes >= TOGETHER_BYTES {
            bytes = 0;
            if sender.send((partition, Ok(std::mem::take(&mut batch)))).is_err() {
                return Ok(false);
            }
        }
    }
    Ok(sender.send((partition, Ok(batch))).is_ok())
}
