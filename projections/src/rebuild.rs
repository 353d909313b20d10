//! Folds another generation of the views while one is served, and puts it in its place.
//!
//! A rebuild is a task: it fills a generation at full speed, makes its indexes once it has come to the log's end, and
//! follows the log from there on, so that it can be swapped to at any moment. There is one at a time. A swap holds the
//! writing of the live rows for a moment, folds what the other generation lacks of them, and has readers go on there:
//! each reads the old rows or the new ones, and nothing that was visible becomes invisible.

mod feed;
mod progress;
mod swap;

use std::{sync::Arc, time::Duration};

use reenact_events::{EventLog, Offset, PartitionId};
use tokio::{
    sync::{Mutex, OwnedMutexGuard, watch},
    task::JoinSet,
};

use crate::{GenerationError, Generations, Loader, Position, ViewError, Views};

pub use progress::{Filling, Stage};

/// How often it is asked how far the log has come.
const ENDS_KNOWN_FOR: Duration = Duration::from_secs(1);

/// The generations of served views. Clones share everything.
#[derive(Clone)]
pub struct Rebuilds {
    generations: Arc<dyn Generations>,
    views: Views,
    log: Arc<dyn EventLog>,
    work: Arc<Mutex<Option<Work>>>,
}

/// A generation as it stands.
#[derive(Debug, Clone, PartialEq)]
pub struct Standing {
    /// Its number.
    pub number: u32,
    /// Whether it is the one that is read.
    pub live: bool,
    /// Where each partition stands and what it lacks.
    pub partitions: Vec<Behind>,
    /// How its filling goes, if it is filled in this process.
    pub filling: Option<Filling>,
}

/// A partition of a generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Behind {
    /// Which.
    pub partition: PartitionId,
    /// The first offset that is not in the rows.
    pub position: Offset,
    /// The first offset behind the log's last event.
    pub end: Offset,
}

impl Behind {
    /// How many offsets are missing; 0 when all events are there.
    #[must_use]
    pub fn lag(&self) -> u64 {
        self.end.0.saturating_sub(self.position.0)
    }
}

impl Standing {
    /// A generation that nobody works on in this process.
    #[must_use]
    pub fn of(number: u32, live: bool, positions: &[Position], ends: &[(PartitionId, Offset)]) -> Self {
        Self { number, live, partitions: behind(positions, ends), filling: None }
    }

    /// How many offsets are missing, over all partitions.
    #[must_use]
    pub fn lag(&self) -> u64 {
        self.partitions.iter().map(Behind::lag).sum()
    }
}

/// A rebuild. Dropping it ends the task.
struct Work {
    number: u32,
    shared: Shared,
    task: JoinSet<()>,
}

/// What the task and a swap share.
#[derive(Clone)]
struct Shared {
    /// Absent until it is open, and after a swap or a stop.
    loader: Arc<Mutex<Option<Loader>>>,
    told: watch::Sender<Filling>,
}

impl Work {
    fn is_alive(&self) -> bool {
        !matches!(self.shared.told.borrow().stage, Stage::Failed(_))
    }

    /// Ends the task, and waits until it writes nothing any more.
    async fn stop(mut self) {
        self.task.abort_all();
        self.shared.loader.lock().await.take();
    }
}

impl Rebuilds {
    /// The generations of these views.
    #[must_use]
    pub fn new(generations: Arc<dyn Generations>, views: Views, log: Arc<dyn EventLog>) -> Self {
        Self { generations, views, log, work: Arc::default() }
    }

    /// Begins a generation, or goes on with one that is there, and says which.
    ///
    /// # Errors
    /// When another is being rebuilt, or the one that is named is live or not there.
    pub async fn begin(&self, number: Option<u32>) -> Result<u32, GenerationError> {
        let mut work = self.work.lock().await;
        self.vacant(work.as_ref(), number).await?;
        let number = match number {
            Some(number) => number,
            None => self.ask(|generations| generations.next()).await?,
        };
        *work = Some(self.work_on(number));
        Ok(number)
    }

    /// Ends the rebuild of a generation, if there is one, and removes it.
    ///
    /// # Errors
    /// When it is live, not there, or cannot be removed.
    pub async fn remove(&self, number: u32) -> Result<(), GenerationError> {
        let mut work = self.work.lock().await;
        self.to_work_on(number).await?;
        if let Some(ended) = work.take_if(|work| work.number == number) {
            ended.stop().await;
        }
        self.ask(move |generations| generations.remove(number)).await
    }

    /// All generations, by number.
    ///
    /// # Errors
    /// When they cannot be listed, or the log does not say where it ends.
    pub async fn list(&self) -> Result<Vec<Standing>, GenerationError> {
        let ends = ends(&*self.log).await?;
        let work = self.work.lock().await;
        let found = self.ask(|generations| {
            let live = generations.live()?;
            let standing = |number| Ok((number, number == live, generations.positions(number)?));
            generations.numbers()?.into_iter().map(standing).collect::<Result<Vec<_>, GenerationError>>()
        });
        let mut standings = Vec::new();
        for (number, is_live, positions) in found.await? {
            let filling = work.as_ref().filter(|work| work.number == number);
            let filling = filling.map(|work| work.shared.told.borrow().clone());
            standings.push(Standing { filling, ..Standing::of(number, is_live, &positions, &ends) });
        }
        // Its place is made after it has begun, and may never be.
        if let Some(work) = work.as_ref().filter(|work| standings.iter().all(|known| known.number != work.number)) {
            let filling = Some(work.shared.told.borrow().clone());
            standings.push(Standing { filling, ..Standing::of(work.number, false, &[], &ends) });
        }
        Ok(standings)
    }

