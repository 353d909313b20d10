//! Generations as files in the data directory: `views-g1.db`, `views-g2.db`, … and `views.db`, a symbolic link to the
//! one that is live. Whoever opens `views.db` with any SQLite gets the live rows.

use std::{
    fs::{self, File},
    io::{self, ErrorKind},
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use reenact_events::{LogId, PartitionId};
use rusqlite::{Connection, OpenFlags};
use tokio::runtime::Handle;

use super::{Fill, GenerationError, Generations};
use crate::{
    Loader, Position, ViewError, Views,
    sql::{
        database::Database,
        sqlite::{Sqlite, place, schema, view_error},
        write,
    },
};

/// What readers open.
const POINTER: &str = "views.db";
/// Held by whoever writes the views.
const LOCK: &str = "views.lock";

/// The generations in a data directory.
#[derive(Debug)]
pub struct Files {
    folder: PathBuf,
    log_id: LogId,
    partitions: u32,
    /// Keeps other processes out as long as it is open; absent where nothing is written.
    _lock: Option<File>,
}

impl Files {
    /// Takes the generations to change them. Without a live one the first is named as such.
    ///
    /// # Errors
    /// When another process has them, or the folder cannot be written.
    pub fn open(folder: &Path, log_id: LogId, partitions: u32) -> Result<Self, GenerationError> {
        let lock = lock(folder)?;
        let files = Self { folder: folder.to_owned(), log_id, partitions, _lock: Some(lock) };
        if files.pointed()?.is_none() {
            let next = files.numbers()?.last().map_or(1, |last| last + 1);
            files.point_to(next)?;
        }
        Ok(files)
    }

    /// Looks at the generations of a deployment that may be running.
    #[must_use]
    pub fn look(folder: &Path, log_id: LogId, partitions: u32) -> Self {
        Self { folder: folder.to_owned(), log_id, partitions, _lock: None }
    }

    /// The file of a generation.
    #[must_use]
    pub fn file(&self, number: u32) -> PathBuf {
        self.folder.join(name(number))
    }

    fn pointer(&self) -> PathBuf {
        self.folder.join(POINTER)
    }

    fn failed(&self, path: &Path, error: &io::Error) -> GenerationError {
        unusable(path, error)
    }

    /// What the pointer names, if there is one.
    fn pointed(&self) -> Result<Option<u32>, GenerationError> {
        let path = self.pointer();
        let target = match fs::read_link(&path) {
            Ok(target) => target,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) if error.kind() == ErrorKind::InvalidInput => {
                return Err(GenerationError::BadPointer { path, reason: "it is no symbolic link".to_owned() });
            }
            Err(error) => return Err(self.failed(&path, &error)),
        };
        match target.to_str().and_then(number) {
            Some(number) => Ok(Some(number)),
            None => Err(GenerationError::BadPointer { path, reason: format!("it leads to `{}`", target.display()) }),
        }
    }

    /// Replaces the pointer as one step, and waits until that is on the disk.
    fn point_to(&self, number: u32) -> Result<(), GenerationError> {
        let (pointer, draft) = (self.pointer(), self.folder.join(format!("{POINTER}.new")));
        let replace = || {
            match fs::remove_file(&draft) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            symlink(name(number), &draft)?;
            fs::rename(&draft, &pointer)?;
            File::open(&self.folder)?.sync_all()
        };
        replace().map_err(|error| self.failed(&pointer, &error))
    }
}

fn name(number: u32) -> String {
    format!("views-g{number}.db")
}

/// The generation whose file has this name.
fn number(name: &str) -> Option<u32> {
    let digits = name.strip_prefix("views-g")?.strip_suffix(".db")?;
    digits.parse().ok().filter(|number| self::name(*number) == name)
}

fn unusable(path: &Path, error: &io::Error) -> GenerationError {
    ViewError::Unusable { database: place(path), reason: error.to_string().into() }.into()
}

fn lock(folder: &Path) -> Result<File, GenerationError> {
    let path = folder.join(LOCK);
    let lock = File::create(&path).map_err(|error| unusable(&path, &error))?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(fs::TryLockError::WouldBlock) => Err(GenerationError::InUse { folder: folder.to_owned() }),
        Err(fs::TryLockError::Error(error)) => Err(unusable(&path, &error)),
    }
}

impl Generations for Files {
    fn numbers(&self) -> Result<Vec<u32>, GenerationError> {
        let list = || {
            let names = fs::read_dir(&self.folder)?.map(|entry| entry.map(|entry| entry.file_name()));
            let numbers = names.map(|name| name.map(|name| name.to_str().and_then(number)));
            numbers.filter_map(Result::transpose).collect::<io::Result<Vec<_>>>()
        };
        let mut numbers = list().map_err(|error| self.failed(&self.folder, &error))?;
        numbers.sort_unstable();
        Ok(numbers)
    }

    fn live(&self) -> Result<u32, GenerationError> {
        let nothing = || {
            let reason = "nothing was ever served from here".to_owned();
            GenerationError::BadPointer { path: self.pointer(), reason }
        };
        self.pointed()?.ok_or_else(nothing)
    }

