//! A moment of the log: an offset for each partition. Each partition's rows are exact there; what is summed over
//! partitions is of that cut.

use std::collections::BTreeMap;

use anyhow::{Context, bail};
use chrono::{DateTime, SecondsFormat, Utc};
use reenact_events::{Clock, Offset, PartitionId, Timestamp};

use crate::{cli::log_source::Source, clock::SystemClock};

/// What somebody asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Moment {
    /// All that was decided up to this time.
    Time(DateTime<Utc>),
    /// Up to and with these offsets; none is before a partition's first event.
    Offsets(BTreeMap<PartitionId, Option<Offset>>),
}

impl std::str::FromStr for Moment {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if !text.contains('=') {
            let time = DateTime::parse_from_rfc3339(text).map_err(|error| {
                format!("it is neither a time as `2026-11-30T12:00:00Z` ({error}) nor offsets as `0=123,1=77`")
            })?;
            return Ok(Self::Time(time.to_utc()));
        }
        let mut offsets = BTreeMap::new();
        for pair in text.split(',') {
            let wrong = || format!("`{pair}` is no `PARTITION=OFFSET`, with a number or `none` as the offset");
            let (partition, offset) = pair.trim().split_once('=').ok_or_else(wrong)?;
            let partition = PartitionId(partition.parse().map_err(|_| wrong())?);
            let offset = match offset {
                "none" => None,
                number => Some(Offset(number.parse().map_err(|_| wrong())?)),
            };
            if offsets.insert(partition, offset).is_some() {
                return Err(format!("partition {partition} is named twice"));
            }
        }
        Ok(Self::Offsets(offsets))
    }
}

/// The first offset of each partition that is not seen any more.
pub(super) type Cut = Vec<(PartitionId, Offset)>;

/// As it is asked for on the command line.
pub(super) fn told(cut: &Cut) -> String {
    let last = |(partition, next): &(PartitionId, Offset)| match next.0.checked_sub(1) {
        Some(last) => format!("{partition}={last}"),
        None => format!("{partition}=none"),
    };
    cut.iter().map(last).collect::<Vec<_>>().join(",")
}

impl Moment {
    /// The cut, if the log has that moment.
    pub(super) fn cut(&self, source: &Source) -> anyhow::Result<Cut> {
        let whole: Vec<_> = (0..source.partitions()).map(PartitionId).collect();
        for partition in &whole {
            let (low, _) = source.bounds(*partition)?;
            if low > Offset(0) {
                bail!(
                    "partition {partition} begins at offset {low}, what was before it was removed: rows cannot be built \
                     from a part of the log"
                );
            }
        }
        match self {
            Self::Time(time) => at_time(source, &whole, *time),
            Self::Offsets(offsets) => at_offsets(source, &whole, offsets),
        }
    }
}

fn at_offsets(
    source: &Source,
    whole: &[PartitionId],
    offsets: &BTreeMap<PartitionId, Option<Offset>>,
) -> anyhow::Result<Cut> {
    if let Some(unknown) = offsets.keys().find(|partition| !whole.contains(partition)) {
        bail!("there is no partition {unknown}: the log has {}, counted from 0", whole.len());
    }
    let mut cut = Vec::new();
    for partition in whole {
        let asked = offsets.get(partition).with_context(|| {
            format!("partition {partition} is not named: say where it is cut, or `{partition}=none`")
        })?;
        let (next, end) = (asked.map_or(Offset(0), Offset::next), source.end(*partition)?);
        if next > end {
            bail!(
                "partition {partition} has come to offset {} only: {} is in the future",
                end.0.saturating_sub(1),
                next.0 - 1
            );
        }
        cut.push((*partition, next));
    }
    if cut.iter().all(|(_, next)| *next == Offset(0)) {
        bail!("that is before the first event: there is nothing to build");
    }
    Ok(cut)
}

/// The first event of each partition that was decided later ends it: an event after it that says an earlier time was
/// decided by another clock, and later.
fn at_time(source: &Source, whole: &[PartitionId], time: DateTime<Utc>) -> anyhow::Result<Cut> {
    let (wanted, now) = (Timestamp(time.timestamp_millis()), SystemClock.now());
    if wanted > now {
        bail!("{} is in the future: it is {} now", rfc3339(wanted), rfc3339(now));
    }
    let (mut cut, mut first): (Cut, Option<Timestamp>) = (Vec::new(), None);
    for partition in whole {
        let mut next = Offset(0);
        'events: loop {
            let events = source.read(*partition, next)?;
            if events.is_empty() {
                break;
            }
            for event in events {
                let at = event.event.at;
                first = Some(first.map_or(at, |first| first.min(at)));
                if at > wanted {
                    break 'events;
                }
                next = event.offset.next();
            }
        }
        cut.push((*partition, next));
    }
    if cut.iter().all(|(_, next)| *next == Offset(0)) {
        let begins = first.map_or_else(|| "is empty".to_owned(), |first| format!("begins at {}", rfc3339(first)));
        bail!("{} is before the first event: the log {begins}", rfc3339(wanted));
    }
    Ok(cut)
}

/// A time for people.
pub(super) fn rfc3339(at: Timestamp) -> String {
    DateTime::from_timestamp_millis(at.0).unwrap_or_default().to_rfc3339_opts(SecondsFormat::Millis, true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_a_time_or_an_offset_for_each_partition() {
        let time: Moment = "2026-11-30T12:00:00+01:00".parse().unwrap();
        assert_eq!(time, Moment::Time("2026-11-30T11:00:00Z".parse().unwrap()));
        let offsets = [(PartitionId(0), Some(Offset(123))), (PartitionId(1), None)].into();
        assert_eq!("0=123, 1=none".parse(), Ok(Moment::Offsets(offsets)));
        for wrong in ["", "now", "2026-11-30", "0=", "=1", "0=-1", "0=1,0=2", "a=1"] {
            assert!(wrong.parse::<Moment>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_cut_is_told_as_it_is_asked_for() {
        let cut = vec![(PartitionId(0), Offset(124)), (PartitionId(1), Offset(0))];
        assert_eq!(told(&cut), "0=123,1=none");
    }
}
