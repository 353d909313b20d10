//! What users did and used, a row for each user and day: columns as AgentOS's `metrics` table has them, ours beside.
//!
//! A run counts, with all that it used until now, on the UTC day on which it was accepted, whenever it ends. What was
//! used stays used: a row does not change when a session is deleted. Runs without a user are one user's, whose id reads
//! as null. Sums commute, so the order in which partitions are folded does not show.

use std::collections::BTreeMap;

use chrono::{DateTime, NaiveDate};
use reenact_events::{Timestamp, UserId, event::RunStatus};
use serde::{Deserialize, Serialize};

use crate::fold::usage::{Calls, Tokens};

/// The one period that rows are of.
pub const DAILY: &str = "daily";

/// Which rows: of one user exactly or of everybody, of these days.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MetricsFilter {
    /// Exactly this user.
    pub user_id: Option<UserId>,
    /// From this day on.
    pub from: Option<NaiveDate>,
    /// To this day, which is included.
    pub to: Option<NaiveDate>,
}

/// What one model was asked, and what it cost.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ModelMetrics {
    /// The model; unknown of runs whose agent is not known any more.
    pub model_id: Option<String>,
    /// Its provider.
    pub model_provider: Option<String>,
    /// Runs that asked it and ended.
    pub count: u64,
    /// Calls, with those that were repeated.
    pub calls: u64,
    /// How many of them did not say what they used.
    pub calls_without_usage: u64,
    /// What the others used.
    #[serde(flatten)]
    pub tokens: Tokens,
}

/// What one agent did.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ComponentMetrics {
    /// Runs.
    pub runs_count: u64,
    /// What those that ended used.
    #[serde(flatten)]
    pub tokens: Tokens,
}

/// A row of `metrics`. Times are epoch seconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MetricsRow {
    /// Whose; nobody's are one user's.
    pub user_id: Option<UserId>,
    /// The UTC day, `2026-11-30`.
    pub date: String,
    /// Runs that were accepted on that day.
    pub agent_runs_count: u64,
    /// Sessions that were made on that day.
    pub agent_sessions_count: u64,
    /// 1 when the row has a user.
    pub users_count: u64,
    /// What the runs used.
    pub token_metrics: Tokens,
    /// By model.
    pub model_metrics: Vec<ModelMetrics>,
    /// Where the runs are, by status.
    pub status_metrics: BTreeMap<String, u64>,
    /// By agent.
    pub component_metrics: BTreeMap<String, ComponentMetrics>,
    /// When the first of it happened.
    pub created_at: i64,
    /// When the last of it happened.
    pub updated_at: i64,
}

/// The UTC day of a moment.
#[must_use]
pub fn day_of(seconds: i64) -> String {
    DateTime::from_timestamp(seconds, 0).unwrap_or_default().date_naive().to_string()
}

impl MetricsRow {
    /// A row of which nothing is counted yet.
    #[must_use]
    pub fn new(user_id: Option<UserId>, date: String, at: Timestamp) -> Self {
        Self {
            users_count: u64::from(user_id.is_some()),
            user_id,
            date,
            agent_runs_count: 0,
            agent_sessions_count: 0,
            token_metrics: Tokens::default(),
            model_metrics: Vec::new(),
            status_metrics: BTreeMap::new(),
            component_metrics: BTreeMap::new(),
            created_at: at.seconds(),
            updated_at: at.seconds(),
        }
    }

    /// What names the row among all.
    #[must_use]
    pub fn id(&self) -> String {
        Self::id_of(self.user_id.as_ref(), &self.date)
    }

    /// What names the row of a user and day.
    #[must_use]
    pub fn id_of(user: Option<&UserId>, date: &str) -> String {
        match user {
            Some(user) => format!("{date}_{DAILY}_{user}"),
            None => format!("{date}_{DAILY}"),
        }
    }

