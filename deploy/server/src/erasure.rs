//! Erasure of a user: their sessions and schedules are deleted through the log, their key is destroyed, and what was
//! made from the log before that is made anew.
//!
//! What was asked for stands in the table of keys, with what came of it so far. Whatever ends the process, the next
//! start goes on; each step may be done twice. The report stays there to be read.

use std::{convert::Infallible, sync::Arc, time::Duration};

use reenact_events::{
    Command, CommandBody, CommandId, SessionId, Timestamp, UserId, ids::derived, keys::KeyError,
    schedule::ScheduleCommand,
};
use reenact_projections::{
    GenerationError,
    query::{Paging, Scope, SessionFilter},
};
use reenact_sealed::KeyRing;
use serde::{Deserialize, Serialize};
use tokio::sync::{Mutex, Notify};
use utoipa::ToSchema;

use crate::http::{
    error::{ApiError, Detail},
    shapes::iso_seconds,
    state::{App, Services},
};

/// Sessions that are looked for at once.
const BATCH: u64 = 500;
/// Pause after a step that could not be done, and between two looks at rows that do not follow yet.
const PAUSE: (Duration, Duration) = (Duration::from_secs(5), Duration::from_millis(50));
/// How long the views may take to be folded anew.
const FOLD_WITHIN: Duration = Duration::from_secs(7 * 24 * 3600);

/// A step of an erasure, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// Their sessions.
    Sessions,
    /// The keys of their content.
    Keys,
    /// The log: schedules, and the fact itself.
    Log,
    /// The rows that are read.
    Views,
    /// What decisions are made from.
    States,
    /// Large texts and files.
    Blobs,
    /// What no program of this deployment reaches.
    Elsewhere,
}

const STEPS: [Step; 7] =
    [Step::Sessions, Step::Keys, Step::Log, Step::Views, Step::States, Step::Blobs, Step::Elsewhere];

/// What was done in a place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Place {
    /// Where.
    pub place: Step,
    /// When.
    pub done_at: String,
    /// What.
    pub done: String,
    /// What remains there, and until when.
    pub remains: Option<String>,
}

/// How the erasure of a user stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Report {
    /// Whose.
    pub user_id: String,
    /// When it was asked for.
    pub asked_at: String,
    /// When all was done.
    pub finished_at: Option<String>,
    /// The names of the keys that were destroyed.
    pub keys: Vec<String>,
    /// Place by place.
    pub places: Vec<Place>,
    /// What it waits for, if something could not be done: that is tried again.
    pub trouble: Option<String>,
}

/// The erasures of a deployment.
pub struct Erasures {
    ring: KeyRing,
    blob_grace: Duration,
    asked: Notify,
    /// A report is read and written by one at a time.
    writing: Mutex<()>,
}

/// Why a step could not be done.
#[derive(Debug)]
struct Trouble(String);

impl From<KeyError> for Trouble {
    fn from(error: KeyError) -> Self {
        Self(error.to_string())
    }
}

impl From<ApiError> for Trouble {
    fn from(error: ApiError) -> Self {
        Self(match error.body.detail {
            Detail::Text(text) => text,
            Detail::Faults(faults) => format!("{faults:?}"),
        })
    }
}

impl From<GenerationError> for Trouble {
    fn from(error: GenerationError) -> Self {
        Self(format!("the views: {error}"))
    }
}

impl Erasures {
    /// Those of the users whose keys these are.
    #[must_use]
    pub fn new(ring: KeyRing, blob_grace: Duration) -> Self {
        Self { ring, blob_grace, asked: Notify::new(), writing: Mutex::default() }
    }

    /// Begins to erase a user, unless that is under way.
    ///
    /// # Errors
    /// When it cannot be kept that it was asked for.
    pub async fn ask(&self, user: &UserId, now: Timestamp) -> Result<Report, KeyError> {
        let _writing = self.writing.lock().await;
        if let Some(report) = self.report(user).await?.filter(|report| report.finished_at.is_none()) {
            return Ok(report);
        }
        let report = Report {
            user_id: user.to_string(),
            asked_at: iso_seconds(now.seconds()),
            finished_at: None,
            keys: Vec::new(),
            places: Vec::new(),
            trouble: None,
        };
        self.keep(user, &report).await?;
        self.asked.notify_one();
        Ok(report)
    }

    /// The latest erasure of a user, if there was one.
    ///
    /// # Errors
    /// When the reports cannot be read.
    pub async fn report(&self, user: &UserId) -> Result<Option<Report>, KeyError> {
        let known = self.ring.table().reports().await?.into_iter().find(|(erased, _)| erased == user);
        known.map(|(_, text)| self.read(&text)).transpose()
    }

    fn read(&self, text: &str) -> Result<Report, KeyError> {
        let unreadable = |error: serde_json::Error| KeyError {
            place: self.ring.table().place(),
            reason: format!("a report about an erasure cannot be read: {error}").into(),
        };
        serde_json::from_str(text).map_err(unreadable)
    }

    async fn keep(&self, user: &UserId, report: &Report) -> Result<(), KeyError> {
        let text = serde_json::to_string(report).map_err(|error| KeyError {
            place: self.ring.table().place(),
            reason: format!("the report about an erasure cannot be written: {error}").into(),
        })?;
        self.ring.table().keep_report(user, &text).await
    }

