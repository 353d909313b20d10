//! Feeds the commands of the log to a partition: many at once, in order, each until it is settled.
//!
//! A command that is another partition's is sent on; what is no command goes to the dead letters; a command
//! that names only a run is asked of the partitions in turn. A run that is asked for under an idempotency key comes to
//! the key's partition first: the first request takes the key, and it and its repeats are sent on to the session that
//! it named. When one command must be asked again, those behind it are asked again after it.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use futures::{
    FutureExt, StreamExt,
    future::BoxFuture,
    stream::{BoxStream, FuturesUnordered},
};
use reenact_events::{
    Arrival, Blobs, Command, CommandBody, CommandId, CommandRecord, Event, Forward, LogError, Offset, PartitionId,
    SessionId, StreamKey, Text, UserId, command::KeyUse, event::KeyUsed, hold::Verdict,
};
use reenact_snapshots::StoreError;
use tokio::sync::oneshot;
use uuid::Uuid;

use super::{AbortOnDrop, Partition, PartitionMessage, Proposal, ProposeError, Settlement, Settles, Submission};
use crate::{
    answers::Consumed,
    api::{Refusal, SubmitError},
};

/// Commands that are being decided at once, at most.
const IN_FLIGHT_MAX: usize = 256;
/// A command whose deciding failed so often is refused, so that it does not stop all others.
const TRIES_MAX: u32 = 5;
/// Pause before a command is asked again, milliseconds.
const PAUSE_MS: u64 = 50;
/// Pause before the log is asked again for commands, and before a text is stored again, milliseconds.
const OUTAGE_MS: u64 = 1_000;

/// Starts feeding.
pub(super) fn command_pump(partition: &Partition) -> AbortOnDrop {
    let pump = Pump {
        partition: partition.clone(),
        waiting: BTreeMap::new(),
        queue: VecDeque::new(),
        in_flight: FuturesUnordered::new(),
        keys: BTreeMap::new(),
        read: None,
        barred: false,
    };
    let commands = partition.shared.tools.log.commands(&partition.lease);
    AbortOnDrop(tokio::spawn(pump.run(commands)).abort_handle())
}

/// What became of a command that was asked.
enum Came {
    /// It is settled.
    Settled,
    /// It is not, and it is not its fault.
    Again,
    /// It is not: who decided it failed, or cannot do it now.
    Failed(String),
}

struct Waiting {
    arrival: Arrival,
    /// The partition knows of it.
    sent: bool,
    tries: u32,
    /// What is wrong, if something is.
    trouble: Option<String>,
}

type Commands = BoxStream<'static, Result<CommandRecord, LogError>>;

struct Pump {
    partition: Partition,
    /// What is not settled.
    waiting: BTreeMap<Offset, Waiting>,
    /// What is to be asked, in order.
    queue: VecDeque<Offset>,
    in_flight: FuturesUnordered<BoxFuture<'static, (Offset, Came)>>,
    /// Idempotency keys that are being taken, by the command that takes them.
    keys: BTreeMap<Offset, Uuid>,
    /// The last command that was read.
    read: Option<Offset>,
    /// Something must be asked again: nothing new is asked before all have come back.
    barred: bool,
}

/// The partition's actor has ended, and with it the need for this task.
struct Ended;

impl Pump {
    async fn run(mut self, mut commands: Commands) {
        while self.turn(&mut commands).await.is_ok() {}
    }

    async fn turn(&mut self, commands: &mut Commands) -> Result<(), Ended> {
        if self.barred && self.in_flight.is_empty() {
            self.resume().await?;
        }
        self.ask_queue().await?;
        if self.barred && self.in_flight.is_empty() {
            return Ok(());
        }
        let reads = !self.barred && self.queue.is_empty() && self.waiting.len() < IN_FLIGHT_MAX;
        tokio::select! {
            biased;
            Some((offset, came)) = self.in_flight.next(), if !self.in_flight.is_empty() => self.came(offset, came),
            record = commands.next(), if reads => match record {
                Some(Ok(record)) => {
                    self.take(record);
                    Ok(())
                }
                Some(Err(LogError::Unavailable { reason })) => {
                    let number = self.partition.lease.partition.0;
                    tracing::warn!(partition = number, %reason, "no commands from the log for now");
                    tokio::time::sleep(Duration::from_millis(OUTAGE_MS)).await;
                    *commands = self.partition.shared.tools.log.commands(&self.partition.lease);
                    Ok(())
                }
                Some(Err(error)) => {
                    tracing::warn!(partition = self.partition.lease.partition.0, %error, "no more commands from the log");
                    *commands = futures::stream::pending().boxed();
                    Ok(())
                }
                None => {
                    *commands = futures::stream::pending().boxed();
                    Ok(())
                }
            },
        }
    }

