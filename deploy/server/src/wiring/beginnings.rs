//! Watches whether the log keeps its beginning: whoever deletes events leaves a node that is up untouched, and takes
//! from every other one, and from each rebuild, what they would begin with.

use std::{collections::BTreeMap, convert::Infallible, sync::Arc, time::Duration};

use reenact_events::{EventLog, Offset, PartitionId};

use crate::http::state::App;

/// How often the log is asked.
const EVERY: Duration = Duration::from_secs(5);

/// Tells of every partition that begins later than it did when it was first seen, for as long as it does.
pub(super) async fn watch(app: App, log: Arc<dyn EventLog>) -> Infallible {
    let mut known = BTreeMap::new();
    loop {
        for partition in (0..log.partitions()).map(PartitionId) {
            // A log that does not answer is told by others.
            let Ok((low, _)) = log.bounds(partition).await else { continue };
            let first = *known.entry(partition).or_insert(low);
            let told = lost(partition, first, low);
            if app.beginning_is(partition, told.clone())
                && let Some(what) = told
            {
                tracing::error!(%partition, from = first.0, until = low.0, "{what}");
            }
        }
        tokio::time::sleep(EVERY).await;
    }
}

/// What is said of a partition that began at `first` and now does at `low`.
fn lost(partition: PartitionId, first: Offset, low: Offset) -> Option<String> {
    (low > first).then(|| {
        format!(
            "the events of partition {partition} from offset {first} to before {low} were deleted from the log: runs go \
             on, but a node without a state or snapshot that has seen them cannot start. Restore them from a backup, \
             and set `retention.ms` and `retention.bytes` of the topic to -1"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_that_begins_where_it_did_or_before_has_lost_nothing() {
        let of = |first, low| lost(PartitionId(3), Offset(first), Offset(low));
        assert_eq!(of(0, 0), None);
        assert_eq!(of(20, 20), None, "it was known to begin there");
        assert_eq!(of(20, 0), None, "it was made anew");
        let told = of(5, 20).unwrap();
        assert!(told.contains("partition 3") && told.contains("from offset 5 to before 20"), "{told}");
    }
}
