//! The only owner of a log of one partition.

use std::{sync::Arc, time::Duration};

use futures::{StreamExt, stream::BoxStream};
use reenact_events::{
    Batch, BatchId, CommitOutcome, EventLog, Lease, NewEvent, NodeId, Offset, Ownership, PartitionId, RunId, SessionId,
    StreamKey, Timestamp,
    event::{StepCompleted, StepResult},
    ids::derived,
};
use reenact_kafka::{KafkaLog, Options};

const PARTITION: PartitionId = PartitionId(0);

pub(crate) struct Owner {
    log: KafkaLog,
    lease: Lease,
    next: u64,
    batches: u64,
    _member: BoxStream<'static, Ownership>,
}

impl Owner {
    pub(crate) async fn of(brokers: &str, prefix: &str) -> Self {
        let options = Options::new(brokers, Arc::new(Timestamp(1_700_000_000_000)));
        let options = Options { prefix: prefix.to_owned(), partitions: 1, ..options };
        let log = KafkaLog::connect(options).await.expect("the broker answers");
        let mut member = log.ownership();
        while !matches!(member.next().await, Some(Ownership::Granted(PARTITION))) {}
        let lease = log.claim(PARTITION, NodeId::trusted(prefix)).await.expect("it is ours");
        log.replay(&lease, Offset(0)).for_each(|read| async move { drop(read.expect("it can be read")) }).await;
        Self { log, lease, next: 0, batches: 0, _member: member }
    }

    fn events(&self, count: usize) -> Vec<NewEvent> {
        let key = StreamKey::session(&SessionId::trusted("8e4b5f0a-6a59-4bd6-9d0e-3f6f3a1f2b11"));
        let text = "I shall look that up in the list of orders, and then tell you when it arrives. ".repeat(3);
        let event = |seq: u64| {
            let result = StepResult::Tool { content: text.as_str().into(), error: false, media: Vec::new() };
            let run_id = RunId::trusted(&derived("run", &[&(seq / 20).to_string()]).to_string());
            let step = u32::try_from(seq % 20).expect("is small");
            let step =
                StepCompleted { run_id, step, attempt: 1, result, duration_ms: 900, unfit: None, session_state: None };
            let now = Timestamp(1_700_000_000_000);
            NewEvent::new(key.clone(), seq, now, None, None, &step.into()).expect("encodes")
        };
        (self.next..).take(count).map(event).collect()
    }

    /// The bytes that as many events would have.
    pub(crate) fn texts(&self, count: usize) -> Vec<String> {
        self.events(count).iter().map(|event| event.data.to_string()).collect()
    }

    pub(crate) async fn commit(&mut self, count: usize) {
        let id = BatchId(derived("batch", &[&self.batches.to_string()]));
        let batch = Batch::new(id, self.events(count));
        self.batches += 1;
        self.next += count as u64;
        match self.log.commit(&self.lease, &batch).await {
            CommitOutcome::Committed(_) => {}
            other => panic!("it did not commit: {other:?}"),
        }
    }

    /// Reads and decodes everything; how many events there were.
    pub(crate) async fn replay(&self) -> usize {
        let last = self.log.last_event(PARTITION).await.expect("it can be read").expect("there are events");
        let (mut tail, mut count) = (self.log.tail(PARTITION, Offset(0)), 0);
        loop {
            let next = tokio::time::timeout(Duration::from_secs(60), tail.next()).await;
            let recorded = next.expect("it goes on").expect("it has no end").expect("it can be read");
            recorded.decode().expect("it is ours");
            count += 1;
            if recorded.offset == last {
                return count;
            }
        }
    }
}
