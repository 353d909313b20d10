//! The checks of a log on Kafka: those of a start, by reading alone.

use super::{Finding, Verdict};
use crate::{
    config::{Config, Kafka},
    wiring::log,
};

/// What a start would meet.
#[cfg(feature = "kafka")]
pub(super) async fn log(config: &Config, kafka: &Kafka) -> Vec<Finding> {
    let (config, kafka) = (config.clone(), kafka.clone());
    let looked = tokio::task::spawn_blocking(move || look(&config, &kafka)).await;
    looked.unwrap_or_else(|error| {
        vec![Finding::new("log", Verdict::Failure, format!("the checks were stopped: {error}"))]
    })
}

#[cfg(feature = "kafka")]
fn look(config: &Config, kafka: &Kafka) -> Vec<Finding> {
    use std::sync::Arc;

    use reenact_kafka::Verdict as Found;

    use crate::clock::SystemClock;

    let known = match log::known(&config.data) {
        Ok(known) => known,
        Err(error) => return vec![Finding::new("kafka log", Verdict::Failure, format!("{error:#}"))],
    };
    let options = reenact_kafka::Options { known, ..log::kafka_options(kafka, Arc::new(SystemClock), None) };
    let (found, is_there) = reenact_kafka::examine(&options);
    let mut findings: Vec<_> = found
        .into_iter()
        .map(|found| {
            let verdict = match found.verdict {
                Found::Fine => Verdict::Ok,
                Found::Doubtful => Verdict::Warning,
                Found::Wrong => Verdict::Failure,
            };
            Finding::new(found.check, verdict, found.text)
        })
        .collect();
    if is_there {
        findings.push(objects(config, kafka, &options));
        findings.push(content(config, kafka));
    }
    findings
}

/// The object store is the deployment's.
#[cfg(feature = "kafka")]
fn objects(config: &Config, kafka: &Kafka, options: &reenact_kafka::Options) -> Finding {
    const CHECK: &str = "object store";
    let shown = config.objects.display();
    let mark = match crate::wiring::objects::read(&config.objects) {
        Ok(mark) => mark,
        Err(error) => return Finding::new(CHECK, Verdict::Failure, format!("{error:#}")),
    };
    match (mark, log::look_at_objects(options)) {
        (_, Err(error)) => Finding::new(CHECK, Verdict::Failure, error.to_string()),
        (Some(mark), Ok(Some(named))) => {
            match log::other_objects(config, kafka, mark.log_id, Some(mark.store), named) {
                Some(other) => Finding::new(CHECK, Verdict::Failure, other.to_string()),
                None => Finding::new(CHECK, Verdict::Ok, format!("`{shown}` is the deployment's")),
            }
        }
        (None, Ok(Some(named))) => {
            let text = format!(
                "`{shown}` is not the deployment's object store, which is {named}: give every node the same `--objects`"
            );
            Finding::new(CHECK, Verdict::Failure, text)
        }
        (_, Ok(None)) => Finding::new(CHECK, Verdict::Ok, format!("the first start makes `{shown}` the deployment's")),
    }
}

/// Users' content is stored as the log has it.
#[cfg(feature = "kafka")]
fn content(config: &Config, kafka: &Kafka) -> Finding {
    const CHECK: &str = "content";
    let wanted = config.content.as_str();
    let known = match log::look_at_content(kafka) {
        Ok(known) => known,
        Err(error) => return Finding::new(CHECK, Verdict::Failure, format!("{error:#}")),
    };
    match known.map(|known| log::other_content(kafka, config.content, known)) {
        None => Finding::new(CHECK, Verdict::Ok, format!("the first start makes it `{wanted}`")),
        Some(None) => Finding::new(CHECK, Verdict::Ok, format!("`{wanted}`, as the log has it")),
        Some(Some(other)) => Finding::new(CHECK, Verdict::Failure, other.to_string()),
    }
}

/// What a build without Kafka says.
#[cfg(not(feature = "kafka"))]
pub(super) async fn log(_: &Config, kafka: &Kafka) -> Vec<Finding> {
    vec![Finding::new("log", Verdict::Failure, log::no_kafka(&kafka.brokers).to_string())]
}
