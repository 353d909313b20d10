//! How a sled database is opened without trusting it, and thrown away when there is any doubt.
//!
//! sled may return an error, panic, or take very long over a damaged file, so it opens on its own thread
//! with a time limit. A thread cannot be ended, and a database that panicked may still have its own threads:
//! so what is discarded is never deleted and made again under the same name. Each fresh start gets the next
//! *generation* of the directory, `format-VERSION.GENERATION`, which nothing old knows of.

use std::{
    any::Any,
    fs, io,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    sync::mpsc,
    thread,
    time::Duration,
};

use crate::{
    StoreError, codec,
    sealed::{Identity, SUMMARY_KEY, Summary, Totals, outer_key, seal, unseal},
};

/// Raised whenever the layout inside sled changes; a directory of another version is never opened.
const FORMAT_VERSION: u32 = 1;
/// sled counts the bytes on disk; decoded they are two to three times as many. What is not in here is in the
/// kernel's page cache, so a larger one makes runs no faster, and only folding everything again a fifth.
const CACHE_BYTES: u64 = 1 << 20;
/// Losing half a second of the cache costs folding half a second of the log.
const FLUSH_EVERY_MS: u64 = 500;
/// Beyond this many bytes on disk per byte of content, plus the slack, space has leaked (a known fault of
/// sled) and folding the log again is the only way to get it back.
const SIZE_RATIO_MAX: u64 = 8;
const SIZE_SLACK_BYTES: u64 = 1 << 30;
/// Opening reads everything once; a disk that gives less than this is broken or the store is.
const OPEN_BYTES_PER_S_MIN: u64 = 4 << 20;
const OPEN_SLACK_S: u64 = 30;
const LOCK_TRIES: u32 = 100;
const LOCK_PAUSE: Duration = Duration::from_millis(50);

/// What was thrown away at opening. The partition is folded from the log again, which takes longer, so the
/// caller should warn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Discarded {
    /// Why it could not be used.
    pub reason: String,
}

/// An open database that has been checked from end to end.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) db: sled::Db,
    pub(crate) summary: Summary,
    pub(crate) dir: PathBuf,
}

/// One directory of a partition's store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Generation {
    format: u32,
    number: u64,
}

impl Generation {
    fn parse(name: &str) -> Option<Self> {
        let (format, number) = name.strip_prefix("format-")?.split_once('.')?;
        Some(Self { format: format.parse().ok()?, number: number.parse().ok()? })
    }

    fn dir(self, home: &Path) -> PathBuf {
        home.join(format!("format-{}.{}", self.format, self.number))
    }
}

/// Opens what is in `home`, or an empty store beside it when that cannot be used.
pub(crate) fn open_or_discard(home: &Path, identity: Identity) -> Result<(Opened, Option<Discarded>), StoreError> {
    let found = generations(home)?;
    let Some(newest) = found.last().copied() else {
        return Ok((open_fresh(home, identity)?, None));
    };
    match open_existing(newest, home, identity) {
        Ok(opened) => {
            remove_all_but(&opened.dir, home)?;
            Ok((opened, None))
        }
        Err(error) => {
            let discarded = Discarded { reason: error.reason.to_string() };
            Ok((open_fresh(home, identity)?, Some(discarded)))
        }
    }
}

/// Opens what is in `home` and changes nothing when that cannot be used; `None` when nothing is there.
pub(crate) fn open_as_it_is(home: &Path, identity: Identity) -> Result<Option<Opened>, StoreError> {
    generations(home)?.last().map(|newest| open_existing(*newest, home, identity)).transpose()
}

/// Makes an empty store in the next generation and deletes the ones before.
pub(crate) fn open_fresh(home: &Path, identity: Identity) -> Result<Opened, StoreError> {
    let number = generations(home)?.last().map_or(0, |newest| newest.number) + 1;
    let dir = Generation { format: FORMAT_VERSION, number }.dir(home);
    let opened = on_own_thread(open_budget(0), move || {
        let db = open_sled(&dir)?;
        let summary = Summary::empty(identity);
        write_summary(&db, &summary)?;
        Ok(Opened { db, summary, dir })
    })?;
    remove_all_but(&opened.dir, home)?;
    Ok(opened)
}

