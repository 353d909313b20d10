//! Copies the session.
//!
//! The copy is of the same partition, so whoever has this session's runs writes them into the other one's stream, all
//! in one batch: it is there whole or not at all. Its id follows from the command's, so a repeat finds it.

use ractor::ActorProcessingErr;
use reenact_events::{CommandId, SessionId, StreamKey, UserId};

use super::SessionWork;
use crate::{
    answers::{Consumed, Told},
    api::{Accepted, Refusal, SubmitError},
    partition::Proposal,
    session::{self, Fields, NewCopy},
};

/// Runs that are copied at most: all of them are one batch.
const RUNS_MAX: usize = 1_000;

impl SessionWork {
    pub(super) async fn copy(
        &mut self,
        cause: &CommandId,
        user: Option<UserId>,
        fields: Fields,
        consumed: Option<&Consumed>,
    ) -> Result<Result<Accepted, SubmitError>, ActorProcessingErr> {
        let partition = self.partition().clone();
        let (states, now) = (partition.states.clone(), partition.shared.now());
        let session_id = SessionId::of_copy(cause, self.id(), partition.shared.tools.log.partitions());
        if states.session(&session_id)?.exists {
            return self.put(cause, user, session_id, Vec::new(), consumed).await;
        }
        if !self.is_visible(user.as_ref())? {
            return Ok(Err(Refusal::SessionNotFound.into()));
        }
        let found = states.history(self.id(), u64::MAX, RUNS_MAX + 1)?;
        let first = found.first().map(|run| NewCopy::run_id(&session_id, run.id()));
        let refusal = match first {
            None => Refusal::NotCopied("the session has no completed run to copy".into()),
            Some(_) if found.len() > RUNS_MAX => {
                let text = format!("the session has more than {RUNS_MAX} completed runs, and no more are copied");
                Refusal::NotCopied(text.into())
            }
            // It was copied with this command, and the copy was deleted.
            Some(first) if states.was_deleted(&first)? => Refusal::SessionNotFound,
            Some(_) => {
                let runs: Result<Vec<_>, _> =
                    found.into_iter().map(|run| Ok::<_, ActorProcessingErr>((partition.agent(&run)?, run))).collect();
                let runs: Vec<_> = runs?.into_iter().map(|(agent, run)| (run, agent)).collect();
                let user_id = user.clone().or(states.session(self.id())?.user_id.clone());
                let (source, values) = (self.id(), states.session_values(self.id())?);
                let new = NewCopy { session_id: session_id.clone(), user_id, source, runs: &runs, values, fields };
                match session::copy(new, now) {
                    Ok(events) => return self.put(cause, user, session_id, events, consumed).await,
                    Err(refusal) => refusal,
                }
            }
        };
        Ok(Err(refusal.into()))
    }

    /// Commits the copy; without events it is there already.
    async fn put(
        &self,
        cause: &CommandId,
        user: Option<UserId>,
        session_id: SessionId,
        events: Vec<reenact_events::Event>,
        consumed: Option<&Consumed>,
    ) -> Result<Result<Accepted, SubmitError>, ActorProcessingErr> {
        let partition = self.partition().clone();
        let duplicate = events.is_empty();
        let told = || Told::of_session(&session_id, None, duplicate);
        let settles = consumed.map(|consumed| consumed.accepted(told));
        let (key, cause, at) = (StreamKey::session(&session_id), Some(cause.clone()), partition.shared.now());
        let runs: Vec<_> = events.iter().filter_map(queued).collect();
        let proposed = partition
            .propose(|reply| Proposal { key, owner: user, cause, at, events, sends: Vec::new(), settles, reply })
            .await;
        // Nobody works on it.
        runs.iter().for_each(|run| partition.states.release_run(run));
        partition.states.release_session(&session_id);
        match proposed {
            Ok(receipt) => Ok(Ok(Accepted { session_id: Some(session_id), duplicate, ..self.accepted(receipt, None) })),
            Err(error) => Ok(Err(error.told()?)),
        }
    }
}

fn queued(event: &reenact_events::Event) -> Option<reenact_events::RunId> {
    match event {
        reenact_events::Event::Run(reenact_events::RunEvent::Queued(queued)) => Some(queued.run_id.clone()),
        _ => None,
    }
}