    fn take(&mut self, record: CommandRecord) {
        // A stream that was opened anew begins at the cursor: what is being decided is met again.
        if self.read.is_some_and(|read| record.offset <= read) {
            return;
        }
        self.read = Some(record.offset);
        self.waiting.insert(record.offset, Waiting { arrival: record.arrival, sent: false, tries: 0, trouble: None });
        self.queue.push_back(record.offset);
    }

    /// Asks what is to be asked, as far as it need not wait for what is being decided.
    async fn ask_queue(&mut self) -> Result<(), Ended> {
        while !self.barred
            && let Some(offset) = self.queue.front().copied()
        {
            if !self.ask(offset).await? {
                return Ok(());
            }
            self.queue.pop_front();
        }
        Ok(())
    }

    /// Whether it was asked; if not, all that is being decided must be settled first.
    async fn ask(&mut self, offset: Offset) -> Result<bool, Ended> {
        let Some(waiting) = self.waiting.get(&offset) else { return Ok(true) };
        let command = match &waiting.arrival {
            Arrival::Poison(letter) => {
                self.settle(offset, Settlement::Dead(letter.clone()))?;
                return Ok(true);
            }
            Arrival::Command(command) => command.clone(),
        };
        if waiting.tries >= TRIES_MAX {
            let reason = waiting.trouble.clone().unwrap_or_default().into();
            let error = SubmitError::Unavailable { reason };
            tracing::error!(offset = offset.0, command = %command.id, %error, "a command is refused");
            self.settle(offset, self.consumed(offset, &command).rejected(&error).settlement)?;
            return Ok(true);
        }
        match self.route(&command)? {
            Route::Here(session) => self.submit(offset, named(*command, session)).await?,
            Route::Schedules => self.submit(offset, *command).await?,
            Route::To(partition, command) => {
                self.settle(offset, Settlement::Forwarded(Box::new(Forward { partition, command })))?;
            }
            Route::First(key, forward) => {
                self.keys.insert(offset, key.by.key);
                let stream = StreamKey::idempotency(key.by.key);
                let made = Made { stream, owner: command.user_id, cause: Some(command.id), event: key.into() };
                self.settle_with(offset, Settlement::Forwarded(Box::new(forward)), Some(made))?;
            }
            Route::Taken => {
                let error = SubmitError::from(Refusal::KeyUsed);
                self.settle(offset, self.consumed(offset, &command).rejected(&error).settlement)?;
            }
            Route::AfterKey => return Ok(false),
            Route::Unknown if !self.in_flight.is_empty() => return Ok(false),
            Route::Unknown => {
                let error = SubmitError::from(Refusal::RunNotFound);
                self.settle(offset, self.consumed(offset, &command).rejected(&error).settlement)?;
            }
        }
        Ok(true)
    }

