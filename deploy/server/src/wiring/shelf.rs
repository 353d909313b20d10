//! Snapshots in a folder or in a bucket.

use std::{sync::Arc, time::Duration};

use anyhow::Context;
use futures::{FutureExt, StreamExt, TryStreamExt, future::BoxFuture, stream};
use object_store::{
    ObjectStore, ObjectStoreExt, RetryConfig, aws::AmazonS3Builder, buffered::BufWriter,
    gcp::GoogleCloudStorageBuilder, local::LocalFileSystem, path::Path,
};
use reenact_snapshots::{Shelf, ShelfError, snapshot::Pieces};
use tokio::io::AsyncWriteExt;

use crate::config::SnapshotPlace;

/// Parts in which large objects are uploaded; S3 takes none below 5 MiB, and 10,000 at most.
const PART_BYTES: usize = 8 << 20;
/// Parts on their way at once: with the one that is being filled, all that an upload keeps in memory.
const PARTS_IN_FLIGHT: usize = 2;
/// A restore waits no longer than this for a bucket that does not answer, then it folds the log.
const RETRY_WAIT: Duration = Duration::from_secs(20);

/// Opens the shelf of a place. Buckets take their credentials from the environment, as their own tools do.
///
/// # Errors
/// When the folder cannot be made, or the bucket's settings are not usable.
pub fn open(place: &SnapshotPlace) -> anyhow::Result<Arc<dyn Shelf>> {
    let (store, prefix): (Arc<dyn ObjectStore>, _) = match place {
        SnapshotPlace::Folder(folder) => {
            std::fs::create_dir_all(folder)
                .with_context(|| format!("the folder of snapshots `{}` cannot be made", folder.display()))?;
            (Arc::new(LocalFileSystem::new_with_prefix(folder)?.with_fsync(true)), String::new())
        }
        SnapshotPlace::Bucket(url) => bucket(url).with_context(|| format!("the bucket `{url}` cannot be used"))?,
    };
    let prefix = Path::parse(prefix).context("the prefix of snapshots is no path")?;
    Ok(Arc::new(ObjectShelf { store, prefix }))
}

fn bucket(url: &str) -> anyhow::Result<(Arc<dyn ObjectStore>, String)> {
    let (scheme, rest) = url.split_once("://").unwrap_or_default();
    let (name, prefix) = rest.split_once('/').unwrap_or((rest, ""));
    let retry = RetryConfig { max_retries: 4, retry_timeout: RETRY_WAIT, ..RetryConfig::default() };
    let store: Arc<dyn ObjectStore> = match scheme {
        "s3" => Arc::new(AmazonS3Builder::from_env().with_bucket_name(name).with_retry(retry).build()?),
        _ => Arc::new(GoogleCloudStorageBuilder::from_env().with_bucket_name(name).with_retry(retry).build()?),
    };
    Ok((store, prefix.to_owned()))
}

struct ObjectShelf {
    store: Arc<dyn ObjectStore>,
    prefix: Path,
}

impl ObjectShelf {
    fn path(&self, name: &str) -> Path {
        self.prefix.parts().chain(Path::from(name).parts()).collect()
    }

    async fn fill(writer: &mut BufWriter, mut pieces: Pieces<'_>) -> Result<(), ShelfError> {
        while let Some(piece) = pieces.next().await {
            writer.put(piece?).await.map_err(|error| failed(&error))?;
        }
        Ok(())
    }
}

