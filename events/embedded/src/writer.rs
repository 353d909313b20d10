//! The one thread that writes. It takes whatever has queued up since the last commit into one transaction, so
//! that all of it shares one flush to the disk.
//!
//! **Failing closed.** After an error that leaves doubt about the disk or the connection, the connection is
//! dropped and never used again. The next request opens a new one, which checks the log as at the start and
//! commits a small change of its own: that buries whatever the failed commit left half written.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use reenact_events::{LogError, PartitionId};
use rusqlite::{Connection, ErrorCode};
use tokio::sync::{mpsc, watch};

use crate::{
    Options,
    directory::Directory,
    ledger::{Ledger, Standing, Stop},
    open::{self, Existing, Opened},
    request::{Failure, Request},
    schema::Identity,
    view::View,
};

/// So many requests may wait; who comes later waits at the door.
pub(crate) const QUEUE_MAX: usize = 1024;

/// So many requests may share a transaction: enough to share a flush, few enough to answer soon.
const GROUP_MAX: usize = 256;

/// A checkpoint is due after about so many bytes of log.
const CHECKPOINT_BYTES: u64 = 16 * 1024 * 1024;

/// What each transaction adds to the write-ahead file beside the events: pages are written whole.
const TRANSACTION_BYTES: u64 = 4 * 4096;

/// See the module.
pub(crate) struct Writer {
    /// Declared before the directory: the connection closes before the lock is released.
    connection: Option<Connection>,
    directory: Directory,
    options: Options,
    identity: Identity,
    views: Vec<watch::Sender<View>>,
    /// Partitions that a lease of this process was given for: its effects may still be at work.
    claimed: BTreeSet<PartitionId>,
    bytes_since_checkpoint: u64,
}

impl Writer {
    /// A writer over an opened database.
    pub(crate) fn new(directory: Directory, options: Options, opened: Opened) -> Self {
        let Opened { connection, identity, standings } = opened;
        let views = standings.values().map(|standing| watch::Sender::new(View::from(standing))).collect();
        Self {
            connection: Some(connection),
            directory,
            options,
            identity,
            views,
            claimed: BTreeSet::new(),
            bytes_since_checkpoint: 0,
        }
    }

    /// What the streams follow, by partition.
    pub(crate) fn views(&self) -> Vec<watch::Receiver<View>> {
        self.views.iter().map(watch::Sender::subscribe).collect()
    }

    /// Serves until nobody can ask any more.
    pub(crate) fn run(mut self, mut requests: mpsc::Receiver<Request>) {
        while let Some(first) = requests.blocking_recv() {
            let mut group = vec![first];
            while group.len() < GROUP_MAX
                && let Ok(next) = requests.try_recv()
            {
                group.push(next);
            }
            self.serve(group);
            self.checkpoint_if_due();
        }
    }

    fn serve(&mut self, mut group: Vec<Request>) {
        let connection = match self.connection.take().map_or_else(|| self.reopen(), Ok) {
            Ok(connection) => connection,
            Err(failure) => return group.into_iter().for_each(|request| request.fail(&failure)),
        };
        let outcome = self.transact(&connection, &mut group);
        match outcome {
            Ok(standings) => {
                self.connection = Some(connection);
                self.bytes_since_checkpoint += TRANSACTION_BYTES + group.iter().map(Request::bytes).sum::<u64>();
                self.show(&standings);
                group.into_iter().for_each(Request::give);
            }
            Err(Ended { failure, usable }) => {
                tracing::error!(reason = %failure.reason(), usable, "the log could not commit");
                self.connection = usable.then_some(connection);
                group.into_iter().for_each(|request| request.fail(&failure));
            }
        }
    }

    fn transact(
        &mut self,
        connection: &Connection,
        group: &mut [Request],
    ) -> Result<BTreeMap<PartitionId, Standing>, Ended> {
        let standings = self.prepare(connection, group).map_err(|stop| roll_back(connection, &stop))?;
        match run(connection, "COMMIT") {
            Ok(()) => Ok(standings),
            Err(error) => Err(not_committed(connection, &error)),
        }
    }

