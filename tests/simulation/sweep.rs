//! One run, killed at every boundary: before and after each commit, before and after each effect.
//!
//! The run asks the model twice and calls three tools side by side: one that may be repeated, one that
//! happens once per token, one that may happen at most once. Whichever boundary it dies at, the next life
//! ends it, and the ledger shows what may have happened and no more.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures::future::BoxFuture;
use reenact_actors::{
    NodeHandle, Settings, Tools,
    api::{Refusal, SubmitError},
    step::{
        ChatMessage, DeltaSink, GuardrailCall, ModelCall, ModelReply, Reconciled, RequestedCall, StepError, Steps,
        ToolCall, ToolReply,
    },
};
use reenact_events::{
    Batch, Clock, Command, CommandBody, CommandId, Event, LogId, MemoryLog, NodeId, PartitionId, RawJson, Recorded,
    RunEvent, RunId, SessionId, Text,
    agent::{Effect, ToolSpec},
    command::{AgentRef, Decision, StartRun},
    event::{Blocked, Failure},
    hold::Verdict,
    memory_log::{Fault, Faults},
};
use reenact_snapshots::{ExportableStore, MemoryStore, StateStore};

use crate::{
    check,
    client::{Client, Promises},
    faults::Dice,
    ledger::{Ledger, MemoryBlobs},
    steps::{self, SimulatedSteps},
    views::SharedViews,
    world::VirtualClock,
};

/// The boundaries of one life, in the order they are reached; the life ends at one of them.
struct Boundaries {
    reached: AtomicUsize,
    dies_at: usize,
    died: tokio::sync::Notify,
}

impl Boundaries {
    fn new(dies_at: usize) -> Arc<Self> {
        Arc::new(Self { reached: AtomicUsize::new(0), dies_at, died: tokio::sync::Notify::new() })
    }

    /// Whether the life ends here.
    fn ends_here(&self) -> bool {
        self.reached.fetch_add(1, Ordering::SeqCst) == self.dies_at
    }

    /// An effect's boundary: nothing goes on after the life has ended.
    async fn pass(&self) {
        if self.ends_here() {
            self.died.notify_one();
            std::future::pending::<()>().await;
        }
    }
}

impl Faults for Boundaries {
    fn on_commit(&self, _: PartitionId, _: &Batch) -> Option<Fault> {
        if self.ends_here() {
            return Some(Fault::CrashBefore);
        }
        self.ends_here().then_some(Fault::CrashAfter)
    }

    fn crashed(&self) {
        self.died.notify_one();
    }
}

struct ScriptedSteps {
    ledger: Ledger,
    boundaries: Arc<Boundaries>,
}

impl Steps for ScriptedSteps {
    fn call_model<'a>(
        &'a self,
        call: ModelCall,
        _: Arc<dyn DeltaSink>,
    ) -> BoxFuture<'a, Result<ModelReply, StepError>> {
        Box::pin(async move {
            self.boundaries.pass().await;
            self.ledger.called(call.context.token, call.context.attempt, None);
            let answered = call.messages.iter().any(|message| matches!(message, ChatMessage::Tool { .. }));
            let calls = ["look", "store", "refund"].map(|name| RequestedCall {
                id: format!("call-{name}"),
                name: name.to_owned(),
                arguments: "{}".to_owned(),
            });
            let reply = ModelReply {
                text: if answered { "done".to_owned() } else { String::new() },
                reasoning: None,
                tool_calls: if answered { Vec::new() } else { calls.to_vec() },
                usage: None,
                finish_reason: None,
                first_token_ms: None,
            };
            self.boundaries.pass().await;
            Ok(reply)
        })
    }

    fn check_arguments(&self, _: &ToolSpec, arguments: &str) -> Result<Arc<str>, String> {
        Ok(arguments.into())
    }

    fn check_schema(&self, _: &RawJson) -> Result<(), String> {
        Ok(())
    }

    fn check_output(&self, _: &RawJson, answer: &str) -> Result<String, String> {
        Ok(answer.to_owned())
    }

    fn ask_guardrail<'a>(&'a self, _: GuardrailCall) -> BoxFuture<'a, Result<Option<Blocked>, Failure>> {
        Box::pin(async { Ok(None) })
    }

    fn call_tool<'a>(&'a self, call: ToolCall) -> BoxFuture<'a, ToolReply> {
        Box::pin(async move {
            self.boundaries.pass().await;
            self.ledger.called(call.context.token, call.context.attempt, Some(call.tool.effect));
            self.boundaries.pass().await;
            ToolReply { text: "done".to_owned(), error: false, media: Vec::new(), session_state: None }
        })
    }

    fn reconcile<'a>(&'a self, _: ToolCall) -> BoxFuture<'a, Reconciled> {
        Box::pin(async { Reconciled::Unknown("no tool of this run is asked".into()) })
    }
}

struct Scene {
    clock: Arc<VirtualClock>,
    log: MemoryLog,
    ledger: Ledger,
    store: Arc<MemoryStore>,
    promises: Arc<Promises>,
}