impl Shelf for ObjectShelf {
    fn put<'a>(&'a self, name: &'a str, pieces: Pieces<'a>) -> BoxFuture<'a, Result<(), ShelfError>> {
        async move {
            let mut writer = BufWriter::with_capacity(self.store.clone(), self.path(name), PART_BYTES)
                .with_max_concurrency(PARTS_IN_FLIGHT);
            let filled = Self::fill(&mut writer, pieces).await;
            if filled.is_err()
                && let Err(error) = writer.abort().await
            {
                tracing::debug!(name, %error, "what was uploaded of a snapshot could not be taken back");
            }
            filled?;
            // When this fails it takes back by itself what was uploaded.
            writer.shutdown().await.map_err(|error| error.to_string().as_str().into())
        }
        .boxed()
    }

    fn get<'a>(&'a self, name: &'a str) -> Pieces<'a> {
        let opened = async move {
            let got = self.store.get(&self.path(name)).await.map_err(|error| failed(&error))?;
            Ok::<_, ShelfError>(got.into_stream().map_err(|error| failed(&error)))
        };
        stream::once(opened).try_flatten().boxed()
    }

    fn list<'a>(&'a self, folder: &'a str) -> BoxFuture<'a, Result<Vec<String>, ShelfError>> {
        async move {
            let folder = self.path(folder);
            let found = self.store.list(Some(&folder)).map_ok(|object| object.location.to_string());
            found.try_collect().await.map_err(|error| failed(&error))
        }
        .boxed()
    }

    fn delete<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<(), ShelfError>> {
        async move {
            match self.store.delete(&self.path(name)).await {
                Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
                Err(error) => Err(failed(&error)),
            }
        }
        .boxed()
    }
}

fn failed(error: &object_store::Error) -> ShelfError {
    error.to_string().as_str().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(count: usize, bytes: usize) -> Vec<Result<bytes::Bytes, ShelfError>> {
        (0..count).map(|_| Ok(vec![7; bytes].into())).collect()
    }

    async fn whole(shelf: &dyn Shelf, name: &str) -> Result<usize, ShelfError> {
        shelf.get(name).try_fold(0, |sum, piece| async move { Ok(sum + piece.len()) }).await
    }

    #[tokio::test]
    async fn what_was_put_is_listed_and_read_until_it_is_deleted() {
        let folder = tempfile::tempdir().unwrap();
        let shelf = open(&SnapshotPlace::Folder(folder.path().join("not/there/yet"))).unwrap();
        assert_eq!(shelf.list("log/p0").await.unwrap(), Vec::<String>::new());
        // One fits into a part, the other takes several.
        for (name, count) in [("log/p0/small.snap", 1), ("log/p0/large.snap", 20)] {
            shelf.put(name, stream::iter(pieces(count, 1 << 20)).boxed()).await.unwrap();
            assert_eq!(whole(&*shelf, name).await.unwrap(), count << 20);
        }
        shelf.put("log/p10/other.snap", stream::iter(pieces(1, 1)).boxed()).await.unwrap();
        let mut names = shelf.list("log/p0").await.unwrap();
        names.sort();
        assert_eq!(names, ["log/p0/large.snap", "log/p0/small.snap"]);
        for _ in 0..2 {
            shelf.delete("log/p0/large.snap").await.unwrap();
        }
        assert_eq!(shelf.list("log/p0").await.unwrap(), ["log/p0/small.snap"]);
        assert!(whole(&*shelf, "log/p0/large.snap").await.is_err());
    }

    #[tokio::test]
    async fn a_bucket_that_does_not_take_an_object_is_an_error() {
        let retry = RetryConfig { max_retries: 0, ..RetryConfig::default() };
        let nobody = AmazonS3Builder::new().with_endpoint("http://127.0.0.1:1").with_allow_http(true);
        let keys = nobody.with_access_key_id("x").with_secret_access_key("y").with_bucket_name("b");
        let store = Arc::new(keys.with_retry(retry).build().unwrap());
        let shelf = ObjectShelf { store, prefix: Path::default() };
        for count in [1, 20] {
            let put = shelf.put("p/a.snap", stream::iter(pieces(count, 1 << 20)).boxed()).await;
            assert!(put.unwrap_err().to_string().contains("127.0.0.1:1"));
        }
    }

    #[tokio::test]
    async fn an_object_that_fails_on_its_way_is_not_there_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let shelf = open(&SnapshotPlace::Folder(folder.path().into())).unwrap();
        for count in [1, 20] {
            let mut broken = pieces(count, 1 << 20);
            broken.push(Err("broken".into()));
            assert!(shelf.put("p/a.snap", stream::iter(broken).boxed()).await.is_err());
        }
        assert_eq!(shelf.list("p").await.unwrap(), Vec::<String>::new());
    }
}
