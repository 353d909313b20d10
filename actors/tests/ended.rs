//! Where the runs of a session stand when they have ended: the latest in the session's entry, the others beside it.

use std::sync::Arc;

use reenact_actors::states::{Fact, States};
use reenact_events::{
    AgentId, BlobRef, ChainHash, Event, LogId, Offset, PartitionId, RunId, SessionId, StreamKey, Term, Text, Timestamp,
    event::{
        Resolution, RunCompleted, RunContinued, RunPaused, RunQueued, RunStarted, SessionDeleted, StepAnswered,
        StepResolved,
    },
    hold::Verdict,
};
use reenact_snapshots::{MemoryStore, Position, StateStore};

/// A session's stream, folded into a store that is opened anew before each event.
struct Stream {
    store: Arc<MemoryStore>,
    seq: u64,
}

impl Stream {
    fn states(&self) -> States {
        States::new(self.store.clone())
    }

    fn take(&mut self, event: &Event) {
        let position = Position {
            log_id: LogId(uuid::Uuid::from_u128(1)),
            partition: PartitionId(0),
            next_offset: Offset(self.seq + 1),
            term: Term(0),
            chain: ChainHash::default(),
        };
        let (key, seq) = (StreamKey::session(&session()), self.seq);
        self.states()
            .apply(&[Fact { key: &key, seq, at: Timestamp(5), cause: None, event }], position)
            .expect("applies");
        self.seq += 1;
    }

    fn begin(&mut self, index: u64, input: &str) {
        let queued = RunQueued {
            fork: None,
            scheduled_by: None,
            run_id: run(index),
            session_id: session(),
            user_id: None,
            run_index: index,
            agent_id: AgentId::trusted("a"),
            agent_version: "v".into(),
            input: Text::inline(input),
            media: Vec::new(),
            metadata: None,
            stream: false,
            background: false,
            output_schema: None,
            session_state: None,
        };
        self.take(&queued.into());
        self.take(&RunStarted { run_id: run(index) }.into());
    }

    fn complete(&mut self, index: u64) {
        self.take(&RunCompleted { run_id: run(index), content: Text::inline("done"), json: false }.into());
    }

    fn history(&self, before: u64, limit: usize) -> Vec<u64> {
        let runs = self.states().history(&session(), before, limit).expect("reads");
        runs.iter().map(|run| run.origin.run_index).collect()
    }
}

fn session() -> SessionId {
    SessionId::trusted("s")
}

fn run(index: u64) -> RunId {
    RunId::trusted(&format!("r{index}"))
}

/// Five runs of which number 1 is too large for one entry, and number 2 was paused and ends last.
fn five_runs() -> Stream {
    let mut stream = Stream { store: Arc::default(), seq: 0 };
    for (index, input) in [(0, "hello"), (1, &*"x".repeat(5_000)), (2, "pause"), (3, "hello"), (4, "hello")] {
        stream.begin(index, input);
        if index == 2 {
            stream.take(&RunPaused { run_id: run(index), reason: "in_doubt".into() }.into());
        } else {
            stream.complete(index);
        }
    }
    stream.take(&RunContinued { run_id: run(2) }.into());
    stream.complete(2);
    stream
}

#[test]
fn history_is_in_the_order_of_the_indices_whenever_the_runs_ended() {
    let stream = five_runs();
    assert_eq!(stream.history(5, 9), [0, 1, 2, 3, 4]);
    assert_eq!(stream.history(5, 2), [3, 4], "the run that ended last is not the last");
    assert_eq!(stream.history(3, 2), [1, 2]);
    assert_eq!(stream.history(2, 2), [0, 1]);
    assert_eq!(stream.history(5, 0), [0; 0]);
}

#[test]
fn each_run_is_found_by_its_id_wherever_it_stands() {
    let stream = five_runs();
    for index in 0..5 {
        let found = stream.states().run(&run(index)).expect("reads").expect("is there");
        assert_eq!((found.origin.run_index, found.progress.status.is_end()), (index, true));
    }
}

#[test]
fn of_a_deleted_session_only_the_session_and_its_runs_places_stay() {
    let mut stream = five_runs();
    stream.begin(5, "open");
    stream.take(&SessionDeleted { session_id: session(), reason: None }.into());
    for index in 0..6 {
        assert!(stream.states().run(&run(index)).expect("reads").is_none());
        assert!(stream.states().was_deleted(&run(index)).expect("reads"));
    }
    assert_eq!(stream.store.scan(&[], &[], usize::MAX).expect("reads").len(), 7);
}

#[test]
fn a_long_text_that_a_decision_brought_is_kept_as_long_as_its_session() {
    let mut stream = Stream { store: Arc::new(MemoryStore::new()), seq: 0 };
    stream.begin(0, "hello");
    let blobs = ["in doubt", "made elsewhere", "other arguments"].map(|text| BlobRef::of(text.as_bytes()));
    let [in_doubt, elsewhere, arguments] = blobs.clone().map(Text::Blob);
    let resolution = Resolution::Completed { value: in_doubt };
    stream.take(&StepResolved { run_id: run(0), step: 0, resolution, by: None, note: None }.into());
    for (step, verdict) in (1..)
        .zip([Verdict::Result { value: elsewhere }, Verdict::Confirmed { arguments: Some(arguments), input: None }])
    {
        stream.take(&StepAnswered { run_id: run(0), step, verdict, by: None }.into());
    }
    let kept = |stream: &Stream| blobs.clone().map(|blob| stream.states().is_referenced(&blob.sha256).expect("reads"));
    assert_eq!(kept(&stream), [true; 3]);
    stream.complete(0);
    stream.take(&SessionDeleted { session_id: session(), reason: None }.into());
    assert_eq!(kept(&stream), [false; 3]);
}
