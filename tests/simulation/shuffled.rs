//! One run's decisions alone, under every order of outcomes: late, repeated, of old attempts, for steps that
//! do not exist. What a living node makes unlikely is made common here.

use reenact_actors::{
    run::{Context, ReconcileAnswer, RunCommand, RunState, decide, evolve},
    step::StepError,
};
use reenact_events::{
    BatchId, ChainHash, Event, NewEvent, Offset, PartitionId, RawJson, Recorded, RunEvent, RunId, SessionId, StreamKey,
    Term, Text, Timestamp,
    command::Decision,
    event::{Blocked, Failure, RunQueued, RunStatus, StepCall, StepResult, ToolCallRequest},
    hold::Verdict,
    invariants::Watch,
    session_state::SessionValues,
};

use crate::{faults::Dice, steps};

struct Shuffle {
    dice: Dice,
    context: Context,
    run: RunState,
    watch: Watch,
    chain: ChainHash,
    seq: u64,
    attempts: Vec<(u32, u32, bool)>,
}

/// Shuffles the outcomes of one run and lets it settle.
pub(crate) fn run(seed: u64) -> Result<(), String> {
    let agent = steps::agent();
    let queued = RunQueued {
        fork: None,
        run_id: RunId::trusted("r"),
        session_id: SessionId::trusted("s"),
        user_id: None,
        run_index: 0,
        agent_id: agent.id.clone(),
        agent_version: agent.version(),
        input: Text::inline("go"),
        media: Vec::new(),
        metadata: None,
        stream: false,
        background: true,
        output_schema: None,
        session_state: None,
    };
    let context = Context { now: Timestamp(0), agent };
    let run = reenact_actors::run::evolve::created(&queued, context.now);
    let mut shuffle = Shuffle {
        dice: Dice::new(seed),
        context,
        run,
        watch: Watch::default(),
        chain: ChainHash::default(),
        seq: 0,
        attempts: Vec::new(),
    };
    shuffle.see(RunEvent::Queued(queued))?;
    shuffle.command(RunCommand::Begin)?;
    for _ in 0..shuffle.dice.below(60) {
        let command = shuffle.any();
        shuffle.command(command)?;
    }
    shuffle.settle()
}

impl Shuffle {
    fn see(&mut self, event: RunEvent) -> Result<(), String> {
        if let RunEvent::StepRequested(request) = &event {
            let model = matches!(request.call, StepCall::Model { .. });
            self.attempts.push((request.step, request.attempt, model));
        }
        let key = StreamKey::session(&SessionId::trusted("s"));
        let event = Event::Run(event);
        let new =
            NewEvent::new(key, self.seq, self.context.now, None, None, &event).map_err(|error| error.to_string())?;
        self.chain = self.chain.link(&new, Term(0));
        let recorded = Recorded {
            partition: PartitionId(0),
            offset: Offset(self.seq),
            term: Term(0),
            batch: BatchId(uuid::Uuid::nil()),
            chain: self.chain,
            event: new,
        };
        self.seq += 1;
        self.watch.see(&recorded).map_err(|broken| format!("shuffled run: {broken}"))
    }

    fn command(&mut self, command: RunCommand) -> Result<(), String> {
        self.context.now = self.context.now.plus_ms(i64::try_from(self.dice.below(400)).expect("small"));
        // A refusal changes nothing.
        for event in decide(&self.run, command, &self.context).unwrap_or_default() {
            evolve(&mut self.run, &event, self.context.now);
            self.see(event)?;
        }
        Ok(())
    }

    /// Some attempt that was ever requested, or one that never was.
    fn attempt(&self) -> (u32, u32, bool) {
        if self.dice.hits(50) {
            return (9_999, 1, self.dice.hits(500));
        }
        self.attempts[usize::try_from(self.dice.below(self.attempts.len() as u64)).expect("small")]
    }

    fn any(&self) -> RunCommand {
        let (step, attempt, model) = self.attempt();
        match self.dice.below(20) {
            0 => self.recover(),
            1 => RunCommand::StartedTooLate { step, attempt },
            2 => RunCommand::RetryDue { step },
            3 => RunCommand::Begin,
            4 => self.resolve(step),
            5 => RunCommand::Reconciled { step, attempt, answer: self.answer() },
            7 => RunCommand::Requeue { by: None },
            8 => RunCommand::Expire,
            6 if self.dice.hits(50) => RunCommand::Cancel { reason: None, partial: None },
            _ => self.outcome(step, attempt, model),
        }
    }

    /// As an actor that comes to the run now.
    fn recover(&self) -> RunCommand {
        RunCommand::Recover { owed: self.run.open_steps().map(|(at, step)| (at, step.attempt)).collect() }
    }

    fn resolve(&self, step: u32) -> RunCommand {
        let tool_call_id = match self.run.step(step).map(|step| &step.call) {
            Some(StepCall::Tool { call_id, .. }) => call_id.clone(),
            _ => "no call".into(),
        };
        let decisions = vec![Decision { tool_call_id, verdict: self.verdict() }];
        RunCommand::Resolve { decisions, by: None, has_slot: self.dice.hits(500) }
    }

