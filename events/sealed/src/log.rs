//! A log whose users' content is sealed before it is stored and opened when it is read.

use std::sync::Arc;

use base64::{Engine, engine::general_purpose::STANDARD_NO_PAD};
use futures::{FutureExt, StreamExt, future::BoxFuture, stream::BoxStream};
use reenact_events::{
    Answer, Arrival, Batch, BatchId, Command, CommandRecord, CommitOutcome, Committed, DeadLetter, Event, EventLog,
    Forward, Lease, LogError, LogId, NewEvent, NodeId, Offset, Owner, Ownership, PartitionId, Recorded, erased::Erase,
    event::SUBJECT_ERASED, keys::KeyError, wire,
};
use uuid::Uuid;

use crate::ring::{KeyRing, OpenError};

/// See the module.
pub struct SealedLog {
    inner: Arc<dyn EventLog>,
    ring: KeyRing,
}

/// Why a batch could not be sealed.
enum Unsealed {
    /// The keys cannot be had now.
    Keys(KeyError),
    /// The event at this place is none of ours.
    Event(usize, String),
}

impl From<KeyError> for Unsealed {
    fn from(error: KeyError) -> Self {
        Self::Keys(error)
    }
}

impl SealedLog {
    /// What `inner` holds, sealed with these keys.
    #[must_use]
    pub fn new(inner: Arc<dyn EventLog>, ring: KeyRing) -> Self {
        Self { inner, ring }
    }

    /// What is stored of a batch. The same batch comes to the same bytes, so one whose outcome is unknown can be sent
    /// again.
    async fn sealed(&self, batch: &Batch) -> Result<Batch, Unsealed> {
        let mut sealed = Batch { events: Vec::with_capacity(batch.events.len()), ..batch.clone() };
        for (place, event) in batch.events.iter().enumerate() {
            sealed.events.push(seal(&self.ring, event, place).await?);
        }
        seal_forwards(&self.ring, &mut sealed.forwards).await?;
        Ok(sealed)
    }

    async fn commit_sealed(&self, lease: &Lease, batch: &Batch) -> CommitOutcome {
        let sealed = match self.sealed(batch).await {
            Ok(sealed) => sealed,
            Err(Unsealed::Keys(error)) => return CommitOutcome::Resend { reason: error.to_string().into() },
            Err(Unsealed::Event(event, reason)) => {
                return CommitOutcome::Rejected { event: Some(event), reason: reason.into() };
            }
        };
        self.inner.commit(lease, &sealed).await
    }

    fn opened(
        &self,
        events: BoxStream<'static, Result<Recorded, LogError>>,
    ) -> BoxStream<'static, Result<Recorded, LogError>> {
        let ring = self.ring.clone();
        events
            .then(move |found| {
                let ring = ring.clone();
                async move { ring.open(found?).await }
            })
            .boxed()
    }
}

/// Where a sealed text belongs.
fn place_of(event: &NewEvent) -> String {
    format!("{}/{}", event.id, event.kind)
}

fn place_of_command(command: &Command) -> String {
    format!("command/{}", command.id)
}

async fn seal_text(ring: &KeyRing, user: &reenact_events::UserId, place: &str, text: &str) -> Result<String, KeyError> {
    let cipher = ring.of_user(user).await?;
    let sealed = cipher
        .seal(place.as_bytes(), text.as_bytes())
        .ok_or_else(|| KeyError { place: ring.table().place(), reason: "a text cannot be sealed".into() })?;
    Ok(format!("{}.{}", cipher.id, STANDARD_NO_PAD.encode(sealed)))
}

async fn seal(ring: &KeyRing, event: &NewEvent, place: usize) -> Result<NewEvent, Unsealed> {
    let Some(owner) = &event.owner else { return Ok(event.clone()) };
    let wrong = |error: String| Unsealed::Event(place, error);
    let fact = Event::decode_current(&event.kind, &event.data).map_err(|error| wrong(error.to_string()))?;
    let erased = fact.erased();
    if erased == fact {
        return Ok(event.clone());
    }
    let left = erased.encode().map_err(|error| wrong(error.to_string()))?;
    let sealed = seal_text(ring, owner, &place_of(event), &event.data).await?;
    let rest = left.strip_prefix('{').unwrap_or_default();
    Ok(NewEvent { data: format!("{}{sealed}\",{rest}", reenact_events::envelope::SEALED).into(), ..event.clone() })
}

async fn seal_forwards(ring: &KeyRing, forwards: &mut [Forward]) -> Result<(), KeyError> {
    for Forward { command, .. } in forwards {
        let Some(user) = &command.user_id else { continue };
        let mut erased = command.erased();
        if erased != *command {
            let sealed = seal_text(ring, user, &place_of_command(command), &wire::encode(command)).await?;
            erased.sealed = Some(sealed.into());
            *command = erased;
        }
    }
    Ok(())
}

/// What was sealed; none when its key was destroyed.
async fn open_text(ring: &KeyRing, sealed: &str, place: &str) -> Result<Option<String>, OpenError> {
    let (id, text) = sealed.split_once('.').ok_or(OpenError::Damaged)?;
    let id = Uuid::parse_str(id).map_err(|_| OpenError::Damaged)?;
    let Some(cipher) = ring.find(id).await? else { return Ok(None) };
    let bytes = STANDARD_NO_PAD.decode(text).map_err(|_| OpenError::Damaged)?;
    let text = cipher.open(place.as_bytes(), &bytes).and_then(|text| String::from_utf8(text).ok());
    text.map(Some).ok_or(OpenError::Damaged)
}

