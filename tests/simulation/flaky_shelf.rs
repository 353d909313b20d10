//! A shelf that fails now and then: before, after, in the middle; and one object in some is not what was put.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use futures::{FutureExt, StreamExt, TryStreamExt, future::BoxFuture, stream};
use reenact_snapshots::{
    Shelf, ShelfError,
    snapshot::{MemoryShelf, Pieces},
};

use crate::faults::{Dice, Weather};

/// Snapshots of simulated nodes are made after so many events,
pub(crate) const EVENTS: u64 = 40;
/// or after so long.
pub(crate) const PERIOD: Duration = Duration::from_secs(3);

#[derive(Clone)]
pub(crate) struct FlakyShelf {
    pub(crate) inner: Arc<MemoryShelf>,
    pub(crate) weather: Arc<Weather>,
    pub(crate) dice: Dice,
}

impl FlakyShelf {
    fn fails(&self) -> bool {
        !self.weather.calm.load(Ordering::SeqCst) && self.dice.hits(self.weather.rough_per_mille)
    }

    fn check(&self) -> Result<(), ShelfError> {
        if self.fails() { Err("simulated outage of the shelf".into()) } else { Ok(()) }
    }

    /// Bytes that change or end while nobody looks, in calm weather too.
    fn damage(&self, name: &str) {
        if !self.dice.hits(100) {
            return;
        }
        if let Some(object) = self.inner.objects().get_mut(name) {
            let at = usize::try_from(self.dice.below(object.len() as u64)).expect("small");
            if self.dice.hits(500) { object.truncate(at) } else { object[at] ^= 1 }
        }
    }
}

impl Shelf for FlakyShelf {
    fn put<'a>(&'a self, name: &'a str, pieces: Pieces<'a>) -> BoxFuture<'a, Result<(), ShelfError>> {
        async move {
            self.check()?;
            // Uploading takes time, in which the partition goes on.
            let slow = pieces.then(|piece| async {
                tokio::time::sleep(self.dice.pause(20)).await;
                piece
            });
            self.inner.put(name, slow.boxed()).await?;
            self.damage(name);
            self.check()
        }
        .boxed()
    }

    fn get<'a>(&'a self, name: &'a str) -> Pieces<'a> {
        let pieces = self.inner.get(name).and_then(move |piece| async move {
            self.check()?;
            Ok(piece)
        });
        let end = stream::once(async {
            self.weather.snapshots_read.fetch_add(1, Ordering::SeqCst);
            Ok(Vec::new().into())
        });
        pieces.chain(end).boxed()
    }

    fn list<'a>(&'a self, folder: &'a str) -> BoxFuture<'a, Result<Vec<String>, ShelfError>> {
        async move {
            self.check()?;
            self.inner.list(folder).await
        }
        .boxed()
    }

    fn delete<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<(), ShelfError>> {
        async move {
            self.check()?;
            self.inner.delete(name).await
        }
        .boxed()
    }
}
