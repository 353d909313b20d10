//! How long a run may take: from when it got its turn, whoever is its owner meanwhile.

use reenact_events::event::{Failure, RunStatus};

use super::RunWork;
use crate::run::RunCommand;

impl RunWork {
    /// Milliseconds until the run's time is over; none while it waits for its turn or for a person.
    fn left_ms(&self) -> Option<i64> {
        let since = self.run.progress.turn_at.filter(|_| self.run.progress.status == RunStatus::Running)?;
        let over = since.plus_ms(i64::from(self.agent.limits.timeout_s) * 1_000);
        Some(over.ms_since(self.partition.shared.now()).max(0))
    }

    /// What ends a run that is recovered after its time: nothing of it is asked again.
    pub(super) fn is_over(&self) -> bool {
        self.left_ms() == Some(0)
    }

    pub(super) fn timed_out(&self) -> RunCommand {
        let (limit_s, agent) = (self.agent.limits.timeout_s, &self.agent.id);
        RunCommand::Fail(Failure {
            kind: "timeout".into(),
            message: format!(
                "the run took longer than `limits.timeout_s` = {limit_s} s of agent `{agent}`, counted from when it \
                 began or last went on after a pause"
            )
            .into(),
            status: None,
        })
    }

    /// The moment is in the log, so a restart does not give the run more time.
    pub(super) fn set_timeout(&mut self) {
        if self.timeout.is_none() {
            self.timeout = self.left_ms().map(|left_ms| self.later(left_ms, self.timed_out()));
        }
    }
}
