//! Live frames through a topic: no transactions, minutes of retention, lost without harm.

use std::sync::{Arc, mpsc};

use futures::{
    StreamExt,
    stream::{self, BoxStream},
};
use rdkafka::{ClientContext, config::RDKafkaLogLevel, error::KafkaError};
use rdkafka::{
    config::FromClientConfigAndContext,
    producer::{BaseRecord, DeliveryResult, ProducerContext, ThreadedProducer},
};
use reenact_events::{LiveBus, LogError};
use tokio_stream::wrappers::ReceiverStream;

use crate::{
    Options,
    answers::{self, From},
    client::{self, Trouble},
    reader,
};

struct Context(Trouble);

impl ClientContext for Context {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, text: &str) {
        client::log(level, facility, text);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        client::note(&self.0, &error, reason);
    }
}

impl ProducerContext for Context {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        if let Err((error, _)) = result {
            tracing::debug!(%error, "a live frame was lost");
        }
    }
}

/// The live frames of a deployment.
pub struct KafkaLive {
    options: Options,
    topic: Arc<str>,
    producer: ThreadedProducer<Context>,
    trouble: Trouble,
}

impl KafkaLive {
    /// Carries frames through the deployment's topic, which exists once a log is connected.
    ///
    /// # Errors
    /// When the properties are not understood.
    pub fn new(options: &Options) -> Result<Self, LogError> {
        let (trouble, topic) = (Trouble::default(), options.topics().live.into());
        let mut config = options.plain_producer();
        config.set("linger.ms", "5").set("queue.buffering.max.messages", "100000");
        let producer = ThreadedProducer::from_config_and_context(&config, Context(trouble.clone()))
            .map_err(|error| reader::unavailable("no producer", &error))?;
        Ok(Self { options: options.clone(), topic, producer, trouble })
    }
}

impl LiveBus for KafkaLive {
    fn send(&self, key: &str, frame: Vec<u8>) {
        let record = BaseRecord::to(&self.topic).key(key).payload(&frame);
        if let Err((error, _)) = self.producer.send(record) {
            tracing::debug!(%error, "a live frame was lost");
        }
    }

    fn frames(&self) -> BoxStream<'static, (String, Vec<u8>)> {
        let (placed, _) = mpsc::sync_channel(1);
        let mut config = self.options.reader();
        config.set("fetch.wait.max.ms", "20");
        match answers::follow(config, self.trouble.clone(), self.topic.clone(), From::Kept, placed) {
            Ok(frames) => ReceiverStream::new(frames).boxed(),
            Err(error) => {
                tracing::error!(%error, "live frames of other nodes are not shown");
                stream::pending().boxed()
            }
        }
    }
}
