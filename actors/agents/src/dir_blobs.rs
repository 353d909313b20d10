//! Blobs as files in a folder, named by their SHA-256.
//!
//! `ab/cd/abcd…` holds the bytes whose digest begins with `abcd`. A blob is written to `tmp/`, forced to
//! disk, renamed to its place, and the place's folder is forced to disk too: when `put` returns, it survives
//! loss of power, and a reader never sees a part of it. A crash can leave a file in `tmp/`, which a later
//! start removes.

use std::{
    fs::{self, File},
    io::{self, ErrorKind, Write},
    path::{Path, PathBuf},
    sync::{Arc, PoisonError, RwLock},
    time::{Duration, SystemTime},
};

use futures::{FutureExt, future::BoxFuture};
use reenact_events::{BlobError, BlobRef, Blobs, IsReferenced, UserId};

/// Files in `tmp/` that are older than this belong to no write that is still going on.
const LEFTOVER_AGE: Duration = Duration::from_secs(24 * 3600);
const SHA256_DIGITS: usize = 64;

/// The blobs of a deployment on local disk.
#[derive(Debug, Clone)]
pub struct DirBlobs {
    dir: Arc<Path>,
    /// Held for reading while a blob is put, for writing while one is removed: a blob that was found old
    /// cannot become young before it is gone.
    sweeping: Arc<RwLock<()>>,
}

impl DirBlobs {
    /// Opens the folder, and makes it if need be.
    ///
    /// # Errors
    /// When the folder cannot be made or written.
    pub fn open(dir: &Path) -> Result<Self, BlobError> {
        let blobs = Self { dir: dir.into(), sweeping: Arc::default() };
        let tmp = blobs.tmp();
        make_folder(&tmp).map_err(|error| failed("make the folder", &tmp, &error))?;
        // Found out now and not at the first file of the first user.
        tempfile::tempfile_in(&tmp).map_err(|error| failed("write to the folder", &tmp, &error))?;
        blobs.remove_leftovers();
        Ok(blobs)
    }

    /// The blobs in a folder, only to read them: nothing is made or removed.
    #[must_use]
    pub fn look(dir: &Path) -> Self {
        Self { dir: dir.into(), sweeping: Arc::default() }
    }

    fn tmp(&self) -> PathBuf {
        self.dir.join("tmp")
    }

    fn remove_leftovers(&self) {
        let entries = fs::read_dir(self.tmp()).into_iter().flatten().flatten();
        let is_old = |entry: &fs::DirEntry| {
            let modified = entry.metadata().and_then(|metadata| metadata.modified()).ok();
            modified.and_then(|modified| modified.elapsed().ok()).is_some_and(|age| age > LEFTOVER_AGE)
        };
        for entry in entries.filter(is_old) {
            if let Err(error) = fs::remove_file(entry.path()) {
                tracing::warn!(path = %entry.path().display(), %error, "failed to remove a leftover file");
            }
        }
    }

    /// Where a blob is. The name comes from events and requests, so it is checked before it becomes a path.
    fn path(&self, sha256: &Arc<str>) -> Result<PathBuf, BlobError> {
        if !is_digest(sha256) {
            return Err(BlobError::Missing { sha256: sha256.clone() });
        }
        Ok(self.dir.join(&sha256[..2]).join(&sha256[2..4]).join(&**sha256))
    }

    fn put_now(&self, bytes: &[u8]) -> Result<BlobRef, BlobError> {
        let blob = BlobRef::of(bytes);
        let path = self.path(&blob.sha256)?;
        let folder = path.parent().unwrap_or(&self.dir);
        make_folder(folder).map_err(|error| failed("make the folder", folder, &error))?;
        let _no_sweep = self.sweeping.read().unwrap_or_else(PoisonError::into_inner);
        // A file that is there already is read: one that was damaged is mended by writing it again.
        if fs::read(&path).is_ok_and(|present| present == bytes) {
            make_young(&path).map_err(|error| failed("touch", &path, &error))?;
            sync_folder(folder).map_err(|error| failed("force to disk", folder, &error))?;
        } else {
            write_durably(&self.tmp(), &path, bytes).map_err(|error| failed("write", &path, &error))?;
        }
        Ok(blob)
    }

