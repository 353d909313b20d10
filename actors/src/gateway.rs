//! Commands for partitions that other nodes own: put into the log, and answered through it.
//!
//! A command that is repeated has no further effect, so whoever gives up waiting may ask again; and a
//! partition on its way from one node to another needs no care: the command waits for its next owner.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use futures::{StreamExt, stream::BoxStream};
use reenact_events::{Answer, Command, CommandId, EventLog, Forward, LogError, PartitionId, ReplyTo};
use tokio::sync::oneshot;
use uuid::Uuid;

use crate::{
    answers,
    api::{Accepted, SubmitError},
};

/// Pause before the answers are followed again after a failure.
const FOLLOW_PAUSE: Duration = Duration::from_secs(1);

struct Waiter {
    command: CommandId,
    told: oneshot::Sender<Answer>,
}

/// See the module.
pub(crate) struct Gateway {
    log: Arc<dyn EventLog>,
    /// Names this life of this node.
    incarnation: Uuid,
    asked: AtomicU64,
    waiting: Mutex<BTreeMap<Arc<str>, Waiter>>,
}

impl Gateway {
    pub(crate) fn new(log: Arc<dyn EventLog>, incarnation: Uuid) -> Self {
        Self { log, incarnation, asked: AtomicU64::new(0), waiting: Mutex::default() }
    }

    fn waiting(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, Waiter>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts the command into the log and waits for its answer, for at most `wait`.
    pub(crate) async fn ask(&self, mut command: Command, wait: Duration) -> Result<Accepted, SubmitError> {
        let number = self.asked.fetch_add(1, Ordering::Relaxed);
        let correlation_id: Arc<str> = format!("{}/{number}", self.incarnation).into();
        let partitions = self.log.partitions();
        // One that names only a run goes round, from anywhere.
        let partition = command.stream().map_or(PartitionId(0), |stream| stream.partition_of(partitions));
        command.reply_to = Some(ReplyTo { topic: None, correlation_id: correlation_id.clone() });
        let (told, answer) = oneshot::channel();
        self.waiting().insert(correlation_id.clone(), Waiter { command: command.id.clone(), told });
        let _forgets = Forgets { gateway: self, correlation_id };
        let asked = async {
            self.log.publish(vec![Forward { partition, command }]).await.map_err(|error| unavailable(&error))?;
            answer.await.map_err(|_| unknown())
        };
        match tokio::time::timeout(wait, asked).await {
            Ok(Ok(answer)) => answers::outcome(&answer),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(unknown()),
        }
    }

    fn tell(&self, answer: Answer) {
        let mut waiting = self.waiting();
        let awaited = waiting.get(&answer.correlation_id).is_some_and(|waiter| waiter.command == answer.command_id);
        if awaited && let Some(waiter) = waiting.remove(&answer.correlation_id) {
            // Who asked may have left.
            waiter.told.send(answer).unwrap_or_default();
        }
    }

    /// Hands out the answers, for ever. The stream is opened before anything is asked.
    pub(crate) async fn follow(self: Arc<Self>, mut answers: BoxStream<'static, Result<Answer, LogError>>) {
        loop {
            match answers.next().await {
                Some(Ok(answer)) => {
                    self.tell(answer);
                    continue;
                }
                Some(Err(error)) => tracing::warn!(%error, "answers from other nodes cannot be read for now"),
                None => tracing::warn!("the answers from other nodes have ended, they are followed again"),
            }
            // Who waits for an answer that comes meanwhile is told to ask again.
            tokio::time::sleep(FOLLOW_PAUSE).await;
            answers = self.log.answers();
        }
    }
}

/// Nobody waits any more.
struct Forgets<'a> {
    gateway: &'a Gateway,
    correlation_id: Arc<str>,
}

impl Drop for Forgets<'_> {
    fn drop(&mut self) {
        self.gateway.waiting().remove(&self.correlation_id);
    }
}

fn unavailable(error: &LogError) -> SubmitError {
    SubmitError::Unavailable { reason: error.to_string().into() }
}

fn unknown() -> SubmitError {
    SubmitError::Unavailable {
        reason: "the outcome of this command is not known yet: the node that decides it has not answered; ask again \
                 with the same id"
            .into(),
    }
}
