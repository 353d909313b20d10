//! What the handlers share. Until everything is restored only [`App`] is there; a handler that takes
//! [`Ready`] is answered 503 with the reasons until then.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};

use axum::{extract::FromRequestParts, http::request::Parts};
use reenact_actors::api::Accepted;
use reenact_events::{
    AgentId, Blobs, Clock, Command, EventLog, LogId, Offset, PartitionId, Timestamp, agent::AgentSpec,
};
use reenact_projections::{Progress, Rebuilds, ViewError, Views, prices::Prices};
use tokio_util::sync::CancellationToken;

use super::{
    body::Room,
    error::ApiError,
    position::{Marks, Token},
};
use crate::{config::BodyLimits, erasure::Erasures, wiring::Node};

/// How long a read waits for the views to have what was written before it.
pub const READ_WAIT: Duration = Duration::from_secs(2);

/// What does the work, once it is restored.
pub struct Services {
    /// Takes commands and shows live streams.
    pub node: Node,
    /// What can be read.
    pub views: Views,
    /// The generations of it.
    pub rebuilds: Rebuilds,
    /// Where large texts and files are.
    pub blobs: Arc<dyn Blobs>,
    /// The log that all this stands on.
    pub log: Arc<dyn EventLog>,
    /// Names it.
    pub log_id: LogId,
    /// Who is erased, where that can be.
    pub erasures: Option<Arc<Erasures>>,
    /// What this process is called, and where the others find it.
    pub own: Own,
    marks: Marks,
}

/// What a process says of itself.
#[derive(Debug, Clone)]
pub struct Own {
    /// Its name among its peers.
    pub node: String,
    /// Where it serves HTTP.
    pub endpoint: String,
}

impl Services {
    /// Puts the parts together.
    #[must_use]
    pub fn new(
        node: Node,
        views: Views,
        rebuilds: Rebuilds,
        blobs: Arc<dyn Blobs>,
        log: Arc<dyn EventLog>,
        own: Own,
        erasures: Option<Arc<Erasures>>,
    ) -> Self {
        let log_id = log.log_id();
        Self { node, views, rebuilds, blobs, log, log_id, own, erasures, marks: Marks::default() }
    }

    /// Asks for something; what it wrote is visible to every later read here.
    ///
    /// # Errors
    /// When a rule said no, the queue is full, or the node cannot take commands now.
    pub async fn submit(&self, command: Command) -> Result<(Accepted, Token), ApiError> {
        let accepted = self.node.submit(command).await?;
        self.marks.raise(accepted.partition, accepted.offset);
        let places = vec![(accepted.partition, accepted.offset)];
        let token = Token(reenact_events::Token { log_id: self.log_id, places });
        Ok((accepted, token))
    }

    /// Waits until reads see everything that was acknowledged here, and what `wanted` stands for.
    ///
    /// # Errors
    /// 425 when the views do not have what `wanted` stands for in time, 503 when they do not have what was
    /// acknowledged here, 422 when `wanted` is of another log.
    pub async fn caught_up(&self, wanted: Option<&Token>) -> Result<Token, ApiError> {
        if let Some(token) = wanted {
            token.of_log(self.log_id)?;
            for (partition, offset) in &token.0.places {
                let waited = self.views.wait_for(*partition, *offset, READ_WAIT).await;
                waited.map_err(|lag| ApiError::too_early(&lag))?;
            }
        }
        for (partition, offset) in self.marks.all() {
            let waited = self.views.wait_for(partition, offset, READ_WAIT).await;
            waited.map_err(|lag| ApiError::unavailable(lag.to_string(), 1).named("views_lag"))?;
        }
        Ok(self.visible())
    }

    /// What reads see by now.
    fn visible(&self) -> Token {
        let partitions = (0..self.views.partitions()).map(PartitionId);
        let visible = |partition| Some((partition, Offset(self.views.position(partition).0.checked_sub(1)?)));
        Token(reenact_events::Token { log_id: self.log_id, places: partitions.filter_map(visible).collect() })
    }
}

/// Shared by all handlers, from the first moment on.
#[derive(Clone)]
pub struct App(Arc<Inner>);

struct Inner {
    agents: Vec<Arc<AgentSpec>>,
    limits: BodyLimits,
    prices: Prices,
    room: Room,
    name: String,
    clock: Arc<dyn Clock>,
    began_at: Timestamp,
    services: OnceLock<Arc<Services>>,
    told: Mutex<Told>,
    leaving: CancellationToken,
    gone: CancellationToken,
}

