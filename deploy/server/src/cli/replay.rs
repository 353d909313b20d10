//! `reenact replay`: takes the decisions of a recorded run once more.

use std::{collections::BTreeMap, sync::Arc};

use anyhow::{Context, bail};
use clap::Args;
use reenact_actors::run::{
    RunCommand,
    reenact::{Difference, Recording, Reenactment, reenact},
};
use reenact_events::{Event, Offset, PartitionId, RunEvent, RunId, agent::AgentSpec, event::ComponentEvent};
use serde_json::{Value, json};

use super::{
    fork::Fork,
    log_source::{At, Source},
    output::{self, kind},
    told::Told,
};

/// Take the decisions of a recorded run once more, and tell where they come out otherwise.
///
/// Nothing is called and nothing is written: what the model and the tools said is read from the log. The exit status
/// is 1 when the run comes out otherwise than it was recorded. With `--from`, another run goes on from a step of it.
#[derive(Debug, Args)]
pub(super) struct Replay {
    /// The run's id.
    run: String,
    #[command(flatten)]
    at: At,
    #[command(flatten)]
    fork: Fork,
}

/// A run as the log has it.
struct Found {
    run: RunId,
    partition: PartitionId,
    offsets: Vec<Offset>,
    recorded: Vec<Recording>,
    agent: Arc<AgentSpec>,
}

impl Replay {
    pub(super) async fn execute(self, json: bool) -> anyhow::Result<()> {
        if self.fork.is_asked_for() {
            return self.fork.execute(&self.run, json).await;
        }
        // The reader blocks, so it has a thread of its own.
        tokio::task::spawn_blocking(move || self.replay(json)).await.context("reading the log was stopped")?
    }

    fn replay(&self, json: bool) -> anyhow::Result<()> {
        let run = RunId::parse(&self.run).with_context(|| format!("`{}` is no run's id", self.run))?;
        let found = find(&self.at.open()?, &run)?;
        let reenactment = reenact(&found.recorded, &found.agent);
        if json {
            output::json(&found.to_json(&reenactment)?)?;
        } else {
            output::lines(found.lines(&reenactment)?)?;
        }
        if reenactment.difference.is_some() { Err(Told.into()) } else { Ok(()) }
    }
}

/// Looks for the run in all partitions: which one it is in follows from its session, which nobody has named.
fn find(source: &Source, run: &RunId) -> anyhow::Result<Found> {
    for partition in (0..source.partitions()).map(PartitionId) {
        let (mut offsets, mut recorded, mut agents) = (Vec::new(), Vec::new(), BTreeMap::new());
        let mut from = Offset(0);
        loop {
            let events = source.read(partition, from)?;
            let Some(last) = events.last() else { break };
            from = last.offset.next();
            for event in &events {
                let is_of_run = event.event.subject.as_ref() == Some(run);
                match event.decode() {
                    Ok(Event::Component(ComponentEvent::Registered(agent))) => {
                        agents.insert(agent.version, Arc::new(agent.spec));
                    }
                    Ok(Event::Run(of_run)) if is_of_run => {
                        offsets.push(event.offset);
                        recorded.push(Recording { at: event.event.at, event: of_run });
                    }
                    Err(error) if is_of_run => {
                        return Err(error).with_context(|| format!("partition {partition}, offset {}", event.offset));
                    }
                    // What is not about this run need not be read.
                    Ok(_) | Err(_) => {}
                }
            }
        }
        if let Some(Recording { event: RunEvent::Queued(queued), .. }) = recorded.first() {
            let version = &queued.agent_version;
            let agent = agents.remove(version).with_context(|| {
                format!("version `{version}` of agent `{}` is not in partition {partition}", queued.agent_id)
            })?;
            return Ok(Found { run: run.clone(), partition, offsets, recorded, agent });
        }
    }
    bail!("run `{run}` is not in this log: `reenact events list --type run.queued` shows those that are")
}

