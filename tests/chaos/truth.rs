//! What the events say in the end, read twice: through the log's own reader, and by a plain consumer.

use std::{collections::BTreeMap, sync::Arc};

use futures::StreamExt;
use reenact_events::{
    Event, EventLog, PartitionId, Recorded, RunEvent, Timestamp,
    event::{StepCall, StepResult},
    invariants::Watch,
};
use reenact_kafka::{KafkaLog, Options};
use serde_json::Value;

use crate::topic;

/// One tool call of a run.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) id: String,
    pub(crate) name: String,
    /// What it gave, if it was made and came back.
    pub(crate) result: Option<String>,
}

/// A run as its events tell it.
#[derive(Debug, Default)]
pub(crate) struct RunTruth {
    pub(crate) session: String,
    pub(crate) input: String,
    pub(crate) content: Option<String>,
    /// By step.
    pub(crate) calls: BTreeMap<u32, Call>,
    /// How many attempts there were beyond the first of each step.
    pub(crate) repeats: u32,
    /// All its events as text, for whoever has to find out what went wrong.
    story: Vec<String>,
}

/// Everything.
#[derive(Debug, Default)]
pub(crate) struct Truth {
    pub(crate) runs: BTreeMap<String, RunTruth>,
    pub(crate) events: usize,
    /// How often a partition was claimed, all partitions together.
    pub(crate) terms: usize,
}

impl Truth {
    /// Reads a deployment's events, and checks all that must hold of them.
    pub(crate) async fn read(brokers: &str, prefix: &str) -> Self {
        let log = log(brokers, prefix).await;
        let mut truth = Self::default();
        let mut ids = BTreeMap::new();
        for partition in (0..log.partitions()).map(PartitionId) {
            for recorded in whole(&log, partition).await {
                ids.insert((partition.0, recorded.offset.0), recorded.event.id.to_string());
                truth.take(&recorded);
            }
        }
        let topic = format!("{prefix}.events");
        let plain = tokio::task::block_in_place(|| topic::records(brokers, &topic));
        check_plain(&plain, &ids);
        truth
    }

    fn take(&mut self, recorded: &Recorded) {
        self.events += 1;
        match recorded.decode().expect("it was decoded before") {
            Event::Run(event) => {
                let run = self.runs.entry(event.run_id().to_string()).or_default();
                let (partition, offset, term) = (recorded.partition, recorded.offset, recorded.term);
                run.story.push(format!("{partition}/{offset} of term {term}: {}", recorded.event.data));
                run.take(&event);
            }
            _ if recorded.term.0 == recorded.offset.0 => self.terms += 1,
            _ => {}
        }
    }
}

/// The log of a deployment, to be read.
pub(crate) async fn log(brokers: &str, prefix: &str) -> KafkaLog {
    let options = Options { prefix: prefix.to_owned(), ..Options::new(brokers, Arc::new(Timestamp(0))) };
    KafkaLog::connect(options).await.expect("the log can be read")
}

/// All events of a partition, watched for everything that must always hold of a log.
async fn whole(log: &KafkaLog, partition: PartitionId) -> Vec<Recorded> {
    let Some(last) = log.last_event(partition).await.expect("it can be read") else { return Vec::new() };
    let (low, _) = log.bounds(partition).await.expect("it can be read");
    let (mut watch, mut events, mut tail) = (Watch::default(), Vec::new(), log.tail(partition, low));
    while events.last().is_none_or(|event: &Recorded| event.offset < last) {
        let recorded = tail.next().await.expect("the last event is ahead").expect("it can be read");
        watch.see(&recorded).unwrap_or_else(|broken| panic!("partition {partition}: {broken}"));
        events.push(recorded);
    }
    assert_eq!(watch.open_runs(), [], "partition {partition}: runs that do not end");
    events
}

/// A plain consumer sees the same events, terms that never fall, and a command cursor that never falls. Claims
/// may have come since the log was read.
fn check_plain(plain: &[topic::Record], ids: &BTreeMap<(u32, u64), String>) {
    let seen = plain.iter().map(|record| {
        let place = (record.partition.unsigned_abs(), record.offset.unsigned_abs());
        (place, record.headers.get("ce_id").cloned().unwrap_or_default())
    });
    let is_read = |(partition, offset): &(u32, u64)| {
        let last = ids.range((*partition, 0)..=(*partition, u64::MAX)).next_back();
        last.is_some_and(|((_, last), _)| offset <= last)
    };
    let seen: BTreeMap<_, _> = seen.filter(|(place, _)| is_read(place)).collect();
    assert!(seen == *ids, "a plain consumer sees {} events, the log {}", seen.len(), ids.len());
    for pair in plain.windows(2).filter(|pair| pair[0].partition == pair[1].partition) {
        for name in ["ce_rterm", "ce_rcmdnext"] {
            assert!(pair[1].number(name) >= pair[0].number(name), "`{name}` falls from {:?} to {:?}", pair[0], pair[1]);
        }
    }
}

fn text(text: &reenact_events::Text) -> String {
    text.as_inline().expect("texts are short here").to_owned()
}

impl RunTruth {
    /// What happened to it, event by event.
    pub(crate) fn story(&self) -> String {
        self.story.join("\n")
    }

    fn take(&mut self, event: &RunEvent) {
        match event {
            RunEvent::Queued(queued) => {
                self.session = queued.session_id.to_string();
                self.input = text(&queued.input);
            }
            RunEvent::StepRequested(step) => {
                self.repeats += u32::from(step.attempt > 1);
                if let StepCall::Tool { call_id, name, .. } = &step.call {
                    let call = self.calls.entry(step.step).or_default();
                    (call.id, call.name) = (call_id.to_string(), name.to_string());
                }
            }
            RunEvent::StepCompleted(step) => {
                if let StepResult::Tool { content, .. } = &step.result
                    && let Some(call) = self.calls.get_mut(&step.step)
                {
                    call.result = Some(text(content));
                }
            }
            RunEvent::Completed(completed) => self.content = Some(text(&completed.content)),
            _ => {}
        }
    }

    /// Checks that the API tells the same about a run.
    pub(crate) fn check_shown(&self, run: &str, output: &Value) {
        let content = self.content.as_deref().unwrap_or_default();
        assert_eq!(output["status"], "COMPLETED", "run `{run}`");
        assert_eq!(output["content"], content, "run `{run}`: {output:#}");
        assert_eq!(output["session_id"], self.session.as_str(), "run `{run}`");
        let shown = output["tools"].as_array().map(Vec::as_slice).unwrap_or_default();
        assert_eq!(shown.len(), self.calls.len(), "run `{run}`: {shown:#?} {:#?}", self.calls);
        for (call, shown) in self.calls.values().zip(shown) {
            assert_eq!(
                (&shown["tool_call_id"], &shown["tool_name"]),
                (&call.id.as_str().into(), &call.name.as_str().into())
            );
            if let Some(result) = &call.result {
                assert_eq!(shown["result"], result.as_str(), "run `{run}`: {shown:#}");
            }
        }
    }
}
