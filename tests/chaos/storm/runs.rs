//! The runs of a storm: begun on every way that there is, watched, decided about when they are in doubt, and
//! compared with what happened outside.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use futures::{StreamExt, stream};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use reenact_tests::stub::ToolRequest;
use serde_json::{Value, json};
use tokio::task::{JoinHandle, JoinSet};

use crate::{
    fleet::Fleet,
    front::Front,
    publisher::Publisher,
    topic,
    truth::{RunTruth, Truth},
    work::{AGENT, PAY, STEPS, Work, answer_of, tools_of},
};

/// How long after the weather the last run may take.
const PATIENCE: Duration = Duration::from_secs(300);
/// How many runs are looked at at once, and the pause between two rounds.
const AT_ONCE: usize = 8;
const ROUND: Duration = Duration::from_millis(400);
/// Several runs of one session, so that some wait for others.
const RUNS_PER_SESSION: usize = 3;

/// How many runs come, and how fast.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    pub(super) runs: usize,
    pub(super) pause: Duration,
}

/// A run that was accepted.
#[derive(Debug, Clone)]
struct Accepted {
    message: String,
    over: bool,
    decisions: usize,
    retries: usize,
}

type Known = Arc<Mutex<BTreeMap<String, Accepted>>>;

/// The runs while they come and go.
pub(super) struct Runs {
    begins: JoinHandle<Publisher>,
    watches: JoinHandle<()>,
    known: Known,
    brokers: String,
}

/// The runs after they all have ended.
pub(super) struct Ended {
    runs: BTreeMap<String, Accepted>,
    publisher: Publisher,
    brokers: String,
}

impl Runs {
    /// Lets them come.
    pub(super) fn begin(fleet: &Fleet, brokers: &str, pace: Pace, mut dice: ChaCha8Rng) -> Self {
        let known = Known::default();
        let (publisher, watcher) = (Publisher::new(brokers, fleet), ChaCha8Rng::from_rng(&mut dice));
        let begins = tokio::spawn(begin(fleet.front.clone(), publisher, known.clone(), pace, dice));
        let watches = tokio::spawn(watch(fleet.front.clone(), known.clone(), watcher));
        Self { begins, watches, known, brokers: brokers.to_owned() }
    }

    /// Waits until all have come and ended.
    pub(super) async fn end(self, fleet: &Fleet) -> Ended {
        let publisher = self.begins.await.unwrap_or_else(|error| panic!("{error}\n{}", fleet.last_words()));
        let began = Instant::now();
        loop {
            let open: Vec<_> =
                lock(&self.known).iter().filter(|(_, run)| !run.over).map(|(id, _)| id.clone()).collect();
            if open.is_empty() {
                break;
            }
            assert!(!self.watches.is_finished(), "whoever watched has failed\n{}", fleet.last_words());
            if began.elapsed() > PATIENCE {
                let stories = stories(&fleet.front, &self.brokers, &fleet.prefix, &open).await;
                panic!("{} runs do not end:\n{stories}\n{}", open.len(), fleet.last_words());
            }
            tokio::time::sleep(ROUND).await;
        }
        self.watches.abort();
        let runs = lock(&self.known).clone();
        Ended { runs, publisher, brokers: self.brokers }
    }
}

/// What the API and the topic say of runs that do not end.
async fn stories(front: &Front, brokers: &str, prefix: &str, runs: &[String]) -> String {
    let topic = format!("{prefix}.events");
    let records = tokio::task::block_in_place(|| topic::records(brokers, &topic));
    let mut stories = Vec::new();
    for run in runs {
        stories.push(format!("=== run `{run}` is {}", front.run(0, run).await.body["status"]));
        let own = records.iter().filter(|record| record.headers.get("ce_subject") == Some(run));
        stories.extend(own.map(|record| format!("{record:?} {}", String::from_utf8_lossy(&record.value))));
    }
    stories.join("\n")
}

fn lock(known: &Known) -> std::sync::MutexGuard<'_, BTreeMap<String, Accepted>> {
    known.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Two of three by HTTP, at any node; the third through the topic. One of four pays.
async fn begin(front: Front, mut publisher: Publisher, known: Known, pace: Pace, mut dice: ChaCha8Rng) -> Publisher {
    let mut asked = JoinSet::new();
    for number in 0..pace.runs {
        let session = format!("session-{}", number / RUNS_PER_SESSION);
        let message = format!("{}{number}", if number % 4 == 0 { format!("{PAY} ") } else { String::new() });
        let id = format!("start-{number}");
        let known = known.clone();
        let accepted = move |run: String, message: String| {
            let accepted = Accepted { message, over: false, decisions: 0, retries: 0 };
            assert!(lock(&known).insert(run, accepted).is_none(), "a run of that name is known");
        };
        if number % 3 == 0 {
            accepted(publisher.begin(AGENT, &session, &message, &id), message);
        } else {
            let (front, turn) = (front.clone(), dice.random_range(0..8));
            asked.spawn(async move { accepted(front.begin(turn, AGENT, &session, &message, &id).await, message) });
        }
        tokio::time::sleep(pace.pause).await;
    }
    asked.join_all().await;
    tokio::task::block_in_place(|| publisher.flush());
    publisher
}

/// Looks at open runs again and again, and decides about those in doubt.
async fn watch(front: Front, known: Known, mut dice: ChaCha8Rng) {
    loop {
        let open: Vec<_> = lock(&known).iter().filter(|(_, run)| !run.over).map(|(id, _)| id.clone()).collect();
        let looks = open.iter().map(|run| look(&front, &known, run, ChaCha8Rng::from_rng(&mut dice)));
        let looks: Vec<_> = looks.collect();
        stream::iter(looks).buffer_unordered(AT_ONCE).collect::<()>().await;
        tokio::time::sleep(ROUND).await;
    }
}

