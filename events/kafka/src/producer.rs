//! A transactional producer that never waits longer than it must.
//!
//! rdkafka's `commit_transaction` first flushes, in slices of 100 ms that do not end early. Deliveries come
//! back through a channel here and are awaited before the commit, so the flush finds nothing to wait for.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        mpsc::{self, Receiver, SyncSender},
    },
    thread,
    time::{Duration, Instant},
};

use rdkafka::{
    ClientConfig, ClientContext, Message, TopicPartitionList,
    config::{FromClientConfigAndContext, RDKafkaLogLevel},
    consumer::ConsumerGroupMetadata,
    error::{KafkaError, KafkaResult},
    message::OwnedHeaders,
    producer::{BaseRecord, DeliveryResult, Producer as _, ProducerContext, ThreadedProducer},
    types::RDKafkaErrorCode,
    util::Timeout,
};

use reenact_events::Offset;

use crate::client::{self, Trouble};

/// Longer than `message.timeout.ms`: every record has an outcome by then.
const DELIVERY_WAIT: Duration = Duration::from_secs(15);

/// What a call may take beyond its time-out before it counts as one that does not come back.
const CALL_MARGIN: Duration = Duration::from_secs(2);

/// Deliveries that were not taken yet; the thread that tells them waits then.
const DELIVERIES_AHEAD: usize = 1_024;

struct Context {
    delivered: SyncSender<(usize, KafkaResult<Delivered>)>,
    trouble: Trouble,
}

impl ClientContext for Context {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, text: &str) {
        client::log(level, facility, text);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        client::note(&self.trouble, &error, reason);
    }
}

impl ProducerContext for Context {
    type DeliveryOpaque = usize;

    fn delivery(&self, result: &DeliveryResult<'_>, number: usize) {
        let outcome = match result {
            Ok(message) => {
                let at_ms = message.timestamp().to_millis().unwrap_or_default();
                let place = (message.topic().to_owned(), message.partition());
                Ok(Delivered { place, offset: message.offset(), at_ms })
            }
            Err((error, _)) => Err(error.clone()),
        };
        // A producer that is being dropped has nobody who waits.
        self.delivered.send((number, outcome)).unwrap_or_default();
    }
}

/// Where a record stands. A failed one stands at -1.
#[derive(Debug, Clone, Default)]
struct Delivered {
    /// Topic and partition.
    place: (String, i32),
    offset: i64,
    /// The broker's time, in topics that take it.
    at_ms: i64,
}

/// A record to be sent.
pub(crate) struct Outgoing<'a> {
    pub(crate) topic: &'a str,
    pub(crate) partition: Option<i32>,
    pub(crate) key: Option<&'a [u8]>,
    pub(crate) value: Option<&'a [u8]>,
    pub(crate) headers: Option<OwnedHeaders>,
}

/// See the module.
pub(crate) struct Producer {
    /// Dropped first: the thread that tells deliveries must not wait for a place here while it is joined.
    deliveries: Receiver<(usize, KafkaResult<Delivered>)>,
    inner: Arc<ThreadedProducer<Context>>,
    /// Where each record of the transaction went, by number.
    sent: Vec<Option<Delivered>>,
    is_stuck: bool,
}

impl Producer {
    pub(crate) fn new(config: &ClientConfig, trouble: Trouble) -> KafkaResult<Self> {
        let (delivered, deliveries) = mpsc::sync_channel(DELIVERIES_AHEAD);
        let inner = ThreadedProducer::from_config_and_context(config, Context { delivered, trouble })?;
        Ok(Self { deliveries, inner: Arc::new(inner), sent: Vec::new(), is_stuck: false })
    }

    pub(crate) fn init(&self, timeout: Duration) -> KafkaResult<()> {
        self.inner.init_transactions(timeout)
    }

    pub(crate) fn begin(&mut self) -> KafkaResult<()> {
        self.clear();
        self.inner.begin_transaction()
    }

    /// Forgets what was sent before: numbers count from 0 again.
    pub(crate) fn clear(&mut self) {
        self.sent.clear();
        while self.deliveries.try_recv().is_ok() {}
    }

    /// Sends a record; its number counts from 0 in the transaction.
    pub(crate) fn send(&mut self, record: Outgoing<'_>) -> KafkaResult<usize> {
        let number = self.sent.len();
        let mut base = BaseRecord::<[u8], [u8], usize>::with_opaque_to(record.topic, number);
        if let Some(partition) = record.partition {
            base = base.partition(partition);
        }
        if let Some(key) = record.key {
            base = base.key(key);
        }
        if let Some(value) = record.value {
            base = base.payload(value);
        }
        if let Some(headers) = record.headers {
            base = base.headers(headers);
        }
        self.inner.send(base).map_err(|(error, _)| self.cause(error))?;
        self.sent.push(None);
        Ok(number)
    }