    async fn unfinished(&self) -> Result<Vec<(UserId, Report)>, KeyError> {
        let mut found = Vec::new();
        for (user, text) in self.ring.table().reports().await? {
            let report = self.read(&text)?;
            if report.finished_at.is_none() {
                found.push((user, report));
            }
        }
        Ok(found)
    }
}

/// Does what was asked for, for ever.
pub async fn for_ever(app: App, erasures: Arc<Erasures>) -> Infallible {
    loop {
        let done = match app.services() {
            Ok(services) => all(&app, &services, &erasures).await,
            Err(_) => Err(Trouble("everything is restored first".to_owned())),
        };
        match done {
            Ok(()) => erasures.asked.notified().await,
            Err(Trouble(why)) => {
                tracing::warn!(why, "an erasure is gone on with later");
                tokio::time::sleep(PAUSE.0).await;
            }
        }
    }
}

/// Goes on with each, also when another one cannot be gone on with.
async fn all(app: &App, services: &Services, erasures: &Erasures) -> Result<(), Trouble> {
    let mut done = Ok(());
    for (user, report) in erasures.unfinished().await? {
        done = Work { app, services, erasures, user, report }.go_on().await.and(done);
    }
    done
}

/// An erasure under way.
struct Work<'a> {
    app: &'a App,
    services: &'a Services,
    erasures: &'a Erasures,
    user: UserId,
    report: Report,
}

impl Work<'_> {
    async fn go_on(mut self) -> Result<(), Trouble> {
        for step in STEPS {
            if self.report.places.iter().any(|place| place.place == step) {
                continue;
            }
            let done = self.take(step).await;
            let _writing = self.erasures.writing.lock().await;
            match done {
                Ok((done, remains)) => {
                    let done_at = iso_seconds(self.app.now().seconds());
                    self.report.trouble = None;
                    self.report.places.push(Place { place: step, done_at: done_at.clone(), done, remains });
                    self.report.finished_at = (STEPS.last() == Some(&step)).then_some(done_at);
                    self.erasures.keep(&self.user, &self.report).await?;
                }
                Err(Trouble(why)) => {
                    self.report.trouble = Some(why.clone());
                    self.erasures.keep(&self.user, &self.report).await?;
                    return Err(Trouble(why));
                }
            }
        }
        tracing::info!(user = %self.user, "a user is erased");
        Ok(())
    }

    /// What was done, and what remains.
    async fn take(&mut self, step: Step) -> Result<(String, Option<String>), Trouble> {
        Ok(match step {
            Step::Sessions => {
                let sessions = self.delete_sessions().await?;
                (
                    format!("{sessions} sessions deleted through the log, with their runs; those at work were stopped"),
                    None,
                )
            }
            Step::Keys => {
                let keys = self.erasures.ring.destroy(&self.user).await?;
                self.report.keys = keys.iter().map(ToString::to_string).collect();
                let place = self.erasures.ring.table().place();
                let remains = "backups of the table of keys: what is sealed can be read with one until it is deleted";
                (format!("{} keys destroyed in {place}", keys.len()), Some(remains.to_owned()))
            }
            Step::Log => self.tell_log().await?,
            Step::Views => self.fold_views().await?,
            Step::States => {
                self.services.node.scrub().await.map_err(Trouble)?;
                let remains = "runs of theirs in sessions that belong to nobody, until the states are folded anew: stop \
                               the node and remove `state` in its data directory";
                ("snapshots removed, and the stores of states written anew".to_owned(), Some(remains.to_owned()))
            }
            Step::Blobs => {
                let grace = self.erasures.blob_grace.as_secs();
                let remains = format!(
                    "bytes that nobody can read, and what others stored for them, until they are swept, \
                                       {grace} s after the deletion"
                );
                ("texts and files were sealed with the destroyed keys".to_owned(), Some(remains))
            }
            Step::Elsewhere => {
                let remains = "backups of the data directory, of the database and of its write-ahead log; what was sent to \
                               models, tools and readers; the user's id, and when how much was used, stand in the log, in \
                               metrics and in what programs wrote into their own logs";
                ("nothing: this program reaches none of it".to_owned(), Some(remains.to_owned()))
            }
        })
    }

    /// Deletes all sessions of the user, also those that are begun meanwhile; how many.
    async fn delete_sessions(&self) -> Result<u64, Trouble> {
        let filter = SessionFilter { user_id: Some(self.user.clone()), ..SessionFilter::default() };
        let mut deleted = 0;
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

    async fn tell_log(&self) -> Result<(String, Option<String>), Trouble> {
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

    /// Folds the rows once more, without the keys, and drops all that were folded before.
    async fn fold_views(&self) -> Result<(String, Option<String>), Trouble> {
        let rebuilds = &self.services.rebuilds;
        self.drop_generations().await?;
        let fresh = rebuilds.begin(None).await?;
        rebuilds.swap(fresh, FOLD_WITHIN).await?;
        self.drop_generations().await?;
        Ok((format!("folded anew from the log as generation {fresh}, all others dropped"), None))
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
