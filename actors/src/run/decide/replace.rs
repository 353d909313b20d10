//! The part of a run's decisions that is about another run that answers in its place.

use reenact_events::{
    RunId,
    event::{RunRegenerated, RunStatus},
};

use super::Draft;
use crate::api::Refusal;

impl Draft<'_> {
    /// Of a run that is replaced already nothing follows: it is history no more.
    pub(super) fn replace(&mut self, by: RunId) -> Result<(), Refusal> {
        match self.run.progress.status {
            RunStatus::Completed | RunStatus::Error => self.push(RunRegenerated { run_id: self.run_id(), by }),
            RunStatus::Regenerated => {}
            status => {
                let text = format!(
                    "run `{}` is {}: only a run that ended with an answer or an error can be replaced",
                    self.run.id(),
                    status.as_str()
                );
                return Err(Refusal::NotForked(text.into()));
            }
        }
        Ok(())
    }
}