fn open_existing(generation: Generation, home: &Path, identity: Identity) -> Result<Opened, StoreError> {
    if generation.format != FORMAT_VERSION {
        let theirs = generation.format;
        return Err(StoreError::new(format!("it has format `{theirs}`, this program writes `{FORMAT_VERSION}`")));
    }
    let dir = generation.dir(home);
    let budget = open_budget(bytes_below(&dir).map_err(|error| no_access(&dir, &error))?);
    on_own_thread(budget, move || {
        let db = open_sled(&dir)?;
        let summary = checked(&db, identity)?;
        Ok(Opened { db, summary, dir })
    })
}

fn open_sled(dir: &Path) -> Result<sled::Db, StoreError> {
    let config = sled::Config::new().path(dir).cache_capacity(CACHE_BYTES).flush_every_ms(Some(FLUSH_EVERY_MS));
    for _ in 1..LOCK_TRIES {
        match config.open() {
            Err(error) if is_lock_held(&error) => thread::sleep(LOCK_PAUSE),
            opened => return Ok(opened?),
        }
    }
    Ok(config.open()?)
}

/// sled's lock outlives its database for a moment, in its own threads and in a process that was forked but
/// has not yet become another program. It has no error of its own.
fn is_lock_held(error: &sled::Error) -> bool {
    matches!(error, sled::Error::Io(io) if io.to_string().contains("could not acquire lock"))
}

/// Reads everything once: each value against its checksum, and all of them against the summary.
///
/// Each value is looked up by its key too. That finds an index of sled's that does not lead to it, and it bounds what
/// this leaves in memory: sled evicts from a 256th of its cache after 64 accesses to that part, and a scan accesses
/// each leaf once, so that up to 16,384 of them would stay, whatever the size of the cache.
fn checked(db: &sled::Db, identity: Identity) -> Result<Summary, StoreError> {
    let sealed = db.get(SUMMARY_KEY)?.ok_or_else(|| StoreError::new("it has no summary"))?;
    let summary: Summary = codec::decode(unseal(SUMMARY_KEY, &sealed)?)?;
    identity.check(&summary.identity)?;
    let mut totals = Totals::default();
    for entry in db.iter() {
        let (key, sealed) = entry?;
        if outer_key(&key).is_some() {
            if db.get(&key)?.as_ref() != Some(&sealed) {
                let key = key.escape_ascii().to_string();
                return Err(StoreError::new(format!("a scan finds the key `{key}`, a look-up does not")));
            }
            unseal(&key, &sealed)?;
            totals.add(&key, &sealed);
        }
    }
    if totals != summary.totals {
        let (is, should) = (totals.entries, summary.totals.entries);
        return Err(StoreError::new(format!("its `{is}` entries are not the `{should}` that its summary tells of")));
    }
    within_ceiling(db.size_on_disk()?, totals.bytes)?;
    Ok(summary)
}

fn write_summary(db: &sled::Db, summary: &Summary) -> Result<(), StoreError> {
    db.insert(SUMMARY_KEY, seal(SUMMARY_KEY, &codec::encode(summary)?))?;
    Ok(())
}

fn within_ceiling(on_disk: u64, content: u64) -> Result<(), StoreError> {
    let ceiling = content.saturating_mul(SIZE_RATIO_MAX).saturating_add(SIZE_SLACK_BYTES);
    if on_disk <= ceiling {
        return Ok(());
    }
    Err(StoreError::new(format!("it takes `{on_disk}` bytes on disk for `{content}` bytes of content")))
}

fn open_budget(bytes_on_disk: u64) -> Duration {
    Duration::from_secs(OPEN_SLACK_S + bytes_on_disk / OPEN_BYTES_PER_S_MIN)
}