    /// Waits until every record has arrived. The first failure is told once all have an outcome.
    pub(crate) fn drain(&mut self) -> KafkaResult<()> {
        let (deadline, mut failure) = (Instant::now() + DELIVERY_WAIT, None);
        let mut open = self.sent.iter().filter(|sent| sent.is_none()).count();
        while open > 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.deliveries.recv_timeout(left) {
                Ok((number, Ok(delivered))) => {
                    self.sent[number] = Some(delivered);
                    open -= 1;
                }
                Ok((number, Err(error))) => {
                    self.sent[number] = Some(Delivered { offset: -1, ..Delivered::default() });
                    open -= 1;
                    failure = failure.or(Some(error));
                }
                Err(_) => return Err(KafkaError::MessageProduction(RDKafkaErrorCode::MessageTimedOut)),
            }
        }
        // A record counts as in flight until whoever told its delivery has come back; the commit's flush would wait
        // for the last one in a slice of 100 ms.
        while self.inner.in_flight_count() > 0 && Instant::now() < deadline {
            thread::yield_now();
        }
        failure.map_or(Ok(()), |error| Err(self.cause(error)))
    }

    /// Once a producer is fenced, records are purged and calls fail with that; this is why.
    fn cause(&self, error: KafkaError) -> KafkaError {
        let fatal = self.inner.client().fatal_error();
        fatal.map_or(error, |(code, _)| KafkaError::MessageProduction(code))
    }

    /// Where a record of this transaction stands, once it was drained.
    pub(crate) fn offset(&self, number: usize) -> Option<u64> {
        u64::try_from(self.sent.get(number)?.as_ref()?.offset).ok()
    }

    /// The last record of this transaction in each partition of a topic other than `topic`, once it was drained.
    pub(crate) fn ends_outside(&self, topic: &str) -> Vec<((String, i32), Offset)> {
        let mut ends = BTreeMap::<_, Offset>::new();
        for Delivered { place, offset, .. } in self.sent.iter().flatten().filter(|sent| sent.place.0 != topic) {
            let end = ends.entry(place.clone()).or_insert(Offset(0));
            *end = (*end).max(Offset(u64::try_from(*offset).unwrap_or_default()));
        }
        ends.into_iter().collect()
    }

    /// When the broker took a record of this transaction, by its own clock, milliseconds since 1970.
    pub(crate) fn taken_at_ms(&self, number: usize) -> Option<i64> {
        Some(self.sent.get(number)?.as_ref()?.at_ms)
    }

    /// Puts offsets into the transaction.
    ///
    /// librdkafka may never come back from this, whatever its time-out: it waits for the group's coordinator to
    /// change its state, which a coordinator that has moved away does not do (librdkafka #5456, #5511). So the call
    /// has a thread of its own, and one that stays away is left behind with the producer.
    pub(crate) fn send_offsets(
        &mut self,
        offsets: &TopicPartitionList,
        group: &Arc<ConsumerGroupMetadata>,
        timeout: Duration,
    ) -> KafkaResult<()> {
        let (inner, offsets, group) = (self.inner.clone(), offsets.clone(), group.clone());
        let (done, outcome) = mpsc::sync_channel(1);
        let call = move || {
            // Nobody waits any more for one that comes back late.
            done.send(inner.send_offsets_to_transaction(&offsets, &group, timeout)).unwrap_or_default();
        };
        if let Err(error) = thread::Builder::new().name("log offsets".to_owned()).spawn(call) {
            tracing::error!(%error, "no thread to put offsets into a transaction with");
            return Err(KafkaError::MessageProduction(RDKafkaErrorCode::Fail));
        }
        outcome.recv_timeout(timeout + CALL_MARGIN).unwrap_or_else(|_| {
            self.is_stuck = true;
            Err(KafkaError::MessageProduction(RDKafkaErrorCode::OperationTimedOut))
        })
    }

    /// Whether a call has not come back: then nothing else may be asked of this producer.
    pub(crate) fn is_stuck(&self) -> bool {
        self.is_stuck
    }

    /// The only time-out that leaves librdkafka's state in order is none.
    pub(crate) fn commit(&self) -> KafkaResult<()> {
        self.inner.commit_transaction(Timeout::Never)
    }

    pub(crate) fn abort(&self) -> KafkaResult<()> {
        self.inner.abort_transaction(Timeout::Never)
    }
}
