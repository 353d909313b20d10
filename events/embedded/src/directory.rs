//! The log's directory, held by one process at a time.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io::{self, Read, Seek, Write},
    path::{Path, PathBuf},
    time::Duration,
};

use crate::OpenError;

const LOCK: &str = "LOCK";
const DATABASE: &str = "log.db";

/// The database's file in a log's directory.
pub(crate) fn database(directory: &Path) -> PathBuf {
    directory.join(DATABASE)
}

/// An owner that has taken its number out is leaving: a process that it is just starting may share the lock for
/// a moment longer. It is waited for so often and so long.
const LEAVING_TRIES: u32 = 100;
const LEAVING_PAUSE: Duration = Duration::from_millis(20);

/// A directory that nobody else can open while this lives. The lock is the operating system's, so it ends
/// with the process however that ends; the number in the file only serves the message to others.
pub(crate) struct Directory {
    pub(crate) database: PathBuf,
    lock: File,
}

impl Directory {
    /// Creates the directory if need be, and locks it.
    pub(crate) fn lock(path: &Path) -> Result<Self, OpenError> {
        std::fs::create_dir_all(path).map_err(|error| io_error(path, error))?;
        let file = path.join(LOCK);
        let open = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&file);
        let mut lock = open.map_err(|error| io_error(&file, error))?;
        let mut tries = 0;
        loop {
            match lock.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) => match holder(&mut lock).map_err(|error| io_error(&file, error))? {
                    None if tries < LEAVING_TRIES => {
                        tries += 1;
                        std::thread::sleep(LEAVING_PAUSE);
                    }
                    holder => return Err(OpenError::InUse { directory: path.to_owned(), holder }),
                },
                Err(TryLockError::Error(error)) => return Err(io_error(&file, error)),
            }
        }
        sign(&mut lock).map_err(|error| io_error(&file, error))?;
        Ok(Self { database: database(path), lock })
    }

    /// Makes the names of the files that were created durable.
    pub(crate) fn sync(&self) -> Result<(), OpenError> {
        let directory = self.database.parent().unwrap_or(Path::new("."));
        for directory in [Some(directory), directory.parent()].into_iter().flatten() {
            let directory = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
            match File::open(directory).and_then(|opened| opened.sync_all()) {
                // Who may use a directory may not be allowed to read the one above it.
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
                other => other.map_err(|error| io_error(directory, error))?,
            }
        }
        Ok(())
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // The lock ends with the file handle; only the number is taken out, for whoever looks.
        if let Err(error) = self.lock.set_len(0) {
            tracing::debug!(%error, "the lock file keeps this process's number");
        }
    }
}

/// The process that says it has the lock, if one does.
fn holder(lock: &mut File) -> io::Result<Option<u32>> {
    let mut text = String::new();
    lock.rewind()?;
    lock.read_to_string(&mut text)?;
    Ok(text.trim().parse().ok())
}

fn sign(lock: &mut File) -> io::Result<()> {
    lock.set_len(0)?;
    lock.rewind()?;
    writeln!(lock, "{}", std::process::id())
}

pub(crate) fn io_error(path: &Path, error: io::Error) -> OpenError {
    let path = path.to_owned();
    match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => OpenError::PermissionDenied { path },
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => OpenError::DiskFull { path },
        _ => OpenError::Io { path, source: error },
    }
}
