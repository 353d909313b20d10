//! The mark in the object store. It says whose texts and files lie there, so that a store that is another
//! deployment's, or that was emptied, is noticed at the start and not at the first text that is missing.

use std::{
    fs::{self, File},
    io::{ErrorKind, Write},
    path::Path,
};

use anyhow::{Context, bail};
use reenact_events::LogId;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The mark's file in the folder.
pub(super) const MARK: &str = "deployment";

/// Whose store it is, and which.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// The log whose texts and files lie here.
    pub log_id: LogId,
    /// Names the store among all others.
    pub store: Uuid,
}

/// The mark of a store, and whether it was put there just now.
///
/// # Errors
/// When the store is another log's, or cannot be used.
pub fn mark(folder: &Path, log_id: LogId) -> anyhow::Result<(Mark, bool)> {
    let (file, shown) = (folder.join(MARK), folder.display());
    let is_new = match own(folder, log_id)? {
        Some(_) => false,
        None => put(folder, Mark { log_id, store: new_name() })
            .with_context(|| format!("the object store `{shown}` cannot be written"))?,
    };
    // Of two processes that mark it at once one is first; both read what stands there.
    let mark = own(folder, log_id)?.with_context(|| format!("`{}` was there and is gone", file.display()))?;
    Ok((mark, is_new))
}

/// The mark of a store that is this log's, or nobody's yet.
///
/// # Errors
/// When the store is another log's, or cannot be read.
pub fn own(folder: &Path, log_id: LogId) -> anyhow::Result<Option<Mark>> {
    let mark = read(folder)?;
    if let Some(other) = mark.filter(|mark| mark.log_id != log_id) {
        bail!(
            "the object store `{}` holds the texts and files of log {}, and not those of {log_id}: give this \
             deployment another `--objects`. Two that share one would remove each other's",
            folder.display(),
            other.log_id
        );
    }
    Ok(mark)
}

#[expect(clippy::disallowed_methods, reason = "a store's name follows from nothing: two stores must never share one")]
fn new_name() -> Uuid {
    Uuid::new_v4()
}

/// The mark of a store, if it has one.
///
/// # Errors
/// When it cannot be read.
pub fn read(folder: &Path) -> anyhow::Result<Option<Mark>> {
    let file = folder.join(MARK);
    match fs::read(&file) {
        Ok(text) => {
            let unreadable = || format!("`{}` does not say whose object store this is: restore it", file.display());
            Ok(Some(serde_json::from_slice(&text).with_context(unreadable)?))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("`{}` cannot be read", file.display())),
    }
}

/// Puts the mark there, whole or not at all; false when there is one already.
fn put(folder: &Path, mark: Mark) -> std::io::Result<bool> {
    fs::create_dir_all(folder)?;
    let draft = folder.join(format!(".{MARK}-{}", mark.store));
    let mut written = File::create_new(&draft)?;
    written.write_all(serde_json::to_string(&mark)?.as_bytes())?;
    written.sync_all()?;
    let linked = fs::hard_link(&draft, folder.join(MARK));
    fs::remove_file(&draft)?;
    match linked {
        Ok(()) => File::open(folder)?.sync_all().map(|()| true),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(number: u128) -> LogId {
        LogId(Uuid::from_u128(number))
    }

    #[test]
    fn a_store_is_marked_once_and_belongs_to_one_log() {
        let folder = tempfile::tempdir().unwrap();
        let store = folder.path().join("not/there/yet");
        let (first, is_new) = mark(&store, log(1)).unwrap();
        assert!(is_new);
        assert_eq!(mark(&store, log(1)).unwrap(), (first, false));
        let refused = mark(&store, log(2)).unwrap_err().to_string();
        assert!(refused.contains("`--objects`") && refused.contains(&log(1).to_string()), "{refused}");
        assert_eq!(fs::read_dir(&store).unwrap().count(), 1, "no draft is left");
    }

    #[test]
    fn processes_that_mark_a_store_at_once_agree() {
        let folder = tempfile::tempdir().unwrap();
        let marks: Vec<_> = std::thread::scope(|scope| {
            let tries: Vec<_> = (0..8).map(|_| scope.spawn(|| mark(folder.path(), log(1)).unwrap())).collect();
            tries.into_iter().map(|marked| marked.join().unwrap()).collect()
        });
        assert!(marks.iter().all(|(mark, _)| *mark == marks[0].0), "{marks:?}");
        assert_eq!(marks.iter().filter(|(_, is_new)| *is_new).count(), 1);
    }
}
