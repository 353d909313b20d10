//! How a log is opened, and why it could not be.

use std::{io, path::PathBuf, sync::Arc};

use reenact_events::{Clock, LogError};

/// What a commit's answer promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// An answered commit survives a power cut.
    #[default]
    Full,
    /// An answered commit survives the end of the process; a power cut may take the last ones back. Nothing
    /// is ever torn or out of order.
    Relaxed,
}

/// How to open a log.
#[derive(Clone)]
pub struct Options {
    /// How many partitions; fixed when the log is created.
    pub partitions: u32,
    /// What a commit's answer promises.
    pub durability: Durability,
    /// Stamps the claims.
    pub clock: Arc<dyn Clock>,
    /// The database may have this many bytes; at the limit it behaves as on a full disk.
    pub bytes_max: Option<u64>,
}

impl Options {
    /// One partition, full durability, no limit.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { partitions: 1, durability: Durability::Full, clock, bytes_max: None }
    }
}

/// Why a log could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process has it.
    #[error(
        "the data directory `{}` is in use by {}: stop it, or choose another directory",
        directory.display(),
        holder.map_or("another process".to_owned(), |process| format!("process {process}"))
    )]
    InUse {
        /// Which directory.
        directory: PathBuf,
        /// The process's number, if it left one.
        holder: Option<u32>,
    },
    /// The file is there but is not a log of ours.
    #[error("`{}` is not a log of reenact: {reason}; choose another directory", file.display())]
    Foreign {
        /// Which file.
        file: PathBuf,
        /// What it is instead.
        reason: String,
    },
    /// A newer version wrote it.
    #[error(
        "`{}` has format {found} and this version reads up to {known}: use the version that wrote it, or a newer one",
        file.display()
    )]
    Newer {
        /// Which file.
        file: PathBuf,
        /// Its format.
        found: i32,
        /// The newest format that is known here.
        known: i32,
    },
    /// What is stored is not what was written.
    #[error("`{}` is damaged: {reason}; restore it from a backup", file.display())]
    Corrupt {
        /// Which file.
        file: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// The log was created with another number of partitions.
    #[error("the log has {stored} partitions and cannot be changed to {wanted}: configure {stored}")]
    Partitions {
        /// What it was created with.
        stored: u32,
        /// What was asked for.
        wanted: u32,
    },
    /// A log cannot have so many, or so few.
    #[error("a log has from 1 to {max} partitions, not {wanted}")]
    PartitionsOutOfRange {
        /// What was asked for.
        wanted: u32,
        /// The most that it can have.
        max: u32,
    },
    /// No space is left.
    #[error("the disk is full at `{}`: free some space", path.display())]
    DiskFull {
        /// Where.
        path: PathBuf,
    },
    /// This user may not do it.
    #[error("no permission to read and write `{}`: change its owner or mode, or choose another directory", path.display())]
    PermissionDenied {
        /// Where.
        path: PathBuf,
    },
    /// Nothing is there to be read.
    #[error("there is no log in `{}`", directory.display())]
    Missing {
        /// Where.
        directory: PathBuf,
    },
    /// The SQLite that this program was built with can corrupt a log.
    #[error("SQLite {found} is too old, {needed} is needed: build with the bundled one")]
    SqliteTooOld {
        /// What was found.
        found: String,
        /// What is needed.
        needed: String,
    },
    /// The operating system said no.
    #[error("`{}` cannot be used: {source}", path.display())]
    Io {
        /// Where.
        path: PathBuf,
        /// What it said.
        source: io::Error,
    },
    /// SQLite said no.
    #[error("`{}` cannot be opened: {source}", file.display())]
    Sqlite {
        /// Which file.
        file: PathBuf,
        /// What it said.
        source: rusqlite::Error,
    },
}

impl OpenError {
    /// What an error of SQLite means to who opens `file`.
    pub(crate) fn of_sqlite(file: &std::path::Path, source: rusqlite::Error) -> Self {
        use rusqlite::ErrorCode as Code;
        let file = file.to_owned();
        match source.sqlite_error_code() {
            Some(Code::NotADatabase) => Self::Foreign { file, reason: "it is no SQLite database".to_owned() },
            Some(Code::DatabaseCorrupt) => Self::Corrupt { file, reason: source.to_string() },
            Some(Code::DiskFull) => Self::DiskFull { path: file },
            Some(Code::PermissionDenied | Code::ReadOnly | Code::CannotOpen) => Self::PermissionDenied { path: file },
            Some(Code::DatabaseBusy | Code::DatabaseLocked) => {
                Self::InUse { directory: file.parent().map(Into::into).unwrap_or_default(), holder: None }
            }
            _ => Self::Sqlite { file, source },
        }
    }

    /// What damage that a reader found means to who opens `file`.
    pub(crate) fn of_log(file: &std::path::Path, error: &LogError) -> Self {
        Self::Corrupt { file: file.to_owned(), reason: error.to_string() }
    }
}
