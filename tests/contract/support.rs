//! Short ways to say what the rules need said.

use std::collections::BTreeMap;

use futures::{StreamExt, TryStreamExt, stream::BoxStream};
use reenact_events::{
    AgentId, Arrival, Batch, BatchId, Command, CommandBody, CommandId, CommandRecord, CommitOutcome, Committed,
    EventLog, Forward, Lease, LogError, NewEvent, NodeId, Offset, PartitionId, Recorded, RunId, SessionId, StreamKey,
    Timestamp, UserId,
    event::{RunQueued, SessionUpdated},
    ids,
};

pub(crate) const FIRST: PartitionId = PartitionId(0);
/// Each waits for brokers by itself.
const CLAIMS: u32 = 5;

/// Makes batches whose sequences continue their streams.
#[derive(Default)]
pub(crate) struct Writer {
    sequences: BTreeMap<StreamKey, u64>,
    batches: u64,
    prefix: String,
}

impl Writer {
    /// A writer whose streams no other writer uses.
    pub(crate) fn of(partition: PartitionId) -> Self {
        Self::named(&format!("p{partition}-"))
    }

    /// A writer whose streams and batches begin with this.
    pub(crate) fn named(prefix: &str) -> Self {
        Self { prefix: prefix.to_owned(), ..Self::default() }
    }

    /// The next event of a session, with this text in it.
    pub(crate) fn event(&mut self, session: &str, text: &str) -> NewEvent {
        let session_id = SessionId::trusted(&format!("{}{session}", self.prefix));
        let name = Some(text.to_owned());
        let event = SessionUpdated { session_id: session_id.clone(), name, state: None, metadata: None, summary: None };
        let seq = self.next(&StreamKey::session(&session_id));
        NewEvent::new(StreamKey::session(&session_id), seq, Timestamp(5), None, None, &event.into()).expect("encodes")
    }

    /// An event with every optional field of the envelope set.
    pub(crate) fn full_event(&mut self, session: &str, run: &str) -> NewEvent {
        let session_id = SessionId::trusted(&format!("{}{session}", self.prefix));
        let queued = RunQueued {
            fork: None,
            scheduled_by: None,
            run_id: RunId::trusted(run),
            session_id: session_id.clone(),
            user_id: Some(UserId::trusted("Zoë 🙂")),
            run_index: 0,
            agent_id: AgentId::trusted("a"),
            agent_version: "v".into(),
            input: "a\0b\n\"q\" 漢字 \u{2028}".into(),
            media: Vec::new(),
            metadata: None,
            stream: true,
            background: false,
            output_schema: None,
            session_state: None,
        };
        let seq = self.next(&StreamKey::session(&session_id));
        let (cause, owner) = (Some(CommandId::trusted("c ö")), Some(UserId::trusted("Zoë 🙂")));
        NewEvent::new(StreamKey::session(&session_id), seq, Timestamp(-5), cause, owner, &queued.into())
            .expect("encodes")
    }

    /// A batch of these events.
    pub(crate) fn batch(&mut self, events: Vec<NewEvent>) -> Batch {
        self.batches += 1;
        let id = BatchId(ids::derived("batch", &[&self.prefix, &self.batches.to_string()]));
        Batch::new(id, events)
    }

    /// A batch of `events` small events.
    pub(crate) fn some(&mut self, events: usize) -> Batch {
        let events = (0..events).map(|number| self.event("s", &number.to_string())).collect();
        self.batch(events)
    }

    fn next(&mut self, key: &StreamKey) -> u64 {
        let next = self.sequences.entry(key.clone()).or_default();
        *next += 1;
        *next - 1
    }
}

pub(crate) fn node(name: &str) -> NodeId {
    NodeId::trusted(name)
}

/// Asks again while the log is not available, as whoever claims does: brokers may be busy.
pub(crate) async fn claim(log: &dyn EventLog, partition: PartitionId) -> Lease {
    for _ in 0..CLAIMS {
        match log.claim(partition, node("n1")).await {
            Err(LogError::Unavailable { .. }) => {}
            claimed => return claimed.expect("claims"),
        }
    }
    panic!("partition {partition} cannot be claimed in {CLAIMS} tries");
}

pub(crate) async fn commit(log: &dyn EventLog, lease: &Lease, batch: &Batch) -> Committed {
    loop {
        match log.commit(lease, batch).await {
            CommitOutcome::Committed(committed) => return committed,
            // A broker's group may be busy with another member: nothing was written, the contract says to send it again.
            CommitOutcome::Resend { .. } => {}
            other => panic!("not committed but {other:?}"),
        }
    }
}

pub(crate) async fn replay(log: &dyn EventLog, lease: &Lease, from: Offset) -> Vec<Recorded> {
    log.replay(lease, from).try_collect().await.expect("replays")
}

/// Everything that is in the partition now.
pub(crate) async fn all(log: &dyn EventLog, partition: PartitionId) -> Vec<Recorded> {
    let (low, next) = log.bounds(partition).await.expect("has bounds");
    let mut tail = log.tail(partition, low);
    let mut events = Vec::new();
    while events.last().map_or(low, |last: &Recorded| last.offset.next()).next() < next {
        events.push(tail.next().await.expect("a tail has no end").expect("reads"));
    }
    events
}

pub(crate) async fn take<T>(stream: &mut BoxStream<'static, Result<T, LogError>>, count: usize) -> Vec<T> {
    let mut taken = Vec::with_capacity(count);
    for _ in 0..count {
        taken.push(stream.next().await.expect("has no end").expect("reads"));
    }
    taken
}

/// A command for the session; the id says which.
pub(crate) fn command(id: &str) -> Command {
    let (session_id, reason) = (SessionId::trusted("s"), Some("what a user said".into()));
    let body = CommandBody::DeleteSession { session_id, runs: None, reason };
    Command::new(CommandId::trusted(id), Some(UserId::trusted("u")), body)
}

pub(crate) fn forward(partition: PartitionId, id: &str) -> Forward {
    Forward { partition, command: command(id) }
}

pub(crate) fn names(records: &[CommandRecord]) -> Vec<&str> {
    records.iter().map(name).collect()
}

fn name(record: &CommandRecord) -> &str {
    match &record.arrival {
        Arrival::Command(command) => command.id.as_str(),
        Arrival::Poison(letter) => panic!("no command: {}", letter.reason),
    }
}

/// The last partition: with one partition it is the first as well.
pub(crate) fn last(log: &dyn EventLog) -> PartitionId {
    PartitionId(log.partitions() - 1)
}
