//! The actors of a session's runs: brought to life, called, restarted, let go.

use std::time::Duration;

use ractor::{Actor, ActorProcessingErr};
use reenact_events::{
    RunId,
    event::{Failure, RunStatus},
};

use super::{RunPlace, SessionMessage, SessionWork};
use crate::{
    run::history_lost,
    run_actor::{Entry, RunActor, RunMessage, RunSeed},
};

/// Restarts of one run's actor after which the run is ended with an error.
const RUN_CRASHES_MAX: u32 = 5;
/// The first pause before a restart, milliseconds; doubles each time.
const RESTART_MS: u64 = 20;

impl SessionWork {
    pub(super) async fn spawn(&mut self, run_id: RunId, entry: Entry) -> Result<(), ActorProcessingErr> {
        let seed = RunSeed {
            partition: self.partition().clone(),
            session: self.myself.clone(),
            run_id: run_id.clone(),
            entry,
        };
        let (actor, _) = RunActor::spawn_linked(None, RunActor, seed, self.myself.get_cell()).await?;
        self.runs.insert(run_id, RunPlace { actor, sent: 0 });
        Ok(())
    }

    pub(super) async fn restore(&mut self) -> Result<(), ActorProcessingErr> {
        let partition = self.partition().clone();
        for run_id in partition.states.open_runs(self.id())? {
            let Some(run) = partition.states.run(&run_id)? else { continue };
            if run.progress.history_lost {
                self.spawn(run_id, Entry::Failing(history_lost())).await?;
                continue;
            }
            match run.progress.status {
                RunStatus::Running => self.spawn(run_id, Entry::Recovered).await?,
                RunStatus::Pending => {
                    partition.shared.admission().found_waiting(partition.lease.partition, &run_id);
                    if self.is_parallel(&run)? {
                        self.stand_in_line(&run)?;
                    }
                }
                RunStatus::Paused if run.next_expiry().is_some() => self.spawn(run_id, Entry::Waiting).await?,
                _ => {}
            }
        }
        self.line_up()
    }

    pub(super) async fn run_changed(
        &mut self,
        run_id: &RunId,
        status: RunStatus,
        handled: u64,
    ) -> Result<(), ActorProcessingErr> {
        let partition = self.partition().clone();
        if status == RunStatus::Running {
            return Ok(());
        }
        if status.is_end() && partition.states.run(run_id)?.is_some_and(|run| !run.progress.status.is_end()) {
            // It was queued again meanwhile.
            return Ok(());
        }
        partition.shared.admission().release(partition.lease.partition, run_id);
        if status.is_end() {
            self.crashes.remove(run_id);
            if let Some(place) = self.runs.remove(run_id) {
                // What stands in its mailbox is still answered.
                place.actor.drain().map_err(|error| error.to_string())?;
            }
        } else if self.runs.get(run_id).is_some_and(|place| place.sent == handled) && !self.expires(run_id)? {
            // A paused run costs no memory. Only this actor sends to it, so its mailbox is empty.
            if let Some(place) = self.runs.remove(run_id) {
                place.actor.stop(None);
            }
        }
        if !self.runs.contains_key(run_id) {
            partition.states.release_run(run_id);
        }
        self.line_up()?;
        self.delete_if_quiet().await
    }

    /// Whether the run waits for a moment too: then its actor stays, and wakes up by itself.
    fn expires(&self, run_id: &RunId) -> Result<bool, ActorProcessingErr> {
        Ok(self.partition().states.run(run_id)?.is_some_and(|run| run.next_expiry().is_some()))
    }

    pub(super) fn tell(&mut self, run_id: &RunId, message: RunMessage) {
        let Some(place) = self.runs.get_mut(run_id) else { return };
        place.sent += 1;
        if place.actor.cast(message).is_err() {
            tracing::warn!(run = %run_id, "a command came for a run that is being restarted");
        }
    }

    pub(super) fn restart_later(&mut self, run_id: RunId) {
        self.runs.remove(&run_id);
        let crashes = self.crashes.entry(run_id.clone()).or_default();
        *crashes += 1;
        let pause = Duration::from_millis(RESTART_MS << (*crashes).min(8));
        let myself = self.myself.clone();
        tokio::spawn(async move {
            tokio::time::sleep(pause).await;
            // The session's actor may have ended meanwhile: its restart restores the run.
            myself.cast(SessionMessage::Restart(run_id)).unwrap_or_default();
        });
    }

    pub(super) async fn restart(&mut self, run_id: RunId) -> Result<(), ActorProcessingErr> {
        // What the failed actor proposed must be folded before its successor looks at the state.
        self.partition().barrier().await;
        let Some(run) = self.partition().states.run(&run_id)? else { return Ok(()) };
        if run.progress.status.is_end() {
            return self.run_changed(&run_id, run.progress.status, 0).await;
        }
        let crashes = self.crashes.get(&run_id).copied().unwrap_or_default();
        let entry = match run.progress.status {
            _ if crashes > RUN_CRASHES_MAX => Entry::Failing(Failure {
                kind: "internal".into(),
                message: format!("the run's actor failed {RUN_CRASHES_MAX} times; the server's log says why").into(),
                status: None,
            }),
            _ if run.progress.history_lost => Entry::Failing(history_lost()),
            RunStatus::Running => Entry::Recovered,
            // It was called, and failed before it began.
            RunStatus::Pending | RunStatus::Paused if self.has_slot(&run_id) => Entry::Called,
            _ => Entry::Waiting,
        };
        if !self.runs.contains_key(&run_id) {
            self.spawn(run_id, entry).await?;
        }
        Ok(())
    }
}
