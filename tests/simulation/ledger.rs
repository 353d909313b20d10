//! What the tools of a world really did: outlives every life, and is the truth about side effects.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, atomic::Ordering},
};

use reenact_events::{
    BlobError, BlobRef, Blobs, MemoryLog, PartitionId, RunEvent, StepToken, UserId, agent::Effect, event::Event,
};

use crate::faults::{Dice, Weather};

/// One call that a tool received.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) token: StepToken,
    pub(crate) attempt: u32,
    pub(crate) effect: Effect,
}

#[derive(Default)]
struct Inner {
    calls: Vec<Call>,
    broken: Vec<String>,
    requested: BTreeSet<(StepToken, u32)>,
    read: BTreeMap<PartitionId, usize>,
}

/// See the module.
#[derive(Clone)]
pub(crate) struct Ledger {
    log: MemoryLog,
    inner: Arc<Mutex<Inner>>,
}

impl Ledger {
    pub(crate) fn new(log: MemoryLog) -> Self {
        Self { log, inner: Arc::default() }
    }

    /// A tool or a model is called: its request must be in the log already.
    pub(crate) fn called(&self, token: StepToken, attempt: u32, effect: Option<Effect>) {
        let mut inner = self.inner.lock().expect("ledger");
        inner.read_log(&self.log);
        if !inner.requested.contains(&(token, attempt)) {
            inner.broken.push(format!("an effect began before its request was committed: {token:?} attempt {attempt}"));
        }
        if let Some(effect) = effect {
            inner.calls.push(Call { token, attempt, effect });
        }
    }

    /// Whether a tool ever received this token.
    pub(crate) fn happened(&self, token: StepToken) -> bool {
        self.inner.lock().expect("ledger").calls.iter().any(|call| call.token == token)
    }

    pub(crate) fn calls(&self) -> Vec<Call> {
        self.inner.lock().expect("ledger").calls.clone()
    }

    pub(crate) fn broken(&self) -> Vec<String> {
        self.inner.lock().expect("ledger").broken.clone()
    }
}

impl Inner {
    fn read_log(&mut self, log: &MemoryLog) {
        use reenact_events::EventLog;
        for partition in (0..log.partitions()).map(PartitionId) {
            let read = self.read.entry(partition).or_default();
            for recorded in log.recorded_from(partition, *read) {
                *read += 1;
                if let Ok(Event::Run(RunEvent::StepRequested(request))) = recorded.decode() {
                    self.requested.insert((request.token, request.attempt));
                }
            }
        }
    }
}

/// Blobs in memory, shared by all lives.
#[derive(Default)]
pub(crate) struct MemoryBlobs(Mutex<BTreeMap<Arc<str>, Arc<[u8]>>>);

impl Blobs for MemoryBlobs {
    fn put<'a>(
        &'a self,
        bytes: Arc<[u8]>,
        _: Option<&'a UserId>,
    ) -> futures::future::BoxFuture<'a, Result<BlobRef, BlobError>> {
        let blob = BlobRef::of(&bytes);
        self.0.lock().expect("blobs").insert(blob.sha256.clone(), bytes);
        Box::pin(async { Ok(blob) })
    }

    fn get<'a>(&'a self, blob: &'a BlobRef) -> futures::future::BoxFuture<'a, Result<Arc<[u8]>, BlobError>> {
        let found = self.0.lock().expect("blobs").get(&blob.sha256).cloned();
        Box::pin(async move { found.ok_or(BlobError::Missing { sha256: blob.sha256.clone() }) })
    }

    fn sweep(
        &self,
        _: std::time::Duration,
        is_referenced: reenact_events::IsReferenced,
    ) -> futures::future::BoxFuture<'_, Result<u64, BlobError>> {
        self.0.lock().expect("blobs").retain(|sha256, _| is_referenced(sha256));
        Box::pin(async { Ok(0) })
    }
}

/// Blobs that cannot be stored now and then.
pub(crate) struct FlakyBlobs {
    pub(crate) inner: Arc<MemoryBlobs>,
    pub(crate) weather: Arc<Weather>,
    pub(crate) dice: Dice,
}

impl Blobs for FlakyBlobs {
    fn put<'a>(
        &'a self,
        bytes: Arc<[u8]>,
        owner: Option<&'a UserId>,
    ) -> futures::future::BoxFuture<'a, Result<BlobRef, BlobError>> {
        if !self.weather.calm.load(Ordering::SeqCst) && self.dice.hits(300) {
            return Box::pin(async { Err(BlobError::Store { reason: "simulated outage".into() }) });
        }
        self.inner.put(bytes, owner)
    }

    fn get<'a>(&'a self, blob: &'a BlobRef) -> futures::future::BoxFuture<'a, Result<Arc<[u8]>, BlobError>> {
        self.inner.get(blob)
    }

    fn sweep(
        &self,
        grace: std::time::Duration,
        is_referenced: reenact_events::IsReferenced,
    ) -> futures::future::BoxFuture<'_, Result<u64, BlobError>> {
        self.inner.sweep(grace, is_referenced)
    }
}
