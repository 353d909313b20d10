//! Histories from a seed: sessions that come, change and go, runs at every point of their life, texts that no
//! database likes.

use rand::{Rng, SeedableRng, seq::IndexedRandom};
use rand_chacha::ChaCha8Rng;
use reenact_events::{
    BlobRef, MediaKind, MediaRef, RawJson, Text, Timestamp,
    event::{
        CancellationStage, Failure, Fork, Resolution, RunCancelRequested, RunCancelled, RunContinued, RunFailed,
        RunPaused, RunQueued, RunRegenerated, RunRequeued, Said, SessionDeleted, SessionUpdated, StepAnswered,
        StepExpired, StepFailed, StepHeld, StepInDoubt, StepResolved, StepTakenOver,
    },
    hold::{InputField, Needs, OnExpiry, Verdict},
};
use serde_json::json;

use crate::history::{
    History, agent, call, held_call, model_answered, model_requested, queued, raw, run, session, shared_text,
    tool_answered, tool_requested, usage, user,
};

const TEXTS: &[&str] = &[
    "hello",
    "",
    "a\0b\0",
    "Zoë 🙂 İstanbul ß ﬁ",
    "\u{202e}right to left\u{200b}",
    "e\u{301} and \u{fffd} and \u{10ffff}",
    "'; DROP TABLE runs; --",
    "{\"sha256\": \"not a reference\", \"bytes\": 1}",
    "% _ \\ \" \r\n\t",
];
const OWNERS: &[Option<&str>] = &[None, Some("alice"), Some("bob"), Some("O'Brien\u{301}")];

/// A run that has not ended.
#[derive(Debug, Clone)]
struct Open {
    session: String,
    run: String,
    started: bool,
    paused: bool,
    steps: u32,
    doubt: Option<u32>,
}

struct World {
    random: ChaCha8Rng,
    history: History,
    sessions: Vec<String>,
    open: Vec<Open>,
    runs: u64,
}

/// A history of `steps` happenings.
pub(crate) fn history(seed: u64, partitions: u32, steps: usize) -> History {
    let random = ChaCha8Rng::seed_from_u64(seed);
    let mut world =
        World { random, history: History::new(partitions), sessions: Vec::new(), open: Vec::new(), runs: 0 };
    world.create();
    for _ in 0..steps {
        world.happen();
    }
    world.history
}