impl Found {
    fn lines(&self, reenactment: &Reenactment) -> anyhow::Result<Vec<String>> {
        let (run, agent, count) = (&self.run, &self.agent.id, self.recorded.len());
        let mut lines = vec![format!("run {run} of agent {agent}: {count} events in partition {}", self.partition)];
        if reenactment.taken_over > 0 {
            lines.push(format!("  {} steps were taken over from another run", reenactment.taken_over));
        }
        let mut place = 1 + reenactment.taken_over;
        for same in &reenactment.same {
            let kinds: Vec<_> = self.recorded[place..place + same.events].iter().map(Self::kind_of).collect();
            lines.push(format!("  {:>8}  {:<40} {}", self.offsets[place], told(&same.command), kinds.join(", ")));
            place += same.events;
        }
        let Some(difference) = &reenactment.difference else {
            let decisions = reenactment.same.len();
            lines.push(format!("the same: {decisions} decisions were taken again and led to the recorded events"));
            return Ok(lines);
        };
        let (after, recorded, decided) = Self::sides(difference)?;
        lines.push(format!(
            "first difference: event {} of the run, {}",
            difference.place,
            self.offsets.get(difference.place).map_or("behind its last".to_owned(), |at| format!("offset {at}"))
        ));
        lines.push(format!("  after     {}", after.unwrap_or("nothing that can happen to the run".to_owned())));
        lines.push(format!("  recorded  {recorded}"));
        lines.push(format!("  now       {decided}"));
        Ok(lines)
    }

    fn to_json(&self, reenactment: &Reenactment) -> anyhow::Result<Value> {
        let difference = match &reenactment.difference {
            None => Value::Null,
            Some(difference) => {
                let (after, recorded, decided) = Self::sides(difference)?;
                let offset = self.offsets.get(difference.place);
                json!({
                    "event": difference.place, "offset": offset, "after": after,
                    "recorded": recorded, "decided": decided,
                })
            }
        };
        Ok(json!({
            "run_id": self.run, "agent_id": self.agent.id, "partition": self.partition,
            "events": self.recorded.len(), "taken_over": reenactment.taken_over, "decisions": reenactment.same.len(),
            "same": reenactment.difference.is_none(), "difference": difference,
        }))
    }

    fn kind_of(recorded: &Recording) -> String {
        kind(recorded.event.type_name()).to_owned()
    }

    /// What happened, what was recorded then, and what follows now.
    fn sides(difference: &Difference) -> anyhow::Result<(Option<String>, Value, Value)> {
        let side = |event: &Option<RunEvent>| match event {
            None => Ok(Value::Null),
            Some(event) => {
                let data: Value = serde_json::from_str(&event.encode()?)?;
                Ok::<_, serde_json::Error>(json!({ "type": event.type_name(), "data": data }))
            }
        };
        let after = difference.command.as_ref().map(told);
        Ok((after, side(&difference.recorded)?, side(&difference.decided)?))
    }
}

fn told(command: &RunCommand) -> String {
    match command {
        RunCommand::Begin => "its turn came".to_owned(),
        RunCommand::ModelReturned { step, attempt, outcome, .. } => {
            let how = if outcome.is_ok() { "answered" } else { "failed" };
            format!("the model {how}, step {step} attempt {attempt}")
        }
        RunCommand::ToolReturned { step, attempt, .. } => format!("the tool returned, step {step} attempt {attempt}"),
        RunCommand::Guarded { step, attempt, .. } => format!("the guardrail was asked, step {step} attempt {attempt}"),
        RunCommand::Reconciled { step, attempt, .. } => format!("the tool was asked, step {step} attempt {attempt}"),
        RunCommand::StartedTooLate { step, .. } => format!("step {step} was not begun in time"),
        RunCommand::RetryDue { step } => format!("the retry of step {step} was due"),
        RunCommand::Recover { .. } => "its actor began again".to_owned(),
        RunCommand::Cancel { .. } => "it was cancelled".to_owned(),
        RunCommand::Resolve { decisions, .. } => format!("{} tool calls were decided about", decisions.len()),
        RunCommand::Expire => "the time for a decision was over".to_owned(),
        RunCommand::Requeue { .. } => "it was queued again".to_owned(),
        RunCommand::Replace { by } => format!("run {by} answers in its place"),
        RunCommand::Fail(failure) => format!("it could not go on: {}", failure.kind),
    }
}
