//! Looks out for a change of a refused partition's log: an acceptance of what is lost is an event like any other, and
//! whoever wrote it, from whichever process, wants the partition to go on.

use std::time::Duration;

use reenact_events::{EventLog, Offset, PartitionId};

/// How often the log is looked at.
const EVERY: Duration = Duration::from_secs(2);

/// Waits until the partition's last event is another one than is known; what it is then.
///
/// With nothing known that is at once: the partition was refused before anybody had looked where its log ends, and
/// what was written in between must not be missed. A claim that is refused at once writes nothing, so the second
/// look costs nothing.
pub(super) async fn changed(
    log: &dyn EventLog,
    partition: PartitionId,
    known: Option<Option<Offset>>,
) -> Option<Offset> {
    loop {
        tokio::time::sleep(EVERY).await;
        match log.last_event(partition).await {
            Ok(last) if known != Some(last) => return last,
            Ok(_) => {}
            Err(error) => tracing::debug!(%partition, %error, "a refused partition cannot be looked at for now"),
        }
    }
}
