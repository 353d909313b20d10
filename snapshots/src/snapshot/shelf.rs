//! Where snapshots lie: named objects, whole or not there at all.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use futures::{
    FutureExt, StreamExt, TryStreamExt,
    future::BoxFuture,
    stream::{self, BoxStream},
};

/// An object's bytes, in order.
pub type Pieces<'a> = BoxStream<'a, Result<Bytes, ShelfError>>;

/// The shelf does not do what it should, now.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{reason}")]
pub struct ShelfError {
    /// What is wrong.
    pub reason: Arc<str>,
}

impl From<&str> for ShelfError {
    fn from(reason: &str) -> Self {
        Self { reason: reason.into() }
    }
}

/// Named objects. Names have `/` between their parts. Every call ends by itself, however bad the shelf is.
pub trait Shelf: Send + Sync {
    /// Puts an object, in the place of one that has the name already. It is seen when it is whole: an error among
    /// its pieces leaves everything as it was.
    fn put<'a>(&'a self, name: &'a str, pieces: Pieces<'a>) -> BoxFuture<'a, Result<(), ShelfError>>;

    /// An object's bytes; one that is not there is an error.
    fn get<'a>(&'a self, name: &'a str) -> Pieces<'a>;

    /// The names of all objects in a folder.
    fn list<'a>(&'a self, folder: &'a str) -> BoxFuture<'a, Result<Vec<String>, ShelfError>>;

    /// Removes an object; one that is not there is fine.
    fn delete<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<(), ShelfError>>;
}

/// A shelf that ends with its process, for tests.
#[derive(Debug, Default)]
pub struct MemoryShelf {
    objects: Mutex<BTreeMap<String, Vec<u8>>>,
}

impl MemoryShelf {
    /// All objects by name, to look at and to damage.
    pub fn objects(&self) -> MutexGuard<'_, BTreeMap<String, Vec<u8>>> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shelf for MemoryShelf {
    fn put<'a>(&'a self, name: &'a str, pieces: Pieces<'a>) -> BoxFuture<'a, Result<(), ShelfError>> {
        async move {
            let whole: Vec<Bytes> = pieces.try_collect().await?;
            self.objects().insert(name.to_owned(), whole.concat());
            Ok(())
        }
        .boxed()
    }

    fn get<'a>(&'a self, name: &'a str) -> Pieces<'a> {
        let Some(object) = self.objects().get(name).cloned() else {
            return stream::iter([Err("it is not there any more".into())]).boxed();
        };
        let pieces: Vec<_> = object.chunks(1 << 10).map(|piece| Ok(Bytes::copy_from_slice(piece))).collect();
        stream::iter(pieces).boxed()
    }

    fn list<'a>(&'a self, folder: &'a str) -> BoxFuture<'a, Result<Vec<String>, ShelfError>> {
        let inside = |name: &&String| name.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'));
        let names = self.objects().keys().filter(inside).cloned().collect();
        async move { Ok(names) }.boxed()
    }

    fn delete<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<(), ShelfError>> {
        self.objects().remove(name);
        async { Ok(()) }.boxed()
    }
}
