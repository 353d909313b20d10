//! The checks of a log on Kafka: those of a start, by reading alone.

use super::Finding;
use crate::config::Kafka;

/// What a start would meet.
#[cfg(feature = "kafka")]
pub(super) async fn log(kafka: &Kafka) -> Vec<Finding> {
    use std::sync::Arc;

    use super::Verdict;
    use crate::{clock::SystemClock, wiring::log::kafka_options};

    let verdict = |verdict| match verdict {
        reenact_kafka::Verdict::Fine => Verdict::Ok,
        reenact_kafka::Verdict::Doubtful => Verdict::Warning,
        reenact_kafka::Verdict::Wrong => Verdict::Failure,
    };
    let options = kafka_options(kafka, Arc::new(SystemClock), None);
    match tokio::task::spawn_blocking(move || reenact_kafka::examine(&options)).await {
        Ok(found) => {
            found.into_iter().map(|found| Finding::new(found.check, verdict(found.verdict), found.text)).collect()
        }
        Err(error) => vec![Finding::new("log", Verdict::Failure, format!("the checks were stopped: {error}"))],
    }
}

/// What a build without Kafka says.
#[cfg(not(feature = "kafka"))]
#[expect(clippy::unused_async, reason = "the other build waits for brokers")]
pub(super) async fn log(kafka: &Kafka) -> Vec<Finding> {
    use super::Verdict;

    vec![Finding::new("log", Verdict::Failure, crate::wiring::log::no_kafka(&kafka.brokers).to_string())]
}
