//! What librdkafka tells beside the answers to calls: its errors, for whoever asks why nothing works.

use std::sync::{Arc, Mutex, PoisonError};

use rdkafka::{ClientContext, config::RDKafkaLogLevel, error::KafkaError};

/// Why the cluster cannot be used at present, as far as any client has noticed.
#[derive(Debug, Clone, Default)]
pub(crate) struct Trouble(Arc<Mutex<Option<Arc<str>>>>);

impl Trouble {
    pub(crate) fn set(&self, what: Option<Arc<str>>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = what;
    }

    pub(crate) fn get(&self) -> Option<Arc<str>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
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
    trouble.set(Some(format!("{error}: {reason}").into()));
}

/// librdkafka repeats itself about every broker and every second of an outage, so its lines are for those who
/// look for them; what matters comes back as the error of a call.
pub(crate) fn log(level: RDKafkaLogLevel, facility: &str, text: &str) {
    tracing::debug!(target: "reenact_kafka::client", ?level, facility, text, "librdkafka logs");
}
