//! Erasure of a user: their sessions and schedules are deleted through the log, their key is destroyed, and what was
//! made from the log before that is made anew.
//!
//! What was asked for stands in the table of keys, with what came of it so far. Whatever ends the process, the next
//! start goes on, or another node; each step may be done twice. The report stays there to be read. One node at a time
//! works on erasures; what only the others can do, they do by [`scrubs`](crate::scrubs).

mod scrubbing;

use std::{collections::BTreeMap, convert::Infallible, sync::Arc, time::Duration};

use reenact_events::{
    Command, CommandBody, CommandId, LogError, PartitionId, SessionId, Timestamp, UserId,
    ids::derived,
    keys::{KeptReport, KeyError},
    schedule::ScheduleCommand,
};
use reenact_projections::{
    GenerationError,
    query::{Paging, Scope, SessionFilter},
};
use reenact_sealed::{FRESH_FOR, KeyRing};
use serde::{Deserialize, Serialize};
use tokio::sync::{Mutex, Notify};
use utoipa::ToSchema;

use crate::http::{
    error::{ApiError, Detail},
    shapes::iso_seconds,
    state::{App, READ_WAIT, Services},
};

/// Sessions that are looked for at once.
const BATCH: u64 = 500;
/// Pause after a step that could not be done, and between two looks at rows that do not follow yet.
const PAUSE: (Duration, Duration) = (Duration::from_secs(5), Duration::from_millis(50));
/// How often it is looked whether an erasure was asked for elsewhere, or is not gone on with by whoever began it.
const LOOK: Duration = Duration::from_secs(2);
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
    /// On Kafka, what was asked through the topic of commands.
    Commands,
    /// The rows that are read.
    Views,
    /// What decisions are made from.
    States,
    /// Large texts and files.
    Blobs,
    /// On Kafka, what was sent and was no command.
    DeadLetters,
    /// On Kafka, what publishers were answered.
    Answers,
    /// On Kafka, what runs have just said.
    Live,
    /// What no program of this deployment reaches.
    Elsewhere,
}

impl Step {
    /// All of them, in order.
    const ALL: [Self; 11] = [
        Self::Sessions,
        Self::Keys,
        Self::Log,
        Self::Commands,
        Self::Views,
        Self::States,
        Self::Blobs,
        Self::DeadLetters,
        Self::Answers,
        Self::Live,
        Self::Elsewhere,
    ];

    /// Whether there is such a place only where nodes share a log.
    fn is_of_shared_logs(self) -> bool {
        matches!(self, Self::Commands | Self::DeadLetters | Self::Answers | Self::Live)
    }
}

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
    /// Tells this node to scrub.
    scrub: Arc<Notify>,
    /// What was asked of all nodes, by whose erasure it is for.
    rounds: Mutex<BTreeMap<UserId, scrubbing::Round>>,
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

impl From<LogError> for Trouble {
    fn from(error: LogError) -> Self {
        Self(error.to_string())
    }
}

impl From<GenerationError> for Trouble {
    fn from(error: GenerationError) -> Self {
        Self(format!("the views: {error}"))
    }
}

impl Erasures {
    /// Those of the users whose keys these are; `scrub` tells this node to scrub.
    #[must_use]
    pub fn new(ring: KeyRing, blob_grace: Duration, scrub: Arc<Notify>) -> Self {
        Self { ring, blob_grace, asked: Notify::new(), scrub, rounds: Mutex::default() }
    }