/// What is said of the start and of the views.
#[derive(Default)]
struct Told {
    /// What the start is at.
    stage: String,
    /// What the views were at last.
    views: String,
    /// Why the views cannot go on now, and whether only an event that is folded proves that they can again.
    stopped: BTreeMap<PartitionId, (String, bool)>,
    /// What the views cannot read.
    damage: BTreeMap<PartitionId, String>,
    /// What was deleted from the log.
    deleted: BTreeMap<PartitionId, String>,
}

impl Told {
    /// Why requests are not served. What the node says of its partitions comes first: it names the remedy.
    fn reasons(&self, node: Option<Vec<String>>) -> Vec<String> {
        let node = node.unwrap_or_else(|| {
            let of_views = !self.damage.values().any(|damage| damage.ends_with(&self.views));
            let views = of_views.then_some(&self.views);
            [&self.stage].into_iter().chain(views).filter(|text| !text.is_empty()).cloned().collect()
        });
        // A database that is away stops all partitions, and is said once.
        let stopped = self.stopped.values().map(|(reason, _)| reason).collect::<BTreeSet<_>>();
        let of_views = stopped.into_iter().chain(self.damage.values()).chain(self.deleted.values());
        let mut reasons = node;
        for reason in of_views {
            if !reasons.contains(reason) {
                reasons.push(reason.clone());
            }
        }
        reasons
    }
}

impl App {
    /// An app that serves `agents` and has nothing restored yet.
    #[must_use]
    pub fn new(agents: Vec<AgentSpec>, limits: BodyLimits, prices: Prices, name: &str, clock: Arc<dyn Clock>) -> Self {
        let mut agents: Vec<_> = agents.into_iter().map(Arc::new).collect();
        agents.sort_by(|a, b| a.id.cmp(&b.id));
        let began_at = clock.now();
        Self(Arc::new(Inner {
            agents,
            limits,
            prices,
            room: Room::new(limits.body),
            name: name.to_owned(),
            clock,
            began_at,
            services: OnceLock::new(),
            told: Mutex::default(),
            leaving: CancellationToken::new(),
            gone: CancellationToken::new(),
        }))
    }

    fn told(&self) -> MutexGuard<'_, Told> {
        self.0.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What models cost.
    #[must_use]
    pub fn prices(&self) -> &Prices {
        &self.0.prices
    }

    /// Says what the restoring is at.
    pub fn stage(&self, what: &str) {
        what.clone_into(&mut self.told().stage);
    }

    /// The views of a partition have come so far.
    pub fn views_are_at(&self, progress: &Progress) {
        let Progress { partition, position, end, events, events_per_s } = progress;
        let mut told = self.told();
        told.views = format!(
            "the views of partition {partition} are at offset {position} of {end} ({events_per_s:.0} events/s)"
        );
        if *events > 0 {
            told.damage.remove(partition);
        }
        if told.stopped.get(partition).is_some_and(|(_, is_proved_by_events)| *events > 0 || !is_proved_by_events) {
            told.stopped.remove(partition);
        }
    }

    /// The views of a partition have stopped for a while.
    pub fn views_wait(&self, partition: PartitionId, why: &ViewError) {
        let mut told = self.told();
        told.views = why.to_string();
        if let ViewError::Unavailable { .. } | ViewError::Refused { .. } | ViewError::Unusable { .. } = why {
            told.stopped.insert(partition, (why.to_string(), false));
        }
        if let ViewError::DiskFull { .. } = why {
            told.stopped.insert(partition, (why.to_string(), true));
        }
    }

    /// The views of a partition do not go on before its log is mended.
    pub fn views_are_damaged(&self, partition: PartitionId, why: &ViewError) {
        self.told().damage.insert(partition, format!("the views of partition {partition}: {why}"));
    }

    /// What is missing at the beginning of a partition, if something is; whether that is new.
    pub fn beginning_is(&self, partition: PartitionId, missing: Option<String>) -> bool {
        let deleted = &mut self.told().deleted;
        let before = match missing.clone() {
            Some(missing) => deleted.insert(partition, missing),
            None => deleted.remove(&partition),
        };
        before != missing
    }

    /// Whether the views of a partition have met something that they cannot read.
    #[must_use]
    pub fn is_damaged(&self, partition: PartitionId) -> bool {
        self.told().damage.contains_key(&partition)
    }