    fn positions(&self, number: u32) -> Result<Vec<Position>, GenerationError> {
        self.known(number)?;
        let path = self.file(number);
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&path, flags).map_err(|error| view_error(&path, &error))?;
        let sqlite = Sqlite { connection: &connection, path: &path };
        sqlite.batch("PRAGMA busy_timeout = 5000;")?;
        let is_empty = schema::known_version(sqlite)? == 0;
        let at = |partition| match is_empty {
            true => Ok(Position::start(partition)),
            false => write::position(Database::Sqlite(sqlite), partition),
        };
        let positions: Result<Vec<_>, _> = (0..self.partitions).map(PartitionId).map(at).collect();
        match positions {
            // It was begun and has come no further: its first rows are its positions.
            Err(ViewError::BadRow { .. }) => Ok((0..self.partitions).map(PartitionId).map(Position::start).collect()),
            positions => Ok(positions?),
        }
    }

    fn loader(&self, number: u32) -> Result<Loader, GenerationError> {
        self.beside(number)?;
        Ok(Loader::open(&self.file(number), self.log_id, self.partitions)?)
    }

    fn swap(&self, number: u32, views: Option<&Views>, fill: Fill<'_>) -> Result<(), GenerationError> {
        self.known(number)?;
        self.beside(number)?;
        let Some((views, files)) = views.and_then(|views| Some((views, views.files()?))) else {
            // Live rows that cannot be read are no reason to keep them.
            let live = self.positions(self.live()?).unwrap_or_default();
            let live: Vec<_> = live.iter().map(|live| (live.partition, live.next_offset)).collect();
            fill(&live)?;
            return self.point_to(number);
        };
        let runtime = Handle::current();
        let writer = runtime.block_on(files.stop_writing())?;
        let partitions = (0..self.partitions).map(PartitionId);
        let live: Vec<_> = partitions.map(|partition| (partition, views.position(partition))).collect();
        fill(&live)?;
        let (file, switch) = (self.file(number), || self.point_to(number));
        runtime.block_on(files.move_to(writer, &file, switch, |nexts| views.stand_at(nexts)))?;
        views.are_others();
        Ok(())
    }

    fn remove(&self, number: u32) -> Result<(), GenerationError> {
        self.known(number)?;
        self.beside(number)?;
        Ok(schema::discard(&self.file(number))?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(folder: &Path) -> Result<Files, GenerationError> {
        Files::open(folder, LogId::default(), 1)
    }

    #[test]
    fn the_first_generation_is_live_before_it_has_a_file() {
        let folder = tempfile::tempdir().expect("folder");
        let files = open(folder.path()).expect("opens");
        assert_eq!((files.live().expect("live"), files.numbers().expect("lists")), (1, vec![]));
        assert_eq!(fs::read_link(folder.path().join("views.db")).expect("a link"), Path::new("views-g1.db"));
    }

    #[test]
    fn one_process_has_the_generations_at_a_time() {
        let folder = tempfile::tempdir().expect("folder");
        let first = open(folder.path()).expect("opens");
        assert!(matches!(open(folder.path()), Err(GenerationError::InUse { .. })));
        drop(first);
        open(folder.path()).expect("opens again");
    }

    #[test]
    fn what_is_live_is_neither_filled_nor_removed_and_what_is_not_there_is_named() {
        let folder = tempfile::tempdir().expect("folder");
        let files = open(folder.path()).expect("opens");
        assert!(matches!(files.loader(1), Err(GenerationError::Live { number: 1 })));
        drop(files.loader(2).expect("is made"));
        files.swap(2, None, &mut |_| Ok(())).expect("switches");
        assert!(matches!(files.remove(2), Err(GenerationError::Live { number: 2 })));
        let unknown = files.swap(7, None, &mut |_| Ok(())).expect_err("is not there").to_string();
        assert!(unknown.ends_with("there are: 2"), "{unknown}");
        assert_eq!((files.live().expect("live"), files.next().expect("next")), (2, 3));
    }

    #[test]
    fn a_pointer_that_is_lost_begins_a_generation_that_nobody_has() {
        let folder = tempfile::tempdir().expect("folder");
        let files = open(folder.path()).expect("opens");
        drop(files.loader(4).expect("is made"));
        drop(files);
        fs::remove_file(folder.path().join("views.db")).expect("is there");
        assert_eq!(open(folder.path()).expect("opens").live().expect("live"), 5);
    }

    #[test]
    fn a_file_in_the_place_of_the_pointer_is_not_touched() {
        let folder = tempfile::tempdir().expect("folder");
        fs::write(folder.path().join("views.db"), "mine").expect("writes");
        let error = open(folder.path()).expect_err("is refused").to_string();
        assert!(error.contains("no symbolic link") && error.contains("move it away"), "{error}");
        assert_eq!(fs::read(folder.path().join("views.db")).expect("reads"), b"mine");
    }
}