impl Scene {
    fn new() -> Self {
        let clock = Arc::new(VirtualClock::default());
        let log = MemoryLog::new(LogId(uuid::Uuid::from_u128(1)), 1, clock.clone());
        let ledger = Ledger::new(log.clone());
        Self { clock, log, ledger, store: Arc::default(), promises: Arc::default() }
    }

    fn start() -> Command {
        let start = StartRun {
            session_id: SessionId::trusted("s"),
            agent: AgentRef::Pinned(steps::agent()),
            input: Text::inline("go"),
            media: Vec::new(),
            metadata: None,
            session_state: None,
            stream: false,
            background: true,
            output_schema: None,
            scheduled_by: None,
        };
        Command::new(CommandId::trusted("the-run"), None, CommandBody::StartRun(Box::new(start)))
    }

    /// A life that ends at its boundary, or when the run has ended.
    fn live(&self, boundaries: &Arc<Boundaries>) {
        self.log.set_faults(boundaries.clone());
        virtual_time().block_on(async {
            self.clock.begin();
            let died = boundaries.died.notified();
            tokio::select! {
                biased;
                () = died => {}
                () = self.act(boundaries) => {}
            }
            self.clock.end();
        });
    }

    fn tools(&self, steps: Arc<dyn Steps>) -> Tools {
        let store = self.store.clone();
        Tools {
            log: Arc::new(self.log.clone()),
            open_store: Arc::new(move |_| Ok(Arc::new(ExportableStore::new(store.clone())))),
            forget_store: Arc::new(|_| Ok(())),
            shelf: None,
            blobs: Arc::new(MemoryBlobs::default()),
            steps,
            agents: Arc::default(),
            live_bus: None,
            clock: self.clock.clone() as Arc<dyn Clock>,
        }
    }

    async fn act(&self, boundaries: &Arc<Boundaries>) {
        let steps = ScriptedSteps { ledger: self.ledger.clone(), boundaries: boundaries.clone() };
        let tools = self.tools(Arc::new(steps));
        let node = NodeHandle::start(tools, Settings::of(NodeId::trusted("node"))).await.expect("starts");
        let client = Client {
            clock: self.clock.clone(),
            dice: Dice::new(0),
            log: self.log.clone(),
            ledger: self.ledger.clone(),
            promises: self.promises.clone(),
            sessions: 1,
            life: 0,
        };
        let command = Self::start();
        let run = RunId::of_command(&command.id, command.body.session_id().expect("names its session"));
        // The client asks until it is answered, in every life: a repeat has no further effect.
        while node.submit(command.clone()).await.is_err() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        self.promises.accepted.lock().expect("promises").insert(run, SessionId::trusted("s"));
        for round in 0..1_000 {
            client.decide_what_waits(&node, round).await;
            if self.ended() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("the run does not end: {:?} {:?}", node.readiness(), node.load());
    }

    fn ended(&self) -> bool {
        self.log
            .recorded(PartitionId(0))
            .iter()
            .any(|recorded| matches!(recorded.decode(), Ok(Event::Run(event)) if event.is_end()))
    }

    fn check(&self) -> Result<(), String> {
        let views = SharedViews::default();
        let stores = BTreeMap::from([(PartitionId(0), self.store.clone())]);
        check::everything(&check::World {
            log: &self.log,
            ledger: &self.ledger,
            promises: &self.promises,
            stores: &stores,
            views: &views,
            lives: 2,
            faults: 1,
            snapshots_read: 0,
        })?;
        let refunds = self.ledger.calls().iter().filter(|call| call.effect == Effect::AtMostOnce).count();
        if refunds > 1 {
            return Err(format!("the refund was made {refunds} times"));
        }
        Ok(())
    }
}

#[test]
fn a_run_that_dies_at_any_boundary_goes_on_and_does_nothing_twice() {
    crate::silence_simulated_panics();
    let whole = Scene::new();
    let boundaries = Boundaries::new(usize::MAX);
    whole.live(&boundaries);
    whole.check().expect("clean without a crash");
    let count = boundaries.reached.load(Ordering::SeqCst);
    assert!(count >= 2 * (1 + 5 + 5), "two for the claim, each commit and each effect, not {count}");
    for dies_at in 0..count {
        for forgets in [false, true] {
            let mut scene = Scene::new();
            scene.live(&Boundaries::new(dies_at));
            if forgets {
                scene.store.clear().expect("clears");
            }
            scene.log = scene.log.restart();
            scene.live(&Boundaries::new(usize::MAX));
            scene.check().unwrap_or_else(|broken| panic!("killed at boundary {dies_at} of {count}: {broken}"));
        }
    }
    println!("{count} boundaries, each with and without the state store");
}

/// Every model call of session `bad` panics, the first `left` times.
struct Panics {
    steps: SimulatedSteps,
    left: Mutex<u32>,
    panicked: AtomicUsize,
}

impl Panics {
    fn new(scene: &Scene, left: u32) -> Arc<Self> {
        let steps = SimulatedSteps { dice: Dice::new(1), ledger: scene.ledger.clone(), panic_per_mille: 0 };
        Arc::new(Self { steps, left: Mutex::new(left), panicked: AtomicUsize::new(0) })
    }
}

impl Steps for Panics {
    fn call_model<'a>(
        &'a self,
        call: ModelCall,
        sink: Arc<dyn DeltaSink>,
    ) -> BoxFuture<'a, Result<ModelReply, StepError>> {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        if call.context.session_id.as_str() == "bad" && *left > 0 {
            *left -= 1;
            self.panicked.fetch_add(1, Ordering::SeqCst);
            panic!("simulated panic of an effect of one run");
        }
        self.steps.call_model(call, sink)
    }

    fn check_arguments(&self, tool: &ToolSpec, arguments: &str) -> Result<Arc<str>, String> {
        self.steps.check_arguments(tool, arguments)
    }

    fn check_schema(&self, schema: &RawJson) -> Result<(), String> {
        self.steps.check_schema(schema)
    }

    fn check_output(&self, schema: &RawJson, answer: &str) -> Result<String, String> {
        self.steps.check_output(schema, answer)
    }

    fn ask_guardrail<'a>(&'a self, call: GuardrailCall) -> BoxFuture<'a, Result<Option<Blocked>, Failure>> {
        self.steps.ask_guardrail(call)
    }

    fn call_tool<'a>(&'a self, call: ToolCall) -> BoxFuture<'a, ToolReply> {
        self.steps.call_tool(call)
    }

    fn reconcile<'a>(&'a self, call: ToolCall) -> BoxFuture<'a, Reconciled> {
        self.steps.reconcile(call)
    }
}