    fn verdict(&self) -> Verdict {
        let input = RawJson::parse(r#"{"who":"me"}"#).expect("is JSON");
        match self.dice.below(12) {
            0 => Verdict::Fail,
            1..=3 => Verdict::no(),
            4..=6 => Verdict::Result { value: Text::inline("") },
            7 | 8 => Verdict::Confirmed { arguments: Some(Text::inline(input.as_str())), input: Some(input) },
            9 => Verdict::Confirmed { arguments: Some(Text::inline(r#"{"less":1}"#)), input: None },
            _ => Verdict::yes(),
        }
    }

    fn answer(&self) -> ReconcileAnswer {
        match self.dice.below(3) {
            0 => ReconcileAnswer::DidNotHappen,
            1 => ReconcileAnswer::Unknown("silence".into()),
            _ => ReconcileAnswer::Happened(tool_result(), None),
        }
    }

    fn outcome(&self, step: u32, attempt: u32, model: bool) -> RunCommand {
        if matches!(self.run.step(step).map(|step| &step.call), Some(StepCall::Guardrail { .. })) {
            let blocked = self.dice.hits(50).then(|| Blocked { reason: "no".into(), trigger: "off_topic".into() });
            let silence = Failure { kind: "simulated".into(), message: "silence".into(), status: None };
            let outcome = if self.dice.hits(200) { Err(silence) } else { Ok(blocked) };
            return RunCommand::Guarded { step, attempt, outcome, duration_ms: 1 };
        }
        if !model {
            return RunCommand::ToolReturned {
                step,
                attempt,
                result: tool_result(),
                session_state: None,
                duration_ms: 1,
            };
        }
        let outcome = if self.dice.hits(200) {
            let failure =
                Failure { kind: (*self.dice.pick(&steps::FAILURES)).into(), message: "no".into(), status: None };
            Err(StepError { failure, retryable: self.dice.hits(900), retry_after_ms: None, usage: None })
        } else {
            Ok(self.turn())
        };
        RunCommand::ModelReturned {
            step,
            attempt,
            outcome,
            unfit: self.dice.hits(300).then(|| "it does not fit".into()),
            trim: self.trim(),
            duration_ms: 1,
        }
    }

    /// What the effect says can be left out; decisions do not take its word for it.
    fn trim(&self) -> Option<u32> {
        self.dice.hits(600).then(|| u32::try_from(self.dice.below(4)).expect("small"))
    }

    fn turn(&self) -> StepResult {
        let calls = if self.dice.hits(700) { self.dice.below(20) } else { 0 };
        let call = |_| ToolCallRequest {
            id: if self.dice.hits(500) { "same".into() } else { "".into() },
            name: if self.dice.hits(300) {
                self.dice.pick(&steps::held_tools()).0
            } else {
                self.dice.pick(&steps::TOOLS).0
            }
            .into(),
            arguments: Text::inline("{}"),
            refusal: self.dice.hits(100).then(|| "not an object".into()),
        };
        StepResult::Model {
            text: Text::inline(""),
            reasoning: None,
            tool_calls: (0..calls).map(call).collect(),
            usage: None,
            finish_reason: None,
            first_token_ms: None,
        }
    }

    /// From here on every attempt gets its outcome: the run must end.
    fn settle(&mut self) -> Result<(), String> {
        for _ in 0..2_000 {
            if self.run.progress.status.is_end() {
                return self.every_call_has_one_result();
            }
            if self.run.progress.status == RunStatus::Pending {
                self.command(RunCommand::Begin)?;
            }
            let open: Vec<_> = self.run.open_steps().map(|(at, step)| (at, step.clone())).collect();
            for (at, step) in open {
                let model = matches!(step.call, StepCall::Model { .. });
                let command = match step.state {
                    reenact_actors::run::StepState::Waiting { .. } => RunCommand::RetryDue { step: at },
                    reenact_actors::run::StepState::InDoubt | reenact_actors::run::StepState::Held(_) => {
                        self.resolve(at)
                    }
                    _ => self.outcome(at, step.attempt, model),
                };
                self.command(command)?;
            }
            if self.run.may_continue() {
                self.command(RunCommand::Begin)?;
            }
        }
        Err(format!("a shuffled run does not end: {:?}", self.run.progress))
    }

    /// What the next run of the session would be shown is well formed.
    fn every_call_has_one_result(&self) -> Result<(), String> {
        if self.run.progress.status == RunStatus::Completed {
            steps::assert_well_formed(&reenact_actors::run::history::messages(
                &self.context.agent,
                &SessionValues::new(),
                &[],
                &self.run,
                2,
            ));
        }
        Ok(())
    }
}

fn tool_result() -> StepResult {
    StepResult::Tool { content: Text::inline("done"), error: false, media: Vec::new() }
}