impl KeyRing {
    /// The event as it was decided, or, once its owner's key is destroyed, what is left of it. Its stored bytes stay
    /// beside it, since the chain is over those.
    ///
    /// # Errors
    /// When the keys cannot be asked, the key was never there, or it is not what was sealed.
    pub async fn open(&self, recorded: Recorded) -> Result<Recorded, LogError> {
        if &*recorded.event.kind == SUBJECT_ERASED
            && let Some(user) = &recorded.event.owner
        {
            self.forget(user);
        }
        let Some((sealed, left)) = recorded.event.sealed() else { return Ok(recorded) };
        let (partition, offset) = (recorded.partition, recorded.offset);
        let opened = open_text(self, sealed, &place_of(&recorded.event)).await.map_err(|error| match error {
            OpenError::Keys(error) => LogError::Unavailable { reason: error.to_string().into() },
            error => LogError::Damaged { partition, offset, reason: error.to_string().into() },
        })?;
        let data = opened.unwrap_or_else(|| format!("{{{left}")).into();
        let stored = Some(recorded.event.data.clone());
        Ok(Recorded { stored, event: NewEvent { data, ..recorded.event }, ..recorded })
    }

    async fn open_command(&self, partition: PartitionId, record: CommandRecord) -> Result<CommandRecord, LogError> {
        let CommandRecord { offset, arrival } = record;
        let dead = |command: &Command, code: &str, reason: String| {
            Arrival::Poison(Box::new(DeadLetter {
                partition,
                offset,
                code: code.into(),
                reason: reason.into(),
                key: Some(command.id.as_str().into()),
                headers: Vec::new(),
                value: None,
            }))
        };
        let arrival = match arrival {
            Arrival::Command(command) => match &command.sealed {
                None => Arrival::Command(command),
                Some(sealed) => match open_text(self, sealed, &place_of_command(&command)).await {
                    Ok(Some(text)) => {
                        let own = wire::Attributes { is_handed_round: true, ..wire::Attributes::default() };
                        match wire::decode(text.as_bytes(), own) {
                            Ok(whole) => Arrival::Command(Box::new(whole)),
                            Err(error) => dead(&command, error.code, error.reason),
                        }
                    }
                    Ok(None) => dead(&command, "erased", "its user was erased before it was decided".to_owned()),
                    Err(OpenError::Keys(error)) => {
                        return Err(LogError::Unavailable { reason: error.to_string().into() });
                    }
                    Err(error) => dead(&command, "sealed", error.to_string()),
                },
            },
            poison @ Arrival::Poison(_) => poison,
        };
        Ok(CommandRecord { offset, arrival })
    }
}

impl EventLog for SealedLog {
    fn partitions(&self) -> u32 {
        self.inner.partitions()
    }

    fn log_id(&self) -> LogId {
        self.inner.log_id()
    }

    fn claim(&self, partition: PartitionId, node: NodeId) -> BoxFuture<'_, Result<Lease, LogError>> {
        self.inner.claim(partition, node)
    }

    fn replay(&self, lease: &Lease, from: Offset) -> BoxStream<'static, Result<Recorded, LogError>> {
        self.opened(self.inner.replay(lease, from))
    }

    fn commit<'a>(&'a self, lease: &'a Lease, batch: &'a Batch) -> BoxFuture<'a, CommitOutcome> {
        self.commit_sealed(lease, batch).boxed()
    }

    fn resolve<'a>(&'a self, lease: &'a Lease, batch: BatchId) -> BoxFuture<'a, Result<Option<Committed>, LogError>> {
        self.inner.resolve(lease, batch)
    }

    fn tail(&self, partition: PartitionId, from: Offset) -> BoxStream<'static, Result<Recorded, LogError>> {
        self.opened(self.inner.tail(partition, from))
    }

    fn bounds(&self, partition: PartitionId) -> BoxFuture<'_, Result<(Offset, Offset), LogError>> {
        self.inner.bounds(partition)
    }

    fn last_event(&self, partition: PartitionId) -> BoxFuture<'_, Result<Option<Offset>, LogError>> {
        self.inner.last_event(partition)
    }

    fn commands(&self, lease: &Lease) -> BoxStream<'static, Result<CommandRecord, LogError>> {
        let (ring, partition) = (self.ring.clone(), lease.partition);
        self.inner
            .commands(lease)
            .then(move |found| {
                let ring = ring.clone();
                async move { ring.open_command(partition, found?).await }
            })
            .boxed()
    }

    fn publish(&self, mut commands: Vec<Forward>) -> BoxFuture<'_, Result<(), LogError>> {
        async move {
            let sealed = seal_forwards(&self.ring, &mut commands).await;
            sealed.map_err(|error| LogError::Unavailable { reason: error.to_string().into() })?;
            self.inner.publish(commands).await
        }
        .boxed()
    }

    fn answers(&self) -> BoxStream<'static, Result<Answer, LogError>> {
        self.inner.answers()
    }

    fn trouble(&self) -> Option<Arc<str>> {
        self.inner.trouble()
    }

    fn is_shared(&self) -> bool {
        self.inner.is_shared()
    }

    fn ownership(&self) -> BoxStream<'static, Ownership> {
        self.inner.ownership()
    }

    fn owners(&self) -> BoxFuture<'_, Result<Vec<Owner>, LogError>> {
        self.inner.owners()
    }

    fn drop_taken_commands(&self) -> BoxFuture<'_, Result<Vec<(PartitionId, Offset)>, LogError>> {
        self.inner.drop_taken_commands()
    }
}