    /// Begins to erase a user, unless that is under way.
    ///
    /// # Errors
    /// When it cannot be kept that it was asked for.
    pub async fn ask(&self, user: &UserId, now: Timestamp) -> Result<Report, KeyError> {
        loop {
            let before = self.ring.table().report(user).await?;
            let known = before.as_deref().map(|text| self.read(text)).transpose()?;
            if let Some(report) = known.filter(|report| report.finished_at.is_none()) {
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
            if self.keep(user, before.as_deref(), &report).await?.is_some() {
                self.asked.notify_one();
                return Ok(report);
            }
        }
    }

    /// The latest erasure of a user, if there was one.
    ///
    /// # Errors
    /// When the reports cannot be read.
    pub async fn report(&self, user: &UserId) -> Result<Option<Report>, KeyError> {
        self.ring.table().report(user).await?.map(|text| self.read(&text)).transpose()
    }

    fn read(&self, text: &str) -> Result<Report, KeyError> {
        let unreadable = |error: serde_json::Error| KeyError {
            place: self.ring.table().place(),
            reason: format!("a report about an erasure cannot be read: {error}").into(),
        };
        serde_json::from_str(text).map_err(unreadable)
    }

    /// Keeps a report in the place of `before`, and says what stands there now; none when somebody else was first.
    async fn keep(&self, user: &UserId, before: Option<&str>, report: &Report) -> Result<Option<String>, KeyError> {
        let text = serde_json::to_string(report).map_err(|error| KeyError {
            place: self.ring.table().place(),
            reason: format!("the report about an erasure cannot be written: {error}").into(),
        })?;
        let report = KeptReport { text, is_finished: report.finished_at.is_some() };
        Ok(self.ring.table().keep_report(user, before, &report).await?.then_some(report.text))
    }
}

/// Does what was asked for, for ever.
pub async fn for_ever(app: App, erasures: Arc<Erasures>) -> Infallible {
    loop {
        let done = match app.services() {
            Ok(services) => all(&app, &services, &erasures).await,
            Err(_) => Err(Trouble("everything is restored first".to_owned())),
        };
        let Err(Trouble(why)) = done else {
            tokio::select! {
                () = erasures.asked.notified() => {}
                () = tokio::time::sleep(LOOK) => {}
            }
            continue;
        };
        tracing::warn!(why, "an erasure is gone on with later");
        tokio::time::sleep(PAUSE.0).await;
    }
}

/// Goes on with each, also when another one cannot be gone on with; unless another node does.
async fn all(app: &App, services: &Services, erasures: &Erasures) -> Result<(), Trouble> {
    let table = erasures.ring.table();
    if table.unfinished().await?.is_empty() {
        return Ok(());
    }
    let Some(_turn) = table.turn().await? else { return Ok(()) };
    let mut done = Ok(());
    // What whoever had the turn before has come to.
    for (user, kept) in table.unfinished().await? {
        let report = erasures.read(&kept)?;
        done = Work { app, services, erasures, user, report, kept }.go_on().await.and(done);
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
    /// The report as it is kept.
    kept: String,
}

/// What was done in a place, and what remains there.
type Done = (String, Option<String>);

impl Work<'_> {
    async fn go_on(mut self) -> Result<(), Trouble> {
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

/// What is said of places in which nothing is done.
fn untouched(step: Step) -> Done {
    let (done, remains) = match step {
        Step::DeadLetters => (
            "nothing: whose they are is not known",
            "what programs sent that was no command, as they sent it, until somebody deletes it: this topic is kept for \
             ever unless its `retention.ms` says otherwise",
        ),
        Step::Answers => (
            "nothing: they hold ids and no content",
            "ids, correlation ids as publishers chose them, and why commands were refused, until the topic's \
             `retention.ms` (a day as it is made)",
        ),
        Step::Live => (
            "nothing: it ends by itself",
            "what was said in the last minutes, in clear text, until the topic's `retention.ms` (15 minutes as it is \
             made) and until the brokers remove the file, at most as long again",
        ),
        _ => (
            "nothing: this program reaches none of it",
            "backups of the data directory, of the database and of its write-ahead log; what was sent to models, tools \
             and readers; the user's id, and when how much was used, stand in the log, in metrics and in what programs \
             wrote into their own logs",
        ),
    };
    (done.to_owned(), Some(remains.to_owned()))
}