impl World {
    fn text(&mut self) -> &'static str {
        TEXTS.choose(&mut self.random).copied().unwrap_or_default()
    }

    fn owner(&mut self) -> Option<&'static str> {
        OWNERS.choose(&mut self.random).copied().flatten()
    }

    fn happen(&mut self) {
        match self.random.random_range(0..20) {
            0 | 1 => self.create(),
            2 => self.update(),
            3 if self.random.random_bool(0.3) => self.delete(),
            4..=7 => self.queue(),
            _ => self.advance(),
        }
    }

    fn create(&mut self) {
        let name = format!("session-{}", self.sessions.len());
        let owner = self.owner();
        self.history.create(&name, owner);
        self.history.register(&name, &agent("support"));
        self.sessions.push(name);
    }

    fn update(&mut self) {
        let Some(name) = self.sessions.choose(&mut self.random).cloned() else { return };
        let (text, other) = (self.text(), self.text());
        let session_id = session(&name);
        let event = SessionUpdated {
            session_id: session_id.clone(),
            name: self.random.random_bool(0.6).then(|| text.to_owned()),
            state: self.random.random_bool(0.5).then(|| raw(&json!({ "a": text, "n": [1, 2.5, null] }))),
            metadata: self.random.random_bool(0.3).then(|| raw(&json!({ text: other }))),
            summary: self.random.random_bool(0.2).then(|| raw(&json!({ "sha256": other, "bytes": 3 }))),
        };
        self.history.push(&session_id, event);
    }

    /// Its runs at work are cancelled afterwards, as the session's decision does it: those events find no row.
    fn delete(&mut self) {
        let Some(name) = self.sessions.choose(&mut self.random).cloned() else { return };
        self.history.push(&session(&name), SessionDeleted { session_id: session(&name), reason: None });
        let (gone, open) = std::mem::take(&mut self.open).into_iter().partition(|open| open.session == name);
        self.open = open;
        for open in gone {
            self.cancel(&open);
        }
        self.sessions.retain(|known| *known != name);
    }

    fn queue(&mut self) {
        let Some(name) = self.sessions.choose(&mut self.random).cloned() else { return };
        let run_name = format!("run-{}", self.runs);
        let owner = self.owner();
        let input = match self.random.random_range(0..6) {
            0 => Text::Blob(BlobRef::of(self.text().as_bytes())),
            _ => Text::inline(self.text()),
        };
        let mut event = queued(&name, &run_name, self.runs, owner, input);
        if self.random.random_bool(0.3) {
            let kinds = [MediaKind::Image, MediaKind::Audio, MediaKind::Video, MediaKind::File];
            let kind = kinds.choose(&mut self.random).copied().unwrap_or(MediaKind::File);
            let name = self.random.random_bool(0.5).then(|| shared_text(self.history.now.to_string().as_str()));
            event.media = vec![MediaRef { kind, blob: BlobRef::of(b"x"), mime: "image/png".into(), name }];
            event.metadata = Some(raw(&json!({ "sha256": "mine", "bytes": 2 })));
        }
        let taken_over = if self.random.random_bool(0.3) { self.fork(&mut event) } else { Vec::new() };
        self.history.push(&session(&name), event);
        self.runs += 1;
        let steps = u32::try_from(taken_over.len()).expect("few");
        for step in taken_over {
            self.history.push(&session(&name), step);
        }
        self.open.push(Open { session: name, run: run_name, started: false, paused: false, steps, doubt: None });
    }

    /// The run goes on from another one, which may be gone, or is the copy of one; the steps that it takes over.
    fn fork(&mut self, event: &mut RunQueued) -> Vec<StepTakenOver> {
        let turn = |text, calls| model_answered("", 0, 1, text, calls, Some(usage(7, 2))).result;
        let mut steps = Vec::new();
        for at in 0..self.random.random_range(0..3) {
            let calls = vec![call(&format!("taken-{at}"), Text::inline(self.text()))];
            steps.push((model_requested("", 0, 1, at).call, turn(self.text(), calls)));
            let called = tool_requested("", 0, 1, &format!("taken-{at}"), Text::inline(self.text())).call;
            steps.push((called, tool_answered("", 0, 1, Text::inline(self.text())).result));
        }
        let count = u32::try_from(steps.len()).expect("few");
        let step = self.random.random_range(0..=count);
        event.fork = Some(Box::new(Fork {
            run_id: run(&format!("run-{}", self.random.random_range(0..=self.runs))),
            message_index: count + 1,
            steps: count,
            said: vec![Said { step, text: Text::inline(self.text()) }],
            history_before: 0,
            regenerates: self.random.random_bool(0.3),
            session_id: self.random.random_bool(0.3).then(|| session("session-0")),
        }));
        let taken_over =
            |(step, (call, result))| StepTakenOver { run_id: event.run_id.clone(), step, call, result, unfit: None };
        (0..).zip(steps).map(taken_over).collect()
    }

    fn cancel(&mut self, open: &Open) {
        let partial = self.random.random_bool(0.5).then(|| Text::inline(self.text()));
        let stage = if open.started { CancellationStage::Executing } else { CancellationStage::Pending };
        let event = RunCancelled { run_id: run(&open.run), stage, partial, reason: None };
        self.history.push(&session(&open.session), event);
    }

    fn advance(&mut self) {
        if self.open.is_empty() {
            return;
        }
        let index = self.random.random_range(0..self.open.len());
        let mut open = self.open.swap_remove(index);
        if !self.step(&mut open) {
            self.open.push(open);
        }
    }

    /// Takes a run one happening further; says whether it ended.
    fn step(&mut self, open: &mut Open) -> bool {
        let at = session(&open.session);
        let run_id = run(&open.run);
        let choice = self.random.random_range(0..12);
        match (open.started, open.paused, choice) {
            (_, _, 0) => {
                self.history.push(&at, RunCancelRequested { run_id, reason: Some("enough".into()) });
                self.cancel(open);
                return true;
            }
            (false, ..) => {
                self.history.start(&open.session, &open.run);
                open.started = true;
            }
            (true, true, _) => self.resolve(open),
            (true, false, 1) => self.doubt(open),
            (true, false, 2) => {
                let text = self.text();
                self.history.complete(&open.session, &open.run, text);
                if self.random.random_bool(0.3) {
                    self.history.push(&at, RunRegenerated { run_id, by: run("run-0") });
                }
                return true;
            }
            (true, false, 3) => {
                let error = Failure { kind: "timeout".into(), message: self.text().into(), status: Some(504) };
                self.history.push(&at, RunFailed { run_id: run_id.clone(), error, error_id: None });
                if self.random.random_bool(0.5) {
                    return true;
                }
                self.history.push(&at, RunRequeued { run_id, by: None });
                open.started = false;
            }
            (true, false, 4) => self.hold(open),
            (true, false, 5..=7) => self.model(open),
            (true, false, _) => self.tool(open),
        }
        false
    }

    fn model(&mut self, open: &mut Open) {
        let at = session(&open.session);
        let mut attempt = 1;
        self.history.push(&at, model_requested(&open.run, open.steps, attempt, open.steps));
        while self.random.random_bool(0.3) {
            let error = Failure { kind: "rate_limited".into(), message: "later".into(), status: Some(429) };
            let usage = self.random.random_bool(0.5).then(|| usage(5, 0));
            let retry_at = Some(self.history.now);
            let (run_id, step) = (run(&open.run), open.steps);
            self.history.push(&at, StepFailed { run_id, step, attempt, error, retry_at, usage });
            attempt += 1;
            self.history.push(&at, model_requested(&open.run, open.steps, attempt, open.steps));
        }
        let calls = (0..self.random.random_range(0..3))
            .map(|number| call(&format!("{}-{number}", open.steps), Text::inline(self.text())))
            .collect();
        let usage = self.random.random_bool(0.7).then(|| usage(10, 3));
        let text = self.text();
        self.history.push(&at, model_answered(&open.run, open.steps, attempt, text, calls, usage));
        open.steps += 1;
    }

    fn tool(&mut self, open: &mut Open) {
        let at = session(&open.session);
        let arguments = match self.random.random_range(0..3) {
            0 => Text::Blob(BlobRef::of(b"{}")),
            1 => Text::inline(r#"{"sha256":"mine","bytes":1}"#),
            _ => Text::inline(self.text()),
        };
        self.history.push(&at, tool_requested(&open.run, open.steps, 1, "c", arguments));
        let content = Text::inline(self.text());
        self.history.push(&at, tool_answered(&open.run, open.steps, 1, content));
        open.steps += 1;
    }

    /// A call that is decided about at once, or soon, or never.
    fn hold(&mut self, open: &mut Open) {
        let (at, run_id, step) = (session(&open.session), run(&open.run), open.steps);
        let field = InputField { name: "days".to_owned(), field_type: "int".to_owned(), description: None };
        let needs = match self.random.random_range(0..3) {
            0 => Needs::Confirmation,
            1 => Needs::Input { fields: vec![field] },
            _ => Needs::Execution,
        };
        let (token, call) = held_call(&open.run, step);
        let expires_at = self.random.random_bool(0.5).then(|| Timestamp(self.history.now.0 + 60_000));
        let on_expiry = OnExpiry::Reject;
        self.history.push(&at, StepHeld { run_id: run_id.clone(), step, token, call, needs, expires_at, on_expiry });
        open.steps += 1;
        let by = Some(user("boss"));
        let input = RawJson::parse(r#"{"days":3}"#).ok();
        let verdict = match self.random.random_range(0..6) {
            0 => Verdict::Confirmed { arguments: Some(Text::Blob(BlobRef::of(b"{}"))), input },
            1 => Verdict::Rejected { note: Some("no".into()) },
            2 => Verdict::Result { value: Text::inline(self.text()) },
            3 => Verdict::yes(),
            4 => return self.history.push(&at, StepExpired { run_id, step }),
            _ => return,
        };
        let is_made = matches!(verdict, Verdict::Confirmed { .. });
        self.history.push(&at, StepAnswered { run_id, step, verdict, by });
        if is_made {
            self.history.push(&at, tool_requested(&open.run, step, 1, "held", Text::inline("{}")));
            self.history.push(&at, tool_answered(&open.run, step, 1, Text::inline("done")));
        }
    }

    fn doubt(&mut self, open: &mut Open) {
        let at = session(&open.session);
        let (run_id, step) = (run(&open.run), open.steps);
        self.history.push(&at, tool_requested(&open.run, step, 1, "doubtful", Text::inline("{}")));
        let reason = shared_text("the process ended");
        self.history.push(&at, StepInDoubt { run_id: run_id.clone(), step, attempt: 1, reason: reason.clone() });
        self.history.push(&at, RunPaused { run_id, reason });
        open.doubt = Some(step);
        open.steps += 1;
        open.paused = true;
    }

    fn resolve(&mut self, open: &mut Open) {
        let at = session(&open.session);
        let Some(step) = open.doubt.take() else { return };
        let resolution = match self.random.random_range(0..3) {
            0 => Resolution::Skip,
            1 => Resolution::Retry,
            _ => Resolution::Completed { value: Text::inline(self.text()) },
        };
        let retry = resolution == Resolution::Retry;
        let run_id = run(&open.run);
        let by = Some(user("alice"));
        self.history.push(&at, StepResolved { run_id: run_id.clone(), step, resolution, by, note: None });
        self.history.push(&at, RunContinued { run_id });
        if retry {
            self.history.push(&at, tool_requested(&open.run, step, 2, "doubtful", Text::inline("{}")));
            self.history.push(&at, tool_answered(&open.run, step, 2, Text::inline("done")));
        }
        open.paused = false;
    }
}
