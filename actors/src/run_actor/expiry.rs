//! How long somebody is waited for: the moment stands in the event that held the call, so it comes whoever is the
//! run's owner then, and also when nobody was.

use ractor::ActorProcessingErr;

use super::RunWork;
use crate::run::RunCommand;

impl RunWork {
    /// Waits for the first of the moments at which a held call expires.
    pub(super) fn set_expiry(&mut self) {
        let next = self.run.next_expiry().filter(|_| !self.run.progress.status.is_end());
        if self.expiry.as_ref().map(|(at, _)| *at) == next {
            return;
        }
        let now = self.partition.shared.now();
        self.expiry = next.map(|at| (at, self.later(at.ms_since(now).max(0), RunCommand::Expire)));
    }

    /// The moment has come. A clock that was set back meanwhile only makes the wait longer.
    pub(super) async fn expire(&mut self) -> Result<(), ActorProcessingErr> {
        self.expiry = None;
        self.act(RunCommand::Expire).await?;
        self.set_expiry();
        Ok(())
    }
}
