//! How the embedded log compares with the least that its disk and its JSON allow, as ratios of one run.
//!
//! * Commits with 1 and with 16 events each, against a bare loop that appends the same payloads to a file and
//!   calls `fdatasync`. The two take turns, so that a busy disk slows both; the median of the rounds counts.
//! * A replay with decoding, against decoding the same payloads from memory. The log reads on a second
//!   thread, so this wants two free cores.
//!
//! `cargo bench -p reenact-tests --bench log`; the numbers are for reading, nothing fails.

use std::{
    fs::{File, OpenOptions},
    hint::black_box,
    io::Write,
    sync::Arc,
    time::{Duration, Instant},
};

use futures::StreamExt;
use reenact_embedded::{EmbeddedLog, Options};
use reenact_events::{
    Batch, BatchId, CommitOutcome, EventLog, Lease, NewEvent, NodeId, Offset, PartitionId, RunId, SessionId, StreamKey,
    Timestamp, UserId,
    event::{StepCompleted, StepResult, ToolCallRequest, Usage},
    ids, upcast,
};
use tempfile::TempDir;

const ROUND: Duration = Duration::from_millis(700);
const ROUNDS: usize = 7;
const ROUND_BATCHES: usize = 5000;
const REPLAYED: u64 = 200_000;

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    println!("{:<34} {:>12} {:>12} {:>7} {:>7}", "", "baseline/s", "log/s", "ratio", "target");
    for (events, target) in [(1, 0.7), (16, 0.5)] {
        let (bare, log) = runtime.block_on(commits(events));
        report(&format!("commits with {events} event(s) each"), bare, log, target);
    }
    let (memory, log) = runtime.block_on(replays());
    report("replay and decode, events", memory, log, 0.7);
}

fn report(what: &str, baseline: f64, log: f64, target: f64) {
    println!("{what:<34} {baseline:>12.0} {log:>12.0} {:>7.2} {target:>7.2}", log / baseline);
}

/// An event as most of a log's are: a model's turn with a tool call.
fn event(seq: u64) -> NewEvent {
    let call = ToolCallRequest {
        id: format!("call_{seq:08}").into(),
        name: "find_order".into(),
        arguments: r#"{"order": "A-1042", "fields": ["state", "due", "carrier"]}"#.into(),
        refusal: None,
    };
    let text = "I shall look that up in the list of orders, and then tell you when it arrives. ".repeat(2);
    let result = StepResult::Model {
        text: text.as_str().into(),
        reasoning: None,
        tool_calls: vec![call],
        usage: Some(Usage { input_tokens: 1200 + seq, output_tokens: 64, ..Usage::default() }),
        finish_reason: Some("tool_calls".into()),
        first_token_ms: Some(180),
    };
    let run_id = RunId::trusted(&ids::derived("run", &[&(seq / 20).to_string()]).to_string());
    let step = u32::try_from(seq % 20).expect("is small");
    let step = StepCompleted { run_id, step, attempt: 1, result, duration_ms: 900, unfit: None, session_state: None };
    let key = StreamKey::session(&SessionId::trusted("8e4b5f0a-6a59-4bd6-9d0e-3f6f3a1f2b11"));
    let owner = Some(UserId::trusted("u-1"));
    NewEvent::new(key, seq, Timestamp(1_700_000_000_000), None, owner, &step.into()).expect("encodes")
}

/// Makes batches of so many events.
struct Batches {
    events: u64,
    next: u64,
}

impl Batches {
    fn make(&mut self) -> Batch {
        let events = (self.next..self.next + self.events).map(event).collect();
        self.next += self.events;
        let id = BatchId(ids::derived("batch", &[&self.next.to_string()]));
        Batch::new(id, events)
    }
}

/// Commits per second: the bare file's and the log's.
async fn commits(events: u64) -> (f64, f64) {
    let directory = TempDir::new_in(".").expect("a directory");
    let mut file = OpenOptions::new().append(true).create(true).open(directory.path().join("bare")).expect("a file");
    let log = open(&directory);
    let lease = claim(&log).await;
    let mut batches = Batches { events, next: 0 };
    let (mut bare_rates, mut log_rates) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        // Made beforehand: that is neither side's work.
        let made: Vec<Batch> = (0..ROUND_BATCHES).map(|_| batches.make()).collect();
        bare_rates.push(bare_round(&mut file, &made));
        log_rates.push(log_round(&log, &lease, &made).await);
    }
    (median(bare_rates), median(log_rates))
}

fn bare_round(file: &mut File, batches: &[Batch]) -> f64 {
    let (start, mut count, mut bytes) = (Instant::now(), 0.0, Vec::new());
    for batch in batches.iter().take_while(|_| start.elapsed() < ROUND) {
        bytes.clear();
        batch.events.iter().for_each(|event| bytes.extend_from_slice(event.data.as_bytes()));
        file.write_all(&bytes).expect("writes");
        file.sync_data().expect("syncs");
        count += 1.0;
    }
    count / start.elapsed().as_secs_f64()
}

async fn log_round(log: &EmbeddedLog, lease: &Lease, batches: &[Batch]) -> f64 {
    let (start, mut count) = (Instant::now(), 0.0);
    for batch in batches.iter().take_while(|_| start.elapsed() < ROUND) {
        commit(log, lease, batch).await;
        count += 1.0;
    }
    count / start.elapsed().as_secs_f64()
}

/// Events per second: decoded from memory, and read from the log and decoded.
async fn replays() -> (f64, f64) {
    let directory = TempDir::new_in(".").expect("a directory");
    let log = open(&directory);
    let lease = claim(&log).await;
    let mut batches = Batches { events: 500, next: 0 };
    let mut payloads = Vec::new();
    while batches.next < REPLAYED {
        let batch = batches.make();
        commit(&log, &lease, &batch).await;
        payloads.extend(batch.events.into_iter().map(|event| (event.kind, event.data)));
    }
    let lease = claim(&log).await;
    let (mut memory_rates, mut log_rates) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let start = Instant::now();
        for (kind, data) in &payloads {
            black_box(upcast::decode(kind, data).expect("decodes"));
        }
        memory_rates.push(REPLAYED as f64 / start.elapsed().as_secs_f64());
        log_rates.push(replay_round(&log, &lease).await);
    }
    (median(memory_rates), median(log_rates))
}

async fn replay_round(log: &EmbeddedLog, lease: &Lease) -> f64 {
    let (start, mut count) = (Instant::now(), 0);
    let mut replay = log.replay(lease, Offset(0));
    while let Some(recorded) = replay.next().await {
        black_box(recorded.expect("reads").decode().expect("decodes"));
        count += 1;
    }
    assert_eq!(count, REPLAYED + 2, "all events and the two claims");
    REPLAYED as f64 / start.elapsed().as_secs_f64()
}

async fn commit(log: &EmbeddedLog, lease: &Lease, batch: &Batch) {
    let outcome = log.commit(lease, batch).await;
    assert!(matches!(outcome, CommitOutcome::Committed(_)), "{outcome:?}");
}

fn open(directory: &TempDir) -> EmbeddedLog {
    let options = Options::new(Arc::new(Timestamp(1_700_000_000_000)));
    EmbeddedLog::open(&directory.path().join("log"), options).expect("opens")
}

async fn claim(log: &EmbeddedLog) -> Lease {
    log.claim(PartitionId(0), NodeId::trusted("bench")).await.expect("claims")
}

fn median(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates[rates.len() / 2]
}
