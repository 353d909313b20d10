//! Erasure of a user: their sessions and schedules are deleted through the log, their key is destroyed, and what was
//! made from the log before that is made anew.
//!
//! What was asked for stands in the table of keys, with what came of it so far. Whatever ends the process, the next
//! start goes on, or another node; each step may be done twice. The report stays there to be read. One node at a time
//! works on erasures; what only the others can do, they do by [`scrubs`](crate::scrubs).

mod report;
mod scrubbing;
mod work;

use std::{collections::BTreeMap, convert::Infallible, sync::Arc, time::Duration};

use reenact_events::{
    LogError, Timestamp, UserId,
    keys::{KeptReport, KeyError},
};
use reenact_projections::GenerationError;
use reenact_sealed::KeyRing;
use tokio::sync::{Mutex, Notify};

use crate::http::{
    error::{ApiError, Detail},
    shapes::iso_seconds,
    state::{App, Services},
};
pub use report::{Place, Report, Step};
use work::Work;

/// Pause after a step that could not be done, and between two looks at what does not follow yet.
const PAUSE: (Duration, Duration) = (Duration::from_secs(5), Duration::from_millis(50));
/// How often it is looked whether an erasure was asked for elsewhere, or is not gone on with by whoever began it.
const LOOK: Duration = Duration::from_secs(2);

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