/// Runs `work` on a thread of its own. When the time is over the thread is left to itself: it holds only a
/// generation that nobody will open again.
fn on_own_thread<T: Send + 'static>(
    budget: Duration,
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    let (sender, receiver) = mpsc::sync_channel(1);
    let run = move || {
        // Nobody listens any more when the time was over: then the result is dropped, and with it the database.
        let _ = sender.send(caught(work));
    };
    let spawned = thread::Builder::new().name("state-store-open".to_owned()).spawn(run);
    spawned.map_err(|error| StoreError::new(format!("no thread to open it on: {error}")))?;
    receiver
        .recv_timeout(budget)
        .unwrap_or_else(|_| Err(StoreError::new(format!("it did not open within {} s", budget.as_secs()))))
}

/// Turns a panic of sled into an error. What the panic interrupted must not be used afterwards.
pub(crate) fn caught<T>(work: impl FnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        Err(StoreError::new(format!("the engine panicked: {}", panic_text(panic.as_ref()).unwrap_or("no message"))))
    })
}

fn panic_text(panic: &(dyn Any + Send)) -> Option<&str> {
    panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str))
}

/// All generations, the newest last. Other names are left alone: they are not ours.
fn generations(home: &Path) -> Result<Vec<Generation>, StoreError> {
    let list = || -> io::Result<Vec<Generation>> {
        fs::create_dir_all(home)?;
        let mut found = Vec::new();
        for entry in fs::read_dir(home)? {
            found.extend(entry?.file_name().to_str().and_then(Generation::parse));
        }
        found.sort_by_key(|generation| generation.number);
        Ok(found)
    };
    list().map_err(|error| no_access(home, &error))
}

fn remove_all_but(kept: &Path, home: &Path) -> Result<(), StoreError> {
    for dir in generations(home)?.into_iter().map(|generation| generation.dir(home)).filter(|dir| dir != kept) {
        remove(&dir).map_err(|error| no_access(&dir, &error))?;
    }
    Ok(())
}

/// Removes all generations of a store that nobody has open.
pub(crate) fn remove_home(home: &Path) -> Result<(), StoreError> {
    remove(home).map_err(|error| no_access(home, &error))
}

fn remove(path: &Path) -> io::Result<()> {
    let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    match removed {
        // A thread of the discarded database may have taken its own file away meanwhile.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

fn bytes_below(dir: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        bytes += if entry.file_type()?.is_dir() { bytes_below(&entry.path())? } else { entry.metadata()?.len() };
    }
    Ok(bytes)
}

fn no_access(path: &Path, error: &io::Error) -> StoreError {
    StoreError::new(format!("`{}` cannot be used: {error}", path.display()))
}

impl From<sled::Error> for StoreError {
    fn from(error: sled::Error) -> Self {
        Self::new(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_ours_are_generations() {
        assert_eq!(Generation::parse("format-1.12"), Some(Generation { format: 1, number: 12 }));
        for other in ["format-1", "format-a.1", "format-1.2.3", "lost+found", ""] {
            assert_eq!(Generation::parse(other), None, "{other}");
        }
    }

    #[test]
    fn the_ceiling_grows_with_the_content() {
        assert!(within_ceiling(SIZE_SLACK_BYTES, 0).is_ok());
        assert!(within_ceiling(SIZE_SLACK_BYTES + 1, 0).is_err());
        assert!(within_ceiling(9 << 30, 1 << 30).is_ok());
        assert!(within_ceiling((9 << 30) + 1, 1 << 30).is_err());
        assert!(within_ceiling(u64::MAX, u64::MAX).is_ok());
    }

    #[test]
    fn a_panic_while_opening_is_an_error_with_its_message() {
        let error = on_own_thread::<()>(open_budget(0), || panic!("page 7 is gone")).expect_err("panicked");
        assert!(error.to_string().contains("page 7 is gone"), "{error}");
    }

    #[test]
    fn opening_that_never_ends_is_given_up() {
        let (hold, held) = mpsc::sync_channel::<()>(0);
        let error = on_own_thread(Duration::ZERO, move || {
            held.recv().ok();
            Ok(())
        });
        drop(hold);
        assert!(error.expect_err("given up").to_string().contains("did not open within 0 s"));
    }
}