    /// Notes that something happened.
    pub fn touch(&mut self, at: Timestamp) {
        self.created_at = self.created_at.min(at.seconds());
        self.updated_at = self.updated_at.max(at.seconds());
    }

    /// Another run was accepted.
    pub fn run_accepted(&mut self, agent: &str, status: RunStatus) {
        self.agent_runs_count += 1;
        self.component(agent).runs_count += 1;
        self.count_status(status, 1);
    }

    /// A run is somewhere else now.
    pub fn run_moved(&mut self, from: RunStatus, to: RunStatus) {
        self.count_status(from, -1);
        self.count_status(to, 1);
    }

    /// A run of the agent ended and used this of a model.
    pub fn run_used(&mut self, agent: &str, model: (Option<&str>, Option<&str>), calls: Calls) {
        self.token_metrics = self.token_metrics.plus(calls.tokens);
        let component = self.component(agent);
        component.tokens = component.tokens.plus(calls.tokens);
        let row = self.model(model);
        row.count += 1;
        row.calls += calls.count;
        row.calls_without_usage += calls.unmetered;
        row.tokens = row.tokens.plus(calls.tokens);
    }

    /// Puts another user's row of the same day beside this one; the sum is nobody's.
    pub fn add(&mut self, other: &Self) {
        self.user_id = None;
        self.agent_runs_count += other.agent_runs_count;
        self.agent_sessions_count += other.agent_sessions_count;
        self.users_count += other.users_count;
        self.token_metrics = self.token_metrics.plus(other.token_metrics);
        self.created_at = self.created_at.min(other.created_at);
        self.updated_at = self.updated_at.max(other.updated_at);
        for (status, runs) in &other.status_metrics {
            *self.status_metrics.entry(status.clone()).or_default() += runs;
        }
        for (agent, theirs) in &other.component_metrics {
            let ours = self.component(agent);
            ours.runs_count += theirs.runs_count;
            ours.tokens = ours.tokens.plus(theirs.tokens);
        }
        for theirs in &other.model_metrics {
            let ours = self.model((theirs.model_id.as_deref(), theirs.model_provider.as_deref()));
            ours.count += theirs.count;
            ours.calls += theirs.calls;
            ours.calls_without_usage += theirs.calls_without_usage;
            ours.tokens = ours.tokens.plus(theirs.tokens);
        }
    }

    fn component(&mut self, agent: &str) -> &mut ComponentMetrics {
        self.component_metrics.entry(agent.to_owned()).or_default()
    }

    /// The models stand in order, so that equal sums are equal rows.
    fn model(&mut self, (id, provider): (Option<&str>, Option<&str>)) -> &mut ModelMetrics {
        let key = |row: &ModelMetrics| (row.model_provider.clone(), row.model_id.clone());
        let wanted = (provider.map(str::to_owned), id.map(str::to_owned));
        let place = match self.model_metrics.binary_search_by_key(&wanted, key) {
            Ok(place) => place,
            Err(place) => {
                let (model_provider, model_id) = wanted;
                let row = ModelMetrics { model_id, model_provider, ..ModelMetrics::default() };
                self.model_metrics.insert(place, row);
                place
            }
        };
        &mut self.model_metrics[place]
    }

    fn count_status(&mut self, status: RunStatus, change: i64) {
        let runs = self.status_metrics.entry(status.as_str().to_owned()).or_default();
        *runs = runs.saturating_add_signed(change);
        if *runs == 0 {
            self.status_metrics.remove(status.as_str());
        }
    }
}

/// The rows of each day as one, in order.
#[must_use]
pub fn by_day(rows: Vec<MetricsRow>) -> Vec<MetricsRow> {
    let mut days: BTreeMap<String, MetricsRow> = BTreeMap::new();
    for row in rows {
        match days.get_mut(&row.date) {
            Some(day) => day.add(&row),
            None => {
                days.insert(row.date.clone(), MetricsRow { user_id: None, ..row });
            }
        }
    }
    days.into_values().collect()
}