async fn look(front: &Front, known: &Known, run: &str, mut dice: ChaCha8Rng) {
    let told = front.run(dice.random_range(0..8), run).await;
    match told.body["status"].as_str() {
        Some("COMPLETED") => over(known, run),
        Some("PAUSED") => decide(front, known, run, &told.body, &mut dice).await,
        Some("PENDING" | "RUNNING") => {}
        // A command that was published has not been decided yet.
        None if told.status == 404 => {}
        _ => panic!("run `{run}` on `{}`: {} {:#}", told.node, told.status, told.body),
    }
}

fn over(known: &Known, run: &str) {
    if let Some(run) = lock(known).get_mut(run) {
        run.over = true;
    }
}

/// Decides about every call in doubt: it shall be made, it was made, or it shall not be.
async fn decide(front: &Front, known: &Known, run: &str, paused: &Value, dice: &mut ChaCha8Rng) {
    let choice = dice.random_range(0..3);
    let waiting = paused["requirements"].as_array().expect("a paused run says what it waits for").iter();
    let decided = waiting.map(|requirement| {
        let id = &requirement["tool_execution"]["tool_call_id"];
        match choice {
            0 => json!({"tool_call_id": id, "confirmed": true}),
            1 => json!({"tool_call_id": id, "result": "seen to by hand"}),
            _ => json!({"tool_call_id": id, "confirmed": false}),
        }
    });
    let tools = Value::from_iter(decided).to_string();
    if let Some(run) = lock(known).get_mut(run) {
        // Whether an attempt without an answer was taken is not known, so each one counts.
        run.decisions += 1;
        run.retries += usize::from(choice == 0);
    }
    front.decide(dice.random_range(0..8), AGENT, run, &tools).await;
}

impl Ended {
    /// Checks them all against the events, the API of every node, the answers, and what happened outside.
    pub(super) async fn check(&self, fleet: &Fleet, work: &Work, truth: &Truth) {
        let accepted: BTreeSet<_> = self.runs.keys().collect();
        assert_eq!(accepted, truth.runs.keys().collect(), "the runs that were accepted are those of the log");
        tokio::task::block_in_place(|| self.publisher.check_answers(&self.brokers, &fleet.prefix));
        let mut calls: BTreeMap<String, Vec<ToolRequest>> = BTreeMap::new();
        for call in work.ledger.calls() {
            calls.entry(call.header("x-reenact-run").to_owned()).or_default().push(call);
        }
        let mut repeated = 0;
        for (id, run) in &self.runs {
            let calls = calls.remove(id).unwrap_or_default();
            run.check_events(id, &truth.runs[id]);
            repeated += run.check_calls(id, &calls, &truth.runs[id]);
        }
        assert!(calls.is_empty(), "calls of runs that were never accepted: {:?}", calls.keys());
        self.check_shown(&fleet.front, truth).await;
        let (decisions, repeats): (usize, u32) =
            (self.runs.values().map(|run| run.decisions).sum(), truth.runs.values().map(|run| run.repeats).sum());
        println!(
            "{} runs, {} events, {} claims, {repeats} steps asked again, {repeated} calls of one token again, {decisions} decisions",
            self.runs.len(),
            truth.events,
            truth.terms
        );
    }

    /// Every node tells of every run what the events tell.
    async fn check_shown(&self, front: &Front, truth: &Truth) {
        let nodes = front.nodes().len();
        for id in self.runs.keys() {
            for turn in 0..nodes {
                let told = front.run(turn, id).await;
                truth.runs[id].check_shown(id, &told.body);
            }
        }
    }
}

impl Accepted {
    /// Checks what the run did outside; how many calls had a token that was called before.
    fn check_calls(&self, id: &str, calls: &[ToolRequest], truth: &RunTruth) -> usize {
        let mut by_token: BTreeMap<&str, Vec<&ToolRequest>> = BTreeMap::new();
        for call in calls {
            by_token.entry(call.token()).or_default().push(call);
        }
        let mut steps: BTreeMap<u64, &str> = BTreeMap::new();
        for (token, calls) in &by_token {
            let told = || format!("run `{id}`, token `{token}`: {calls:#?}\n{}", truth.story());
            assert!(!token.is_empty(), "{}", told());
            assert!(calls.iter().all(|call| call.body == calls[0].body && call.path == calls[0].path), "{}", told());
            let arguments: Value = serde_json::from_str(&calls[0].body).expect("JSON");
            let step = arguments["step"].as_u64().expect("a number");
            assert!(steps.insert(step, token).is_none(), "run `{id}`: step {step} has several tokens: {by_token:#?}");
            if calls[0].path == "/pay" {
                assert!(calls.len() <= 1 + self.retries, "called again without a decision: {}", told());
            }
        }
        for (step, tool) in (0_u64..).zip(tools_of(&self.message)) {
            let made = steps.contains_key(&step);
            let excused = tool == "pay" && self.decisions > 0;
            assert!(made || excused, "run `{id}`: step {step} was never made:\n{}", truth.story());
        }
        calls.len() - by_token.len()
    }

    fn check_events(&self, id: &str, truth: &RunTruth) {
        assert_eq!(truth.input, self.message, "run `{id}`");
        assert_eq!(truth.content.as_deref(), Some(answer_of(&self.message).as_str()), "run `{id}`");
        assert_eq!(truth.calls.len(), STEPS, "run `{id}`:\n{}", truth.story());
        for call in truth.calls.values() {
            assert!(
                call.result.is_some() || self.decisions > 0,
                "run `{id}`: {call:?} has no result:\n{}",
                truth.story()
            );
        }
    }
}