    /// Reads do not wait any more for what was acknowledged of a partition.
    pub fn forget_marks(&self, partition: PartitionId) {
        if let Some(services) = self.0.services.get() {
            services.marks.forget(partition);
        }
    }

    /// Opens the doors. A second call changes nothing.
    pub fn restored(&self, services: Services) {
        if self.0.services.set(Arc::new(services)).is_err() {
            tracing::warn!("the services were restored twice; the first stay");
        }
    }

    /// From here on a broken connection says nothing about what the client wants.
    pub fn leave(&self) {
        self.0.leaving.cancel();
    }

    /// Whether the process is going down.
    #[must_use]
    pub fn is_leaving(&self) -> bool {
        self.0.leaving.is_cancelled()
    }

    /// Cancelled when no run goes on in this process any more: open streams end.
    #[must_use]
    pub fn gone(&self) -> CancellationToken {
        self.0.gone.clone()
    }

    /// What one request may bring.
    #[must_use]
    pub fn limits(&self) -> BodyLimits {
        self.0.limits
    }

    /// The room that all large bodies share.
    #[must_use]
    pub fn room(&self) -> &Room {
        &self.0.room
    }

    /// What this deployment is called.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// When the process began.
    #[must_use]
    pub fn began_at(&self) -> Timestamp {
        self.0.began_at
    }

    /// The present moment.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.0.clock.now()
    }

    /// The agents, for commands that name one.
    #[must_use]
    pub fn agents_by_id(&self) -> Arc<BTreeMap<AgentId, Arc<AgentSpec>>> {
        Arc::new(self.0.agents.iter().map(|agent| (agent.id.clone(), agent.clone())).collect())
    }

    /// The agents, by id.
    #[must_use]
    pub fn agents(&self) -> &[Arc<AgentSpec>] {
        &self.0.agents
    }

    /// The agent of this id.
    ///
    /// # Errors
    /// 404 when there is none.
    pub fn agent(&self, id: &AgentId) -> Result<Arc<AgentSpec>, ApiError> {
        let found = self.0.agents.iter().find(|agent| agent.id == *id);
        found.cloned().ok_or_else(|| ApiError::not_found("Agent not found").named("agent_not_found"))
    }

    /// Why requests are not served, empty when they are.
    #[must_use]
    pub fn reasons(&self) -> Vec<String> {
        if self.is_leaving() {
            return vec!["the process is shutting down".to_owned()];
        }
        let node = self.0.services.get().map(|services| services.node.readiness().reasons);
        self.told().reasons(node)
    }

    /// The services.
    ///
    /// # Errors
    /// 503 with the reasons while they are not restored.
    pub fn services(&self) -> Result<Arc<Services>, ApiError> {
        let unready = || {
            let reasons = self.reasons().join("; ");
            ApiError::unavailable(format!("not ready: {reasons}"), 1).named("not_ready")
        };
        self.0.services.get().cloned().ok_or_else(unready)
    }
}

/// The services, for handlers that need them.
pub struct Ready(pub Arc<Services>);

impl FromRequestParts<App> for Ready {
    type Rejection = ApiError;

    async fn from_request_parts(_: &mut Parts, app: &App) -> Result<Self, ApiError> {
        let services = app.services()?;
        let readiness = services.node.readiness();
        if readiness.answers || app.is_leaving() {
            // On the way out reads are still answered; the node itself refuses commands.
            return Ok(Self(services));
        }
        Err(ApiError::unavailable(format!("not ready: {}", readiness.reasons.join("; ")), 1).named("not_ready"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_views_cannot_read_stands_behind_the_refusal_of_the_partition_and_hides_it_never() {
        let damage = "the log is damaged in partition 0 at offset 7: nothing is there".to_owned();
        let told = Told {
            stage: "partition 0: its log has lost events (`reenact log accept-loss --partition 0`)".to_owned(),
            views: damage.clone(),
            damage: BTreeMap::from([(PartitionId(0), format!("the views of partition 0: {damage}"))]),
            ..Told::default()
        };
        let of_views = format!("the views of partition 0: {damage}");
        assert_eq!(told.reasons(None), [told.stage.clone(), of_views.clone()], "said once");
        assert_eq!(told.reasons(Some(vec!["refused".to_owned()])), ["refused".to_owned(), of_views.clone()]);
        assert_eq!(told.reasons(Some(Vec::new())), [of_views], "a partition that is served, with views that are not");
    }
}