    fn get_now(&self, blob: &BlobRef) -> Result<Arc<[u8]>, BlobError> {
        let path = self.path(&blob.sha256)?;
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Err(BlobError::Missing { sha256: blob.sha256.clone() });
            }
            Err(error) => return Err(failed("read", &path, &error)),
        };
        if BlobRef::of(&bytes) != *blob {
            return Err(BlobError::Damaged { sha256: blob.sha256.clone() });
        }
        Ok(bytes.into())
    }

    fn sweep_now(&self, older_than: Duration, is_referenced: &IsReferenced) -> Result<u64, BlobError> {
        let mut removed = 0;
        for folder in folders(&self.dir)?.into_iter().filter(|folder| *folder != self.tmp()) {
            for folder in folders(&folder)? {
                for path in entries(&folder)? {
                    removed += u64::from(self.remove_if_unused(&path, older_than, is_referenced)?);
                }
            }
        }
        Ok(removed)
    }

    fn remove_if_unused(
        &self,
        path: &Path,
        older_than: Duration,
        is_referenced: &IsReferenced,
    ) -> Result<bool, BlobError> {
        // The folder may hold more than blobs: what has no blob's name is not ours to remove.
        let name = path.file_name().and_then(|name| name.to_str()).filter(|name| is_digest(name));
        let Some(sha256) = name else { return Ok(false) };
        let _no_put = self.sweeping.write().unwrap_or_else(PoisonError::into_inner);
        let age = fs::metadata(path)
            .and_then(|metadata| metadata.modified())
            .map(|modified| modified.elapsed().unwrap_or_default())
            .map_err(|error| failed("look at", path, &error))?;
        if age < older_than || is_referenced(sha256) {
            return Ok(false);
        }
        fs::remove_file(path).map_err(|error| failed("remove", path, &error))?;
        Ok(true)
    }

    /// Runs `work` where blocking is allowed. Work that was begun is finished even if nobody waits for it.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Self) -> Result<T, BlobError> + Send + 'static,
    ) -> Result<T, BlobError> {
        let blobs = self.clone();
        let done = tokio::task::spawn_blocking(move || work(&blobs)).await;
        done.unwrap_or_else(|error| {
            Err(BlobError::Store { reason: format!("a disk task ended early: {error}").into() })
        })
    }
}

impl Blobs for DirBlobs {
    fn put<'a>(&'a self, bytes: Arc<[u8]>, _: Option<&'a UserId>) -> BoxFuture<'a, Result<BlobRef, BlobError>> {
        self.blocking(move |blobs| blobs.put_now(&bytes)).boxed()
    }

    fn get<'a>(&'a self, blob: &'a BlobRef) -> BoxFuture<'a, Result<Arc<[u8]>, BlobError>> {
        let blob = blob.clone();
        self.blocking(move |blobs| blobs.get_now(&blob)).boxed()
    }

    fn sweep(&self, older_than: Duration, is_referenced: IsReferenced) -> BoxFuture<'_, Result<u64, BlobError>> {
        self.blocking(move |blobs| blobs.sweep_now(older_than, &is_referenced)).boxed()
    }
}

fn is_digest(name: &str) -> bool {
    name.len() == SHA256_DIGITS && name.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// The time of its last use is what keeps a blob that no event refers to yet.
#[allow(clippy::disallowed_methods, reason = "a file's age is the file system's business, no decision sees it")]
fn make_young(path: &Path) -> io::Result<()> {
    File::options().append(true).open(path)?.set_modified(SystemTime::now())
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>, BlobError> {
    let list = || fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.path())).collect::<io::Result<Vec<_>>>();
    list().map_err(|error| failed("list", folder, &error))
}

fn folders(folder: &Path) -> Result<Vec<PathBuf>, BlobError> {
    Ok(entries(folder)?.into_iter().filter(|path| path.is_dir()).collect())
}