    /// Everything up to the commit: an error in here means that nothing was written.
    fn prepare(
        &mut self,
        connection: &Connection,
        group: &mut [Request],
    ) -> Result<BTreeMap<PartitionId, Standing>, Stop> {
        run(connection, "BEGIN IMMEDIATE")?;
        let mut ledger = Ledger::new(connection, self.identity);
        for request in group {
            let at = request.partition();
            request.perform(&mut ledger, &mut self.claimed).map_err(|stop| stop.met_at(at))?;
        }
        ledger.finish()
    }

    /// Tells the streams, before anybody is answered: who was answered finds what was committed.
    fn show(&self, standings: &BTreeMap<PartitionId, Standing>) {
        for (partition, standing) in standings {
            if let Some(view) = self.views.get(partition.0 as usize) {
                view.send_replace(View::from(standing));
            }
        }
    }

    fn reopen(&mut self) -> Result<Connection, Failure> {
        let unwritten = |reason: String| {
            tracing::warn!(reason, "the log could not be opened again");
            Failure::Unwritten(reason.into())
        };
        let opened = open::open(&self.directory, &self.options, Existing::Required)
            .map_err(|error| unwritten(error.to_string()))?;
        if opened.identity != self.identity {
            return Err(unwritten(format!("`{}` was exchanged for another log", self.directory.database.display())));
        }
        tracing::info!("the log was opened again after an error");
        self.show(&opened.standings);
        Ok(opened.connection)
    }

    fn checkpoint_if_due(&mut self) {
        let Some(connection) = &self.connection else { return };
        if self.bytes_since_checkpoint < CHECKPOINT_BYTES {
            return;
        }
        self.bytes_since_checkpoint = 0;
        match connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())) {
            Ok(()) => {}
            // The events stay in the write-ahead file, which is as good a place, until there is room.
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::DiskFull) => {
                tracing::warn!(%error, "no checkpoint of the log");
            }
            Err(error) => {
                tracing::error!(%error, "the checkpoint of the log failed");
                self.connection = None;
            }
        }
    }
}

/// How a transaction ended that did not commit.
struct Ended {
    failure: Failure,
    /// Whether the connection is beyond doubt.
    usable: bool,
}

fn run(connection: &Connection, sql: &str) -> rusqlite::Result<()> {
    connection.prepare_cached(sql)?.execute([]).map(drop)
}

/// Ends a transaction that stopped before its commit.
fn roll_back(connection: &Connection, stop: &Stop) -> Ended {
    let harmless = match stop {
        Stop::Json(_) => true,
        Stop::Log(_) => false,
        Stop::Sqlite(error) => {
            matches!(error.sqlite_error_code(), Some(ErrorCode::DiskFull | ErrorCode::DatabaseBusy))
        }
    };
    let failure = match stop {
        Stop::Log(error @ LogError::Damaged { partition, .. }) => Failure::Damaged(*partition, error.clone()),
        _ => Failure::Unwritten(reason(stop)),
    };
    Ended { failure, usable: harmless && is_rolled_back(connection) }
}

/// Ends a transaction whose commit gave an error.
///
/// A full disk is met while the pages are written, of which the last makes the commit: then it is not there.
/// Any other error may have come after that.
fn not_committed(connection: &Connection, error: &rusqlite::Error) -> Ended {
    let full = error.sqlite_error_code() == Some(ErrorCode::DiskFull);
    if full && is_rolled_back(connection) {
        return Ended { failure: Failure::Unwritten(sqlite_reason(error)), usable: true };
    }
    Ended { failure: Failure::Unknown(sqlite_reason(error)), usable: false }
}

/// Rolls back, unless SQLite has already.
fn is_rolled_back(connection: &Connection) -> bool {
    connection.is_autocommit() || run(connection, "ROLLBACK").is_ok()
}

fn reason(stop: &Stop) -> Arc<str> {
    match stop {
        Stop::Sqlite(error) => sqlite_reason(error),
        Stop::Log(_) | Stop::Json(_) => stop.to_string().into(),
    }
}

fn sqlite_reason(error: &rusqlite::Error) -> Arc<str> {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => "the disk is full: free some space where the log is".into(),
        Some(ErrorCode::DatabaseBusy) => "another program is writing to the log's database: stop it".into(),
        _ => error.to_string().into(),
    }
}