    fn route(&self, command: &Command) -> Result<Route, Ended> {
        let (here, all) = (self.partition.lease.partition, self.partition.shared.tools.log.partitions());
        match (command.stream(), &command.key, command.body.session_id()) {
            (Some(stream), ..) if stream.partition_of(all) != here => {
                return Ok(Route::To(stream.partition_of(all), command.clone()));
            }
            (Some(_), Some(used), Some(session)) => return self.under_key(used, session, command),
            (Some(_), None, Some(session)) => return Ok(Route::Here(session.clone())),
            (Some(_), None, None) => return Ok(Route::Schedules),
            _ => {}
        }
        let mut next = command.clone();
        let (run_id, asked) = match &mut next.body {
            CommandBody::CancelRun { run_id, asked, .. }
            | CommandBody::ContinueRun { run_id, asked, .. }
            | CommandBody::RequeueRun { run_id, asked, .. } => (&*run_id, asked),
            CommandBody::ForkRun(fork) => (&fork.run_id, &mut fork.asked),
            _ => return Ok(Route::Unknown),
        };
        let known = self.partition.states.run(run_id).map_err(|error| self.broken(error))?;
        if let Some(run) = known {
            return Ok(Route::Here(run.origin.session_id.clone()));
        }
        *asked += 1;
        let last = *asked >= all;
        // The run may be in a command that is being decided.
        if last || !self.in_flight.is_empty() {
            return Ok(Route::Unknown);
        }
        Ok(Route::To(PartitionId((here.0 + 1) % all), next))
    }

    fn under_key(&self, used: &KeyUse, session: &SessionId, command: &Command) -> Result<Route, Ended> {
        if self.keys.values().any(|key| *key == used.key) {
            return Ok(Route::AfterKey);
        }
        let known = self.partition.states.used_key(used.key).map_err(|error| self.broken(error))?;
        if known.as_ref().is_some_and(|known| known.request != used.request) {
            return Ok(Route::Taken);
        }
        let first = known.is_none();
        let session_id = known.map_or_else(|| session.clone(), |known| known.session_id);
        let partition = StreamKey::session(&session_id).partition_of(self.partition.shared.tools.log.partitions());
        let mut next = Command { key: None, ..command.clone() };
        if let CommandBody::StartRun(start) = &mut next.body {
            start.session_id = session_id.clone();
        }
        Ok(match first {
            true => Route::First(KeyUsed { by: used.clone(), session_id }, Forward { partition, command: next }),
            false => Route::To(partition, next),
        })
    }

    /// The partition is restored anew.
    fn broken(&self, error: StoreError) -> Ended {
        self.partition.actor.cast(PartitionMessage::StoreFailed(error)).unwrap_or_default();
        Ended
    }

    fn consumed(&self, offset: Offset, command: &Command) -> Consumed {
        Consumed::of(offset, command, self.partition.shared.tools.log.partitions())
    }

    async fn submit(&mut self, offset: Offset, command: Command) -> Result<(), Ended> {
        let consumed = self.consumed(offset, &command);
        let blobs = self.partition.shared.tools.blobs.clone();
        let command = match with_short_texts(command, &*blobs).await {
            Ok(command) => command,
            Err(error) => {
                tokio::time::sleep(Duration::from_millis(OUTAGE_MS)).await;
                return self.came(offset, Came::Failed(error));
            }
        };
        let (reply, answer) = oneshot::channel();
        let submission = Submission { command, consumed: Some(consumed), reply };
        self.send(offset, PartitionMessage::Submit(submission))?;
        let came = async move {
            let came = match answer.await {
                Ok(Err(SubmitError::Unavailable { .. })) => Came::Again,
                Ok(Ok(_)) => Came::Settled,
                Ok(Err(refused)) => {
                    tracing::info!(offset = offset.0, %refused, "a command was refused");
                    Came::Settled
                }
                Err(_) => Came::Failed("what decides this command failed; the server's log says why".to_owned()),
            };
            (offset, came)
        };
        self.in_flight.push(came.boxed());
        Ok(())
    }

    fn send(&mut self, offset: Offset, message: PartitionMessage) -> Result<(), Ended> {
        if let Some(waiting) = self.waiting.get_mut(&offset) {
            waiting.sent = true;
        }
        self.partition.actor.cast(message).map_err(|_| Ended)
    }

    /// Settles a command without a decision.
    fn settle(&mut self, offset: Offset, settlement: Settlement) -> Result<(), Ended> {
        self.settle_with(offset, settlement, None)
    }

