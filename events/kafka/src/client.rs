//! What librdkafka tells beside the answers to calls, and why the log cannot be used at present.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use rdkafka::{ClientContext, config::RDKafkaLogLevel, error::KafkaError};
use reenact_events::PartitionId;

/// What is in trouble. Each is well again by itself: brokers that answer prove nothing about a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Part {
    /// The brokers, or the leaders of the events.
    Cluster,
    /// The membership of the group.
    Group,
    /// Writing to a partition.
    Partition(PartitionId),
}

/// Why the log cannot be used at present, for readiness and for errors.
#[derive(Debug, Clone, Default)]
pub(crate) struct Trouble(Arc<Mutex<Known>>);

#[derive(Debug, Default)]
struct Known {
    reasons: BTreeMap<Part, Arc<str>>,
    /// What a client said last of its own accord. It may be about one broker of three, so it is no trouble; it
    /// says why a call failed, though, where the call knows only that its time was up.
    words: Option<Arc<str>>,
}

impl Trouble {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The part is in trouble, or is well.
    pub(crate) fn set(&self, part: Part, what: Option<Arc<str>>) {
        let mut known = self.known();
        match what {
            Some(what) => known.reasons.insert(part, what),
            None => known.reasons.remove(&part),
        };
    }

    /// The first trouble there is, the most general first.
    pub(crate) fn get(&self) -> Option<Arc<str>> {
        self.known().reasons.values().next().cloned()
    }

    pub(crate) fn words(&self) -> Option<Arc<str>> {
        self.known().words.clone()
    }

    pub(crate) fn forget_words(&self) {
        self.known().words = None;
    }
}

/// The context of clients that need no other.
#[derive(Clone, Default)]
pub(crate) struct Plain {
    pub(crate) trouble: Trouble,
}

impl ClientContext for Plain {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, text: &str) {
        log(level, facility, text);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        note(&self.trouble, &error, reason);
    }
}

impl rdkafka::consumer::ConsumerContext for Plain {}

/// Takes down an error that belongs to no call.
pub(crate) fn note(trouble: &Trouble, error: &KafkaError, reason: &str) {
    tracing::debug!(target: "reenact_kafka::client", %error, reason, "librdkafka says");
    // That all brokers are down is no reason: what was said before it is.
    if error.rdkafka_error_code() != Some(rdkafka::types::RDKafkaErrorCode::AllBrokersDown) {
        trouble.known().words = Some(reason.into());
    }
}

/// librdkafka repeats itself about every broker and every second of an outage, so its lines are for those who
/// look for them; what matters comes back as the error of a call.
pub(crate) fn log(level: RDKafkaLogLevel, facility: &str, text: &str) {
    tracing::debug!(target: "reenact_kafka::client", ?level, facility, text, "librdkafka logs");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_that_is_well_again_does_not_hide_another_that_is_not() {
        let trouble = Trouble::default();
        trouble.set(Part::Partition(PartitionId(1)), Some("no room".into()));
        trouble.set(Part::Cluster, Some("away".into()));
        assert_eq!(trouble.get().as_deref(), Some("away"));
        trouble.set(Part::Cluster, None);
        assert_eq!(trouble.get().as_deref(), Some("no room"));
        trouble.set(Part::Partition(PartitionId(2)), None);
        assert!(trouble.get().is_some());
        trouble.set(Part::Partition(PartitionId(1)), None);
        assert_eq!(trouble.get(), None);
    }
}
