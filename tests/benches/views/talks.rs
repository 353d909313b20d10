//! Runs as most are, as a log has them: two model calls and a tool, ten events each, in sessions of ten.

use std::{path::Path, sync::Arc};

use reenact_embedded::{Durability, EmbeddedLog, Options};
use reenact_events::{
    Batch, BatchId, CommitOutcome, EventLog, Lease, NewEvent, NodeId, Offset, PartitionId, Text, Timestamp, ids,
};

use crate::history::{
    History, agent, call, model_answered, model_requested, session, tool_answered, tool_requested, usage,
};

pub(crate) const P: PartitionId = PartitionId(0);
/// Events that are committed together.
const BATCH: usize = 500;

/// Makes them, one after another.
pub(crate) struct Talks {
    history: History,
    words: String,
    number: u64,
}

impl Talks {
    pub(crate) fn new() -> Self {
        Self { history: History::new(1), words: "word ".repeat(200), number: 0 }
    }

    /// Writes the next run into the history.
    pub(crate) fn next_run(&mut self) {
        let (history, words, number) = (&mut self.history, &self.words, self.number);
        self.number += 1;
        let (name, run) = (format!("session-{}", number / 10), format!("run-{number}"));
        let (at, owner) = (session(&name), ["alice", "bob", "carol"][usize::try_from(number % 3).expect("small")]);
        if number.is_multiple_of(10) {
            history.create(&name, None);
            history.register(&name, &agent("support"));
        }
        history.queue(&name, &run, number % 10, Some(owner), words);
        history.start(&name, &run);
        history.push(&at, model_requested(&run, 0, 1, 0));
        let calls = vec![call("c1", Text::inline(r#"{"order":17}"#))];
        history.push(&at, model_answered(&run, 0, 1, "", calls, Some(usage(10, 4))));
        history.push(&at, tool_requested(&run, 1, 1, "c1", Text::inline(r#"{"order":17}"#)));
        history.push(&at, tool_answered(&run, 1, 1, Text::inline("refunded")));
        history.push(&at, model_requested(&run, 2, 1, 1));
        history.push(&at, model_answered(&run, 2, 1, words, Vec::new(), Some(usage(20, 2))));
        history.complete(&name, &run, words);
    }

    /// All of them.
    pub(crate) fn history(mut self, events: usize) -> History {
        while self.history.partition(0).len() < events {
            self.next_run();
        }
        self.history
    }

    /// The next events, about so many, for a log that gives them their places.
    pub(crate) fn events(&mut self, count: usize) -> Vec<NewEvent> {
        while self.history.partition(0).len() < count {
            self.next_run();
        }
        let made = self.history.recorded.get_mut(&P).expect("known");
        made.drain(..).map(|recorded| recorded.event).collect()
    }
}

/// A log in a folder; what was answered survives this process, which is enough here.
pub(crate) fn open_log(folder: &Path) -> EmbeddedLog {
    let options = Options { durability: Durability::Relaxed, ..Options::new(Arc::new(Timestamp(1_700_000_000_000))) };
    EmbeddedLog::open(&folder.join("log"), options).expect("opens")
}

/// Writes into a log.
pub(crate) struct Writer {
    lease: Lease,
    talks: Talks,
    commits: u64,
}

impl Writer {
    pub(crate) async fn of(log: &EmbeddedLog) -> Self {
        let lease = log.claim(P, NodeId::trusted("bench")).await.expect("claims");
        Self { lease, talks: Talks::new(), commits: 0 }
    }

    /// The next batch.
    pub(crate) fn make(&mut self) -> Batch {
        self.commits += 1;
        let id = BatchId(ids::derived("batch", &[&self.commits.to_string()]));
        Batch::new(id, self.talks.events(BATCH))
    }

    /// Commits a batch and says where its last event stands.
    pub(crate) async fn commit(&self, log: &EmbeddedLog, batch: &Batch) -> Offset {
        match log.commit(&self.lease, batch).await {
            CommitOutcome::Committed(committed) => *committed.offsets.last().expect("has events"),
            other => panic!("{other:?}"),
        }
    }
}