    /// Settles a command that no entity decides, perhaps with an event.
    fn settle_with(&mut self, offset: Offset, settlement: Settlement, made: Option<Made>) -> Result<(), Ended> {
        let (reply, answer) = oneshot::channel();
        let (at, settles) = (self.partition.shared.now(), Some(Settles { offset, settlement }));
        let proposal = match made {
            Some(Made { stream: key, owner, cause, event }) => {
                Proposal { key, owner, cause, at, events: vec![event], sends: Vec::new(), settles, reply }
            }
            None => {
                let key = StreamKey::partition(self.partition.lease.partition);
                Proposal { key, owner: None, cause: None, at, events: Vec::new(), sends: Vec::new(), settles, reply }
            }
        };
        self.send(offset, PartitionMessage::Settle(proposal))?;
        let came = async move {
            let came = match answer.await {
                Ok(Err(ProposeError::OutOfTurn)) | Err(_) => Came::Again,
                Ok(_) => Came::Settled,
            };
            (offset, came)
        };
        self.in_flight.push(came.boxed());
        Ok(())
    }

    fn came(&mut self, offset: Offset, came: Came) -> Result<(), Ended> {
        self.keys.remove(&offset);
        match came {
            Came::Settled => {
                self.waiting.remove(&offset);
                return Ok(());
            }
            Came::Again => {}
            Came::Failed(trouble) => {
                if let Some(waiting) = self.waiting.get_mut(&offset) {
                    waiting.tries += 1;
                    waiting.trouble = Some(trouble);
                }
            }
        }
        if !std::mem::replace(&mut self.barred, true) {
            self.partition.actor.cast(PartitionMessage::Bar).map_err(|_| Ended)?;
        }
        Ok(())
    }

    /// All have come back: what is not settled is asked again, in order.
    async fn resume(&mut self) -> Result<(), Ended> {
        tokio::time::sleep(Duration::from_millis(PAUSE_MS)).await;
        let (reply, unsettled) = oneshot::channel();
        self.partition.actor.cast(PartitionMessage::Resume(reply)).map_err(|_| Ended)?;
        let unsettled = unsettled.await.map_err(|_| Ended)?;
        self.waiting.retain(|offset, waiting| !waiting.sent || unsettled.contains(offset));
        self.queue = self.waiting.keys().copied().collect();
        self.barred = false;
        Ok(())
    }
}

/// What the pump itself has decided.
struct Made {
    stream: StreamKey,
    owner: Option<UserId>,
    cause: Option<CommandId>,
    event: Event,
}

/// Where a command goes.
enum Route {
    Here(SessionId),
    /// The partition's schedules decide it.
    Schedules,
    To(PartitionId, Command),
    /// The first one under its key, and on its way.
    First(KeyUsed, Forward),
    /// Its key stands for another request.
    Taken,
    /// Another one is taking its key.
    AfterKey,
    /// Nobody knows its run, or nobody yet.
    Unknown,
}

/// The command with the session that it is about.
fn named(mut command: Command, session: SessionId) -> Command {
    if let CommandBody::CancelRun { session_id, .. }
    | CommandBody::ContinueRun { session_id, .. }
    | CommandBody::RequeueRun { session_id, .. } = &mut command.body
    {
        *session_id = Some(session);
    } else if let CommandBody::ForkRun(fork) = &mut command.body {
        fork.session_id = Some(session);
    }
    command
}

/// Long texts are stored apart: an event stays small.
async fn with_short_texts(mut command: Command, blobs: &dyn Blobs) -> Result<Command, String> {
    let mut texts: Vec<&mut Text> = match &mut command.body {
        CommandBody::StartRun(start) => vec![&mut start.input],
        CommandBody::ForkRun(fork) => fork.input.iter_mut().collect(),
        CommandBody::ContinueRun { decisions, .. } => {
            let values = decisions.iter_mut().filter_map(|decision| match &mut decision.verdict {
                Verdict::Result { value } => Some(value),
                Verdict::Confirmed { arguments, .. } => arguments.as_mut(),
                Verdict::Rejected { .. } | Verdict::Fail => None,
            });
            values.collect()
        }
        _ => Vec::new(),
    };
    for text in &mut texts {
        if let Text::Inline(inline) = &**text {
            let kept = Text::keep(inline, command.user_id.as_ref(), blobs).await;
            **text = kept.map_err(|error| format!("its text cannot be stored: {error}"))?;
        }
    }
    Ok(command)
}