impl Scene {
    /// Starts one run in each session; their ids.
    async fn begin(&self, node: &NodeHandle, sessions: &[&str]) -> Vec<RunId> {
        let mut runs = Vec::new();
        for session in sessions {
            let mut command = Self::start();
            command.id = CommandId::trusted(session);
            let CommandBody::StartRun(start) = &mut command.body else { unreachable!("a start") };
            start.session_id = SessionId::trusted(session);
            runs.push(RunId::of_command(&command.id, command.body.session_id().expect("names its session")));
            while node.submit(command.clone()).await.is_err() {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
        runs
    }

    async fn until_all_have_ended(&self) {
        while !check::open_runs(&self.log).is_empty() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// How runs ended, by their stream.
    fn ends(&self) -> BTreeMap<String, RunEvent> {
        let end = |recorded: &Recorded| match recorded.decode() {
            Ok(Event::Run(event)) if event.is_end() => Some((recorded.event.key.as_str().to_owned(), event)),
            _ => None,
        };
        self.log.recorded(PartitionId(0)).iter().filter_map(end).collect()
    }
}

fn virtual_time() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime")
}

#[test]
fn a_panic_in_an_effect_restarts_its_run_and_touches_no_other() {
    crate::silence_simulated_panics();
    let scene = Scene::new();
    let panics = Panics::new(&scene, u32::MAX);
    virtual_time().block_on(async {
        scene.clock.begin();
        let tools = scene.tools(panics.clone());
        let node = NodeHandle::start(tools, Settings::of(NodeId::trusted("node"))).await.expect("starts");
        scene.begin(&node, &["bad", "good-1", "good-2"]).await;
        scene.until_all_have_ended().await;
        assert!(node.readiness().is_settled());
    });
    let ends = scene.ends();
    assert!(panics.panicked.load(Ordering::SeqCst) > 1, "the run was restarted");
    let RunEvent::Failed(failed) = &ends["session:bad"] else { panic!("{ends:?}") };
    assert_eq!(&*failed.error.kind, "internal");
    let panicked_others =
        ends.values().filter(|end| matches!(end, RunEvent::Failed(f) if &*f.error.kind == "internal"));
    assert_eq!(panicked_others.count(), 1);
}

#[test]
fn a_command_for_a_run_whose_actor_failed_and_is_not_back_does_not_keep_it_from_going_on() {
    crate::silence_simulated_panics();
    let scene = Scene::new();
    let panics = Panics::new(&scene, 1);
    virtual_time().block_on(async {
        scene.clock.begin();
        let tools = scene.tools(panics.clone());
        let node = NodeHandle::start(tools, Settings::of(NodeId::trusted("node"))).await.expect("starts");
        let run_id = scene.begin(&node, &["bad"]).await.remove(0);
        while panics.panicked.load(Ordering::SeqCst) == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let session_id = Some(SessionId::trusted("bad"));
        let decisions = vec![Decision { tool_call_id: "no-such-call".into(), verdict: Verdict::no() }];
        let body = CommandBody::ContinueRun { session_id, run_id, decisions, decided_by: None, asked: 0 };
        let answer = node.submit(Command::new(CommandId::trusted("decide"), None, body)).await;
        assert!(matches!(answer, Err(SubmitError::Refused(Refusal::StepNotInDoubt { .. }))), "{answer:?}");
        scene.until_all_have_ended().await;
    });
    let ends = scene.ends();
    let forgotten = matches!(&ends["session:bad"], RunEvent::Failed(failed) if &*failed.error.kind == "timeout");
    assert!(!forgotten, "{ends:?}");
}