/// Makes a folder and its parents, and forces each new name to disk.
fn make_folder(folder: &Path) -> io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    let parent = folder.parent().filter(|parent| !parent.as_os_str().is_empty());
    if let Some(parent) = parent {
        make_folder(parent)?;
    }
    match fs::create_dir(folder) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    sync_folder(parent.unwrap_or(Path::new(".")))
}

fn write_durably(tmp: &Path, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = tempfile::NamedTempFile::new_in(tmp)?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    sync_folder(path.parent().unwrap_or(tmp))
}

fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

fn failed(doing: &str, path: &Path, error: &io::Error) -> BlobError {
    let advice = match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "; free some space on this disk",
        ErrorKind::PermissionDenied => "; check who owns the folder",
        ErrorKind::ReadOnlyFilesystem => "; the file system is read-only",
        _ => "",
    };
    BlobError::Store { reason: format!("failed to {doing} `{}`: {error}{advice}", path.display()).into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opened() -> (tempfile::TempDir, DirBlobs) {
        let dir = tempfile::tempdir().unwrap();
        let blobs = DirBlobs::open(&dir.path().join("a/blobs")).unwrap();
        (dir, blobs)
    }

    #[tokio::test]
    async fn what_was_put_is_there_for_whoever_opens_the_folder_next() {
        let (dir, blobs) = opened();
        let blob = blobs.put(b"words".as_slice().into(), None).await.unwrap();
        assert_eq!(blobs.put(b"words".as_slice().into(), None).await.unwrap(), blob);
        let again = DirBlobs::open(&dir.path().join("a/blobs")).unwrap();
        assert_eq!(&*again.get(&blob).await.unwrap(), b"words");
        assert_eq!(fs::read_dir(again.tmp()).unwrap().count(), 0, "nothing is left in `tmp`");
    }

    #[tokio::test]
    async fn damage_is_seen_at_read_and_mended_by_the_next_put() {
        let (_dir, blobs) = opened();
        let blob = blobs.put(b"words".as_slice().into(), None).await.unwrap();
        fs::write(blobs.path(&blob.sha256).unwrap(), b"wards").unwrap();
        assert!(matches!(blobs.get(&blob).await, Err(BlobError::Damaged { .. })));
        blobs.put(b"words".as_slice().into(), None).await.unwrap();
        assert_eq!(&*blobs.get(&blob).await.unwrap(), b"words");
    }

    #[tokio::test]
    async fn only_what_is_old_and_unused_is_swept() {
        let (_dir, blobs) = opened();
        let blob = blobs.put(b"words".as_slice().into(), None).await.unwrap();
        let nobody: IsReferenced = Arc::new(|_| false);
        let somebody: IsReferenced = Arc::new(|_| true);
        assert_eq!(blobs.sweep(Duration::from_secs(60), nobody.clone()).await.unwrap(), 0, "it is young");
        assert_eq!(blobs.sweep(Duration::ZERO, somebody).await.unwrap(), 0, "it is referred to");
        assert_eq!(blobs.sweep(Duration::ZERO, nobody).await.unwrap(), 1);
        assert!(matches!(blobs.get(&blob).await, Err(BlobError::Missing { .. })));
    }

    #[tokio::test]
    async fn a_name_that_is_no_digest_never_becomes_a_path() {
        let (_dir, blobs) = opened();
        for name in ["../../etc/passwd", "", &"A".repeat(64), &"é".repeat(32), &format!("/{}", "a".repeat(63))] {
            let blob = BlobRef { sha256: name.into(), bytes: 1 };
            assert!(matches!(blobs.get(&blob).await, Err(BlobError::Missing { .. })), "{name}");
        }
    }

    #[test]
    fn a_folder_that_cannot_be_used_is_refused_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, b"").unwrap();
        let error = DirBlobs::open(&file.join("blobs")).unwrap_err().to_string();
        assert!(error.contains("file/blobs"), "{error}");
    }
}
