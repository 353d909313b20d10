//! An erasure, step by step. Each may be done twice: whoever did it the first time may have died before it was kept.

use std::time::Duration;

use reenact_events::{
    Command, CommandBody, CommandId, PartitionId, SessionId, UserId, ids::derived, schedule::ScheduleCommand,
};
use reenact_projections::query::{Paging, Scope, SessionFilter};
use reenact_sealed::FRESH_FOR;

use super::{
    Erasures, PAUSE, Place, Report, Step, Trouble,
    report::{Done, untouched},
};
use crate::http::{
    shapes::iso_seconds,
    state::{App, READ_WAIT, Services},
};

/// Sessions that are looked for at once.
const BATCH: u64 = 500;
/// How long the views may take to be folded anew.
const FOLD_WITHIN: Duration = Duration::from_secs(7 * 24 * 3600);

/// An erasure under way.
pub(super) struct Work<'a> {
    pub(super) app: &'a App,
    pub(super) services: &'a Services,
    pub(super) erasures: &'a Erasures,
    pub(super) user: UserId,
    pub(super) report: Report,
    /// The report as it is kept.
    pub(super) kept: String,
}

impl Work<'_> {
    pub(super) async fn go_on(mut self) -> Result<(), Trouble> {
        let is_shared = self.services.log.is_shared();
        for step in Step::ALL.into_iter().filter(|step| is_shared || !step.is_of_shared_logs()) {
            if self.report.places.iter().any(|place| place.place == step) {
                continue;
            }
            match self.take(step).await {
                Ok((done, remains)) => {
                    let done_at = iso_seconds(self.app.now().seconds());
                    self.report.trouble = None;
                    self.report.places.push(Place { place: step, done_at: done_at.clone(), done, remains });
                    self.report.finished_at = (step == Step::Elsewhere).then_some(done_at);
                    self.keep().await?;
                }
                Err(Trouble(why)) => {
                    self.report.trouble = Some(why.clone());
                    self.keep().await?;
                    return Err(Trouble(why));
                }
            }
        }
        tracing::info!(user = %self.user, "a user is erased");
        Ok(())
    }

    async fn keep(&mut self) -> Result<(), Trouble> {
        let kept = self.erasures.keep(&self.user, Some(&self.kept), &self.report).await?;
        let overtaken = || Trouble(format!("another node goes on with the erasure of `{}`", self.user));
        self.kept = kept.ok_or_else(overtaken)?;
        Ok(())
    }

    async fn take(&mut self, step: Step) -> Result<Done, Trouble> {
        match step {
            Step::Sessions => {
                let sessions = self.delete_sessions().await?;
                let done =
                    format!("{sessions} sessions deleted through the log, with their runs; those at work were stopped");
                Ok((done, None))
            }
            Step::Keys => self.destroy_keys().await,
            Step::Log => self.tell_log().await,
            Step::Commands => self.drop_commands().await,
            Step::Views => self.fold_views().await,
            Step::States => self.scrub_states().await,
            Step::Blobs => {
                let grace = self.erasures.blob_grace.as_secs();
                let remains = format!(
                    "bytes that nobody can read, and what others stored for them, until they are swept, {grace} s after \
                     the deletion"
                );
                Ok(("texts and files were sealed with the destroyed keys".to_owned(), Some(remains)))
            }
            Step::DeadLetters | Step::Answers | Step::Live | Step::Elsewhere => Ok(untouched(step)),
        }
    }

    async fn destroy_keys(&mut self) -> Result<Done, Trouble> {
        let keys = self.erasures.ring.destroy(&self.user).await?;
        self.report.keys = keys.iter().map(ToString::to_string).collect();
        if self.services.log.is_shared() {
            // Other nodes have them at hand for so long, and would read and fold with them.
            tokio::time::sleep(FRESH_FOR).await;
        }
        let place = self.erasures.ring.table().place();
        let remains = "backups of the table of keys: what is sealed can be read with one until it is deleted";
        Ok((format!("{} keys destroyed in {place}", keys.len()), Some(remains.to_owned())))
    }

    /// Deletes all sessions of the user, also those that are begun meanwhile; how many.
    async fn delete_sessions(&self) -> Result<u64, Trouble> {
        let filter = SessionFilter { user_id: Some(self.user.clone()), ..SessionFilter::default() };
        let mut deleted = 0;
        self.rows_follow().await?;
        loop {
            self.services.caught_up(None).await?;
            let page = Paging { page: 1, limit: BATCH };
            let found = self.services.views.sessions(&Scope::Anyone, &filter, page).await;
            let found = found.map_err(|error| Trouble(error.to_string()))?;
            if found.items.is_empty() {
                return Ok(deleted);
            }
            for session in found.items {
                self.delete(session.session_id).await?;
                deleted += 1;
            }
            tokio::time::sleep(PAUSE.1).await;
        }
    }

    /// Waits until the rows have what is in the log by now, whichever node wrote it.
    async fn rows_follow(&self) -> Result<(), Trouble> {
        let Services { log, views, .. } = self.services;
        for partition in (0..log.partitions()).map(PartitionId) {
            if let Some(last) = log.last_event(partition).await? {
                let waited = views.wait_for(partition, last, READ_WAIT).await;
                waited.map_err(|lag| Trouble(lag.to_string()))?;
            }
        }
        Ok(())
    }

    async fn delete(&self, session_id: SessionId) -> Result<(), Trouble> {
        let id = self.command("erase.session", session_id.as_str());
        let reason = Some("erasure: its owner's content is erased".into());
        let body = CommandBody::DeleteSession { session_id, runs: None, reason };
        match self.services.submit(Command::new(id, None, body)).await {
            Ok(_) => Ok(()),
            Err(error) if error.status == axum::http::StatusCode::NOT_FOUND => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// A repeat in the same erasure is the same command.
    fn command(&self, what: &str, of: &str) -> CommandId {
        CommandId::own(derived(what, &[self.user.as_str(), &self.report.asked_at, of]))
    }

    async fn tell_log(&self) -> Result<Done, Trouble> {
        // What was begun before the keys were gone.
        self.delete_sessions().await?;
        let keys = self.erasures.ring.destroy(&self.user).await?;
        let names: Vec<_> = keys.iter().map(ToString::to_string).collect();
        let body = CommandBody::Schedule(ScheduleCommand::EraseOwner(keys));
        let id = self.command("erase", &names.join(","));
        let (accepted, _) = self.services.submit(Command::new(id, Some(self.user.clone()), body)).await?;
        self.services.caught_up(None).await?;
        let (partition, offset) = (accepted.partition, accepted.offset);
        Ok((
            format!("schedules deleted and `subject.erased` written: partition {partition}, offset {offset}"),
            Some("sealed bytes that nobody can read; the chain over them still verifies".to_owned()),
        ))
    }

    /// What programs publish stands in the topic as they wrote it; it was taken when the log has it.
    async fn drop_commands(&self) -> Result<Done, Trouble> {
        let begins = self.services.log.drop_taken_commands().await?;
        let begins: Vec<_> = begins.iter().map(|(partition, offset)| format!("{partition} at {offset}")).collect();
        let remains = "what was not taken yet and belongs to who is new then; the files of what was deleted, which nobody \
                       reads any more, until the brokers begin others (`segment.ms` of the topic, a day as it is made) \
                       and remove them";
        let done = format!(
            "everybody's commands that were taken are deleted from the topic; partitions begin with offset: {}",
            begins.join(", ")
        );
        Ok((done, Some(remains.to_owned())))
    }

    /// Folds the rows once more, without the keys, and drops all that were folded before.
    async fn fold_views(&self) -> Result<Done, Trouble> {
        let rebuilds = &self.services.rebuilds;
        self.drop_generations().await?;
        let fresh = rebuilds.begin(None).await?;
        rebuilds.swap(fresh, FOLD_WITHIN).await?;
        self.drop_generations().await?;
        let remains = self.services.log.is_shared().then(|| {
            "what the database has written ahead, and old rows that somebody who reads for long keeps from being removed"
                .to_owned()
        });
        Ok((format!("folded anew from the log as generation {fresh}, all others dropped"), remains))
    }

    async fn drop_generations(&self) -> Result<(), Trouble> {
        for standing in self.services.rebuilds.list().await? {
            if !standing.live {
                self.services.rebuilds.remove(standing.number).await?;
            }
        }
        Ok(())
    }
}