    /// Asks on a thread that may block.
    async fn ask<T: Send + 'static>(
        &self,
        work: impl FnOnce(&dyn Generations) -> Result<T, GenerationError> + Send + 'static,
    ) -> Result<T, GenerationError> {
        let generations = self.generations.clone();
        tokio::task::spawn_blocking(move || work(&*generations)).await.map_err(|_| ViewError::Closed)?
    }

    /// Fails when a generation cannot be worked on at all.
    async fn to_work_on(&self, number: u32) -> Result<(), GenerationError> {
        self.ask(move |generations| generations.known(number).and_then(|()| generations.beside(number))).await
    }

    /// Fails when a generation cannot be worked on now.
    async fn vacant(&self, work: Option<&Work>, number: Option<u32>) -> Result<(), GenerationError> {
        if let Some(other) = work.filter(|work| work.is_alive()) {
            return Err(GenerationError::Busy { number: other.number });
        }
        match number {
            Some(number) => self.to_work_on(number).await,
            None => Ok(()),
        }
    }

    fn work_on(&self, number: u32) -> Work {
        let shared = Shared { loader: Arc::default(), told: watch::Sender::new(Filling::begun()) };
        let mut task = JoinSet::new();
        let (generations, log, worked) = (self.generations.clone(), self.log.clone(), shared.clone());
        task.spawn(async move {
            if let Err(error) = work(generations, log, &worked, number).await {
                tracing::warn!(generation = number, %error, "the rebuild of a generation of the views stopped");
                worked.told.send_modify(|told| told.stage = Stage::Failed(error.to_string()));
            }
        });
        Work { number, shared, task }
    }
}

/// Where each partition stands against the log's end; a generation that has no rows yet stands at the beginning.
fn behind(positions: &[Position], ends: &[(PartitionId, Offset)]) -> Vec<Behind> {
    let at = |partition| positions.iter().find(|position| position.partition == partition);
    let behind = |(partition, end): &(PartitionId, Offset)| {
        let position = at(*partition).map_or(Offset(0), |position| position.next_offset);
        Behind { partition: *partition, position, end: *end }
    };
    ends.iter().map(behind).collect()
}

/// The first offset behind each partition's last event.
async fn ends(log: &dyn EventLog) -> Result<Vec<(PartitionId, Offset)>, ViewError> {
    let mut ends = Vec::new();
    for partition in (0..log.partitions()).map(PartitionId) {
        ends.push((partition, log.last_event(partition).await?.map_or(Offset(0), Offset::next)));
    }
    Ok(ends)
}

/// Fills a generation, then keeps it at the log's end until it is swapped to or dropped.
async fn work(
    generations: Arc<dyn Generations>,
    log: Arc<dyn EventLog>,
    shared: &Shared,
    number: u32,
) -> Result<(), GenerationError> {
    let opened = tokio::task::spawn_blocking(move || generations.loader(number));
    let loader = opened.await.map_err(|_| ViewError::Closed)??;
    let positions = loader.positions().to_vec();
    shared.loader.lock().await.replace(loader);
    let known = ends(&*log).await?;
    shared.told.send_modify(|told| told.stands(&positions, &known));
    let mut batches = feed::batches(&log, &positions);
    let mut tick = tokio::time::interval(ENDS_KNOWN_FOR);
    loop {
        if shared.told.borrow().is_filled() {
            shared.told.send_modify(|told| told.stage = Stage::Indexing);
            if with_loader(shared, |loader| loader.finish()).await?.is_none() {
                return Ok(());
            }
            let known = ends(&*log).await?;
            shared.told.send_modify(|told| told.follows(&known));
        }
        tokio::select! {
            batch = batches.recv() => {
                let (partition, batch) = batch.ok_or(ViewError::Closed)?;
                let Some(batch) = batch? else { continue };
                let fold = move |loader: &mut Loader| {
                    let count = loader.fold(&batch)?;
                    Ok((count, loader.position(partition)?))
                };
                let Some((count, position)) = with_loader(shared, fold).await? else { return Ok(()) };
                shared.told.send_modify(|told| told.came(position, count));
            }
            _ = tick.tick() => {
                let known = ends(&*log).await?;
                shared.told.send_modify(|told| told.log_is_at(&known));
            }
        }
    }
}

/// Does `work` with the loader on a thread that may block; none when it was taken away.
async fn with_loader<T: Send + 'static>(
    shared: &Shared,
    work: impl FnOnce(&mut Loader) -> Result<T, ViewError> + Send + 'static,
) -> Result<Option<T>, ViewError> {
    let mut guard: OwnedMutexGuard<Option<Loader>> = shared.loader.clone().lock_owned().await;
    let done = tokio::task::spawn_blocking(move || guard.as_mut().map(work).transpose());
    done.await.map_err(|_| ViewError::Closed)?
}
