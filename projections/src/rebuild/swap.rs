//! The swap under readers.

use std::{sync::Arc, time::Duration};

use futures::StreamExt;
use reenact_events::{Offset, PartitionId};

use super::{Filling, Rebuilds, Shared, Stage, Standing, ends};
use crate::{GenerationError, Loader, ViewError, generations::not_behind};

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
            self.vacant(work.as_ref(), Some(number))?;
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
        Ok(Standing::of(number, false, &self.generations.positions(number)?, &ends))
    }

    /// The live rows stand still from the first line on; readers do for the last ones.
    async fn switch(&self, number: u32, shared: &Shared) -> Result<(), GenerationError> {
        let stopped = || GenerationError::Stopped { number, reason: "it was taken away".to_owned() };
        let mut guard = shared.loader.clone().lock_owned().await;
        let mut loader = guard.take().ok_or_else(stopped)?;
        let writer = self.views.writer.close().await?;
        let live: Vec<_> = (0..self.views.partitions())
            .map(PartitionId)
            .map(|partition| (partition, self.views.position(partition)))
            .collect();
        for (partition, until) in &live {
            loader = self.fold_until(loader, *partition, *until).await?;
        }
        not_behind(number, loader.positions(), &live)?;
        let (views, file) = (self.views.clone(), self.generations.file(number));
        let opened = tokio::task::spawn_blocking(move || {
            loader.finish()?;
            drop(loader);
            Ok::<_, ViewError>((views.open_beside(&file)?, Arc::from(file)))
        });
        let (opened, file) = opened.await.map_err(|_| ViewError::Closed)??;
        let readers = self.views.readers.close().await?;
        self.generations.switch(number)?;
        self.views.take_over((writer, readers), file, opened);
        tracing::info!(generation = number, "the views are read from another generation");
        Ok(())
    }

    /// Folds what the live rows have and these do not: a few events that came a moment ago.
    async fn fold_until(&self, mut loader: Loader, partition: PartitionId, until: Offset) -> Result<Loader, ViewError> {
        let mut tail = self.log.tail(partition, loader.position(partition)?.next_offset);
        while loader.position(partition)?.next_offset < until {
            let event = tail.next().await.ok_or(ViewError::LogEnded { partition })??;
            let folded = tokio::task::spawn_blocking(move || loader.fold(partition, &[event]).map(|_| loader));
            loader = folded.await.map_err(|_| ViewError::Closed)??;
        }
        Ok(loader)
    }
}
