//! The swap under readers.

use std::time::Duration;

use futures::StreamExt;
use reenact_events::{EventLog, Offset, PartitionId};
use tokio::runtime::Handle;

use super::{Filling, Rebuilds, Shared, Stage, Standing, ends};
use crate::{Decoded, GenerationError, Loader, ViewError, generations::not_behind};

impl Rebuilds {
    /// Has readers go on with another generation, once that has caught up. The one before stays as it is, to be
    /// swapped back to.
    ///
    /// # Errors
    /// When it does not catch up within `patience`, is live or not there, or another one is being rebuilt; then
    /// readers stay where they are.
    pub async fn swap(&self, number: u32, patience: Duration) -> Result<(), GenerationError> {
        // On a task of its own: a caller that goes away must not leave it half done.
        let all = self.clone();
        let task = tokio::spawn(async move { all.swap_now(number, patience).await });
        task.await.map_err(|_| ViewError::Closed)?
    }

    async fn swap_now(&self, number: u32, patience: Duration) -> Result<(), GenerationError> {
        let mut work = self.work.lock().await;
        let is_known = work.as_ref().is_some_and(|work| work.number == number && work.is_alive());
        if !is_known {
            self.vacant(work.as_ref(), Some(number)).await?;
            *work = Some(self.work_on(number));
        }
        let Some(shared) = work.as_ref().map(|work| work.shared.clone()) else { return Err(ViewError::Closed.into()) };
        let current = self.current(number, &shared, patience).await;
        let has_come = current.is_ok();
        let swapped = match current {
            Ok(()) => self.switch(number, &shared).await,
            Err(error) => Err(error),
        };
        // A rebuild that is only late goes on; what was begun for this swap alone ends with it.
        if (has_come || !is_known)
            && let Some(ended) = work.take()
        {
            ended.stop().await;
        }
        swapped
    }

    /// Waits until the generation is at the log's end.
    async fn current(&self, number: u32, shared: &Shared, patience: Duration) -> Result<(), GenerationError> {
        let mut told = shared.told.subscribe();
        let settled = |told: &Filling| told.is_current() || matches!(told.stage, Stage::Failed(_));
        let is_settled = tokio::time::timeout(patience, told.wait_for(settled)).await.is_ok();
        let stage = shared.told.borrow().stage.clone();
        match stage {
            Stage::Failed(reason) => Err(GenerationError::Stopped { number, reason }),
            _ if is_settled => Ok(()),
            _ => {
                let lag = self.standing(number).await?.lag();
                Err(GenerationError::Behind { number, lag, waited: patience })
            }
        }
    }

    /// Where a generation stands, as its rows say.
    async fn standing(&self, number: u32) -> Result<Standing, GenerationError> {
        let ends = ends(&*self.log).await?;
        let positions = self.ask(move |generations| generations.positions(number)).await?;
        Ok(Standing::of(number, false, &positions, &ends))
    }

    /// Has readers go on there: on a thread that may block, as most of it waits for a database.
    async fn switch(&self, number: u32, shared: &Shared) -> Result<(), GenerationError> {
        let stopped = move || GenerationError::Stopped { number, reason: "it was taken away".to_owned() };
        let mut guard = shared.loader.clone().lock_owned().await;
        let mut filled = Some(guard.take().ok_or_else(stopped)?);
        let (generations, views, log) = (self.generations.clone(), self.views.clone(), self.log.clone());
        let done = tokio::task::spawn_blocking(move || {
            generations.swap(number, Some(&views), &mut |live| {
                let mut loader = filled.take().ok_or_else(stopped)?;
                for (partition, until) in live {
                    fold_until(&*log, &mut loader, *partition, *until)?;
                }
                not_behind(number, loader.positions(), live)?;
                Ok(loader.finish()?)
            })
        });
        done.await.map_err(|_| ViewError::Closed)??;
        tracing::info!(generation = number, "the views are read from another generation");
        Ok(())
    }
}

/// Folds what the live rows have and these do not: a few events that came a moment ago. Blocks.
fn fold_until(log: &dyn EventLog, loader: &mut Loader, partition: PartitionId, until: Offset) -> Result<(), ViewError> {
    let mut tail = log.tail(partition, loader.position(partition)?.next_offset);
    while loader.position(partition)?.next_offset < until {
        let event = Handle::current().block_on(tail.next()).ok_or(ViewError::LogEnded { partition })??;
        if let Some(event) = Decoded::read([event])? {
            loader.fold(&event)?;
        }
    }
    Ok(())
}
